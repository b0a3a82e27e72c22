"""`gamed assets` publishes releases and sets, rolls back and deletes channels.

See docs/owners/assets.md: Move channels.
"""

import click

from gamed.assets import channel_store
from gamed.assets.channel_store import ChannelUpdate
from gamed.cli.completing import complete_releases
from gamed.cli.context import CommandContext, reports_json
from gamed.cli.files.context import Assets, asset_errors, channel_argument, release_id
from gamed.cli.files.maintenance import gc, list_, verify
from gamed.cli.files.publish import publish
from gamed.cli.output import confirm, yes_option
from gamed.clock import now_ms

DELETED = (
    "Games that ask for it then get 404, and its list of earlier releases, for gamed assets rollback, is lost. The "
    "releases stay until gamed assets gc deletes them; until then, gamed assets set-channel {channel} RELEASE makes it "
    "again."
)


@click.group(commands=[publish, list_, verify, gc])
def assets() -> None:
    """Publish what games load, point channels at releases, show and delete stored releases.

    No key is needed. The running service follows a changed channel within a second.
    """


@assets.command("set-channel", short_help="Point a channel at a release.")
@channel_argument
@click.argument("release", type=release_id, shell_complete=complete_releases)
@reports_json
def set_channel(context: CommandContext, channel: str, release: str) -> None:
    """Point a channel at a stored release; create the channel if it does not exist."""
    opened = Assets.open_to_change(context)
    with asset_errors(opened.store):
        moved = channel_store.set_channel(opened.store, channel, release, opened.keep, now_ms())
    _report(context, opened, "assets set-channel", moved)


@assets.command(short_help="Point a channel at its previous release.")
@channel_argument
@reports_json
def rollback(context: CommandContext, channel: str) -> None:
    """Point a channel at the release that it pointed at before; a repeated rollback goes further back.

    The present release stays stored; `gamed assets set-channel` points the channel at it again.
    """
    opened = Assets.open_to_change(context)
    with asset_errors(opened.store):
        moved = channel_store.rollback(opened.store, channel, opened.keep, now_ms())
    _report(context, opened, "assets rollback", moved)


@assets.command("delete-channel", short_help="Delete a channel.")
@channel_argument
@yes_option
@reports_json
def delete_channel(context: CommandContext, channel: str, yes: bool) -> None:
    """Delete a channel, with its list of earlier releases.

    The releases stay until a later `gamed assets gc` deletes them; `gamed assets set-channel` creates it again.
    """
    opened = Assets.open_to_change(context)
    with asset_errors(opened.store):
        if channel in opened.store.channels():
            confirm(f"Delete the channel {channel}?", DELETED.format(channel=channel), yes=yes)
        before = channel_store.delete_channel(opened.store, channel, opened.keep, now_ms())
    opened.record("assets delete-channel")
    context.report({"channel": channel, "before": before}, f"channel {channel} is deleted")


def _report(context: CommandContext, opened: Assets, command: str, moved: ChannelUpdate) -> None:
    changed = moved.release != moved.before
    if changed:
        opened.record(command)
    members = {"channel": moved.channel, "release": moved.release, "before": moved.before, "changed": changed}
    before = f" (before: {moved.before})" if moved.before and changed else "" if changed else ", as before"
    lost = "; its pointer was damaged, so its previous releases are not known" if moved.past_lost else ""
    text = f"{moved.channel} points at {moved.release}{before}{lost}"
    context.report({**members, "past_lost": moved.past_lost}, text)
