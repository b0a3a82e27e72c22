"""A player erases everything they keep, and starts anew (PROTOCOL 4)."""

from collections.abc import Awaitable
from typing import Protocol

from msgspec import Struct

from gamed.crypto import Random, Secret
from gamed.saves.change_waits import ChangeWaiters
from gamed.saves.errors import ConflictError, PreconditionRequired, SaveError, VersionConflict, WeakValidator
from gamed.saves.model import Cursor, SavesSummary, new_epoch
from gamed.saves.service import SaveService
from gamed.saves.write_rules import Condition, ConditionKind, DeleteDecision
from gamed.structs import Component
from gamed.timestamps import Now

AGAIN = "Look at GET /game/ again, then erase with its ETag in If-Match."


class EraseCommand(Struct, frozen=True):
    """Erase a shelf if it is as the client saw it."""

    player_id: str
    condition: Condition
    new_epoch: str
    now_ms: int


class EraseStore(Protocol):
    """StoreError."""

    def begin(self, command: EraseCommand) -> Awaitable[tuple[DeleteDecision, Cursor]]:
        """Judge, and count everything as gone; -> where the shelf stood."""

    def finish(self, player_id: str) -> Awaitable[bool]:
        """Delete the rows and bytes that are left; return whether this ended an erase that had begun."""


class EraseService(Component, frozen=True):
    """Counts as a change like any other, towards the rate too."""

    _saves: SaveService
    _store: EraseStore
    _now_ms: Now
    _random: Random
    _waits: ChangeWaiters

    async def erase(self, token: Secret, condition: Condition) -> None:
        """Nothing is left when this returns; SaveError when nothing was erased."""
        player_id = (await self._saves.authorize_write(token)).player_id
        command = EraseCommand(player_id, condition, new_epoch(self._random), self._now_ms())
        decision, cursor = await self._store.begin(command)
        if decision is DeleteDecision.DELETES:
            self._waits.changed(player_id)
        refusal = erase_error(decision, condition, cursor)
        if refusal is not None:
            raise refusal
        if await self._store.finish(player_id):
            self._waits.changed(player_id)


def decide_erase(summary: SavesSummary, condition: Condition, *, empty: bool) -> DeleteDecision:
    """Whether the whole shelf may go; `empty` when nothing is kept on it, not even a deleted slot.

    A repeated request finds its own effect and calls it success: it names a past that was erased, and nothing was
    saved since (RFC 9110 13.1.1).
    """
    if condition.kind is ConditionKind.ANYTHING:
        return DeleteDecision.UNCONDITIONAL
    if condition.allows(summary.cursor.entity_tag):
        return DeleteDecision.DELETES
    gone = summary.erasing or (empty and summary.erased_ms is not None)
    return DeleteDecision.ALREADY_DONE if gone and not condition.weak else DeleteDecision.CONFLICT


def erase_error(decision: DeleteDecision, condition: Condition, cursor: Cursor) -> SaveError | None:
    """Why nothing was erased; None when it was, now or before."""
    if decision is DeleteDecision.UNCONDITIONAL:
        return PreconditionRequired(f"This erases all your saves for good. {AGAIN}")
    if decision is not DeleteDecision.CONFLICT:
        return None
    kind: type[ConflictError] = WeakValidator if condition.weak else VersionConflict
    return kind(f"Your saves are others than you saw last, so nothing was erased. {AGAIN}", {"cursor": str(cursor)})
