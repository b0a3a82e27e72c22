"""The heartbeat is a counter in the database that each process also notes in its data folder.

A counter that is lower than a note shows that the server went back to an older state: a backup of all of it was
restored, or a snapshot of its disk. Where PostgreSQL's timeline has changed, a standby may have taken over that was a
little behind; that is not a restore.
"""

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from msgspec import Struct, structs
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from gamed.config.settings import DATABASE_NOTE
from gamed.database.connection import AUTH, Connection
from gamed.database.errors import DatabaseRestored, of_disk
from gamed.database.periodic import PeriodicTask
from gamed.database.postgresql.identity import read_place, refuse_copy
from gamed.database.queues import WriteQueue
from gamed.event_log import EventLog

MAX_NOTE_BYTES: Final = 4096
BEAT_SECONDS: Final = 15.0
BEHIND_MS: Final = 5 * 60_000
"""A standby that takes over may be so far behind; then gamed continues without what was lost."""
_log = EventLog(Logger())


class Heartbeat(Struct, frozen=True):
    """One value of the counter in the database."""

    generation: int
    """It grows with each restore that gamed knows of."""
    beats: int
    beat_ms: int
    """The time on the server's clock."""
    timeline: str
    """PostgreSQL's timeline, which changes when a standby takes over, and after a recovery from an archive."""

    def is_before(self, noted: "Heartbeat") -> bool:
        """Return whether the database went back since this was noted."""
        if self.generation != noted.generation:
            return self.generation < noted.generation
        if self.timeline == noted.timeline:
            return self.beats < noted.beats
        return self.beat_ms < noted.beat_ms - BEHIND_MS


class HeartbeatTask:
    """The periodic work that counts, notes the value, and stops a process whose database went back."""

    def __init__(self, reactor: Any, auth: WriteQueue, folder: Path) -> None:
        """Count through the queue that writes `auth`, and note the value in this folder."""
        self._reactor = reactor
        self._auth = auth
        self._folder = folder
        self._last: Heartbeat | None = None
        self._task = PeriodicTask(reactor, BEAT_SECONDS, lambda: Deferred.fromCoroutine(self._beat()), "heartbeat")

    def start(self) -> None:
        """Count now, and then periodically."""
        self._task.start(now=True)

    def stop(self) -> None:
        """Count no more."""
        self._task.stop()

    async def _beat(self) -> None:
        try:
            place, found = await self._auth.submit(self._check_and_beat)
        except DatabaseRestored as e:
            self._task.stop()
            _log.error("database_went_back", detail=str(e))
            self._reactor.stop()
            return
        last, self._last = self._last, found
        if last is not None and found.beats <= last.beats and found.generation == last.generation:
            _log.warn("database_failed_over", lost_seconds=max(0, last.beat_ms - found.beat_ms) // 1000)
        if place is not None:
            await self._auth.between_batches(lambda _: write_note(self._folder, place, found))

    def _check_and_beat(self, connection: Connection) -> tuple[str | None, Heartbeat]:
        refuse_older(connection, self._folder, self._last)
        refuse_copy(connection, AUTH)
        return read_place(connection), beat(connection)


def begin_generation(connection: Connection, now_ms: int) -> None:
    """Let all processes forget what they noted: the operator knows that the database went back."""
    query = """
        INSERT INTO auth.heartbeat (one, generation, beats, beat_ms) VALUES (1, :now_ms, 0, 0)
        ON CONFLICT (one) DO UPDATE
        SET generation = greatest(heartbeat.generation + 1, excluded.generation), beats = 0, beat_ms = 0
    """
    connection.execute(query, {"now_ms": now_ms})


def beat(connection: Connection) -> Heartbeat:
    """Count once more, and return the new value."""
    query = """
        INSERT INTO auth.heartbeat (one, generation, beats, beat_ms)
        VALUES (1, 1, 1, CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint))
        ON CONFLICT (one) DO UPDATE SET beats = heartbeat.beats + 1, beat_ms = excluded.beat_ms
        RETURNING generation, beats, beat_ms, substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8)
    """
    return Heartbeat(*connection.execute(query).fetchone())


def refuse_older(connection: Connection, folder: Path, known: Heartbeat | None = None) -> None:
    """Raise DatabaseRestored if a process noted a later value of the counter in this folder, or if this one knows one.

    A note of another database does not count, such as the one that `gamed move-store` has moved the data from.
    """
    place, found = read_place(connection), read_heartbeat(connection)
    noted = None if place is None else read_note(folder, place)
    for later in (noted, known):
        if later is not None and (found is None or found.is_before(later)):
            raise DatabaseRestored("The database is older than when gamed last served it.")


def read_heartbeat(connection: Connection) -> Heartbeat | None:
    """Return the present value of the counter; None before the first beat."""
    query = """
        SELECT generation, beats, beat_ms, substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8)
        FROM auth.heartbeat
    """
    row = connection.execute(query).fetchone()
    return None if row is None else Heartbeat(*row)


def read_note(folder: Path, place: str) -> Heartbeat | None:
    """Return what a process noted of the database at this place; None if there is no such note, or if it is damaged."""
    with suppress(OSError, ValueError, KeyError, TypeError), open(folder / DATABASE_NOTE, "rb") as file:
        members = json.loads(file.read(MAX_NOTE_BYTES))
        if members["place"] == place:
            generation, beats, beat_ms = (int(members[name]) for name in ("generation", "beats", "beat_ms"))
            return Heartbeat(generation, beats, beat_ms, str(members["timeline"]))
    return None


def write_note(folder: Path, place: str, heartbeat: Heartbeat) -> None:
    """Note a value of the counter that was committed; a power cut may lose the last notes. Raise DiskFull."""
    part = folder / f".{DATABASE_NOTE}.{os.getpid()}"
    members = {"place": place, **structs.asdict(heartbeat)}
    try:
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "w") as file:
            json.dump(members, file)
        part.replace(folder / DATABASE_NOTE)
    except OSError as e:
        raise of_disk(e) from e
