"""`gamed assets`: what games load, published and looked after from the host (PROTOCOL 5)."""

import click

from gamed.assets import channel_store
from gamed.assets.channel_store import ChannelUpdate
from gamed.cli.assets_context import Assets, ReleaseType, channel_argument, refusing
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


@click.group(short_help="Publish what games load, and look after it.")
def assets() -> None:
    """Publish what games load, point channels at releases, see and delete what is kept.

    No key is needed. The running service sees within a second where a channel points.
    """


@assets.command("set-channel", short_help="Point a channel at a release.")
@channel_argument
@click.argument("release", type=ReleaseType())
@json_option
@click.pass_obj
def set_channel(host: CommandContext, channel: str, release: str, as_json: bool) -> None:
    """Point a channel at a stored release; create the channel if it does not exist."""
    with exit_on_error():
        opened = Assets.open(host)
        with refusing(opened.store.folder):
            moved = channel_store.set_channel(opened.store, channel, release, opened.keep, now_ms())
        _moved(opened, "assets set-channel", moved, as_json=as_json)


@assets.command(short_help="Point a channel at what it pointed at before.")
@channel_argument
@json_option
@click.pass_obj
def rollback(host: CommandContext, channel: str, as_json: bool) -> None:
    """Point a channel at what it pointed at before; each time further back.

    The release that it leaves stays stored; `gamed assets set-channel` points the channel at it again.
    """
    with exit_on_error():
        opened = Assets.open(host)
        with refusing(opened.store.folder):
            moved = channel_store.rollback(opened.store, channel, opened.keep, now_ms())
        _moved(opened, "assets rollback", moved, as_json=as_json)


@assets.command("delete-channel", short_help="Delete a channel.")
@channel_argument
@yes_option
@json_option
@click.pass_obj
def delete_channel(host: CommandContext, channel: str, yes: bool, as_json: bool) -> None:
    """Delete a channel, with its list of earlier releases.

    The releases stay until a later `gamed assets gc` deletes them; `gamed assets set-channel` creates it again.
    """
    with exit_on_error():
        opened = Assets.open(host)
        with refusing(opened.store.folder):
            if channel in opened.store.channels():
                confirm(f"Delete the channel {channel}?", DELETED.format(channel=channel), yes=yes)
            before = channel_store.delete_channel(opened.store, channel, opened.keep, now_ms())
        opened.tell("assets delete-channel")
        report({"channel": channel, "before": before}, f"channel {channel} is deleted", as_json=as_json)


for command in (publish, list_, verify, gc):
    assets.add_command(command)


def _moved(opened: Assets, command: str, moved: ChannelUpdate, *, as_json: bool) -> None:
    changed = moved.release != moved.before
    if changed:
        opened.tell(command)
    members = {"channel": moved.channel, "release": moved.release, "before": moved.before, "changed": changed}
    before = f" (before: {moved.before})" if moved.before and changed else "" if changed else ", as before"
    lost = "; its pointer was damaged, and what it pointed at before is lost" if moved.past_lost else ""
    report(
        {**members, "past_lost": moved.past_lost},
        f"{moved.channel} points at {moved.release}{before}{lost}",
        as_json=as_json,
    )
