"""`gamed owner`: which player is the owner; only here, for no HTTP route touches it (SPEC 4.8)."""

from sqlite3 import Connection

import click

from gamed.cli.arguments import json_option, who_argument
from gamed.cli.host import Host
from gamed.cli.people import called, found, report
from gamed.cli.refusal import NotDone, ending
from gamed.crypto import Keys
from gamed.storage.auth import owners
from gamed.storage.auth.accounts import NamedPlayer


@click.group()
def owner() -> None:
    """Say which player is the owner of this server.

    The game is told as player.owner. gamed itself gives the owner no more rights than anybody.
    """


@owner.command(short_help="[key] Make a player the owner.")
@who_argument
@json_option
@click.pass_obj
def claim(host: Host, who: str, as_json: bool) -> None:
    """Make a player the owner. [key]

    There is one owner: reset first to give it to somebody else.
    """
    with ending():
        store = host.open()

        def unit(connection: Connection, keys: Keys) -> NamedPlayer:
            named = found(connection, keys, who)
            current = owners.find(connection)
            if current is not None and current != named.player.player_id:
                before = called(found(connection, keys, current))
                raise NotDone(f"{before} is the owner; first: gamed owner reset")
            if named.player.state != "active":
                raise NotDone(f"This player is {named.player.state}.")
            owners.give(connection, named.player.player_id)
            store.tell(connection, "owner claim", named.player.player_id)
            return named

        named = store.run(unit)
        report({"owner": named.player.player_id}, f"{called(named)} is the owner", as_json=as_json)


@owner.command()
@json_option
@click.pass_obj
def show(host: Host, as_json: bool) -> None:
    """Show which player is the owner."""
    with ending():
        current = host.open_keyless().look(owners.find)
        report({"owner": current}, current or "nobody", as_json=as_json)


@owner.command()
@json_option
@click.pass_obj
def reset(host: Host, as_json: bool) -> None:
    """Let nobody be the owner."""
    with ending():
        files = host.open_keyless()

        def unit(connection: Connection) -> str:
            current = owners.find(connection)
            if current is None:
                raise NotDone("Nobody is the owner.")
            owners.drop(connection, current)
            files.tell(connection, "owner reset", current)
            return current

        report({"owner": None, "before": files.auth(unit)}, "nobody is the owner now", as_json=as_json)
