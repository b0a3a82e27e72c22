"""`gamed assets publish` makes a release of a folder and points a channel at it (docs/owners/assets.md: Publishing)."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NoReturn

import click

from gamed.assets.errors import PublishRefused
from gamed.assets.manifest import is_media_type, parse_meta, validate_note
from gamed.assets.paths import Refused
from gamed.assets.publish import Published, Publisher, PublishRequest
from gamed.cli.completing import complete_channels
from gamed.cli.context import CommandContext, reports_json
from gamed.cli.errors import CommandFailed
from gamed.cli.files.context import Assets, asset_errors, channel_name
from gamed.cli.output import counted, utf8
from gamed.cli.terminal import bar
from gamed.clock import now_ms
from gamed.readable import size
from gamed.strict_json import JsonMalformed

SHOWN_REFUSALS = 100
SHOWN_HIDDEN = 5


def _one_line(text: str) -> str:
    if (flaw := validate_note(utf8(text))) is not None:
        raise click.BadParameter(f"{flaw}.")
    return text


def _meta(text: str) -> dict[str, object]:
    try:
        return parse_meta(utf8(text).encode())
    except JsonMalformed as e:
        raise click.BadParameter(f"""not a JSON object such as '{{"build": 140}}': {e}.""") from None


def _suffix_and_type(text: str) -> tuple[str, str]:
    suffix, mark, media_type = utf8(text).partition("=")
    suffix = suffix.removeprefix(".").lower()
    if not mark or not suffix or "." in suffix or not is_media_type(media_type):
        raise click.BadParameter("write it as EXT=TYPE, such as .bank=audio/x-bank.")
    return suffix, media_type


@click.command(short_help="Make a folder a release, and point a channel at it.")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--channel",
    type=channel_name,
    shell_complete=complete_channels,
    default="stable",
    show_default=True,
    metavar="CHANNEL",
    help="The channel to point at it.",
)
@click.option("--note", type=_one_line, default="", metavar="NOTE", help="One line of text, such as 1.4.2.")
@click.option("--meta", type=_meta, default="{}", metavar="JSON", help="An object for the game, in the manifest.")
@click.option(
    "--type", "types", type=_suffix_and_type, multiple=True, metavar="EXT=TYPE", help="The media type of an ending."
)
@click.option("--hidden", is_flag=True, help="Publish names that begin with a dot, too.")
@click.option("--repair", is_flag=True, help="Check the objects that are stored already, and write damaged ones anew.")
@click.option("--dry-run", is_flag=True, help="Only print what would be done.")
@reports_json
def publish(  # noqa: PLR0917
    context: CommandContext,
    folder: Path,
    channel: str,
    note: str,
    meta: dict[str, object],
    types: tuple[tuple[str, str], ...],
    hidden: bool,
    repair: bool,
    dry_run: bool,
) -> None:
    """Make the files of FOLDER a release, and point a channel at it, while the service runs.

    Players get the complete release or nothing of it: the channel changes last. Only files that are not stored yet
    are stored. If one file cannot be published, none is, and the error lists all such files.
    """
    assets = Assets.open(context) if dry_run else Assets.open_to_change(context)
    source = _source(folder, assets)
    limits = assets.game.saves
    request = PublishRequest(source, channel, note, meta, dict(types), hidden=hidden, repair=repair)
    publisher = Publisher(
        store=assets.store,
        progress=bar,
        now_ms=now_ms,
        min_free_bytes=limits.min_free_bytes,
        keep_releases=assets.keep,
    )
    try:
        with asset_errors(assets.store):
            done = Published(publisher.plan(request), None) if dry_run else publisher.publish(request)
    except PublishRefused as e:
        _refuse(context, e.refused)
    if _changed(done):
        assets.record("assets publish")
    context.report(_members(done, channel), _lines(done, channel), indent=2)


def _source(folder: Path, assets: Assets) -> Path:
    """Return the folder; raise CommandFailed if publishing it would expose the server's own files."""
    source = folder.absolute()
    try:
        there = source.is_dir()
    except PermissionError:  # root has become that user
        raise CommandFailed(
            f"{source} cannot be read by uid {os.geteuid()}, who publishes it. Let that user read it."
        ) from None
    if not there:
        raise CommandFailed(
            f"{source} {'is not a folder' if source.exists() else 'does not exist'}. Name a folder with files in it."
        )
    real, data = source.resolve(), assets.places.data.resolve()
    if real.is_relative_to(data) or data.is_relative_to(real):
        raise CommandFailed(f"{real} and the data folder {data} are one inside the other. Publish a separate folder.")
    for own in (assets.places.config, assets.places.game):
        if own.resolve().is_relative_to(real):
            raise CommandFailed(f"{own} is in {real}, and would be public. Publish a separate folder.")
    return source


def _refuse(context: CommandContext, refused: Sequence[Refused]) -> NoReturn:
    context.report({"refused": [{"path": each.path, "reason": each.reason} for each in refused]}, [], indent=2)
    shown = [] if context.as_json else [f"{_shown(each.path)}: {each.reason}" for each in refused[:SHOWN_REFUSALS]]
    more = [f"and {len(refused) - len(shown)} more"] if shown and len(refused) > len(shown) else []
    raise CommandFailed("\n".join(["Nothing was published. These files cannot be published:", *shown, *more]))


def _shown(path: str) -> str:
    """Return a path on one line, with escapes if it has control characters."""
    return path if path.isprintable() else ascii(path)[1:-1]


def _changed(done: Published) -> bool:
    return done.release is not None and (done.release != done.before or bool(done.plan.new))


def _members(done: Published, channel: str) -> dict[str, object]:
    plan = done.plan
    return {
        "channel": channel,
        "release": done.release,
        "before": done.before,
        "changed": _changed(done),
        "dry_run": done.release is None,
        "files": len(plan.files),
        "bytes": plan.bytes,
        "new_objects": len(plan.new),
        "new_bytes": plan.new_bytes,
        "hidden": list(plan.hidden),
        "past_lost": done.past_lost,
    }


def _lines(done: Published, channel: str) -> Iterator[str]:
    plan = done.plan
    if plan.hidden:
        shown = ", ".join(_shown(path) for path in plan.hidden[:SHOWN_HIDDEN])
        more = f" and {len(plan.hidden) - SHOWN_HIDDEN} more" if len(plan.hidden) > SHOWN_HIDDEN else ""
        yield f"left out because the name begins with a dot: {shown}{more} (--hidden publishes them)"
    files, new = f"{counted(len(plan.files), 'file')}, {size(plan.bytes)}", counted(len(plan.new), "object")
    yield f"{files}; {'would be stored' if done.release is None else 'stored'}: {new}, {size(plan.new_bytes)}"
    if done.past_lost:
        yield f"the pointer of {channel} was damaged, so its previous releases are not known"
    if done.release is None:
        yield "nothing was changed (--dry-run)"
    elif done.release == done.before:
        yield f"{channel} points at {done.release} already, which has these files"
    else:
        yield f"{channel} points at {done.release}" + (f" (before: {done.before})" if done.before else "")
