"""`gamed assets list`, `verify` and `gc` show, check and delete stored releases.

See docs/owners/published-files.md: Check the files.
"""

from collections.abc import Iterator

import click

from gamed.assets import gc as asset_gc
from gamed.assets import verify as asset_verify
from gamed.assets.gc import GcResult
from gamed.assets.snapshot import Overview, ReleaseListing
from gamed.assets.verify import VerifyResult
from gamed.cli.completing import complete_releases
from gamed.cli.context import CommandContext, reports_json
from gamed.cli.errors import CommandFailed
from gamed.cli.files.context import Assets, asset_errors, release_id
from gamed.cli.output import counted, duration_seconds, table
from gamed.cli.terminal import bar
from gamed.clock import now_ms
from gamed.readable import ago, size
from gamed.timestamps import rfc3339

RELEASE_HEADINGS = ("RELEASE", "PUBLISHED", "FILES", "SIZE", "ITS OWN", "CHANNELS", "NOTE")


@click.command("list", short_help="Show channels, releases, and their size on disk.")
@reports_json
def list_(context: CommandContext) -> None:
    """Show the release of each channel, the stored releases, and their size on disk."""
    opened = Assets.open(context)
    with asset_errors(opened.store):
        found = asset_verify.overview(opened.store, opened.keep, now_ms())
    context.report(_overview_members(found), _overview_lines(found), indent=2)


@click.command(short_help="Read every object, and check its hash.")
@click.argument("release", type=release_id, required=False, shell_complete=complete_releases)
@reports_json
def verify(context: CommandContext, release: str | None) -> None:
    """Read every object, or those of one release, and check that its hash is its name.

    The exit code is 0 if there are no errors, else 1, with a line for each error.
    """
    opened = Assets.open(context)
    with asset_errors(opened.store):
        found = asset_verify.verify(opened.store, bar, release)
    counts = {"releases": found.releases, "objects": found.objects, "bytes": found.bytes}
    read = f"{counted(found.releases, 'release')}, {counted(found.objects, 'object')}, {size(found.bytes)}"
    text = [] if found.errors else [f"no errors: {read} read"]
    context.report({**counts, "errors": found.errors}, text, indent=2)
    if found.errors:
        count = counted(len(found.errors), "error")
        raise CommandFailed("\n".join([*([] if context.as_json else found.errors), count, *_advice(found)]))


@click.command(short_help="Delete releases that no channel needs.")
@click.option(
    "--older-than",
    type=duration_seconds,
    default="24h",
    show_default=True,
    metavar="DURATION",
    help="Time without a channel that needs it.",
)
@click.option("--dry-run", is_flag=True, help="Only print what would be deleted.")
@reports_json
def gc(context: CommandContext, older_than: int, dry_run: bool) -> None:
    """Delete releases that no channel has needed for 24 hours, and the objects that only they use.

    Each channel needs its release and its previous ones, as many as `assets.keep_releases` in game.json.
    """
    opened = Assets.open(context) if dry_run else Assets.open_to_change(context)
    with asset_errors(opened.store):
        done = asset_gc.collect_garbage(opened.store, opened.keep, older_than, now_ms(), dry_run=dry_run)
    if not dry_run and (done.releases or done.objects):
        opened.record("assets gc")
    members = {
        "releases": done.releases,
        "objects": len(done.objects),
        "bytes": done.bytes,
        "waiting": done.waiting,
        "waiting_bytes": done.waiting_bytes,
        "dry_run": dry_run,
    }
    context.report(members, _deleted_lines(done, dry_run=dry_run), indent=2)


def _overview_members(found: Overview) -> dict[str, object]:
    channels = {
        channel: {
            "release": pointer.release,
            "pointed": rfc3339(pointer.pointed_ms),
            "before": [each.release for each in pointer.history],
        }
        for channel, pointer in found.channels.items()
    }
    return {
        "channels": channels,
        "releases": [_release_members(each) for each in found.releases],
        "damaged": list(found.damaged),
        "objects": found.objects,
        "bytes": found.bytes,
        "release_bytes": found.release_bytes,
    }


def _release_members(each: ReleaseListing) -> dict[str, object]:
    return {
        "release": each.release,
        "published": rfc3339(each.manifest.published_ms),
        "note": each.manifest.note,
        "channels": list(each.channels),
        "files": len(each.manifest.files),
        "bytes": each.manifest.size,
        "own_bytes": each.own_bytes,
        "unneeded_since": None if each.unneeded_ms is None else rfc3339(each.unneeded_ms),
    }


def _overview_lines(found: Overview) -> Iterator[str]:
    if not found.channels and not found.releases and not found.damaged:
        yield "nothing is published yet, see: gamed assets publish --help"
        return
    now = now_ms()
    channels = [(name, each.release, ago(each.pointed_ms, now)) for name, each in found.channels.items()]
    yield from table(("CHANNEL", "RELEASE", "SINCE"), channels)
    yield from table(RELEASE_HEADINGS, [_release_row(each, now) for each in found.releases])
    objects = f"{counted(found.objects, 'object')}, {size(found.bytes)} on disk"
    yield f"{objects}, for releases of {size(found.release_bytes)} in all"
    for damaged in found.damaged:
        yield f"{damaged} is damaged, see: gamed assets verify"


def _release_row(each: ReleaseListing, now: int) -> tuple[str, ...]:
    state = " ".join(each.channels) or ("before" if each.unneeded_ms is None else "not needed")
    published, manifest = ago(each.manifest.published_ms, now), each.manifest
    return (
        each.release,
        published,
        str(len(manifest.files)),
        size(manifest.size),
        size(each.own_bytes),
        state,
        manifest.note,
    )


def _advice(found: VerifyResult) -> Iterator[str]:
    if any(error.startswith("channel ") for error in found.errors):
        yield "Point the channel at an intact release: gamed assets set-channel"
    if any(error.startswith(("object ", "release ")) for error in found.errors):
        yield "Publish the same files again to write damaged objects anew: gamed assets publish --repair"


def _deleted_lines(done: GcResult, *, dry_run: bool) -> Iterator[str]:
    for release in done.releases:
        yield f"{release} {'would be' if dry_run else 'is'} deleted"
    gone = f"{counted(len(done.releases), 'release')}, {counted(len(done.objects), 'object')}, {size(done.bytes)}"
    yield f"{'would be deleted' if dry_run else 'deleted'}: {gone}"
    if done.waiting or done.waiting_bytes:
        waiting = f"{counted(len(done.waiting), 'release')}, {size(done.waiting_bytes)}"
        yield f"not needed, but not yet for long enough: {waiting}"
