"""Completion of what a server has: players, saves, channels, releases and backups.

A shell asks while the operator types, so anything that fails offers nothing and prints nothing.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from gamed.assets.store import AssetStore
    from gamed.cli.context import CommandContext

MOST = 200
"""More words than this help nobody to choose."""
Find = Callable[["CommandContext", click.Context], Iterable[tuple[str, str]]]


def complete_files(context: click.Context, parameter: click.Parameter, typed: str) -> list["CompletionItem"]:
    return [_item(typed, kind="file")]


def complete_folders(context: click.Context, parameter: click.Parameter, typed: str) -> list["CompletionItem"]:
    return [_item(typed, kind="dir")]


def complete_backups(context: click.Context, parameter: click.Parameter, typed: str) -> list["CompletionItem"]:
    """Return the backups in the folder that is typed so far, newest first, else its folders."""
    from gamed.database.backup_format import MANIFEST  # late: only completion needs it

    above = typed[: typed.rindex("/") + 1] if "/" in typed else ""
    try:
        names = sorted((each.name for each in os.scandir(above or ".") if each.is_dir()), reverse=True)
    except OSError:
        names = []
    backups = [above + name for name in names if Path(above, name, MANIFEST).exists()]
    found = [_item(each) for each in backups if each.startswith(typed)][:MOST]
    return found or [_item(typed, kind="dir")]


def _completer(find: Find) -> Callable[[click.Context, click.Parameter, str], list["CompletionItem"]]:
    """Return a completion of words with their help, which are read from this server."""

    def complete(context: click.Context, parameter: click.Parameter, typed: str) -> list["CompletionItem"]:
        from gamed.cli.context import CommandContext  # late: only completion needs it

        options = context.find_root().params
        with redirect_stderr(StringIO()):
            try:
                words = list(find(CommandContext(options.get("config"), options.get("data"), False), context))
            except (Exception, SystemExit):
                return []
        shown = [_item(word, text) for word, text in words if word.casefold().startswith(typed.casefold())]
        return shown[:MOST]

    return complete


def _item(word: str, text: str = "", kind: str = "plain") -> "CompletionItem":
    from click.shell_completion import CompletionItem

    return CompletionItem(word, kind, text or None)


def _players(command: "CommandContext", context: click.Context) -> Iterator[tuple[str, str]]:
    """Yield local names, and ids with shown names; without the key ids alone."""
    from gamed.cli.context import SUGGESTED_OF

    query = "SELECT player_id FROM player ORDER BY created_ms DESC LIMIT :most"
    files = command.open_for_names()
    rows = files.read_auth(lambda connection: connection.execute(query, {"most": SUGGESTED_OF}).fetchall())
    for player_id, name in files.names_of([player_id for (player_id,) in rows]).items():
        yield (player_id, name) if player_id in name else (name, "")


def _slots(command: "CommandContext", context: click.Context) -> Iterator[tuple[str, str]]:
    """Yield the saves of the player whom an argument in front names."""
    from gamed.saves.tables import slots_by_name

    files, player_id = command.open_for(context.params["who"])
    for entry in files.read_state(lambda connection: slots_by_name(connection, player_id, "", MOST)):
        yield entry.slot, "" if entry.current else "deleted"


def _channels(command: "CommandContext", context: click.Context) -> Iterator[tuple[str, str]]:
    store = _assets(command)
    for name in store.channels():
        yield name, store.pointer(name).release


def _releases(command: "CommandContext", context: click.Context) -> Iterator[tuple[str, str]]:
    for name in _assets(command).releases():
        yield name, ""


def _assets(command: "CommandContext") -> "AssetStore":
    from gamed.assets.store import FOLDER, AssetStore

    return AssetStore(command.open_keyless().data / FOLDER)


complete_players = _completer(_players)
complete_slots = _completer(_slots)
complete_channels = _completer(_channels)
complete_releases = _completer(_releases)
