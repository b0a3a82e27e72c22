"""Both stores put in the place of others, all or none, however often the work is killed in between.

New files are made ready in a folder of their own. Once they are on disk a journal names them: until then nothing has
happened, from then on the exchange is brought to its end, by whoever comes next under the folder's lock. Each step is
a rename that is skipped where it was done. What was there is set aside under another name, never deleted.
"""

import json
import shutil
from collections.abc import Sequence
from itertools import chain, count
from pathlib import Path

from msgspec import Struct

from gamed.assets.store import sync_folder
from gamed.cli.errors import SetupError
from gamed.cli.paths import read_file, write_whole

JOURNAL = "restore.json"
STAGED = "restore.new"
SQLITE_SUFFIXES = ("-wal", "-shm", "-journal", "")
"""What SQLite keeps beside a file must not be found beside another one; the file itself goes last."""


class RestoreJournal(Struct, frozen=True):
    """What a journal says."""

    origin: str
    """The backup that the files are from."""
    suffix: str
    """What is behind the names of files that were set aside."""
    names: Sequence[str]


def begin(data: Path) -> Path:
    """An empty folder for the new files."""
    staged = data / STAGED
    if staged.exists():
        shutil.rmtree(staged)
    staged.mkdir(mode=0o700)
    return staged


def commit(data: Path, exchange: RestoreJournal) -> None:
    """From here on there is no way back but to finish()."""
    sync_folder(data / STAGED)
    members = {"origin": exchange.origin, "suffix": exchange.suffix, "names": list(exchange.names)}
    write_whole(data / JOURNAL, json.dumps(members).encode(), 0o600)


def unfinished(data: Path) -> RestoreJournal | None:
    """An exchange that was cut off after it was committed."""
    try:
        members = json.loads(read_file(str(data / JOURNAL)))
    except FileNotFoundError:
        return None
    return RestoreJournal(members["origin"], members["suffix"], members["names"])


def finish(data: Path, exchange: RestoreJournal) -> list[Path]:
    """Bring it to its end; what was set aside."""
    for name in exchange.names:
        new = data / STAGED / name
        if new.exists():
            for beside in SQLITE_SUFFIXES:
                _set_aside(data, name, exchange.suffix, beside)
            sync_folder(data)
            new.rename(data / name)
            sync_folder(data)
    aside = [path for name in exchange.names if (path := data / f"{name}{exchange.suffix}").exists()]
    (data / JOURNAL).unlink()
    sync_folder(data)
    shutil.rmtree(data / STAGED, ignore_errors=True)
    return aside


def recover(data: Path) -> RestoreJournal | None:
    """What one that was cut off left behind: brought to its end if it was committed, and told; else swept."""
    cut_off = unfinished(data)
    if cut_off is not None:
        finish(data, cut_off)
    elif (data / STAGED).exists():
        shutil.rmtree(data / STAGED)
    return cut_off


def refuse_unfinished(data: Path) -> None:
    """Refusal for a command that would work on files that are about to be set aside."""
    if (data / JOURNAL).exists():
        raise SetupError(
            f"A restore was cut off in {data}. Start the service, or run the restore again: that brings it to its end."
        )


def _set_aside(data: Path, name: str, suffix: str, beside: str) -> None:
    """SQLite finds a log again by its file's name: both keep the same suffix in the middle."""
    present = data / f"{name}{beside}"
    if present.exists():
        names = chain([suffix], (f"{suffix}.{number}" for number in count(2)))
        free = (data / f"{name}{middle}{beside}" for middle in names)
        present.rename(next(path for path in free if not path.exists()))
