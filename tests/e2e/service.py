"""The service as owners run it: its own process, with its files in its own folder."""

import contextlib
import http.client
import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from gamed.config.settings import Intervals
from gamed.database.connection import AUTH, STATE
from tests.support import forks
from tests.support.ports import free_port
from tests.support.stores import MASTER_KEY, POSTGRESQL, contents, forget_store, store_of, with_store

ROOT = Path(__file__).parents[2]
INHERITED = ("PATH", "HOME", "LANG", "TMPDIR", "COVERAGE_PROCESS_START", "COVERAGE_PROCESS_CONFIG")
START_SECONDS = STOP_SECONDS = 60


def gamed_with(intervals: Intervals | None) -> list[str]:
    """Return the words of the command `gamed` with these intervals, or with its own if there are none."""
    if intervals is None:
        return [*forks.MODULE]
    return [*forks.MODULE[:2], "tests.e2e.with_intervals", msgspec.json.encode(intervals).decode()]


class ServiceDied(Exception):
    """The service has ended, or never answered; the text is its log."""


class Service:
    """`python -m gamed serve` with its configuration and data below `folder`; the same port after a restart."""

    def __init__(
        self,
        folder: Path,
        config: Mapping[str, object] | None = None,
        environ: Mapping[str, str] | None = None,
        *,
        arguments: Sequence[str] = (),
        log: str = "log",
        forked: bool = True,
        intervals: Intervals | None = None,
        clock_ms: int = 0,
    ) -> None:
        """Without `config` the service writes its own on the first run. Services of one folder need a log each.

        `forked` is False for tests of the start itself, or of what the process has had since then. With `intervals`
        the service differs in those alone, and with `clock_ms` its wall clock is ahead by as much.
        """
        self.folder = folder
        self.data, self.config, self.log = folder / "data", folder / "etc" / "authentication.json", folder / log
        self.port = free_port()
        self.base = f"http://127.0.0.1:{self.port}"
        self.environ = dict(environ or {})
        self.arguments, self.forked, self.intervals = arguments, forked, intervals
        self.clock_ms = clock_ms
        self._process: forks.Process | None = None
        self.config.parent.mkdir(parents=True, exist_ok=True)
        if POSTGRESQL:
            config = config or {"mode": "local"}
            if "master_key_env" not in config:
                self.environ.setdefault("GAMED_MASTER_KEY", MASTER_KEY)
        if config is not None:
            self.configure(config)

    def configure(self, config: Mapping[str, object]) -> None:
        """Write the configuration, with the store of this run of the tests; the next start reads it."""
        self.config.write_text(json.dumps(with_store(config, self.data)))

    @property
    def pid(self) -> int:
        return self._process.pid

    def start(self) -> "Service":
        """Start the process; return when it answers."""
        self.begin()
        self.wait_until_healthy()
        return self

    def begin(self) -> None:
        """Start the process; it may not answer yet."""
        files = ["--config", str(self.config), "--data", str(self.data)]
        listen = ["--listen", f"tcp:{self.port}:interface=127.0.0.1"]
        environ = {name: os.environ[name] for name in INHERITED if name in os.environ}
        with self.log.open("ab") as log:
            self._process = forks.popen(
                [*self._gamed(), "serve", *files, *listen, *self.arguments],
                cwd=self.folder,
                env={**environ, "PYTHONPATH": str(ROOT), **self.environ},
                forked=self.forked,
                stdout=log,
                stderr=log,
            )

    def _gamed(self) -> list[str]:
        if not self.clock_ms:
            return gamed_with(self.intervals)
        return [*forks.MODULE[:2], "tests.e2e.with_clock", str(self.clock_ms)]

    def wait_until_healthy(self) -> None:
        """Return when it answers; raise ServiceDied if it ends."""
        limit = time.monotonic() + START_SECONDS
        while not self._healthy():
            if self._process.poll() is not None or time.monotonic() > limit:
                raise ServiceDied(self.text())
            time.sleep(0.02)

    def _healthy(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=START_SECONDS)
        try:
            connection.request("GET", "/healthz")
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()

    def kill(self) -> None:
        """Kill the process without its handlers, as a power cut does."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(STOP_SECONDS)

    def terminate(self) -> int:
        """Stop the process as systemd does; return the exit code."""
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(STOP_SECONDS)

    def wait(self) -> int:
        """Wait until the process ends by itself; return the exit code."""
        return self._process.wait(STOP_SECONDS)

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def close(self) -> None:
        """End the process at the end of a test; first by SIGTERM, so that it can log its errors."""
        if self._process is not None and self._process.poll() is None:
            try:
                self.terminate()
            except subprocess.TimeoutExpired:
                self.kill()
                raise
        forget_store(self.data)

    def text(self) -> str:
        """Return everything that the process has written to stdout and stderr."""
        return self.log.read_text("utf-8", "backslashreplace")

    def environment(self) -> bytes:
        """Return the process's environment as the machine's administrator can read it."""
        assert not self.forked, "a fork shows the environment of its parent"
        return Path(f"/proc/{self.pid}/environ").read_bytes() + Path(f"/proc/{self.pid}/cmdline").read_bytes()

    def files(self) -> dict[str, bytes]:
        """Return every file below the folder by its path, raw; omit files that are deleted meanwhile."""
        found = {}
        for path in self.folder.rglob("*"):
            with contextlib.suppress(FileNotFoundError):
                if path.is_file():
                    found[str(path.relative_to(self.folder))] = path.read_bytes()
        return found

    def rows(self) -> dict[str, int]:
        """Return the number of rows of each table of both stores, but for that in which the server counts requests."""
        store = store_of(self.data)
        try:
            found = [store.run_read(database, contents) for database in (AUTH, STATE)]
        finally:
            store.close()
        return {table: len(rows) for each in found for table, rows in each.items() if table != "daily_figure"}
