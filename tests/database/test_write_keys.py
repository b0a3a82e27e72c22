"""The keys of write transactions: where several writers can work at once, a batch has the keys of its transactions."""

import sqlite3
from collections.abc import Callable, Collection
from io import BytesIO
from typing import Any, cast

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from gamed.database.blob_rows import PART_BYTES
from gamed.database.engine import EngineConnection
from gamed.database.queues import BATCH_BYTES, DatabaseThread
from gamed.database.sqlite.engine import SqliteEngine
from tests.support.databases import memory_databases
from tests.support.stores import sqlite_files

ANNA, BO = "ply_anna", "ply_bo"


class KeyedEngine(SqliteEngine):
    """SQLite behind an engine in which keys have an effect; it keeps the keys of each batch."""

    concurrent_writers = True

    def __init__(self, engine: SqliteEngine) -> None:
        super().__init__(engine._file)
        self.begun: list[Collection[str] | None] = []

    def begin_writing(self, connection: EngineConnection, keys: Collection[str] | None) -> None:
        self.begun.append(keys)
        super().begin_writing(connection, keys)


def write(names: list[str], name: str) -> Callable[[sqlite3.Connection], None]:
    """Return a transaction that appends its name."""
    return lambda connection: names.append(name)


@sqlite_files("it has keys over SQLite; tests.support.row_guard checks those of PostgreSQL")
class WriteKeys(SynchronousTestCase):
    def setUp(self) -> None:
        self.stores = memory_databases(self)
        self.done: list[str] = []

    def keyed(self, thread: DatabaseThread) -> KeyedEngine:
        """Let keys have an effect in the queue of this thread; return its engine."""
        thread.engine = engine = KeyedEngine(cast(SqliteEngine, thread.engine))
        return engine

    def together(self, *items: tuple[str, tuple[str, ...] | None], size: int = 0) -> list[Deferred[Any]]:
        """Submit a transaction for each name with its keys, all before the next batch starts."""
        queue = self.stores.state
        self.successResultOf(queue.pause())
        answers = [queue.submit(write(self.done, name), size, keys) for name, keys in items]
        queue.resume()
        return answers

    def test_keys_of_a_batch(self) -> None:
        """A batch has the keys of all its transactions."""
        engine = self.keyed(self.stores.state.thread)
        self.together(("a", (ANNA,)), ("b", (BO, "logins")), ("c", (ANNA,)), ("d", ()))
        self.assertEqual(engine.begun, [{ANNA, BO, "logins"}])
        self.assertEqual(self.done, ["a", "b", "c", "d"])

    def test_without_keys(self) -> None:
        """A transaction without keys may write all rows, so it shares no batch with one that has some."""
        engine = self.keyed(self.stores.state.thread)
        self.together(("a", (ANNA,)), ("x", None), ("b", (BO,)), ("y", None), ("c", (ANNA,)))
        self.assertEqual(engine.begun, [{ANNA, BO}, None])
        self.assertEqual(self.done, ["a", "b", "c", "x", "y"])

    def test_the_longest_wait_goes_first(self) -> None:
        """The next batch begins with the transaction that has waited longest, whether it has keys or not."""
        engine = self.keyed(self.stores.state.thread)
        half = BATCH_BYTES // 2
        items = [("x", None), ("a", (ANNA,)), ("y", None), ("z", None), ("b", (BO,))]
        self.together(*items, size=half)
        self.assertEqual(engine.begun, [None, {ANNA, BO}, None])
        self.assertEqual(self.done, ["x", "y", "a", "b", "z"])

    def test_cancelled(self) -> None:
        """A transaction that is cancelled between batches of either kind never runs."""
        engine = self.keyed(self.stores.state.thread)
        queue = self.stores.state
        self.successResultOf(queue.pause())
        for name, keys in (("a", (ANNA,)), ("x", None), ("b", (BO,))):
            answer = queue.submit(write(self.done, name), 0, keys)
            if name == "x":
                answer.addErrback(lambda reason: None).cancel()
        queue.resume()
        self.assertEqual((engine.begun, self.done), ([{ANNA, BO}], ["a", "b"]))

    def test_one_writer_at_a_time(self) -> None:
        """Where keys have no effect, as in SQLite, transactions share a batch whatever their keys are."""
        batches = self.stores.state.batches
        self.together(("a", (ANNA,)), ("x", None), ("b", (BO,)))
        self.assertEqual((sum(batches), self.done), (1, ["a", "x", "b"]))

    def test_blobs(self) -> None:
        """Each step of appending and discarding a blob has its player's key; a cleanup has none."""
        engine = self.keyed(self.stores.blobs.queue.thread)
        blob_id = self.successResultOf(self.stores.blobs.append(ANNA, BytesIO(bytes(6 * PART_BYTES))))
        self.successResultOf(self.stores.blobs.discard(blob_id, ANNA))
        self.assertEqual(engine.begun, [(ANNA,)] * 5)
        self.successResultOf(self.stores.blobs.delete_expired())
        self.assertEqual(engine.begun[5:], [None])
