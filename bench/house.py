"""A service of its own for a measurement: a process, a folder, players who are signed in."""

import http.client
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from secrets import token_bytes
from sqlite3 import Connection

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from gamed.cli.host import Host  # noqa: E402
from gamed.crypto import Keys  # noqa: E402
from gamed.sessions.credentials import SessionPolicy, mint, new_session_id  # noqa: E402
from gamed.storage.auth.players import create_player  # noqa: E402
from gamed.storage.auth.sessions import open_session  # noqa: E402

CONFIG = {"mode": "local", "session": {"access_ttl": "24h"}}
GAME = {"writes_per_minute": 0, "min_free_bytes": 0, "bytes": "8 GiB"}


class House:
    """`python -m gamed serve` in `folder`."""

    def __init__(self, folder: Path, game: Mapping[str, object] = GAME) -> None:
        self.folder, self.data = folder, folder / "data"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "authentication.json").write_text(json.dumps(CONFIG))
        (folder / "game.json").write_text(json.dumps(game))
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]

    def start(self) -> "House":
        places = ["--config", str(self.folder / "authentication.json"), "--data", str(self.data)]
        listen = ["--listen", f"tcp:{self.port}:interface=127.0.0.1"]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "gamed", "serve", *places, *listen], cwd=ROOT, stdout=log, stderr=log
            )
        while True:
            try:
                self.request(self.connect(), "GET", "/healthz", "")
                return self
            except OSError:
                time.sleep(0.05)

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait()

    def connect(self) -> http.client.HTTPConnection:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        connection.connect()
        connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def sign_in(self, players: Sequence[str]) -> list[str]:
        """Access tokens of these players, who are made where they are not there yet; once the service ran."""
        host = Host(str(self.folder / "authentication.json"), str(self.data), development=False)

        def unit(connection: Connection, keys: Keys) -> list[str]:
            return [_token(connection, keys, player_id) for player_id in players]

        return host.open().run(unit)

    def rss_mib(self, name: str = "VmRSS") -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(next(line for line in status.splitlines() if line.startswith(name)).split()[1]) / 1024

    @staticmethod
    def request(
        connection: http.client.HTTPConnection,
        method: str,
        path: str,
        token: str,
        *,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, bytes]:
        connection.request(method, path, body, {"Authorization": f"Bearer {token}", **(headers or {})})
        answer = connection.getresponse()
        return answer.status, answer.read()


def _token(connection: Connection, keys: Keys, player_id: str) -> str:
    now_ms = time.time_ns() // 1_000_000
    policy = SessionPolicy(access_seconds=24 * 3600, refresh_seconds=720 * 3600)
    pair = mint(token_bytes, now_ms, policy, now_ms)
    if connection.execute("SELECT 1 FROM player WHERE player_id = ?", (player_id,)).fetchone() is None:
        create_player(connection, player_id, now_ms)
    open_session(
        connection,
        keys,
        session_id=new_session_id(token_bytes),
        player_id=player_id,
        provider="local",
        client="{}",
        login_id=None,
        pair=pair,
        now_ms=now_ms,
    )
    return pair.access.reveal().decode()


def percentile(values: Sequence[float], part: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * part))]


def disk_probe_ms(folder: Path, writes: int = 50) -> float:
    """Median of an fsync of 4 KiB there: what every answered PUT pays at least."""
    times = []
    with (folder / "probe").open("wb") as file:
        for _ in range(writes):
            began = time.perf_counter()
            file.write(os.urandom(4096))
            file.flush()
            os.fsync(file.fileno())
            times.append(time.perf_counter() - began)
    (folder / "probe").unlink()
    return percentile(times, 0.5) * 1000
