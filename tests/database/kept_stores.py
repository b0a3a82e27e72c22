"""Stores of each number that a schema has had, made by the gamed of that time with `tests.database.make_store`."""

import json
import tarfile
from collections.abc import Mapping
from pathlib import Path
from re import compile
from typing import Any

from msgspec import Struct

from gamed.database.connection import AUTH, STATE
from tests.database.make_store import FOLDER

_NAME = compile(r"auth([0-9]+)-state([0-9]+)")


class KeptStore(Struct, frozen=True):
    """One archive; its files are configuration, data folder, a backup of each engine, and what they have."""

    archive: Path

    @property
    def name(self) -> str:
        return self.archive.name.removesuffix(".tar.xz")

    @property
    def numbers(self) -> Mapping[str, int]:
        """Return the number of each schema."""
        match = _NAME.fullmatch(self.name)
        assert match is not None, self.archive
        return {AUTH: int(match[1]), STATE: int(match[2])}

    def unpack(self, folder: Path) -> dict[str, Any]:
        """Write the files into a folder, which is made; return what the store has."""
        with tarfile.open(self.archive) as tar:
            tar.extractall(folder)  # our own file
        (folder / "data").chmod(0o700)
        found: dict[str, Any] = json.loads((folder / "expected.json").read_text("utf-8"))
        return found


def kept_stores() -> list[KeptStore]:
    """Return all kept stores."""
    return [KeptStore(path) for path in sorted(FOLDER.glob("*.tar.xz"))]


def backup_in(folder: Path, engine: str) -> Path:
    """Return the only backup of `sqlite` or `postgresql` in an unpacked store."""
    [found] = (folder / engine).iterdir()
    return found
