"""`gamed sessions` lists and revokes sessions (docs/owners/players.md: A lost device, a stolen session)."""

import json
from collections.abc import Mapping

import click

from gamed.cli.completing import complete_players
from gamed.cli.context import CommandContext, get_player, reports_json
from gamed.cli.errors import CommandFailed
from gamed.cli.output import WHO, counted, table, utf8
from gamed.clock import now_ms
from gamed.crypto import Keys
from gamed.database.connection import Connection
from gamed.players.model import NamedPlayer
from gamed.players.tables import list_players
from gamed.readable import ago
from gamed.sessions import tables as session_tables
from gamed.sessions.credentials import SessionInfo
from gamed.timestamps import rfc3339

SESSION_ID = "ses_"
HEADINGS = ("SESSION", "PLAYER", "NAME", "LAST USED", "DEVICE")


@click.group()
def sessions() -> None:
    """Show who is signed in, and sign players out."""


@sessions.command("list", short_help="[key] Show who is signed in.")
@click.argument("who", metavar=f"[{WHO}]", type=utf8, required=False, shell_complete=complete_players)
@reports_json
def list_(context: CommandContext, who: str | None) -> None:
    """Show the sessions of a player, or of everybody. [key]"""

    def transaction(connection: Connection, keys: Keys) -> list[tuple[NamedPlayer, SessionInfo]]:
        chosen = list_players(connection, keys.sealer) if who is None else [get_player(connection, keys, who)]
        return [
            (named, row)
            for named in chosen
            for row in session_tables.list_sessions(connection, named.player.player_id, now_ms())
        ]

    listed = context.open().read(transaction)
    members = [{"player": each.player.player_id, "name": each.name, **session_members(row)} for each, row in listed]
    rows = [
        (row.session_id, each.player.player_id, each.name or "", ago(row.last_used_ms, now_ms()), device(row))
        for each, row in listed
    ]
    context.report(members, table(HEADINGS, rows) or "no sessions", indent=2, paged=True)


@sessions.command(short_help="[key] Sign a player out, everywhere or on one device.")
@click.argument("who", metavar=f"{WHO}-or-SESSION", type=utf8, shell_complete=complete_players)
@reports_json
def revoke(context: CommandContext, who: str) -> None:
    """Sign a player out on every device, or end one session by its id; from the next request on. [key]"""
    store = context.open()

    def transaction(connection: Connection, keys: Keys) -> tuple[str, int]:
        if who.startswith(SESSION_ID):
            player_id, ended = session_tables.revoke(connection, who, now_ms()), 1
            if player_id is None:
                raise CommandFailed("There is no such session, or it has ended. See: gamed sessions list")
        else:
            player_id = get_player(connection, keys, who).player.player_id
            ended = session_tables.revoke_all(connection, player_id, now_ms())
        store.record(connection, "sessions revoke", player_id)
        return player_id, ended

    player_id, ended = store.write(transaction)
    context.report(
        {"player": player_id, "revoked": ended},
        f"{counted(ended, 'session')} of {store.names_of([player_id])[player_id]} ended",
    )


def session_members(row: SessionInfo) -> Mapping[str, object]:
    return {
        "session_id": row.session_id,
        "created_at": rfc3339(row.created_ms),
        "last_used_at": rfc3339(row.last_used_ms),
        "expires_at": rfc3339(row.expires_ms),
        "provider": row.provider,
        "client": json.loads(row.client),
    }


def device(row: SessionInfo) -> str:
    """Return the names that the device gave itself; the server removed control characters from them."""
    return " ".join(json.loads(row.client).values())
