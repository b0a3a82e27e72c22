"""`gamed players`: who plays here, added, looked at and signed in from the host (PROTOCOL 3.5)."""

import json
import sys
from collections.abc import Mapping
from secrets import token_bytes
from sqlite3 import Connection

import click

from gamed.cli.host import Host
from gamed.cli.opening import now_ms
from gamed.cli.people import WHO, called, described, found, json_option, report
from gamed.cli.refusal import NotDone, ending, say
from gamed.config.model import Config
from gamed.crypto import Keys, Secret
from gamed.identity.passwords import hash_password
from gamed.login.client import Client
from gamed.players.errors import PlayerError
from gamed.players.names import new_player_id, parse_name, parse_password
from gamed.sessions.credentials import SessionPolicy, members, mint, new_session_id
from gamed.storage.auth.accounts import NamedPlayer, add_local_player, find_named, list_players, set_password
from gamed.storage.auth.players import signed_in
from gamed.storage.auth.sessions import open_session, revoke_all

PROVIDER = "local"
MADE_HERE = Client.of({"name": "gamed players token"}).to_json()


def _text(_context: click.Context, _parameter: click.Parameter, given: str) -> str:
    """Bytes that are no UTF-8 come from a shell as lone surrogates, which no store takes."""
    try:
        given.encode()
    except UnicodeEncodeError:
        raise click.BadParameter("this is not UTF-8.") from None
    return given


@click.group()
def players() -> None:
    """Add players, look at them, say who may play."""


@players.command(short_help="[key] Add a player with a local account.")
@click.argument("name", callback=_text)
@click.option("--password-stdin", is_flag=True, help="Read the password from standard input, one line.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
@click.pass_obj
def add(host: Host, name: str, password_stdin: bool, as_json: bool) -> None:
    """Add a player with a local account. [key]

    Without --password-stdin the password is asked for on the terminal.
    """
    with ending():
        try:
            chosen = parse_name(name)
        except PlayerError as e:
            raise NotDone(str(e)) from None
        player_id = _add(host, chosen, _chosen_password(password_stdin))
        say(json.dumps({"id": player_id, "name": chosen}) if as_json else f"added {chosen} as {player_id}")


def _add(host: Host, name: str, chosen: Secret) -> str:
    store, player_id = host.open(), new_player_id(token_bytes)
    encoded = hash_password(chosen)  # slow on purpose, so before the transaction

    def unit(connection: Connection, keys: Keys) -> None:
        add_local_player(connection, keys, player_id=player_id, name=name, password=encoded, now_ms=now_ms())
        store.tell(connection, "players add", player_id)

    store.run(unit)
    return player_id


def _chosen_password(from_stdin: bool) -> Secret:
    try:
        return parse_password(_password(from_stdin))
    except PlayerError as e:
        raise NotDone(str(e)) from None


def _password(from_stdin: bool) -> str:
    if sys.stdin is None:  # closed by who started this
        raise click.UsageError("Standard input is closed; give the password there.")
    if from_stdin:
        line, *more = sys.stdin.read(4096).removesuffix("\n").removesuffix("\r").split("\n")
        if more:
            raise NotDone("The password is one line.")
        return line
    if not sys.stdin.isatty():
        raise click.UsageError("Standard input is no terminal; give the password there with --password-stdin.")
    return str(click.prompt("Password", hide_input=True, confirmation_prompt=True))


@players.command("list", short_help="[key] Show every player.")
@click.option("--pending", is_flag=True, help="Only those who wait for approval, with their codes.")
@json_option
@click.pass_obj
def list_(host: Host, pending: bool, as_json: bool) -> None:
    """Show every player, oldest first. [key]"""
    with ending():
        store = host.open()
        everybody = store.read(lambda connection, keys: list_players(connection, keys.sealer))
        lines = [described(named, store.keys) for named in everybody if not pending or named.player.state == "pending"]
        if as_json:
            say(json.dumps(lines, indent=2))
        for line in [] if as_json else lines:
            say("  ".join([str(line["id"]), f"{line['state']:8}", str(line["name"] or "-"), str(line.get("code", ""))]))


@players.command(short_help="[key] Give a local account a new password.")
@click.argument("who", metavar=WHO)
@click.option("--password-stdin", is_flag=True, help="Read the password from standard input, one line.")
@json_option
@click.pass_obj
def password(host: Host, who: str, password_stdin: bool, as_json: bool) -> None:
    """Give a local account a new password, and sign it out everywhere. [key]

    Without --password-stdin the password is asked for on the terminal.
    """
    with ending():
        encoded = hash_password(_chosen_password(password_stdin))
        store = host.open()

        def unit(connection: Connection, keys: Keys) -> NamedPlayer:
            named = found(connection, keys, who)
            if named.name is None:
                raise NotDone("This player has no local account.")
            set_password(connection, named.player.player_id, encoded)
            revoke_all(connection, named.player.player_id, now_ms())
            store.tell(connection, "players password", named.player.player_id)
            return named

        named = store.run(unit)
        report({"id": named.player.player_id}, f"{called(named)} has a new password", as_json=as_json)


@players.command(short_help="[key] Sign in as a player.")
@click.argument("name_or_id", metavar="NAME-or-ID", callback=_text)
@click.option("--json", "as_json", is_flag=True, help="Print what a game client's collect is answered with.")
@click.pass_obj
def token(host: Host, name_or_id: str, as_json: bool) -> None:
    """Sign in as a player, without a browser: print an access token and a refresh credential. [key]"""
    with ending():
        store = host.open()

        def unit(connection: Connection, keys: Keys) -> dict[str, object]:
            answer = _sign_in(connection, keys, name_or_id, store.config)
            store.tell(connection, "players token", find_named(connection, keys, name_or_id).player.player_id)
            return answer

        answer = store.run(unit)
        say(json.dumps(answer) if as_json else _lines(answer))


def _sign_in(connection: Connection, keys: Keys, name_or_id: str, config: Config) -> dict[str, object]:
    player, now = find_named(connection, keys, name_or_id).player, now_ms()
    if player.state != "active":
        raise NotDone(f"This player is {player.state} and cannot sign in.")
    times = config.session
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
