"""`gamed saves`: what players keep, looked at and mended from the host (PROTOCOL 4)."""

import json
from collections.abc import Iterator
from pathlib import Path
from re import ASCII, compile
from sqlite3 import Connection
from typing import TypeVar

import click

from gamed.cli.arguments import TEXT, json_option, who_argument
from gamed.cli.asking import confirm, yes_option
from gamed.cli.files import STATE_DB
from gamed.cli.host import Files, Host
from gamed.cli.people import found, report
from gamed.cli.progress import progress
from gamed.cli.refusal import NotDone, ending, say
from gamed.cli.save_export import count_versions
from gamed.cli.save_export import export as export_to
from gamed.cli.save_work import bring_back, erase_saves
from gamed.cli.words import counted
from gamed.instants import rfc3339
from gamed.saves.cursor import UNBORN
from gamed.saves.entry import SlotEntry
from gamed.saves.errors import SaveError
from gamed.saves.rules import SlotView
from gamed.saves.save_info import entry_info, version_info
from gamed.saves.slots import check_slot
from gamed.saves.version import Version
from gamed.storage.auth.players import count as count_players
from gamed.storage.auth.players import find_player
from gamed.storage.command import reader
from gamed.storage.state import shelves, slots, versions
from gamed.storage.state.totals import Totals, totals

T = TypeVar("T")
_ID = compile(r"ply_[A-Za-z0-9_-]{1,64}", ASCII)


@click.group(short_help="Look at what players keep, mend it, export it.")
def saves() -> None:
    """Look at what players keep, bring versions back, export, erase.

    A player is named by id, for which no key is needed, or by local name, for which it is.
    """


@saves.command("list", short_help="Show a player's saves.")
@who_argument
@json_option
@click.pass_obj
def list_(host: Host, who: str, as_json: bool) -> None:
    """Show a player's saves, the deleted ones too."""
    with ending():
        files, player_id = _named(host, who)
        if _saved_nothing(files, player_id) and not files.look(lambda auth: find_player(auth, player_id)):
            raise NotDone(f"There is no player {player_id}, and no saves of one.")
        entries = files.look_at_state(lambda connection: slots.changed(connection, player_id, 0))
        if as_json:
            say(json.dumps([entry_info(entry) for entry in entries], indent=2))
        elif not entries:
            say(f"{player_id} has no saves")
        for entry in [] if as_json else entries:
            say(_line(entry))


@saves.command("versions", short_help="Show what is kept of one save.")
@who_argument
@click.argument("slot", type=TEXT)
@json_option
@click.pass_obj
def versions_(host: Host, who: str, slot: str, as_json: bool) -> None:
    """Show every version that is kept of a save, newest first."""
    with ending():
        files, player_id = _player(host, who)
        name = _slot(slot)
        view, kept = files.look_at_state(lambda connection: _history(connection, player_id, name))
        if not view.seen:
            raise NotDone(f"{player_id} never had a save {name}.")
        current = view.head.version if view.head else None
        if as_json:
            shown = [{**version_info(version), "current": version.version == current} for version in kept]
            say(json.dumps(shown, indent=2))
        for version in [] if as_json else kept:
            mark = "current" if version.version == current else version.kind
            digest = version.body.sha256.hex()[:16] if version.body else "-"
            say(f"{version.version:>6}  {mark:8}  {rfc3339(version.created_ms)}  {version.size:>10}  {digest}")


@saves.command(short_help="Make an old version of a save current again.")
@who_argument
@click.argument("slot", type=TEXT)
@click.argument("number", type=click.IntRange(1), metavar="VERSION")
@json_option
@click.pass_obj
def restore(host: Host, who: str, slot: str, number: int, as_json: bool) -> None:
    """Make an old version of a save current again; what is current now stays in the history."""
    with ending():
        files, player_id = _player(host, who)
        bring_back(files, player_id, _slot(slot), number, "saves restore", as_json=as_json)


@saves.command(short_help="Bring a deleted save back.")
@who_argument
@click.argument("slot", type=TEXT)
@json_option
@click.pass_obj
def undelete(host: Host, who: str, slot: str, as_json: bool) -> None:
    """Bring a deleted save back as it was."""
    with ending():
        files, player_id = _player(host, who)
        name = _slot(slot)
        view = files.look_at_state(lambda connection: slots.view(connection, player_id, name))
        if view.head is not None:
            raise NotDone(f"{name} is not deleted: version {view.head.version} is current.")
        if view.tombstone is None or view.tombstone.parent is None:
            kept = "is not kept any more" if view.seen else "was never there"
            raise NotDone(f"{name} {kept}.")
        bring_back(files, player_id, name, view.tombstone.parent, "saves undelete", as_json=as_json)


@saves.command(short_help="Write a player's saves to a zip file.")
@who_argument
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@json_option
@click.pass_obj
def export(host: Host, who: str, file: Path, as_json: bool) -> None:
    """Write every version of a player's saves to a new zip file, with a manifest."""
    with ending():
        files, player_id = _player(host, who)
        with reader(files.data / STATE_DB) as run:
            kept = run(lambda connection: count_versions(connection, player_id))
            with progress(export_to(run, file.absolute(), player_id), "exporting", kept) as shown:
                copied = [(each.good, f"{each.version.slot} {each.version.version}") for each in shown]
        damaged = [name for good, name in copied if not good]
        done = {"player": player_id, "file": str(file), "versions": len(copied), "damaged": damaged}
        if as_json or not damaged:
            report(done, f"{counted(len(copied), 'version')} of {player_id} written to {file}", as_json=as_json)
        if damaged:
            raise NotDone(f"{file} is written, but these versions are damaged and left out: {', '.join(damaged)}")


@saves.command(short_help="Erase a player's saves, history included.")
@who_argument
@yes_option
@json_option
@click.pass_obj
def erase(host: Host, who: str, yes: bool, as_json: bool) -> None:
    """Erase all saves of a player with their history; the player can sign in and save anew. It cannot be undone."""
    with ending():
        files, player_id = _player(host, who)
        kept = files.look_at_state(lambda connection: count_versions(connection, player_id))
        confirm(f"Erase {counted(kept, 'version')} of {player_id}?", yes=yes)
        erase_saves(files, player_id)
        report(
            {"player": player_id, "versions": kept},
            f"{counted(kept, 'version')} of {player_id} erased",
            as_json=as_json,
        )


@saves.command(short_help="Show what all players keep together.")
@json_option
@click.pass_obj
def stats(host: Host, as_json: bool) -> None:
    """Show how much all players keep together, and who keeps most."""
    with ending():
        files = host.open_keyless()
        known, found = files.look(count_players), files.look_at_state(totals)
        if as_json:
            largest = [{"player": player_id, "bytes": kept} for player_id, kept in found.largest]
            say(json.dumps({"players": known, **_numbers(found), "largest": largest}, indent=2))
        for line in [] if as_json else _stated(known, found):
            say(line)


def _player(host: Host, who: str) -> tuple[Files, str]:
    """Return the stores and the player's id, like `_named`; raise NotDone if the player never saved anything."""
    files, player_id = _named(host, who)
    if _saved_nothing(files, player_id):
        raise NotDone(f"{who} has never saved anything here.")
    return files, player_id


def _named(host: Host, who: str) -> tuple[Files, str]:
    """Return the stores and the id of the player with this id, which needs no key, or else with this local name."""
    if _ID.fullmatch(who):
        return host.open_keyless(), who
    store = host.open()
    return store, store.read(lambda connection, keys: found(connection, keys, who)).player.player_id


def _saved_nothing(files: Files, player_id: str) -> bool:
    return files.look_at_state(lambda connection: shelves.find(connection, player_id)).cursor == UNBORN


def _slot(name: str) -> str:
    try:
        return check_slot(name)
    except SaveError as e:
        raise NotDone(str(e)) from None


def _history(connection: Connection, player_id: str, slot: str) -> tuple[SlotView, list[Version]]:
    return slots.view(connection, player_id, slot), versions.history(connection, player_id, slot)


def _line(entry: SlotEntry) -> str:
    if entry.head is None:
        return f"{entry.slot:24}  {entry.removed_by:>6}  {rfc3339(entry.deleted_ms or 0)}  deleted"
    copies = f"  conflict copies {' '.join(map(str, entry.conflicts))}" if entry.conflicts else ""
    size = f"{entry.head.size:>10}"
    return f"{entry.slot:24}  {entry.head.version:>6}  {rfc3339(entry.head.created_ms)}  {size}{copies}"


def _numbers(found: Totals) -> dict[str, object]:
    return {
        "players_with_saves": found.players_with_saves,
        "saves": found.saves,
        "current_bytes": found.current_bytes,
        "history_bytes": found.history_bytes,
        "file_bytes": found.file_bytes,
        "free_bytes": found.free_bytes,
        "unreferenced_blobs": found.unreferenced_blobs,
    }


def _stated(known: int, found: Totals) -> Iterator[str]:
    """Yield the lines for a person: each number with its unit."""
    yield f"{'players':24} {known:>16}"
    yield f"{'players with saves':24} {found.players_with_saves:>16}"
    yield f"{'saves':24} {found.saves:>16}"
    yield f"{'their current versions':24} {found.current_bytes:>16} bytes"
    yield f"{'their history':24} {found.history_bytes:>16} bytes"
    yield f"{'state.db':24} {found.file_bytes:>16} bytes"
    yield f"{'free space in it':24} {found.free_bytes:>16} bytes"
    yield f"{'unreferenced blobs':24} {found.unreferenced_blobs:>16}"
    for player_id, kept in found.largest:
        yield f"{player_id:24} {kept:>16} bytes"
