"""`gamed players approve|reject|block|unblock`: who may play; in force from the next request on (PROTOCOL 3.7)."""

from collections.abc import Callable
from sqlite3 import Connection

import click

from gamed.cli.arguments import TEXT, json_option, who_argument
from gamed.cli.host import Host
from gamed.cli.people import called, found, pending, report
from gamed.cli.refusal import NotDone, ending
from gamed.crypto import Keys
from gamed.storage.auth.accounts import NamedPlayer
from gamed.storage.auth.players import State, change_state, remove_pending, unblocked

Find = Callable[[Connection, Keys, str], NamedPlayer]


@click.command(short_help="[key] Let a newcomer in.")
@click.argument("who", metavar="CODE-NAME-or-ID", type=TEXT)
@json_option
@click.pass_obj
def approve(host: Host, who: str, as_json: bool) -> None:
    """Let a newcomer in, who may sign in from now on. [key]

    The newcomer's game shows the code; `gamed players list --pending` shows it too.
    """
    _change(host, "players approve", who, pending, after="active", as_json=as_json)


@click.command(short_help="[key] Turn a newcomer away.")
@click.argument("who", metavar="CODE-NAME-or-ID", type=TEXT)
@json_option
@click.pass_obj
def reject(host: Host, who: str, as_json: bool) -> None:
    """Turn a newcomer away and forget the request. [key]

    They may ask again. To keep them out, block them.
    """
    _change(host, "players reject", who, pending, after=None, as_json=as_json)


@click.command(short_help="[key] Keep a player out, at once.")
@who_argument
@json_option
@click.pass_obj
def block(host: Host, who: str, as_json: bool) -> None:
    """Keep a player out from the next request on; nothing of theirs is lost. [key]"""
    _change(host, "players block", who, found, after="blocked", as_json=as_json)


@click.command(short_help="[key] Let a blocked player in again.")
@who_argument
@json_option
@click.pass_obj
def unblock(host: Host, who: str, as_json: bool) -> None:
    """Let a blocked player in again, with the sessions that have not expired. [key]

    A newcomer who was blocked before being approved waits for approval again.
    """
    _change(host, "players unblock", who, _blocked, after="active", as_json=as_json)


def _blocked(connection: Connection, keys: Keys, who: str) -> NamedPlayer:
    named = found(connection, keys, who)
    if named.player.state != "blocked":
        raise NotDone(f"This player is {named.player.state}, not blocked.")
    return named


def _change(host: Host, command: str, who: str, find: Find, *, after: State | None, as_json: bool) -> None:
    """`after` None: the newcomer is forgotten."""
    with ending():
        store = host.open()
        seen = store.read(lambda connection, keys: find(connection, keys, who))  # a code is looked for among all
        player_id, before = seen.player.player_id, seen.player.state

        def unit(connection: Connection, keys: Keys) -> tuple[NamedPlayer, str]:
            named = found(connection, keys, player_id)
            if named.player.state != before:
                raise NotDone(f"This player is {named.player.state} by now; nothing was changed.")
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
        return unblocked(connection, player_id) or before
    change_state(connection, player_id, before, after)
    return after
