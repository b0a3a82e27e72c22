"""Tests start real processes of this checkout, read their output, and end them."""

import json
import os
import pty
import signal
import site
import sys
import time
import venv
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from http.client import HTTPConnection
from pathlib import Path
from re import sub
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any, TypeVar

from twisted.trial.unittest import SynchronousTestCase

from gamed.database.connection import Transaction
from tests.config.fixtures import LOCAL
from tests.support import forks
from tests.support.commands import run_here
from tests.support.ports import free_port
from tests.support.stores import MASTER_KEY, POSTGRESQL, forget_store, store_of, with_store

T = TypeVar("T")
ROOT = Path(__file__).parent.parent.parent
GAMED, MODULE = forks.SCRIPT, forks.MODULE
TWISTD = (sys.executable, "-c", "from twisted.scripts.twistd import run; run()")
WAIT_SECONDS = 60.0
CLEAN = ("GAMED_TEST_STORE", "PATH", "LANG", "LC_ALL", "TMPDIR", "COVERAGE_PROCESS_CONFIG", "COVERAGE_PROCESS_START")


def environment(more: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without the caller's settings, in which Python and twistd import this checkout."""
    kept = {name: os.environ[name] for name in CLEAN if name in os.environ}
    return {**kept, "PYTHONPATH": str(ROOT), **more}


def python_apart(folder: Path) -> tuple[str, dict[str, str]]:
    """Return an interpreter and its variables that has no server beside it.

    The tests' own has one after the README's first command, which a start elsewhere does not leave behind silently.
    """
    venv.EnvBuilder(symlinks=True).create(folder)
    return str(folder / "bin" / "python"), {"PYTHONPATH": os.pathsep.join([str(ROOT), *site.getsitepackages()])}


def folder_of(test: SynchronousTestCase) -> Path:
    """Make a folder with a short path, which is deleted after the test."""
    folder = Path(mkdtemp(prefix="gamed-test-"))
    test.addCleanup(rmtree, folder)
    return folder


class CommandTestCase(SynchronousTestCase):
    """Each test has a folder of its own; processes that still run are killed when it ends.

    Files need no configuration; with PostgreSQL there is one, which names the store.
    """

    forked = True
    """Whether processes of gamed are forked; False for tests of the start itself."""

    def setUp(self) -> None:
        self.folder = folder_of(self)
        self.config, self.data = self.folder / "authentication.json", self.folder / "data"
        self.environ: dict[str, str] = {}
        if POSTGRESQL:
            self.environ["GAMED_MASTER_KEY"] = MASTER_KEY
            self.write_config()
            self.addCleanup(forget_store, self.data)

    def files(self) -> set[Path]:
        """Return the paths of everything in this folder but compiled modules."""
        return {path for path in self.folder.rglob("*") if "__pycache__" not in path.parts}

    def write_config(self, members: Mapping[str, Any] = LOCAL) -> None:
        """Write the configuration, which also names the store of this run of the tests."""
        self.config.write_text(json.dumps(with_store(members, self.data)), "utf-8")

    def run_transaction(self, database: str, transaction: Transaction[T]) -> T:
        """Run a write transaction on `auth` or `state`, as a command does."""
        with closing(store_of(self.data)) as store:
            return store.run_transaction(database, transaction)

    def rows(self, database: str, query: str) -> list[tuple[Any, ...]]:
        """Return the rows of `auth` or `state` that are committed."""
        with closing(store_of(self.data)) as store:
            found: list[tuple[Any, ...]] = store.run_read(database, lambda c: c.execute(query).fetchall())
            return found

    @property
    def places(self) -> list[str]:
        return ["--config", str(self.config), "--data", str(self.data)]

    def run_command(self, *arguments: str, of: Sequence[str] = GAMED, stdin: str = "") -> tuple[int, str, str]:
        """Run a command to its end; return exit code, stdout and stderr."""
        return self._finish([*of, *arguments], stdin)

    def _finish(self, command: Sequence[str], text: str, **how: Any) -> tuple[int, str, str]:
        done = forks.run(command, text, timeout=WAIT_SECONDS, **self._surroundings(), **how)
        return done.returncode, done.stdout, done.stderr

    def fork_with(self, path: str) -> None:
        """Fork processes with this PYTHONPATH, too, until the test ends."""
        self.addCleanup(forks.add_parent(path))

    def _surroundings(self) -> dict[str, Any]:
        return {"cwd": self.folder, "env": environment(self.environ), "forked": self.forked}

    def gamed_at_terminal(self, answer: str, *arguments: str) -> tuple[int, str, str]:
        """Run gamed with a terminal as standard input, and type `answer`; return exit code, stdout and stderr."""
        near, far = pty.openpty()
        try:
            os.write(near, answer.encode())
            return self._finish([*GAMED, *self.places, *arguments], "", stdin=far)
        finally:
            os.close(near)
            os.close(far)

    def gamed(self, *arguments: str, stdin: str = "") -> tuple[int, str, str]:
        return self.run_command(*self.places, *arguments, stdin=stdin)

    def gamed_here(self, *arguments: str) -> tuple[int, str, str]:
        """Run a command that only reads its arguments and files, in this process."""
        return run_here(*self.places, *arguments, environ=environment(self.environ))

    def start(self, *command: str) -> forks.Process:
        """Start a process whose output goes to the file `out` of the folder; it is killed after the test."""
        with open(self.folder / "out", "w", encoding="utf-8") as out:
            process = forks.popen(command, stdout=out, stderr=out, **self._surroundings())
        self.addCleanup(_end, process)
        return process

    def await_output(self, text: str) -> None:
        """Wait until the processes have written this text."""
        deadline = time.monotonic() + WAIT_SECONDS
        while text not in self.output():
            self.assertLess(time.monotonic(), deadline, self.output())
            time.sleep(0.05)

    def output(self) -> str:
        return (self.folder / "out").read_text("utf-8")

    def serve(self, *options: str, port: int | None = None) -> tuple[forks.Process, int]:
        """Start `gamed serve` in this folder, and wait until it answers; return the process and the port."""
        port = port or free_port()
        process = self.start(*GAMED, *self.places, "serve", f"--listen=tcp:{port}:interface=127.0.0.1", *options)
        self.await_answer(port, process)
        return process, port

    def await_answer(self, port: int, process: forks.Process | None = None) -> None:
        deadline = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < deadline:
            if process is not None and process.poll() is not None:
                self.fail(f"ended with {process.returncode}:\n{self.output()}")
            try:
                if get(port, "/healthz") == (200, b"ok"):
                    return
            except OSError:
                time.sleep(0.02)
        self.fail(f"no answer on port {port}")

    def stop(self, process: forks.Process) -> int:
        process.send_signal(signal.SIGTERM)
        return process.wait(WAIT_SECONDS)


def get(port: int, path: str, token: str = "") -> tuple[int, bytes]:
    """Send a GET request, with an access token if there is one; return status and body."""
    with closing(HTTPConnection("127.0.0.1", port, timeout=WAIT_SECONDS)) as connection:
        connection.request("GET", path, headers={"Authorization": f"Bearer {token}"} if token else {})
        answer = connection.getresponse()
        return answer.status, answer.read()


def without_root_warning(err: str) -> str:
    """Return what a start printed to stderr, but for the warning that it has as root."""
    return sub(r"gamed: warning: the server runs as root\..*\n", "", err)


def await_end(pid: int) -> None:
    """Wait until a process has ended that is not a child of this one, whether its parent has waited for it or not."""
    deadline = time.monotonic() + WAIT_SECONDS
    while _lives(pid) and time.monotonic() < deadline:
        time.sleep(0.01)


def end_daemon(pid: int) -> None:
    """Kill a process if it still runs, and wait for its end: it no longer writes into its folder."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    await_end(pid)


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text("ascii", "replace").rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def _end(process: forks.Process) -> None:
    if process.poll() is None:
        process.kill()
    process.wait()
