"""A player's saves as one zip: a manifest and every version that is kept (PROTOCOL 4)."""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from hashlib import sha256
from pathlib import Path
from sqlite3 import Connection
from typing import Any, TypeVar
from zipfile import ZipFile

from gamed.cli.refusal import NotDone
from gamed.instants import rfc3339
from gamed.saves.save_info import save_info
from gamed.saves.version import Version
from gamed.storage import parts
from gamed.storage.state import slots, versions

T = TypeVar("T")
Run = Callable[[Callable[[Connection], T]], T]
MANIFEST = "manifest.json"


def kept_by(connection: Connection, player_id: str) -> list[Version]:
    """Everything of a player, slot by slot, newest first."""
    names = [entry.slot for entry in slots.changed(connection, player_id, 0)]
    return [version for slot in names for version in versions.history(connection, player_id, slot)]


def export(
    run: Run[Any], file: Path, player_id: str, wanted: Sequence[Version], now_ms: int
) -> Iterator[tuple[Version, bool]]:
    """Write a new file, for its owner's eyes only; gives each version, and whether its bytes were good.

    Each read is short, so that the service goes on beside it. What was pruned meanwhile is left out.
    """
    part = file.with_name(f".{file.name}.part")
    if file.exists():
        raise NotDone(f"{file} is there already; name another file.")
    descriptor = os.open(part, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        entries = []
        with open(descriptor, "w+b") as out, ZipFile(out, "w") as archive:
            for version in wanted:
                name = f"saves/{version.slot}/{version.version}" if version.body else None
                good = name is None or _copy(run, archive, name, version)
                entries.append({**_described(version), "file": name if good else None})
                yield version, good
            manifest = {"format": 1, "player": player_id, "exported": rfc3339(now_ms), "versions": entries}
            archive.writestr(MANIFEST, json.dumps(manifest, indent=2) + "\n")
            archive.close()
            out.flush()
            os.fsync(descriptor)
        part.rename(file)
    finally:
        part.unlink(missing_ok=True)


def _described(version: Version) -> dict[str, object]:
    return {**save_info(version), "kind": version.kind, "parent": version.parent}


def _copy(run: Run[Any], archive: ZipFile, name: str, version: Version) -> bool:
    """Whether the bytes are what they were; what is damaged is in the archive all the same, but not named."""
    digest, blob_id = sha256(), version.blob_id or 0
    with archive.open(name, "w") as target:
        for n in range(parts.count(version.size)):
            data = run(partial(parts.read_raw, blob_id=blob_id, n=n))
            if data is None:
                return False
            digest.update(data)
            target.write(data)
    return version.body is not None and digest.digest() == version.body.sha256
