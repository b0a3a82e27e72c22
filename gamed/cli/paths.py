"""Where the configuration file and the data folder are (SPEC 2.1): the first that is named or exists.

The configuration file and the data folder on disk: read, made on the first run, kept to their owner.
"""

import os
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from errno import EDQUOT, ENOSPC
from pathlib import Path
from stat import S_ISVTX

from msgspec import Struct

from gamed.assets.store import sync_folder
from gamed.cli.errors import CommandFailed, SetupError, warn
from gamed.config import game
from gamed.config.authentication import FILE_NAME
from gamed.config.errors import ConfigError
from gamed.config.json_reader import JsonSyntaxError, decode

PACKAGE = Path(__file__).absolute().parent.parent
BUILD = ".build"


class Paths(Struct, frozen=True):
    """Absolute paths; neither need exist."""

    config: Path
    data: Path

    @property
    def game(self) -> Path:
        """The limits of saves and assets, beside the configuration."""
        return self.config.with_name(game.FILE_NAME)


def find(environ: Mapping[str, str], config: str | None, data: str | None, *, development: bool = False) -> Paths:
    """From the options, else the environment, else the place of the executable; "" counts as not given.

    `development`: started as `python -m gamed`, which in a checkout keeps to its `.build` folder.
    """
    checkout = PACKAGE.parent if development and (PACKAGE.parent / "setup.py").is_file() else None
    named = config or environ.get("GAMED_CONFIG")
    if named:
        file = Path(named)
    elif environ.get("CONFIGURATION_DIRECTORY"):
        file = _of_several(environ["CONFIGURATION_DIRECTORY"])
    elif checkout is not None:
        file = checkout / BUILD / "config" / FILE_NAME
    else:
        file = Path(sysconfig.get_path("scripts")) / FILE_NAME
    folder = data or environ.get("GAMED_DATA") or environ.get("STATE_DIRECTORY", "").partition(":")[0]
    if folder:
        return Paths(file.absolute(), Path(folder).absolute())
    in_checkout = checkout is not None and file.is_relative_to(checkout / BUILD)
    return Paths(file.absolute(), (checkout / BUILD if checkout and in_checkout else file.absolute().parent) / "data")


def _of_several(directories: str) -> Path:
    """systemd separates them by colons: the first that holds the file, else the first."""
    files = [Path(directory) / FILE_NAME for directory in directories.split(":")]
    return next((file for file in files if file.exists()), files[0])


MAX_FILE_BYTES = 256 * 1024
AUTH_DB = "auth.db"
STATE_DB = "state.db"
FIRST_RUN = """{
  "mode": "local",
  "session": {
    "access_ttl": "15m",
    "refresh_ttl": "720h",
    "device_transaction_ttl": "10m"
  }
}
"""


def read_file(path: str) -> bytes:
    """At most MAX_FILE_BYTES and one more; OSError when it cannot be read."""
    with open(path, "rb") as file:
        return file.read(MAX_FILE_BYTES + 1)


def read_config(places: Paths) -> str | None:
    """The text of the configuration file; None on a first run: neither it nor auth.db is there."""
    text = _read_text(places.config)
    if text is None and (places.data / AUTH_DB).exists():
        raise SetupError(
            f"{places.config} is missing, but {places.data / AUTH_DB} is there: this server was set up before. "
            "Put the file back (is a folder not mounted?), or name it with --config FILE."
        )
    return text


def read_game(places: Paths) -> str | None:
    """The text of game.json beside it; None when there is none."""
    return _read_text(places.game)


def _read_text(path: Path) -> str | None:
    try:
        raw = read_file(str(path))
    except FileNotFoundError:
        return None
    except OSError as e:
        raise SetupError(f"{path} cannot be read ({e.strerror}); name another with --config FILE.") from None
    if len(raw) > MAX_FILE_BYTES:
        raise SetupError(f"{path} is larger than {MAX_FILE_BYTES // 1024} KiB; is it the right file?")
    try:
        return decode(raw)
    except JsonSyntaxError as e:
        raise ConfigError(str(path), [e.problem]) from None


def write_first_config(path: Path) -> None:
    """The default file of a first run, 0640."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, FIRST_RUN.encode(), 0o640)
    except OSError as e:
        raise not_written(path, e, "name a place for the configuration with --config FILE") from None


def not_written(path: Path, error: OSError, advice: str) -> SetupError | CommandFailed:
    """Return the error of a start that could not make this file or folder; after a NotDone, room is enough."""
    if error.errno in (ENOSPC, EDQUOT):
        return CommandFailed(f"{path} cannot be made: the disk is full. Make room, then start again.")
    return SetupError(f"{path} cannot be made ({error.strerror}); {advice}.")


@contextmanager
def removed_on_failure(paths: Sequence[Path]) -> Iterator[None]:
    """Remove those of the files that this block made, in this order, if it fails; older files stay as they are."""
    absent = [path for path in paths if not path.exists()]
    try:
        yield
    except BaseException:
        with suppress(OSError):
            for path in absent:
                path.unlink(missing_ok=True)
        raise


def write_whole(path: Path, content: bytes, mode: int) -> None:
    """There whole or not at all, and on disk before this returns, with exactly this mode whatever the umask."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    part.unlink(missing_ok=True)  # of a start that was cut off: a container's process has the same number each time
    with removed_on_failure([part]):
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        with open(descriptor, "wb") as file:
            os.fchmod(descriptor, mode)
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        part.replace(path)
    sync_folder(path.parent)


def open_data(folder: Path) -> None:
    """Make the data folder, 0700, or see that it can be used."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        state = folder.stat()
    except FileExistsError:
        raise SetupError(f"{folder} is not a folder; name another with --data DIR.") from None
    except OSError as e:
        raise not_written(folder, e, "name another data folder with --data DIR") from None
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        raise SetupError(f"The data folder {folder} cannot be written; name another with --data DIR, or give it to us.")
    if state.st_mode & 0o077:
        _close_to_others(folder, state)


def _close_to_others(folder: Path, state: os.stat_result) -> None:
    """Only a folder that is plainly gamed's own is changed: --data may name somebody's home by mistake."""
    ours = state.st_uid == os.geteuid() and not state.st_mode & S_ISVTX
    if ours and ((folder / AUTH_DB).exists() or not any(folder.iterdir())):
        folder.chmod(0o700)
    else:
        warn(f"others can look into the data folder; close it with: chmod 700 {folder}")
