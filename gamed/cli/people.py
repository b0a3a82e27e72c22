"""How commands find a player and what they print of one."""

import json
from collections.abc import Mapping
from sqlite3 import Connection

from gamed.cli.refusal import NotDone, say
from gamed.crypto import Keys
from gamed.instants import rfc3339
from gamed.players.approval import approval_code, same_code
from gamed.players.errors import PlayerUnknown
from gamed.storage.auth.accounts import NamedPlayer, find_named, list_players


def found(connection: Connection, keys: Keys, who: str) -> NamedPlayer:
    """By id or local name; NotDone for a player who is being erased."""
    named = find_named(connection, keys, who)
    if named.player.state == "erasing":
        raise NotDone("This player is being erased.")
    return named


def pending(connection: Connection, keys: Keys, who: str) -> NamedPlayer:
    """By the code that the player's page shows, by id or by local name; NotDone for one who does not wait."""
    waiting = list_players(connection, keys.sealer, "pending")
    by_code = [named for named in waiting if same_code(approval_code(keys.indexer, named.player.player_id), who)]
    if len(by_code) > 1:
        raise NotDone("Two newcomers have this code; give the id: gamed players list --pending")
    try:
        named = by_code[0] if by_code else found(connection, keys, who)
    except PlayerUnknown:
        raise NotDone(f"Nobody waits with the code, name or id {who!r}; see: gamed players list --pending") from None
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


def called(named: NamedPlayer) -> str:
    """What a person calls them."""
    return f"{named.name} ({named.player.player_id})" if named.name else named.player.player_id
