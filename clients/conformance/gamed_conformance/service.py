"""The real server: `gamed serve` as a process of its own, to be killed and started again on the same files."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
START_SECONDS = 60.0
CONFIG: dict[str, Any] = {
    "mode": "local",
    "session": {"access_ttl": "12h", "refresh_ttl": "720h", "device_transaction_ttl": "10m"},
    "login": {"registration": "open"},
    "limits": {name: 0 for name in ("starts_per_minute", "entries_per_minute", "refreshes_per_minute")}
    | {"live_logins_per_address": 0, "passwords_per_minute": 0},
}
GAME = {"writes_per_minute": 0, "save_bytes": 1 << 17, "slots": 64}


class ServiceFailed(Exception):
    """It ended, or never answered; the text is its log."""


def command_of(text: Sequence[str] | None = None) -> list[str]:
    """`gamed` of this checkout with the Python that runs the suite, or as the caller says."""
    return list(text) if text else [sys.executable, "-m", "gamed"]


class Service:
    """In `folder`; the same port after a restart."""

    def __init__(self, folder: Path, command: Sequence[str] | None = None) -> None:
        self.folder, self._command = folder, command_of(command)
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port = probe.getsockname()[1]
        folder.mkdir(parents=True)
        self._config = folder / "authentication.json"
        self._config.write_text(json.dumps(CONFIG))
        (folder / "game.json").write_text(json.dumps(GAME))
        self._process: subprocess.Popen[bytes] | None = None
        self.died = threading.Event()

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Returns when it answers."""
        self.died.clear()
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *[*self._command, "serve", "--config", str(self._config), "--data", str(self.folder / "data")],
                    *["--listen", f"tcp:{self.port}:interface=127.0.0.1"],
                ],
                cwd=self.folder,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        end = time.monotonic() + START_SECONDS
        while not self._healthy():
            if self._process.poll() is not None or time.monotonic() > end:
                log = (self.folder / "log").read_text("utf-8", "backslashreplace")
                raise ServiceFailed("\n".join(log.splitlines()[-40:]))
            time.sleep(0.03)

    def _healthy(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            connection.request("GET", "/healthz")
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()

    def kill(self) -> None:
        """No handler runs."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None
            self.died.set()

    @property
    def runs(self) -> bool:
        return self._process is not None
