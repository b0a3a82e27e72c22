"""`gamed dev --script` runs a command once the server answers; the end of the command ends the server."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import closing, suppress
from http.client import HTTPConnection
from threading import Event
from typing import Any

from twisted.internet.threads import deferToThread

from gamed.cli.dev.setup import LOOPBACK, MATCH_SECRET_ENV, PLAYERS_FILE, DevOptions

NOT_STARTED, SIGNALLED = 127, 128
LOG_FILE, LOG_LINES = "service.log", 30
TRY_SECONDS, GRACE_SECONDS = 0.05, 5.0


def environment(options: DevOptions, inherited: Mapping[str, str], match_secret: str) -> dict[str, str]:
    """Return the environment of the command: addresses, players and a match server's secret, not the server's own."""
    kept = {name: value for name, value in inherited.items() if not name.startswith("GAMED_DEV_")}
    added = {
        "GAMED_URL": options.server,
        "GAMED_SERVER": options.server,
        "GAMED_PROVIDER_URL": options.provider,
        "GAMED_PLAYERS": str(options.folder / PLAYERS_FILE),
        MATCH_SECRET_ENV: match_secret,
    }
    return {**kept, **added, **({"GAMED_PAGE_URL": options.page} if options.page else {})}


class ScriptRunner:
    """The process of --script; `code` is its exit code, 128 plus a signal's number, or 127 if it did not start."""

    def __init__(self, options: DevOptions, environ: Mapping[str, str], umask: int) -> None:
        self.code = NOT_STARTED
        self._options = options
        self._environ = environ
        self._umask = umask
        self._ended = Event()
        self._process: subprocess.Popen[bytes] | None = None

    def begin(self, reactor: Any) -> None:
        """Run the command in a thread, and stop the reactor at its end."""
        reactor.addSystemEventTrigger("before", "shutdown", deferToThread, self._end)
        deferToThread(self._run).addBoth(lambda _: reactor.stop() if reactor.running else None)

    def print_log_end(self) -> None:
        """Print the last lines of the server's log to stderr, if the command failed."""
        with suppress(OSError):
            if self.code:
                lines = (self._options.folder / LOG_FILE).read_text("utf-8", "replace").splitlines()[-LOG_LINES:]
                print("\n".join(["The end of the server's log:", *lines]), file=sys.__stderr__)

    def _run(self) -> None:
        while not self._ended.is_set() and not _answers(self._options.port):
            self._ended.wait(TRY_SECONDS)
        if self._ended.is_set():
            return
        try:
            self._process = subprocess.Popen(
                self._options.script,
                stdin=subprocess.DEVNULL,
                env=self._environ,
                start_new_session=True,  # so that its child processes can be ended with it
                umask=self._umask,
            )
        except OSError as e:
            print(f"gamed: {self._options.script[0]} cannot be run: {e.strerror}", file=sys.__stderr__)
            return
        if self._ended.is_set():
            self._end()
        code = self._process.wait()
        self.code = code if code >= 0 else SIGNALLED - code
        self._end()

    def _end(self) -> None:
        """End the command and its child processes: SIGTERM first, then SIGKILL."""
        self._ended.set()
        if self._process is None:
            return
        _signal(self._process.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(GRACE_SECONDS)
        _signal(self._process.pid, signal.SIGKILL)


def _signal(group: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _answers(port: int) -> bool:
    with suppress(OSError), closing(HTTPConnection(LOOPBACK, port, timeout=GRACE_SECONDS)) as connection:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == 200
    return False
