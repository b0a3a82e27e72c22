"""Units of the sweep: each prunes a few histories, small enough that a player's write does not wait for it.

PROTOCOL 4.3.
"""

from collections.abc import Sequence
from sqlite3 import Connection

from msgspec import Struct

from gamed.saves.history import prune
from gamed.saves.limits import MIB, SaveLimits
from gamed.saves.version import Kind, Version
from gamed.storage.files import PAGE_BYTES
from gamed.storage.state import shelves, slots, versions
from gamed.storage.state.changes import forget, tell, trim

SLOTS = 32
VERSIONS = 64
"""One unit looks at so many slots, and forgets about so many versions, at most."""
MARKED = 100
FREE_PAGES = 16 * MIB // PAGE_BYTES
"""Room that the next writes will use again; what is free beyond them goes back to the disk."""
VACUUMED = 100


class Swept(Struct, frozen=True):
    """What one unit did."""

    slots: int
    told: frozenset[str]
    """Players whose lists are others now: a conflict copy has gone."""


def sweep(connection: Connection, limits: SaveLimits, now_ms: int) -> Swept:
    """Prune the histories that are due, the longest due first."""
    looked, left, told = 0, VERSIONS, set()
    for player_id, slot in slots.due(connection, now_ms, SLOTS):
        before = shelves.find(connection, player_id).cursor
        head = slots.view(connection, player_id, slot).head
        history = versions.history(connection, player_id, slot)
        pruning = prune(limits, head.version if head else None, history, now_ms)
        going = pruning.gone[-left:]
        _let_go(connection, player_id, slot, going)
        more = trim(connection, limits, player_id) or len(going) < len(pruning.gone)
        slots.look_again(connection, player_id, slot, now_ms if more else pruning.next_ms)
        if shelves.find(connection, player_id).cursor != before:
            told.add(player_id)
        looked, left = looked + 1, left - len(going)
        if left <= 0:
            break
    return Swept(looked, frozenset(told))


def _let_go(connection: Connection, player_id: str, slot: str, going: Sequence[Version]) -> None:
    """A conflict copy that goes changes the slot's entry in the list."""
    for version in going:
        forget(connection, player_id, version)
    if any(version.kind is Kind.CONFLICT for version in going):
        tell(connection, player_id, slot)


def mark(connection: Connection, limits: SaveLimits, now_ms: int) -> bool:
    """After a change of the limits every history is due once, some at a time; True while there are more."""
    kept = limits.keep_versions, limits.keep_hours, limits.keep_days, limits.conflict_copies, limits.history_bytes
    values = {"rule": " ".join(map(str, kept)), "now_ms": now_ms, "limit": MARKED}
    ((rule, player_id, slot),) = connection.execute("SELECT rule, player_id, slot FROM retention").fetchall()
    if rule != values["rule"]:
        connection.execute("UPDATE retention SET rule = :rule, player_id = '', slot = ''", values)
        return True
    return player_id is not None and _mark_some(connection, {**values, "player_id": player_id, "slot": slot})


def _mark_some(connection: Connection, after: dict[str, object]) -> bool:
    query = """
        SELECT player_id, slot FROM save WHERE (player_id, slot) > (:player_id, :slot)
        ORDER BY player_id, slot LIMIT :limit
    """
    found = connection.execute(query, after).fetchall()
    for player_id, slot in found:
        slots.look_again(connection, player_id, slot, int(str(after["now_ms"])))
    last = found[-1] if found else (None, None)
    values = {"player_id": last[0], "slot": last[1]}
    connection.execute("UPDATE retention SET player_id = :player_id, slot = :slot", values)
    return bool(found)


def vacuum(connection: Connection) -> bool:
    """Give some pages that nothing needs back to the disk; True while there are more."""
    [(free,)] = connection.execute("PRAGMA freelist_count").fetchall()
    if free <= FREE_PAGES:
        return False
    for _ in range(VACUUMED):  # sqlite3 takes one step of this statement, so one page, however many it names
        connection.execute("PRAGMA incremental_vacuum(1)").fetchall()
    return True
