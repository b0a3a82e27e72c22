"""`gamed players` adds, lists, shows and signs in players; other modules define its other commands.

See docs/protocol.md: Collect.
"""

from collections.abc import Sequence
from secrets import token_bytes

import click

from gamed.account.store import replace_password
from gamed.audit import SecurityEvent
from gamed.cli.context import (
    CommandContext,
    KeyedDatabases,
    display_name,
    get_account,
    get_player,
    player_members,
    reports_json,
)
from gamed.cli.errors import CommandFailed, warn
from gamed.cli.output import counted, password_option, password_reader, table, utf8, who_argument
from gamed.cli.people.links import invite, list_invites, reset_link, revoke_invite
from gamed.cli.people.moderation import approve, block, reject, unblock
from gamed.cli.people.removal import erase, merge
from gamed.cli.people.sessions import device, session_members
from gamed.clock import now_ms
from gamed.config.model import Config, Mode
from gamed.crypto import Keys, Secret
from gamed.database.connection import Connection
from gamed.database.event_counts import EventCount, EventKey
from gamed.database.security_events import write_events
from gamed.login.transaction import ClientInfo
from gamed.players import tables as player_tables
from gamed.players.errors import NameTaken, PlayerError
from gamed.players.model import NamedPlayer, Player, State
from gamed.players.names import name_index, new_player_id, parse_name
from gamed.players.tables import find_named, list_players, note_of, record_sign_in, set_note, sign_in_methods
from gamed.providers.discovery import identity_of
from gamed.readable import ago
from gamed.sessions.credentials import SessionPolicy, generate_pair, new_session_id, response_members
from gamed.sessions.tables import last_uses, list_sessions, open_session
from gamed.timestamps import rfc3339

PROVIDER = "local"
STATES: Sequence[State] = ("active", "pending", "blocked", "erasing")
HEADINGS = ("PLAYER", "NAME", "SHOWN AS", "STATE", "LAST SEEN", "CODE")
CLIENT_INFO = ClientInfo.of({"name": "gamed players token"}).to_json()


_ELSEWHERE = [approve, reject, block, unblock, merge, erase, invite, list_invites, revoke_invite, reset_link]


@click.group(commands=_ELSEWHERE)
def players() -> None:
    """Add players, show them, and decide who may play."""


@players.command(short_help="[key] Add a player with a local account.")
@click.argument("name", type=utf8)
@password_option
@reports_json
def add(context: CommandContext, name: str, password_stdin: bool) -> None:
    """Add a player with a local account. [key]

    Without --password-stdin the terminal prompts for the password.
    """
    read_password = password_reader(stdin=password_stdin)
    try:
        chosen = parse_name(name)
    except PlayerError as e:
        raise CommandFailed(str(e)) from None
    store, player_id = _open(context), new_player_id(token_bytes)
    store.read(lambda connection, keys: _require_free(connection, keys, chosen))
    password = _hash_password(read_password())  # slow on purpose, so before the transaction

    def transaction(connection: Connection, keys: Keys) -> None:
        player_tables.add_local_player(
            connection, keys, player_id=player_id, name=chosen, password=password, now_ms=now_ms()
        )
        store.record(connection, "players add", player_id)

    store.write(transaction)
    context.report({"id": player_id, "name": chosen}, f"added {chosen}")


def _open(context: CommandContext) -> KeyedDatabases:
    """Open the databases for a command about local accounts; warn in oauth mode."""
    store = context.open()
    if store.config.mode is Mode.OAUTH:
        warn("in oauth mode a name and password do not sign in; a player can only adopt the account with them")
    return store


def _require_free(connection: Connection, keys: Keys, name: str) -> None:
    if player_tables.find_account(connection, name_index(keys.indexer, name)) is not None:
        raise NameTaken


@players.command("list", short_help="[key] Show every player.")
@click.option("--pending", is_flag=True, help="The same as --state pending.")
@click.option("--state", type=click.Choice(STATES), help="Only players in this state; pending ones have a code.")
@click.option("--find", "wanted", metavar="TEXT", type=utf8, help="Only players with this in a name or the id.")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Only the newest N of them.")
@reports_json
def list_(context: CommandContext, pending: bool, state: State | None, wanted: str | None, limit: int | None) -> None:
    """Show every player, oldest first, or those that the options choose. [key]"""
    if pending and state not in (None, "pending"):
        raise click.UsageError("Give --pending or --state, not both.")
    store, now = context.open(), now_ms()
    state = "pending" if pending else state

    def transaction(connection: Connection, keys: Keys) -> list[tuple[NamedPlayer, int | None]]:
        used = last_uses(connection)
        chosen = [each for each in list_players(connection, keys.sealer, state) if _matches(each, wanted)]
        return [(named, _last_seen(named.player, used.get(named.player.player_id))) for named in chosen]

    matching = store.read(transaction)
    listed = matching if limit is None else matching[-limit:]
    found = [
        {**player_members(named, store.keys), "last_seen_at": None if seen is None else rfc3339(seen)}
        for named, seen in listed
    ]
    rows = [
        (
            named.player.player_id,
            named.name or "",
            named.display_name or "",
            named.player.state,
            "never" if seen is None else ago(seen, now),
            str(each.get("code", "")),
        )
        for each, (named, seen) in zip(found, listed, strict=True)
    ]
    nothing = "no players yet" if wanted is None and state is None else "no such players"
    lines = [*table(HEADINGS, rows), _totals([named.player.state for named, _ in matching], len(listed))]
    none = "no player waits for approval" if state == "pending" and wanted is None else nothing
    context.report(found, lines if rows else none, indent=2, paged=True)


def _matches(named: NamedPlayer, wanted: str | None) -> bool:
    texts = (named.name, named.display_name, named.player.player_id)
    return wanted is None or any(wanted.casefold() in text.casefold() for text in texts if text)


def _totals(states: Sequence[str], shown: int) -> str:
    """Return the number of players, as `12 players: 11 active, 1 pending`."""
    parts = [f"{states.count(state)} {state}" for state in STATES if state in states]
    rest = "" if shown == len(states) else f"; the newest {shown} are shown"
    return f"{counted(len(states), 'player')}: {', '.join(parts)}{rest}"


def _last_seen(player: Player, used_ms: int | None) -> int | None:
    """Return the later of a player's last sign-in and last refresh, None if there is neither."""
    return max((each for each in (player.last_sign_in_ms, used_ms) if each is not None), default=None)


@players.command(short_help="[key] Give a local account a new password.")
@who_argument
@password_option
@reports_json
def password(context: CommandContext, who: str, password_stdin: bool) -> None:
    """Give a local account a new password, and sign it out everywhere. [key]

    Without --password-stdin the terminal prompts for the password.
    """
    read_password, store = password_reader(stdin=password_stdin), _open(context)
    store.read(lambda connection, keys: get_account(connection, keys, who))
    encoded = _hash_password(read_password())

    def transaction(connection: Connection, keys: Keys) -> NamedPlayer:
        named, now = get_account(connection, keys, who), now_ms()
        replace_password(connection, named.player.player_id, encoded, now)
        store.record(connection, "players password", named.player.player_id)
        return named

    named = store.write(transaction)
    context.report({"id": named.player.player_id}, f"{display_name(named)} has a new password")


@players.command(short_help="[key] Sign in as a player.")
@who_argument
@reports_json
def token(context: CommandContext, who: str) -> None:
    """Sign in as a player, without a browser: print an access token and a refresh credential. [key]

    With --json it prints the response that a game's collect request gets.
    """
    store = context.open()

    def transaction(connection: Connection, keys: Keys) -> dict[str, object]:
        player = get_player(connection, keys, who).player
        answer = sign_in(connection, keys, player, store.config)
        store.record(connection, "players token", player.player_id)
        return answer

    answer = store.write(transaction)
    shown = ("access_token", "expires_in", "refresh_credential", "refresh_expires_in", "session_id")
    context.report(answer, [f"{name}: {answer[name]}" for name in shown])


def sign_in(connection: Connection, keys: Keys, player: Player, config: Config) -> dict[str, object]:
    """Create a session without a browser; return the members of a collect response (docs/protocol.md: Collect).

    Raise CommandFailed unless the player is active.
    """
    if player.state != "active":
        raise CommandFailed(f"This player is {player.state} and cannot sign in.")
    now, times = now_ms(), config.session
    policy = SessionPolicy(times.access_seconds, times.refresh_seconds, times.max_lifetime_seconds)
    pair, session_id = generate_pair(token_bytes, now, policy, now), new_session_id(token_bytes)
    ended = open_session(
        connection,
        keys,
        session_id=session_id,
        player_id=player.player_id,
        provider=PROVIDER,
        client=CLIENT_INFO,
        login_id=None,
        pair=pair,
        now_ms=now,
    )
    limit = EventKey.of(SecurityEvent.SESSION_LIMIT_REACHED, {"player": player.player_id}, now)
    write_events(connection, [EventCount(limit, now, now, 1) for _ in ended], now)
    record_sign_in(connection, player.player_id, now)
    name = player_tables.display_name_of(connection, keys.sealer, player.player_id)
    shown = {"id": player.player_id, "created": False, "owner": player.owner, "name": name}
    return {"status": "complete", **response_members(pair, session_id, now), "provider": PROVIDER, "player": shown}


@players.command(short_help="[key] Show a player's state, note and sessions.")
@who_argument
@reports_json
def show(context: CommandContext, who: str) -> None:
    """Show a player: state, note, sign-in methods, sessions. [key]"""
    store = context.open()
    context.report(*store.read(lambda connection, keys: _details(connection, keys, who)), indent=2)


def _details(connection: Connection, keys: Keys, who: str) -> tuple[dict[str, object], list[str]]:
    """Return the JSON members of a player with note, sign-in methods and sessions, and the lines for a person."""
    named = find_named(connection, keys, who)
    player_id = named.player.player_id
    members = {**player_members(named, keys), "note": note_of(connection, keys.sealer, player_id)}
    methods = sign_in_methods(connection, player_id)
    now = now_ms()
    sessions = list_sessions(connection, player_id, now)
    ways = [f"signs in with: {method.provider}  {ago(method.last_used_ms, now)}" for method in methods]
    lines = [
        *(f"{name}: {_shown(value)}" for name, value in members.items()),
        *ways,
        *(
            f"session: {session.session_id}  {ago(session.last_used_ms, now)}  {device(session) or '-'}"
            for session in sessions
        ),
    ]
    identities = [
        {"provider": each.provider, "linked_at": rfc3339(each.linked_ms), "last_used_at": rfc3339(each.last_used_ms)}
        for each in methods
    ]
    return {**members, "identities": identities, "sessions": [session_members(each) for each in sessions]}, lines


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "-" if value is None else str(value)


@players.command(short_help="[key] Find the player of an account at a provider.")
@click.option("--provider", required=True, metavar="NAME", type=utf8, help="Its name in authentication.json.")
@click.option("--subject", required=True, metavar="SUBJECT", type=utf8, help="The account's id at that provider.")
@reports_json
def find(context: CommandContext, provider: str, subject: str) -> None:
    """Find the player who signs in with an account at a provider. [key]

    Subjects are stored as hashes, so only this command finds the player of an account. For Discord the subject is the
    user id.
    """
    store = context.open()
    if provider not in store.config.providers:
        known = ", ".join(store.config.providers) or "none, in local mode"
        raise CommandFailed(f"This server has no provider {provider}. It has: {known}.")
    identity = identity_of(store.config.providers[provider], subject)

    def transaction(connection: Connection, keys: Keys) -> NamedPlayer:
        player_id = player_tables.identity_owner(connection, identity.index(keys.indexer))
        if player_id is None:
            raise CommandFailed(f"No player signs in with that account of {provider}.")
        return find_named(connection, keys, player_id)

    named = store.read(transaction)
    context.report(player_members(named, store.keys), display_name(named))


@players.command(short_help="[key] Write or show a note about a player.")
@who_argument
@click.argument("text", type=utf8, required=False)
@click.option("--clear", is_flag=True, help="Remove the note.")
@reports_json
def note(context: CommandContext, who: str, text: str | None, clear: bool) -> None:
    """Write a note about a player, or show the note. [key]

    The note is stored encrypted, and only these commands show it. A new note replaces the old one.
    """
    if clear and text is not None:
        raise click.UsageError("Give a text or --clear, not both.")
    store = context.open()

    def transaction(connection: Connection, keys: Keys) -> str | None:
        player_id = get_player(connection, keys, who).player.player_id
        if text is not None or clear:
            set_note(connection, keys.sealer, player_id, text or "")
            store.record(connection, "players note", player_id)
        return note_of(connection, keys.sealer, player_id)

    changes = text is not None or clear
    stored = store.write(transaction) if changes else store.read(transaction)
    context.report({"note": stored}, stored or "no note")


def _hash_password(password: Secret) -> str:
    from gamed.players.passwords import hash_password  # late: other commands need neither argon2 nor Twisted

    return hash_password(password)
