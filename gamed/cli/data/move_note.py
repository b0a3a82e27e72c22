"""Notes of `gamed move-data`: an old place names the new one, and a new place that is not complete is not used.

Everything is copied into the folder STAGED of the new place, beside a journal. From the moment when the old data folder
has a note, the new place has everything, and the move can only be finished. STAGED is removed last.
"""

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from gamed.cli.errors import SetupError
from gamed.cli.paths import Paths, command_line, read_file, write_whole
from gamed.config.authentication import FILE_NAME

NOTE = "gamed.moved"
"""The note's name in a data folder; beside the old configuration it follows the name of that file."""
STAGED = ".gamed-move"
JOURNAL = "move.json"
DATA = "data"
TAKE_OVER = "gamed.setup"
"""The name of the note beside a configuration while `gamed setup` moves another server there."""


class MoveJournal(Struct, frozen=True):
    """The content of a move's journal: where the data were, and the names in the old data folder that were copied."""

    config: str
    data: str
    names: Sequence[str] = ()

    @property
    def source(self) -> Paths:
        return Paths(Path(self.config), Path(self.data))


def places_in(folder: Path) -> Paths:
    """Return the places that a move into this folder fills; `serve` finds the data by the configuration alone."""
    return Paths(folder / FILE_NAME, folder / DATA)


def notes(source: Paths) -> list[Path]:
    """Return the paths of the notes that a move leaves; the first one decides that the data are moved."""
    return [source.data / NOTE, source.config.with_name(f"{source.config.name}.moved")]


def moved_to(source: Paths) -> Path | None:
    """Return the folder that these data were moved to; None if they were not moved."""
    noted = _read_note(source)
    return None if noted is None else noted[0]


def _read_note(source: Paths) -> tuple[Path, Paths] | None:
    """Return the folder that a note names, and the places of the server there."""
    for note in notes(source):
        try:
            members = json.loads(read_file(str(note)))
            folder = Path(members["moved_to"])
            config, data = members.get("config"), members.get("data")
            return folder, Paths(Path(config), Path(data)) if config and data else places_in(folder)
        except (FileNotFoundError, NotADirectoryError, PermissionError):  # such a folder is reported elsewhere
            continue
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            raise SetupError(f"{note} cannot be read. It names the folder that the data was moved to.") from None
    return None


def parts_of(note: Path) -> list[Path]:
    """Return the parts of this note that killed commands have left."""
    return list(note.parent.glob(f".{note.name}.*"))


def write_note(note: Path, folder: Path, new: Paths | None = None) -> None:
    """Write a note for people and for commands, as a file of the folder's owner; raise OSError.

    `new` are the places of the server where they are not those of a move into the folder.
    """
    for part in parts_of(note):
        part.unlink()
    owner = note.parent.stat() if os.geteuid() == 0 else None
    members = {"moved_to": str(folder)} | ({"config": str(new.config), "data": str(new.data)} if new else {})
    write_whole(note, json.dumps(members).encode() + b"\n", 0o644, owner)


def write_journal(staged: Path, journal: MoveJournal) -> None:
    """Write the journal into the folder STAGED, which may have another path; raise OSError."""
    members = {"config": journal.config, "data": journal.data, "names": list(journal.names)}
    write_whole(staged / JOURNAL, json.dumps(members).encode(), 0o600)


def write_take_over(places: Paths, source: Paths) -> None:
    """Note beside a configuration that `gamed setup` moves the server of `source` there; raise OSError."""
    members = {"config": str(source.config), "data": str(source.data)}
    write_whole(places.config.with_name(TAKE_OVER), json.dumps(members).encode() + b"\n", 0o600)


def read_take_over(places: Paths) -> Paths | None:
    """Return the places of the server that an unfinished `gamed setup` moves to these places."""
    try:
        members = json.loads(read_file(str(places.config.with_name(TAKE_OVER))))
        return Paths(Path(members["config"]), Path(members["data"]))
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return None
    except (OSError, ValueError, KeyError, TypeError):
        note = places.config.with_name(TAKE_OVER)
        raise SetupError(f"{note} cannot be read. It names the server that gamed setup moves here.") from None


def read_journal(folder: Path, staged: int | None = None) -> MoveJournal | None:
    """Return the journal of an unfinished move into this folder; None if there is none, or if it holds nothing yet.

    `staged` is a descriptor of STAGED, for a caller that has checked whose folder it is.
    """
    place = folder / STAGED if staged is None else Path(f"/proc/self/fd/{staged}")
    try:
        members = json.loads(read_file(str(place / JOURNAL)))
        return MoveJournal(members["config"], members["data"], members["names"])
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, KeyError, TypeError):
        if not os.path.lexists(folder / STAGED):  # a folder that this user cannot enter is reported elsewhere
            return None
        raise SetupError(
            f"The move into {folder} is not finished, and its journal {folder / STAGED / JOURNAL} cannot be read. "
            "Finish it as the user who began it."
        ) from None


def refuse_moved(places: Paths) -> None:
    """Raise SetupError at the old place of moved data, and at a new place whose move is not finished."""
    for target in _folders(places):
        if (journal := read_journal(target)) is not None:
            raise _unfinished(target, journal.source)
    if (taken := read_take_over(places)) is not None:
        raise SetupError(f"The server of {taken.data} is being moved here. Finish it: gamed setup")
    noted = _read_note(places)
    if noted is None:
        return
    folder, new = noted
    if read_journal(folder) is not None:
        raise _unfinished(folder, places)
    if (places.data / NOTE).exists():
        moved = f"The data of {places.data} was moved to {folder}. Use it there"
    else:
        moved = f"The configuration {places.config} was moved to {folder}. Use it there"
    raise SetupError(
        f"{moved} with --config {new.config} or "
        f"GAMED_CONFIG={new.config}; where GAMED_DATA or --data is set, it has to be {new.data}. To begin a new server "
        f"here instead, delete {' and '.join(str(note) for note in notes(places) if note.exists())}."
    )


def _unfinished(folder: Path, source: Paths) -> SetupError:
    command = command_line(source, "move-data", str(folder))
    return SetupError(f"The move of {source.data} into {folder} is not finished. Finish it: {command}")


def _folders(places: Paths) -> Iterator[Path]:
    yield places.config.parent
    if places.data.parent != places.config.parent:
        yield places.data.parent
