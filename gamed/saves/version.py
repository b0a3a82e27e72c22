"""One version of a save, as it is kept (PROTOCOL 4)."""

from enum import StrEnum

from msgspec import Struct

from gamed.http_rules.tags import EntityTag


class Kind(StrEnum):
    """How a version came to be."""

    WRITE = "write"
    RESTORE = "restore"
    CONFLICT = "conflict"
    DELETE = "delete"


class Body(Struct, frozen=True):
    """What a client wants kept: 32 bytes of SHA-256, bytes in all, media type, Save-Meta as sent."""

    sha256: bytes
    size: int
    ctype: str
    meta: str | None = None


class Version(Struct, frozen=True):
    """One row of a slot's history; instants are epoch milliseconds."""

    slot: str
    version: int
    parent: int | None
    """The version it was written on top of."""
    parent_tag: str | None
    """That version's entity-tag without quotes, as the client named it."""
    kind: Kind
    blob_id: int | None
    """None for a delete."""
    body: Body | None
    """None for a delete."""
    created_ms: int
    retired_ms: int | None = None
    """When it stopped being current."""

    @property
    def size(self) -> int:
        return self.body.size if self.body else 0

    @property
    def tag(self) -> str:
        """The entity-tag without quotes; a delete has the bare version."""
        return tag_of(self.version, self.body.sha256) if self.body else str(self.version)

    @property
    def entity_tag(self) -> EntityTag:
        return EntityTag(self.tag)


def tag_of(version: int, sha256: bytes) -> str:
    """`9-9f86d081884c7d65`: the version, and the first 16 hex digits of the bytes' SHA-256."""
    return f"{version}-{sha256[:8].hex()}"


def version_number(text: str) -> int:
    """As it stands in a path; what is no number of any version is 0."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 and text[0] != "0" else 0


def version_in(tag: str) -> int | None:
    """The version that a tag speaks of, or None when it is not one of ours."""
    number, dash, digest = tag.partition("-")
    ours = bool(dash) and number.isascii() and number.isdigit() and len(number) <= 18 and len(digest) == 16
    return int(number) if ours else None
