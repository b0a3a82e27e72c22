"""`gamed serve --workers N`: a parent listens and starts N processes, which serve on the parent's sockets.

A worker is `gamed serve --share` in a new process. It inherits the listening sockets as systemd would pass them, and
reports to the parent through a pipe what a service reports to systemd. The secrets of the parent's environment are
passed in the worker's environment.
"""

import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct
from twisted.application.service import MultiService
from twisted.internet.defer import Deferred, succeed
from twisted.internet.error import ProcessExitedAlready
from twisted.internet.protocol import Factory, ProcessProtocol
from twisted.logger import Logger
from twisted.python.failure import Failure

from gamed.cli.errors import CONFIGURATION, NOT_DONE, SetupError, exit_on_error
from gamed.cli.process import end_with_parent, exit_cleanly_on_sigterm
from gamed.database.periodic import PeriodicTask
from gamed.event_log import EventLog
from gamed.ops.listeners import ListenerService
from gamed.ops.systemd import PIPE, SystemdNotifier
from gamed.structs import redacts

LEAST, MOST = 2, 16
FIRST_SOCKET = 3
DEATHS_PER_MINUTE = 5
WATCH_SECONDS = RETRY_SECONDS = 1.0
LATE_SECONDS = 3.0
"""A check that is later than this shows that the parent itself was stopped, with a paused machine for example."""
START_SECONDS, STOP_SECONDS = 90.0, 30.0
"""The time that a worker has to start or to stop before it is killed; it extends it as a service does for systemd."""
WATCHDOG_SECONDS = 30.0
"""How long a worker may be silent once it is ready, without a watchdog of systemd; the same as in gamed's units."""
MARK, IMPORTS = "GAMED_WORKER", "GAMED_WORKER_PATH"
"""The variables with a worker's number and its parent's process, and with the folders that it imports from."""
OF_PARENT = ("WATCHDOG_PID", "WATCHDOG_USEC")
SHARED_KINDS = ("tcp", "tcp6", "unix", "systemd")
OWN_LOGGER = "gamed.cli.service.serve"
"""The module whose observer gamed itself chooses."""
REFUSED_OPTIONS = ("chroot", "profile", "debug")
"""Options of twistd that would have an effect on the parent alone."""
BOOT = (
    "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN); "
    "signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT]); os.environ['LISTEN_PID'] = str(os.getpid()); "
    f"sys.path[:] = os.environ.pop('{IMPORTS}').split(os.pathsep); "
    "from gamed.cli.service.workers import run_worker; run_worker(sys.argv[1:])"
)
_log = EventLog(Logger())


class WorkerMark(Struct, frozen=True):
    """The number of this worker, from 1, and the process that started it."""

    number: int
    parent: int

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> "WorkerMark | None":
        """Parse the mark in the environment; return None in a process that is not a worker."""
        number, _, parent = environ.get(MARK, "").partition(" ")
        return cls(int(number), int(parent)) if number.isdecimal() and parent.isdecimal() else None


@redacts("environ")
class WorkerPlan(Struct, frozen=True):
    """The command lines of the workers, and their environment, which has secrets."""

    commands: Sequence[Sequence[str]]
    """The arguments of each worker, beginning with the options of twistd."""
    environ: Mapping[str, str]


def parse_count(text: str | None) -> int:
    """Parse --workers; return 0 without the option, raise SetupError if it is not a number of workers."""
    if text is None:
        return 0
    if not (text.isascii() and text.isdecimal() and len(text) < 3 and LEAST <= int(text) <= MOST):
        raise SetupError(f"--workers: expected a number from {LEAST} to {MOST}. A server without it is one process.")
    return int(text)


def refuse_kinds(endpoints: Sequence[str]) -> None:
    """Raise SetupError for an endpoint whose socket workers cannot share, such as one with TLS."""
    for text in endpoints:
        if text.partition(":")[0] not in SHARED_KINDS:
            raise SetupError(
                f"--listen {text}: with --workers expected tcp:, tcp6:, unix: or systemd:. Let a proxy end TLS: see "
                "gamed caddy and gamed nginx."
            )


def log_arguments(twistd: Mapping[str, Any], number: int, *, to_stdout: bool) -> list[str]:
    """Return twistd's options for the log of a worker: its own file beside the parent's, or its own prefix in syslog.

    Raise SetupError for options that --workers does not support.
    """
    for name in REFUSED_OPTIONS:
        if twistd.get(name):
            raise SetupError(f"twistd --{name} and --workers: leave one of them out.")
    logger = twistd.get("logger")
    if logger is not None and logger.__module__ != OWN_LOGGER:
        return [f"--logger={logger.__module__}.{logger.__qualname__}"]
    if twistd.get("syslog"):
        return ["--syslog", f"--prefix={twistd['prefix']}-{number}"]
    if to_stdout:
        return []
    path = Path(twistd.get("logfile") or "twistd.log")
    return [f"--logfile={path.with_name(f'{path.stem}-{number}{path.suffix}')}"]


def run_worker(arguments: Sequence[str]) -> None:
    """Run a worker until it is stopped, or until its parent has ended."""
    exit_cleanly_on_sigterm()
    with exit_on_error():
        mark = WorkerMark.of(os.environ)
        if mark is None:
            raise SetupError(f"{MARK} is not the mark of a worker. Start workers with gamed serve --workers N.")
        end_with_parent(mark.parent)
        from gamed.cli.service.serve import run  # late: it is most of Twisted

        run(arguments)


class WorkersParent(MultiService):
    """The service of the parent: it opens the ports, and has one process for each worker."""

    def __init__(
        self,
        reactor: Any,
        plan: WorkerPlan,
        listen: Sequence[str],
        notifier: SystemdNotifier,
        exit_with: Callable[[int], None],
    ) -> None:
        """Call `exit_with` with the exit code, and stop the reactor, when workers end too often."""
        super().__init__()  # type: ignore[no-untyped-call]
        self._reactor = reactor
        self._plan = plan
        self._notifier = notifier
        self._exit_with = exit_with
        self._listeners = ListenerService(reactor, listen, Factory())
        self._listeners.setServiceParent(self)  # type: ignore[no-untyped-call]
        self._workers: dict[int, WorkerProcess] = {}
        self._deaths: deque[float] = deque()
        self._ready = self._given_up = False
        self._ended: Deferred[None] | None = None
        """Fires when the last worker has ended; None until the service stops."""
        self._watch = PeriodicTask(reactor, WATCH_SECONDS, self._kill_overdue, "workers")
        self._beat: PeriodicTask | None = None

    def privilegedStartService(self) -> None:
        super().privilegedStartService()  # type: ignore[no-untyped-call]
        self._sockets = self._listeners.pause()

    def startService(self) -> None:
        super().startService()  # type: ignore[no-untyped-call]
        self._reactor.callWhenRunning(self._start_all)

    def _start_all(self) -> None:
        for number in range(1, len(self._plan.commands) + 1):
            self._start(number)
        self._watched = self._reactor.seconds()
        self._watch.start()
        if (seconds := self._notifier.heartbeat_seconds) is not None:
            self._beat = PeriodicTask(self._reactor, seconds, self._send_heartbeat, "watchdog")
            self._beat.start(now=True)

    def _start(self, number: int) -> None:
        self._workers[number] = worker = WorkerProcess(number, self._reactor.seconds, self._heard, self._has_ended)
        sockets = dict(enumerate(self._sockets, FIRST_SOCKET))
        pipe = FIRST_SOCKET + len(sockets)
        environ = {
            **{name: value for name, value in self._plan.environ.items() if name not in OF_PARENT},
            MARK: f"{number} {os.getpid()}",
            IMPORTS: os.pathsep.join(folder or os.getcwd() for folder in sys.path),
            "LISTEN_FDS": str(len(sockets)),
            "LISTEN_FDNAMES": ":".join(["gamed"] * len(sockets)),
            "NOTIFY_SOCKET": f"{PIPE}{pipe}",
        }
        worker.watched_seconds = (self._notifier.heartbeat_seconds or WATCHDOG_SECONDS / 2) * 2
        environ["WATCHDOG_USEC"] = str(int(worker.watched_seconds * 1_000_000))
        command = [sys.executable, "-P", "-c", BOOT, *self._plan.commands[number - 1]]
        with open(os.devnull, "rb") as nothing:
            streams = {0: nothing.fileno(), 1: 1, 2: 2}
            descriptors = {**streams, **sockets, pipe: "r"}
            # Ctrl-C reaches each process of the terminal: a worker is stopped by its parent, and BOOT ignores SIGINT.
            before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
            try:
                self._reactor.spawnProcess(worker, command[0], command, environ, childFDs=descriptors)
            except OSError as e:  # the system has no more processes or memory
                _log.error("worker_not_started", worker=number, detail=e)
                self._reactor.callLater(RETRY_SECONDS, self._has_ended, worker, NOT_DONE)
                return
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
        _log.info("worker_started", worker=number, pid=worker.pid)

    def _heard(self, worker: "WorkerProcess", line: str) -> None:
        """Pass on to systemd what concerns the whole service."""
        if line.startswith("EXTEND_TIMEOUT_USEC=") and (not self._ready or self._ended is not None):
            self._notifier.notify(line)
        if line.startswith("STATUS=") and self._ended is None:
            ready = sum(each.ready for each in self._workers.values())
            self._notifier.status(f"{ready} of {len(self._plan.commands)} workers: {line.removeprefix('STATUS=')}")
        if not self._ready and len(self._workers) == sum(each.ready for each in self._workers.values()):
            self._ready = True
            self._notifier.notify("READY=1")

    def _has_ended(self, worker: "WorkerProcess", code: int) -> None:
        """Start the worker again, unless the service stops or workers end too often."""
        del self._workers[worker.number]
        if self._ended is not None and not self._workers:
            self._ended.callback(None)
        if self._ended is not None or self._given_up:
            return
        now = self._reactor.seconds()
        self._deaths.append(now)
        while self._deaths[0] <= now - 60:
            self._deaths.popleft()
        _log.error("worker_ended", worker=worker.number, pid=worker.pid, code=code)
        if code == CONFIGURATION or len(self._deaths) > DEATHS_PER_MINUTE:
            self._given_up = True
            _log.error("workers_given_up", ended=len(self._deaths))
            self._exit_with(CONFIGURATION if code == CONFIGURATION else NOT_DONE)
            self._reactor.stop()
        else:
            self._start(worker.number)

    def _kill_overdue(self) -> Deferred[None]:
        now = self._reactor.seconds()
        late, self._watched = now - self._watched - WATCH_SECONDS, now
        if late > LATE_SECONDS:  # this process was stopped, and what the workers sent is not read yet
            for worker in self._workers.values():
                worker.extend(late)
        for worker in self._workers.values():
            if worker.overdue:
                _log.error("worker_killed", worker=worker.number, pid=worker.pid)
                worker.kill()
        return succeed(None)

    def _send_heartbeat(self) -> Deferred[None]:
        self._notifier.notify("WATCHDOG=1")
        return succeed(None)

    def stopService(self) -> Deferred[Any]:
        """Stop the workers and wait for them; then close the ports."""
        self._notifier.notify("STOPPING=1", "STATUS=the workers finish requests in progress")
        self._ended = ended = Deferred[None]()
        for worker in self._workers.values():
            worker.stop()
        if not self._workers:
            ended.callback(None)
        return ended.addCallback(lambda _: self._close())

    def _close(self) -> Any:
        self._watch.stop()
        if self._beat is not None:
            self._beat.stop()
        return super().stopService()  # type: ignore[no-untyped-call]


class WorkerProcess(ProcessProtocol):
    """A running worker, and what it has reported."""

    def __init__(
        self,
        number: int,
        seconds: Callable[[], float],
        heard: Callable[["WorkerProcess", str], None],
        ended: Callable[["WorkerProcess", int], None],
    ) -> None:
        self.number = number
        self.pid: int | None = None
        self.ready = False
        self.watched_seconds = WATCHDOG_SECONDS
        """How long the worker may be silent once it is ready."""
        self._seconds = seconds
        self._heard = heard
        self._ended = ended
        self._line = ""
        self._stopping = False
        self._deadline: float | None = seconds() + START_SECONDS

    @property
    def overdue(self) -> bool:
        """Return whether the worker has not reported in time."""
        return self._deadline is not None and self._seconds() > self._deadline

    def extend(self, seconds: float) -> None:
        """Give the worker a new deadline after a pause of this length, in which it may have been stopped, too."""
        if self._deadline is not None:
            self._deadline = max(self._deadline + seconds, self._seconds() + self.watched_seconds)

    def connectionMade(self) -> None:
        self.pid = self.transport.pid  # type: ignore[union-attr]

    def stop(self) -> None:
        """Let the worker end; from now on it is overdue if it does not extend its time."""
        self._stopping = True
        self._deadline = self._seconds() + STOP_SECONDS
        self._signal("TERM")

    def kill(self) -> None:
        self._deadline = None
        self._signal("KILL")

    def _signal(self, name: str) -> None:
        if self.transport is not None:  # else it was not started
            with suppress(ProcessExitedAlready):
                self.transport.signalProcess(name)

    def childDataReceived(self, childFD: int, data: bytes) -> None:
        *lines, self._line = (self._line + data.decode("utf-8", "replace")).split("\n")
        for line in lines:
            self._note(line)
            self._heard(self, line)

    def _note(self, line: str) -> None:
        name, _, value = line.partition("=")
        if name == "EXTEND_TIMEOUT_USEC" and value.isdecimal():
            self._deadline = self._seconds() + int(value) / 1_000_000
        elif name in ("READY", "WATCHDOG") and not self._stopping:
            self.ready = True
            self._deadline = self._seconds() + self.watched_seconds

    def processEnded(self, reason: Failure) -> None:
        self._ended(self, _code(reason))


def _code(reason: Failure) -> int:
    """Return the exit code of a process, or the negative number of the signal that ended it."""
    ending = reason.value
    return -ending.signal if ending.signal is not None else ending.exitCode or 0  # type: ignore[union-attr]
