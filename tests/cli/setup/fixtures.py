"""A machine for `gamed setup`: root has copies of the folders that it changes, another user has a home folder."""

import json
import os
import pwd
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import gamed.cli.commands  # what the other user has to be able to import, too
import gamed.service
import gamed.tap  # noqa: F401
from gamed.cli.paths import LAYOUT, Paths
from tests.cli.other_user import python_for_all
from tests.cli.process import WAIT_SECONDS, CommandTestCase, python_apart
from tests.ops.test_sockets import AS_SYSTEMD
from tests.readme.test_owner_guide import settings
from tests.support import forks
from tests.support.ports import free_port

PASSWORD = "correct horse battery"
HERE = "from gamed.cli import main; main()"
MACHINE = """
root=$1; shift
if [ ! -d "$root/etc" ]; then
    mkdir -p "$root/etc" "$root/lib" "$root/opt" "$root/local"
    cp -a /etc/. "$root/etc/"; rm -rf "$root/etc/gamed" "$root/etc/systemd/system/"gamed*
fi
mount --bind "$root/etc" /etc; mount --bind "$root/lib" /var/lib
mount --bind "$root/opt" /opt; mount --bind "$root/local" /usr/local/sbin
exec "$@"
"""
"""Runs a command for which /etc, /var/lib, /opt and /usr/local/sbin are copies of this test's own."""
KILLED = """
import mmap, os, signal, sys
sys.dont_write_bytecode = True
CHANGES = {"os.rename", "os.mkdir", "os.chown", "os.remove", "os.rmdir", "os.truncate", "subprocess.Popen", "os.fork"}
count, at, first = mmap.mmap(-1, 4), int(os.environ["AT"]), os.getpid()

def hook(event, arguments):
    if event in CHANGES:
        number = int.from_bytes(count[:4]) + 1
        count[:4] = number.to_bytes(4)
        if number == at:
            os.kill(first, signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(hook)
from gamed.cli import main
main()
"""
"""Runs gamed, and kills it at the change with the number AT, in whichever process of it that is.

A folder that Python makes for its bytecode would be a change, too: one for each module where there is none.
"""
ANSWERS = {"server_name": "Rose Street 7", "players": "machine", "join": "invited"}


class SetupCase(CommandTestCase):
    """The words and the environment of `gamed setup` for a user who is not root."""

    forked = False
    as_root = False

    def setUp(self) -> None:
        super().setUp()
        self.addCleanup(os.umask, os.umask(0o022))
        self.folder.chmod(0o755)
        self.python, self.libraries = python_for_all()
        if self.python == sys.executable:  # a server beside it, as the README's first command begins one, is not ours
            self.python, _ = python_apart(self.folder / "apart")
        self.home = self.folder / "home"
        self.home.mkdir()
        self.port = free_port()
        self.before: list[str] = []
        self.environ = {**self.libraries, "HOME": str(self.home), "LANG": "C.UTF-8", "PATH": os.environ["PATH"]}
        if self.as_root:
            self.before = ["unshare", "--mount", "/bin/sh", "-euc", MACHINE, "sh", str(self.folder / "root")]
            self.new, self.backups = LAYOUT, Path("/var/lib/gamed-backup")
        else:
            self.new = Paths(self.home / ".config/gamed/authentication.json", self.home / ".local/share/gamed")
            self.backups = self.home / "gamed-backup"
            if os.geteuid() == 0:
                user = pwd.getpwnam("nobody")
                os.chown(self.home, user.pw_uid, user.pw_gid)
                self.before = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]

    def place(self, path: Path | str) -> Path:
        """Return where this test finds a file of the machine."""
        if not self.as_root:
            return Path(path)
        moved = {"/etc": "etc", "/var/lib": "lib", "/opt": "opt", "/usr/local/sbin": "local"}
        [found] = [
            self.folder / "root" / new / Path(path).relative_to(old)
            for old, new in moved.items()
            if Path(path).is_relative_to(old)
        ]
        return found

    def answered(self, **members: Any) -> list[str]:
        """Return the options for these answers, beside those that every test gives."""
        file = self.folder / "answers.json"
        given = {**ANSWERS, "backups": str(self.backups), **members}
        file.write_text(json.dumps({name: value for name, value in given.items() if value is not None}), "utf-8")
        return ["--port", str(self.port), "--answers", str(file)]

    def gamed(self, *words: str, stdin: str = "", program: str = HERE) -> tuple[int, str, str]:
        """Run gamed as this test's user."""
        command = [*self.before, self.python, "-c", program, *words]
        done = subprocess.run(
            command,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=WAIT_SECONDS,
            cwd=self.home,
            env=self.environ,
            check=False,
        )
        return done.returncode, done.stdout, done.stderr

    def set_up(self, *words: str, **members: Any) -> str:
        """Run a set-up that has to succeed; return what it prints."""
        code, out, err = self.gamed(*words, "setup", *self.answered(**members))
        self.assertEqual(code, 0, out + err)
        return out

    def refused(self, *words: str, code: int = 1, **members: Any) -> str:
        """Return the sentence of a set-up that has to be refused, and changes nothing."""
        before = sorted(self.files())
        found, _, err = self.gamed(*words, "setup", *self.answered(**members))
        self.assertEqual(found, code, err)
        self.assertEqual(
            [path for path in sorted(self.files()) if path.name != "answers.json"],
            [path for path in before if path.name != "answers.json"],
        )
        return err

    def start_as(self, *command: str) -> forks.Process:
        return self.start(*self.before, *command)

    def begin(self, places: Paths, name: str = "Anna") -> None:
        """Start a server at these places as a first start does, add a player beside it, and stop it."""
        words = ["--config", str(places.config), "--data", str(places.data)]
        process = self.start_as(
            self.python, "-c", HERE, *words, "serve", f"--listen=tcp:{self.port}:interface=127.0.0.1"
        )
        self.await_answer(self.port, process)
        code, _, err = self.gamed(*words, "players", "add", name, "--password-stdin", stdin=PASSWORD)
        self.assertEqual(code, 0, err)
        self.assertEqual(self.stop(process), 0, self.output())

    def key(self) -> dict[str, str]:
        """Return the variable of the master key, where the set-up has made one."""
        file = self.new.config.parent / "credentials/MASTER_KEY"
        return {"GAMED_MASTER_KEY_FILE": str(file)} if self.place(file).exists() else {}

    def players(self, places: Paths) -> list[str] | None:
        """Return the players of the server at these places; None if a command refuses them."""
        words = ["--config", str(places.config), "--data", str(places.data)]
        self.environ.update(self.key())
        code, out, _ = self.gamed(*words, "players", "list", "--json")
        self.environ.pop("GAMED_MASTER_KEY_FILE", None)
        return [player["name"] for player in json.loads(out)] if code == 0 else None

    def page(self) -> tuple[bool, str | None]:
        """Return whether the owner's page is on, and its folder for backups."""
        words = ["--config", str(self.new.config), "--data", str(self.new.data)]
        code, out, err = self.gamed(*words, "owner", "page", "status", "--json")
        self.assertEqual(code, 0, err)
        found = json.loads(out)
        return found["on"], found.get("backups")

    def serve_unit(self, name: str = "gamed.service") -> forks.Process:
        """Start what the unit starts, as its user, with its environment, its secrets and its socket."""
        units = self.place("/etc/systemd/system") if self.as_root else self.home / ".config/systemd/user"
        found = settings((units / name).read_text())
        words = shlex.split(found["ExecStart"][-1])
        environ = dict(shlex.split(each)[0].split("=", 1) for each in found.get("Environment", ()))
        for setting, variable, above in (
            ("ConfigurationDirectory", "CONFIGURATION_DIRECTORY", "/etc"),
            ("StateDirectory", "STATE_DIRECTORY", "/var/lib"),
        ):
            for each in found.get(setting, ()):
                environ[variable] = f"{above}/{each.split()[0]}"
        change: list[str] = []
        if self.as_root:
            [user] = found["User"]
            change = ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups"]
            if (folder := self.place("/etc/gamed/credentials")).exists():
                for secret in folder.iterdir():
                    environ[f"GAMED_{secret.name}"] = secret.read_text().strip()
        self.environ |= environ
        command = [*change, *words]
        if (units / "gamed.socket").exists():
            [address] = settings((units / "gamed.socket").read_text())["ListenStream"]
            self.assertEqual(address, f"127.0.0.1:{self.port}")
            passed = f"import socket, os, sys; s = socket.create_server(('127.0.0.1', {self.port}))\n"
            passed += "os.dup2(s.fileno(), 0); os.execv(sys.argv[1], sys.argv[1:])"
            command = [sys.executable, "-c", passed, self.python, "-c", AS_SYSTEMD, "1", "0", *command]
        process = self.start_as(*command)
        self.await_answer(self.port, process)
        for each in environ:
            self.environ.pop(each)
        return process
