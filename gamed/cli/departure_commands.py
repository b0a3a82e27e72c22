"""`gamed players merge` gives one player's data to another; `gamed players erase` deletes it (PROTOCOL 3.8)."""

from collections.abc import Coroutine
from sqlite3 import Connection
from typing import Any, TypeVar

import click

from gamed.cli.arguments import TEXT, json_option, who_argument
from gamed.cli.asking import confirm, yes_option
from gamed.cli.host import Host, Store
from gamed.cli.host_shelves import HostShelves
from gamed.cli.people import called, found, report
from gamed.cli.refusal import NotDone, ending
from gamed.clock import now_ms
from gamed.crypto import Keys
from gamed.players.departures import Departure, Departures
from gamed.players.errors import PlayerUnknown
from gamed.storage.auth import departures
from gamed.storage.auth.accounts import NamedPlayer
from gamed.storage.auth.departures import Attached
from gamed.storage.state import handing_over
from gamed.structs import Part

T = TypeVar("T")


class HostRecords(Part, frozen=True):
    """gamed.players.departures.Records beside the service."""

    _store: Store

    async def mark(self, player_id: str, now_ms: int) -> bool:
        def unit(connection: Connection) -> bool:
            self._store.tell(connection, "players erase", player_id)
            return departures.mark(connection, player_id, now_ms)

        return self._store.auth(unit)

    async def unfinished(self) -> list[Departure]:
        return self._store.look(departures.unfinished)

    async def forget(self, departure: Departure) -> bool:
        return self._store.auth(lambda connection: departures.forget(connection, departure))


@click.command(short_help="[key] Merge a player into another.")
@click.argument("old", metavar="OLD", type=TEXT)
@click.option(
    "--into", "new", required=True, metavar="NEW", type=TEXT, help="The player who keeps existing, by name or id."
)
@json_option
@click.pass_obj
def merge(host: Host, old: str, new: str, as_json: bool) -> None:
    """Give all saves and sign-in methods of the player OLD to the player NEW, then delete OLD. [key]

    OLD may be an id that only state.db knows, as after a new auth.db. Where both have a save in one slot, NEW's stays
    current and OLD's becomes a conflict copy.
    """
    with ending():
        store = host.open()
        leaving = departures_of(store)
        at_once(leaving.resume())
        merged, old_id, heir = store.run(lambda connection, keys: _merge(store, connection, keys, old, new))
        at_once(leaving.resume())
        done = {"from": old_id, "to": heir.player.player_id, "moved": merged.moved, "left": merged.left}
        gone = f"; its account of {', '.join(merged.left)} signs nobody in any more" if merged.left else ""
        report(done, f"{called(heir)} has what {old_id} had{gone}", as_json=as_json)


def _merge(store: Store, connection: Connection, keys: Keys, old: str, new: str) -> tuple[Attached, str, NamedPlayer]:
    heir = found(connection, keys, new)
    try:
        old_id = found(connection, keys, old).player.player_id
    except PlayerUnknown:
        old_id = old
        if not store.look_at_state(lambda state: handing_over.slots_of(state, old)):
            raise NotDone(f"Neither auth.db nor state.db knows a player {old!r}.") from None
    heir_id = heir.player.player_id
    if old_id == heir_id:
        raise NotDone("OLD and NEW are the same player. Name two different players.")
    if heir.player.state == "pending":
        raise NotDone("This player waits for approval; first: gamed players approve")
    store.tell(connection, "players merge", heir_id)
    return departures.attach(connection, keys, old_id, heir_id, now_ms()), old_id, heir


@click.command(short_help="[key] Erase a player and everything of theirs.")
@who_argument
@yes_option
@json_option
@click.pass_obj
def erase(host: Host, who: str, yes: bool, as_json: bool) -> None:
    """Erase a player: saves, ways to sign in, sessions. It cannot be undone. [key]"""
    with ending():
        store = host.open()
        named = store.read(lambda connection, keys: found(connection, keys, who))
        confirm(f"Erase {called(named)} with all saves?", yes=yes)
        at_once(departures_of(store).erase(named.player.player_id))
        report({"erased": named.player.player_id}, f"{called(named)} is erased", as_json=as_json)


def departures_of(store: Store) -> Departures:
    return Departures(HostRecords(store), HostShelves(store), now_ms)


def at_once(work: Coroutine[Any, Any, T]) -> T:
    """The result of work whose every step is done when it returns: nothing here waits."""
    try:
        work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    raise RuntimeError("a command's step waits for something")
