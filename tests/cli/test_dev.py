"""`gamed dev`: a server and a provider for this machine, from one command."""

import json
import signal
import subprocess
import time
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path

from click.testing import CliRunner

from gamed.cli.commands import gamed
from gamed.cli.dev.setup import MASTER_KEY_ENV
from gamed.config.providers import PRESETS
from gamed.dev.clients import EMULATED
from tests.cli.process import GAMED, WAIT_SECONDS, CommandTestCase, free_port, get
from tests.support import forks
from tests.support.covers import covers

EARLY_MS = (0, 100, 250, 500)


class DevTests(CommandTestCase):
    def dev(self, *options: str) -> tuple[forks.Process, int, int]:
        """Start `gamed dev`; return the process and its two ports."""
        port, provider_port = free_port(), free_port()
        process = self.start(*GAMED, "dev", f"--port={port}", f"--provider-port={provider_port}", *options)
        self.addCleanup(self.stop, process)  # a killed one would leave its temporary folder
        self.await_answer(port, process)
        return process, port, provider_port

    def refused(self, *arguments: str, expected: int = 78) -> str:
        code, out, err = self.run_command(*arguments)
        self.assertEqual((code, out), (expected, ""))
        return err

    def test_runs(self) -> None:
        """Both answer, it says where, and SIGTERM ends both with 0; a temporary folder is gone then."""
        temporary = self.folder / "temporary"
        temporary.mkdir()
        self.environ["TMPDIR"] = str(temporary)
        process, port, provider_port = self.dev()
        self.assertEqual(json.loads(get(port, "/auth/config")[1]), {"mode": "oauth", "providers": [*PRESETS]})
        self.assertEqual([*EMULATED, "steam"], [*PRESETS])
        status, document = get(provider_port, "/.well-known/openid-configuration")
        self.assertEqual((status, json.loads(document)["issuer"]), (200, f"http://127.0.0.1:{provider_port}"))
        said = self.output()
        self.assertIn(f"server    http://127.0.0.1:{port}\n", said)
        self.assertIn(f"provider  http://127.0.0.1:{provider_port} ", said)
        self.assertIn("for this machine only, never for players", said)
        self.assertNotIn("keep a copy", said)
        [command] = [line for line in said.splitlines() if line.endswith("assets content")]
        debian = {"PATH": "/usr/bin:/bin"}  # where there is no `python`
        ran = subprocess.run(command.split(), check=False, cwd=self.folder, env=debian, capture_output=True)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        [line] = [line for line in said.splitlines() if line.startswith("  folder ")]
        folder = Path(line.split()[1])
        self.assertEqual(folder.parent, temporary)
        self.assertTrue(folder.is_dir())
        self.assertEqual(self.stop(process), 0, self.output())
        self.assertFalse(folder.exists())

    def test_interrupt(self) -> None:
        """Ctrl-C leaves no temporary folder behind."""
        process, *_ = self.dev()
        [line] = [line for line in self.output().splitlines() if line.startswith("  folder ")]
        process.send_signal(signal.SIGINT)
        process.wait(WAIT_SECONDS)
        self.assertFalse(Path(line.split()[1]).exists())

    def test_ended_while_it_starts(self) -> None:
        """SIGTERM, a closed terminal and Ctrl-C leave no temporary folder, at every moment of a start."""
        temporary = self.folder / "tmp"
        temporary.mkdir()
        self.environ["TMPDIR"] = str(temporary)
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            for early_ms in EARLY_MS:
                ports = (f"--port={free_port()}", f"--provider-port={free_port()}")
                process = self.start(*GAMED, "dev", *ports)
                while not list(temporary.glob("gamed-dev-*")):
                    self.assertIsNone(process.poll(), self.output())
                    time.sleep(0.001)
                time.sleep(early_ms / 1000)
                process.send_signal(number)
                process.wait(WAIT_SECONDS)
                self.assertEqual(list(temporary.glob("gamed-dev-*")), [], (number, early_ms))

    @covers("threats/61")
    def test_only_loopback(self) -> None:
        """Its ports are on 127.0.0.1, and no option or variable puts them elsewhere."""
        self.environ["GAMED_PRIVATE_LISTEN"] = "1"
        _, *ports = self.dev()
        tables = Path("/proc/net/tcp").read_text() + Path("/proc/net/tcp6").read_text()
        listening = [line.split()[1] for line in tables.splitlines() if line.split()[3] == "0A"]
        for port in ports:
            self.assertEqual([name for name in listening if name.endswith(f":{port:04X}")], [f"0100007F:{port:04X}"])
        for option in ("--listen=tcp:0", "--private-listen", "--host=0.0.0.0"):
            self.assertEqual(self.gamed_here("dev", option)[0], 2)

    def test_folder(self) -> None:
        """A named folder stays: with the key, the data, and the members that the developer added."""
        folder = self.folder / "kept"
        process, *_ = self.dev(f"--folder={folder}")
        self.stop(process)
        file, key = folder / "authentication.json", (folder / "master.key").read_bytes()
        members = json.loads(file.read_text())
        self.assertEqual((folder / "master.key").stat().st_mode & 0o777, 0o600)
        self.assertNotIn("secret", file.read_text().replace("secret_env", ""))
        file.write_text(json.dumps({**members, "server_name": "Tryout", "mode": "local"}))
        process, port, _ = self.dev(f"--folder={folder}")
        self.assertEqual(json.loads(get(port, "/auth/config")[1])["mode"], "oauth")
        self.stop(process)
        self.assertEqual((folder / "master.key").read_bytes(), key)
        found = json.loads(file.read_text())
        self.assertEqual((found["server_name"], found["public_url"]), ("Tryout", f"http://127.0.0.1:{port}"))

    def test_a_folder_in_use(self) -> None:
        """A folder of which another process has the data is refused, and the message names the process."""
        folder = self.folder / "own"
        process, *_ = self.dev(f"--folder={folder}")
        ports = (f"--port={free_port()}", f"--provider-port={free_port()}")
        refusal = self.refused("dev", *ports, f"--folder={folder}", expected=1)
        needs = f"gamed dev (process {process.pid}) needs {folder}/data alone."
        self.assertEqual(refusal, f"gamed: {needs} Try again when it has finished.\n")

    def test_other_folders(self) -> None:
        """A folder with anything else in it, such as a real server's, is refused and left as it is."""
        folder = self.folder / "real"
        folder.mkdir()
        ports = [f"--port={free_port()}", f"--provider-port={free_port()}"]
        for text in ('{"mode": "local"}', json.dumps({"master_key_env": MASTER_KEY_ENV})[:-1], "[]"):
            (folder / "authentication.json").write_text(text)
            self.assertIn("Name an empty folder with --folder", self.refused("dev", *ports, f"--folder={folder}"))
            self.assertEqual([path.name for path in folder.iterdir()], ["authentication.json"])
            self.assertEqual((folder / "authentication.json").read_text(), text)

    def test_no_other_store(self) -> None:
        """A store that the developer added is refused: the data of a try are in the folder."""
        folder = self.folder / "own"
        folder.mkdir()
        members = {"master_key_env": MASTER_KEY_ENV, "store": "postgresql://gamed@localhost/gamed"}
        (folder / "authentication.json").write_text(json.dumps(members))
        ports = [f"--port={free_port()}", f"--provider-port={free_port()}"]
        self.assertIn("Take store out", self.refused("dev", *ports, f"--folder={folder}"))

    def test_page(self) -> None:
        """--static serves a game's page on a port of its own; its browser may ask the server, also after a restart."""
        root, folder, page_port = self.folder / "page", self.folder / "kept", free_port()
        root.mkdir()
        (root / "index.html").write_text("<p>a game")
        named = (f"--static={root}", f"--static-port={page_port}", f"--folder={folder}")
        process, port, _ = self.dev(*named)
        self.assertEqual(get(page_port, "/"), (200, b"<p>a game"))
        self.assertIn(f"page      http://127.0.0.1:{page_port}/ from {root}\n", self.output())
        self.assertEqual(self.allowed(port, f"http://127.0.0.1:{page_port}"), f"http://127.0.0.1:{page_port}")
        self.assertEqual(self.allowed(port, f"http://localhost:{page_port}"), f"http://localhost:{page_port}")
        self.assertIsNone(self.allowed(port, "https://game.example"))
        self.stop(process)
        file = folder / "authentication.json"
        members = json.loads(file.read_text())
        file.write_text(json.dumps({**members, "cors_origins": ["https://game.example", *members["cors_origins"]]}))
        process, port, _ = self.dev(*named)
        self.assertEqual(self.allowed(port, "https://game.example"), "https://game.example")
        self.assertEqual(len(json.loads(file.read_text())["cors_origins"]), 3)
        done = CliRunner().invoke(gamed, ["dev", f"--port={free_port()}", f"--provider-port={free_port()}", *named[:2]])
        self.assertEqual(done.exit_code, 1)
        self.assertEqual(CliRunner().invoke(gamed, ["dev", f"--static={root / 'none'}"]).exit_code, 2)

    def allowed(self, port: int, origin: str) -> str | None:
        """Return the Access-Control-Allow-Origin of a response to a page of `origin`."""
        with closing(HTTPConnection("127.0.0.1", port, timeout=WAIT_SECONDS)) as connection:
            connection.request("GET", "/auth/config", headers={"Origin": origin})
            return connection.getresponse().getheader("Access-Control-Allow-Origin")

    def test_refusals(self) -> None:
        """One sentence on stderr: places of a real server, one port for two, a port that is taken."""
        self.assertIn("--folder DIR", self.refused("--config", str(self.config), "dev"))
        self.assertIn("--folder DIR", self.refused("--data", str(self.data), "dev"))
        self.assertIn("Two ports are the same", self.refused("dev", "--port=9999", "--provider-port=9999"))
        _, port, provider_port = self.dev()
        free = str(free_port())
        taken = self.refused("dev", "--port", str(port), "--provider-port", free, expected=1)
        self.assertIn(f"--port {port}: another", taken)
        taken = self.refused("dev", "--port", free, "--provider-port", str(provider_port), expected=1)
        self.assertIn(f"--provider-port {provider_port}: another", taken)
