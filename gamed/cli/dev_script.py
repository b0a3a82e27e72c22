"""`gamed dev --script`: a command that begins when the server answers, and with whose end everything ends."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from http.client import HTTPConnection
from pathlib import Path
from threading import Event
from typing import Any

from twisted.internet.threads import deferToThread

from gamed.cli.dev_plan import LOOPBACK, Plan
from gamed.cli.dev_samples import PLAYERS_FILE

NOT_STARTED, SIGNALLED = 127, 128
LOG_FILE, LOG_LINES = "service.log", 30
TRY_SECONDS, GRACE_SECONDS = 0.05, 5.0


def environment(plan: Plan, inherited: Mapping[str, str]) -> dict[str, str]:
    """What the command finds: where the server is, and who may play there. None of the server's secrets."""
    kept = {name: value for name, value in inherited.items() if not name.startswith("GAMED_DEV_")}
    told = {
        "GAMED_URL": plan.server,
        "GAMED_SERVER": plan.server,
        "GAMED_PROVIDER_URL": plan.provider,
        "GAMED_PLAYERS": str(plan.place / PLAYERS_FILE),
    }
    return {**kept, **told, **({"GAMED_PAGE_URL": plan.page} if plan.page else {})}


class Script:
    """`code` is how the process ends: the command's own, 128 and the number of the signal that ended it, or 127."""

    def __init__(self, plan: Plan, environ: Mapping[str, str], umask: int) -> None:
        self.code = NOT_STARTED
        self._plan = plan
        self._environ = environ
        self._umask = umask
        self._over = Event()
        self._process: subprocess.Popen[bytes] | None = None

    def begin(self, reactor: Any) -> None:
        """In a thread of its own; the reactor stops when it is through."""
        reactor.addSystemEventTrigger("before", "shutdown", deferToThread, self._end)
        deferToThread(self._run).addBoth(lambda _: _stop(reactor))

    def _run(self) -> None:
        self._await_answer()
        if self._over.is_set():
            return
        try:
            self._process = subprocess.Popen(
                self._plan.script,
                stdin=subprocess.DEVNULL,
                env=self._environ,
                start_new_session=True,  # so that what it leaves running can be ended with it
                umask=self._umask,
            )
        except OSError as e:
            print(f"gamed: {self._plan.script[0]} cannot be run: {e.strerror}", file=sys.__stderr__)
            return
        if self._over.is_set():
            self._end()
        code = self._process.wait()
        self.code = code if code >= 0 else SIGNALLED - code
        self._end()

    def _await_answer(self) -> None:
        while not self._over.is_set() and not _answers(self._plan.port):
            self._over.wait(TRY_SECONDS)

    def _end(self) -> None:
        """Whatever of it still runs: asked first."""
        self._over.set()
        if self._process is None:
            return
        _tell(self._process.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(GRACE_SECONDS)
        _tell(self._process.pid, signal.SIGKILL)


def _stop(reactor: Any) -> None:
    if reactor.running:
        reactor.stop()


def _tell(group: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _answers(port: int) -> bool:
    with suppress(OSError), closing(HTTPConnection(LOOPBACK, port, timeout=GRACE_SECONDS)) as connection:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == 200
    return False


def last_words(log: Path, say: Callable[[str], object]) -> None:
    """The end of the service's log: for whoever looks why the command failed."""
    with suppress(OSError):
        lines = log.read_text("utf-8", "replace").splitlines()[-LOG_LINES:]
        say("\n".join(["The end of the server's log:", *lines]))
