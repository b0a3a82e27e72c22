"""A start never begins an empty server beside one that exists: it looks where that could be, refuses, and names it.

An owner whose first start and unit name different folders would otherwise get a server without players and with a new
key, and nothing would show it.
"""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from gamed.cli import keys, paths
from gamed.cli.errors import SetupError
from gamed.cli.paths import AUTH_DB, STATE_DB, Paths
from gamed.config.authentication import FILE_NAME
from gamed.config.settings import DATABASE_NOTE
from gamed.database.backup_format import MANIFEST
from gamed.database.connection import AUTH, STATE
from gamed.database.store import Store


def refuse_other_server(places: Paths, store: Store, environ: Mapping[str, str]) -> None:
    """Raise SetupError if a start that would make an empty `auth` leaves the players of another server behind.

    The caller holds the lock of the data folder, and knows that `auth` has no schema yet.
    """
    data, where, note = places.data, store.describe(AUTH), places.data / DATABASE_NOTE
    # With `state` there, the owner has set `auth` aside, because its key is lost.
    if note.exists() and not has_state(store):
        if store.files:
            raise SetupError(
                f"{where} does not exist, and {note} shows that the databases of this server are on a PostgreSQL "
                f"server. Put store back into {places.config}, or name another folder with --data DIR."
            )
        raise SetupError(
            f"There is no {where}, and {note} shows that this server has used a database. Restore a backup with gamed "
            f"restore, correct store in {places.config}, or delete that note to begin with an empty database."
        )
    # An option that names another configuration is a decision: several servers of one machine are begun so. Variables
    # are not, because a unit, a shell and sudo have different ones.
    everywhere = places.config == paths.find_by_environment(environ).config
    known = [*paths.all_places(environ), paths.LAYOUT]
    for there in find_servers(places, known if everywhere else [], known, beside_state=(data / STATE_DB).exists()):
        raise _refused(places, where, there)


def has_state(store: Store) -> bool:
    """Return whether `state` exists, also if it cannot be read."""
    try:
        with keys.database_errors(store, STATE):
            return store.exists(STATE)
    except SetupError:
        return True


def find_servers(
    places: Paths, others: Sequence[Paths], known: Sequence[Paths], *, beside_state: bool = False
) -> Iterator[Paths]:
    """Yield the places of each server one level above or below the data folder, and at the others.

    Its configuration is beside it, or that of known places with the same data folder. With `beside_state` the data
    folder has a state.db, for which an auth.db alone elsewhere is not a server.
    """
    found: list[Path] = []
    for folder in _candidates(places, others):
        if is_server(folder, beside_state=beside_state) and not any(_same(folder, other) for other in found):
            found.append(folder)
            beside = [parent / FILE_NAME for parent in (folder.parent, folder, folder.parent / "config")]
            files = (*beside, *(other.config for other in known if _same(other.data, folder)))
            yield Paths(next((file for file in files if _exists(file)), places.config), folder)


def _refused(places: Paths, where: str, there: Paths) -> SetupError:
    folder = there.data
    variables = shlex.join([f"GAMED_CONFIG={there.config}", f"GAMED_DATA={there.data}"])
    old = (
        f" If it is an old copy, move that folder out of {places.data} instead." if folder.parent == places.data else ""
    )
    return SetupError(
        f"{where} does not exist, but {folder} has a server: a start would begin an empty one beside it, without its "
        f"players. Use that one: {paths.command_line(there, 'serve')}, or {variables}; with these options gamed unit "
        "prints its unit. To begin another server, name a configuration and a folder apart from it with --config FILE "
        "and --data DIR, in a shell where GAMED_CONFIG does not name that file; only the first start needs the options."
        f"{old}"
    )


def _exists(file: Path) -> bool:
    with suppress(OSError):  # a folder that this user may not enter
        return file.exists()
    return False


def _same(one: Path, other: Path) -> bool:
    with suppress(OSError):
        return one.resolve() == other.resolve()
    return False


def _candidates(places: Paths, others: Sequence[Paths]) -> Iterator[Path]:
    """Yield the folders that could have a server, each of which is not the data folder itself."""
    data = places.data.resolve()
    for folder in _listed(places, others):
        with suppress(OSError):  # a loop of links, or a folder that this user may not enter
            if folder.resolve() != data:
                yield folder


def _listed(places: Paths, others: Sequence[Paths]) -> Iterator[Path]:
    yield from (places.data.parent, places.data.resolve().parent)
    with suppress(OSError):
        yield from sorted(each for each in places.data.iterdir() if each.is_dir())
    for other in others:
        beside = other.config.parent
        yield from (other.data, other.data / "data", beside, beside / "data", beside.parent)


def is_server(folder: Path, *, beside_state: bool = False) -> bool:
    """Return whether a server was served from this folder; a backup has a manifest.

    An auth.db alone is no server for a folder that has state.db: the owner set it aside, because its key is lost.
    """
    try:
        if (folder / MANIFEST).exists() or (beside_state and not (folder / STATE_DB).exists()):
            return False
        return _has_players(folder / AUTH_DB) or (folder / DATABASE_NOTE).exists()
    except OSError:  # this user may not look into it
        return False


def _has_players(path: Path) -> bool:
    """Return whether a file of SQLite has a schema: a start that was cut off leaves an empty one."""
    return path.is_file() and path.stat().st_size > 0
