"""Shelves that go, beside the service: erased, or handed over (PROTOCOL 3.8, 4).

`gamed players merge` gives one player's data to another; `gamed players erase` deletes it (PROTOCOL 3.8).
"""

from collections.abc import Coroutine
from functools import partial
from secrets import token_bytes
from sqlite3 import Connection
from typing import Any, TypeVar

import click

from gamed.cli.context import CommandContext, KeyedDatabases, OfflineDatabases, called, found, report
from gamed.cli.errors import CommandFailed, exit_on_error
from gamed.cli.output import TEXT, confirm, json_option, who_argument, yes_option
from gamed.clock import now_ms
from gamed.crypto import Keys
from gamed.database import blobs
from gamed.players import store as player_store
from gamed.players.errors import PlayerUnknown
from gamed.players.service import Removal, RemovalService
from gamed.players.store import MergeResult
from gamed.players.tables import NamedPlayer
from gamed.saves import erase_store
from gamed.saves.model import new_epoch
from gamed.structs import Component


class CommandSaveRemoval(Component, frozen=True):
    """gamed.players.service.SaveRemoval in small steps; what is broken off is finished by the service."""

    _files: OfflineDatabases

    async def check_writable(self) -> None:
        self._files.state(lambda connection: None)

    async def erase(self, player_id: str, now_ms: int) -> None:
        epoch = new_epoch(token_bytes)
        self._files.state(lambda connection: erase_store.begin_erase(connection, player_id, epoch, now_ms))
        self.finish(player_id)

    async def merge(self, player_id: str, heir_id: str, now_ms: int) -> None:
        epochs = new_epoch(token_bytes), new_epoch(token_bytes)

        def unit(connection: Connection) -> bool:
            return erase_store.merge_saves(connection, player_id, heir_id, epochs, now_ms)

        while not self._files.state(unit):
            self.finish(heir_id)
        self.finish(player_id)

    def finish(self, player_id: str) -> None:
        """Of an erase that has begun: rows, then the bytes they had."""
        epoch = new_epoch(token_bytes)
        while self._files.state(lambda connection: erase_store.erase_step(connection, player_id, epoch)):
            pass
        while (
            blob_id := self._files.state(lambda connection: erase_store.unreferenced(connection, player_id))
        ) is not None:
            while self._files.state(partial(blobs.delete_parts, blob_id=blob_id)):
                pass


T = TypeVar("T")


class HostRecords(Component, frozen=True):
    """gamed.players.service.PlayerRecords beside the service."""

    _store: KeyedDatabases

    async def mark(self, player_id: str, now_ms: int) -> bool:
        def unit(connection: Connection) -> bool:
            self._store.tell(connection, "players erase", player_id)
            return player_store.mark_removed(connection, player_id, now_ms)

        return self._store.auth(unit)

    async def unfinished(self) -> list[Removal]:
        return self._store.look(player_store.unfinished_removals)

    async def delete_rows(self, removal: Removal) -> bool:
        return self._store.auth(lambda connection: player_store.delete_player_rows(connection, removal))


@click.command(short_help="[key] Merge a player into another.")
@click.argument("old", metavar="OLD", type=TEXT)
@click.option(
    "--into", "new", required=True, metavar="NEW", type=TEXT, help="The player who keeps existing, by name or id."
)
@json_option
@click.pass_obj
def merge(host: CommandContext, old: str, new: str, as_json: bool) -> None:
    """Give all saves and sign-in methods of the player OLD to the player NEW, then delete OLD. [key]

    OLD may be an id that only state.db knows, as after a new auth.db. Where both have a save in one slot, NEW's stays
    current and OLD's becomes a conflict copy.
    """
    with exit_on_error():
        store = host.open()
        leaving = departures_of(store)
        at_once(leaving.resume())
        merged, old_id, heir = store.run(lambda connection, keys: _merge(store, connection, keys, old, new))
        at_once(leaving.resume())
        done = {"from": old_id, "to": heir.player.player_id, "moved": merged.moved, "left": merged.left}
        gone = f"; its account of {', '.join(merged.left)} signs nobody in any more" if merged.left else ""
        report(done, f"{called(heir)} has what {old_id} had{gone}", as_json=as_json)


def _merge(
    store: KeyedDatabases, connection: Connection, keys: Keys, old: str, new: str
) -> tuple[MergeResult, str, NamedPlayer]:
    heir = found(connection, keys, new)
    try:
        old_id = found(connection, keys, old).player.player_id
    except PlayerUnknown:
        old_id = old
        if not store.look_at_state(lambda state: erase_store.slots_of(state, old)):
            raise CommandFailed(f"Neither auth.db nor state.db knows a player {old!r}.") from None
    heir_id = heir.player.player_id
    if old_id == heir_id:
        raise CommandFailed("OLD and NEW are the same player. Name two different players.")
    if heir.player.state == "pending":
        raise CommandFailed("This player waits for approval; first: gamed players approve")
    store.tell(connection, "players merge", heir_id)
    return player_store.merge_players(connection, keys, old_id, heir_id, now_ms()), old_id, heir


@click.command(short_help="[key] Erase a player and everything of theirs.")
@who_argument
@yes_option
@json_option
@click.pass_obj
def erase(host: CommandContext, who: str, yes: bool, as_json: bool) -> None:
    """Erase a player: saves, ways to sign in, sessions. It cannot be undone. [key]"""
    with exit_on_error():
        store = host.open()
        named = store.read(lambda connection, keys: found(connection, keys, who))
        confirm(f"Erase {called(named)} with all saves?", yes=yes)
        at_once(departures_of(store).erase(named.player.player_id))
        report({"erased": named.player.player_id}, f"{called(named)} is erased", as_json=as_json)


def departures_of(store: KeyedDatabases) -> RemovalService:
    return RemovalService(HostRecords(store), CommandSaveRemoval(store), now_ms)


def at_once(work: Coroutine[Any, Any, T]) -> T:
    """The result of work whose every step is done when it returns: nothing here waits."""
    try:
        work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    raise RuntimeError("a command's step waits for something")
