"""`gamed players show|find|note`: one player looked at from the host."""

import json
from collections.abc import Iterator, Mapping, Sequence
from sqlite3 import Connection

import click
from msgspec import Struct

from gamed.cli.arguments import TEXT, json_option, who_argument
from gamed.cli.host import Host
from gamed.cli.people import called, described, found, report
from gamed.cli.refusal import NotDone, ending, say
from gamed.cli.session_commands import described as a_session
from gamed.cli.session_commands import last_use
from gamed.clock import now_ms
from gamed.crypto import Keys
from gamed.identity.provider import Identity
from gamed.identity.realm import Realm
from gamed.instants import rfc3339
from gamed.players.identities import Identity as Way
from gamed.sessions.session import SessionRow
from gamed.storage.auth import identities
from gamed.storage.auth.accounts import NamedPlayer, find_named
from gamed.storage.auth.players import note_of, set_note
from gamed.storage.auth.sessions import list_sessions
from gamed.storage.auth.unlinking import listed


@click.command(short_help="[key] Show what is known of a player.")
@who_argument
@json_option
@click.pass_obj
def show(host: Host, who: str, as_json: bool) -> None:
    """Show what is known of a player: state, note, ways to sign in, sessions. [key]"""
    with ending():
        store = host.open()
        person = store.read(lambda connection, keys: Person.of(connection, keys, find_named(connection, keys, who)))
        say(json.dumps(person.members(store.keys), indent=2) if as_json else "\n".join(person.lines(store.keys)))


class Person(Struct, frozen=True):
    """What is known of a player."""

    named: NamedPlayer
    note: str | None
    ways: Sequence[Way]
    sessions: Sequence[SessionRow]

    @classmethod
    def of(cls, connection: Connection, keys: Keys, named: NamedPlayer) -> "Person":
        player_id = named.player.player_id
        note = note_of(connection, keys.sealer, player_id)
        return cls(named, note, listed(connection, player_id), list_sessions(connection, player_id, now_ms()))

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
def find(host: Host, provider: str, subject: str, as_json: bool) -> None:
    """Find the player whom an account at a provider signs in. [key]

    Subjects are not kept in clear, so this is the only way from an account to its player: for Discord the user id.
    """
    with ending():
        store = host.open()
        if provider not in store.config.providers:
            known = ", ".join(store.config.providers) or "none: it is in local mode"
            raise NotDone(f"This server has no provider {provider}. It has {known}.")
        realm = Realm.of(store.config.providers[provider])
        identity = Identity(realm.kind, realm.namespace, subject)

        def unit(connection: Connection, keys: Keys) -> NamedPlayer:
            player_id = identities.owner(connection, identity.index(keys.indexer))
            if player_id is None:
                raise NotDone(f"No player signs in with that account of {provider}.")
            return find_named(connection, keys, player_id)

        named = store.read(unit)
        report(described(named, store.keys), called(named), as_json=as_json)


@click.command(short_help="[key] Note something about a player.")
@who_argument
@click.argument("text", type=TEXT, required=False)
@click.option("--clear", is_flag=True, help="Remove the note.")
@json_option
@click.pass_obj
def note(host: Host, who: str, text: str | None, clear: bool, as_json: bool) -> None:
    """Note something about a player, or show the note. [key]

    It is kept sealed; nobody but you ever sees it. A new note replaces the old one.
    """
    if clear and text is not None:
        raise click.UsageError("Give a text or --clear, not both.")
    with ending():
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
