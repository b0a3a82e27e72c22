"""Where the configuration file and the data folder are (SPEC 2.1): the first that is named or exists."""

import sysconfig
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from gamed.config import game
from gamed.config.authentication import FILE_NAME

PACKAGE = Path(__file__).absolute().parent.parent
BUILD = ".build"


class Places(Struct, frozen=True):
    """Absolute paths; neither need exist."""

    config: Path
    data: Path

    @property
    def game(self) -> Path:
        """The limits of saves and assets, beside the configuration."""
        return self.config.with_name(game.FILE_NAME)


def find(environ: Mapping[str, str], config: str | None, data: str | None, *, development: bool = False) -> Places:
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
        return Places(file.absolute(), Path(folder).absolute())
    in_checkout = checkout is not None and file.is_relative_to(checkout / BUILD)
    return Places(file.absolute(), (checkout / BUILD if checkout and in_checkout else file.absolute().parent) / "data")


def _of_several(directories: str) -> Path:
    """systemd separates them by colons: the first that holds the file, else the first."""
    files = [Path(directory) / FILE_NAME for directory in directories.split(":")]
    return next((file for file in files if file.exists()), files[0])
