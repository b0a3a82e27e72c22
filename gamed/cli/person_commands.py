"""`gamed players show|find|note`: one player looked at from the host."""

import json
from sqlite3 import Connection

import click

from gamed.cli.host import Host
from gamed.cli.opening import now_ms
from gamed.cli.people import WHO, called, described, found, json_option, report
from gamed.cli.refusal import NotDone, ending, say
from gamed.cli.session_commands import described as a_session
from gamed.crypto import Keys
from gamed.identity.provider import Identity
from gamed.identity.realm import Realm
from gamed.instants import rfc3339
from gamed.storage.auth import identities
from gamed.storage.auth.accounts import NamedPlayer, find_named
from gamed.storage.auth.players import note_of, set_note
from gamed.storage.auth.sessions import list_sessions
from gamed.storage.auth.unlinking import listed


@click.command(short_help="[key] Show what is known of a player.")
@click.argument("who", metavar=WHO)
@json_option
@click.pass_obj
def show(host: Host, who: str, as_json: bool) -> None:
    """Show what is known of a player: state, note, ways to sign in, sessions. [key]"""
    with ending():
        shown = host.open().read(lambda connection, keys: _shown(connection, keys, find_named(connection, keys, who)))
        say(json.dumps(shown, indent=2) if as_json else "\n".join(f"{name}: {shown[name]}" for name in shown))


def _shown(connection: Connection, keys: Keys, named: NamedPlayer) -> dict[str, object]:
    player_id = named.player.player_id
    ways = [
        {"provider": way.provider, "linked_at": rfc3339(way.linked_ms), "last_used_at": rfc3339(way.last_used_ms)}
        for way in listed(connection, player_id)
    ]
    open_sessions = [a_session(row) for row in list_sessions(connection, player_id, now_ms())]
    note_text = note_of(connection, keys.sealer, player_id)
    return {**described(named, keys), "note": note_text, "identities": ways, "sessions": open_sessions}


@click.command(short_help="[key] Find the player of an account at a provider.")
@click.option("--provider", required=True, metavar="NAME", help="As in authentication.json.")
@click.option("--subject", required=True, metavar="SUBJECT", help="The account's id at that provider.")
@json_option
@click.pass_obj
def find(host: Host, provider: str, subject: str, as_json: bool) -> None:
    """Find the player whom an account at a provider signs in. [key]

    Subjects are not kept in clear, so this is the only way from an account to its player: for Discord the user id.
    """
    with ending():
        store = host.open()
        if provider not in store.config.providers:
            raise NotDone(f"There is no provider {provider} in authentication.json (in oauth mode).")
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
@click.argument("who", metavar=WHO)
@click.argument("text", required=False)
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
