"""The checks that both databases respond: for requests, and for the watchdog of systemd.

See docs/protocol.md: Conventions.
"""

from collections.abc import Sequence
from functools import partial
from math import inf
from typing import Any, NoReturn

from twisted.internet.defer import Deferred, fail, succeed
from twisted.logger import Logger
from twisted.python.failure import Failure

from gamed.database.connection import AUTH, STATE, Connection
from gamed.database.engine import Database, Engine, EngineConnection
from gamed.database.errors import DatabaseBusy, DatabaseError, DatabaseUnavailable, DatabaseUnreachable, new_error
from gamed.database.queues import DatabaseThread, ReadQueue
from gamed.event_log import EventLog

FRESH_SECONDS = 1
"""The databases are checked at most once in this time."""
VALID_SECONDS = 5
"""How long requests get the last result while the next check runs."""
WAIT_SECONDS = 2
"""How long a request waits for a check if there is no valid result, such as for the first one."""
ANSWER_SECONDS = 5
"""How long the databases have to respond to a check."""
PINGS = {AUTH: "SELECT 1 FROM player LIMIT 1", STATE: "SELECT 1 FROM player_saves LIMIT 1"}
_log = EventLog(Logger())


class Health:
    """The last result of a check that runs at most once a second."""

    def __init__(self, clock: Any, reads: ReadQueue, files: Sequence[Database]) -> None:
        self._clock = clock
        self._reads = reads
        self._files = files
        self._checking = False
        self._waiting: list[Deferred[None]] = []
        self._started_at = self._checked_at = -inf
        """The times when the last check began, and when the last result came."""
        self._problem: type[DatabaseError] | None = None

    def check(self) -> Deferred[None]:
        """Return the last result if it is younger than 5 s: None, or a DatabaseError.

        Otherwise wait for the next one, at most 2 s, then fail with DatabaseBusy.
        """
        now = self._clock.seconds()
        if not self._checking and now >= self._started_at + FRESH_SECONDS:
            self._start(now)
        if now < self._checked_at + VALID_SECONDS:
            problem = self._known_problem() or self._problem
            return succeed(None) if problem is None else fail(new_error(problem))
        self._waiting.append(waiter := Deferred[None]())
        return waiter.addTimeout(WAIT_SECONDS, self._clock, _too_late)

    def _start(self, now: float) -> None:
        self._checking, self._started_at = True, now
        ping_done = self._reads.submit(ping)
        ping_done.addTimeout(ANSWER_SECONDS, self._clock)
        ping_done.addBoth(self._done)

    def _done(self, result: Failure | None) -> None:
        was_well, self._problem = self._problem is None, self._known_problem()
        if self._problem is None and isinstance(result, Failure):
            self._problem = type(result.value) if isinstance(result.value, DatabaseError) else DatabaseBusy
        if was_well and self._problem is not None:
            _log.warn("health_check_failed", error=self._problem.__name__)
        self._checking = False
        self._checked_at = self._clock.seconds()
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            if self._problem is None:
                waiter.callback(None)
            else:
                waiter.errback(new_error(self._problem))

    def _known_problem(self) -> type[DatabaseError] | None:
        return next((file.unavailable_as for file in self._files if file.unavailable_as is not None), None)


def _too_late(_cancelled: object, _seconds: float) -> NoReturn:
    raise new_error(DatabaseBusy)


def ping(connection: Connection, databases: Sequence[str] = (AUTH, STATE)) -> None:
    """Read a row of each database; a bare SELECT 1 would open neither of SQLite's files."""
    for name in databases:
        try:
            connection.execute(PINGS[name]).fetchall()
        except Exception as e:
            raise connection.found_in(name, e)  # noqa: B904  its cause is set


async def unresponsive(reads: ReadQueue, files: Sequence[Database], clock: Any) -> list[str]:
    """Return a sentence for each file that is unavailable or does not respond; check one after the other."""
    sentences = []
    for file in files:
        problem: type[Exception] | None = file.unavailable_as
        if problem is None:
            pinged = reads.submit(partial(ping, databases=(file.name,))).addTimeout(ANSWER_SECONDS, clock)
            try:
                await pinged
            except Exception as e:
                problem = type(e)
        if problem is not None:
            sentences.append(f"{file.title} does not answer: {problem.__name__}")
    return sentences


def _server_away(reason: Failure) -> None:
    reason.trap(DatabaseUnreachable)


class WatchdogProbe:
    """A thread and a connection past all queues, for the sign of life that a service manager gets."""

    def __init__(self, reactor: Any, engine: Engine, state: Database) -> None:
        self._state = state
        self._engine = engine
        self._thread = DatabaseThread(reactor, engine)

    def ping(self) -> Deferred[None]:
        """Fire when each database has responded; fail with a DatabaseError when one could not.

        A state.db that cannot be opened is left out: a restart does not repair it, and Reopening opens it. A restart
        does not bring back a database server that is away either.
        """
        return self._thread.run(self._ping).addErrback(_server_away)

    def close(self) -> None:
        """Close the connection and end the thread."""
        self._thread.close()

    def _ping(self, connection: EngineConnection) -> None:
        databases = (AUTH,) if self._state.unavailable_as is DatabaseUnavailable else (AUTH, STATE)
        try:
            try:
                ping(connection, databases)
            except Exception as e:  # state.db could not be opened when this connection was
                if not isinstance(self._engine.translate(e, connection), DatabaseUnavailable):
                    raise
                connection = self._thread.reopen()
                ping(connection, databases)
        except Exception as e:
            raise self._engine.translate(e, connection)  # noqa: B904  its cause is set
