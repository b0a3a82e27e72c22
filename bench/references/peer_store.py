"""The tables and transactions of N1, NG and F: a token and a save in one SQLite file, as a simple server has them.

A write is on disk before its answer, as with gamed. There is no history, quota, conflict or deduplication.
"""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from secrets import token_urlsafe
from sqlite3 import Connection, connect
from threading import local

FILE = "peer.db"
HOUR_MS = 3600 * 1000
ACCESS_MS, REFRESH_MS = 24 * HOUR_MS, 720 * HOUR_MS
SCHEMA = """
    CREATE TABLE IF NOT EXISTS token (
        hash BLOB PRIMARY KEY, player TEXT NOT NULL, refreshes INTEGER NOT NULL, expires_ms INTEGER NOT NULL,
        used INTEGER NOT NULL DEFAULT 0
    ) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS save (
        player TEXT NOT NULL, slot TEXT NOT NULL, etag TEXT NOT NULL, changed_ms INTEGER NOT NULL, data BLOB NOT NULL,
        PRIMARY KEY (player, slot)
    );
"""
_UPSERT = """
    INSERT INTO save (player, slot, etag, changed_ms, data) VALUES (?, ?, ?, ?, ?)
    ON CONFLICT (player, slot)
    DO UPDATE SET etag = excluded.etag, changed_ms = excluded.changed_ms, data = excluded.data
"""
PeerAnswer = tuple[int, bytes, str]
"""The status, the body and the entity-tag of an answer."""
UNAUTHORIZED: PeerAnswer = (401, b"", "")
PeerTransaction = Callable[[Connection], PeerAnswer]


def open_file(folder: Path) -> Connection:
    """Return a connection with gamed's durability; all other settings are SQLite's defaults."""
    connection = connect(folder / FILE, isolation_level=None, check_same_thread=False)
    connection.executescript("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA busy_timeout = 5000;")
    return connection


class Readers:
    """A connection for each thread that reads."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._local = folder, local()

    def run(self, transaction: PeerTransaction) -> PeerAnswer:
        if not hasattr(self._local, "connection"):
            self._local.connection = open_file(self._folder)
        return transaction(self._local.connection)


def read(authorization: str | None, slot: str) -> PeerTransaction:
    """Return the transaction that reads a save."""

    def transaction(connection: Connection) -> PeerAnswer:
        player = _player_of(connection, authorization)
        if player is None:
            return UNAUTHORIZED
        query = "SELECT data, etag FROM save WHERE player = ? AND slot = ?"
        row = connection.execute(query, (player, slot)).fetchone()
        return (404, b"", "") if row is None else (200, *row)

    return transaction


def write(authorization: str | None, slot: str, data: bytes) -> PeerTransaction:
    """Return the transaction that replaces a save."""
    etag = f'"{sha256(data).hexdigest()}"'

    def transaction(connection: Connection) -> PeerAnswer:
        player = _player_of(connection, authorization)
        if player is None:
            return UNAUTHORIZED
        connection.execute(_UPSERT, (player, slot, etag, _now_ms(), data))
        return 200, _compact({"slot": slot, "etag": etag}), etag

    return transaction


def refresh(body: bytes) -> PeerTransaction:
    """Return the transaction that exchanges a refresh credential for a new pair."""
    credential = json.loads(body)["refresh_credential"]

    def transaction(connection: Connection) -> PeerAnswer:
        spend = (
            "UPDATE token SET used = 1 WHERE hash = ? AND refreshes AND NOT used AND expires_ms > ? RETURNING player"
        )
        rows = connection.execute(spend, (_hash(credential), _now_ms())).fetchall()
        if not rows:
            return UNAUTHORIZED
        access, renewed = _insert_pair(connection, rows[0][0])
        return 200, _compact({"access_token": access, "refresh_credential": renewed}), ""

    return transaction


def sign_in(folder: Path, count: int) -> Iterator[str]:
    """Yield a line for wrk.lua for each of so many players, with new credentials; create a save for each new player."""
    with closing(open_file(folder)) as connection:
        connection.executescript(SCHEMA)
        connection.execute("BEGIN IMMEDIATE")
        for number in range(count):
            access, credential = _insert_pair(connection, f"player-{number}")
            insert = "INSERT OR IGNORE INTO save (player, slot, etag, changed_ms, data) VALUES (?, 'auto', ?, ?, ?)"
            connection.execute(insert, (f"player-{number}", '"first"', _now_ms(), bytes(4096)))
            yield f"{access} {credential} -\n"
        connection.execute("COMMIT")


def _player_of(connection: Connection, authorization: str | None) -> str | None:
    query = "SELECT player FROM token WHERE hash = ? AND NOT refreshes AND expires_ms > ?"
    token = (authorization or "").removeprefix("Bearer ")
    row = connection.execute(query, (_hash(token), _now_ms())).fetchone()
    return None if row is None else str(row[0])


def _insert_pair(connection: Connection, player: str) -> tuple[str, str]:
    access, credential, now_ms = token_urlsafe(32), token_urlsafe(32), _now_ms()
    insert = "INSERT INTO token (hash, player, refreshes, expires_ms) VALUES (?, ?, ?, ?)"
    connection.execute(insert, (_hash(access), player, 0, now_ms + ACCESS_MS))
    connection.execute(insert, (_hash(credential), player, 1, now_ms + REFRESH_MS))
    return access, credential


def _hash(token: str) -> bytes:
    return sha256(token.encode()).digest()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _compact(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
