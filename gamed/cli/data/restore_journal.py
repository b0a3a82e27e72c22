"""A restore replaces all databases or none, however often the process is killed in between.

The new files are prepared in a folder of their own. Once they are on disk a journal names them. Without the journal
nothing has changed; with it the next process that holds the folder's lock finishes the restore. Each step is a rename
that is skipped if it was done. Previous files are renamed, never deleted.
"""

import json
import shutil
from collections.abc import Sequence
from itertools import chain, count
from pathlib import Path

from msgspec import Struct

from gamed.cli.errors import SetupError
from gamed.cli.paths import read_file, write_whole
from gamed.database.sqlite.files import SUFFIXES
from gamed.disk import sync_folder

JOURNAL = "restore.json"
STAGED = "restore.new"


class RestoreJournal(Struct, frozen=True):
    """The content of a restore's journal."""

    origin: str
    """The backup that the files are from."""
    suffix: str
    """The suffix of the previous files' new names."""
    names: Sequence[str]


def begin(data: Path) -> Path:
    """Make an empty folder for the new files."""
    staged = data / STAGED
    if staged.exists():
        shutil.rmtree(staged)
    staged.mkdir(mode=0o700)
    return staged


def commit(data: Path, journal: RestoreJournal) -> None:
    """Write the journal; from here on the restore can only be finished."""
    sync_folder(data / STAGED)
    members = {"origin": journal.origin, "suffix": journal.suffix, "names": list(journal.names)}
    write_whole(data / JOURNAL, json.dumps(members).encode(), 0o600)


def unfinished(data: Path) -> RestoreJournal | None:
    """Read the journal of a restore that was interrupted after commit(); return None if there is none."""
    try:
        members = json.loads(read_file(str(data / JOURNAL)))
    except FileNotFoundError:
        return None
    return RestoreJournal(members["origin"], members["suffix"], members["names"])


def finish(data: Path, journal: RestoreJournal) -> list[Path]:
    """Finish a restore that was committed; return the previous files."""
    for name in journal.names:
        new = data / STAGED / name
        if new.exists():
            for beside in SUFFIXES:
                _set_aside(data, name, journal.suffix, beside)
            sync_folder(data)
            new.rename(data / name)
            sync_folder(data)
    aside = [path for name in journal.names if (path := data / f"{name}{journal.suffix}").exists()]
    (data / JOURNAL).unlink()
    sync_folder(data)
    shutil.rmtree(data / STAGED, ignore_errors=True)
    return aside


def recover(data: Path) -> RestoreJournal | None:
    """Finish a restore that was interrupted, and return its journal; delete the files of one that was not committed."""
    interrupted = unfinished(data)
    if interrupted is not None:
        finish(data, interrupted)
    elif (data / STAGED).exists():
        shutil.rmtree(data / STAGED)
    return interrupted


def refuse_unfinished(data: Path) -> None:
    """Raise SetupError if an interrupted restore is still to replace the files."""
    if (data / JOURNAL).exists():
        raise SetupError(
            f"A restore was interrupted in {data}. Start the service, or run the restore again, to finish it."
        )


def _set_aside(data: Path, name: str, suffix: str, beside: str) -> None:
    """Rename a previous file. The suffix stands in the middle, so that SQLite still finds a log by its file's name."""
    present = data / f"{name}{beside}"
    if present.exists():
        names = chain([suffix], (f"{suffix}.{number}" for number in count(2)))
        free = (data / f"{name}{middle}{beside}" for middle in names)
        present.rename(next(path for path in free if not path.exists()))
