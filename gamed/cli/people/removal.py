"""`gamed players merge` gives one player's data to another; `gamed players erase` deletes it.

See docs/owners/players.md: Erasing.
"""

from collections.abc import Coroutine
from functools import partial
from secrets import token_bytes
from typing import Any, TypeVar

import click

from gamed.account import store as player_store
from gamed.account.service import Removal, RemovalService
from gamed.account.store import MergeResult
from gamed.cli.completing import complete_players
from gamed.cli.context import CommandContext, KeyedDatabases, OfflineDatabases, display_name, get_player, reports_json
from gamed.cli.errors import CommandFailed
from gamed.cli.output import confirm, utf8, who_argument, yes_option
from gamed.clock import now_ms
from gamed.crypto import Keys
from gamed.database import blob_rows
from gamed.database.connection import AUTH, STATE, Connection
from gamed.passkeys.limits import MAX_PASSKEYS
from gamed.players.errors import PlayerUnknown
from gamed.players.model import NamedPlayer
from gamed.saves import erase_store
from gamed.saves.erase_store import MergeStep
from gamed.saves.merge_store import Merge
from gamed.saves.model import new_epoch
from gamed.sessions.credentials import PASSKEY
from gamed.structs import Component


class CommandSaveRemoval(Component, frozen=True, kw_only=True):
    """An implementation of gamed.account.service.SaveRemoval in small transactions.

    If the command is interrupted, the service finishes the work.
    """

    files: OfflineDatabases

    async def check_writable(self) -> None:
        self.files.write_state(lambda connection: None)

    async def erase(self, player_id: str, now_ms: int) -> None:
        epoch = new_epoch(token_bytes)
        self.files.write_state(lambda connection: erase_store.begin_erase(connection, player_id, epoch, now_ms))
        self.finish(player_id)

    async def merge(self, player_id: str, heir_id: str, now_ms: int) -> None:
        order = Merge(player_id, heir_id, (new_epoch(token_bytes), new_epoch(token_bytes)), now_ms)
        transaction = partial(erase_store.merge_saves, merge=order)
        while (step := self.files.write_state(transaction)) is not MergeStep.DONE:
            if step is MergeStep.HEIR_ERASING:
                self.finish(heir_id)
        self.finish(player_id)

    def clear_logs(self) -> None:
        """Leave that to the service, which does it when it logs this command; without one SQLite deletes the logs."""

    def finish(self, player_id: str) -> None:
        """Finish an erase that was started: delete the rows, then the blobs."""
        epoch = new_epoch(token_bytes)
        while self.files.write_state(lambda connection: erase_store.erase_step(connection, player_id, epoch, now_ms)):
            pass
        while (
            blob_id := self.files.write_state(lambda connection: erase_store.unreferenced(connection, player_id))
        ) is not None:
            while self.files.write_state(partial(blob_rows.delete_parts, blob_id=blob_id)):
                pass


T = TypeVar("T")


class CommandPlayerRecords(Component, frozen=True, kw_only=True):
    """An implementation of gamed.account.service.PlayerRecords for commands."""

    store: KeyedDatabases

    async def mark(self, player_id: str, now_ms: int) -> bool:
        def transaction(connection: Connection) -> bool:
            self.store.record(connection, "players erase", player_id)
            return player_store.mark_removed(connection, player_id, now_ms)

        return self.store.write_auth(transaction)

    async def unfinished(self) -> list[Removal]:
        return self.store.read_auth(player_store.unfinished_removals)

    async def delete_rows(self, removal: Removal) -> bool:
        return self.store.write_auth(lambda connection: player_store.delete_player_rows(connection, removal))


@click.command(short_help="[key] Merge a player into another.")
@click.argument("old", metavar="OLD", type=utf8, shell_complete=complete_players)
@click.option(
    "--into",
    "new",
    required=True,
    metavar="NEW",
    type=utf8,
    shell_complete=complete_players,
    help="The player who keeps existing, by name or id.",
)
@reports_json
def merge(context: CommandContext, old: str, new: str) -> None:
    """Give all saves and sign-in methods of the player OLD to the player NEW, then delete OLD. [key]

    OLD may be an id that only saves have, as after the accounts were lost. Where both have a save in one slot, NEW's
    stays current and OLD's becomes a conflict copy.
    """
    store = context.open()
    removals = removal_service(store)
    run_inline(removals.resume())
    merged, old_id, target = store.write(lambda connection, keys: _merge(store, connection, keys, old, new))
    run_inline(removals.resume())
    done = {"from": old_id, "to": target.player.player_id, "moved": merged.moved, "left": merged.left}
    accounts = [each for each in merged.left if each != PASSKEY]
    lost = f"; its account of {', '.join(accounts)} can no longer sign in" if accounts else ""
    if PASSKEY in merged.left:
        lost += f"; some of its passkeys can no longer sign in: a player has {MAX_PASSKEYS} at most"
    context.report(done, f"{display_name(target)} now has everything that {old_id} had{lost}")


def _merge(
    store: KeyedDatabases, connection: Connection, keys: Keys, old: str, new: str
) -> tuple[MergeResult, str, NamedPlayer]:
    target = get_player(connection, keys, new)
    try:
        old_id = get_player(connection, keys, old).player.player_id
    except PlayerUnknown:
        old_id = old
        if not store.read_state(lambda state: erase_store.slots_of(state, old)):
            names = " nor ".join(store.store.name(each) for each in (AUTH, STATE))
            raise CommandFailed(f"Neither {names} has a player {old!r}.") from None
    target_id = target.player.player_id
    player_store.require_mergeable(old_id, target.player)
    store.record(connection, "players merge", target_id)
    return player_store.merge_players(connection, keys, old_id, target_id, now_ms()), old_id, target


@click.command(short_help="[key] Erase a player with all data.")
@who_argument
@yes_option
@reports_json
def erase(context: CommandContext, who: str, yes: bool) -> None:
    """Erase a player: saves, sign-in methods, sessions. It cannot be undone. [key]"""
    store = context.open()
    named = store.read(lambda connection, keys: get_player(connection, keys, who))
    confirm(f"Erase {display_name(named)} with all saves?", yes=yes)
    run_inline(removal_service(store).erase(named.player.player_id))
    context.report({"erased": named.player.player_id}, f"{display_name(named)} is erased")


def removal_service(store: KeyedDatabases) -> RemovalService:
    return RemovalService(
        records=CommandPlayerRecords(store=store), saves=CommandSaveRemoval(files=store), now_ms=now_ms
    )


def run_inline(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine of which no step waits; return its result."""
    try:
        work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    raise RuntimeError("a step of this command waits")
