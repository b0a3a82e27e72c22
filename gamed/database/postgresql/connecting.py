"""The opening of sessions with PostgreSQL, and the refusal of servers on which a commit is not certain."""

from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any

import psycopg
from msgspec import Struct
from psycopg import RawCursor, pq
from psycopg.abc import RV, PQGen
from psycopg.adapt import AdaptersMap
from psycopg.conninfo import conninfo_attempts, make_conninfo
from psycopg.errors import ConnectionTimeout
from twisted.logger import Logger

from gamed.config.model import PostgresqlAddress
from gamed.database.errors import DatabaseError, DatabaseRestored, DatabaseUnavailable, new_error
from gamed.database.postgresql.error_mapping import LOST, REFUSED, SKEWED, PostgresqlError, reported, translate
from gamed.database.postgresql.statements import ADAPTERS
from gamed.event_log import EventLog
from gamed.timestamps import CLOCKS_MS, Now

CONNECT_SECONDS = 5
"""For each address of each host; psycopg waits for at least 2."""
WORKING_SECONDS = 0.2
"""How often `working` is called while the server works."""
ANSWER_SECONDS = 15.0
LOCK_MS = 4000
IDLE_MS = 2000
"""A process that is stopped inside a transaction keeps others waiting only as long."""
PAUSE_SECONDS = 1.0
"""After a failed attempt to connect, all others fail at once for this long."""
SKEW_MS = CLOCKS_MS // 2
"""How far a machine's clock may be from PostgreSQL's."""
OLDEST_VERSION = 140000
CERTIFICATE_MODES = 160000
"""The first libpq that knows sslcertmode."""
_DRIVER = {
    "client_encoding": "UTF8",
    "gssencmode": "disable",
    "keepalives": "1",
    "keepalives_count": "3",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "target_session_attrs": "read-write",
    "tcp_user_timeout": "10000",
}
_SETTINGS = {
    "jit": "off",
    "statement_timeout": "0",
    "synchronous_commit": "on",
}
_WHERE_POSSIBLE = {"client_connection_check_interval": "5000"}
"""Settings that servers on some systems refuse, such as Windows, and without which nothing is lost."""
_NOT_TAKEN = {"22023", "42704"}
"""The errors for a value that the server does not take, and for a setting that it does not know."""
_SETTLED = (
    "current_setting('server_version_num')",
    "current_setting('server_encoding')",
    "current_setting('fsync')",
    "current_setting('full_page_writes')",
    "CASE WHEN pg_is_in_recovery() THEN 't' ELSE 'f' END",
    "CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint)",
)
REFUSALS = (
    ("28P01", ("password authentication failed",)),
    ("28000", ("pg_hba.conf",)),
    ("28000", ("Peer authentication failed",)),
    ("28000", ("Ident authentication failed",)),
    ("28000", ("role ", "does not exist")),
    ("28000", ("is not permitted to log in",)),
    ("3D000", ("database ", "does not exist")),
    ("42501", ("permission denied for database",)),
    (REFUSED, ("certificate",)),
    (REFUSED, ("server does not support SSL",)),
)
"""Words of the messages with which PostgreSQL or libpq refuse a connection, until something is corrected."""
_NO_CONNECTIONS = ("too many connections for", "too many clients", "connection slots are reserved")
CONNECTIONS_NEEDED = (
    "Each process of gamed needs seven connections and each command two. Raise max_connections of the server, or the "
    "CONNECTION LIMIT of the role and the database."
)
_log = EventLog(Logger())


class SessionKind(Struct, frozen=True):
    """The settings in which the sessions of the threads differ."""

    name: str
    """The application_name, which the server shows."""
    schemas: tuple[str, ...] = ("auth", "state")
    """The search path."""
    read_only: bool = False
    lock_ms: int = LOCK_MS
    idle_ms: int = IDLE_MS
    """The time between two statements of a transaction, at most; 0 for any."""
    answer_seconds: float = ANSWER_SECONDS
    """The time that a statement or commit may take, at most."""

    @property
    def settings(self) -> dict[str, str]:
        """Return the session's settings by name."""
        return {
            **_SETTINGS,
            "default_transaction_read_only": "on" if self.read_only else "off",
            "idle_in_transaction_session_timeout": str(self.idle_ms),
            "lock_timeout": str(self.lock_ms),
            "search_path": ", ".join(self.schemas),
        }


class DriverConnection(psycopg.Connection[Any]):
    """psycopg's connection, with an end of each wait; without one, a server that was stopped is waited for for ever."""

    answer_seconds: float = CONNECT_SECONDS
    """How long a statement may take; then it fails, and only close() may follow."""

    working: Callable[[], None] = staticmethod(lambda: None)
    """A function that is called repeatedly during a wait, and may end it by an exception."""

    @property
    def adapters(self) -> AdaptersMap:
        """Return the types of parameters and columns, the same as those of PostgresqlConnection."""
        return ADAPTERS

    def wait(self, gen: PQGen[RV], interval: float = WORKING_SECONDS, timeout: float | None = None) -> RV:
        """Wait as psycopg does, which calls this for each statement."""
        return super().wait(self._watched(gen), min(interval, self.answer_seconds), timeout)

    def _watched(self, gen: PQGen[RV]) -> PQGen[RV]:
        """Forward what psycopg sends to its generator: after each interval in which nothing has happened it is 0."""
        deadline = monotonic() + self.answer_seconds
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if not ready:
                    self.working()
                    if monotonic() > deadline:
                        raise PostgresqlError(LOST, "PostgreSQL does not answer")
                wanted = gen.send(ready)
        except StopIteration as e:
            value: RV = e.value
            return value


class Connector:
    """The way of a process to one PostgreSQL database."""

    def __init__(self, address: PostgresqlAddress, now_ms: Now) -> None:
        """Connect to this address; `now_ms` is compared with the server's clock."""
        self._address = address
        self._now_ms = now_ms
        self._failed_at = -PAUSE_SECONDS
        self._failure: PostgresqlError | None = None
        """The last failure, while no attempt has succeeded since."""
        self.restored: DatabaseRestored | None = None
        """The error after which a service uses no session any more, and opens none."""
        self.ahead_ms: Callable[[], int] = lambda: 0
        """Return how far the clock is ahead of the server's, in any thread.

        It is right when a session is opened; a service, whose sessions last, compares it from then on.
        """
        self._check: Callable[[DriverConnection], None] = lambda session: None
        self._refuse: Callable[[DatabaseRestored], None] = lambda error: None
        self._skipped = False
        """True once another host took the place of one with an older database."""

    @property
    def now_ms(self) -> Now:
        """Return the clock that is compared with the server's."""
        return self._now_ms

    def guard(self, check: Callable[[DriverConnection], None], refuse: Callable[[DatabaseRestored], None]) -> None:
        """Call `check` with each new session from now on, which raises DatabaseRestored or PostgresqlError.

        If no host has a newer database, call `refuse`.
        """
        self._check, self._refuse = check, refuse

    def open(self, kind: SessionKind) -> DriverConnection:
        """Return a new session; raise a DatabaseError, whose cause has the reason.

        A second attempt within a second after one that failed is not made.
        """
        if self.restored is not None:
            raise _unavailable(PostgresqlError(REFUSED, str(self.restored)))
        if self._failure is not None and monotonic() < self._failed_at + PAUSE_SECONDS:
            raise _unavailable(self._failure)
        try:
            session = self._open(kind)
        except PostgresqlError as e:
            if self._failure is None:
                _log.error("database_unavailable", database="postgresql", path=self._address.url, detail=str(e))
            self._failed_at, self._failure = monotonic(), e
            raise _unavailable(e)  # noqa: B904  its cause is set
        except DatabaseRestored as e:
            self._refuse(e)
            raise _unavailable(PostgresqlError(REFUSED, str(e)))  # noqa: B904  its cause is set
        if self._failure is not None:
            self._failure = None
            _log.info("database_available", database="postgresql")
        return session

    def _open(self, kind: SessionKind) -> DriverConnection:
        problem: PostgresqlError | None = None
        restored: DatabaseRestored | None = None
        for conninfo in self._attempts(kind):
            try:
                session = self._open_at(conninfo, kind)
            except DatabaseRestored as e:
                restored = e
            except PostgresqlError as e:
                problem = e
            else:
                self._skip(restored)
                return session
        # While one host does not answer, it may be the one with the newer database: wait for it, and do not give up.
        if problem is None:
            raise restored or PostgresqlError(LOST, "The address of the database has no host")
        self._skip(restored)
        raise problem

    def _skip(self, restored: DatabaseRestored | None) -> None:
        """Log once that a host has an older database."""
        if restored is not None and not self._skipped:
            self._skipped = True
            _log.error("database_host_skipped", path=self._address.url, detail=str(restored))

    def _open_at(self, conninfo: str, kind: SessionKind) -> DriverConnection:
        session = _connect(conninfo)
        try:
            self._set_up(session, kind)
        except BaseException:
            session.close()
            raise
        return session

    def _attempts(self, kind: SessionKind) -> list[str]:
        """Return the address of each host that a name stands for.

        psycopg's connect() would try them alone, and stay with the first one that answers: here the next one follows,
        too, if the session cannot be set up, such as with a former primary.
        """
        password = self._address.password
        wanted: dict[str, str | int | None] = {**_DRIVER, **self._address.conninfo}
        wanted["application_name"] = kind.name
        wanted["connect_timeout"] = CONNECT_SECONDS
        if "sslcert" not in wanted and pq.version() >= CERTIFICATE_MODES:
            wanted["sslcertmode"] = "disable"  # else libpq reads a file in the home of the user who started gamed
        wanted["password"] = None if password is None else password.reveal().decode()
        try:
            return [make_conninfo("", **attempt) for attempt in conninfo_attempts(wanted)]
        except psycopg.Error as e:
            raise PostgresqlError(LOST, str(e)) from e

    def _set_up(self, session: DriverConnection, kind: SessionKind) -> None:
        before_ms = self._now_ms()
        try:
            row = _settle(session, {**kind.settings, **_WHERE_POSSIBLE})
        except PostgresqlError as e:
            if e.code not in _NOT_TAKEN:
                raise
            row = _settle(session, kind.settings)
        refuse(row, before_ms, self._now_ms())
        self._check(session)


def _settle(session: DriverConnection, settings: Mapping[str, str]) -> list[str]:
    """Set these values in the session; return those of _SETTLED, and raise PostgresqlError."""
    # Not connect(options=...): PgBouncer refuses settings that it does not know there, and a server that does not take
    # one of them ends the session. The values of _SETTLED need a statement anyway.
    values = [each for item in settings.items() for each in item]
    calls = [f"set_config(${n}, ${n + 1}, false)" for n in range(1, len(values), 2)]
    with reported():
        [row] = session.execute(f"SELECT {', '.join([*_SETTLED, *calls])}".encode(), values).fetchall()
    return [str(value) for value in row[: len(_SETTLED)]]


def refuse(row: list[str], before_ms: int, after_ms: int) -> None:
    """Raise PostgresqlError for a server on which a commit is not certain.

    `row` has the values of _SETTLED; the server was asked between `before_ms` and `after_ms`.
    """
    version, encoding, fsync, full_page_writes, standby, server_ms = row
    if int(version) < OLDEST_VERSION:
        raise PostgresqlError(REFUSED, f"PostgreSQL {int(version) // 10000} is too old. gamed needs 14 or later")
    if encoding != "UTF8":
        raise PostgresqlError(REFUSED, f"The database has the encoding {encoding}. Create it anew with ENCODING 'UTF8'")
    for name, value in (("fsync", fsync), ("full_page_writes", full_page_writes)):
        if value != "on":
            raise PostgresqlError(REFUSED, f"PostgreSQL runs with {name}={value} and may lose its data. Set it to on")
    if standby != "f":
        raise PostgresqlError("25006", "The server is a standby, which can only be read")
    server = int(server_ms)
    if is_skewed(server, before_ms, after_ms):
        # With the time that the answer took: without it, a clock that is a day late differs by 86399 seconds.
        seconds = max(after_ms - server, server - before_ms) // 1000
        raise PostgresqlError(
            SKEWED,
            f"The clocks of gamed and PostgreSQL differ by {seconds} seconds. Set both by the same time server",
        )


def is_skewed(server_ms: int, before_ms: int, after_ms: int) -> bool:
    """Return whether a clock that PostgreSQL read between two readings of ours differs from it by more than SKEW_MS."""
    return max(before_ms - server_ms, server_ms - after_ms) > SKEW_MS


def _connect(conninfo: str) -> DriverConnection:
    try:
        return DriverConnection.connect(conninfo, autocommit=True, prepare_threshold=None, cursor_factory=RawCursor)
    except ConnectionTimeout:
        code, message = LOST, f"No connection within {CONNECT_SECONDS} seconds"
    except psycopg.Error as e:
        message = str(e) if e.pgconn is None else e.pgconn.error_message.decode("utf-8", "replace").strip()
        # libpq reports no SQLSTATE of a failure to connect. LOST, with which a later attempt may succeed, is also the
        # code for messages in another language than English: then a start waits in vain.
        code = next((code for code, words in REFUSALS if all(word in message for word in words)), LOST)
        if e.pgconn is not None and e.pgconn.needs_password:
            code = "28P01"
    raise PostgresqlError(code, _advised(message))  # here, so that psycopg's error, which has the password, is gone


def _advised(message: str) -> str:
    """Return a message of libpq, with the number of connections that gamed needs if the server has none left."""
    if not any(words in message for words in _NO_CONNECTIONS):
        return message
    return f"{message.splitlines()[0]}. {CONNECTIONS_NEEDED}"


def _unavailable(error: PostgresqlError) -> DatabaseError:
    """Return a new error, whatever the server has reported."""
    ours = translate(error)
    if not isinstance(ours, DatabaseError):
        ours = new_error(DatabaseUnavailable)
        ours.__cause__ = error
    return ours
