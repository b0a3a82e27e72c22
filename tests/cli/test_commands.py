import json
import os
import re
import shlex
import signal
import sys
from base64 import b64decode

from click.testing import CliRunner

from gamed import __version__
from gamed.cli.commands import gamed
from gamed.cli.context import DRIVER
from tests.cli.process import GAMED, MODULE, ROOT, TWISTD, CommandTestCase, get
from tests.config.fixtures import ENVIRON, LOCAL, OAUTH, changed
from tests.support.stores import sqlite_files


class BesideTheServerTests(CommandTestCase):
    def test_players(self) -> None:
        """Added, listed and signed in beside the running service, whose very next request knows of it."""
        process, port = self.serve()
        code, out, err = self.gamed("players", "add", "Anna", "--password-stdin", stdin="correct horse\n")
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(out, "added Anna\n")
        code, out, err = self.gamed("players", "add", "ben", "--json", "--password-stdin", stdin="correct horse")
        self.assertEqual((code, json.loads(out)["name"]), (0, "ben"))
        self.assertEqual(
            self.gamed("players", "add", "ANNA", "--password-stdin", stdin="correct horse\n"),
            (1, "", "gamed: This name is taken. Choose another.\n"),
        )
        for name, password in (
            ("", "correct horse"),
            ("a b", "correct horse"),
            ("carl", "short"),
            ("carl", "two\nlines"),
        ):
            code, out, err = self.gamed("players", "add", name, "--password-stdin", stdin=password)
            self.assertEqual((code, out), (1, ""))
            self.assertTrue(err.startswith("gamed: ") and err.count("\n") == 1, err)
            self.assertNotIn(password, err)

        anna, ben = json.loads(self.gamed("players", "list", "--json")[1])
        self.assertEqual((anna["name"], anna["state"], anna["last_sign_in_at"]), ("Anna", "active", None))
        self.assertEqual(len(self.gamed("players", "list")[1].splitlines()), 4)

        for wanted in ("anna", ben["id"]):
            code, out, err = self.gamed("players", "token", wanted, "--json")
            self.assertEqual((code, err), (0, ""))
            answer = json.loads(out)
            self.assertEqual(answer["player"]["id"], anna["id"] if wanted == "anna" else ben["id"])
            self.assertEqual(
                list(answer),
                [
                    "status",
                    "token_type",
                    "access_token",
                    "expires_in",
                    "refresh_credential",
                    "refresh_expires_in",
                    "session_id",
                    "provider",
                    "player",
                ],
            )
            status, body = get(port, "/auth/sessions", answer["access_token"])
            self.assertEqual(status, 200)
            self.assertEqual(json.loads(body)["sessions"][0]["session_id"], answer["session_id"])
        self.assertEqual(self.gamed("players", "token", "nobody")[0], 1)
        self.assertIn("access_token: gat_", self.gamed("players", "token", "anna")[1])
        self.stop(process)

    def test_mode_of_a_unix_socket(self) -> None:
        """The mode may be written without its name; a wrong one is one line, before anything is made."""
        for wrong in ("none", "660:mode=600"):
            code, out, err = self.gamed("serve", f"--listen=unix:{self.folder}/s:{wrong}")
            self.assertEqual((code, out, err.count("\n")), (78, "", 1), err)
            self.assertFalse(self.data.exists())
        process, _ = self.serve(f"--listen=unix:{self.folder}/s:640")
        self.assertEqual(self.gamed("health"), (0, "ok\n", ""))
        self.assertEqual((self.folder / "s").stat().st_mode & 0o777, 0o640)
        self.stop(process)

    def test_health(self) -> None:
        """0 while the server of this folder answers, wherever it listens; 1 with a reason when it does not."""
        self.assertIn("No server has been started", self.gamed("health")[2])
        process, port = self.serve(f"--listen=unix:{self.folder}/s")
        self.assertEqual(self.gamed("health"), (0, "ok\n", ""))
        self.assertEqual(self.gamed("health", f"--url=http://127.0.0.1:{port}"), (0, "ok\n", ""))
        process.send_signal(signal.SIGSTOP)
        stuck = f"gamed: No server answers at http://127.0.0.1:{port} (timed out). Read its log, then restart it.\n"
        self.assertEqual(self.gamed("health"), (1, "", stuck))
        process.send_signal(signal.SIGCONT)
        self.stop(process)
        code, out, err = self.gamed("health")
        self.assertEqual((code, out), (1, ""))
        self.assertIn(f"No server answers at http://127.0.0.1:{port} (Connection refused). Start it: ", err)
        self.assertEqual(shlex.split(err)[-3:], [*self.places[:2], "serve"])
        code, _, err = self.gamed("health", f"--url=http://127.0.0.1:{port}")
        self.assertEqual(
            (code, err), (1, f"gamed: No server answers at http://127.0.0.1:{port} (Connection refused).\n")
        )
        self.assertEqual(self.gamed_here("health", "--url=play.example.org")[0], 2)


class AloneTests(CommandTestCase):
    @sqlite_files("without a configuration; tests.cli.test_postgresql has an empty database")
    def test_before_the_first_start(self) -> None:
        """Commands on a server that never ran make nothing, and say how to begin."""
        for command in (["players", "list"], ["players", "token", "anna"], ["key", "fingerprint"]):
            code, out, err = self.gamed(*command)
            self.assertEqual((code, out), (1, ""))
            self.assertIn("start the service once: gamed serve", err)
            self.assertIn("--data DIR or GAMED_DATA (gamedctl knows it from systemd's unit)", err)
        self.assertEqual(self.gamed("check", "config")[0], 1)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_without_the_key(self) -> None:
        """A command that needs the key and has none ends with 78 and the systemd-run line."""
        self.write_config(OAUTH)
        self.environ.clear()
        code, out, err = self.gamed("players", "list")
        self.assertEqual((code, out), (78, ""))
        self.assertIn("GAMED_MASTER_KEY is not set", err)
        self.assertIn("systemd-run --pipe --wait -p LoadCredential=", err)
        self.assertNotIn("DISCORD", err)

    def test_check_config(self) -> None:
        """0 and a summary for a good file; warnings on stderr; nothing is written."""
        self.write_config(changed(LOCAL, login__return_proof="off"))
        before = sorted(self.folder.iterdir())
        code, out, err = self.gamed("check", "config")
        self.assertEqual(code, 0)
        self.assertIn(f"{self.config} is valid: local mode", out)
        self.assertIn("warning: ", err)
        self.assertEqual(sorted(self.folder.iterdir()), before)

    def test_check_config_with_a_store(self) -> None:
        """`check config` shows the address of a PostgreSQL store without its password, and connects to nothing."""
        self.store()
        code, out, err = self.gamed("check", "config", "--json")
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(json.loads(out)["store"], "postgresql://localhost:1/gamed")
        self.assertNotIn("hush", self.gamed("check", "config")[1])

    def test_without_the_driver(self) -> None:
        """A PostgreSQL store without its libraries ends every command with 78, and with the line that installs them."""
        self.store()
        self.environ["PYTHONPATH"] = f"{self.folder}:{ROOT}"
        for library, command in (
            ("psycopg", ["check", "config"]),
            ("greenlet", ["serve"]),
            ("psycopg", ["players", "list"]),
        ):
            missing = self.folder / f"{library}.py"
            missing.write_text("raise ImportError('no wrapper available')")
            code, out, err = self.gamed(*command)
            missing.unlink()
            self.assertEqual((code, out), (78, ""))
            self.assertIn(f"{self.config}:1:66: store: PostgreSQL needs the libraries psycopg and greenlet. ", err)
            self.assertIn(f"{sys.executable} -m pip install --require-hashes -r {ROOT / DRIVER}\n", err)

    def store(self) -> None:
        members = {"mode": "local", "master_key_env": "GAMED_MASTER_KEY", "store": "postgresql://g@localhost:1/gamed"}
        self.config.write_text(json.dumps({**members, "store_password_env": "STORE_PASSWORD"}))
        self.environ = {**ENVIRON, "STORE_PASSWORD": "hush"}

    def test_key_new(self) -> None:
        """A fresh 32-byte key each time, as Base64, and nothing else."""
        keys = [self.run_command("key", "new"), self.gamed_here("key", "new")]
        for code, out, err in keys:
            self.assertEqual((code, err, len(b64decode(out, validate=False))), (0, "", 32))
        self.assertNotEqual(keys[0], keys[1])

    def test_help(self) -> None:
        """Every command explains itself; those that need the key say so."""
        page = (ROOT / "docs/owners/commands.md").read_text("utf-8")
        rows = dict(re.findall(r"(?m)^\| `([a-z -]+)` \| .+ \| (yes|no) \|$", page))
        for command in (*rows, "key", "players", "sessions", "owner", ""):
            result = CliRunner().invoke(gamed, [*command.split(), "--help"])
            self.assertEqual(result.exit_code, 0)
            own = result.output.split("Commands:")[0].split("Commands marked")[0]
            self.assertEqual("[key]" in own, rows.get(command) == "yes", result.output)
        code, out, _ = self.run_command("gamed", "serve", "--help", of=TWISTD)
        self.assertEqual(code, 0)
        for option in ("--config", "--data", "--listen", "--private-listen"):
            self.assertIn(option, out)

    def test_version(self) -> None:
        """gamed's own, also where Twisted would show its."""
        self.forked = False
        for command, words in (
            (GAMED, ["--version"]),
            (MODULE, ["--version"]),
            (TWISTD, ["gamed", "--version"]),
            (TWISTD, ["gamed", "serve", "--version"]),
        ):
            self.assertEqual(self.run_command(*words, of=command), (0, f"gamed {__version__}\n", ""))

    def test_usage(self) -> None:
        """Wrong usage ends with 2, on stderr."""
        self.assertEqual(self.run_command("bogus")[:2], (2, ""))
        for words in (["bogus"], ["players", "add"], ["--bogus"], ["players", "add", "anna"]):
            code, out, _ = self.gamed_here(*words)
            self.assertEqual((code, out), (2, ""), words)

    def test_root_becomes_the_folder_s_owner(self) -> None:
        """A command run as root in another user's folder works as that user; anybody else stays who they are."""
        self.data.mkdir()
        expected = os.geteuid()
        if expected == 0:
            expected = 65534
            os.chown(self.data, expected, expected)
        look = "import os, pathlib, sys; from gamed.cli.process import switch_to_owner\n"
        look += "switch_to_owner(pathlib.Path(sys.argv[1]))"
        self.assertEqual(
            self.run_command("-c", f"{look}; print(os.getresuid())", str(self.data), of=GAMED[:1])[1],
            f"{(expected,) * 3}\n",
        )

    def test_no_reactor_by_import(self) -> None:
        """Importing the tap, as twistd does to show its help, installs no reactor and loads no Klein."""
        look = "import sys, gamed.tap; print({'twisted.internet.reactor', 'klein', 'gamed.service'} & set(sys.modules))"
        self.assertEqual(self.run_command("-c", look, of=GAMED[:1])[1], "set()\n")
