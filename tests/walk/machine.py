"""A machine of the walk: the folders of the owner's guide below one folder, the guide's user, and its processes."""

import atexit
import json
import os
import pwd
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import gamed.cli.commands  # what the user of the guide has to be able to import, too
import gamed.database.postgresql.store
import gamed.service
import gamed.tap  # noqa: F401
from gamed.cli.process import LISTENERS_FILE
from tests.cli.other_user import python_for_all
from tests.database.make_store import KEY, KEY_ENV
from tests.ops.test_sockets import AS_SYSTEMD
from tests.readme.test_owner_guide import PAGE, PLACES, SETPRIV, settings
from tests.support import forks
from tests.support.ports import free_port
from tests.support.postgresql import Address
from tests.test_guides import blocks

WAIT_SECONDS = 60.0
PAUSE_SECONDS = 0.05
LOG_LINES = 30


class Wrong(Exception):
    """Something that the walk looked for is not there; the text has both."""


class Programs:
    """gamed as the user of the guide runs it: an interpreter, and variables with which it finds this version."""

    def __init__(self) -> None:
        self.python, self._variables = python_for_all()
        self._before: list[str] = []
        atexit.register(forks.add_parent(self._variables["PYTHONPATH"]))
        user = pwd.getpwnam("nobody") if os.geteuid() == 0 else pwd.getpwuid(os.geteuid())
        self.user, self.uid, self.gid = user.pw_name, user.pw_uid, user.pw_gid
        self.as_user = ["setpriv", f"--reuid={self.uid}", f"--regid={self.gid}", "--clear-groups"]
        if os.geteuid() != 0:
            self.as_user = []

    def use(self, version: str) -> None:
        """Run the gamed of this folder from now on."""
        self._before = [version]

    @property
    def variables(self) -> dict[str, str]:
        path = os.pathsep.join([*self._before, self._variables["PYTHONPATH"]])
        return {**self._variables, "PYTHONPATH": path}


class Machine:
    """One server; `address` is its PostgreSQL database, None for SQLite."""

    def __init__(self, folder: Path, programs: Programs, address: Address | None) -> None:
        self.folder, self.programs, self.address = folder, programs, address
        self.config, self.data = folder / "etc/gamed/authentication.json", folder / "var/lib/gamed"
        self.credentials, self.log = folder / "etc/gamed/credentials", folder / "log"
        self.disk = folder / "mnt/disk/gamed"
        self.port = free_port()
        self.base = f"http://127.0.0.1:{self.port}"
        self.secrets = {KEY_ENV: KEY}
        self._servers: dict[int, subprocess.Popen[bytes]] = {}
        self._socket: socket.socket | None = None
        (folder / "opt/gamed/bin").mkdir(parents=True)
        (folder / "var/lib").mkdir(parents=True)
        program = folder / "opt/gamed/bin/gamed"
        run = shlex.quote("from gamed.cli import main; main()")
        program.write_text(f'#!/bin/sh\nexec {programs.python} -c {run} "$@"\n')
        program.chmod(0o755)

    # -- the guide --

    def install(self) -> None:
        """Make the folders and the first configuration of the guide, and its secrets."""
        self.shell(self.block("export GAMED_CONFIG="))
        self.write_secrets()
        self.disk.mkdir(parents=True)
        self.own(self.disk)

    def write_secrets(self) -> None:
        """Write the files that only root can read, from which systemd makes credentials."""
        for name, secret in self.secrets.items():
            file = self.credentials / name.removeprefix("GAMED_")
            file.write_text(secret)
            file.chmod(0o600)

    def configure(self, **members: object) -> None:
        """Write the configuration, with this machine's key and store."""
        store = {"store": self.address.url} if self.address else {}
        limits = {"refreshes_per_minute": 0, "passwords_per_minute": 0, "starts_per_minute": 0}
        own = {"mode": "local", "master_key_env": KEY_ENV, "limits": limits, **store}
        self.config.write_text(json.dumps({**own, **members}, indent=2))

    def block(self, words: str) -> str:
        """Return the block of the guide that has these words, with the places and the user of this machine."""
        [text] = [text for text in blocks(PAGE, "sh") if words in text]
        for place in PLACES:
            text = text.replace(place, f"{self.folder}{place}")
        if not self.programs.as_user:
            return re.sub(r" -o \w+ -g \w+", "", text).replace(f"{SETPRIV} ", "")
        text = re.sub(r"-g gamed\b", f"-g {self.programs.gid}", text).replace("-o gamed", f"-o {self.programs.user}")
        return text.replace(SETPRIV, shlex.join(self.programs.as_user))

    def own(self, folder: Path) -> None:
        """Give a folder to the user of the guide, with everything in it."""
        for path in (folder, *folder.rglob("*")):
            os.chown(path, self.programs.uid, self.programs.gid)

    # -- commands --

    def shell(self, script: str) -> str:
        """Run a script as root in a shell; return what it prints."""
        environ = {"PATH": f"{self.folder}/opt/gamed/bin:{os.environ['PATH']}", **self.programs.variables}
        return _run(["/bin/sh", "-euc", f"umask 022\n{script}"], self.folder, environ)

    def gamed(self, *arguments: str, stdin: str = "", code: int = 0, before: Sequence[str] = ()) -> str:
        """Run a command as the guide's shell does; return what it prints. A refusal (`code`) prints to stderr."""
        environ = {"PATH": os.environ["PATH"], **self._variables}
        return _run([*before, f"{self.folder}/opt/gamed/bin/gamed", *arguments], self.folder, environ, stdin, code)

    def json(self, *arguments: str, stdin: str = "") -> Any:
        return json.loads(self.gamed(*arguments, "--json", stdin=stdin))

    def players(self) -> Any:
        """Return what `gamed players list` does, from a fork where this version is used: each step ends with it."""
        kept = {name: os.environ[name] for name in forks.KEPT if name in os.environ}
        words = ["players", "list", "--json"]
        how: dict[str, Any] = {"cwd": self.folder, "env": {**kept, **self._variables}, "timeout": WAIT_SECONDS}
        done = forks.run([*forks.SCRIPT, *words], **how)
        _require(done, words, 0)
        return json.loads(done.stdout)

    @property
    def _variables(self) -> dict[str, str]:
        places = {"GAMED_CONFIG": str(self.config), "GAMED_DATA": str(self.data)}
        return {**self.programs.variables, **places, **self.secrets}

    # -- servers --

    def start_by_guide(self, *options: str) -> None:
        """Start the server as the guide starts it first, and wait until it answers."""
        printed = self.block("setpriv" if self.programs.as_user else "env GAMED_CONFIG").strip()
        words = [f"exec {printed}", f"--listen=tcp:{self.port}:interface=127.0.0.1", *options]
        self._start(["/bin/sh", "-c", " ".join(words)], self.secrets, self.port)

    def start_by_unit(self, *options: str) -> None:
        """Start what the printed unit starts, as its user, with its environment, its credentials and its socket."""
        words, environ = self._unit("service")
        [address] = settings(self.gamed("unit", "socket"))["ListenStream"]
        expect_port = f"127.0.0.1:{self.port}"
        if address != expect_port:
            raise Wrong(f"ListenStream= of the printed socket\n  looked for: {expect_port}\n  found:      {address}")
        # `gamed health` finds a server by this file: afterwards only one that uses the same data folder.
        (self.data / LISTENERS_FILE).unlink()
        if self._socket is None:
            self._socket = socket.create_server(("127.0.0.1", self.port))
        number = self._socket.fileno()
        launcher = [sys.executable, "-c", AS_SYSTEMD, "1", str(number), *self.programs.as_user]
        self._start([*launcher, *words, *options], environ, self.port, pass_fds=[number])

    def start_instance(self, port: int) -> None:
        """Start one of several servers of this machine, as the printed gamed@.service does, on a port of its own."""
        words, environ = self._unit("instance")
        listen = f"--listen=tcp:{port}:interface=127.0.0.1"
        self._start([*self.programs.as_user, *words, listen], environ, port)

    def refused_start(self, *options: str) -> str:
        """Return the reason of a start, as the server's user, that has to be refused."""
        listen = f"--listen=tcp:{free_port()}:interface=127.0.0.1"
        return self.gamed("serve", listen, *options, code=78, before=self.programs.as_user)

    def stop(self, port: int | None = None) -> None:
        """Stop the server of this port as systemd does."""
        process = self._servers.pop(port or self.port)
        process.send_signal(signal.SIGTERM)
        if (code := process.wait(WAIT_SECONDS)) != 0:
            raise Wrong(f"the server's exit code after SIGTERM\n  looked for: 0\n  found:      {code}")

    def close_socket(self) -> None:
        """Stop the socket unit."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def close(self) -> None:
        """Kill what still runs."""
        for process in self._servers.values():
            process.kill()
            process.wait(WAIT_SECONDS)
        self.close_socket()

    def log_tail(self) -> str:
        """Return the last lines of the servers' log, without requests that succeeded."""
        lines = self.log.read_text("utf-8", "replace").splitlines() if self.log.exists() else []
        return "\n".join([line for line in lines if " status=200 " not in line][-LOG_LINES:])

    def _unit(self, part: str) -> tuple[list[str], dict[str, str]]:
        """Return the words and the variables of the printed unit, with copies of its credentials."""
        found = settings(self.gamed("unit", part))
        environ = dict(shlex.split(each)[0].split("=", 1) for each in found.get("Environment", ()))
        environ["CREDENTIALS_DIRECTORY"] = str(self._load(found.get("LoadCredential", ())))
        return shlex.split(found["ExecStart"][-1]), environ

    def _load(self, lines: Sequence[str]) -> Path:
        """Copy credentials for the server's user, as systemd does: each file of a folder, with the name before it."""
        made = self.folder / "run"
        shutil.rmtree(made, ignore_errors=True)
        made.mkdir(mode=0o700)
        for name, _, path in (line.partition(":") for line in lines):
            source = Path(path)
            files = {f"{name}_{each.name}": each for each in source.iterdir()} if source.is_dir() else {name: source}
            for target, file in files.items():
                shutil.copy(file, made / target)
                (made / target).chmod(0o400)
        self.own(made)
        return made

    def _start(self, command: list[str], environ: Mapping[str, str], port: int, **how: Any) -> None:
        environ = {"PATH": os.environ["PATH"], **self.programs.variables, **environ}
        with self.log.open("ab") as log:
            streams = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log}
            process = subprocess.Popen(command, cwd=self.folder, env=environ, **streams, **how)
        self._servers[port] = process
        deadline = time.monotonic() + WAIT_SECONDS
        while not _is_healthy(port):
            if process.poll() is not None or time.monotonic() > deadline:
                shown = shlex.join(word for word in command if word != AS_SYSTEMD)
                raise Wrong(f"{shown}\n  looked for: a healthy server\n  found:      exit code {process.poll()}")
            time.sleep(PAUSE_SECONDS)


def _is_healthy(port: int) -> bool:
    """Return whether a server answers within a second: a socket of systemd also accepts while none runs."""
    with closing(HTTPConnection("127.0.0.1", port, timeout=1)) as connection, suppress(OSError):
        connection.request("GET", "/healthz")
        return connection.getresponse().status == 200
    return False


def _run(command: list[str], folder: Path, environ: Mapping[str, str], stdin: str = "", code: int = 0) -> str:
    done = subprocess.run(
        command, input=stdin, capture_output=True, text=True, cwd=folder, env=environ, timeout=WAIT_SECONDS, check=False
    )
    _require(done, command, code)
    return done.stderr if code else done.stdout


def _require(done: "subprocess.CompletedProcess[str]", command: list[str], code: int) -> None:
    """Raise Wrong unless a command has ended with this exit code, and without a traceback."""
    if done.returncode != code or "Traceback" in done.stderr:
        said = f"exit {done.returncode}: {done.stdout}{done.stderr}"
        raise Wrong(f"{shlex.join(command)}\n  looked for: exit {code}\n  found:      {said}")
