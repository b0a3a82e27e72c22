"""Stored bytes that are not what was acknowledged: what is left to offer (PROTOCOL 4.2)."""

from collections.abc import Awaitable
from typing import Protocol

from gamed.saves.errors import CorruptBlob
from gamed.saves.save_info import side
from gamed.saves.sight import Past
from gamed.saves.version import Version
from gamed.store import BlobCorrupt, BlobGone, StoreCorrupt


class Checker(Protocol):
    """Hashes stored bytes again: BlobGone or BlobCorrupt, or StoreCorrupt where SQLite cannot read them."""

    def check(self, blob_id: int) -> Awaitable[None]: ...


async def damage(checker: Checker, version: Version, past: Past) -> CorruptBlob:
    """The refusal to give this version's bytes, after a search for the newest whose bytes are good."""
    good = await _newest_good(checker, past, {version.blob_id})
    advice = (
        f"Version {good.version} is the newest that is good." if good else "No older version is good."
    ) + " If your game still has the bytes, PUT them again: that repairs the save."
    members = {"slot": version.slot, "version": version.version, "newest_good": side(good)}
    return CorruptBlob(f"The stored bytes of version {version.version} are damaged. {advice}", members)


async def _newest_good(checker: Checker, past: Past, bad: set[int | None]) -> Version | None:
    for version in past.versions:
        if version.blob_id is None or version.blob_id in bad:
            continue
        try:
            await checker.check(version.blob_id)
        except (BlobCorrupt, BlobGone, StoreCorrupt):
            bad.add(version.blob_id)
        else:
            return version
    return None
