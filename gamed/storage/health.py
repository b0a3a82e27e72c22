"""Whether both stores answer, asked at most once a second (PROTOCOL 2)."""

import sqlite3
from collections.abc import Sequence
from functools import partial
from typing import Any

from twisted.internet.defer import Deferred, fail, succeed
from twisted.logger import Logger
from twisted.python.failure import Failure

from gamed.storage.errors import say
from gamed.storage.files import AUTH, STATE, StoreFile
from gamed.storage.lanes import ReadLane
from gamed.store import StoreBusy, StoreError

FRESH_SECONDS = 1
ANSWER_SECONDS = 5
log = Logger()


SCHEMAS = {AUTH: "main", STATE: "state"}


def touch(connection: sqlite3.Connection, files: Sequence[str] = (AUTH, STATE)) -> None:
    """Read one row of each file; a bare SELECT 1 would open neither."""
    for name in files:
        connection.execute(f"SELECT 1 FROM {SCHEMAS[name]}.sqlite_schema LIMIT 1").fetchall()


async def silent(reads: ReadLane, files: Sequence[StoreFile], clock: Any) -> list[str]:
    """A sentence for each file that cannot be used, or does not answer; asked now, one after the other."""
    said = []
    for file in files:
        why: type[Exception] | None = file.refusal
        if why is None:
            answer = reads.submit(partial(touch, files=(file.name,))).addTimeout(ANSWER_SECONDS, clock)
            try:
                await answer
            except Exception as e:
                why = type(e)
        if why is not None:
            said.append(f"{file.name}.db does not answer: {why.__name__}")
    return said


class Health:
    def __init__(self, clock: Any, reads: ReadLane, files: Sequence[StoreFile]) -> None:
        self._clock = clock
        self._reads = reads
        self._files = files
        self._asking = False
        self._waiting: list[Deferred[None]] = []
        self._fresh_until = 0.0
        self._problem: type[StoreError] | None = None

    def check(self) -> Deferred[None]:
        """Fires when both stores answered within the last second, else fails with what is wrong."""
        if not self._asking and self._clock.seconds() >= self._fresh_until:
            self._ask()
        if not self._asking:
            return succeed(None) if self._problem is None else fail(say(self._problem))
        self._waiting.append(waiter := Deferred[None]())
        return waiter

    def _ask(self) -> None:
        self._asking = True
        answer = self._reads.submit(touch)
        answer.addTimeout(ANSWER_SECONDS, self._clock)
        answer.addBoth(self._answered)

    def _answered(self, result: Failure | None) -> None:
        well, self._problem = self._problem is None, self._judge(result)
        if well and self._problem is not None:
            log.warn("a store does not answer: {problem}", problem=self._problem.__name__)
        self._asking = False
        self._fresh_until = self._clock.seconds() + FRESH_SECONDS
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            if self._problem is None:
                waiter.callback(None)
            else:
                waiter.errback(say(self._problem))

    def _judge(self, result: Failure | None) -> type[StoreError] | None:
        for file in self._files:
            if file.refusal is not None:
                return file.refusal
        if isinstance(result, Failure):
            return type(result.value) if isinstance(result.value, StoreError) else StoreBusy
        return None
