"""The erase of all saves of a player with their history (docs/protocol.md: Saves); the player then has a new epoch."""

from gamed.crypto import Secret
from gamed.saves.commands import EraseCommand
from gamed.saves.erase_store import EraseStore
from gamed.saves.errors import ConflictError, PreconditionRequired, SaveError, VersionConflict, WeakValidator
from gamed.saves.model import Cursor, new_epoch
from gamed.saves.service import SaveEnvironment, SaveService
from gamed.saves.write_rules import Condition, DeleteDecision
from gamed.structs import Component

_HELP = "Look at GET /game/ again, then erase with its ETag in If-Match."


class EraseService(Component, frozen=True, kw_only=True):
    """The erases of all players; each counts as one change towards the player's rate."""

    saves: SaveService
    store: EraseStore
    environment: SaveEnvironment

    async def erase(self, token: Secret, condition: Condition) -> None:
        """Erase everything before this returns; raise SaveError if nothing was erased.

        Raise AccountReauthenticationRequired in a session that a recovery code opened. Other sessions need no recent
        sign-in: the protocol's first version did not ask for one.
        """
        player_id = (await self.saves.authorize_write(token, erases=True)).player_id
        # Until the erase has ended each write reads the epoch at its beginning: the epoch shows, without a clock, that
        # the write began before the end.
        with self.saves.sessions.recent.without(player_id):
            await self._erase(player_id, condition)

    async def _erase(self, player_id: str, condition: Condition) -> None:
        environment = self.environment
        command = EraseCommand(player_id, condition, new_epoch(environment.random), environment.now_ms())
        decision, cursor = await self.store.begin(command)
        if decision is DeleteDecision.DELETES:
            # Before the rows are deleted, which may take seconds: the saves count as erased now.
            environment.waiters.notify(player_id)
        error = erase_error(decision, condition, cursor)
        if error is not None:
            raise error
        # Also for a repeated request: the one before may have been stopped half-way.
        if await self.store.finish(player_id):
            environment.waiters.notify(player_id)


def erase_error(decision: DeleteDecision, condition: Condition, cursor: Cursor) -> SaveError | None:
    """Return the error of a rejected erase; None if it succeeded now or before."""
    if decision is DeleteDecision.UNCONDITIONAL:
        return PreconditionRequired(f"This erases all your saves for good. {_HELP}")
    if decision is not DeleteDecision.CONFLICT:
        return None
    kind: type[ConflictError] = WeakValidator if condition.weak else VersionConflict
    return kind(f"Your saves are others than you saw last, so nothing was erased. {_HELP}", {"cursor": str(cursor)})
