"""What one look at a slot asks and shows (PROTOCOL 4.2)."""

from collections.abc import Awaitable, Sequence
from typing import IO, Protocol

from msgspec import Struct

from gamed.http_rules.conditions import Conditions, Outcome, Representation
from gamed.http_rules.ranges import ByteRange
from gamed.saves.rules import SlotView
from gamed.saves.version import Version


class Look(Struct, frozen=True):
    """A GET or HEAD."""

    slot: str
    conditions: Conditions
    whole: bool
    """The bytes are asked for too."""
    range: str | None = None
    """The Range header."""
    version: int | None = None
    """One of the history; None: the current one."""


class Sight(Struct, frozen=True):
    """A slot at one instant, and what the conditions say about it."""

    view: SlotView
    target: Version | None = None
    """What was looked at: the current version, or the one asked for. None when there is no such."""
    last: Version | None = None
    """What an empty slot held when it was deleted."""
    base: Version | None = None
    """The version that If-Match names."""
    outcome: Outcome = Outcome.PROCEED
    current: Representation | None = None
    data: bytes | None = None
    """The bytes, when asked for and small."""
    damaged: bool = False
    """The bytes are not those that were acknowledged."""

    def __repr__(self) -> str:
        """Not the bytes."""
        return f"<Sight {self.outcome.name} {self.target}>"


class Parts(Protocol):
    """Bytes that are read piece by piece, where there is no room for a copy; closed by the reader."""

    @property
    def part_bytes(self) -> int:
        """The size of every part but the last."""

    def part(self, n: int) -> Awaitable[bytes]: ...

    def close(self) -> None: ...


Content = bytes | IO[bytes] | Parts


class Reading(Struct, frozen=True):
    """What a GET or HEAD found. `content` is None when it is not modified or only the head was asked for."""

    version: Version
    modified: bool
    part: ByteRange | None = None
    """What of the bytes is asked for; None: all."""
    content: Content | None = None

    def __repr__(self) -> str:
        """Not the bytes."""
        return f"<Reading {self.version}>"


class Past(Struct, frozen=True):
    """Everything kept of a slot, newest first."""

    view: SlotView
    versions: Sequence[Version]
