"""Session-level advisory locks show which processes use the databases, and which of them works for all.

PostgreSQL releases such a lock when its session ends, however it ends. Each connection that writes takes the locks of
its process before it writes anything, and the connection of the listener takes them, too: so a process lives as long as
one of them is connected. A process that lost all of them at once gets them back within a second.

The connections of these functions are outside a transaction.
"""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from zlib import crc32

from gamed.database.connection import Connection
from gamed.database.errors import DatabaseBusy

STORE, PROCESS = 4, 5
"""The first keys of the locks; the migrations and the writers have 1 to 3."""
IN_USE, TENDER, NOTIFIER = 0, 1, 2
"""The second keys with STORE; with PROCESS it is the number of the process."""
_HELD = """
    SELECT CAST(objid AS bigint) FROM pg_locks
    WHERE locktype = 'advisory' AND objsubid = 2 AND granted AND classid = {}
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""

_TENDS = f"{_HELD.format(STORE)} AND objid = {TENDER} AND pid = pg_backend_pid()"


def application_name(instance_id: str, thread: str) -> str:
    """Return the name of a connection in PostgreSQL's views, and in the notifications about what it has committed."""
    return f"gamed {instance_id} {thread}"


def is_own(name: str, instance_id: str) -> bool:
    """Return whether a connection of this name is one of this process's."""
    return name.startswith(application_name(instance_id, ""))


def join(connection: Connection, instance_id: str) -> None:
    """Let the others know that this process lives, as long as this connection does.

    Raise DatabaseBusy while a command uses the databases alone.
    """
    use(connection)
    connection.rows(f"SELECT pg_try_advisory_lock_shared({PROCESS}, {_signed(_number(instance_id))})")


def use(connection: Connection) -> None:
    """Keep commands away that need the databases alone, as long as this connection lives; raise DatabaseBusy."""
    if not connection.rows(f"SELECT pg_try_advisory_lock_shared({STORE}, {IN_USE})")[0][0]:
        raise DatabaseBusy("A command of gamed works on the databases. Wait until it has ended.")


def leave(connection: Connection) -> None:
    """Release what join() and use() have taken."""
    connection.rows("SELECT pg_advisory_unlock_all()")


def ended(connection: Connection, ids: Collection[str]) -> frozenset[str]:
    """Return those of the processes that have no connection that writes."""
    if not ids:
        return frozenset()
    living = _held(connection, PROCESS)
    return frozenset(each for each in ids if _number(each) not in living)


def is_living(connection: Connection, instance_id: str) -> bool:
    """Return whether a process of this name uses the databases now; the name may come from anywhere."""
    return not ended(connection, [instance_id])


def tend(connection: Connection) -> bool:
    """Return whether this session is the one that cleans up; become it if there is none."""
    # Asked first, because PostgreSQL counts: a session that takes its lock again has to release it as often.
    [(tends,)] = connection.rows(
        f"SELECT CASE WHEN EXISTS ({_TENDS}) THEN true ELSE pg_try_advisory_lock({STORE}, {TENDER}) END"
    )
    return bool(tends)


def tend_no_more(connection: Connection) -> bool:
    """Let another session clean up; return False."""
    connection.rows(f"SELECT CASE WHEN EXISTS ({_TENDS}) THEN pg_advisory_unlock({STORE}, {TENDER}) ELSE false END")
    return False


def notify_only(connection: Connection) -> bool:
    """Let another session clean up; return whether none does, and this one notifies the owner instead.

    It keeps the lock until it ends, so that the same one of several sessions with wrong clocks goes on.
    """
    tend_no_more(connection)
    [(notifies,)] = connection.rows(
        f"SELECT CASE WHEN EXISTS ({_HELD.format(STORE)} AND objid = {TENDER}) THEN false "
        f"WHEN EXISTS ({_HELD.format(STORE)} AND objid = {NOTIFIER} AND pid = pg_backend_pid()) THEN true "
        f"ELSE pg_try_advisory_lock({STORE}, {NOTIFIER}) END"
    )
    return bool(notifies)


@contextmanager
def alone(connection: Connection) -> Iterator[None]:
    """Keep all processes and other commands away from the databases; raise DatabaseBusy while one uses them."""
    if not connection.rows(f"SELECT pg_try_advisory_lock({STORE}, {IN_USE})")[0][0]:
        raise DatabaseBusy("A gamed process uses the databases. Stop all of them, on every machine.")
    try:
        yield
    finally:
        connection.rows(f"SELECT pg_advisory_unlock({STORE}, {IN_USE})")


def snapshot_version(connection: Connection) -> tuple[object, object]:
    """Return the connection, and a text that changes when a transaction that wrote begins or ends in the cluster."""
    [(snapshot,)] = connection.rows("SELECT CAST(pg_current_snapshot() AS text)")
    return connection, snapshot


def _held(connection: Connection, first_key: int) -> frozenset[int]:
    return frozenset(number for (number,) in connection.rows(_HELD.format(first_key)))


def _number(instance_id: str) -> int:
    return crc32(instance_id.encode(errors="replace"))


def _signed(number: int) -> int:
    """Return the 32 bits of a number as PostgreSQL's type integer, which has a sign; pg_locks shows them without."""
    return number - (1 << 32) if number >> 31 else number
