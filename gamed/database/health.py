"""The health of both stores: checked at most once a second, answered from the last check (PROTOCOL 2).

Whether both stores answer somebody who waits in no lane: the sign of life a service manager is given.
"""

import sqlite3
from collections.abc import Sequence
from functools import partial
from math import inf
from typing import Any, NoReturn

from twisted.internet.defer import Deferred, fail, succeed
from twisted.logger import Logger
from twisted.python.failure import Failure

from gamed.database.connection import AUTH, STATE, DatabaseFile, attach_state, prepare, state_attached
from gamed.database.error_mapping import SQLITE_ERRORS, found_in, new_error, translated
from gamed.database.errors import DatabaseBusy, DatabaseError
from gamed.database.queues import ReadQueue
from gamed.database.thread import DatabaseThread
from gamed.event_log import EventLog

FRESH_SECONDS = 1
"""The stores are asked at most once in this time."""
VALID_SECONDS = 5
"""So long a result is answered from, while the next check runs beside the requests."""
WAIT_SECONDS = 2
"""How long a request waits for a check where no valid result is there, such as the first one."""
ANSWER_SECONDS = 5
"""How long the stores have to answer a check."""
_log = EventLog(Logger())


SCHEMAS = {AUTH: "main", STATE: "state"}


def ping(connection: sqlite3.Connection, files: Sequence[str] = (AUTH, STATE)) -> None:
    """Read one row of each file; a bare SELECT 1 would open neither."""
    for name in files:
        try:
            connection.execute(f"SELECT 1 FROM {SCHEMAS[name]}.sqlite_schema LIMIT 1").fetchall()
        except SQLITE_ERRORS as e:
            raise found_in(name, e)  # noqa: B904  its cause is set


async def silent(reads: ReadQueue, files: Sequence[DatabaseFile], clock: Any) -> list[str]:
    """A sentence for each file that cannot be used, or does not answer; asked now, one after the other."""
    said = []
    for file in files:
        why: type[Exception] | None = file.unavailable_as
        if why is None:
            answer = reads.submit(partial(ping, files=(file.name,))).addTimeout(ANSWER_SECONDS, clock)
            try:
                await answer
            except Exception as e:
                why = type(e)
        if why is not None:
            said.append(f"{file.name}.db does not answer: {why.__name__}")
    return said


class Health:
    """The result of the last check of both stores; a request starts the next check, but does not wait for it."""

    def __init__(self, clock: Any, reads: ReadQueue, files: Sequence[DatabaseFile]) -> None:
        self._clock = clock
        self._reads = reads
        self._files = files
        self._asking = False
        self._waiting: list[Deferred[None]] = []
        self._asked_at = self._checked_at = -inf
        """When the last check began, and when the last result came."""
        self._problem: type[DatabaseError] | None = None

    def check(self) -> Deferred[None]:
        """Return the last result when it is younger than 5 s: None, or a DatabaseError.

        Otherwise wait for the next one, at most 2 s; DatabaseBusy when it does not come.
        """
        now = self._clock.seconds()
        if not self._asking and now >= self._asked_at + FRESH_SECONDS:
            self._ask(now)
        if now < self._checked_at + VALID_SECONDS:
            problem = self._refusal() or self._problem
            return succeed(None) if problem is None else fail(new_error(problem))
        self._waiting.append(waiter := Deferred[None]())
        return waiter.addTimeout(WAIT_SECONDS, self._clock, _too_late)

    def _ask(self, now: float) -> None:
        self._asking, self._asked_at = True, now
        answer = self._reads.submit(ping)
        answer.addTimeout(ANSWER_SECONDS, self._clock)
        answer.addBoth(self._answered)

    def _answered(self, result: Failure | None) -> None:
        well, self._problem = self._problem is None, self._judge(result)
        if well and self._problem is not None:
            _log.warn("health_check_failed", error=self._problem.__name__)
        self._asking = False
        self._checked_at = self._clock.seconds()
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            if self._problem is None:
                waiter.callback(None)
            else:
                waiter.errback(new_error(self._problem))

    def _judge(self, result: Failure | None) -> type[DatabaseError] | None:
        refusal = self._refusal()
        if refusal is None and isinstance(result, Failure):
            return type(result.value) if isinstance(result.value, DatabaseError) else DatabaseBusy
        return refusal

    def _refusal(self) -> type[DatabaseError] | None:
        """Return what a store is known to refuse, without asking it."""
        return next((file.unavailable_as for file in self._files if file.unavailable_as is not None), None)


def _too_late(_cancelled: object, _seconds: float) -> NoReturn:
    raise new_error(DatabaseBusy)


class WatchdogProbe:
    """A thread and a connection of its own, opened at the first beat."""

    def __init__(self, reactor: Any, auth: DatabaseFile, state: DatabaseFile) -> None:
        def setup(connection: sqlite3.Connection) -> None:
            with translated():
                prepare(connection)
                attach_state(connection, state)

        self._state = state
        self._worker = DatabaseThread(reactor, auth, setup)

    def ping(self) -> Deferred[None]:
        """Fires when each store has answered, fails with a DatabaseError when one could not.

        A state.db that cannot be opened is not asked: a restart does not repair it, and it is opened once it can be.
        """
        return self._worker.run(self._ask)

    def close(self) -> None:
        self._worker.close()

    def _ask(self, connection: sqlite3.Connection) -> None:
        """Read a row of each file; a bare SELECT 1 would open neither."""
        with translated():
            if self._state.unavailable_as is None and not state_attached(connection):
                connection = self._worker.reopen()
            for _, schema, _ in connection.execute("PRAGMA database_list").fetchall():
                connection.execute(f'SELECT 1 FROM "{schema}".sqlite_schema LIMIT 1').fetchall()
