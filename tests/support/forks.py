"""Processes of gamed that are forked from one that has imported all of it, which saves most of their processor time.

Such a process has its own arguments, environment, folder, files, signals and exit code, and ends as any other. A test
of the start itself, such as one that lists modules or reads `/proc/<pid>/environ`, asks for a process of its own.
"""

import atexit
import gc
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
from functools import partial
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

ROOT = Path(__file__).parents[2]
SCRIPT = (sys.executable, "-c", "from gamed.cli import main; main()")
MODULE = (sys.executable, "-m", "gamed")
READ_AT_START = ("COVERAGE_", "LANG", "LC_", "LD_", "LISTEN_", "MALLOC_", "OPENSSL_", "PYTHON")
"""The first letters of variables that Python, Twisted and libraries read only when they are loaded."""
COERCED = "C.UTF-8"
"""The LC_CTYPE that Python adds."""
KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR")
IMPORTED = (
    *("gamed.service", "gamed.tap", "gamed.ops.metrics", "gamed.dev.provider", "gamed.database.postgresql.store"),
    *("twisted.scripts.twistd", "argon2", "psycopg"),
    "hypothesis",  # each module below tests/ imports it, which would take three times as long as the rest of its start
)
LENGTH_BYTES, PID_BYTES, STATUS_BYTES = 8, 8, 4
Stream = int | IO[Any]


class Fork:
    """A forked process, with the methods of `subprocess.Popen` that tests use.

    Its parent, which is not this process, writes the number and later the status of the process into a pipe.
    """

    def __init__(self, command: Sequence[str], pipe: int) -> None:
        self.args = command
        self.returncode: int | None = None
        self._lock = threading.Lock()
        self._pipe = os.fdopen(pipe, "rb", 0)
        self.pid = int.from_bytes(self._read(PID_BYTES))

    def poll(self) -> int | None:
        """Return the exit code, negative after a signal; None while the process runs."""
        return self._ended(0)

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code; raise `subprocess.TimeoutExpired` if the process has not ended in so many seconds."""
        code = self._ended(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(self.args, timeout)
        return code

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the process has ended: its number may be another one's by then."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _ended(self, seconds: float | None) -> int | None:
        if self.returncode is None and _is_readable(self._pipe.fileno(), seconds):
            with self._lock:
                if self.returncode is None:
                    self.returncode = os.waitstatus_to_exitcode(int.from_bytes(self._read(STATUS_BYTES)))
                    self._pipe.close()
        return self.returncode

    def _read(self, count: int) -> bytes:
        found = self._pipe.read(count)
        assert len(found) == count, "the process that forks has ended"
        return found


class _Program(subprocess.Popen[bytes]):
    """A process of its own. `Popen.wait()` with a timeout would sleep up to 50 ms between two looks at the process."""

    def wait(self, timeout: float | None = None) -> int:
        if timeout is None or self.poll() is not None:
            return super().wait()
        ended = os.pidfd_open(self.pid)
        try:
            _is_readable(ended, timeout)
        finally:
            os.close(ended)
        if self.poll() is None:
            raise subprocess.TimeoutExpired(self.args, timeout)
        return self.returncode


def _is_readable(descriptor: int, seconds: float | None) -> bool:
    """Wait at most so many seconds."""
    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN)
    return bool(waiting.poll(None if seconds is None else seconds * 1000))


Process = Fork | subprocess.Popen[Any]


def popen(
    command: Sequence[str],
    *,
    env: Mapping[str, str],
    stdout: Stream,
    stderr: Stream,
    stdin: Stream | None = None,
    cwd: Path | None = None,
    forked: bool = True,
) -> Process:
    """Start a process with open files as its streams, by default an empty `stdin`; one of gamed is a fork if it can."""
    with open(os.devnull, "rb") as nothing:
        given = (nothing if stdin is None else stdin, stdout, stderr)
        streams = [each if isinstance(each, int) else each.fileno() for each in given]
        parent = _find_parent(command, env) if forked else None
        if parent is not None:
            return parent.fork(command, cwd or Path.cwd(), env, streams)
        return _Program(command, cwd=cwd, env=env, stdin=streams[0], stdout=streams[1], stderr=streams[2])


def run(
    command: Sequence[str], text: str = "", *, timeout: float, stdin: Stream | None = None, **how: Any
) -> "subprocess.CompletedProcess[str]":
    """Run a command until it ends, with `text` or a stream as standard input; return what it printed.

    Its streams are files: a pipe would have to be emptied while the command runs.
    """
    with (
        TemporaryFile("w+", encoding="utf-8") as given,
        TemporaryFile("w+", encoding="utf-8") as out,
        TemporaryFile("w+", encoding="utf-8") as err,
    ):
        given.write(text)
        given.seek(0)
        process = popen(command, stdin=given if stdin is None else stdin, stdout=out, stderr=err, **how)
        try:
            code = process.wait(timeout)
        finally:
            process.kill()
            process.wait()
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(command, code, out.read(), err.read())


def add_parent(path: str) -> Callable[[], None]:
    """Let processes with this PYTHONPATH be forks, too, until the returned function is called.

    Their parent takes as much time to start as three or four of them would.
    """
    parent = _parents.setdefault(path, _Parent(path))

    def remove() -> None:
        _parents.pop(path, None)
        parent.close()

    return remove


def _find_parent(command: Sequence[str], env: Mapping[str, str]) -> "_Parent | None":
    first, program = tuple(command[:2]), command[2] if len(command) > 2 else ""
    ours = (*first, program) in (SCRIPT, MODULE) or (first == MODULE[:2] and program.startswith("tests."))
    parent = _parents.get(env.get("PYTHONPATH", ""))
    return parent if ours and parent and read_at_start(env) == read_at_start(parent.env) else None


def read_at_start(env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that count when a process starts.

    Where there is no locale Python adds LC_CTYPE to its own environment (PEP 538), so that a test which passes that on
    and one which does not start the same process.
    """
    found = {name: value for name, value in env.items() if name.startswith(READ_AT_START)}
    if found.get("LC_CTYPE") == COERCED and not env.get("LANG") and not env.get("LC_ALL"):
        del found["LC_CTYPE"]
    return found


class _Parent:
    """The process that forks, as its only client has it; it starts with the first fork."""

    def __init__(self, path: str) -> None:
        self.env = {name: os.environ[name] for name in KEPT if name in os.environ} | {"PYTHONPATH": path}
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def fork(self, command: Sequence[str], cwd: Path, env: Mapping[str, str], streams: Sequence[int]) -> Fork:
        os.umask(umask := os.umask(0o077))  # there is no other way to read it; a process of its own inherits it
        body = pickle.dumps((list(map(str, command)), os.fspath(cwd), dict(env), umask))
        near, far = os.pipe()
        try:
            with self._lock:
                if self._process is None:
                    self._start()
                socket.send_fds(self._socket, [len(body).to_bytes(LENGTH_BYTES)], [*streams, far])
                self._socket.sendall(body)
        finally:
            os.close(far)
        return Fork(command, near)

    def _start(self) -> None:
        self._socket, far = socket.socketpair()
        with far:
            # -P: this file's folder, which Python would search first, has modules such as `http`
            command = [sys.executable, "-P", __file__, str(far.fileno())]
            how: dict[str, Any] = {"cwd": "/", "env": self.env, "stdin": subprocess.DEVNULL}
            self._process = subprocess.Popen(command, pass_fds=[far.fileno()], **how)

    def close(self) -> None:
        if self._process is not None:
            self._socket.close()
            self._process.wait()
            self._process = None


_parents: dict[str, _Parent] = {}
"""The processes that fork, by the PYTHONPATH of their forks."""
atexit.register(add_parent(str(ROOT)))


def fork_on_request(requests: socket.socket) -> Callable[[], None]:
    """Fork for each request; return what a new process has to do, in that process."""
    children: dict[int, tuple[int, int]] = {}
    waiting = select.poll()
    waiting.register(requests, select.POLLIN)
    while True:
        for ready, _ in waiting.poll():
            if ready in children:
                waiting.unregister(ready)
                _report_end(ready, *children.pop(ready))
                continue
            head, streams, _, _ = socket.recv_fds(requests, LENGTH_BYTES, 4, socket.MSG_WAITALL)
            if not head:
                sys.exit()
            request = requests.recv(int.from_bytes(head), socket.MSG_WAITALL)
            if (pid := os.fork()) == 0:
                requests.detach()
                return partial(_become, streams[:3], *pickle.loads(request))
            for each in streams[:3]:
                os.close(each)
            ended = os.pidfd_open(pid)
            children[ended] = pid, streams[3]
            waiting.register(ended, select.POLLIN)
            os.write(streams[3], pid.to_bytes(PID_BYTES))


def _report_end(ended: int, pid: int, pipe: int) -> None:
    status = os.waitpid(pid, 0)[1]
    with suppress(BrokenPipeError):  # the test has forgotten the process
        os.write(pipe, status.to_bytes(STATUS_BYTES))
    os.close(pipe)
    os.close(ended)


def _become(streams: Sequence[int], command: list[str], cwd: str, env: dict[str, str], umask: int) -> None:
    """Make this process like one that the command has started, and run its program."""
    from twisted.internet.default import install

    for number, each in enumerate(streams):
        os.dup2(each, number)
    # The parent's reactor has descriptors that are closed here. Klein keeps it alive, so that no destructor closes
    # descriptors of the new one; only `Klein.run`, which gamed does not use, would run it.
    del sys.modules["twisted.internet.reactor"]
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    install()
    os.chdir(cwd)
    os.umask(umask)
    # Without a locale a Python that starts adds LC_CTYPE (PEP 538), as this process's parent did.
    coerced = {name: value for name, value in os.environ.items() if name == "LC_CTYPE"}
    os.environ.clear()
    os.environ.update(coerced | dict(env))
    time.tzset()
    for name, number in (("stdin", 0), ("stdout", 1), ("stderr", 2)):
        _open_stream(name, number)
    sys.orig_argv = command
    sys.argv = [*command[1:2], *command[3:]]
    sys.path.insert(0, "" if command[1] == "-c" else cwd)
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
    from gamed.ops.late_modules import FOR_ALL, FOR_PASSWORDS, FOR_PROVIDERS
    from gamed.pages.render import PageRenderer

    late = (*FOR_ALL, *FOR_PASSWORDS, *FOR_PROVIDERS)
    for name in (*IMPORTED, *late, *(f"gamed.cli.{module}" for _, module, _ in COMMANDS.values())):
        import_module(name)
    pages = PageRenderer()
    for name in pages.names:
        pages.prepare(name)
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    _import_all()
    fork_on_request(socket.socket(fileno=int(sys.argv[1])))()
