"""This module erases all saves of a player with their history (PROTOCOL 4); the player then has a new epoch."""

from collections.abc import Awaitable
from typing import Protocol

from msgspec import Struct

from gamed.crypto import Secret
from gamed.saves.errors import ConflictError, PreconditionRequired, SaveError, VersionConflict, WeakValidator
from gamed.saves.model import Cursor, SavesSummary, new_epoch
from gamed.saves.service import SaveEnvironment, SaveService
from gamed.saves.write_rules import Condition, ConditionKind, DeleteDecision
from gamed.structs import Component

_HELP = "Look at GET /game/ again, then erase with its ETag in If-Match."


class EraseCommand(Struct, frozen=True):
    """A request to erase a player's saves if the condition holds for their cursor."""

    player_id: str
    condition: Condition
    new_epoch: str
    now_ms: int


class EraseStore(Protocol):
    """The store of erases; its methods raise DatabaseError."""

    def begin(self, command: EraseCommand) -> Awaitable[tuple[DeleteDecision, Cursor]]:
        """Decide on the erase and mark it as begun; return the decision and the cursor before it."""

    def finish(self, player_id: str) -> Awaitable[bool]:
        """Delete the rows and bytes that are left; return whether this ended an erase that had begun."""


class EraseService(Component, frozen=True):
    """The erases of all players; each counts as one change towards the player's rate."""

    _saves: SaveService
    _store: EraseStore
    _environment: SaveEnvironment

    async def erase(self, token: Secret, condition: Condition) -> None:
        """Erase everything before this returns; raise SaveError if nothing was erased."""
        environment = self._environment
        player_id = (await self._saves.authorize_write(token)).player_id
        command = EraseCommand(player_id, condition, new_epoch(environment.random), environment.now_ms())
        decision, cursor = await self._store.begin(command)
        if decision is DeleteDecision.DELETES:
            environment.waiters.notify(player_id)
        error = erase_error(decision, condition, cursor)
        if error is not None:
            raise error
        if await self._store.finish(player_id):
            environment.waiters.notify(player_id)


def decide_erase(summary: SavesSummary, condition: Condition, *, empty: bool) -> DeleteDecision:
    """Decide whether all saves may be erased; `empty` means that the player has no versions, not even of deleted slots.

    A repeated request succeeds if it names an epoch that was erased and nothing was saved since (RFC 9110 13.1.1).
    """
    if condition.kind is ConditionKind.ANYTHING:
        return DeleteDecision.UNCONDITIONAL
    if condition.allows(summary.cursor.entity_tag):
        return DeleteDecision.DELETES
    erased = summary.erasing or (empty and summary.erased_ms is not None)
    return DeleteDecision.ALREADY_DONE if erased and not condition.weak else DeleteDecision.CONFLICT


def erase_error(decision: DeleteDecision, condition: Condition, cursor: Cursor) -> SaveError | None:
    """Return the error of a rejected erase; None if it succeeded now or before."""
    if decision is DeleteDecision.UNCONDITIONAL:
        return PreconditionRequired(f"This erases all your saves for good. {_HELP}")
    if decision is not DeleteDecision.CONFLICT:
        return None
    kind: type[ConflictError] = WeakValidator if condition.weak else VersionConflict
    return kind(f"Your saves are others than you saw last, so nothing was erased. {_HELP}", {"cursor": str(cursor)})
