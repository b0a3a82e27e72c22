"""Processes of gamed that are forked from one that has imported all of it, which saves most of their processor time.

Such a process has its own arguments, environment, folder, files, signals and exit code, and ends as any other. A test
of the start itself, such as one that lists modules or reads `/proc/<pid>/environ`, asks for a process of its own.
"""

import atexit
import gc
import inspect
import io
import os
import pickle
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SCRIPT = (sys.executable, "-c", "from gamed.cli import main; main()")
MODULE = (sys.executable, "-m", "gamed")
READ_AT_START = ("COVERAGE_", "LANG", "LC_", "LD_", "LISTEN_", "MALLOC_", "OPENSSL_", "PYTHON")
"""The first letters of variables that Python, Twisted and libraries read only when they are loaded."""
KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR")
IMPORTED = (
    *("gamed.service", "gamed.tap", "gamed.ops.metrics", "gamed.dev.provider", "gamed.database.postgresql.store"),
    *("twisted.scripts.twistd", "argon2", "psycopg"),
)
PIPES = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
REFUSED = ("executable", "preexec_fn", "pass_fds", "shell", "start_new_session")
GIVEN = [*inspect.signature(subprocess.Popen._execute_child).parameters][1:]  # type: ignore[attr-defined]
LENGTH_BYTES, PID_BYTES, STATUS_BYTES = 8, 8, 4


def popen(
    command: Sequence[str], *, env: Mapping[str, str], forked: bool = True, **how: Any
) -> "subprocess.Popen[Any]":
    """Start a process as `subprocess.Popen` does; one of gamed is a fork, if that may be."""
    return (_Fork if forked and _may_fork(command, env) else subprocess.Popen)(command, env=env, **how)


def run(
    command: Sequence[str], text: str | None = None, *, timeout: float, stdin: int = subprocess.PIPE, **how: Any
) -> "subprocess.CompletedProcess[str]":
    """Run a command until it ends, with `text` as standard input; return what it printed."""
    printed = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with popen(command, stdin=stdin, **printed, **how) as process:
        try:
            out, err = process.communicate(text, timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def _may_fork(command: Sequence[str], env: Mapping[str, str]) -> bool:
    first, program = tuple(command[:2]), command[2] if len(command) > 2 else ""
    ours = (*first, program) in (SCRIPT, MODULE) or (first == MODULE[:2] and program.startswith("tests."))
    return ours and _read_at_start(env) == _read_at_start(_environment())


def _read_at_start(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name.startswith(READ_AT_START)}


def _environment() -> dict[str, str]:
    return {name: os.environ[name] for name in KEPT if name in os.environ} | {"PYTHONPATH": str(ROOT)}


class _Fork(subprocess.Popen[Any]):
    """A forked process; its parent, which is not this process, writes its number and its status into a pipe."""

    def _execute_child(self, *given: Any) -> None:
        how = dict(zip(GIVEN, given, strict=False))
        pipes = [how[name] for name in PIPES]
        assert not any(how[name] for name in REFUSED), "a fork has arguments, cwd, env and streams"
        near, far = os.pipe()
        self._pipe = os.fdopen(near, "rb", 0)
        streams = [theirs if theirs >= 0 else own for own, theirs in enumerate((pipes[0], pipes[3], pipes[5]))]
        request = list(map(str, how["args"])), os.fspath(how["cwd"] or os.getcwd()), dict(how["env"])
        try:
            _parent().start(request, [*streams, far])
        finally:
            os.close(far)
            self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]
        self.pid = int.from_bytes(self._read(PID_BYTES))
        self._child_created = True

    def _read(self, count: int) -> bytes:
        found = self._pipe.read(count)
        assert len(found) == count, "the process that forks has ended"
        return found

    def _internal_poll(self, _deadstate: int | None = None) -> int | None:
        return self._ended(0)

    def _wait(self, timeout: float | None) -> int:
        if self._ended(timeout) is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired(self.args, timeout)
        return self.returncode

    def _ended(self, seconds: float | None) -> int | None:
        """Return the exit code, or None if the process has not ended in so many seconds."""
        if self.returncode is None:
            waiting = select.poll()
            waiting.register(self._pipe, select.POLLIN)
            if not waiting.poll(None if seconds is None else max(0, seconds) * 1000):
                return None
            with self._waitpid_lock:  # type: ignore[attr-defined]
                if self.returncode is None:
                    self.returncode = os.waitstatus_to_exitcode(int.from_bytes(self._read(STATUS_BYTES)))
                    self._pipe.close()
        return self.returncode


class _Parent:
    """The process that forks, as its only client has it."""

    def __init__(self) -> None:
        self._socket, far = socket.socketpair()
        with far:
            command = [sys.executable, "-m", "tests.support.forks", str(far.fileno())]
            how: dict[str, Any] = {"cwd": ROOT, "env": _environment(), "stdin": subprocess.DEVNULL}
            self._process = subprocess.Popen(command, pass_fds=[far.fileno()], **how)
        self._lock = threading.Lock()
        atexit.register(self.close)

    def start(self, request: tuple[list[str], str, dict[str, str]], descriptors: list[int]) -> None:
        body = pickle.dumps(request)
        with self._lock:
            socket.send_fds(self._socket, [len(body).to_bytes(LENGTH_BYTES)], descriptors)
            self._socket.sendall(body)

    def close(self) -> None:
        self._socket.close()
        self._process.wait()


@cache
def _parent() -> _Parent:
    return _Parent()


def fork_on_request(requests: socket.socket) -> Callable[[], None]:
    """Fork for each request; return what a new process has to do, in that process."""
    pipes: dict[int, int] = {}

    def reap(number: int, frame: object) -> None:
        with suppress(ChildProcessError):  # none is left
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                pipe = pipes.pop(found[0])
                with suppress(BrokenPipeError):  # the test has forgotten the process
                    os.write(pipe, found[1].to_bytes(STATUS_BYTES))
                os.close(pipe)

    signal.signal(signal.SIGCHLD, reap)
    while True:
        head, descriptors, _, _ = socket.recv_fds(requests, LENGTH_BYTES, 4, socket.MSG_WAITALL)
        if not head:
            sys.exit()
        request = requests.recv(int.from_bytes(head), socket.MSG_WAITALL)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
        if (pid := os.fork()) == 0:
            requests.detach()
            return partial(_become, descriptors[:3], *pickle.loads(request))
        for each in descriptors[:3]:
            os.close(each)
        pipes[pid] = descriptors[3]
        os.write(pipes[pid], pid.to_bytes(PID_BYTES))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})


def _become(streams: Sequence[int], command: list[str], cwd: str, env: dict[str, str]) -> None:
    """Make this process like one that the command has started, and run its program."""
    from twisted.internet import reactor

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
    for number, each in enumerate(streams):
        os.dup2(each, number)
    reactor._poller.close()  # type: ignore[attr-defined]
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    reactor.__init__()  # type: ignore[misc]  # it had the descriptors of the parent
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    time.tzset()
    for name, number in (("stdin", 0), ("stdout", 1), ("stderr", 2)):
        _open_stream(name, number)
    sys.orig_argv = command
    sys.argv = [*command[1:2], *command[3:]]
    _end_quickly(partial(_run, *command[1:3]))


def _run(option: str, program: str) -> None:
    """Run a module, or the text of a program, as Python does."""
    if option == "-m":
        runpy.run_module(program, run_name="__main__", alter_sys=True)
    else:
        exec(program, {"__name__": "__main__"})


def _end_quickly(main: Callable[[], None]) -> None:
    """Run `main`, and let the process end without a destructor for each object, which would copy all memory."""
    code: object = 0

    def leave() -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else int(code is not None))

    atexit.register(leave)
    try:
        main()
    except SystemExit as e:
        code = e.code
        raise
    except BaseException:
        atexit.unregister(leave)
        raise


def _open_stream(name: str, number: int) -> None:
    before = getattr(sys, name)
    raw = io.FileIO(number, "rb" if number == 0 else "wb", closefd=False)
    buffered = io.BufferedReader(raw) if number == 0 else io.BufferedWriter(raw)
    stream = io.TextIOWrapper(buffered, before.encoding, before.errors, line_buffering=number == 2 or raw.isatty())
    setattr(sys, name, stream)
    setattr(sys, f"__{name}__", stream)


def _import_all() -> None:
    from gamed.cli.commands import COMMANDS

    for name in (*IMPORTED, *(f"gamed.cli.{module}" for _, module, _ in COMMANDS.values())):
        import_module(name)
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    _import_all()
    fork_on_request(socket.socket(fileno=int(sys.argv[1])))()
