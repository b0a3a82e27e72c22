"""JSON of responses about saves, and the errors that explain a rejected request (docs/protocol.md: Saves)."""

from collections.abc import Awaitable, Callable, Mapping, Sequence

from msgspec import DecodeError
from msgspec.json import decode

from gamed.config.game import LIMITS, SaveLimits
from gamed.database.errors import BlobCorrupt, BlobNotFound, DatabaseCorrupt
from gamed.http.conditional import Conditions
from gamed.saves import errors
from gamed.saves.commands import Change, DeleteResult, ReadRequest, SlotSnapshot, VersionHistory, WriteResult
from gamed.saves.model import Cursor, Listing, SavesSummary, SlotEntry, Version
from gamed.saves.write_rules import Condition, DeleteDecision, WriteRule
from gamed.timestamps import rfc3339


def save_info(version: Version) -> dict[str, object]:
    """Return the members of SaveInfo; in a delete those that describe bytes are null."""
    content = version.content
    return {
        "slot": version.slot,
        "version": version.version,
        "etag": version.etag if content else None,
        "size": content.size if content else 0,
        "sha256": content.sha256.hex() if content else None,
        "content_type": content.content_type if content else None,
        "modified": rfc3339(version.created_ms),
        "meta": _decode_meta(content.meta) if content and content.meta is not None else None,
        "device": version.device,
    }


def _decode_meta(text: str) -> object:
    """Return the Save-Meta object; raise DatabaseCorrupt if the stored text is not JSON."""
    try:
        return decode(text)
    except DecodeError:
        raise DatabaseCorrupt("the stored Save-Meta of a version is not JSON") from None


def version_info(version: Version) -> dict[str, object]:
    """Return the members of a version in a history: SaveInfo with its kind and parent."""
    return {**save_info(version), "kind": version.kind, "parent": version.parent}


def conflict_side(version: Version | None) -> dict[str, object] | None:
    """Return one side of a conflict: SaveInfo and the path of its bytes; None if there is no version."""
    if version is None:
        return None
    # the name of a slot needs no escaping
    return {**save_info(version), "href": f"/game/saves/{version.slot}/versions/{version.version}"}


def conflict_members(
    slot: str, base: Version | None, current: Version | None, yours: Version | None, dropped: str | None = None
) -> dict[str, object]:
    """Return the members of a 412: the named version, the current one, and the refused bytes or why they are lost."""
    sides: dict[str, object] = {"slot": slot, "base": conflict_side(base), "current": conflict_side(current)}
    sides["yours"] = conflict_side(yours)
    return sides if dropped is None else {**sides, "yours_dropped": dropped}


def list_response(listing: Listing) -> dict[str, object]:
    """Return the body of `GET /game/saves`."""
    flags = {"more": listing.more, "reset": listing.reset, "expired": listing.expired}
    saves = [entry_info(slot) for slot in listing.entries or ()]
    return {"cursor": str(listing.cursor), "saves": saves, **{name: True for name, is_set in flags.items() if is_set}}


def commit_response(cursor: Cursor, slots: Sequence[Version | SlotEntry]) -> dict[str, object]:
    """Return the body of a commit's response: its slots in order, each as it is now."""
    saves = [save_info(slot) if isinstance(slot, Version) else entry_info(slot) for slot in slots]
    return {"cursor": str(cursor), "saves": saves}


def entry_info(slot: SlotEntry) -> dict[str, object]:
    """Return a slot as in a list; it may be deleted, or, only in lists for the owner, damaged."""
    if slot.current is not None:
        return {**save_info(slot.current), "conflicts": list(slot.conflicts)}
    if slot.damaged:
        return {"slot": slot.slot, "damaged": True}
    return {"slot": slot.slot, "deleted": rfc3339(slot.deleted_ms or 0), "version": slot.tombstone_version}


def version_list(limits: SaveLimits, slot: str, history: VersionHistory) -> dict[str, object]:
    entries = []
    for version in history.versions:
        ends_ms = history.retention.expires_ms(limits, version)
        expires = None if ends_ms is None else rfc3339(ends_ms)
        entries.append({**version_info(version), "expires": expires})
    body: dict[str, object] = {"slot": slot, "versions": entries}
    return {**body, "more": True} if history.more else body


def summary_response(
    player: Mapping[str, object], summary: SavesSummary, limits: SaveLimits, now_ms: int
) -> dict[str, object]:
    """Return the player, the server's time, the cursor and usage of the player's saves, and the limits."""
    usage = summary.usage
    return {
        "player": player,
        "time": rfc3339(now_ms),
        "epoch": summary.cursor.epoch,
        "cursor": str(summary.cursor),
        "usage": {"slots": usage.slots, "bytes": usage.bytes, "history_bytes": usage.history_bytes},
        "limits": {name: getattr(limits, name) for name, limit in LIMITS.items() if limit.in_overview},
    }


_CONFLICTS = {WriteRule.W5_SUPERSEDED, WriteRule.W6_CONFLICT, WriteRule.W7_NEVER_USED}
REASONS: Mapping[type[errors.SaveError], str] = {
    errors.VersionConflict: "version_conflict",
    errors.DeletedConflict: "deleted",
    errors.WeakValidator: "weak_validator",
    errors.Superseded: "superseded",
}
"""The `code` of each entry of a rejected commit: that of its own PUT or DELETE."""


def write_error(slot: str, condition: Condition, written: WriteResult) -> errors.SaveError | None:
    """Return the error of a rejected PUT; None if it succeeded."""
    if written.decision.rule is WriteRule.W3_UNCONDITIONAL:
        return errors.PreconditionRequired(_unconditional(written.current))
    if written.decision.rule not in _CONFLICTS:
        return None
    dropped = "history_bytes" if written.dropped else None  # the limit that left no space for the refused bytes
    sides = conflict_members(slot, written.base, written.current, written.yours, dropped)
    return _conflict_type(written, condition)(_explain_conflict(written, condition), sides)


def restore_error(slot: str, condition: Condition, written: WriteResult) -> errors.SaveError | None:
    """Return the error of a rejected restore; None if it succeeded now or before. It deletes no version."""
    rule, current = written.decision.rule, written.current
    if rule is WriteRule.W3_UNCONDITIONAL:
        return errors.PreconditionRequired(_unconditional(current))
    if rule not in _CONFLICTS:
        return None
    sides = conflict_members(slot, written.base, current, written.yours)
    if rule is WriteRule.W5_SUPERSEDED:
        return errors.Superseded(
            "These bytes were made current in time and something newer since. Nothing was restored.", sides
        )
    if condition.weak:
        return errors.WeakValidator(_WEAK, sides)
    if current is None:
        return errors.DeletedConflict(
            "The save was deleted since. To bring it back, restore with If-None-Match: *.", sides
        )
    return errors.VersionConflict(
        "Another version is current, so nothing was restored. Look at it, then restore with its etag in If-Match.",
        sides,
    )


def delete_error(slot: str, condition: Condition, outcome: DeleteResult) -> errors.SaveError | None:
    """Return the error of a rejected DELETE; None if it succeeded now or before."""
    match outcome.decision:
        case DeleteDecision.DELETES | DeleteDecision.ALREADY_DONE:
            return None
        case DeleteDecision.NEVER_USED:
            return not_found_error(slot)
        case DeleteDecision.ALREADY_DELETED:
            return deleted_error(slot, outcome.last)
        case DeleteDecision.UNCONDITIONAL:
            return errors.PreconditionRequired(_unconditional(outcome.current))
        case DeleteDecision.CONFLICT:
            sides = conflict_members(slot, outcome.base, outcome.current, None)
            if condition.weak:
                return errors.WeakValidator(_WEAK, sides)
            return errors.VersionConflict(
                "Another version is current, so nothing was deleted. Look at it, then delete it by its etag.", sides
            )


def commit_error(outcomes: Sequence[tuple[Change, WriteResult | DeleteResult]], entries: int) -> errors.ConflictError:
    """Return the error of a rejected commit: of its `entries` these do not fit the current versions.

    If all have the same type of error the commit has it, too.
    """
    refusals = [_change_error(change, outcome) for change, outcome in outcomes]
    kinds = {type(error) for error in refusals}
    conflicts = [{**error.members, "code": REASONS[type(error)]} for error in refusals]
    return (kinds.pop() if len(kinds) == 1 else errors.VersionConflict)(
        f"Nothing was changed: of {entries} entries {len(conflicts)} do not fit what is current, see conflicts. Choose "
        "for each, then commit all again with the etags of current.",
        {"conflicts": conflicts},
    )


def _change_error(change: Change, outcome: WriteResult | DeleteResult) -> errors.ConflictError:
    """Return the error of one entry; the delete of an empty slot is a conflict here, not a 404 or 410."""
    if isinstance(outcome, WriteResult):
        error = write_error(change.slot, change.condition, outcome)
    else:
        error = delete_error(change.slot, change.condition, outcome)
    if isinstance(error, errors.ConflictError):
        return error
    kind = errors.DeletedConflict if isinstance(error, errors.SaveDeleted) else errors.VersionConflict
    return kind(str(error), conflict_members(change.slot, outcome.base, outcome.current, None))


def read_error(slot: str, conditions: Conditions, snapshot: SlotSnapshot) -> errors.SaveError:
    """Return the error of a GET whose If-Match or If-Unmodified-Since is false."""
    sides = conflict_members(slot, snapshot.base, snapshot.state.current, None)
    if conditions.if_match and any(tag.weak for tag in conditions.if_match.listed):
        return errors.WeakValidator(_WEAK, sides)
    return errors.VersionConflict("Another version is current; read it without If-Match or If-Unmodified-Since.", sides)


def unreadable_error(request: ReadRequest, snapshot: SlotSnapshot) -> errors.SaveError:
    """Return the error of a GET of a version that does not exist or has no bytes."""
    if not snapshot.state.exists:
        return not_found_error(request.slot)
    if request.version is None:
        return deleted_error(request.slot, snapshot.last)
    return (
        version_gone_error(request.slot, request.version)
        if snapshot.target is None
        else no_bytes_error(snapshot.target)
    )


def not_found_error(slot: str) -> errors.SaveNotFound:
    return errors.SaveNotFound(
        "This slot has no save, and none is kept that it had. GET /game/saves lists all; PUT makes a new one.",
        {"slot": slot},
    )


def version_gone_error(slot: str, number: int) -> errors.VersionGone:
    return errors.VersionGone(
        f"Version {number} is not kept. GET /game/saves/{slot}/versions lists what is.",
        {"slot": slot, "version": number},
    )


def no_bytes_error(version: Version) -> errors.SaveDeleted:
    """Return the error for a version without bytes, which is a delete."""
    earlier = f"; version {version.parent} is what it deleted" if version.parent else ""
    return errors.SaveDeleted(
        f"Version {version.version} is a delete and holds no bytes{earlier}.", {"slot": version.slot, "last": None}
    )


def protected_error(version: Version) -> errors.VersionProtected:
    return errors.VersionProtected(
        f"Version {version.version} is part of the history, which prunes itself; only conflict copies can be "
        "dismissed. To empty the slot, DELETE the save.",
        {"slot": version.slot, "version": version.version},
    )


def deleted_error(slot: str, last: Version | None) -> errors.SaveDeleted:
    """Return the error for an empty slot; the member `last` is the version that was deleted."""
    detail = f"This save was deleted. GET /game/saves/{slot}/versions lists what is kept of it; "
    return errors.SaveDeleted(
        f"{detail}PUT with If-None-Match: * writes a new one.", {"slot": slot, "last": conflict_side(last)}
    )


def _conflict_type(written: WriteResult, condition: Condition) -> type[errors.ConflictError]:
    if written.decision.rule is WriteRule.W5_SUPERSEDED:
        return errors.Superseded
    if condition.weak:
        return errors.WeakValidator
    if written.decision.rule is WriteRule.W6_CONFLICT and written.current is None:
        return errors.DeletedConflict
    return errors.VersionConflict


def _explain_conflict(written: WriteResult, condition: Condition) -> str:
    """Return the detail of a 412: what happened, then where the refused bytes are."""
    if written.decision.rule is WriteRule.W5_SUPERSEDED:
        return "These bytes were stored in time and something newer since. Take the current version and go on from it."
    if condition.weak:
        happened = _WEAK
    elif written.decision.rule is WriteRule.W7_NEVER_USED:
        return (
            "This slot has no save on this server, and none is kept that it had. Nothing was stored: "
            "to create the save, send If-None-Match: *."
        )
    elif written.current is None:
        happened = "The save was deleted since. To bring it back with these bytes, send If-None-Match: *."
    else:
        happened = "Another version is current. Read it, merge or choose, then write again with its etag in If-Match."
    if written.yours is not None:
        return f"{happened} Your bytes are kept as version {written.yours.version}."
    kept = "Your bytes were not kept: your history has no room." if written.dropped else "Nothing was stored."
    return f"{happened} {kept}"


def _unconditional(current: Version | None) -> str:
    if current is None:
        return "This save was deleted. To write it again, send If-None-Match: *."
    return (
        "This slot holds a save. Say which version you have seen with If-Match: and its etag, "
        f"now {current.etag}; If-Match: * stands for whatever is there."
    )


_WEAK = "The entity-tag is weak (W/): a proxy between may have changed it. Send the etag without W/."


Check = Callable[[int], Awaitable[None]]
"""Hashes the bytes of a blob again; raises BlobNotFound, BlobCorrupt, or DatabaseCorrupt if SQLite cannot read it."""


async def corrupt_blob_error(check: Check, version: Version, history: VersionHistory) -> errors.CorruptBlob:
    """Return the error for damaged bytes; it names the newest version whose bytes are good."""
    good = await _newest_good(check, history, {version.blob_id})
    advice = (
        f"Version {good.version} is the newest that is good." if good else "No older version is good."
    ) + " If your game still has the bytes, PUT them again: that repairs the save."
    members = {"slot": version.slot, "version": version.version, "newest_good": conflict_side(good)}
    return errors.CorruptBlob(f"The stored bytes of version {version.version} are damaged. {advice}", members)


async def _newest_good(check: Check, history: VersionHistory, bad: set[int | None]) -> Version | None:
    for version in history.versions:
        if version.blob_id is None or version.blob_id in bad:
            continue
        try:
            await check(version.blob_id)
        except (BlobCorrupt, BlobNotFound, DatabaseCorrupt):
            bad.add(version.blob_id)
        else:
            return version
    return None
