"""Databases for tests: with the real queues, in memory without threads, or on real files."""

from collections.abc import Callable
from functools import partial
from itertools import count
from json import loads
from pathlib import Path
from typing import Any
from weakref import finalize

from twisted.enterprise.adbapi import ConnectionPool
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase, TestCase

from gamed.database.blobs import KEPT_MS
from gamed.database.connection import AUTH, STATE, Connection
from gamed.database.databases import Backend, Databases
from gamed.database.queues import WriteQueue
from gamed.database.sqlite.backend import SqliteBackend
from gamed.database.sqlite.files import DatabaseFile, connect
from gamed.database.sqlite.migrations import prepare_file, prepare_state
from gamed.timestamps import Now
from tests.support.folders import unused_path
from tests.support.polled_backend import PolledBackend
from tests.support.stores import (
    POSTGRESQL,
    address_of,
    empty_sqlite,
    fill_disk,
    forget_store,
    pool,
    read_only,
    store_of,
)

_numbers = count()


class InlineReactor(Clock):
    """A clock with the methods of a reactor that adbapi needs; callFromThread() calls at once."""

    def callFromThread(self, work: Callable[..., Any], *args: Any, **kw: Any) -> None:
        work(*args, **kw)

    def callWhenRunning(self, work: Callable[..., Any], *args: Any, **kw: Any) -> object:
        return object()

    def addSystemEventTrigger(self, *args: Any, **kw: Any) -> object:
        return object()

    def removeSystemEventTrigger(self, trigger: object) -> None:
        pass


class InlineThreads:
    """A thread pool that runs each function at once."""

    started = True

    def callInThreadWithCallback(
        self, landed: Callable[[bool, Any], None], work: Callable[..., Any], *args: Any, **kw: Any
    ) -> None:
        try:
            result = work(*args, **kw)
        except BaseException:
            landed(False, Failure())
        else:
            landed(True, result)

    def stop(self) -> None:
        self.started = False


class LateThreads(InlineThreads):
    """A thread pool that runs its functions when run() is called."""

    def __init__(self) -> None:
        self._waiting: list[Callable[[], None]] = []

    def callInThreadWithCallback(
        self, landed: Callable[[bool, Any], None], work: Callable[..., Any], *args: Any, **kw: Any
    ) -> None:
        self._waiting.append(partial(super().callInThreadWithCallback, landed, work, *args, **kw))

    @property
    def waiting(self) -> int:
        """Return how many functions were not called yet."""
        return len(self._waiting)

    def run(self) -> None:
        while self._waiting:
            self._waiting.pop(0)()


def memory_databases(
    test: SynchronousTestCase, now_ms: Now = lambda: 0, reactor: InlineReactor | None = None, staged_ms: int = KEPT_MS
) -> Databases:
    """Return empty databases in memory whose Deferreds have fired when submit() returns, until the test ends.

    Every queue has a connection of its own; queue.pause() and resume() make one batch of several submits. PostgreSQL's
    are in a cluster of this process.
    """
    reactor = reactor or InlineReactor()
    if POSTGRESQL:
        address = pool().take()
        stores = _inline(reactor, PolledBackend(reactor, address), now_ms, staged_ms)
        return _ending_with(test, stores, lambda: pool().give_back(address))
    number = next(_numbers)
    auth, state = (DatabaseFile(name, f"file:/gamed-test-{number}-{name}?vfs=memdb", None) for name in (AUTH, STATE))
    keepers = [connect(file.uri) for file in (auth, state)]  # a memory database lives while a connection does
    for keeper, file in zip(keepers, (auth, state), strict=True):
        empty_sqlite(file.name).backup(keeper)
    stores = _inline(reactor, SqliteBackend(reactor, auth, state), now_ms, staged_ms)
    return _ending_with(test, stores, lambda: [keeper.close() for keeper in keepers])


def databases_of_another_process(
    test: SynchronousTestCase, stores: Databases, now_ms: Now, reactor: InlineReactor
) -> Databases:
    """Return further databases over the same rows as memory_databases(), which hear of each other's writes by them."""
    backend = stores._backend
    if isinstance(backend, PolledBackend):
        other: Backend = PolledBackend(reactor, backend.address)
    else:
        auth, state = (DatabaseFile(file.name, file.uri, None) for file in backend.databases)
        other = SqliteBackend(reactor, auth, state)
    return _ending_with(test, _inline(reactor, other, now_ms), lambda: None)


def _inline(reactor: InlineReactor, backend: Backend, now_ms: Now, staged_ms: int = KEPT_MS) -> Databases:
    return run_inline(Databases(reactor, backend, Path("."), now_ms, staged_ms=staged_ms))


def _ending_with(test: SynchronousTestCase, stores: Databases, ended: Callable[[], object]) -> Databases:
    """Close all connections when the test ends, or when it no longer refers to the databases."""
    release = finalize(stores, _release, [thread.pool for thread in stores.threads], ended)
    test.addCleanup(release.__call__)  # trial wants a name
    return stores


def _release(pools: list[ConnectionPool], ended: Callable[[], object]) -> None:
    for each in pools:
        for connection in each.connections.values():
            connection.close()
    ended()


def file_databases(
    test: SynchronousTestCase,
    reactor: Any = None,
    now_ms: Now = lambda: 0,
    data: Path | None = None,
    inline: InlineReactor | None = None,
    *,
    instance_id: str = "",
) -> Databases:
    """Return the databases of a data folder, empty ones on real files if it is new; closed when the test ends.

    With the real reactor (TestCase) there are threads, as in the service. Without it (SynchronousTestCase) everything
    runs inline, on the clock `inline` if given. PostgreSQL's folder has the address of the database beside it.
    """
    data = data or data_folder(test)
    prepare_files(data)
    if reactor is None:
        clock = inline or InlineReactor()
        if POSTGRESQL:
            backend: Backend = PolledBackend(clock, address_of(data), instance_id)
        else:
            backend = store_of(data).backend(clock, instance_id, lambda: None)
        stores = run_inline(Databases.open(clock, backend, data, now_ms))
    else:
        assert isinstance(test, TestCase)
        stores = open_databases(reactor, data, now_ms, instance_id)
    test.addCleanup(stores.close)
    return stores


def open_databases(reactor: Any, data: Path, now_ms: Now = lambda: 0, instance_id: str = "") -> Databases:
    """Return databases whose files were prepared, as a service opens them."""
    return Databases.open(reactor, store_of(data).backend(reactor, instance_id, lambda: None), data, now_ms)


def prepare_files(data: Path, progress: Callable[[str], None] = lambda text: None) -> None:
    """Create or migrate both databases, as `gamed serve` does."""
    if POSTGRESQL:
        address_of(data)
    else:
        prepare_sqlite(data, progress)


def prepare_sqlite(data: Path, progress: Callable[[str], None] = lambda text: None) -> None:
    """Create or migrate both files, whatever store the tests run over."""
    prepare_file(data / "auth.db", progress)
    prepare_state(data, progress)


def data_folder(test: SynchronousTestCase) -> Path:
    folder = unused_path(test)
    folder.mkdir(parents=True)
    test.addCleanup(forget_store, folder)
    return folder


def run_inline(stores: Databases) -> Databases:
    """Replace the threads of the queues by calls."""
    for thread in stores.threads:
        thread.pool.threadpool = InlineThreads()
    return stores


def unwritable(queue: WriteQueue) -> Callable[[], None]:
    """Let the database refuse all writes of the queue, as on a full disk; return a function that ends that.

    SQLite's connections become read-only, later ones too; those that are open then stay so until they are replaced.
    """
    if POSTGRESQL:
        return fill_disk(queue.thread.engine.open())
    pool = queue.thread.pool
    pool.openfun = read_only
    for connection in pool.connections.values():
        read_only(connection)
    return lambda: setattr(pool, "openfun", None)


def elsewhere(queue: WriteQueue, *statements: str) -> None:
    """Run statements on another connection to the queue's database, as another process does."""
    connection = queue.thread.engine.open()
    for sql in statements:
        connection.rows(sql)
    connection.close()


def hold(queue: WriteQueue) -> Callable[[], None]:
    """Hold all writes of the queue, as another process does that keeps its transaction open; return what ends that."""
    other = queue.thread.engine.open()
    if POSTGRESQL:
        other.execute("SET idle_in_transaction_session_timeout = 0").close()
        other.rollback()
        queue.thread.engine.begin_writing(other, None)
    else:
        other.execute("BEGIN IMMEDIATE")
    other.rows("SELECT 1")

    def release() -> None:
        other.rollback()
        other.close()

    return release


def ask(sql: str) -> Callable[[Connection], list[tuple[Any, ...]]]:
    """Return a transaction that returns all rows of one statement."""
    return lambda connection: connection.execute(sql).fetchall()


def unlogged_commands(connection: Connection) -> list[tuple[str, str | None, str]]:
    """Return command, player and system's user of each command that waits to be logged, the oldest first."""
    query = "SELECT detail, player_id FROM security_event WHERE logged = 0 ORDER BY number"
    rows = [(loads(detail), player_id or None) for detail, player_id in connection.execute(query).fetchall()]
    return [(values["command"], player_id, values["by"]) for values, player_id in rows]
