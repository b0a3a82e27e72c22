"""`gamed players approve|reject|block|unblock` decide who may play, from the next request on.

`gamed owner` sets which player is the owner; no HTTP route can (SPEC 4/18).

See docs/owners/players.md: Blocking a player.
"""

from collections.abc import Callable

import click

from gamed.cli.completing import complete_players
from gamed.cli.context import CommandContext, display_name, get_pending_player, get_player, reports_json
from gamed.cli.errors import CommandFailed
from gamed.cli.output import utf8, who_argument
from gamed.crypto import Keys
from gamed.database.connection import Connection
from gamed.players import tables as player_tables
from gamed.players.tables import NamedPlayer, State, change_state, lift_block, remove_pending

Find = Callable[[Connection, Keys, str], NamedPlayer]


@click.command(short_help="[key] Approve a new player.")
@click.argument("who", metavar="CODE-NAME-or-ID", type=utf8, shell_complete=complete_players)
@reports_json
def approve(context: CommandContext, who: str) -> None:
    """Approve a player who waits for approval, and who may sign in from now on. [key]

    The player's game shows the code; `gamed players list --pending` shows it too.
    """
    _change(context, "players approve", who, get_pending_player, after="active")


@click.command(short_help="[key] Reject a new player.")
@click.argument("who", metavar="CODE-NAME-or-ID", type=utf8, shell_complete=complete_players)
@reports_json
def reject(context: CommandContext, who: str) -> None:
    """Reject a player who waits for approval, and delete the request. [key]

    The player may ask again. Block a player to prevent that.
    """
    _change(context, "players reject", who, get_pending_player, after=None)


@click.command(short_help="[key] Block a player.")
@who_argument
@reports_json
def block(context: CommandContext, who: str) -> None:
    """Block a player from the next request on; the player's data stays. [key]"""
    _change(context, "players block", who, get_player, after="blocked")


@click.command(short_help="[key] Unblock a player.")
@who_argument
@reports_json
def unblock(context: CommandContext, who: str) -> None:
    """Unblock a player; sessions that have not expired are valid again. [key]

    A player who was blocked before being approved waits for approval again.
    """
    _change(context, "players unblock", who, _blocked, after="active")


def _blocked(connection: Connection, keys: Keys, who: str) -> NamedPlayer:
    named = get_player(connection, keys, who)
    if named.player.state != "blocked":
        raise CommandFailed(f"This player is {named.player.state}, not blocked.")
    return named


def _change(context: CommandContext, command: str, who: str, find: Find, *, after: State | None) -> None:
    """Change the state of a player to `after`; with None delete the request of a player who waits for approval."""
    store = context.open()
    # Finding a code reads all players: too long for a write transaction.
    known = store.read(lambda connection, keys: find(connection, keys, who))
    player_id, before = known.player.player_id, known.player.state

    def transaction(connection: Connection, keys: Keys) -> tuple[NamedPlayer, str]:
        named = get_player(connection, keys, player_id)
        if named.player.state != before:
            raise CommandFailed(f"This player is {named.player.state} by now. Nothing was changed.")
        state = _changed(connection, player_id, before, after)
        store.record(connection, command, player_id)
        return named, state

    named, state = store.write(transaction)
    context.report({"id": player_id, "state": state}, f"{display_name(named)} is {state}")


def _changed(connection: Connection, player_id: str, before: State, after: State | None) -> str:
    """Change the state of a player and return what to call the new one."""
    if after is None:
        remove_pending(connection, player_id)
        return "forgotten"
    if before == "blocked" and after == "active":
        return lift_block(connection, player_id) or before
    change_state(connection, player_id, before, after)
    return after


@click.group()
def owner() -> None:
    """Choose which player is the owner of this server.

    The game finds this in player.owner. gamed itself gives the owner no more rights than any other player.
    """


@owner.command(short_help="[key] Make a player the owner.")
@who_argument
@reports_json
def claim(context: CommandContext, who: str) -> None:
    """Make a player the owner. [key]

    There is one owner: reset first to choose another player.
    """
    store = context.open()

    def transaction(connection: Connection, keys: Keys) -> NamedPlayer:
        named = get_player(connection, keys, who)
        current = player_tables.find_owner(connection)
        if current is not None and current != named.player.player_id:
            before = display_name(get_player(connection, keys, current))
            raise CommandFailed(f"{before} is the owner. Run first: gamed owner reset")
        if named.player.state != "active":
            raise CommandFailed(f"This player is {named.player.state}, not active.")
        player_tables.set_owner(connection, named.player.player_id)
        store.record(connection, "owner claim", named.player.player_id)
        return named

    named = store.write(transaction)
    context.report({"owner": named.player.player_id}, f"{display_name(named)} is the owner")


@owner.command()
@reports_json
def show(context: CommandContext) -> None:
    """Show which player is the owner."""
    files = context.open_keyless() if context.as_json else context.open_for_names()
    current = files.read_auth(player_tables.find_owner)
    context.report({"owner": current}, files.names_of([current])[current] if current else "no owner")


@owner.command()
@reports_json
def reset(context: CommandContext) -> None:
    """Leave the server without an owner."""
    files = context.open_keyless()

    def transaction(connection: Connection) -> str:
        current = player_tables.find_owner(connection)
        if current is None:
            raise CommandFailed("There is no owner.")
        player_tables.clear_owner(connection, current)
        files.record(connection, "owner reset", current)
        return current

    context.report({"owner": None, "before": files.write_auth(transaction)}, "there is no owner now")
