"""`gamed players approve|reject|block|unblock` decide who may play, from the next request on.

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
from gamed.players.model import NamedPlayer, State
from gamed.players.tables import moderate

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
        state = moderate(connection, player_id, before, after)
        store.record(connection, command, player_id)
        return named, state

    named, state = store.write(transaction)
    context.report({"id": player_id, "state": state}, f"{display_name(named)} is {state}")
