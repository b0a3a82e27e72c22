"""`gamed setup` finds the server of this machine, and moves it to the places where it stays.

`move()` of gamed.cli.data.move_data does the move, to a folder beside the new data folder; from there one rename brings
the data to their place. A note beside the new configuration names the old places from before the first change to after
the last: until it is gone no start uses the new places, and the next `gamed setup` goes on.
"""

import fcntl
import os
import pwd
import shlex
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

from gamed.cli import paths
from gamed.cli.context import CommandContext
from gamed.cli.data.move_data import move
from gamed.cli.data.move_note import (
    TAKE_OVER,
    moved_to,
    notes,
    parts_of,
    places_in,
    read_journal,
    read_take_over,
    refuse_moved,
    write_note,
    write_take_over,
)
from gamed.cli.errors import CommandFailed
from gamed.cli.paths import Paths
from gamed.cli.service.folder_lock import LOCK_FILE
from gamed.cli.service.other_server import find_servers, is_server
from gamed.cli.setup.model import Layout
from gamed.config.authentication import FILE_NAME
from gamed.disk import sync_folder

FIRST_PERSON = 1000
"""The first user id that Debian gives to a person."""
PLACED = {"--config": "GAMED_CONFIG", "--data": "GAMED_DATA"}
"""The options of a command by the variables that mean the same."""


def find_server(context: CommandContext, layout: Layout, environ: Mapping[str, str]) -> Paths | None:
    """Return where the server of this machine is: in its place or elsewhere; None if there is none.

    Raise CommandFailed if there are several, or if options name one that is not there.
    """
    if (unfinished := read_take_over(layout.places)) is not None:
        return unfinished
    named, chosen = context.places(), bool(context.config or context.data)
    if chosen and moved_to(named) is not None:
        refuse_moved(named)
    by_unit = list(_in_units(layout))
    if is_server(layout.places.data):
        for other in [*([named] if chosen and is_server(named.data) else []), *by_unit]:
            if other.data.resolve() != layout.places.data.resolve():
                raise CommandFailed(
                    f"{layout.places.data} has a server already, and so has {other.data}. Leave one out."
                )
        return layout.places
    if is_server(named.data):
        return named
    if chosen:
        raise CommandFailed(f"{named.data} has no server. Name another with --config FILE and --data DIR, or none.")
    homes = [Path.cwd(), Path(environ.get("HOME", "/")), *([_home_before_sudo(environ)] if layout.root else [])]
    known = [named, *by_unit, *paths.all_places(environ), *(places for home in homes for places in _beside(home))]
    found = list(find_servers(layout.places, known, known))
    if len(found) > 1:
        raise CommandFailed(
            f"There are several servers: {', '.join(str(each.data) for each in found)}. Name the one that stays: "
            f"gamed --config {found[0].config} --data {found[0].data} setup"
        )
    return found[0] if found else None


def _in_units(layout: Layout) -> Iterator[Paths]:
    """Yield the places that units of gamed name, such as those of a layout of the owner's own.

    Raise CommandFailed for places without a server, beside which an empty one would begin, and for settings added to a
    unit, which would win over the new unit's.
    """
    folders = [layout.units]
    if layout.root:
        folders += [Path("/run/systemd/system"), Path("/usr/local/lib/systemd/system"), Path("/usr/lib/systemd/system")]
    for folder in folders:
        for file in (folder / "gamed.service", *sorted((folder / "gamed.service.d").glob("*.conf"))):
            places = _named_in(file, layout)
            if places is None or layout.places.data in (places.data, moved_to(places)):
                continue
            refuse_moved(places)
            if not is_server(places.data):
                raise CommandFailed(
                    f"{file} names the data folder {places.data}, which has no server now. Is a disk not mounted? If "
                    f"that server is gone for good, delete {file} first."
                )
            if file.suffix == ".conf":
                command = shlex.join(["gamed", "--config", str(places.config), "--data", str(places.data), "setup"])
                raise CommandFailed(
                    f"{file} names {places.data}, also for the unit that this writes. Delete its lines about folders, "
                    f"then run: {command}"
                )
            yield places


def _named_in(file: Path, layout: Layout) -> Paths | None:
    """Return the places of a service by its variables, else by the options of its command; None if it names none."""
    found: dict[str, str] = {}
    home = Path.home()
    etc, state = ("/etc", "/var/lib") if layout.root else (str(home / ".config"), str(home / ".local/state"))
    try:
        lines = paths.read_regular(str(file)).decode().splitlines()
    except (OSError, UnicodeDecodeError):
        return None
    for line in lines:
        setting, _, value = line.partition("=")
        value = value.replace("%E", etc).replace("%S", state).replace("%h", str(home))
        try:
            words = shlex.split(value.replace("%%", "%"))
        except ValueError:  # a quotation mark without its other half
            continue
        options = [word.split("=", 1) for word in words if "=" in word] + [list(pair) for pair in pairwise(words)]
        if setting == "Environment":
            found |= {name: value for name, value in options if name in PLACED.values()}
        elif setting == "ExecStart":
            found |= {PLACED[name]: value for name, value in options if name in PLACED}
        elif setting == "StateDirectory" and words:
            found.setdefault("GAMED_DATA", f"{state}/{words[0]}")
    if not found or not all(value.startswith("/") for value in found.values()):
        return None
    config = Path(found.get("GAMED_CONFIG", layout.places.config))
    return Paths(config, Path(found.get("GAMED_DATA", config.parent / "data")))


def _home_before_sudo(environ: Mapping[str, str]) -> Path:
    """Return the home folder of the user who became root by sudo, which sets HOME to root's; else root's own."""
    with suppress(KeyError):
        return Path(pwd.getpwnam(environ.get("SUDO_USER", "")).pw_dir)
    return Path(environ.get("HOME", "/"))


def find_of_others(layout: Layout) -> Iterator[Paths]:
    """Yield the servers in other people's home folders: root moves none of them unless options name it."""
    for each in pwd.getpwall() if layout.root else ():
        if each.pw_uid >= FIRST_PERSON:
            yield from (places for places in _beside(Path(each.pw_dir)) if is_server(places.data))


def _beside(home: Path) -> Iterator[Paths]:
    """Yield the places of a first start in this folder, in a checkout in it, and those of its user."""
    for folder in (home / ".venv/bin", home / "gamed/.venv/bin", home / ".config/gamed"):
        yield Paths(folder / FILE_NAME, folder / "data")
    yield Paths(home / ".config/gamed" / FILE_NAME, home / ".local/share/gamed")


def read_present(layout: Layout, source: Paths | None) -> str | None:
    """Return the text of the configuration that is there, wherever an interrupted move has left it."""
    for places in (source, places_in(layout.staging), layout.places):
        if places is not None and (text := paths.read_config(places)) is not None:
            return text
    return None


def is_running(data: Path) -> bool:
    """Return whether a server or another command holds the lock of this data folder."""
    with suppress(OSError):
        descriptor = os.open(data / LOCK_FILE, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
    return False


def begin(layout: Layout, source: Paths) -> None:
    """Note the move beside the new configuration, before that is written."""
    if is_running(source.data):
        raise CommandFailed(f"The server in {source.data} runs. Stop it, then run gamed setup again.")
    if layout.places.data.is_mount():
        raise CommandFailed(
            f"{layout.places.data} is a disk of its own, which a server cannot be moved to whole. "
            f"Mount it at {layout.places.data.parent}, or move the data by hand."
        )
    write_take_over(layout.places, source)


def take_over(layout: Layout, source: Paths, owner: tuple[int, int], write_settings: Callable[[], None]) -> None:
    """Move the server, whose configuration is written already; each step is skipped if an earlier run did it.

    `owner` is user and group of the service, whose files the data become. `write_settings` writes the files beside the
    new configuration again: where the server has them in that folder already, the move takes them away.
    """
    staging, data = layout.staging, layout.places.data
    if not is_server(data):
        staged = places_in(staging)
        if read_journal(staging) is not None or not is_server(staged.data):
            staging.mkdir(mode=0o700, exist_ok=True)
            os.chown(staging, *owner)
            move(source, staging)
        sync_folder(staging)
        if source.data.is_relative_to(data):  # as `move-data` leaves a server: only its notes are there by now
            shutil.rmtree(source.data, ignore_errors=True)
            for left in (notes(source)[1], *parts_of(notes(source)[1])):
                left.unlink(missing_ok=True)
        staged.data.replace(data)
        sync_folder(data.parent)
    write_settings()  # the staging folder has the only other copy
    for note in notes(source):
        if _same_file(note, notes(layout.places)[1]):
            note.unlink(missing_ok=True)  # it would refuse the new places, too
        elif note.exists():
            write_note(note, data, layout.places)
    shutil.rmtree(staging, ignore_errors=True)
    layout.places.config.with_name(TAKE_OVER).unlink(missing_ok=True)
    sync_folder(layout.places.config.parent)


def _same_file(one: Path, other: Path) -> bool:
    """Return whether two paths have the same name in the same folder, whatever links lead to that."""
    return one.name == other.name and one.parent.resolve() == other.parent.resolve()
