"""`gamed passkeys` lists and removes passkeys and recovery codes.

See docs/owners/players.md: A lost device, a stolen session.
"""

import click

from gamed.cli.completing import complete_players
from gamed.cli.context import CommandContext, get_player, reports_json
from gamed.cli.output import WHO, counted, table, utf8
from gamed.clock import now_ms
from gamed.config.model import Mode
from gamed.crypto import Keys
from gamed.database.connection import Connection
from gamed.passkeys import recovery_tables, tables, ways_tables
from gamed.passkeys.model import Passkey
from gamed.players.model import NamedPlayer
from gamed.players.names import SignInMethods
from gamed.players.tables import list_players, sign_in_methods
from gamed.providers.discovery import namespace_indexes
from gamed.readable import ago
from gamed.timestamps import rfc3339

NO_OTHER_WAY = (
    "This player has no other way to sign in now. Let them sign in as a new player, then run: gamed players merge"
)
HEADINGS = ("PASSKEY", "PLAYER", "NAME", "HOST", "LAST USED")
CODE_HEADINGS = ("RECOVERY CODES LEFT", "PLAYER", "NAME")


@click.group()
def passkeys() -> None:
    """Show who has passkeys and recovery codes, and remove those of a player."""


@passkeys.command("list", short_help="[key] Show passkeys and how many recovery codes are left.")
@click.argument("who", metavar=f"[{WHO}]", type=utf8, required=False, shell_complete=complete_players)
@reports_json
def list_(context: CommandContext, who: str | None) -> None:
    """Show the passkeys of a player, or of everybody, and how many recovery codes are left. [key]"""

    def transaction(
        connection: Connection, keys: Keys
    ) -> tuple[list[tuple[NamedPlayer, Passkey]], list[tuple[NamedPlayer, int]]]:
        chosen = list_players(connection, keys.sealer) if who is None else [get_player(connection, keys, who)]
        found = [(each, row) for each in chosen for row in tables.list_of(connection, keys, each.player.player_id)]
        return found, [(each, ways_tables.count_codes(connection, each.player.player_id)) for each in chosen]

    listed, codes = context.open().read(transaction)
    members = [
        {
            "player": each.player.player_id,
            "name": row.name,
            "host": row.rp_id,
            "created_at": rfc3339(row.created_ms),
            "last_used_at": None if row.last_used_ms is None else rfc3339(row.last_used_ms),
            "synced": row.synced,
            "backed_up": row.backed_up,
        }
        for each, row in listed
    ]
    rows = [
        (
            row.name,
            each.player.player_id,
            each.name or "",
            row.rp_id,
            "never" if row.last_used_ms is None else ago(row.last_used_ms, now_ms()),
        )
        for each, row in listed
    ]
    shown = [(each, count) for each, count in codes if count or who is not None]  # a named player may have used all
    left = [{"player": each.player.player_id, "left": count} for each, count in shown]
    lines = table(HEADINGS, rows) or ["no passkeys"]
    counts = [(str(count), each.player.player_id, each.name or "") for each, count in shown]
    if counts:
        lines += ["", *table(CODE_HEADINGS, counts)]
    context.report({"passkeys": members, "recovery_codes": left}, lines, indent=2, paged=True)


@passkeys.command(short_help="[key] Remove all passkeys and recovery codes of a player.")
@click.argument("who", metavar=WHO, type=utf8, shell_complete=complete_players)
@reports_json
def reset(context: CommandContext, who: str) -> None:
    """Remove all passkeys and recovery codes of a player, and end the sessions that they opened. [key]

    A new password leaves both as they are: run this, too, if somebody else used the account.
    """
    store = context.open()

    def transaction(connection: Connection, keys: Keys) -> tuple[str, int, int, int, bool]:
        player_id = get_player(connection, keys, who).player.player_id
        removed, ended = tables.reset(connection, player_id, now_ms())
        ended += len(recovery_tables.end_sessions(connection, player_id, now_ms()))
        codes = ways_tables.delete_codes(connection, player_id)
        store.record(connection, "passkeys reset", player_id)
        providers = namespace_indexes(keys.indexer, store.config.providers.values())
        enabled = SignInMethods(store.config.mode is Mode.LOCAL, providers)
        others = any(enabled.is_enabled(each) for each in sign_in_methods(connection, player_id))
        return player_id, removed, codes, ended, others

    player_id, removed, codes, ended, others = store.write(transaction)
    gone = f"{counted(removed, 'passkey')} and {counted(codes, 'recovery code')}"
    lines = [f"{gone} of {store.names_of([player_id])[player_id]} removed, {counted(ended, 'session')} ended"]
    if not others:
        lines.append(NO_OTHER_WAY)
    done = {"player": player_id, "removed": removed, "recovery_codes": codes, "revoked": ended}
    context.report(done, lines)
