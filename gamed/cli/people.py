"""How commands find a player and what they print of one."""

import json
import sys
from collections.abc import Mapping
from sqlite3 import Connection

import click

from gamed.cli.refusal import NotDone, say
from gamed.crypto import Keys
from gamed.instants import rfc3339
from gamed.players.approval import approval_code, same_code
from gamed.storage.auth.accounts import NamedPlayer, find_named, list_players

WHO = "NAME-or-ID"
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts.")


def found(connection: Connection, keys: Keys, who: str) -> NamedPlayer:
    """By id or local name; NotDone for a player who is being erased."""
    named = find_named(connection, keys, who)
    if named.player.state == "erasing":
        raise NotDone("This player is being erased.")
    return named


def pending(connection: Connection, keys: Keys, who: str) -> NamedPlayer:
    """By the code that the player's page shows, by id or by local name; NotDone for one who does not wait."""
    waiting = [named for named in list_players(connection, keys.sealer) if named.player.state == "pending"]
    by_code = [named for named in waiting if same_code(approval_code(keys.indexer, named.player.player_id), who)]
    if len(by_code) > 1:
        raise NotDone("Two newcomers have this code; give the id: gamed players list --pending")
    named = by_code[0] if by_code else found(connection, keys, who)
    if named.player.state != "pending":
        raise NotDone(f"This player is {named.player.state} and does not wait for you.")
    return named


def described(named: NamedPlayer, keys: Keys) -> dict[str, object]:
    """A player in JSON."""
    player, last = named.player, named.player.last_sign_in_ms
    waiting = player.state == "pending"
    return {
        "id": player.player_id,
        "name": named.name,
        "state": player.state,
        "owner": player.owner,
        "created_at": rfc3339(player.created_ms),
        "last_sign_in_at": None if last is None else rfc3339(last),
        **({"code": approval_code(keys.indexer, player.player_id)} if waiting else {}),
    }


def report(done: Mapping[str, object], text: str, *, as_json: bool) -> None:
    """What a command did, for a script or for a person."""
    say(json.dumps(done) if as_json else text)


def confirm(question: str, *, yes: bool) -> None:
    """Ask before an erase, unless `yes` was said already; NotDone for no."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError("Standard input is no terminal; say --yes to erase without being asked.")
    if not click.confirm(f"{question} This cannot be undone."):
        raise NotDone("Nothing was erased.")


def called(named: NamedPlayer) -> str:
    """What a person calls them."""
    return f"{named.name} ({named.player.player_id})" if named.name else named.player.player_id
