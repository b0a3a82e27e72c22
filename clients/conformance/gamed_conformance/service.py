"""The real server: `gamed serve` or `gamed dev` as a process, which a scenario can kill and start on the same files."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from shutil import copytree, rmtree
from tempfile import mkdtemp
from typing import Any, Protocol

from .http_io import listening

ROOT = Path(__file__).resolve().parents[3]
PORTS = range(18000, 20000)
START_SECONDS = 60.0
CONFIG: dict[str, Any] = {
    "mode": "local",
    "session": {"access_ttl": "12h", "refresh_ttl": "720h", "device_transaction_ttl": "10m", "ticket_ttl": "3s"},
    "ticket_audiences": {"match.example": {"secret_env": "GAMED_CONFORMANCE_SECRET"}, "lobby.example": {}},
    "login": {"registration": "open", "app_links": ["com.example.conformance:", "https://app.example.org"]},
    "limits": {name: 0 for name in ("starts_per_minute", "entries_per_minute", "refreshes_per_minute")}
    | {"live_logins_per_address": 0, "passwords_per_minute": 0},
}
SECRETS = {"GAMED_CONFORMANCE_SECRET": "conformance-" * 3}
"""With it scenarios introspect tickets for match.example, as the server of that name does."""
GAME = {"writes_per_minute": 0, "save_bytes": 1 << 17, "slots": 64}


class ServiceFailed(Exception):
    """The server has ended, or never answered; the text is its log."""


class Process(Protocol):
    """A started server, with the methods of `subprocess.Popen` that are used here."""

    def poll(self) -> int | None: ...

    def wait(self) -> int: ...

    def send_signal(self, sig: int, /) -> None: ...


class Gamed:
    """The program `gamed` as a command: by default that of this checkout, with the Python that runs the suite."""

    def __init__(self, command: Sequence[str] | None = None) -> None:
        self.command = list(command) if command else [sys.executable, "-m", "gamed"]
        self.environ = {**os.environ, "PYTHONPATH": str(ROOT), **SECRETS}

    def start(self, arguments: Sequence[str], folder: Path, log: Path) -> Process:
        """Start a process in `folder` that appends its output to `log`."""
        with log.open("ab") as out:
            return subprocess.Popen(
                [*self.command, *arguments],
                cwd=folder,
                env=self.environ,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )

    def run(self, arguments: Sequence[str], seconds: float) -> subprocess.CompletedProcess[str]:
        command = [*self.command, *arguments]
        return subprocess.run(command, env=self.environ, capture_output=True, text=True, timeout=seconds, check=False)


class Service:
    """A server in `local` mode, in `folder`; it has the same port after a restart."""

    members: Mapping[str, Any] = CONFIG

    def __init__(self, folder: Path, gamed: Gamed | None = None) -> None:
        self.folder, self._gamed = folder, gamed or Gamed()
        with listening(PORTS) as probe:
            self.port = probe.getsockname()[1]
        folder.mkdir(parents=True)
        self._config = folder / "authentication.json"
        self._config.write_text(json.dumps(self.members))
        (folder / "game.json").write_text(json.dumps(GAME))
        self._process: Process | None = None
        self.died = threading.Event()

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start the server; return when it answers."""
        self.died.clear()
        self._process = self._gamed.start(self._arguments(), self.folder, self.folder / "log")
        end = time.monotonic() + START_SECONDS
        while not self._healthy():
            if self._process.poll() is not None or time.monotonic() > end:
                self.kill()
                log = (self.folder / "log").read_text("utf-8", "backslashreplace")
                raise ServiceFailed("\n".join(log.splitlines()[-40:]))
            time.sleep(0.03)

    def _arguments(self) -> list[str]:
        places = ["--config", str(self._config), "--data", str(self.folder / "data")]
        return ["serve", *places, "--listen", f"tcp:{self.port}:interface=127.0.0.1"]

    def _healthy(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            connection.request("GET", "/healthz")
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()

    def publish(self, files: Mapping[str, str], channel: str) -> str:
        """Publish with the owner's command; return the release once the service delivers it."""
        folder = Path(mkdtemp(dir=self.folder))
        for path, text in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text, "utf-8")
        release = str(self._run("assets", "publish", str(folder), "--channel", channel)["release"])
        end = time.monotonic() + START_SECONDS
        while self._published(channel) != f'"{release}"':
            if time.monotonic() > end:
                raise ServiceFailed(f"{release} was published, and is not delivered")
            time.sleep(0.05)
        return release

    def _run(self, *arguments: str) -> dict[str, Any]:
        """Return the JSON that a command of the owner prints."""
        places = ["--config", str(self._config), "--data", str(self.folder / "data")]
        done = self._gamed.run([*places, *arguments, "--json"], 60)
        if done.returncode:
            raise ServiceFailed(done.stdout + done.stderr)
        value: dict[str, Any] = json.loads(done.stdout)
        return value

    def backup(self) -> None:
        """Copy the databases, for `restore`."""
        self._run("backup", mkdtemp(dir=self.folder, prefix="backup-"))

    def restore(self) -> None:
        """Stop the server, put the newest backup back, and start the server."""
        backups = sorted(self.folder.glob("backup-*/gamed-*"), key=lambda path: path.stat().st_mtime)
        self.kill()
        self._run("restore", str(backups[-1]))
        self.start()

    def snapshot(self) -> None:
        """Copy the data folder as a virtual machine's snapshot does, for `go_back`."""
        self.kill()
        copytree(self.folder / "data", self.folder / "snapshot", dirs_exist_ok=True)
        self.start()

    def go_back(self) -> None:
        """Stop the server, put the snapshot back without `gamed restored`, and start the server."""
        self.kill()
        rmtree(self.folder / "data")
        copytree(self.folder / "snapshot", self.folder / "data")
        self.start()

    def replace(self) -> None:
        """Stop the server, delete its data, and start a new one at the same address."""
        self.kill()
        rmtree(self.folder / "data")
        self.start()

    def _published(self, channel: str) -> str | None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            connection.request("GET", f"/assets/{channel}")
            return connection.getresponse().getheader("ETag")
        finally:
            connection.close()

    def kill(self) -> None:
        """Kill the process, without its handlers."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None
            self.died.set()

    @property
    def runs(self) -> bool:
        return self._process is not None


class ServiceWithProviders(Service):
    """A server in `oauth` mode, and beside it the development provider in place of Discord and Google."""

    members: Mapping[str, Any] = {
        "master_key_env": "GAMED_DEV_MASTER_KEY",
        "session": CONFIG["session"],
        "limits": {name: 0 for name in CONFIG["limits"] if name != "passwords_per_minute"}
        | {"callbacks_per_minute": 0},
    }

    def __init__(self, folder: Path, gamed: Gamed | None = None) -> None:
        super().__init__(folder, gamed)
        with listening([port for port in PORTS if port != self.port]) as probe:
            self._provider_port = probe.getsockname()[1]

    def _arguments(self) -> list[str]:
        ports = ["--port", str(self.port), "--provider-port", str(self._provider_port)]
        return ["dev", "--folder", str(self.folder), *ports]
