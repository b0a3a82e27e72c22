"""`gamed assets publish` makes a release of a folder and points a channel at it (PROTOCOL 5)."""

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from gamed.assets.errors import PublishRefused
from gamed.assets.manifest import is_media_type, parse_meta, validate_note
from gamed.assets.paths import Refused
from gamed.assets.publish import Published, Publisher, PublishPlan, PublishRequest
from gamed.cli.assets_context import Assets, ChannelType, asset_errors
from gamed.cli.context import CommandContext
from gamed.cli.errors import CommandFailed, echo, exit_on_error
from gamed.cli.output import TEXT, Text, counted, json_option, measured
from gamed.clock import now_ms
from gamed.strict_json import JsonMalformed

SHOWN_REFUSALS = 100
SHOWN_HIDDEN = 5


class NoteType(Text):
    """The type of an option that is one line of text."""

    name = "note"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        note = super().convert(value, param, ctx)
        if (flaw := validate_note(note)) is not None:
            self.fail(f"{flaw}.", param, ctx)
        return note


class MetaType(click.ParamType[dict[str, object]]):
    """The type of an option that is a JSON object."""

    name = "json"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> dict[str, object]:
        if isinstance(value, dict):
            return value
        try:
            return parse_meta(TEXT.convert(value, param, ctx).encode())
        except JsonMalformed as e:
            self.fail(f"""not a JSON object such as '{{"build": 140}}': {e}.""", param, ctx)


class SuffixType(click.ParamType[tuple[str, str]]):
    """The type of an option `EXT=TYPE`: the media type of a file name's ending."""

    name = "type"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        suffix, mark, media_type = TEXT.convert(value, param, ctx).partition("=")
        suffix = suffix.removeprefix(".").lower()
        if not mark or not suffix or "." in suffix or not is_media_type(media_type):
            self.fail("write it as EXT=TYPE, such as .bank=audio/x-bank.", param, ctx)
        return suffix, media_type


@click.command(short_help="Make a folder a release, and point a channel at it.")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--channel", type=ChannelType(), default="stable", show_default=True, help="The channel to point at it.")
@click.option("--note", type=NoteType(), default="", help="One line of text, such as 1.4.2.")
@click.option("--meta", type=MetaType(), default="{}", metavar="JSON", help="An object for the game, in the manifest.")
@click.option(
    "--type",
    "types",
    type=SuffixType(),
    multiple=True,
    metavar="EXT=TYPE",
    help="The media type of an ending.",
)
@click.option("--hidden", is_flag=True, help="Publish names that begin with a dot, too.")
@click.option("--repair", is_flag=True, help="Check the objects that are stored already, and write damaged ones anew.")
@click.option("--dry-run", is_flag=True, help="Only print what would be done.")
@json_option
@click.pass_obj
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
    as_json: bool,
) -> None:
    """Make the files of FOLDER a release, and point a channel at it, while the service runs.

    Players get the complete release or nothing of it: the channel changes last. Only files that are not stored yet
    are stored. If one file cannot be published, none is, and the error lists all such files.
    """
    with exit_on_error():
        assets = Assets.open(context)
        source = _source(folder, assets)
        limits = assets.game.saves
        request = PublishRequest(source, channel, note, meta, dict(types), hidden=hidden, repair=repair)
        publisher = Publisher(assets.store, measured, now_ms, limits.min_free_bytes, assets.keep)
        try:
            with asset_errors(assets.store.folder):
                done = Published(publisher.plan(request), None) if dry_run else publisher.publish(request)
        except PublishRefused as e:
            _refuse(e.refused, as_json=as_json)
        if _changed(done):
            assets.record("assets publish")
        _report(done, channel, as_json=as_json)


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


def _refuse(refused: Sequence[Refused], *, as_json: bool) -> None:
    if as_json:
        echo(json.dumps({"refused": [{"path": each.path, "reason": each.reason} for each in refused]}, indent=2))
    shown = [] if as_json else [f"{_shown(each.path)}: {each.reason}" for each in refused[:SHOWN_REFUSALS]]
    more = [f"and {len(refused) - len(shown)} more"] if shown and len(refused) > len(shown) else []
    raise CommandFailed("\n".join(["Nothing was published. These files cannot be published:", *shown, *more]))


def _shown(path: str) -> str:
    """Return a path on one line, with escapes if it has control characters."""
    return path if path.isprintable() else ascii(path)[1:-1]


def _changed(done: Published) -> bool:
    return done.release is not None and (done.release != done.before or bool(done.plan.new))


def _report(done: Published, channel: str, *, as_json: bool) -> None:
    if as_json:
        echo(json.dumps(_members(done, channel), indent=2))
        return
    for line in _lines(done, channel):
        echo(line)


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
    yield _stored(plan, "would be stored" if done.release is None else "stored")
    if done.past_lost:
        yield f"the pointer of {channel} was damaged, so its previous releases are not known"
    if done.release is None:
        yield "nothing was changed (--dry-run)"
    elif done.release == done.before:
        yield f"{channel} points at {done.release} already, which has these files"
    else:
        yield f"{channel} points at {done.release}" + (f" (before: {done.before})" if done.before else "")


def _stored(plan: PublishPlan, what: str) -> str:
    files = f"{counted(len(plan.files), 'file')}, {plan.bytes} bytes"
    return f"{files}; {what}: {counted(len(plan.new), 'object')}, {plan.new_bytes} bytes"
