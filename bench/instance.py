"""A measurement starts its own service: a process, a folder, and signed-in players."""

import http.client
import json
import os
import socket
import sys
import time
from base64 import b64encode
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from secrets import token_bytes

from msgspec import Struct

from bench.process import Process
from gamed.cli.context import CommandContext
from gamed.crypto import Keys
from gamed.database.connection import Connection
from gamed.players.tables import create_player
from gamed.sessions.credentials import SessionPolicy, generate_pair, new_session_id
from gamed.sessions.tables import open_session
from tests.support.ports import free_port

LIMITS = {"starts_per_minute": 0, "live_logins_per_address": 0, "live_logins": 0, "refreshes_per_minute": 0}
CONFIG = {"mode": "local", "session": {"access_ttl": "24h"}, "limits": LIMITS}
GAME = {"writes_per_minute": 0, "min_free_bytes": 0, "bytes": "8 GiB"}
KEY = "GAMED_BENCH_KEY"
"""The variable with the master key that a PostgreSQL store needs."""
GAMED = (sys.executable, "-m", "gamed")


class Player(Struct, frozen=True):
    """The credentials of a signed-in player."""

    access: str
    refresh: str


class GamedInstance:
    """A `gamed serve` in `folder`; `command` replaces `python -m gamed`."""

    def __init__(
        self,
        folder: Path,
        game: Mapping[str, object] = GAME,
        *,
        command: Sequence[str] = GAMED,
        arguments: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        shared_cpus: bool = False,
        store: str | None = None,
        master_key: bool = False,
        members: Mapping[str, object] | None = None,
    ) -> None:
        """`store` is the URL of a PostgreSQL database; with None the data are in `folder`.

        PostgreSQL needs a master key; files have one with `master_key`. `members` are added to the configuration.
        """
        self.folder, self.data, self._members = folder, folder / "data", members or {}
        self.port = free_port()
        folder.mkdir(parents=True, exist_ok=True)
        self._key = {KEY: b64encode(token_bytes(32)).decode()} if store is not None or master_key else {}
        self.configure(store)
        (folder / "game.json").write_text(json.dumps(game))
        places = ["--config", str(folder / "authentication.json"), "--data", str(self.data)]
        listen = ["--listen", f"tcp:{self.port}:interface=127.0.0.1"]
        words = [*command, "serve", *places, *listen, *arguments]
        self.process = Process(
            words, self.port, folder / "log", {**(environment or {}), **self._key}, shared_cpus=shared_cpus
        )

    def configure(self, store: str | None) -> None:
        """Name the store in the configuration."""
        members = {} if store is None else {"store": store}
        members |= {"master_key_env": KEY} if self._key else {}
        (self.folder / "authentication.json").write_text(json.dumps({**CONFIG, **self._members, **members}))

    @property
    def environment(self) -> Mapping[str, str]:
        """Return the variables for a command with the same data."""
        return {**os.environ, **self._key}

    def start(self) -> "GamedInstance":
        self.process.start()
        return self

    def stop(self) -> None:
        self.process.stop()

    def connect(self) -> http.client.HTTPConnection:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        connection.connect()
        connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def sign_in(self, players: Sequence[str], *, over_ms: int = 0) -> list[Player]:
        """Sign players in as sign_in_players() does; the service must have run before."""
        os.environ.update(self._key)
        return sign_in_players(self.folder / "authentication.json", self.data, players, over_ms=over_ms)

    def rss_mib(self, name: str = "VmRSS") -> float:
        return self.process.memory_mib(name)

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


def sign_in_players(config: Path, data: Path, players: Sequence[str], *, over_ms: int = 0) -> list[Player]:
    """Create the players that do not exist in this data folder, and sign them in.

    The sign-ins are spread evenly over the last `over_ms` milliseconds.
    """
    now_ms = time.time_ns() // 1_000_000
    databases = CommandContext(str(config), str(data), development=False).open()
    try:
        return databases.write(partial(sign_in_with, players=players, now_ms=now_ms, over_ms=over_ms))
    finally:
        databases.store.close()


def sign_in_with(
    connection: Connection, keys: Keys, *, players: Sequence[str], now_ms: int, over_ms: int = 0
) -> list[Player]:
    """Do the same in a transaction."""
    instants = [now_ms - over_ms + over_ms * number // len(players) for number in range(len(players))]
    return [_sign_in(connection, keys, *each) for each in zip(players, instants, strict=True)]


def _sign_in(connection: Connection, keys: Keys, player_id: str, now_ms: int) -> Player:
    policy = SessionPolicy(access_seconds=24 * 3600, refresh_seconds=720 * 3600)
    pair = generate_pair(token_bytes, now_ms, policy, now_ms)
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
    return Player(pair.access.reveal().decode(), pair.refresh.reveal().decode())


def percentile(values: Sequence[float], part: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * part))]


def disk_probe_ms(folder: Path, writes: int = 50) -> float:
    """Return the median time of an fsync of 4 KiB, which every PUT needs at least once."""
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
