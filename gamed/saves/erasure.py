"""A player erases everything they keep, and starts anew (PROTOCOL 4)."""

from collections.abc import Awaitable
from typing import Protocol

from msgspec import Struct

from gamed.crypto import Random, Secret
from gamed.instants import Now
from gamed.saves.condition import Condition, Wants
from gamed.saves.cursor import Cursor, new_epoch
from gamed.saves.errors import PreconditionRequired, Refused, SaveError, VersionConflict, WeakValidator
from gamed.saves.holdings import Holdings
from gamed.saves.player_waits import PlayerWaits
from gamed.saves.rules import Removal
from gamed.saves.shelf import Shelf
from gamed.structs import Part

AGAIN = "Look at GET /game/ again, then erase with its ETag in If-Match."


class EraseOrder(Struct, frozen=True):
    """Erase a shelf if it is as the client saw it."""

    player_id: str
    condition: Condition
    new_epoch: str
    now_ms: int


class Shelves(Protocol):
    """StoreError."""

    def begin(self, order: EraseOrder) -> Awaitable[tuple[Removal, Cursor]]:
        """Judge, and count everything as gone; -> where the shelf stood."""

    def finish(self, player_id: str) -> Awaitable[bool]:
        """Delete the rows and bytes that are left; return whether this ended an erase that had begun."""


class Erasure(Part, frozen=True):
    """Counts as a change like any other, towards the rate too."""

    _shelf: Shelf
    _shelves: Shelves
    _now_ms: Now
    _random: Random
    _waits: PlayerWaits

    async def erase(self, token: Secret, condition: Condition) -> None:
        """Nothing is left when this returns; SaveError when nothing was erased."""
        player_id = (await self._shelf.enter(token)).player_id
        order = EraseOrder(player_id, condition, new_epoch(self._random), self._now_ms())
        removal, cursor = await self._shelves.begin(order)
        if removal is Removal.DELETES:
            self._waits.changed(player_id)
        refusal = refusal_of_erasing(removal, condition, cursor)
        if refusal is not None:
            raise refusal
        if await self._shelves.finish(player_id):
            self._waits.changed(player_id)


def judge_erase(holdings: Holdings, condition: Condition, *, empty: bool) -> Removal:
    """Whether the whole shelf may go; `empty` when nothing is kept on it, not even a deleted slot.

    A repeated request finds its own effect and calls it success: it names a past that was erased, and nothing was
    saved since (RFC 9110 13.1.1).
    """
    if condition.wants is Wants.ANYTHING:
        return Removal.UNCONDITIONAL
    if condition.allows(holdings.cursor.entity_tag):
        return Removal.DELETES
    gone = holdings.erasing or (empty and holdings.erased_ms is not None)
    return Removal.ALREADY_DONE if gone and not condition.weak else Removal.CONFLICT


def refusal_of_erasing(removal: Removal, condition: Condition, cursor: Cursor) -> SaveError | None:
    """Why nothing was erased; None when it was, now or before."""
    if removal is Removal.UNCONDITIONAL:
        return PreconditionRequired(f"This erases all your saves for good. {AGAIN}")
    if removal is not Removal.CONFLICT:
        return None
    kind: type[Refused] = WeakValidator if condition.weak else VersionConflict
    return kind(f"Your saves are others than you saw last, so nothing was erased. {AGAIN}", {"cursor": str(cursor)})
