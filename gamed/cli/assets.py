"""`gamed assets` publishes releases and sets, rolls back and deletes channels (PROTOCOL 5)."""

import click

from gamed.assets import channel_store
from gamed.assets.channel_store import ChannelUpdate
from gamed.cli.assets_context import Assets, ReleaseType, asset_errors, channel_argument
from gamed.cli.assets_maintenance import gc, list_, verify
from gamed.cli.assets_publish import publish
from gamed.cli.context import CommandContext, report
from gamed.cli.errors import exit_on_error
from gamed.cli.output import confirm, json_option, yes_option
from gamed.clock import now_ms

DELETED = (
    "Games that ask for it then get 404, and its list of earlier releases, for gamed assets rollback, is lost. The "
    "releases stay until gamed assets gc deletes them; until then, gamed assets set-channel {channel} RELEASE makes it "
    "again."
)


@click.group()
def assets() -> None:
    """Publish what games load, point channels at releases, show and delete stored releases.

    No key is needed. The running service follows a changed channel within a second.
    """


@assets.command("set-channel", short_help="Point a channel at a release.")
@channel_argument
@click.argument("release", type=ReleaseType())
@json_option
@click.pass_obj
def set_channel(context: CommandContext, channel: str, release: str, as_json: bool) -> None:
    """Point a channel at a stored release; create the channel if it does not exist."""
    with exit_on_error():
        opened = Assets.open(context)
        with asset_errors(opened.store.folder):
            moved = channel_store.set_channel(opened.store, channel, release, opened.keep, now_ms())
        _report(opened, "assets set-channel", moved, as_json=as_json)


@assets.command(short_help="Point a channel at its previous release.")
@channel_argument
@json_option
@click.pass_obj
def rollback(context: CommandContext, channel: str, as_json: bool) -> None:
    """Point a channel at the release that it pointed at before; a repeated rollback goes further back.

    The present release stays stored; `gamed assets set-channel` points the channel at it again.
    """
    with exit_on_error():
        opened = Assets.open(context)
        with asset_errors(opened.store.folder):
            moved = channel_store.rollback(opened.store, channel, opened.keep, now_ms())
        _report(opened, "assets rollback", moved, as_json=as_json)


@assets.command("delete-channel", short_help="Delete a channel.")
@channel_argument
@yes_option
@json_option
@click.pass_obj
def delete_channel(context: CommandContext, channel: str, yes: bool, as_json: bool) -> None:
    """Delete a channel, with its list of earlier releases.

    The releases stay until a later `gamed assets gc` deletes them; `gamed assets set-channel` creates it again.
    """
    with exit_on_error():
        opened = Assets.open(context)
        with asset_errors(opened.store.folder):
            if channel in opened.store.channels():
                confirm(f"Delete the channel {channel}?", DELETED.format(channel=channel), yes=yes)
            before = channel_store.delete_channel(opened.store, channel, opened.keep, now_ms())
        opened.record("assets delete-channel")
        report({"channel": channel, "before": before}, f"channel {channel} is deleted", as_json=as_json)


def _report(opened: Assets, command: str, moved: ChannelUpdate, *, as_json: bool) -> None:
    changed = moved.release != moved.before
    if changed:
        opened.record(command)
    members = {"channel": moved.channel, "release": moved.release, "before": moved.before, "changed": changed}
    before = f" (before: {moved.before})" if moved.before and changed else "" if changed else ", as before"
    lost = "; its pointer was damaged, so its previous releases are not known" if moved.past_lost else ""
    report(
        {**members, "past_lost": moved.past_lost},
        f"{moved.channel} points at {moved.release}{before}{lost}",
        as_json=as_json,
    )


for command in (publish, list_, verify, gc):
    assets.add_command(command)
