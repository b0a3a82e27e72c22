"""The body of a commit, read entry by entry: what each wants of its slot (PROTOCOL 4.4)."""

import json
from collections.abc import Iterator, Sequence
from re import ASCII, compile
from typing import Final

from msgspec import Struct

from gamed.saves.commit import Change, Content
from gamed.saves.condition import Condition, deleting_condition, writing_condition
from gamed.saves.errors import BadMeta, BadPrecondition, InvalidCommit, InvalidSaveRequest, InvalidSlot
from gamed.saves.limits import SaveLimits
from gamed.saves.media_type import check_media_type
from gamed.saves.meta import check_meta
from gamed.saves.slots import check_slot

Flaw = tuple[str, str]
"""A JSON pointer (RFC 6901), and what is wrong there."""
_SHA256: Final = compile(r"[0-9a-f]{64}", ASCII)
_NEEDS_CONDITION = "needs if_match or if_none_match: what you know of the slot"


class Proposal(Struct):
    """One entry of a commit as the client sent it; an absent member is None."""

    slot: str
    if_match: str | None = None
    if_none_match: str | None = None
    sha256: str | None = None
    content_type: str | None = None
    meta: dict[str, object] | None = None
    delete: bool = False


def accept(proposals: Sequence[Proposal], limits: SaveLimits) -> tuple[Change, ...]:
    """What all entries want, in their order; InvalidCommit names everything that is wrong."""
    if not 1 <= len(proposals) <= limits.commit_writes:
        raise _invalid([("/writes", f"takes 1 to {limits.commit_writes} entries; there are {len(proposals)}")])
    flaws = list(_twice(proposals))
    changes = [_change(f"/writes/{n}", proposal, limits, flaws) for n, proposal in enumerate(proposals)]
    if flaws:
        raise _invalid(flaws)
    return tuple(change for change in changes if change is not None)


def sha256_in(text: str) -> bytes | None:
    """64 lower-case hex digits, as SaveInfo has them; None for anything else."""
    return bytes.fromhex(text) if _SHA256.fullmatch(text) else None


def _invalid(flaws: Sequence[Flaw]) -> InvalidCommit:
    listed = [{"pointer": pointer, "detail": detail} for pointer, detail in flaws]
    return InvalidCommit(f"{flaws[0][0]}: {flaws[0][1]}", {"errors": listed})


def _twice(proposals: Sequence[Proposal]) -> Iterator[Flaw]:
    first: dict[str, int] = {}
    for n, proposal in enumerate(proposals):
        if first.setdefault(proposal.slot, n) != n:
            yield (
                f"/writes/{n}/slot",
                f"is the slot of /writes/{first[proposal.slot]} too; a commit changes a slot once",
            )


def _change(at: str, proposal: Proposal, limits: SaveLimits, flaws: list[Flaw]) -> Change | None:
    """None when something is wrong, which is told in `flaws`."""
    known = len(flaws)
    try:
        check_slot(proposal.slot)
    except InvalidSlot as e:
        flaws.append((f"{at}/slot", str(e)))
    condition = _condition(at, proposal, flaws)
    content = None if proposal.delete else _content(at, proposal, limits, flaws)
    if proposal.delete:
        named = ("sha256", "content_type", "meta")
        flaws += [
            (f"{at}/{name}", "makes no sense beside delete") for name in named if getattr(proposal, name) is not None
        ]
    return Change(proposal.slot, condition, content) if condition and len(flaws) == known else None


def _condition(at: str, proposal: Proposal, flaws: list[Flaw]) -> Condition | None:
    if proposal.if_match is None and proposal.if_none_match is None:
        flaws.append((at, _NEEDS_CONDITION))
        return None
    read = deleting_condition if proposal.delete else writing_condition
    try:
        return read({"if-match": proposal.if_match, "if-none-match": proposal.if_none_match}.get)
    except BadPrecondition as e:
        at_fault = "if_match" if proposal.if_none_match is None else "if_none_match"
        flaws.append((f"{at}/{at_fault}", str(e)))
        return None


def _content(at: str, proposal: Proposal, limits: SaveLimits, flaws: list[Flaw]) -> Content | None:
    sha256 = None if proposal.sha256 is None else sha256_in(proposal.sha256)
    if sha256 is None:
        flaws.append((f"{at}/sha256", "takes the 64 lower-case hex digits that the bytes were staged by"))
    ctype = meta = None
    try:
        ctype = check_media_type(proposal.content_type)
    except InvalidSaveRequest as e:
        flaws.append((f"{at}/content_type", str(e)))
    try:
        line = None if proposal.meta is None else json.dumps(proposal.meta, separators=(",", ":"))
        meta = check_meta(line, limits.meta_bytes)
    except BadMeta as e:
        flaws.append((f"{at}/meta", str(e)))
    return Content(sha256, ctype, meta) if sha256 and ctype else None
