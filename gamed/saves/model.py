"""Values of saves: versions, slot entries, cursors, and the totals of a player (docs/protocol.md: Saves)."""

from collections.abc import Sequence
from enum import StrEnum
from re import ASCII, compile
from typing import Final

from msgspec import Struct

from gamed.crypto import Random, base64url
from gamed.http.conditional import EntityTag
from gamed.saves.errors import InvalidSaveRequest
from gamed.saves.limits import VERSION_BYTES, Usage, counted_bytes
from gamed.timestamps import CLOCKS_MS


class VersionKind(StrEnum):
    """The request that made a version: a PUT, a restore, a refused PUT, or a DELETE."""

    WRITE = "write"
    RESTORE = "restore"
    CONFLICT = "conflict"
    DELETE = "delete"


DEFAULT_MEDIA_TYPE: Final = "application/octet-stream"


class SaveContent(Struct, frozen=True):
    """The description of a save's bytes: SHA-256 (32 bytes), size, media type, and Save-Meta as the client sent it."""

    sha256: bytes
    size: int
    content_type: str
    meta: str | None = None

    @property
    def history_bytes(self) -> int:
        """Return the bytes that a version with this content counts in the history."""
        content_type = 0 if self.content_type == DEFAULT_MEDIA_TYPE else len(self.content_type)
        return counted_bytes(self.size, content_type, len(self.meta or ""))


class Version(Struct, frozen=True, kw_only=True):
    """One row of a slot's history; instants are epoch milliseconds."""

    slot: str
    version: int
    parent: int | None = None
    """The version that this one replaced; of a conflict copy, the version that the client named."""
    parent_tag: str | None = None
    """The entity-tag of the version that the client built on, without quotes."""
    kind: VersionKind
    blob_id: int | None = None
    """None for a delete."""
    content: SaveContent | None = None
    """None for a delete."""
    created_ms: int
    retired_ms: int | None = None
    """The instant at which this version stopped being current."""
    device: str | None = None
    """The device's own name at the time of the write, because sessions end sooner than versions."""

    @property
    def size(self) -> int:
        return self.content.size if self.content else 0

    @property
    def history_bytes(self) -> int:
        """Return the bytes that the version counts in the history once another is current."""
        return self.content.history_bytes if self.content else VERSION_BYTES

    @property
    def tag(self) -> str:
        """Return the entity-tag without quotes; that of a delete is the bare version number."""
        return tag_of(self.version, self.content.sha256) if self.content else str(self.version)

    @property
    def etag(self) -> str:
        """Return the entity-tag as in a header field."""
        return f'"{self.tag}"'

    @property
    def entity_tag(self) -> EntityTag:
        return EntityTag(self.tag)


ANY_VERSION: Final = 2**62
"""Above the number of each version."""


def tag_of(version: int, sha256: bytes) -> str:
    """Return a tag such as `9-9f86d081884c7d65`: the version and the first 16 hex digits of the SHA-256."""
    return f"{version}-{sha256[:8].hex()}"


def version_number(text: str) -> int:
    """Parse a version number from a path; return 0, which no version has, if the text is not one."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 and text[0] != "0" else 0


def version_of_tag(tag: str) -> int | None:
    """Return the version number in an entity-tag; return None if this server does not make such tags."""
    number, dash, digest = tag.partition("-")
    well_formed = bool(dash) and number.isascii() and number.isdigit() and len(number) <= 18 and len(digest) == 16
    return int(number) if well_formed else None


class SlotState(Struct, frozen=True):
    """A slot as the rules see it.

    `last_version` is the highest version number ever used, 0 in a slot that was never used. `tombstone` is the version
    of the DELETE that emptied the slot.
    """

    last_version: int = 0
    current: Version | None = None
    tombstone: Version | None = None

    @property
    def exists(self) -> bool:
        return self.last_version > 0

    @property
    def size(self) -> int | None:
        """Return the size of the current version in bytes; None for an empty slot."""
        return self.current.size if self.current else None


EPOCH_BYTES = 6
EPOCH_LENGTH = 8
"""Characters of a drawn epoch: EPOCH_BYTES in base64url."""
RUN_BYTES = 3
RUN_LENGTH = 6
"""Characters of the id of a run: RUN_BYTES in hexadecimal digits, because an epoch may have a hyphen."""
_CURSOR: Final = compile(r"([A-Za-z0-9_-]{1,32})\.([0-9]{1,18})", ASCII)
_AFTER_EPOCH: Final = compile(r"([0-9a-f]{6})?(?:-([0-9]{1,18}))?", ASCII)


class Cursor(Struct, frozen=True):
    """A player's position in the changes of their saves, such as `k3x9.1234`: the epoch and the number of a change.

    The epoch changes when earlier changes no longer exist: after an erase, and after a restored backup.
    """

    epoch: str
    seq: int
    begun: int = 0
    """After a page of a list of everything, the change up to which the client needs no slot that expired.

    Without it a client that reads the pages of old slots would look like one that missed what expired since, and
    would begin again with the first page, for ever. It is a part of the epoch's text, because the form of a cursor is
    in the protocol: `k3x9Ab_Q-1234.17`.
    """
    run: str = ""
    """The run of the server that made this change, or the one with the number `begun` if that is higher.

    It shows a database that went back in time: there another run has made that change. It is a part of the epoch's
    text, too, `k3x9Ab_Q5f01cc.17`, and empty in cursors of earlier releases and for changes that are too old.
    """

    def __str__(self) -> str:
        begun = f"-{self.begun}" if self.begun > self.seq else ""
        return f"{self.epoch}{self.run}{begun}.{self.seq}"

    @property
    def entity_tag(self) -> EntityTag:
        return EntityTag(str(self))

    @property
    def reached(self) -> int:
        """Return the highest change that the client may have seen."""
        return max(self.seq, self.begun)


EMPTY_CURSOR: Final = Cursor("0", 0)
"""The cursor of a player who never saved anything: the first write draws the epoch."""


def parse_cursor(text: str) -> Cursor:
    """Parse the cursor of an earlier response; raise InvalidSaveRequest."""
    match = _CURSOR.fullmatch(text)
    if match is None:
        raise InvalidSaveRequest("since takes the cursor of an earlier answer as it was; without it you get all.")
    rest = _AFTER_EPOCH.fullmatch(match[1], EPOCH_LENGTH)
    if rest is None:
        return Cursor(match[1], int(match[2]))
    return Cursor(match[1][:EPOCH_LENGTH], int(match[2]), int(rest[2] or 0), rest[1] or "")


def new_epoch(random: Random) -> str:
    return base64url(random(EPOCH_BYTES))


def new_run(random: Random) -> str:
    return random(RUN_BYTES).hex()


RUNS_KEPT = 16
RUN_BASE = 10**13
"""Is added to the number of a change in the stored text, so that it always has RUN_DIGITS digits."""
RUN_DIGITS = 14
RUNS_LENGTH = RUNS_KEPT * (RUN_LENGTH + RUN_DIGITS)


def run_at(runs: str, seq: int) -> str:
    """Return the run that made a change; return "" if that was before the runs that are kept.

    `runs` is the text in player_saves, the latest run first: the id of each, and the change before its first one.
    """
    for begin in range(0, len(runs), RUN_LENGTH + RUN_DIGITS):
        number = begin + RUN_LENGTH
        if int(runs[number : number + RUN_DIGITS]) - RUN_BASE < seq:
            return runs[begin:number]
    return ""


class SlotEntry(Struct, frozen=True):
    """A slot in a list: its current version and conflict copies, or when and by which version it was deleted."""

    slot: str
    current: Version | None
    conflicts: Sequence[int] = ()
    deleted_ms: int | None = None
    tombstone_version: int = 0
    damaged: bool = False
    """The row of the current version is lost. The slot is not deleted, and lists for clients leave it out."""
    kept: Version | None = None
    """The version of a deleted slot to restore, if it is kept; only lists for the player's account have it."""
    kept_until_ms: int = 0
    """When it expires, unless the history needs its room before."""


class Listing(Struct, frozen=True):
    """A player's saves at a cursor; `entries` is None if the client already has this cursor (If-None-Match)."""

    cursor: Cursor
    entries: Sequence[SlotEntry] | None
    reset: bool = False
    """The client asked for changes since a cursor that cannot be continued, so `entries` lists everything."""
    expired: bool = False
    """The list is reset only because slots expired: a slot that it lacks was deleted long ago."""
    more: bool = False
    """There are more entries; `cursor` is that of the last one here."""

    def has_changes(self, since: Cursor | None) -> bool:
        """Check whether a client that asked for changes since `since` learns anything from this list."""
        return self.entries is not None and self.cursor != since


class ExportedFile(Struct, frozen=True):
    """A file that an export has before the saves."""

    name: str
    data: bytes
    modified_ms: int

    def __repr__(self) -> str:
        """Leave out the bytes: a log must not have them."""
        return f"<ExportedFile {self.name}>"


FAST_MS: Final = 250
"""A small write and its batch mostly take less."""


class SavesSummary(Struct, frozen=True):
    """The totals of a player's saves, updated in the same transaction as each change."""

    cursor: Cursor = EMPTY_CURSOR
    usage: Usage = Usage()
    erased_ms: int | None = None
    """The instant at which the last erase ended, or began if it has not ended."""
    erasing: bool = False
    """An erase is still deleting rows; until it ends the player can write nothing."""
    write_arrival_ms: int = 0
    """The bucket of the player's changes that were committed (see gamed.rate_limit)."""
    expired_seq: int = 0
    """The latest change of a slot that expired: no list has it, so the changes since an older cursor are incomplete."""
    expired_version: int = 0
    """The highest version number of a slot that expired; a new slot begins above it, so that no etag comes twice."""
    runs: str = ""
    """The last runs of the server that made changes (see run_at())."""

    def cursor_at(self, seq: int, begun: int) -> Cursor:
        """Return the cursor after an earlier change, with `begun` as in Cursor."""
        return Cursor(self.cursor.epoch, seq, begun, run_at(self.runs, max(seq, begun)))

    def continues(self, since: Cursor) -> bool:
        """Check whether the saves of `since` became these ones.

        They did not if its epoch is another one or it is ahead, and if its last change is not the one with that number
        here. The second shows only by the run that made it, once later changes have taken the numbers again: the
        database went back to an earlier state, such as a virtual machine to a snapshot.
        """
        if since.epoch != self.cursor.epoch or since.reached > self.cursor.seq:
            return False
        return since.run == "" or run_at(self.runs, since.reached) in ("", since.run)

    def covers(self, since: Cursor) -> bool:
        """Check whether the server can list the changes after `since`.

        A client that knew nothing misses nothing, unless its own writes may have been erased or have expired.
        """
        if since == EMPTY_CURSOR:
            return self.erased_ms is None and self.expired_seq == 0
        return self.continues(since) and since.reached >= self.expired_seq

    def has_expired_since(self, since: Cursor) -> bool:
        """Check whether the changes after `since` cannot be listed only because slots expired."""
        if self.covers(since):
            return False
        return self.erased_ms is None if since == EMPTY_CURSOR else self.continues(since)

    def erased_during(self, epoch: str, began_ms: int, now_ms: int) -> bool:
        """Check, by the clock, whether a request began before an erase ended that came after the saves had this epoch.

        One that lasts for longer than FAST_MS counts as begun CLOCKS_MS before: another machine may have erased.
        """
        if self.erasing:
            return True
        # One that began between the instant which the erase stores and its COMMIT counts as after it: the erase was not
        # acknowledged yet. So does one that lasted for a moment, whatever the other clock says: with a margin, writes
        # would be refused that begin after the acknowledgement.
        ended_ms, margin_ms = self.erased_ms, CLOCKS_MS if now_ms - began_ms > FAST_MS else 0
        return epoch != self.cursor.epoch and ended_ms is not None and ended_ms > began_ms - margin_ms

    def erased_since(self, epoch: str) -> bool:
        """Check, without a clock, whether an erase began after a request read this epoch."""
        if self.erasing:
            return True
        return epoch != self.cursor.epoch and (self.erased_ms is not None or self.cursor == EMPTY_CURSOR)
