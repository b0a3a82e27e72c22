"""How a version is shown to clients: SaveInfo of PROTOCOL 4, and what lists and refusals add to it.

What judged changes come to for the client: the version that is current, or a typed refusal (PROTOCOL 4.1).

The body of `GET /game/` (PROTOCOL 4.2).

Stored bytes that are not what was acknowledged: what is left to offer (PROTOCOL 4.2).
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence

from msgspec import DecodeError
from msgspec.json import decode

from gamed.database.errors import BlobCorrupt, BlobNotFound, DatabaseCorrupt
from gamed.http.conditional import Conditions
from gamed.saves.commands import Change, DeleteResult, ReadRequest, SlotSnapshot, VersionHistory, WriteResult
from gamed.saves.errors import (
    ConflictError,
    CorruptBlob,
    DeletedConflict,
    PreconditionRequired,
    SaveDeleted,
    SaveError,
    SaveNotFound,
    Superseded,
    VersionConflict,
    VersionGone,
    VersionProtected,
    WeakValidator,
)
from gamed.saves.limits import SaveLimits
from gamed.saves.model import Cursor, Listing, SavesSummary, SlotEntry, Version
from gamed.saves.retention import expires_ms
from gamed.saves.write_rules import Condition, DeleteDecision, WriteRule
from gamed.timestamps import rfc3339


def save_info(version: Version) -> dict[str, object]:
    """The members of SaveInfo; a delete has null for what only bytes have."""
    body = version.content
    return {
        "slot": version.slot,
        "version": version.version,
        "etag": str(version.entity_tag) if body else None,
        "size": body.size if body else 0,
        "sha256": body.sha256.hex() if body else None,
        "content_type": body.content_type if body else None,
        "modified": rfc3339(version.created_ms),
        "meta": _meta(body.meta) if body and body.meta is not None else None,
    }


def _meta(text: str) -> object:
    """Return the Save-Meta object; StoreCorrupt when the stored text is none."""
    try:
        return decode(text)
    except DecodeError:
        raise DatabaseCorrupt("the stored Save-Meta of a version is not JSON") from None


def version_info(version: Version) -> dict[str, object]:
    """The same in a history: how it came to be, and on top of what."""
    return {**save_info(version), "kind": version.kind, "parent": version.parent}


def conflict_side(version: Version | None) -> dict[str, object] | None:
    """One side of a disagreement: SaveInfo and where its bytes are; null when there is none."""
    return None if version is None else {**save_info(version), "href": href(version)}


def href(version: Version) -> str:
    """The path of exactly this version; slots need no escaping."""
    return f"/game/saves/{version.slot}/versions/{version.version}"


def conflict_members(
    slot: str, base: Version | None, current: Version | None, yours: Version | None, dropped: str | None = None
) -> dict[str, object]:
    """What a 412 adds: the version named, the current one, and the refused bytes as they are kept, or why not."""
    sides: dict[str, object] = {"slot": slot, "base": conflict_side(base), "current": conflict_side(current)}
    sides["yours"] = conflict_side(yours)
    return sides if dropped is None else {**sides, "yours_dropped": dropped}


def list_response(listing: Listing) -> dict[str, object]:
    """The body of `GET /game/saves`."""
    body: dict[str, object] = {
        "cursor": str(listing.cursor),
        "saves": [entry_info(slot) for slot in listing.entries or ()],
    }
    return {**body, "reset": True} if listing.reset else body


def commit_response(cursor: Cursor, slots: Sequence[Version | SlotEntry]) -> dict[str, object]:
    """The body of a commit's answer: the slots in its order, each as it is now; a deleted one as in the list."""
    saves = [save_info(slot) if isinstance(slot, Version) else entry_info(slot) for slot in slots]
    return {"cursor": str(cursor), "saves": saves}


def entry_info(slot: SlotEntry) -> dict[str, object]:
    """A slot in a list, also one that was deleted."""
    if slot.current is not None:
        return {**save_info(slot.current), "conflicts": list(slot.conflicts)}
    return {"slot": slot.slot, "deleted": rfc3339(slot.deleted_ms or 0), "version": slot.tombstone_version}


def version_list(limits: SaveLimits, slot: str, head: int | None, versions: Sequence[Version]) -> dict[str, object]:
    """The body of the versions list; `versions` are newest first."""
    entries = []
    for version in versions:
        ends_ms = expires_ms(limits, version, head, versions)
        expires = None if ends_ms is None else rfc3339(ends_ms)
        entries.append({**version_info(version), "expires": expires})
    return {"slot": slot, "versions": entries}


_REFUSED = {WriteRule.W5_SUPERSEDED, WriteRule.W6_CONFLICT, WriteRule.W7_NEVER_SEEN}
REASONS: Mapping[type[SaveError], str] = {
    VersionConflict: "version_conflict",
    DeletedConflict: "deleted",
    WeakValidator: "weak_validator",
    Superseded: "superseded",
}
"""What each entry of a refused commit says of its slot: the code that its PUT or DELETE would have had."""
NO_ROOM = "history_bytes"
"""Why refused bytes were not kept: the limit that left no room."""


def write_error(slot: str, condition: Condition, written: WriteResult) -> SaveError | None:
    """Why a PUT was not carried out; None when it was."""
    if written.decision.rule is WriteRule.W3_UNCONDITIONAL:
        return PreconditionRequired(_unconditional(written.current))
    if written.decision.rule not in _REFUSED:
        return None
    dropped = NO_ROOM if written.dropped else None
    sides = conflict_members(slot, written.base, written.current, written.yours, dropped)
    return _conflict(written, condition)(_explained(written, condition), sides)


def restore_error(slot: str, condition: Condition, written: WriteResult) -> SaveError | None:
    """Why an old version was not made current; None when it was, now or before. The version itself stays kept."""
    rule, current = written.decision.rule, written.current
    if rule is WriteRule.W3_UNCONDITIONAL:
        return PreconditionRequired(_unconditional(current))
    if rule not in _REFUSED:
        return None
    sides = conflict_members(slot, written.base, current, written.yours)
    if rule is WriteRule.W5_SUPERSEDED:
        return Superseded(
            "These bytes were made current in time and something newer since. Nothing was restored.", sides
        )
    if condition.weak:
        return WeakValidator(_WEAK, sides)
    if current is None:
        return DeletedConflict("The save was deleted since. To bring it back, restore with If-None-Match: *.", sides)
    return VersionConflict(
        "Another version is current, so nothing was restored. Look at it, then restore with its etag in If-Match.",
        sides,
    )


def delete_error(slot: str, condition: Condition, outcome: DeleteResult) -> SaveError | None:
    """Why a DELETE was not carried out; None when it was, now or before."""
    match outcome.decision:
        case DeleteDecision.DELETES | DeleteDecision.ALREADY_DONE:
            return None
        case DeleteDecision.NEVER_SEEN:
            return not_found_error(slot)
        case DeleteDecision.ALREADY_DELETED:
            return deleted_error(slot, outcome.last)
        case DeleteDecision.UNCONDITIONAL:
            return PreconditionRequired(_unconditional(outcome.current))
        case DeleteDecision.CONFLICT:
            sides = conflict_members(slot, outcome.base, outcome.current, None)
            if condition.weak:
                return WeakValidator(_WEAK, sides)
            return VersionConflict(
                "Another version is current, so nothing was deleted. Look at it, then delete it by its etag.", sides
            )


def commit_error(outcomes: Sequence[tuple[Change, WriteResult | DeleteResult]], entries: int) -> ConflictError:
    """Why nothing of a commit was carried out: of its `entries`, these do not fit what is current.

    Where all have the same reason it is the whole's too.
    """
    refusals = [_refusal_of_change(change, outcome) for change, outcome in outcomes]
    kinds = {type(refusal) for refusal in refusals}
    conflicts = [{**refusal.members, "code": REASONS[type(refusal)]} for refusal in refusals]
    return (kinds.pop() if len(kinds) == 1 else VersionConflict)(
        f"Nothing was changed: of {entries} entries {len(conflicts)} do not fit what is current, see conflicts. Choose "
        "for each, then commit all again with the etags of current.",
        {"conflicts": conflicts},
    )


def _refusal_of_change(change: Change, outcome: WriteResult | DeleteResult) -> ConflictError:
    """A delete of nothing is a disagreement here: the commit was refused, not the slot looked for."""
    if isinstance(outcome, WriteResult):
        refusal = write_error(change.slot, change.condition, outcome)
    else:
        refusal = delete_error(change.slot, change.condition, outcome)
    if isinstance(refusal, ConflictError):
        return refusal
    kind = DeletedConflict if isinstance(refusal, SaveDeleted) else VersionConflict
    return kind(str(refusal), conflict_members(change.slot, outcome.base, outcome.current, None))


def read_error(slot: str, conditions: Conditions, snapshot: SlotSnapshot) -> SaveError:
    """Why a GET with If-Match or If-Unmodified-Since gives no bytes."""
    sides = conflict_members(slot, snapshot.base, snapshot.state.current, None)
    if conditions.if_match and any(tag.weak for tag in conditions.if_match.listed):
        return WeakValidator(_WEAK, sides)
    return VersionConflict("Another version is current; read it without If-Match or If-Unmodified-Since.", sides)


def unreadable_error(request: ReadRequest, snapshot: SlotSnapshot) -> SaveError:
    """Why there are no bytes to look at."""
    if not snapshot.state.exists:
        return not_found_error(request.slot)
    if request.version is None:
        return deleted_error(request.slot, snapshot.last)
    return (
        version_gone_error(request.slot, request.version)
        if snapshot.target is None
        else no_bytes_error(snapshot.target)
    )


def not_found_error(slot: str) -> SaveNotFound:
    return SaveNotFound(
        "This slot never held a save. GET /game/saves lists what there is; PUT makes a new one.", {"slot": slot}
    )


def version_gone_error(slot: str, number: int) -> VersionGone:
    return VersionGone(
        f"Version {number} is not kept. GET /game/saves/{slot}/versions lists what is.",
        {"slot": slot, "version": number},
    )


def no_bytes_error(version: Version) -> SaveDeleted:
    """A delete is a version too, of nothing."""
    earlier = f"; version {version.parent} is what it deleted" if version.parent else ""
    return SaveDeleted(
        f"Version {version.version} is a delete and holds no bytes{earlier}.",
        {"slot": version.slot, "last": None},
    )


def protected_error(version: Version) -> VersionProtected:
    return VersionProtected(
        f"Version {version.version} is part of the history, which prunes itself; only conflict copies can be "
        "dismissed. To empty the slot, DELETE the save.",
        {"slot": version.slot, "version": version.version},
    )


def deleted_error(slot: str, last: Version | None) -> SaveDeleted:
    """An empty slot; the member `last` shows what it held."""
    detail = f"This save was deleted. GET /game/saves/{slot}/versions lists what is kept of it; "
    return SaveDeleted(
        f"{detail}PUT with If-None-Match: * writes a new one.", {"slot": slot, "last": conflict_side(last)}
    )


def _conflict(written: WriteResult, condition: Condition) -> type[ConflictError]:
    if written.decision.rule is WriteRule.W5_SUPERSEDED:
        return Superseded
    if condition.weak:
        return WeakValidator
    if written.decision.rule is WriteRule.W6_CONFLICT and written.current is None:
        return DeletedConflict
    return VersionConflict


def _explained(written: WriteResult, condition: Condition) -> str:
    """What happened, then what became of the bytes."""
    if written.decision.rule is WriteRule.W5_SUPERSEDED:
        return "These bytes were stored in time and something newer since. Take the current version and go on from it."
    if condition.weak:
        happened = _WEAK
    elif written.decision.rule is WriteRule.W7_NEVER_SEEN:
        return (
            "This slot never held a save on this server, so there is no such version. Nothing was stored: "
            "to create the save, send If-None-Match: *."
        )
    elif written.current is None:
        happened = "The save was deleted since. To bring it back with these bytes, send If-None-Match: *."
    else:
        happened = "Another version is current. Read it, merge or choose, then write again with its etag in If-Match."
    return f"{happened} {_kept(written)}"


def _kept(written: WriteResult) -> str:
    if written.yours is not None:
        return f"Your bytes are kept as version {written.yours.version}."
    return "Your bytes were not kept: your history has no room." if written.dropped else "Nothing was stored."


def _unconditional(current: Version | None) -> str:
    if current is None:
        return "This save was deleted. To write it again, send If-None-Match: *."
    return (
        "This slot holds a save. Say which version you have seen with If-Match: and its etag, "
        f"now {current.entity_tag}; If-Match: * stands for whatever is there."
    )


_WEAK = "The entity-tag is weak (W/): a proxy between may have changed it. Send the etag without W/."


def summary_response(
    player_id: str, owner: bool, summary: SavesSummary, limits: SaveLimits, now_ms: int
) -> dict[str, object]:
    """Return the player, the server's time, the cursor and usage of the player's saves, and the limits."""
    usage = summary.usage
    return {
        "player": {"id": player_id, "owner": owner},
        "time": rfc3339(now_ms),
        "epoch": summary.cursor.epoch,
        "cursor": str(summary.cursor),
        "usage": {"slots": usage.slots, "bytes": usage.bytes, "history_bytes": usage.history_bytes},
        "limits": _limits(limits),
    }


def _limits(limits: SaveLimits) -> dict[str, object]:
    return {
        "save_bytes": limits.save_bytes,
        "slots": limits.slots,
        "bytes": limits.bytes,
        "history_bytes": limits.history_bytes,
        "meta_bytes": limits.meta_bytes,
        "commit_writes": limits.commit_writes,
        "writes_per_minute": limits.writes_per_minute,
        "wait_seconds": limits.wait_seconds,
        "keep_versions": limits.keep_versions,
        "keep_days": limits.keep_days,
    }


Check = Callable[[int], Awaitable[None]]
"""Hashes the bytes of a blob again; raises BlobGone, BlobCorrupt, or StoreCorrupt where SQLite cannot read them."""


async def corrupt_blob_error(check: Check, version: Version, past: VersionHistory) -> CorruptBlob:
    """Return the error for damaged bytes; it names the newest version whose bytes are good."""
    good = await _newest_good(check, past, {version.blob_id})
    advice = (
        f"Version {good.version} is the newest that is good." if good else "No older version is good."
    ) + " If your game still has the bytes, PUT them again: that repairs the save."
    members = {"slot": version.slot, "version": version.version, "newest_good": conflict_side(good)}
    return CorruptBlob(f"The stored bytes of version {version.version} are damaged. {advice}", members)


async def _newest_good(check: Check, past: VersionHistory, bad: set[int | None]) -> Version | None:
    for version in past.versions:
        if version.blob_id is None or version.blob_id in bad:
            continue
        try:
            await check(version.blob_id)
        except (BlobCorrupt, BlobNotFound, DatabaseCorrupt):
            bad.add(version.blob_id)
        else:
            return version
    return None
