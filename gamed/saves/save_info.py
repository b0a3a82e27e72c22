"""How a version is shown to clients: SaveInfo of PROTOCOL 4, and what lists and refusals add to it."""

from collections.abc import Sequence

from msgspec import DecodeError
from msgspec.json import decode

from gamed.instants import rfc3339
from gamed.saves.cursor import Cursor
from gamed.saves.entry import Listing, SlotEntry
from gamed.saves.history import expires_ms
from gamed.saves.limits import SaveLimits
from gamed.saves.version import Version
from gamed.store import StoreCorrupt


def save_info(version: Version) -> dict[str, object]:
    """The members of SaveInfo; a delete has null for what only bytes have."""
    body = version.body
    return {
        "slot": version.slot,
        "version": version.version,
        "etag": str(version.entity_tag) if body else None,
        "size": body.size if body else 0,
        "sha256": body.sha256.hex() if body else None,
        "content_type": body.ctype if body else None,
        "modified": rfc3339(version.created_ms),
        "meta": _meta(body.meta) if body and body.meta is not None else None,
    }


def _meta(text: str) -> object:
    """Return the Save-Meta object; StoreCorrupt when the stored text is none."""
    try:
        return decode(text)
    except DecodeError:
        raise StoreCorrupt("the stored Save-Meta of a version is not JSON") from None


def version_info(version: Version) -> dict[str, object]:
    """The same in a history: how it came to be, and on top of what."""
    return {**save_info(version), "kind": version.kind, "parent": version.parent}


def side(version: Version | None) -> dict[str, object] | None:
    """One side of a disagreement: SaveInfo and where its bytes are; null when there is none."""
    return None if version is None else {**save_info(version), "href": href(version)}


def href(version: Version) -> str:
    """The path of exactly this version; slots need no escaping."""
    return f"/game/saves/{version.slot}/versions/{version.version}"


def disagreement(
    slot: str, base: Version | None, current: Version | None, yours: Version | None, dropped: str | None = None
) -> dict[str, object]:
    """What a 412 adds: the version named, the current one, and the refused bytes as they are kept, or why not."""
    sides: dict[str, object] = {"slot": slot, "base": side(base), "current": side(current)}
    sides["yours"] = side(yours)
    return sides if dropped is None else {**sides, "yours_dropped": dropped}


def listed(listing: Listing) -> dict[str, object]:
    """The body of `GET /game/saves`."""
    body: dict[str, object] = {
        "cursor": str(listing.cursor),
        "saves": [entry_info(slot) for slot in listing.entries or ()],
    }
    return {**body, "reset": True} if listing.reset else body


def committed(cursor: Cursor, slots: Sequence[Version | SlotEntry]) -> dict[str, object]:
    """The body of a commit's answer: the slots in its order, each as it is now; a deleted one as in the list."""
    saves = [save_info(slot) if isinstance(slot, Version) else entry_info(slot) for slot in slots]
    return {"cursor": str(cursor), "saves": saves}


def entry_info(slot: SlotEntry) -> dict[str, object]:
    """A slot in a list, also one that was deleted."""
    if slot.head is not None:
        return {**save_info(slot.head), "conflicts": list(slot.conflicts)}
    return {"slot": slot.slot, "deleted": rfc3339(slot.deleted_ms or 0), "version": slot.removed_by}


def remembered(limits: SaveLimits, slot: str, head: int | None, versions: Sequence[Version]) -> dict[str, object]:
    """The body of the versions list; `versions` are newest first."""
    entries = []
    for version in versions:
        ends_ms = expires_ms(limits, version, head, versions)
        expires = None if ends_ms is None else rfc3339(ends_ms)
        entries.append({**version_info(version), "expires": expires})
    return {"slot": slot, "versions": entries}
