"""What judged changes come to for the client: the version that is current, or a typed refusal (PROTOCOL 4.1)."""

from collections.abc import Mapping, Sequence

from gamed.http_rules.conditions import Conditions
from gamed.saves.commit import Change
from gamed.saves.condition import Condition
from gamed.saves.errors import (
    DeletedConflict,
    PreconditionRequired,
    Refused,
    SaveDeleted,
    SaveError,
    SaveNotFound,
    Superseded,
    VersionConflict,
    VersionGone,
    VersionProtected,
    WeakValidator,
)
from gamed.saves.orders import Removed, Written
from gamed.saves.rules import Removal, Rule
from gamed.saves.save_info import disagreement, side
from gamed.saves.sight import Look, Sight
from gamed.saves.version import Version

_REFUSED = {Rule.W5_SUPERSEDED, Rule.W6_CONFLICT, Rule.W7_NEVER_SEEN}
REASONS: Mapping[type[SaveError], str] = {
    VersionConflict: "version_conflict",
    DeletedConflict: "deleted",
    WeakValidator: "weak_validator",
    Superseded: "superseded",
}
"""What each entry of a refused commit says of its slot: the code that its PUT or DELETE would have had."""
NO_ROOM = "history_bytes"
"""Why refused bytes were not kept: the limit that left no room."""


def refusal_of_write(slot: str, condition: Condition, written: Written) -> SaveError | None:
    """Why a PUT was not carried out; None when it was."""
    if written.verdict.rule is Rule.W3_UNCONDITIONAL:
        return PreconditionRequired(_unconditional(written.current))
    if written.verdict.rule not in _REFUSED:
        return None
    dropped = NO_ROOM if written.dropped else None
    sides = disagreement(slot, written.base, written.current, written.yours, dropped)
    return _conflict(written, condition)(_explained(written, condition), sides)


def refusal_of_restore(slot: str, condition: Condition, written: Written) -> SaveError | None:
    """Why an old version was not made current; None when it was, now or before. The version itself stays kept."""
    rule, current = written.verdict.rule, written.current
    if rule is Rule.W3_UNCONDITIONAL:
        return PreconditionRequired(_unconditional(current))
    if rule not in _REFUSED:
        return None
    sides = disagreement(slot, written.base, current, written.yours)
    if rule is Rule.W5_SUPERSEDED:
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


def refusal_of_removal(slot: str, condition: Condition, removed: Removed) -> SaveError | None:
    """Why a DELETE was not carried out; None when it was, now or before."""
    match removed.removal:
        case Removal.DELETES | Removal.ALREADY_DONE:
            return None
        case Removal.NEVER_SEEN:
            return not_found(slot)
        case Removal.ALREADY_DELETED:
            return gone(slot, removed.last)
        case Removal.UNCONDITIONAL:
            return PreconditionRequired(_unconditional(removed.current))
        case Removal.CONFLICT:
            sides = disagreement(slot, removed.base, removed.current, None)
            if condition.weak:
                return WeakValidator(_WEAK, sides)
            return VersionConflict(
                "Another version is current, so nothing was deleted. Look at it, then delete it by its etag.", sides
            )


def refusal_of_commit(outcomes: Sequence[tuple[Change, Written | Removed]], entries: int) -> Refused:
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


def _refusal_of_change(change: Change, outcome: Written | Removed) -> Refused:
    """A delete of nothing is a disagreement here: the commit was refused, not the slot looked for."""
    if isinstance(outcome, Written):
        refusal = refusal_of_write(change.slot, change.condition, outcome)
    else:
        refusal = refusal_of_removal(change.slot, change.condition, outcome)
    if isinstance(refusal, Refused):
        return refusal
    kind = DeletedConflict if isinstance(refusal, SaveDeleted) else VersionConflict
    return kind(str(refusal), disagreement(change.slot, outcome.base, outcome.current, None))


def refusal_of_reading(slot: str, conditions: Conditions, sight: Sight) -> SaveError:
    """Why a GET with If-Match or If-Unmodified-Since gives no bytes."""
    sides = disagreement(slot, sight.base, sight.view.head, None)
    if conditions.if_match and any(tag.weak for tag in conditions.if_match.listed):
        return WeakValidator(_WEAK, sides)
    return VersionConflict("Another version is current; read it without If-Match or If-Unmodified-Since.", sides)


def nothing_to_read(look: Look, sight: Sight) -> SaveError:
    """Why there are no bytes to look at."""
    if not sight.view.seen:
        return not_found(look.slot)
    if look.version is None:
        return gone(look.slot, sight.last)
    return version_gone(look.slot, look.version) if sight.target is None else no_bytes(sight.target)


def not_found(slot: str) -> SaveNotFound:
    return SaveNotFound(
        "This slot never held a save. GET /game/saves lists what there is; PUT makes a new one.", {"slot": slot}
    )


def version_gone(slot: str, number: int) -> VersionGone:
    return VersionGone(
        f"Version {number} is not kept. GET /game/saves/{slot}/versions lists what is.",
        {"slot": slot, "version": number},
    )


def no_bytes(version: Version) -> SaveDeleted:
    """A delete is a version too, of nothing."""
    earlier = f"; version {version.parent} is what it deleted" if version.parent else ""
    return SaveDeleted(
        f"Version {version.version} is a delete and holds no bytes{earlier}.",
        {"slot": version.slot, "last": None},
    )


def protected(version: Version) -> VersionProtected:
    return VersionProtected(
        f"Version {version.version} is part of the history, which prunes itself; only conflict copies can be "
        "dismissed. To empty the slot, DELETE the save.",
        {"slot": version.slot, "version": version.version},
    )


def gone(slot: str, last: Version | None) -> SaveDeleted:
    """An empty slot; the member `last` shows what it held."""
    detail = f"This save was deleted. GET /game/saves/{slot}/versions lists what is kept of it; "
    return SaveDeleted(f"{detail}PUT with If-None-Match: * writes a new one.", {"slot": slot, "last": side(last)})


def _conflict(written: Written, condition: Condition) -> type[Refused]:
    if written.verdict.rule is Rule.W5_SUPERSEDED:
        return Superseded
    if condition.weak:
        return WeakValidator
    if written.verdict.rule is Rule.W6_CONFLICT and written.current is None:
        return DeletedConflict
    return VersionConflict


def _explained(written: Written, condition: Condition) -> str:
    """What happened, then what became of the bytes."""
    if written.verdict.rule is Rule.W5_SUPERSEDED:
        return "These bytes were stored in time and something newer since. Take the current version and go on from it."
    if condition.weak:
        happened = _WEAK
    elif written.verdict.rule is Rule.W7_NEVER_SEEN:
        return (
            "This slot never held a save on this server, so there is no such version. Nothing was stored: "
            "to create the save, send If-None-Match: *."
        )
    elif written.current is None:
        happened = "The save was deleted since. To bring it back with these bytes, send If-None-Match: *."
    else:
        happened = "Another version is current. Read it, merge or choose, then write again with its etag in If-Match."
    return f"{happened} {_kept(written)}"


def _kept(written: Written) -> str:
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
