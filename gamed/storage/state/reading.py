"""Units that look at a shelf: they ride the read lane beside the look-up of the token (PROTOCOL 4.2)."""

from hashlib import sha256
from sqlite3 import Connection

from gamed.http_rules.conditions import UNCONDITIONAL, Conditions, Outcome, Representation, judge
from gamed.saves.cursor import Cursor
from gamed.saves.entry import Listing
from gamed.saves.limits import INLINE_BYTES
from gamed.saves.rules import SlotView
from gamed.saves.sight import Look, Past, Sight
from gamed.saves.version import Body, Version
from gamed.storage.state import kept_blobs, shelves, slots, versions
from gamed.storage.state.changes import named
from gamed.storage.state.writing import last_of


def list_saves(connection: Connection, player_id: str, since: Cursor | None, conditions: Conditions) -> Listing:
    """All saves, or what changed since; nothing when the client knows this cursor (If-None-Match)."""
    holdings = shelves.find(connection, player_id)
    cursor = holdings.cursor
    known = conditions.if_none_match
    if known is not None and known.match_weakly(cursor.entity_tag):
        return Listing(cursor, None)
    if holdings.erasing:
        return Listing(cursor, (), reset=since is not None)
    if since is not None and holdings.tells(since):
        return Listing(cursor, slots.changed(connection, player_id, since.seq))
    return Listing(cursor, slots.live(connection, player_id), reset=since is not None)


def look_at(connection: Connection, player_id: str, look: Look) -> Sight:
    """A version, judged by the conditions; with the bytes, hashed again, when they are small and will be sent."""
    view, data = _view(connection, player_id, look)
    target = view.head if look.version is None else versions.find(connection, player_id, look.slot, look.version)
    if target is None or target.body is None:
        return Sight(view, target, last=last_of(connection, player_id, view))
    current = _representation(connection, player_id, target, look.conditions)
    outcome = judge(look.conditions, current, reading=True)
    if outcome is Outcome.FAILED:
        match = look.conditions.if_match
        tag = match.listed[0].opaque if match and match.listed else None
        return Sight(view, target, base=named(connection, player_id, look.slot, tag), outcome=outcome)
    if outcome is Outcome.NOT_MODIFIED or not look.whole or target.size > INLINE_BYTES:
        return Sight(view, target, outcome=outcome, current=current)
    data = _bytes_of(connection, target, target.body, data)
    return Sight(view, target, outcome=outcome, current=current, data=data, damaged=data is None)


def _view(connection: Connection, player_id: str, look: Look) -> tuple[SlotView, bytes | None]:
    """The slot; with what is small of it when the current bytes are asked for, whatever the client has already."""
    if look.whole and look.version is None and look.conditions is UNCONDITIONAL:
        return slots.view_and_bytes(connection, player_id, look.slot)
    return slots.view(connection, player_id, look.slot), None


def recall(connection: Connection, player_id: str, slot: str) -> Past:
    """Everything kept of a slot."""
    return Past(slots.view(connection, player_id, slot), versions.history(connection, player_id, slot))


def _representation(connection: Connection, player_id: str, head: Version, conditions: Conditions) -> Representation:
    """Whether its date tells it from its predecessor is looked up only for who asks by date."""
    dated = isinstance(conditions.if_range, int)
    doubtful = dated and versions.shares_its_second(connection, player_id, head)
    return Representation(head.entity_tag, head.created_ms, date_is_strong=not doubtful)


def _bytes_of(connection: Connection, version: Version, body: Body, stored: bytes | None) -> bytes | None:
    """The stored bytes, unless they are at hand already, if they are those that were acknowledged."""
    if stored is None:
        if version.blob_id is None:
            return None
        stored = kept_blobs.load(connection, version.blob_id)
    return stored if sha256(stored).digest() == body.sha256 else None
