"""What is asked of the store in one transaction, and what comes of it (PROTOCOL 4.1)."""

from msgspec import Struct

from gamed.saves.condition import Condition
from gamed.saves.limits import Usage
from gamed.saves.rules import WRITES, Removal, Verdict
from gamed.saves.version import Body, Version
from gamed.structs import hides


class Entry(Struct, frozen=True):
    """The authenticated player of a write request, and their saves when the request head arrived."""

    player_id: str
    epoch: str
    """Of the saves as they were then; erasing them draws another one."""
    usage: Usage = Usage()


@hides("data")
class WriteOrder(Struct, frozen=True):
    """A PUT whose bytes are all here. Everything random or timed comes along: the transaction may run twice."""

    entry: Entry
    slot: str
    condition: Condition
    body: Body
    now_ms: int
    new_epoch: str
    """For a first write; every other one has its shelf's."""
    data: bytes | None = None
    """The bytes of a small body."""
    appended: int | None = None
    """The blob that a larger body was appended as."""
    checked: int | None = None
    """A blob of the player that was seen to hold exactly these bytes."""


class NeedsBytes(Struct, frozen=True):
    """Nothing was changed: the bytes are not in the store, or nobody has checked the blob that should hold them."""

    known: int | None


class Written(Struct, frozen=True):
    """A PUT was judged, and carried out where the rule says so."""

    verdict: Verdict
    current: Version | None
    created: bool = False
    """The slot held nothing before."""
    base: Version | None = None
    """The version that the condition names, if it is kept."""
    yours: Version | None = None
    """The refused bytes, as they are kept now."""
    dropped: bool = False
    """The refused bytes found no room."""

    @property
    def changed(self) -> bool:
        """Check whether the slot has one version more: a current one, or a copy of the refused bytes."""
        return self.verdict.rule in WRITES or (self.verdict.keeps_copy and self.yours is not None)

    def took(self, blob_id: int) -> bool:
        """Whether an appended blob is wanted."""
        return any(version is not None and version.blob_id == blob_id for version in (self.current, self.yours))


class RestoreOrder(Struct, frozen=True):
    """Make an old version current again."""

    entry: Entry
    slot: str
    version: int
    condition: Condition
    now_ms: int


class DismissOrder(Struct, frozen=True):
    """Let go of a conflict copy."""

    entry: Entry
    slot: str
    version: int


class DeleteOrder(Struct, frozen=True):
    """A DELETE."""

    entry: Entry
    slot: str
    condition: Condition
    now_ms: int


class Removed(Struct, frozen=True):
    """A DELETE was judged, and carried out where it may be."""

    removal: Removal
    current: Version | None = None
    base: Version | None = None
    last: Version | None = None
    """What the slot held when it was deleted."""
