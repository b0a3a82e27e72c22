"""What is to be published, what that would do, and what was done."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field

from gamed.assets.release import AssetFile
from gamed.assets.scanning import Found


class Order(Struct, frozen=True):
    """What is to be published, and how."""

    folder: Path
    channel: str
    note: str = ""
    meta: Mapping[str, object] = field(default_factory=dict)
    types: Mapping[str, str] = field(default_factory=dict)
    """Media types by suffix, before gamed's own."""
    hidden: bool = False
    """Names that begin with a dot, too."""
    repair: bool = False
    """Read what is in the store already, and write it anew where it is damaged."""


class Plan(Struct, frozen=True):
    """What publishing would do."""

    files: Mapping[str, AssetFile]
    new: Mapping[str, Found]
    """By SHA-256: the objects that the store does not have, and a file with their bytes."""
    hidden: Sequence[str]

    @property
    def bytes(self) -> int:
        return sum(file.size for file in self.files.values())

    @property
    def new_bytes(self) -> int:
        return sum(found.size for found in self.new.values())


class Published(Struct, frozen=True):
    """What was done."""

    plan: Plan
    release: str | None
    """None when it was only tried."""
    before: str | None = None
    """What the channel pointed at; the same when nothing was new."""
    past_lost: bool = False
