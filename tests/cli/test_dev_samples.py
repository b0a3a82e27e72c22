"""`gamed dev`: what is there from the start, and `--script` for a game's own tests."""

import contextlib
import json
import os
import signal
import sys
import time
from base64 import b64decode
from pathlib import Path
from secrets import token_bytes

from click.testing import CliRunner

from gamed.assets.store import AssetStore
from gamed.cli.commands import gamed
from gamed.cli.dev.setup import DATA, KEY_FILE, DevOptions, clear, prepare, prepare_assets
from gamed.cli.errors import CommandFailed, SetupError
from gamed.cli.paths import AUTH_DB
from gamed.cli.service.folder_lock import SERVE, Lock
from gamed.config.game import GameSettings
from gamed.crypto import Keys, Secret
from gamed.database.sqlite.offline import run_transaction
from gamed.dev.clients import BY_KEY
from gamed.players import tables as player_tables
from gamed.players.tables import set_state
from gamed.providers.base import ExternalIdentity
from tests.cli.process import GAMED, WAIT_SECONDS, CommandTestCase, await_end, free_port, get

ASKS = """
import json, os, urllib.request
players = json.load(open(os.environ["GAMED_PLAYERS"]))["players"]
def ask(path, who=None):
    fields = {"Authorization": "Bearer " + players[who]["access_token"]} if who else {}
    with urllib.request.urlopen(urllib.request.Request(os.environ["GAMED_URL"] + path, headers=fields)) as answer:
        return answer.read().decode()
print(json.dumps({
    "players": {who: json.loads(ask("/game/", who))["player"]["id"] for who in players},
    "names": [json.loads(ask("/game/", who))["player"]["name"] for who in players],
    "channels": list(json.loads(ask("/assets/"))["channels"]),
    "welcome": ask("/assets/stable/welcome.txt"),
    "secrets": [name for name in os.environ if "SECRET" in name or "KEY" in name],
    "place": os.path.dirname(os.environ["GAMED_PLAYERS"]),
    "server": os.environ["GAMED_SERVER"] == os.environ["GAMED_URL"],
    "umask": os.umask(0),
}))
"""


class SampleTests(CommandTestCase):
    def setUp(self) -> None:
        """Leave out the key of another store: `gamed dev` has its data in a folder of its own."""
        super().setUp()
        self.environ.clear()

    def script(self, text: str, *options: str) -> tuple[int, str, str]:
        """Run `gamed dev` with a Python program as the script; return exit code, stdout and stderr."""
        file = self.folder / "script.py"
        file.write_text(text)
        return self.run_command("dev", "--script", f"{sys.executable} {file}", *options)

    def test_script(self) -> None:
        """It finds the server, players who are signed in, a release; output and exit code are its own."""
        code, out, err = self.script(ASKS + "raise SystemExit(7)")
        self.assertEqual(code, 7, err)
        found = json.loads(out)
        self.assertEqual(list(found["players"]), ["anna", "bo"])
        self.assertEqual(len(set(found["players"].values())), 2)
        self.assertEqual(found["names"], ["Anna", "Bo"])
        self.assertEqual(sorted(found["channels"]), ["beta", "stable"])
        self.assertEqual((found["welcome"], found["secrets"]), ("Hello from a release.\n", ["GAMED_MATCH_SECRET"]))
        umask = os.umask(0o022)
        os.umask(umask)
        self.assertEqual((found["server"], found["umask"]), (True, umask))
        self.assertFalse(Path(found["place"]).exists())
        self.assertIn("The end of the server's log:", err)
        self.assertIn("method=GET route=/game/ status=200", err)

    def test_secrets_of_the_shell(self) -> None:
        """Secrets that the shell has, in whatever form, do not matter: this command makes its own."""
        for name in ("GAMED_MATCH_SECRET", "GAMED_DEV_DISCORD_SECRET", "GAMED_DEV_GOOGLE_SECRET"):
            self.environ[f"{name}_FILE"] = str(self.folder / "secret")
            self.environ[name] = "s" * 40
        code, out, err = self.script(ASKS)
        self.assertEqual(code, 0, err)
        self.assertEqual(json.loads(out)["secrets"], ["GAMED_MATCH_SECRET"])

    def test_output(self) -> None:
        """The output of a command that succeeds is all that is printed, on stdout and on stderr."""
        said = self.script("import sys\nprint('one')\nprint('two', file=sys.stderr)")
        self.assertEqual(said, (0, "one\n", "two\n"))

    def test_folder(self) -> None:
        """With a folder the players stay who they are, at either provider; a blocked one is left out."""
        folder = self.folder / "kept"
        ports = [f"--port={free_port()}", f"--provider-port={free_port()}", f"--folder={folder}"]
        found = json.loads(self.script(ASKS, *ports)[1])["players"]
        run_transaction(folder / DATA / AUTH_DB, lambda connection: set_state(connection, found["bo"], "blocked"))
        self.assertEqual(json.loads(self.script(ASKS, *ports)[1])["players"], {"anna": found["anna"]})
        indexer = Keys.of(Secret(b64decode((folder / KEY_FILE).read_text())), token_bytes).indexer
        place = json.loads((folder / "authentication.json").read_text())["providers"]["google"]["issuer"]
        for account in (
            ExternalIdentity("oauth2", place, BY_KEY["anna"].subjects["discord"]),
            ExternalIdentity("oidc", place, BY_KEY["anna"].subjects["google"]),
        ):
            index = account.index(indexer)
            owner = run_transaction(
                folder / DATA / AUTH_DB, lambda connection, index=index: player_tables.identity_owner(connection, index)
            )
            self.assertEqual(owner, found["anna"])

    def test_fresh(self) -> None:
        """Remove the folder that this command made; keep one that is in use or belongs to another user."""
        plan = DevOptions(8080, 8081, 8082, self.folder / "kept", temporary=False)
        clear(plan.folder)
        prepare(plan)
        (plan.folder / DATA).mkdir()
        lock = Lock.acquire(plan.folder / DATA, SERVE)
        self.assertRaises(CommandFailed, clear, plan.folder)
        lock.release()
        clear(plan.folder)
        self.assertFalse(plan.folder.exists())
        diary = self.folder / "notes" / "diary.txt"
        diary.parent.mkdir()
        diary.write_text("dear diary")
        self.assertRaises(SetupError, clear, diary.parent)
        self.assertEqual(diary.read_text(), "dear diary")

    def test_assets(self) -> None:
        """One's own folder is published as `stable`, each time; samples only where nothing is; or why it cannot be."""
        content, store = self.folder / "content", AssetStore(self.folder / "data" / "assets")
        content.mkdir()
        (content / "welcome.txt").write_text("Mine.")
        (self.folder / "data").mkdir()
        [shown] = prepare_assets(self.folder / "data", GameSettings(), content)
        own = store.pointer("stable").release
        self.assertEqual(shown, f"stable ({own})")
        self.assertEqual(prepare_assets(self.folder / "data", GameSettings(), None), [shown])
        (content / "more.txt").write_text("More.")
        prepare_assets(self.folder / "data", GameSettings(), content)
        self.assertNotEqual(store.pointer("stable").release, own)
        (content / "nul").symlink_to("welcome.txt")
        refusal = self.assertRaises(SetupError, prepare_assets, self.folder / "data", GameSettings(), content)
        self.assertIn("cannot be published:\n  nul: ", str(refusal))

    def test_usage(self) -> None:
        """A program that is not there is wrong usage; no server is started for it."""
        for command in ("gamed-is-no-such-program", "", "'"):
            done = CliRunner().invoke(gamed, ["dev", "--script", command])
            self.assertEqual(done.exit_code, 2, done.output)

    def test_what_it_leaves_running(self) -> None:
        """Ends with it, however it ended."""
        leaves = (
            "import os, subprocess, sys\n"
            f"child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep({WAIT_SECONDS})'])\n"
            "print(child.pid, flush=True)\nos.kill(os.getpid(), 9)"
        )
        code, out, _ = self.script(leaves)
        self.assertEqual(code, 128 + signal.SIGKILL)
        await_end(int(out))
        self.assertNotIn(str(WAIT_SECONDS), _command_of(int(out)))

    def test_stopped(self) -> None:
        """SIGTERM to gamed ends the script, too; nothing is left behind."""
        program, record = self.folder / "waits.py", self.folder / "record"
        program.write_text(
            "import os, sys, time\n"
            "print(os.getpid(), os.environ['GAMED_PLAYERS'], file=open(sys.argv[1], 'w'), flush=True)\n"
            f"time.sleep({WAIT_SECONDS})"
        )
        process = self.start(*GAMED, "dev", "--script", f"{sys.executable} {program} {record}")
        words = self.awaited(record).split()
        process.send_signal(signal.SIGTERM)
        self.assertNotEqual(process.wait(WAIT_SECONDS), 0)
        await_end(int(words[0]))
        self.assertFalse(Path(words[1]).parent.exists())

    def awaited(self, file: Path) -> str:
        deadline = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < deadline:
            with contextlib.suppress(FileNotFoundError):
                if (text := file.read_text()).endswith("\n"):
                    return text
            time.sleep(0.05)
        self.fail(f"nothing came:\n{self.output()}")

    def test_environment(self) -> None:
        """A person reads where everything is, on a port that is named."""
        port, provider_port = free_port(), free_port()
        process = self.start(*GAMED, "dev", f"--port={port}", f"--provider-port={provider_port}")
        self.await_answer(port, process)
        said = self.output()
        self.assertIn("Anna and Bo have played here before, Chidi and Dilek are new\n", said)
        self.assertIn(f"assets    http://127.0.0.1:{port}/assets/ has beta (r", said)
        [line] = [line for line in said.splitlines() if "has credentials" in line]
        file = Path(line.split()[0])
        self.assertEqual(file.stat().st_mode & 0o777, 0o600)
        token = json.loads(file.read_text())["players"]["anna"]["access_token"]
        self.assertEqual(get(port, "/game/", token)[0], 200)
        self.assertEqual(self.stop(process), 0)
        self.assertFalse(file.exists())


def _command_of(pid: int) -> str:
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/cmdline").read_text()
    return ""
