"""A set-up by hand leads to one server: what its first start made is what the units serve, players included."""

import json
import os
import pwd
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import gamed.cli.commands  # what the other user has to be able to import, too
import gamed.service  # noqa: F401
from gamed.cli.paths import LAYOUT, Paths
from tests.cli.other_user import python_for_all
from tests.cli.process import ROOT, WAIT_SECONDS, CommandTestCase
from tests.ops.test_sockets import AS_SYSTEMD
from tests.support.ports import free_port
from tests.support.stores import sqlite_files
from tests.test_guides import blocks

PAGE = "docs/owners/by-hand.md"
PLACES = ("/etc/gamed", "/etc/systemd/system", "/var/lib/gamed", "/opt/gamed")
SETPRIV = "setpriv --reuid=gamed --regid=gamed --init-groups"
PASSWORD = "correct horse battery"
REAL_PLACES = """
folder=$1; shift; over=$folder/mounted
mount -t tmpfs -o mode=755 tmpfs "$over"
cp -a /etc "$over/etc"; mkdir -p "$over/etc/gamed" "$over/lib/gamed"
mount --bind "$folder/etc/gamed" "$over/etc/gamed"; mount --bind "$folder/var/lib/gamed" "$over/lib/gamed"
mount --rbind "$over/etc" /etc; mount --rbind "$over/lib" /var/lib
exec "$@"
"""
"""Runs a command for which the folders of the page are those of this test."""


def settings(unit: str) -> dict[str, list[str]]:
    """Return the values of each setting of a unit, with the words that systemd would pass on."""
    found: dict[str, list[str]] = {}
    for name, value in re.findall(r"(?m)^(\w+)=(.*)$", unit):
        found.setdefault(name, []).append(value.replace("%%", "%"))
    return found


@sqlite_files("the key file and the databases of a first start; tests.readme.test_postgresql_page has the other page")
class OwnerGuideTests(CommandTestCase):
    """Each block of the page runs as printed, with this machine's user, and below a folder instead of `/`."""

    def setUp(self) -> None:
        super().setUp()
        self.addCleanup(os.umask, os.umask(0o022))  # a test before this one may have set that of a service
        self.folder.chmod(0o755)
        self.python, self.libraries = python_for_all()
        user = pwd.getpwnam("nobody") if os.geteuid() == 0 else pwd.getpwuid(os.geteuid())
        self.user, self.uid, self.gid = user.pw_name, user.pw_uid, user.pw_gid
        self.port = free_port()
        program = self.folder / "opt/gamed/bin/gamed"
        program.parent.mkdir(parents=True)
        variables = shlex.join(f"{name}={value}" for name, value in self.libraries.items())
        run = shlex.quote("from gamed.cli import main; main()")
        program.write_text(f'#!/bin/sh\nexec env {variables} {self.python} -c {run} "$@"\n')
        program.chmod(0o755)
        (self.folder / "etc/systemd/system").mkdir(parents=True)
        (self.folder / "var/lib").mkdir(parents=True)

    def moved(self, text: str) -> str:
        """Return a block of the page with the places and the user of this test."""
        for place in PLACES:
            text = text.replace(place, f"{self.folder}{place}")
        if os.geteuid() != 0:
            return re.sub(r" -o \w+ -g \w+", "", text).replace(f"{SETPRIV} ", "")
        text = re.sub(r"-g gamed\b", f"-g {self.gid}", text).replace("-o gamed", f"-o {self.user}")
        return text.replace(SETPRIV, f"setpriv --reuid={self.uid} --regid={self.gid} --clear-groups")

    def block(self, words: str) -> str:
        [text] = [text for text in blocks(PAGE, "sh") if words in text]
        return self.moved(text)

    def shell(self, script: str, *, variables: Mapping[str, str] | None = None, stdin: str = "") -> str:
        """Run a script as root in a shell; return what it prints."""
        path = f"{self.folder}/opt/gamed/bin:{os.environ['PATH']}"
        done = subprocess.run(
            ["/bin/sh", "-euc", f"umask 022\n{script}"],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=WAIT_SECONDS,
            cwd=self.folder,
            env={"PATH": path, **(variables or {})},
            check=False,
        )
        self.assertEqual((done.returncode, done.stderr), (0, ""), script)
        return done.stdout

    def export(self) -> str:
        return self.block("export GAMED_CONFIG=").splitlines()[-1]

    def first_start(self) -> None:
        """Follow the page to its first start, and add a player beside the running server."""
        self.shell(self.block("export GAMED_CONFIG="))
        printed = self.block("setpriv" if os.geteuid() == 0 else "env GAMED_CONFIG").strip()
        process = self.start("/bin/sh", "-c", f"exec {printed} --listen=tcp:{self.port}:interface=127.0.0.1")
        self.await_answer(self.port, process)
        self.shell(f"{self.export()}\ngamed players add Anna --password-stdin", stdin=PASSWORD)
        self.assertEqual(self.stop(process), 0, self.output())

    def serve_unit(self, unit: str, socket: str | None) -> None:
        """Start what a unit starts, as its user, with its environment and its socket; Anna has to be there."""
        found = settings(unit)
        words = shlex.split(found["ExecStart"][-1])
        environ = dict(shlex.split(each)[0].split("=", 1) for each in found.get("Environment", ()))
        for setting, variable, above in (
            ("ConfigurationDirectory", "CONFIGURATION_DIRECTORY", "/etc"),
            ("StateDirectory", "STATE_DIRECTORY", "/var/lib"),
        ):
            for name in found.get(setting, ()):
                environ[variable] = f"{self.folder}{above}/{name}"
        change = ["setpriv", f"--reuid={self.uid}", f"--regid={self.gid}", "--clear-groups"]
        as_user = change if os.geteuid() == 0 else []
        self.environ = {**self.libraries, **environ}
        command = [self.python, "-c", AS_SYSTEMD, "1", "0", *as_user, *words]
        if socket is None:
            command = [*as_user, *words]
            process = self.start(*command)
        else:
            listener = f"import socket, os, sys; s = socket.create_server(('127.0.0.1', {socket}))\n"
            listener += "os.dup2(s.fileno(), 0); os.execv(sys.argv[1], sys.argv[1:])"
            process = self.start(sys.executable, "-c", listener, *command)
        self.await_answer(self.port, process)
        listed = self.shell(
            f"exec {shlex.join([*as_user, words[0], *self.before_serve(words), 'players', 'list', '--json'])}",
            variables=self.environ,
        )
        self.assertEqual([player["name"] for player in json.loads(listed)], ["Anna"])
        self.assertEqual({path.stat().st_uid for path in (self.folder / "var/lib/gamed").iterdir()}, {self.uid})
        self.assertEqual(self.stop(process), 0, self.output())

    def before_serve(self, words: list[str]) -> list[str]:
        """Return the words between the program and its command, such as `-m gamed`."""
        return words[1 : words.index("serve")]

    def set_public_url(self) -> None:
        [text] = [text for text in blocks(PAGE, "json") if "public_url" in text and "providers" not in text]
        (self.folder / "etc/gamed/authentication.json").write_text(text)

    def test_one_layout(self) -> None:
        """The page, the units and `gamed unit` name the same places, and so does the search for another server."""
        [shell] = [text for text in blocks(PAGE, "sh") if "export GAMED_CONFIG=" in text]
        named = dict(word.split("=") for word in shlex.split(shell.splitlines()[-1])[1:])
        places = Paths(Path(named["GAMED_CONFIG"]), Path(named["GAMED_DATA"]))
        self.assertEqual(places, LAYOUT)
        for unit in ("gamed.service", "gamed@.service", "gamed-backup.service"):
            found = settings((ROOT / "etc/systemd" / unit).read_text("utf-8"))
            data = found["StateDirectory"][0].split()[0]
            config = found["ConfigurationDirectory"][0]
            self.assertEqual(Paths(Path(f"/etc/{config}/authentication.json"), Path(f"/var/lib/{data}")), places, unit)
        credentials = "/etc/gamed/credentials"
        for text in ((ROOT / "docs/owners/keys.md").read_text("utf-8"), (ROOT / PAGE).read_text("utf-8")):
            self.assertIn(f"{credentials}/MASTER_KEY", text)
        self.assertIn(f"d {credentials} ", (ROOT / "etc/tmpfiles.d/gamed.conf").read_text("utf-8"))
        self.assertIn(f":{credentials}\n", (ROOT / "etc/systemd/gamed.service").read_text("utf-8"))

    def test_start_without_variables(self) -> None:
        """A later start in a shell without the variables of the page is refused, and the command it prints works."""
        if os.geteuid() != 0:
            return  # only root can let /etc and /var/lib be other folders for one process
        self.first_start()
        change = ["setpriv", f"--reuid={self.uid}", f"--regid={self.gid}", "--clear-groups"]
        as_page = ["unshare", "--mount", "/bin/sh", "-euc", REAL_PLACES, "sh", str(self.folder), *change]
        program = [*as_page, f"{self.folder}/opt/gamed/bin/gamed"]
        listen = f"--listen=tcp:{self.port}:interface=127.0.0.1"
        (self.folder / "mounted").mkdir()
        home = self.folder / "home"
        home.mkdir()
        os.chown(home, self.uid, self.gid)
        self.environ = {"GAMED_CONFIG": f"{home}/a/b/authentication.json"}  # not the interpreter's folder
        code, out, err = self.run_command("serve", listen, of=program)
        self.assertEqual((code, out), (78, ""), err)
        self.assertIn("/var/lib/gamed has a server", err)
        _, *words = shlex.split(err.partition("Use that one: ")[2].partition(", or ")[0])
        self.assertEqual(words[:-1], ["--config", str(LAYOUT.config), "--data", str(LAYOUT.data)])
        self.environ = {}
        process = self.start(*program, *words, listen)
        self.await_answer(self.port, process)
        listed = subprocess.run(
            [*program, *words[:-1], "players", "list", "--json"], capture_output=True, check=True, timeout=WAIT_SECONDS
        )
        self.assertEqual([player["name"] for player in json.loads(listed.stdout)], ["Anna"])
        self.assertEqual(self.stop(process), 0, self.output())

    def test_printed_unit(self) -> None:
        """First start, a player, a public address, the units that the page prints: the player is still there."""
        self.first_start()
        self.set_public_url()
        self.shell(
            "\n".join([self.export(), *[line for line in self.block("gamed unit").splitlines() if "unit" in line]])
        )
        made = self.folder / "etc/systemd/system"
        [address] = settings((made / "gamed.socket").read_text())["ListenStream"]
        self.assertEqual(address, f"127.0.0.1:{self.port}")
        self.serve_unit((made / "gamed.service").read_text(), str(self.port))

    def test_printed_unit_without_an_address(self) -> None:
        """In a server without a public address the service listens itself, where the first start did."""
        self.first_start()
        unit = self.shell(f"{self.export()}\ngamed unit service")
        self.serve_unit(unit, None)

    def test_unit_of_the_checkout(self) -> None:
        """The unit in etc/ serves the same files, without any variable of the page."""
        self.first_start()
        self.set_public_url()
        unit = self.moved((ROOT / "etc/systemd/gamed.service").read_text("utf-8"))
        self.serve_unit(unit, str(self.port))
