"""The heartbeat is a counter in the database that each process also notes in its data folder.

A counter that is lower than a note shows that the server went back to an older state: a backup of all of it was
restored, or a snapshot of its disk. Where PostgreSQL's timeline is a later one, a standby may have taken over that was
a little behind; that is not a restore. An earlier timeline is that of a primary whose place a standby has taken.
"""

import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import Any, Final

from msgspec import Struct, structs
from twisted.logger import Logger

from gamed.config.settings import DATABASE_NOTE
from gamed.database.connection import AUTH, Connection
from gamed.database.errors import DatabaseRestored, DiskFull, of_disk
from gamed.database.periodic import PeriodicTask
from gamed.database.postgresql.connecting import CONNECT_SECONDS, SKEW_MS, Connector, DriverConnection, is_skewed
from gamed.database.postgresql.error_mapping import LOST, PostgresqlError
from gamed.database.postgresql.identity import check_origin, read_place, refuse_copy
from gamed.database.postgresql.session import PlainSession
from gamed.database.queues import WriteQueue
from gamed.event_log import EventLog
from gamed.timestamps import Now

MAX_NOTE_BYTES: Final = 4096
BEAT_SECONDS: Final = 15.0
REPEATED_BEATS: Final = 240
"""After so many beats, an hour, a clock that is still wrong is logged again."""
REPLACED: Final = (
    "A standby has taken the place of this PostgreSQL server, which is older than when gamed last served it. Stop this "
    "PostgreSQL server, and start gamed again. Only to continue with the older state:"
)
NOT_READABLE: Final = {"3F000", "42501", "42P01"}
"""The errors of a schema that does not exist or may not be read: the statements of requests report them."""
BEHIND_MS: Final = 5 * 60_000
"""A standby that takes over may be so far behind; then gamed continues without what was lost."""
TIMELINE: Final = "substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8)"
_log = EventLog(Logger())


class Heartbeat(Struct, frozen=True):
    """One value of the counter in the database."""

    generation: int
    """A number that grows with each restore that gamed knows of."""
    beats: int
    beat_ms: int
    """The time on the server's clock."""
    timeline: str
    """PostgreSQL's timeline in hexadecimal digits, which grows when a standby takes over, and after a recovery from an
    archive."""

    def is_before(self, noted: "Heartbeat") -> bool:
        """Return whether the database went back since this was noted."""
        if self.generation != noted.generation:
            return self.generation < noted.generation
        if self.timeline == noted.timeline:
            return self.beats < noted.beats
        if self.timeline < noted.timeline:
            return True
        return self.beat_ms < noted.beat_ms - BEHIND_MS


class RestoreGuard:
    """The newest state of its database that a process knows: it refuses an older one at once, in each session."""

    def __init__(self, connector: Connector, folder: Path, went_back: Callable[[], None]) -> None:
        """Note values in this folder; `went_back` is called once, in any thread, after which no session is used."""
        self._connector = connector
        self._folder = folder
        self._went_back = went_back
        self._lock = Lock()
        self._known: tuple[str, Heartbeat] | None = None
        """The place of the database, and its last value."""

    def start(self) -> None:
        """Check each session that the connector opens from now on."""
        self._connector.guard(self._check_session, self.refuse)

    def check(self, connection: Connection) -> str | None:
        """Raise DatabaseRestored if the database is older than what is noted or known; return its place."""
        with self._lock:
            known = self._known
        refuse_older(connection, self._folder, known)
        return read_place(connection)

    def note(self, place: str, found: Heartbeat) -> None:
        """Note a value that was committed, unless a process of this machine has noted a later one. Raise DiskFull."""
        with self._lock:
            if self._known is None or self._known[0] != place or not found.is_before(self._known[1]):
                self._known = place, found
            noted = read_note(self._folder, place)
            if noted is None or not found.is_before(noted):
                write_note(self._folder, place, found)

    def refuse(self, error: DatabaseRestored) -> None:
        """Use no session any more."""
        with self._lock:
            first, self._connector.restored = self._connector.restored is None, error
        if first:
            _log.error("database_went_back", detail=str(error))
            self._went_back()

    def _check_session(self, session: DriverConnection) -> None:
        """Raise DatabaseRestored for a new session with an older database; note a new timeline before it is used.

        A process that is killed before its next beat has noted it then. Raise PostgresqlError.
        """
        deadline = monotonic() + CONNECT_SECONDS

        def working() -> None:
            if monotonic() > deadline:
                raise PostgresqlError(LOST, "PostgreSQL does not answer")

        connection = PlainSession(session, working)
        try:
            place, found = self.check(connection), read_heartbeat(connection)
            check_origin(connection, AUTH)
        except PostgresqlError as e:
            if e.code not in NOT_READABLE:
                raise
            return
        known = self._known
        if place is not None and found is not None and (known is None or known[1].timeline != found.timeline):
            with suppress(DiskFull):  # the next beat tries again
                self.note(place, found)


class HeartbeatTask:
    """The periodic work that counts, notes the value, and stops a process whose database went back.

    It also compares the clocks: one that is set, or stops, while the server runs is checked at no new session.
    """

    def __init__(self, reactor: Any, auth: WriteQueue, guard: RestoreGuard, now_ms: Now) -> None:
        """Count through the queue that writes `auth`; `now_ms` is compared with the server's clock."""
        self._now_ms = now_ms
        self._compared = 0, self._lead_ms()
        """How far the clock was ahead of the server's at the last beat, and of the monotonic clock.

        One tuple, as other threads read it meanwhile.
        """
        self._wrong_beats = 0
        """How many beats in succession have found another time than the server's."""
        self._auth = auth
        self._guard = guard
        self._last: Heartbeat | None = None
        self._task = PeriodicTask(reactor, BEAT_SECONDS, self._beat, "heartbeat")

    def start(self) -> None:
        """Count now, and then periodically."""
        self._task.start(now=True)

    def stop(self) -> None:
        """Count no more."""
        self._task.stop()

    def ahead_ms(self) -> int:
        """Return how far the clock is ahead of the server's, less than 0 if it is behind; 0 up to SKEW_MS.

        While it is not 0, nothing that has expired by this clock alone is deleted. The monotonic clock shows at once
        that it was set since the last beat; as that one stands still while the machine sleeps, the clock then counts as
        ahead until the next beat. Any thread may call this.
        """
        ahead_ms, lead_ms = self._compared
        ahead_ms += self._lead_ms() - lead_ms
        return ahead_ms if abs(ahead_ms) > SKEW_MS else 0

    def _lead_ms(self) -> int:
        return self._now_ms() - int(monotonic() * 1000)

    async def _beat(self) -> None:
        before_ms, lead_ms = self._now_ms(), self._lead_ms()
        try:
            place, found = await self._auth.submit(self._check_and_beat)
        except DatabaseRestored as e:
            self._task.stop()
            self._guard.refuse(e)
            return
        ahead_ms = self._compare(found.beat_ms, before_ms, self._now_ms())
        self._compared = ahead_ms, lead_ms
        last, self._last = self._last, found
        if last is not None and found.beats <= last.beats and found.generation == last.generation:
            _log.warn("database_failed_over", lost_seconds=max(0, last.beat_ms - found.beat_ms) // 1000)
        if place is not None:
            await self._auth.between_batches(lambda _: self._guard.note(place, found))

    def _compare(self, server_ms: int, before_ms: int, after_ms: int) -> int:
        """Return how far the clock is ahead, 0 if it is right; log one that is wrong, and again each hour."""
        if not is_skewed(server_ms, before_ms, after_ms):
            self._wrong_beats = 0
            return 0
        if self._wrong_beats % REPEATED_BEATS == 0:
            _log.error("database_clocks_differ", seconds=abs(before_ms - server_ms) // 1000)
        self._wrong_beats += 1
        return max(before_ms - server_ms, 0) or after_ms - server_ms

    def _check_and_beat(self, connection: Connection) -> tuple[str | None, Heartbeat]:
        place = self._guard.check(connection)
        refuse_copy(connection, AUTH)
        return place, beat(connection)


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
    query = f"""
        INSERT INTO auth.heartbeat (one, generation, beats, beat_ms)
        VALUES (1, 1, 1, CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint))
        ON CONFLICT (one) DO UPDATE SET beats = heartbeat.beats + 1, beat_ms = excluded.beat_ms
        RETURNING generation, beats, beat_ms, {TIMELINE}
    """
    return Heartbeat(*connection.execute(query).fetchone())


def refuse_older(connection: Connection, folder: Path, known: tuple[str, Heartbeat] | None = None) -> None:
    """Raise DatabaseRestored if a process noted a later value of the counter in this folder, or if this one knows one.

    A value of another database does not count, such as the one that `gamed move-store` has moved the data from, and
    one before pg_upgrade, which begins a new timeline.
    """
    # Before the database is asked: a process that counts and notes meanwhile would make what was read look older.
    noted_place, noted = read_any_note(folder)
    place, found = read_place(connection), read_heartbeat(connection)
    noted = None if place is None or place != noted_place else noted
    for later in (noted, known[1] if known is not None and known[0] == place else None):
        if later is None or not (found is None or found.is_before(later)):
            continue
        if found is not None and found.timeline < later.timeline:
            raise DatabaseRestored(REPLACED)
        raise DatabaseRestored("The database is older than when gamed last served it.")


def read_heartbeat(connection: Connection) -> Heartbeat | None:
    """Return the present value of the counter; None before the first beat."""
    row = connection.execute(f"SELECT generation, beats, beat_ms, {TIMELINE} FROM auth.heartbeat").fetchone()
    return None if row is None else Heartbeat(*row)


def read_timeline(connection: Connection) -> str:
    """Return the timeline of the server, as in a Heartbeat."""
    [(timeline,)] = connection.rows(f"SELECT {TIMELINE}")
    return str(timeline)


def read_note(folder: Path, place: str) -> Heartbeat | None:
    """Return what a process noted of the database at this place; None if there is no such note, or if it is damaged."""
    noted_place, noted = read_any_note(folder)
    return noted if noted_place == place else None


def read_any_note(folder: Path) -> tuple[str, Heartbeat | None]:
    """Return the place of the database that a process noted, and what it noted; None without a note that is whole."""
    with suppress(OSError, ValueError, KeyError, TypeError), open(folder / DATABASE_NOTE, "rb") as file:
        members = json.loads(file.read(MAX_NOTE_BYTES))
        generation, beats, beat_ms = (int(members[name]) for name in ("generation", "beats", "beat_ms"))
        return str(members["place"]), Heartbeat(generation, beats, beat_ms, str(members["timeline"]))
    return "", None


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
