"""A login is let in, or not, in one transaction: how fast, how many from one address, how many in all (PROTOCOL 3.9).

What it raises leaves no trace: buckets, ended logins and its own row are one unit.
"""

from collections.abc import Sequence
from sqlite3 import Connection

from msgspec.structs import replace

from gamed.crypto import Index
from gamed.limits import RateLimited
from gamed.login.client import Client
from gamed.login.crowd import Crowd
from gamed.login.errors import Crowded
from gamed.login.logins import Move
from gamed.login.transaction import Event, LoginTransaction
from gamed.storage.auth import limits, logins

ENDED_ROWS = 5_000
"""So many logins that have ended are remembered for their hour; then the oldest are forgotten before it is over."""
ROOM_ROWS = 200
"""So many make room at once; more than one only after the limit was lowered."""
RETRY_MS = 60_000
"""A crowded address need not wait for the clock: most sign-ins end before their time."""
WORDS_BYTES = 192
"""What a device says of itself at some length; four words of 64 characters can be five times that."""
LIVE = "stage IN ('pending', 'authorizing', 'exchanging', 'ready')"
ENDED = "stage IN ('collected', 'denied', 'failed', 'cancelled', 'expired')"


def start(connection: Connection, login: LoginTransaction, crowd: Crowd) -> Sequence[Index]:
    """RateLimited or Crowded; else the secret indexes of the logins that ended meanwhile."""
    limits.take(connection, crowd.buckets, login.created_ms)
    if crowd.live_per_address:
        _require_place(connection, "address_index", login.address_index, crowd.live_per_address, login)
        if login.wide_index is not None:
            _require_place(connection, "wide_index", login.wide_index, crowd.live_per_wide, login)
    ended = _make_room(connection, crowd.live, login) if crowd.live else ()
    logins.insert(connection, _curt(connection, crowd.live, login))
    _forget(connection)
    return ended


def _require_place(connection: Connection, column: str, index: Index, places: int, login: LoginTransaction) -> None:
    """A login that would outlive this one was begun under another clock and does not count."""
    query = f"""
        SELECT count(*), min(expires_ms) FROM login
        WHERE {column} = :index AND expires_ms > :now_ms AND expires_ms <= :expires_ms AND {LIVE}
    """
    values = {"index": index, "now_ms": login.created_ms, "expires_ms": login.expires_ms}
    count, first_ms = connection.execute(query, values).fetchone()
    if count >= places:
        raise RateLimited(min(first_ms - login.created_ms, RETRY_MS))


def _make_room(connection: Connection, live: int, login: LoginTransaction) -> Sequence[Index]:
    """First what the clock has ended, then the oldest logins whose browser never came."""
    if _count(connection, LIVE) < live:
        return ()
    swept = logins.sweep(connection, login.created_ms)
    excess = _count(connection, LIVE) - live + 1
    if excess <= 0:
        return swept
    gone = _unattended(connection, min(excess, ROOM_ROWS), login)
    if not gone:
        raise Crowded
    for each in gone:
        logins.save(connection, Move(each, each.after(Event.EXPIRE, login.created_ms)))
    return (*swept, *(each.secret_index for each in gone))


def _unattended(connection: Connection, rows: int, login: LoginTransaction) -> list[LoginTransaction]:
    """Pending ones: those of a clock that was set back since, then the oldest."""
    values = {"expires_ms": login.expires_ms, "rows": rows}
    foreign = logins.select(connection, "stage = 'pending' AND expires_ms > :expires_ms LIMIT :rows", values)
    if foreign:
        return foreign
    return logins.select(connection, "stage = 'pending' ORDER BY expires_ms LIMIT :rows", values)


def _curt(connection: Connection, live: int, login: LoginTransaction) -> LoginTransaction:
    """Where many wait, long words of a device are left out: they would be most of the file."""
    if not live or len(login.client.to_json().encode()) <= WORDS_BYTES or _count(connection, LIVE) < live // 8:
        return login
    return replace(login, client=Client())


def _forget(connection: Connection) -> None:
    excess = _count(connection, ENDED) - ENDED_ROWS
    if excess > 0:
        query = f"""
            DELETE FROM login WHERE login_id IN (
                SELECT login_id FROM login WHERE {ENDED} ORDER BY stage_ms LIMIT :rows)
        """
        connection.execute(query, {"rows": min(excess, ROOM_ROWS)})


def _count(connection: Connection, stages: str) -> int:
    """From the table that triggers keep: counting rows would take longer the more there are."""
    [(count,)] = connection.execute(f"SELECT coalesce(sum(logins), 0) FROM login_count WHERE {stages}").fetchall()
    return int(count)
