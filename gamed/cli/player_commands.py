"""`gamed players`: who plays here, added, looked at and signed in from the host (PROTOCOL 3.5)."""

import json
from collections.abc import Mapping
from secrets import token_bytes
from sqlite3 import Connection

import click

from gamed.cli.arguments import TEXT, json_option, who_argument
from gamed.cli.asking import password_from, password_option
from gamed.cli.host import Host, Store
from gamed.cli.people import called, described, found, report
from gamed.cli.refusal import NotDone, ending, say, warn
from gamed.clock import now_ms
from gamed.config.model import Config, Mode
from gamed.crypto import Keys
from gamed.identity.passwords import hash_password
from gamed.login.client import Client
from gamed.players.errors import NameTaken, PlayerError
from gamed.players.names import name_index, new_player_id, parse_name
from gamed.sessions.credentials import SessionPolicy, members, mint, new_session_id
from gamed.storage.auth import accounts
from gamed.storage.auth.accounts import NamedPlayer, list_players
from gamed.storage.auth.players import Player, State, signed_in
from gamed.storage.auth.sessions import open_session, revoke_all

PROVIDER = "local"
WAITING: State = "pending"
MADE_HERE = Client.of({"name": "gamed players token"}).to_json()


@click.group()
def players() -> None:
    """Add players, look at them, say who may play."""


@players.command(short_help="[key] Add a player with a local account.")
@click.argument("name", type=TEXT)
@password_option
@json_option
@click.pass_obj
def add(host: Host, name: str, password_stdin: bool, as_json: bool) -> None:
    """Add a player with a local account. [key]

    Without --password-stdin the password is asked for on the terminal.
    """
    with ending():
        ask = password_from(stdin=password_stdin)
        try:
            chosen = parse_name(name)
        except PlayerError as e:
            raise NotDone(str(e)) from None
        store, player_id = _open(host), new_player_id(token_bytes)
        store.read(lambda connection, keys: _require_free(connection, keys, chosen))
        password = hash_password(ask())  # slow on purpose, so before the transaction

        def unit(connection: Connection, keys: Keys) -> None:
            accounts.add_local_player(
                connection, keys, player_id=player_id, name=chosen, password=password, now_ms=now_ms()
            )
            store.tell(connection, "players add", player_id)

        store.run(unit)
        report({"id": player_id, "name": chosen}, f"added {chosen} as {player_id}", as_json=as_json)


def _open(host: Host) -> Store:
    """For a command about local accounts."""
    store = host.open()
    if store.config.mode is Mode.OAUTH:
        warn("in oauth mode name and password sign nobody in; a player can only adopt the account with them")
    return store


def _require_free(connection: Connection, keys: Keys, name: str) -> None:
    if accounts.find(connection, name_index(keys.indexer, name)) is not None:
        raise NameTaken


@players.command("list", short_help="[key] Show every player.")
@click.option("--pending", is_flag=True, help="Only those who wait for approval, with their codes.")
@json_option
@click.pass_obj
def list_(host: Host, pending: bool, as_json: bool) -> None:
    """Show every player, oldest first. [key]"""
    with ending():
        store, state = host.open(), WAITING if pending else None
        chosen = store.read(lambda connection, keys: list_players(connection, keys.sealer, state))
        lines = [described(named, store.keys) for named in chosen]
        if as_json:
            say(json.dumps(lines, indent=2))
        else:
            for line in lines:
                shown = (line["id"], f"{line['state']:8}", line["name"] or "-", line.get("code", ""))
                say("  ".join(map(str, shown)).rstrip())
            if not lines:
                say("nobody waits for approval" if pending else "nobody plays here yet")


@players.command(short_help="[key] Give a local account a new password.")
@who_argument
@password_option
@json_option
@click.pass_obj
def password(host: Host, who: str, password_stdin: bool, as_json: bool) -> None:
    """Give a local account a new password, and sign it out everywhere. [key]

    Without --password-stdin the password is asked for on the terminal.
    """
    with ending():
        ask, store = password_from(stdin=password_stdin), _open(host)
        store.read(lambda connection, keys: _with_account(connection, keys, who))
        encoded = hash_password(ask())

        def unit(connection: Connection, keys: Keys) -> NamedPlayer:
            named, now = _with_account(connection, keys, who), now_ms()
            accounts.set_password(connection, named.player.player_id, encoded, now)
            revoke_all(connection, named.player.player_id, now)
            store.tell(connection, "players password", named.player.player_id)
            return named

        named = store.run(unit)
        report({"id": named.player.player_id}, f"{called(named)} has a new password", as_json=as_json)


def _with_account(connection: Connection, keys: Keys, who: str) -> NamedPlayer:
    named = found(connection, keys, who)
    if named.name is None:
        raise NotDone("This player has no local account.")
    return named


@players.command(short_help="[key] Sign in as a player.")
@who_argument
@json_option
@click.pass_obj
def token(host: Host, who: str, as_json: bool) -> None:
    """Sign in as a player, without a browser: print an access token and a refresh credential. [key]

    With --json it prints what a game's collect is answered with.
    """
    with ending():
        store = host.open()

        def unit(connection: Connection, keys: Keys) -> dict[str, object]:
            player = found(connection, keys, who).player
            answer = sign_in(connection, keys, player, store.config)
            store.tell(connection, "players token", player.player_id)
            return answer

        answer = store.run(unit)
        report(answer, _lines(answer), as_json=as_json)


def sign_in(connection: Connection, keys: Keys, player: Player, config: Config) -> dict[str, object]:
    """A session without a browser: what a collect answers with (PROTOCOL 3.5); NotDone unless the player is active."""
    if player.state != "active":
        raise NotDone(f"This player is {player.state} and cannot sign in.")
    now, times = now_ms(), config.session
    policy = SessionPolicy(times.access_seconds, times.refresh_seconds, times.max_lifetime_seconds)
    pair, session_id = mint(token_bytes, now, policy, now), new_session_id(token_bytes)
    open_session(
        connection,
        keys,
        session_id=session_id,
        player_id=player.player_id,
        provider=PROVIDER,
        client=MADE_HERE,
        login_id=None,
        pair=pair,
        now_ms=now,
    )
    signed_in(connection, player.player_id, now)
    who = {"id": player.player_id, "created": False, "owner": player.owner}
    return {"status": "complete", **members(pair, session_id, now), "provider": PROVIDER, "player": who}


def _lines(answer: Mapping[str, object]) -> str:
    shown = ("access_token", "expires_in", "refresh_credential", "refresh_expires_in", "session_id")
    return "\n".join(f"{name}: {answer[name]}" for name in shown)
