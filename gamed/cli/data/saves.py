"""`gamed saves` lists, restores, exports, imports and erases players' saves beside the running service.

See docs/protocol.md: Saves.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from secrets import token_bytes
from typing import Any, TypeVar

import click
from msgspec.structs import asdict

from gamed.cli.completing import complete_slots
from gamed.cli.context import CommandContext, OfflineDatabases, reports_json
from gamed.cli.data.saves_import import import_
from gamed.cli.errors import CommandFailed
from gamed.cli.output import confirm, counted, table, utf8, who_argument, yes_option
from gamed.cli.people.removal import CommandSaveRemoval
from gamed.cli.terminal import steps_shown
from gamed.clock import now_ms
from gamed.database import blob_rows
from gamed.database.connection import STATE, Connection
from gamed.database.errors import BlobCorrupt, BlobNotFound
from gamed.disk import sync_folder
from gamed.players.tables import count_players, find_player
from gamed.readable import ago, size
from gamed.saves import erase_store, operator_store, version_tables
from gamed.saves import tables as save_tables
from gamed.saves.errors import SaveError, VersionGone
from gamed.saves.export_store import ExportedVersion, ExportWriter
from gamed.saves.integrity import state_totals
from gamed.saves.model import EMPTY_CURSOR, SlotEntry, SlotState, Version, new_epoch
from gamed.saves.operator_store import ALL
from gamed.saves.responses import entry_info, save_info, version_info
from gamed.saves.validation import check_slot

TOTALS = {
    "players": "players",
    "players_with_saves": "players with saves",
    "saves": "saves",
    "current_bytes": "their current versions",
    "history_bytes": "their history",
    "file_bytes": "their database",
    "free_bytes": "free space in it",
    "unreferenced_blobs": "unreferenced blobs",
}
"""The members of `saves stats --json` in words for a person."""
SLOT_HEADINGS = ("SLOT", "VERSION", "WRITTEN", "SIZE", "CONFLICT COPIES")
VERSION_HEADINGS = ("VERSION", "KIND", "WRITTEN", "SIZE", "HASH")
T = TypeVar("T")
Run = Callable[[Callable[[Connection], T]], T]


@click.group(commands=[import_])
def saves() -> None:
    """Show players' saves, restore versions, export, import, erase.

    Name a player by id, which needs no key, or by local name, which needs the key.
    """


@saves.command("list", short_help="Show a player's saves.")
@who_argument
@reports_json
def list_(context: CommandContext, who: str) -> None:
    """Show a player's saves, the deleted ones too."""
    files, player_id = context.open_for(who)
    if _saved_nothing(files, player_id) and not files.read_auth(lambda auth: find_player(auth, player_id)):
        raise CommandFailed(f"There is no player {player_id}, and there are no saves under that id.")
    entries = files.read_state(lambda connection: save_tables.slots_by_name(connection, player_id, "", ALL))
    now = now_ms()
    lines = table(SLOT_HEADINGS, [_slot_row(entry, now) for entry in entries])
    lines = lines or [f"{_named(files, player_id)} has no saves"]
    context.report([entry_info(entry) for entry in entries], lines, indent=2, paged=True)


@saves.command("versions", short_help="Show the versions of one save.")
@who_argument
@click.argument("slot", type=utf8, shell_complete=complete_slots)
@reports_json
def versions_(context: CommandContext, who: str, slot: str) -> None:
    """Show every stored version of a save, newest first."""
    files, player_id = _player_with_saves(context, who)
    name = _parse_slot(slot)
    view, versions = files.read_state(lambda connection: _history(connection, player_id, name))
    if not view.exists:
        raise CommandFailed(f"{_named(files, player_id)} never had a save {name}.")
    current = view.current.version if view.current else None
    shown = [{**version_info(version), "current": version.version == current} for version in versions]
    now = now_ms()
    context.report(
        shown, table(VERSION_HEADINGS, [_version_row(each, current, now) for each in versions]), indent=2, paged=True
    )


@saves.command(short_help="Make an old version of a save current again.")
@who_argument
@click.argument("slot", type=utf8, shell_complete=complete_slots)
@click.argument("number", type=click.IntRange(1), metavar="VERSION")
@reports_json
def restore(context: CommandContext, who: str, slot: str, number: int) -> None:
    """Make an old version of a save current again; what is current now stays in the history."""
    files, player_id = _player_with_saves(context, who)
    context.report(*restore_version(files, player_id, _parse_slot(slot), number, "saves restore"))


@saves.command(short_help="Restore a deleted save.")
@who_argument
@click.argument("slot", type=utf8, shell_complete=complete_slots)
@reports_json
def undelete(context: CommandContext, who: str, slot: str) -> None:
    """Restore a deleted save as it was."""
    files, player_id = _player_with_saves(context, who)
    name = _parse_slot(slot)
    number = files.read_state(lambda connection: _find_deleted(connection, player_id, name))
    context.report(*restore_version(files, player_id, name, number, "saves undelete"))


def _find_deleted(connection: Connection, player_id: str, slot: str) -> int:
    try:
        return operator_store.find_deleted(connection, player_id, slot)
    except SaveError as e:
        raise CommandFailed(str(e)) from None


@saves.command(short_help="Write a player's saves to a zip file.")
@who_argument
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@reports_json
def export(context: CommandContext, who: str, file: Path) -> None:
    """Write every version of a player's saves to a new zip file, with a manifest."""
    files, player_id = _player_with_saves(context, who)
    with files.store.open_reader(STATE) as run:
        kept = run(lambda connection: count_versions(connection, player_id))
        with steps_shown(export_saves(run, file.absolute(), player_id), "exporting", kept) as shown:
            copied = [(each.good, f"{each.version.slot} {each.version.version}") for each in shown]
    damaged = [name for good, name in copied if not good]
    done = {"player": player_id, "file": str(file), "versions": len(copied), "damaged": damaged}
    if context.as_json or not damaged:
        context.report(done, f"{counted(len(copied), 'version')} of {_named(files, player_id)} written to {file}")
    if damaged:
        raise CommandFailed(f"{file} is written, but these versions are damaged and left out: {', '.join(damaged)}")


@saves.command(short_help="Erase a player's saves, history included.")
@who_argument
@yes_option
@reports_json
def erase(context: CommandContext, who: str, yes: bool) -> None:
    """Erase all saves of a player with their history; the player can sign in and save anew. It cannot be undone."""
    files, player_id = _player_with_saves(context, who)
    kept = files.read_state(lambda connection: count_versions(connection, player_id))
    versions = f"{counted(kept, 'version')} of {_named(files, player_id)}"
    confirm(f"Erase {versions}?", yes=yes)
    erase_saves(files, player_id)
    context.report({"player": player_id, "versions": kept}, f"{versions} erased")


@saves.command(short_help="Show the totals of all players.")
@reports_json
def stats(context: CommandContext) -> None:
    """Show the totals of all players' saves, and the players who use most bytes."""
    files = context.open_keyless() if context.as_json else context.open_for_names()
    players = files.read_auth(count_players)
    totals = files.read_state(lambda connection: state_totals(connection, *files.store.allocated(connection)))
    members = {"players": players, **{name: kept for name, kept in asdict(totals).items() if name in TOTALS}}
    largest = [{"player": player_id, "bytes": kept} for player_id, kept in totals.largest]
    words = {**TOTALS, "file_bytes": files.store.name(STATE)}
    known = {name: count for name, count in members.items() if count is not None}
    rows = [(words[name], size(count) if "bytes" in name else str(count)) for name, count in known.items()]
    lines = table(("OF ALL PLAYERS", "TOTAL"), rows)
    names = files.names_of([player_id for player_id, _ in totals.largest])
    lines += table(("PLAYER", "SIZE"), [(names[player_id], size(kept)) for player_id, kept in totals.largest])
    context.report({**members, "largest": largest}, lines, indent=2)


def _player_with_saves(context: CommandContext, who: str) -> tuple[OfflineDatabases, str]:
    """Return the databases and the player's id, like open_for(); raise CommandFailed if there never were saves."""
    files, player_id = context.open_for(who)
    if _saved_nothing(files, player_id):
        raise CommandFailed(f"{who} has never saved anything here.")
    return files, player_id


def _named(files: OfflineDatabases, player_id: str) -> str:
    return files.names_of([player_id])[player_id]


def _saved_nothing(files: OfflineDatabases, player_id: str) -> bool:
    return files.read_state(lambda connection: save_tables.find_player(connection, player_id)).cursor == EMPTY_CURSOR


def _parse_slot(name: str) -> str:
    try:
        return check_slot(name)
    except SaveError as e:
        raise CommandFailed(str(e)) from None


def _history(connection: Connection, player_id: str, slot: str) -> tuple[SlotState, list[Version]]:
    return save_tables.slot_state(connection, player_id, slot), version_tables.list_versions(
        connection, player_id, slot
    )


def _version_row(version: Version, current: int | None, now: int) -> tuple[str, ...]:
    mark = "current" if version.version == current else version.kind
    digest = version.content.sha256.hex()[:16] if version.content else ""
    return str(version.version), mark, ago(version.created_ms, now), size(version.size), digest


def _slot_row(entry: SlotEntry, now: int) -> tuple[str, ...]:
    if entry.damaged:
        return entry.slot, "", "", "damaged", ""
    if entry.current is None:
        return entry.slot, str(entry.tombstone_version), ago(entry.deleted_ms or 0, now), "deleted", ""
    copies = " ".join(map(str, entry.conflicts))
    written, length = ago(entry.current.created_ms, now), size(entry.current.size)
    return entry.slot, str(entry.current.version), written, length, copies


def restore_version(
    files: OfflineDatabases, player_id: str, slot: str, number: int, command: str
) -> tuple[dict[str, object], str]:
    """Make a version current again, after checking its bytes; return the result as JSON members and as text."""
    old = files.read_state(lambda connection: _check_version(connection, player_id, slot, number))
    now = files.write_state(lambda connection: _restore(connection, player_id, slot, number))
    files.write_auth(lambda connection: files.record(connection, command, player_id))
    text = f"{slot} is version {now.version} now, with the {size(old.size)} of version {number}"
    return {"player": player_id, **save_info(now)}, text


def _check_version(connection: Connection, player_id: str, slot: str, number: int) -> Version:
    """Return the version if its bytes have the stored hash; raise CommandFailed if it cannot be restored."""
    try:
        version = operator_store.find_restorable(connection, player_id, slot, number)
    except VersionGone as e:
        raise CommandFailed(f"{e} See: gamed saves versions {player_id} {slot}") from None
    except SaveError as e:
        raise CommandFailed(str(e)) from None
    try:
        blob_rows.check(connection, version.blob_id or 0)
    except (BlobCorrupt, BlobNotFound) as e:
        raise CommandFailed(f"Version {number} of {slot} cannot be restored. {e}") from None
    return version


def _restore(connection: Connection, player_id: str, slot: str, number: int) -> Version:
    try:
        return operator_store.restore_version(connection, player_id, slot, number, now_ms())
    except SaveError as e:
        raise CommandFailed(str(e)) from None


def erase_saves(files: OfflineDatabases, player_id: str) -> None:
    """Erase all saves of a player; if the command is interrupted after the log entry, the service finishes the work."""
    epoch = new_epoch(token_bytes)
    files.write_state(lambda connection: erase_store.begin_erase(connection, player_id, epoch, now_ms()))
    files.write_auth(lambda connection: files.record(connection, "saves erase", player_id))
    CommandSaveRemoval(files=files).finish(player_id)


def count_versions(connection: Connection, player_id: str) -> int:
    query = "SELECT count(*) FROM save_version WHERE player_id = :player_id"
    return int(connection.execute(query, {"player_id": player_id}).fetchone()[0])


def export_saves(run: Run[Any], file: Path, player_id: str) -> Iterator[ExportedVersion]:
    """Write the export to a new file with mode 0600; yield each version that was copied.

    Each read is short, so that the service is not held up.
    """
    part = file.with_name(f".{file.name}.part")
    if file.exists():
        raise CommandFailed(f"{file} exists. Name another file.")
    if not file.parent.is_dir():
        raise CommandFailed(f"There is no folder {file.parent}. Make it, or name a file elsewhere.")
    descriptor = os.open(part, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        with open(descriptor, "w+b") as out:
            cursor = run(lambda connection: save_tables.find_player(connection, player_id)).cursor
            writer = ExportWriter(player_id, cursor, out, file.parent)
            try:
                while copied := run(writer.step):
                    yield from copied
            except SaveError as e:
                raise CommandFailed(str(e)) from None
            finally:
                writer.close()
            os.fsync(descriptor)
        part.rename(file)
        sync_folder(file.parent)
    except OSError as e:
        raise CommandFailed(f"{file.parent} cannot hold the file ({e.strerror or e}). Nothing was written.") from None
    finally:
        part.unlink(missing_ok=True)
