"""The configuration file and the data folder are found (SPEC 2.1), read, and made on the first run."""

import os
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from errno import EDQUOT, EINVAL, ENOSPC
from pathlib import Path
from stat import S_ISREG, S_ISVTX

from msgspec import Struct

from gamed.cli.errors import CommandFailed, SetupError, warn
from gamed.config import game
from gamed.config.authentication import FILE_NAME
from gamed.config.errors import ConfigError
from gamed.config.json_reader import JsonSyntaxError, decode
from gamed.config.settings import DATABASE_NOTE
from gamed.disk import sync_folder

PACKAGE = Path(__file__).absolute().parent.parent
BUILD = ".build"
MAX_FILE_BYTES = 256 * 1024
MOST_CATALOGUES = 100
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
"""The configuration file that a first run writes."""


class Paths(Struct, frozen=True):
    """The absolute paths of the configuration file and of the data folder; neither need exist."""

    config: Path
    data: Path

    @property
    def game(self) -> Path:
        """Return the path of game.json, which lies beside the configuration."""
        return self.config.with_name(game.FILE_NAME)


LAYOUT = Paths(Path("/etc/gamed") / FILE_NAME, Path("/var/lib/gamed"))
"""Where the owner's guide and the units of etc/ have the files of a server that stays."""


def find(environ: Mapping[str, str], config: str | None, data: str | None, *, development: bool = False) -> Paths:
    """Return the paths by the options, else by the environment, else beside the executable; "" counts as not given.

    `development` means started as `python -m gamed`, which in a checkout uses its `.build` folder.
    """
    checkout = _checkout(development=development)
    file = Path(config) if config else next(_config_files(environ, checkout))
    folder = data or environ.get("GAMED_DATA") or environ.get("STATE_DIRECTORY", "").partition(":")[0]
    if folder:
        return Paths(file.absolute(), Path(folder).absolute())
    in_checkout = checkout is not None and file.is_relative_to(checkout / BUILD)
    return Paths(file.absolute(), (checkout / BUILD if checkout and in_checkout else file.absolute().parent) / "data")


def find_by_environment(environ: Mapping[str, str]) -> Paths:
    """Return the paths that this program uses without any option."""
    return find(environ, None, None, development=_is_module())


def all_places(environ: Mapping[str, str]) -> Iterator[Paths]:
    """Yield every place that find_by_environment() knows, also those that another one precedes."""
    checkout = _checkout(development=_is_module())
    variables = (environ.get("GAMED_DATA", ""), *environ.get("STATE_DIRECTORY", "").split(":"))
    folders = [Path(folder).absolute() for folder in variables if folder]
    folders += [checkout / BUILD / "data"] if checkout else []
    for file in _config_files(environ, checkout):
        yield from (Paths(file.absolute(), folder) for folder in (*folders, file.absolute().parent / "data"))


def _checkout(*, development: bool) -> Path | None:
    return PACKAGE.parent if development and (PACKAGE.parent / "setup.py").is_file() else None


def _is_module() -> bool:
    """Return whether this program was started as `python -m gamed`."""
    return Path(sys.argv[0]).name == "__main__.py"


def _config_files(environ: Mapping[str, str], checkout: Path | None) -> Iterator[Path]:
    """Yield the configuration files that are used without an option, the first of which counts."""
    if environ.get("GAMED_CONFIG"):
        yield Path(environ["GAMED_CONFIG"])
    if environ.get("CONFIGURATION_DIRECTORY"):
        yield _of_several(environ["CONFIGURATION_DIRECTORY"])
    if checkout is not None:
        yield checkout / BUILD / "config" / FILE_NAME
    yield _scripts() / FILE_NAME


def command_line(places: Paths, *words: str) -> str:
    """Return a command for the operator to type: with the options that make it use these places, if it needs any."""
    development = _is_module()
    options: list[str] = []
    if find(os.environ, None, None, development=development) != places:
        options = ["--config", str(places.config)]
        if find(os.environ, str(places.config), None, development=development) != places:
            options += ["--data", str(places.data)]
    return shlex.join([*_program(development=development), *options, *words])


def _program(*, development: bool) -> list[str]:
    """Return the words with which the operator started this program, else the console script beside its Python."""
    if development:
        return [sys.executable, "-m", "gamed"]
    started = sys.argv[0]
    if Path(started).name != "gamed":  # such as twistd
        started = str(_scripts() / "gamed")
    return ["gamed" if shutil.which("gamed") == started else started]


def _scripts() -> Path:
    from sysconfig import get_path  # late: it reads how Python was built

    return Path(get_path("scripts"))


def shipped(name: str) -> Path:
    """Return the path of a file of `etc/`: of the installed package, or of the checkout."""
    installed = PACKAGE / name
    return installed if installed.exists() else PACKAGE.parent / name


def virtual_environment(path: Path) -> Path | None:
    """Return the virtual environment that this path is in; None if it is in none."""
    return next((folder for folder in path.resolve().parents if (folder / "pyvenv.cfg").is_file()), None)


def _of_several(directories: str) -> Path:
    """Return the file in the first directory that has it, else in the first; systemd separates them by colons."""
    files = [Path(directory) / FILE_NAME for directory in directories.split(":")]
    return next((file for file in files if file.exists()), files[0])


def read_file(path: str) -> bytes:
    """Read at most MAX_FILE_BYTES and one more; raise OSError if the file cannot be read."""
    with open(path, "rb") as file:
        return file.read(MAX_FILE_BYTES + 1)


def read_regular(path: str) -> bytes:
    """Read a regular file like read_file(); raise OSError for any other, such as a pipe, which could block."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        if not S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(EINVAL, "it is not a regular file")
        return file.read(MAX_FILE_BYTES + 1)


def read_config(places: Paths) -> str | None:
    """Return the text of the configuration file; None on a first run, when no server has used the data folder."""
    text = _read_text(places.config)
    left = [path for path in (places.data / AUTH_DB, places.data / DATABASE_NOTE) if path.exists()]
    if text is None and left:
        raise SetupError(
            f"{places.config} is missing, but {left[0]} is there: this server was set up before. "
            "Put the file back (is a folder not mounted?), or name it with --config FILE."
        )
    return text


def read_game(places: Paths) -> str | None:
    """Return the text of game.json; None if there is no such file."""
    return _read_text(places.game)


def read_catalogues(places: Paths) -> Mapping[str, bytes]:
    """Return the owner's texts of pages by the names of their files, which lie beside the configuration.

    A file that cannot be read is as an empty one: what reads its texts names it.
    """
    found = {}
    for path in sorted(places.config.parent.glob("*.po"))[:MOST_CATALOGUES]:
        try:
            found[path.name] = read_regular(str(path))
        except OSError:
            found[path.name] = b""
    return found


def _read_text(path: Path) -> str | None:
    try:
        raw = read_file(str(path))
    except FileNotFoundError:
        return None
    except OSError as e:
        raise SetupError(f"{path} cannot be read ({e.strerror}). Name another with --config FILE.") from None
    if len(raw) > MAX_FILE_BYTES:
        raise SetupError(f"{path} is larger than {MAX_FILE_BYTES // 1024} KiB. Name the right file with --config FILE.")
    try:
        return decode(raw)
    except JsonSyntaxError as e:
        raise ConfigError(str(path), [e.problem]) from None


def write_first_config(path: Path) -> None:
    """Write the configuration file of a first run, with mode 0640."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, FIRST_RUN.encode(), 0o640)
    except OSError as e:
        raise not_written(path, e, "Name another place for the configuration with --config FILE") from None


def not_written(path: Path, error: OSError, advice: str) -> SetupError | CommandFailed:
    """Return the error of a start that could not make this file or folder: CommandFailed if the disk is full."""
    if error.errno in (ENOSPC, EDQUOT):
        return CommandFailed(f"{path} cannot be made: the disk is full. Make room, then start again.")
    return SetupError(f"{path} cannot be made ({error.strerror}). {advice}.")


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


def write_whole(
    path: Path, content: bytes, mode: int, owner: os.stat_result | None = None, *, group: int | None = None
) -> None:
    """Write a file completely or not at all, and to disk before this returns, with this mode whatever the umask is.

    With `owner` it has the user and the group of that state; with `group` it is this user's, and that group's.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}")
    part.unlink(missing_ok=True)  # of a start that was cut off: a container's process has the same number each time
    with removed_on_failure([part]):
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        with open(descriptor, "wb") as file:
            os.fchmod(descriptor, mode)
            if owner is not None:
                os.fchown(descriptor, owner.st_uid, owner.st_gid)
            if group is not None:
                os.fchown(descriptor, -1, group)
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        part.replace(path)
    sync_folder(path.parent)


@contextmanager
def opened_data(folder: Path) -> Iterator[None]:
    """Open the data folder like open_data(); if the block fails, remove the folders that this made and left empty."""
    absent = [each for each in (folder, *folder.parents) if not each.exists()]
    open_data(folder)
    try:
        yield
    except BaseException:
        with suppress(OSError):
            for each in absent:
                each.rmdir()
        raise


def open_data(folder: Path) -> None:
    """Make the data folder with mode 0700, or check that an existing one can be used."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        state = folder.stat()
    except FileExistsError:
        raise SetupError(f"{folder} is not a folder. Name another with --data DIR.") from None
    except OSError as e:
        raise not_written(folder, e, "Name another data folder with --data DIR") from None
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        raise SetupError(
            f"The data folder {folder} cannot be written. Name another with --data DIR, or make this user its owner."
        )
    if state.st_mode & 0o077:
        _close_to_others(folder, state)


def _close_to_others(folder: Path, state: os.stat_result) -> None:
    """Close a folder that is clearly gamed's own, else warn: --data may name a home directory by mistake."""
    ours = state.st_uid == os.geteuid() and not state.st_mode & S_ISVTX
    if ours and ((folder / AUTH_DB).exists() or not any(folder.iterdir())):
        folder.chmod(0o700)
    else:
        warn(f"other users can read the data folder. Close it with: chmod 700 {folder}")
