"""Stored bytes that are not what was acknowledged: what is left to offer (PROTOCOL 4.2)."""

from collections.abc import Awaitable, Callable

from gamed.saves.errors import CorruptBlob
from gamed.saves.save_info import side
from gamed.saves.sight import Past
from gamed.saves.version import Version
from gamed.store import BlobCorrupt, BlobGone, StoreCorrupt

Check = Callable[[int], Awaitable[None]]
"""Hashes the bytes of a blob again; raises BlobGone, BlobCorrupt, or StoreCorrupt where SQLite cannot read them."""


async def damage(check: Check, version: Version, past: Past) -> CorruptBlob:
    """Return the error for damaged bytes; it names the newest version whose bytes are good."""
    good = await _newest_good(check, past, {version.blob_id})
    advice = (
        f"Version {good.version} is the newest that is good." if good else "No older version is good."
    ) + " If your game still has the bytes, PUT them again: that repairs the save."
    members = {"slot": version.slot, "version": version.version, "newest_good": side(good)}
    return CorruptBlob(f"The stored bytes of version {version.version} are damaged. {advice}", members)


async def _newest_good(check: Check, past: Past, bad: set[int | None]) -> Version | None:
    for version in past.versions:
        if version.blob_id is None or version.blob_id in bad:
            continue
        try:
            await check(version.blob_id)
        except (BlobCorrupt, BlobGone, StoreCorrupt):
            bad.add(version.blob_id)
        else:
            return version
    return None
