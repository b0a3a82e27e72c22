"""`gamed players`: who plays here, added, looked at and signed in from the host (PROTOCOL 3.5).

`gamed players show|find|note`: one player looked at from the host.

`gamed players`, all of it: the group, and the commands that other modules have.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from secrets import token_bytes
from sqlite3 import Connection

import click
from msgspec import Struct

from gamed.cli.context import CommandContext, KeyedDatabases, called, described, found, report
from gamed.cli.errors import CommandFailed, echo, exit_on_error, warn
from gamed.cli.moderation import approve, block, reject, unblock
from gamed.cli.output import TEXT, json_option, password_from, password_option, who_argument
from gamed.cli.removal import erase, merge
from gamed.cli.sessions import described as a_session
from gamed.cli.sessions import last_use
from gamed.clock import now_ms
from gamed.config.model import Config, Mode
from gamed.crypto import Keys
from gamed.login.transaction import ClientInfo
from gamed.players import tables as player_tables
from gamed.players.errors import NameTaken, PlayerError
from gamed.players.names import SignInMethod as Way
from gamed.players.names import name_index, new_player_id, parse_name
from gamed.players.passwords import hash_password
from gamed.players.tables import (
    NamedPlayer,
    Player,
    State,
    find_named,
    list_players,
    note_of,
    record_sign_in,
    set_note,
    sign_in_methods,
)
from gamed.providers.base import ExternalIdentity
from gamed.providers.discovery import IdentityNamespace
from gamed.sessions.credentials import SessionInfo, SessionPolicy, generate_pair, new_session_id, response_members
from gamed.sessions.tables import list_sessions, open_session, revoke_all
from gamed.timestamps import rfc3339

PROVIDER = "local"
WAITING: State = "pending"
MADE_HERE = ClientInfo.of({"name": "gamed players token"}).to_json()


@click.group()
def players() -> None:
    """Add players, look at them, say who may play."""


@players.command(short_help="[key] Add a player with a local account.")
@click.argument("name", type=TEXT)
@password_option
@json_option
@click.pass_obj
def add(host: CommandContext, name: str, password_stdin: bool, as_json: bool) -> None:
    """Add a player with a local account. [key]

    Without --password-stdin the password is asked for on the terminal.
    """
    with exit_on_error():
        ask = password_from(stdin=password_stdin)
        try:
            chosen = parse_name(name)
        except PlayerError as e:
            raise CommandFailed(str(e)) from None
        store, player_id = _open(host), new_player_id(token_bytes)
        store.read(lambda connection, keys: _require_free(connection, keys, chosen))
        password = hash_password(ask())  # slow on purpose, so before the transaction

        def unit(connection: Connection, keys: Keys) -> None:
            player_tables.add_local_player(
                connection, keys, player_id=player_id, name=chosen, password=password, now_ms=now_ms()
            )
            store.tell(connection, "players add", player_id)

        store.run(unit)
        report({"id": player_id, "name": chosen}, f"added {chosen} as {player_id}", as_json=as_json)


def _open(host: CommandContext) -> KeyedDatabases:
    """For a command about local accounts."""
    store = host.open()
    if store.config.mode is Mode.OAUTH:
        warn("in oauth mode name and password sign nobody in; a player can only adopt the account with them")
    return store


def _require_free(connection: Connection, keys: Keys, name: str) -> None:
    if player_tables.find_account(connection, name_index(keys.indexer, name)) is not None:
        raise NameTaken


@players.command("list", short_help="[key] Show every player.")
@click.option("--pending", is_flag=True, help="Only those who wait for approval, with their codes.")
@json_option
@click.pass_obj
def list_(host: CommandContext, pending: bool, as_json: bool) -> None:
    """Show every player, oldest first. [key]"""
    with exit_on_error():
        store, state = host.open(), WAITING if pending else None
        chosen = store.read(lambda connection, keys: list_players(connection, keys.sealer, state))
        lines = [described(named, store.keys) for named in chosen]
        if as_json:
            echo(json.dumps(lines, indent=2))
        else:
            for line in lines:
                shown = (line["id"], f"{line['state']:8}", line["name"] or "-", line.get("code", ""))
                echo("  ".join(map(str, shown)).rstrip())
            if not lines:
                echo("nobody waits for approval" if pending else "nobody plays here yet")


@players.command(short_help="[key] Give a local account a new password.")
@who_argument
@password_option
@json_option
@click.pass_obj
def password(host: CommandContext, who: str, password_stdin: bool, as_json: bool) -> None:
    """Give a local account a new password, and sign it out everywhere. [key]

    Without --password-stdin the password is asked for on the terminal.
    """
    with exit_on_error():
        ask, store = password_from(stdin=password_stdin), _open(host)
        store.read(lambda connection, keys: _with_account(connection, keys, who))
        encoded = hash_password(ask())

        def unit(connection: Connection, keys: Keys) -> NamedPlayer:
            named, now = _with_account(connection, keys, who), now_ms()
            player_tables.set_password(connection, named.player.player_id, encoded, now)
            revoke_all(connection, named.player.player_id, now)
            store.tell(connection, "players password", named.player.player_id)
            return named

        named = store.run(unit)
        report({"id": named.player.player_id}, f"{called(named)} has a new password", as_json=as_json)


def _with_account(connection: Connection, keys: Keys, who: str) -> NamedPlayer:
    named = found(connection, keys, who)
    if named.name is None:
        raise CommandFailed("This player has no local account.")
    return named


@players.command(short_help="[key] Sign in as a player.")
@who_argument
@json_option
@click.pass_obj
def token(host: CommandContext, who: str, as_json: bool) -> None:
    """Sign in as a player, without a browser: print an access token and a refresh credential. [key]

    With --json it prints what a game's collect is answered with.
    """
    with exit_on_error():
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
        raise CommandFailed(f"This player is {player.state} and cannot sign in.")
    now, times = now_ms(), config.session
    policy = SessionPolicy(times.access_seconds, times.refresh_seconds, times.max_lifetime_seconds)
    pair, session_id = generate_pair(token_bytes, now, policy, now), new_session_id(token_bytes)
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
    record_sign_in(connection, player.player_id, now)
    who = {"id": player.player_id, "created": False, "owner": player.owner}
    return {"status": "complete", **response_members(pair, session_id, now), "provider": PROVIDER, "player": who}


def _lines(answer: Mapping[str, object]) -> str:
    shown = ("access_token", "expires_in", "refresh_credential", "refresh_expires_in", "session_id")
    return "\n".join(f"{name}: {answer[name]}" for name in shown)


@click.command(short_help="[key] Show what is known of a player.")
@who_argument
@json_option
@click.pass_obj
def show(host: CommandContext, who: str, as_json: bool) -> None:
    """Show what is known of a player: state, note, ways to sign in, sessions. [key]"""
    with exit_on_error():
        store = host.open()
        person = store.read(lambda connection, keys: Person.of(connection, keys, find_named(connection, keys, who)))
        echo(json.dumps(person.members(store.keys), indent=2) if as_json else "\n".join(person.lines(store.keys)))


class Person(Struct, frozen=True):
    """What is known of a player."""

    named: NamedPlayer
    note: str | None
    ways: Sequence[Way]
    sessions: Sequence[SessionInfo]

    @classmethod
    def of(cls, connection: Connection, keys: Keys, named: NamedPlayer) -> "Person":
        player_id = named.player.player_id
        note = note_of(connection, keys.sealer, player_id)
        return cls(named, note, sign_in_methods(connection, player_id), list_sessions(connection, player_id, now_ms()))

    def members(self, keys: Keys) -> Mapping[str, object]:
        ways = [
            {"provider": way.provider, "linked_at": rfc3339(way.linked_ms), "last_used_at": rfc3339(way.last_used_ms)}
            for way in self.ways
        ]
        sessions = [a_session(row) for row in self.sessions]
        return {**described(self.named, keys), "note": self.note, "identities": ways, "sessions": sessions}

    def lines(self, keys: Keys) -> Iterator[str]:
        for name, value in described(self.named, keys).items():
            yield f"{name}: {_shown(value)}"
        yield f"note: {_shown(self.note)}"
        for way in self.ways:
            yield f"signs in by: {way.provider}  {rfc3339(way.last_used_ms)}"
        for row in self.sessions:
            yield f"session: {row.session_id}  {last_use(row)}"


def _shown(value: object) -> str:
    """For a person."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "-" if value is None else str(value)


@click.command(short_help="[key] Find the player of an account at a provider.")
@click.option("--provider", required=True, metavar="NAME", type=TEXT, help="As in authentication.json.")
@click.option("--subject", required=True, metavar="SUBJECT", type=TEXT, help="The account's id at that provider.")
@json_option
@click.pass_obj
def find(host: CommandContext, provider: str, subject: str, as_json: bool) -> None:
    """Find the player whom an account at a provider signs in. [key]

    Subjects are not kept in clear, so this is the only way from an account to its player: for Discord the user id.
    """
    with exit_on_error():
        store = host.open()
        if provider not in store.config.providers:
            known = ", ".join(store.config.providers) or "none: it is in local mode"
            raise CommandFailed(f"This server has no provider {provider}. It has {known}.")
        realm = IdentityNamespace.of(store.config.providers[provider])
        identity = ExternalIdentity(realm.kind, realm.namespace, subject)

        def unit(connection: Connection, keys: Keys) -> NamedPlayer:
            player_id = player_tables.identity_owner(connection, identity.index(keys.indexer))
            if player_id is None:
                raise CommandFailed(f"No player signs in with that account of {provider}.")
            return find_named(connection, keys, player_id)

        named = store.read(unit)
        report(described(named, store.keys), called(named), as_json=as_json)


@click.command(short_help="[key] Note something about a player.")
@who_argument
@click.argument("text", type=TEXT, required=False)
@click.option("--clear", is_flag=True, help="Remove the note.")
@json_option
@click.pass_obj
def note(host: CommandContext, who: str, text: str | None, clear: bool, as_json: bool) -> None:
    """Note something about a player, or show the note. [key]

    It is kept sealed; nobody but you ever sees it. A new note replaces the old one.
    """
    if clear and text is not None:
        raise click.UsageError("Give a text or --clear, not both.")
    with exit_on_error():
        store = host.open()

        def unit(connection: Connection, keys: Keys) -> str | None:
            player_id = found(connection, keys, who).player.player_id
            if text is not None or clear:
                set_note(connection, keys.sealer, player_id, text or "")
                store.tell(connection, "players note", player_id)
            return note_of(connection, keys.sealer, player_id)

        changes = text is not None or clear
        kept = store.run(unit) if changes else store.read(unit)
        report({"note": kept}, kept or "no note", as_json=as_json)


__all__ = ["players"]

for command in (show, find, note, approve, reject, block, unblock, merge, erase):
    players.add_command(command)
