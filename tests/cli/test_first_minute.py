"""`gamed serve` shows five lines that an owner needs, and then only events of gamed."""

import json
import os
import pty
import re
import shlex
import signal
import subprocess
import time
from contextlib import closing
from http.client import HTTPConnection

from clients.godot3 import generate
from gamed import __version__
from tests.cli.process import GAMED, ROOT, TWISTD, WAIT_SECONDS, CommandTestCase, environment, free_port, python_apart
from tests.support.stores import POSTGRESQL, sqlite_files

NEXT = re.compile(r"(?m)^next: (.+)$")
LINES = (6 if POSTGRESQL else 5) + (os.geteuid() == 0)
"""The lines before the first event; one more names a store elsewhere, one more warns of root."""


class FirstMinuteTests(CommandTestCase):
    def started(self, *options: str) -> list[str]:
        """Return the lines that a start printed, until it was stopped."""
        process, _ = self.serve(*options)
        self.assertEqual(self.stop(process), 0)
        return self.output().splitlines()

    def advised(self) -> list[str]:
        """Return the words of the command that the last start advised, with gamed of this checkout as the program."""
        [line] = NEXT.findall(self.output())
        _, *words = shlex.split(line)
        return words

    @sqlite_files("a first run without a configuration; PostgreSQL needs one")
    def test_five_lines(self) -> None:
        """The first start shows version, mode, address, files, the key file to copy, and one command to run next."""
        port = free_port()
        process, _ = self.serve(port=port)
        self.stop(process)
        first, config, data, key, *_, advice = self.output().splitlines()[:LINES]
        self.assertEqual(first, f"gamed {__version__} in local mode: http://127.0.0.1:{port}, for this machine")
        self.assertEqual(config, f"configuration {self.config} (made just now)")
        self.assertEqual(data, f"data {self.data}")
        self.assertRegex(key, rf"^key file {re.escape(str(self.data / 'auth.key'))}, fingerprint [0-9a-f]{{12}}: keep ")
        self.assertTrue(advice.startswith("next: "), advice)

    def test_root(self) -> None:
        """Warn in one line of a server that runs as root, and of no other."""
        self.started()
        self.assertEqual(self.output().count("the server runs as root"), int(os.geteuid() == 0))

    def test_ipv6(self) -> None:
        """On ::1 the banner, a sign-in's link and its QR code name the address where the server answers."""
        port = free_port()
        process = self.start(*GAMED, *self.places, "serve", f"--listen=[::1]:{port}")
        deadline = time.monotonic() + WAIT_SECONDS
        while "service_started" not in self.output() and time.monotonic() < deadline:
            time.sleep(0.05)
        with closing(HTTPConnection("::1", port, timeout=WAIT_SECONDS)) as connection:
            connection.request("POST", "/auth/login", "{}", {"Content-Type": "application/json"})
            login = json.loads(connection.getresponse().read())
        for name in ("login_url", "qr_url"):
            self.assertTrue(login[name].startswith(f"http://[::1]:{port}/auth/"), login)
            with closing(HTTPConnection("::1", port, timeout=WAIT_SECONDS)) as connection:
                connection.request("GET", login[name].removeprefix(f"http://[::1]:{port}"))
                self.assertEqual(connection.getresponse().status, 200)
        self.assertEqual(self.gamed("health")[1], "ok\n")
        self.assertIn(f"\nhttp://[::1]:{port}/auth/invite/", "\n" + self.gamed("players", "invite")[1])
        self.stop(process)
        self.assertIn(f" mode: http://[::1]:{port}, for this machine\n", self.output())

    def test_how_it_ends(self) -> None:
        """On a terminal the first line names Ctrl-C, which ends the server; there are still five lines."""
        port = free_port()
        near, far = pty.openpty()
        self.addCleanup(os.close, near)
        command = [*GAMED, *self.places, "serve", f"--listen=tcp:{port}:interface=127.0.0.1"]
        process = subprocess.Popen(
            command,
            stdin=far,
            stdout=far,
            stderr=far,
            cwd=self.folder,
            env=environment(self.environ),
            start_new_session=True,
        )
        os.close(far)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.await_answer(port)
        first, *others = os.read(near, 65536).decode().splitlines()
        self.assertEqual(
            first, f"gamed {__version__} in local mode: http://127.0.0.1:{port}, for this machine (Ctrl-C ends it)"
        )
        self.assertTrue(others[LINES - 2].startswith("next: "), others)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(WAIT_SECONDS), -signal.SIGINT)

    def test_no_framework(self) -> None:
        """After those lines each line is an event of gamed, until the service has stopped."""
        lines = self.started()[LINES:]
        self.assertEqual([line for line in lines if not re.search(r" \[gamed\.\w+#\w+\] |^\t", line)], [])
        events = [line.partition("] ")[2].split()[0] for line in lines if not line.startswith("\t")]
        self.assertEqual((events[0], events[-1]), ("service_started", "service_stopped"))
        self.assertIn("service_stopping", events)

    def test_twistd(self) -> None:
        """twistd in the foreground shows the same lines."""
        port = free_port()
        plain = (*TWISTD, "--nodaemon", "--pidfile=", "gamed", "serve", *self.places)
        process = self.start(*plain, f"--listen=tcp:{port}:interface=127.0.0.1")
        self.await_answer(port, process)
        self.stop(process)
        self.assertNotRegex(self.output(), "twistd|reactor|HttpServer|Shut Down|Main loop")
        self.assertIn("service_stopped", self.output())

    def test_for_programs(self) -> None:
        """The formats for programs frame every line, leave the framework's lines out, and give no advice."""
        journal = self.started("--log-format", "journal")
        self.assertEqual([line for line in journal if not re.match(r"<[3-6]>(\[gamed[.\w]*\] |\t)", line)], [])
        namespaces = {json.loads(line)["namespace"] for line in self.started("--log-format", "json")}
        self.assertEqual({name.partition(".")[0] for name in namespaces}, {"gamed"})
        self.assertNotIn("next: ", self.output() + "".join(journal))

    def test_advice_works(self) -> None:
        """The advised command adds the first player as printed; then the advice is to check this machine."""
        self.started()
        words = ["Anna" if word == "NAME" else word for word in self.advised()]
        code, out, err = self.run_command(*words, "--password-stdin", stdin="correct horse")
        self.assertEqual((code, err), (0, ""), out)
        self.started()
        self.assertEqual(self.advised()[-1], "doctor")

    def test_public_address(self) -> None:
        """With a public_url the first line has it, and the advice is to check it from outside."""
        self.write_config({"mode": "local", "public_url": "https://play.example.org"})
        self.config.chmod(0o600)
        self.started()
        self.run_command(
            *("Anna" if word == "NAME" else word for word in self.advised()), "--password-stdin", stdin="correct horse"
        )
        self.assertIn("local mode: https://play.example.org", self.started()[0])
        self.assertEqual(self.advised()[-2:], ["doctor", "--public"])

    def test_no_options_needed(self) -> None:
        """The advised command has no options if the environment names the same places, and begins as it was typed."""
        python, variables = python_apart(self.folder / "python")
        self.environ |= {"GAMED_CONFIG": str(self.config), "GAMED_DATA": str(self.data), **variables}
        script = self.folder / "gamed"
        script.write_text(f"#!{python}\nfrom gamed.cli import main\nmain()\n")
        script.chmod(0o755)
        port = free_port()
        process = self.start("./gamed", "serve", f"--listen=tcp:{port}:interface=127.0.0.1")
        self.await_answer(port, process)
        self.stop(process)
        self.assertIn("\nnext: ./gamed players add NAME\n", self.output())


class VirtualEnvironmentTests(CommandTestCase):
    def test_warned(self) -> None:
        """Data in a virtual environment are reported, with the command of a server that stays; others are not."""
        home = self.folder / "home"
        home.mkdir()
        self.environ["HOME"] = str(home)
        process, _ = self.serve()
        self.stop(process)
        self.assertNotIn("virtual environment", self.output())
        (self.folder / "pyvenv.cfg").touch()
        process, _ = self.serve()
        self.stop(process)
        [line] = re.findall(r"(?m)^gamed: warning: (?!the server runs as root)(.+)$", self.output())
        lost = "the configuration and all assets" if POSTGRESQL else "all players and saves"
        where = f"the data is in the virtual environment {self.folder}"
        self.assertIn(f"{where}: deleting it also deletes {lost}.", line)
        self.assertEqual(shlex.split(line.rpartition("machine: ")[2])[-1], "setup")


class VersionTests(CommandTestCase):
    def test_one_version(self) -> None:
        """The version is a release candidate that pip orders before 1.0.0, and the change log begins with it."""
        self.assertRegex(__version__, r"^\d+\.\d+\.\d+(rc\d+)?$")
        [first, *_] = re.findall(r"(?m)^## (\S+)", (ROOT / "CHANGELOG.md").read_text("utf-8"))
        self.assertEqual(first, __version__)

    def test_of_the_others(self) -> None:
        """The wire contract has the number of the release that this version leads to, every client this version."""
        release = __version__.partition("rc")[0]
        contract = re.findall(r"(?m)^  version: '([\d.]+)'$", (ROOT / "docs/openapi.yaml").read_text("utf-8"))
        self.assertEqual(contract, [release.rpartition(".")[0]])
        sources = {
            "python/gamed_client/__init__.py": r'^__version__ = "(.+)"',
            "js/gamed.mjs": r'^export const VERSION = "(.+)"',
            "godot4/gamed.gd": r'^const VERSION = "(.+)"',
            "csharp/GamedClient.cs": r'const string ClientVersion = "(.+)"',
        }
        for name, pattern in sources.items():
            found = re.findall(f"(?m){pattern}", (ROOT / "clients" / name).read_text("utf-8"))
            self.assertEqual(found, [__version__], name)
        made = re.findall(rf"(?m){sources['godot4/gamed.gd']}", generate.scripts()["gamed.gd"])
        self.assertEqual(made, [__version__], "godot3")
