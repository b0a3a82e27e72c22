"""`gamed players approve|reject|block|unblock`: who may play; in force from the next request on (PROTOCOL 3.7).

`gamed owner`: which player is the owner; only here, for no HTTP route touches it (SPEC 4.8).
"""

from collections.abc import Callable
from sqlite3 import Connection

import click

from gamed.cli.context import CommandContext, called, found, pending, report
from gamed.cli.errors import CommandFailed, exit_on_error
from gamed.cli.output import TEXT, json_option, who_argument
from gamed.crypto import Keys
from gamed.players import tables as player_tables
from gamed.players.tables import NamedPlayer, State, change_state, lift_block, remove_pending

Find = Callable[[Connection, Keys, str], NamedPlayer]


@click.command(short_help="[key] Let a newcomer in.")
@click.argument("who", metavar="CODE-NAME-or-ID", type=TEXT)
@json_option
@click.pass_obj
def approve(host: CommandContext, who: str, as_json: bool) -> None:
    """Let a newcomer in, who may sign in from now on. [key]

    The newcomer's game shows the code; `gamed players list --pending` shows it too.
    """
    _change(host, "players approve", who, pending, after="active", as_json=as_json)


@click.command(short_help="[key] Turn a newcomer away.")
@click.argument("who", metavar="CODE-NAME-or-ID", type=TEXT)
@json_option
@click.pass_obj
def reject(host: CommandContext, who: str, as_json: bool) -> None:
    """Turn a newcomer away and forget the request. [key]

    They may ask again. To keep them out, block them.
    """
    _change(host, "players reject", who, pending, after=None, as_json=as_json)


@click.command(short_help="[key] Keep a player out, at once.")
@who_argument
@json_option
@click.pass_obj
def block(host: CommandContext, who: str, as_json: bool) -> None:
    """Keep a player out from the next request on; nothing of theirs is lost. [key]"""
    _change(host, "players block", who, found, after="blocked", as_json=as_json)


@click.command(short_help="[key] Let a blocked player in again.")
@who_argument
@json_option
@click.pass_obj
def unblock(host: CommandContext, who: str, as_json: bool) -> None:
    """Let a blocked player in again, with the sessions that have not expired. [key]

    A newcomer who was blocked before being approved waits for approval again.
    """
    _change(host, "players unblock", who, _blocked, after="active", as_json=as_json)


def _blocked(connection: Connection, keys: Keys, who: str) -> NamedPlayer:
    named = found(connection, keys, who)
    if named.player.state != "blocked":
        raise CommandFailed(f"This player is {named.player.state}, not blocked.")
    return named


def _change(host: CommandContext, command: str, who: str, find: Find, *, after: State | None, as_json: bool) -> None:
    """`after` None: the newcomer is forgotten."""
    with exit_on_error():
        store = host.open()
        seen = store.read(lambda connection, keys: find(connection, keys, who))  # a code is looked for among all
        player_id, before = seen.player.player_id, seen.player.state

        def unit(connection: Connection, keys: Keys) -> tuple[NamedPlayer, str]:
            named = found(connection, keys, player_id)
            if named.player.state != before:
                raise CommandFailed(f"This player is {named.player.state} by now; nothing was changed.")
            state = _changed(connection, player_id, before, after)
            store.tell(connection, command, player_id)
            return named, state

        named, state = store.run(unit)
        report({"id": player_id, "state": state}, f"{called(named)} is {state}", as_json=as_json)


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
    """Say which player is the owner of this server.

    The game is told as player.owner. gamed itself gives the owner no more rights than anybody.
    """


@owner.command(short_help="[key] Make a player the owner.")
@who_argument
@json_option
@click.pass_obj
def claim(host: CommandContext, who: str, as_json: bool) -> None:
    """Make a player the owner. [key]

    There is one owner: reset first to give it to somebody else.
    """
    with exit_on_error():
        store = host.open()

        def unit(connection: Connection, keys: Keys) -> NamedPlayer:
            named = found(connection, keys, who)
            current = player_tables.find_owner(connection)
            if current is not None and current != named.player.player_id:
                before = called(found(connection, keys, current))
                raise CommandFailed(f"{before} is the owner; first: gamed owner reset")
            if named.player.state != "active":
                raise CommandFailed(f"This player is {named.player.state}.")
            player_tables.set_owner(connection, named.player.player_id)
            store.tell(connection, "owner claim", named.player.player_id)
            return named

        named = store.run(unit)
        report({"owner": named.player.player_id}, f"{called(named)} is the owner", as_json=as_json)


@owner.command()
@json_option
@click.pass_obj
def show(host: CommandContext, as_json: bool) -> None:
    """Show which player is the owner."""
    with exit_on_error():
        current = host.open_keyless().look(player_tables.find_owner)
        report({"owner": current}, current or "nobody", as_json=as_json)


@owner.command()
@json_option
@click.pass_obj
def reset(host: CommandContext, as_json: bool) -> None:
    """Let nobody be the owner."""
    with exit_on_error():
        files = host.open_keyless()

        def unit(connection: Connection) -> str:
            current = player_tables.find_owner(connection)
            if current is None:
                raise CommandFailed("Nobody is the owner.")
            player_tables.clear_owner(connection, current)
            files.tell(connection, "owner reset", current)
            return current

        report({"owner": None, "before": files.auth(unit)}, "nobody is the owner now", as_json=as_json)
