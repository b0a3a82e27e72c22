"""`gamed events` shows the security events that auth.db keeps (docs/owners/monitoring.md)."""

from functools import partial

import click

from gamed.cli.completing import complete_players
from gamed.cli.context import CommandContext, reports_json
from gamed.cli.output import WHO, duration_seconds, table, utf8
from gamed.clock import now_ms
from gamed.database.event_counts import EventCount
from gamed.database.security_events import list_events
from gamed.event_log import format_value
from gamed.readable import ago
from gamed.timestamps import rfc3339

HEADINGS = ("LAST", "TIMES", "EVENT", "PLAYER", "DETAILS")


@click.command(short_help="Show what happened: sign-ins, refusals, commands.")
@click.option(
    "--since", type=duration_seconds, default="7d", show_default=True, metavar="DURATION", help="How far to look back."
)
@click.option(
    "--player",
    metavar=WHO,
    type=utf8,
    shell_complete=complete_players,
    help="Only the events of one player; a name needs the key.",
)
@reports_json
def events(context: CommandContext, since: int, player: str | None) -> None:
    """Show security events, the latest first: sign-ins, refusals, sign-outs, commands of operators.

    The server keeps them for 90 days. Equal events of one hour are one line, with their number; refused sign-ins of a
    player, those of one day. A running server writes new events after a few seconds.
    """
    files, player_id = (context.open_for_names(), None) if player is None else context.open_for(player)
    now = now_ms()
    found = files.read_auth(partial(list_events, since_ms=max(0, now - since * 1000), player_id=player_id))
    names = {} if context.as_json else files.names_of({each.key.player_id for each in found} - {""})
    lines = table(HEADINGS, (_row(each, names.get(each.key.player_id, ""), now) for each in found))
    context.report([_members(each) for each in found], lines or "no events in that time", indent=2, paged=True)


def _members(each: EventCount) -> dict[str, object]:
    return {
        "event": each.key.event,
        "player": each.key.player_id or None,
        "values": each.values,
        "times": each.times,
        "first_at": rfc3339(each.first_ms),
        "last_at": rfc3339(each.last_ms),
    }


def _row(each: EventCount, player: str, now: int) -> tuple[str, ...]:
    details = " ".join(f"{name}={format_value(value)}" for name, value in each.values.items())
    return ago(each.last_ms, now), str(each.times), each.key.event, player, details
