"""The key of local mode when no master key is named: a file beside auth.db, for its owner only (SPEC 2.2)."""

import os
from base64 import b64encode
from itertools import chain, count
from pathlib import Path

from gamed.assets.disk import sync_folder
from gamed.cli.files import not_written, read_file, write_whole
from gamed.cli.refusal import Refusal, warn
from gamed.config.problems import Wrong
from gamed.config.sources import master_key
from gamed.crypto import Secret

FILE_NAME = "auth.key"
RETIRED = "auth.key.retired"


def read(data: Path) -> Secret | None:
    """The key, or None when there is no such file."""
    path = data / FILE_NAME
    try:
        raw = read_file(str(path))
    except FileNotFoundError:
        return None
    except OSError as e:
        raise Refusal(f"The key file {path} cannot be read ({e.strerror}).") from None
    try:
        key = master_key(raw.removesuffix(b"\n"))
    except Wrong as wrong:
        said = str(wrong).replace("the master key", "it")
        raise Refusal(f"The key file {path} cannot be used; put it back from where you keep it: {said}") from None
    _close_to_others(path)
    return key


def write(data: Path, key: Secret) -> None:
    """On disk before anything else is written with it."""
    try:
        write_whole(data / FILE_NAME, b64encode(key.reveal()) + b"\n", 0o600)
    except OSError as e:
        raise not_written(data / FILE_NAME, e, "name another data folder with --data DIR") from None


def retire(data: Path) -> None:
    """Once auth.db is written with a master key: kept, for a backup of auth.db from before, as is any before it."""
    if (data / FILE_NAME).exists():
        names = chain([RETIRED], (f"{RETIRED}.{number}" for number in count(2)))
        (data / FILE_NAME).rename(next(data / name for name in names if not (data / name).exists()))
        sync_folder(data)


def _close_to_others(path: Path) -> None:
    state = path.stat()
    if state.st_mode & 0o077 and state.st_uid == os.geteuid():
        path.chmod(0o600)
        warn(f"others could read {path}; now only its owner can")
