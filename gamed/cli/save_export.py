"""A player's saves as one zip on the host, the same as players get themselves (PROTOCOL 4)."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from sqlite3 import Connection
from typing import Any, TypeVar

from gamed.assets.disk import sync_folder
from gamed.cli.refusal import NotDone
from gamed.saves.errors import SaveError
from gamed.storage.state import shelves
from gamed.storage.state.exporting import Copied, ExportWriter

T = TypeVar("T")
Run = Callable[[Callable[[Connection], T]], T]


def count_versions(connection: Connection, player_id: str) -> int:
    """Everything that is kept of a player."""
    query = "SELECT count(*) FROM save_version WHERE player_id = :player_id"
    return int(connection.execute(query, {"player_id": player_id}).fetchone()[0])


def export(run: Run[Any], file: Path, player_id: str) -> Iterator[Copied]:
    """Write a new file, for its owner's eyes only; gives each version as it is copied.

    Each read is short, so that the service goes on beside it.
    """
    part = file.with_name(f".{file.name}.part")
    if file.exists():
        raise NotDone(f"{file} is there already; name another file.")
    if not file.parent.is_dir():
        raise NotDone(f"There is no folder {file.parent}; make it, or name a file elsewhere.")
    descriptor = os.open(part, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        with open(descriptor, "w+b") as out:
            cursor = run(lambda connection: shelves.find(connection, player_id)).cursor
            making = ExportWriter(player_id, cursor, out, file.parent)
            try:
                while copied := run(making.step):
                    yield from copied
            except SaveError as e:
                raise NotDone(str(e)) from None
            finally:
                making.close()
            os.fsync(descriptor)
        part.rename(file)
        sync_folder(file.parent)
    except OSError as e:
        raise NotDone(f"{file.parent} does not take the file ({e.strerror or e}); nothing was written.") from None
    finally:
        part.unlink(missing_ok=True)
