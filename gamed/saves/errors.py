"""What a shelf of saves may say instead of yes (PROTOCOL 4); the text of each tells a person what to do.

`members` are further members of the answer; `retry_after` is in seconds.
"""

from collections.abc import Mapping


class SaveError(Exception):
    """A request about saves that was not carried out; nothing current was changed."""

    def __init__(self, detail: str, members: Mapping[str, object] | None = None) -> None:
        super().__init__(detail)
        self.members: Mapping[str, object] = members or {}


class InvalidSlot(SaveError):
    """Not a slot's name."""


class InvalidSaveRequest(SaveError):
    """A header or parameter that has no code of its own."""


class InvalidCommit(SaveError):
    """Entries of a commit that cannot be read; the member `errors` has a pointer (RFC 6901) and a detail for each."""


class InvalidCondition(SaveError):
    """Two conditions, an unquoted tag, or a condition that this method does not take."""


class BadMeta(SaveError):
    """Save-Meta is not one line of ASCII holding a small JSON object."""


class BadRangePut(SaveError):
    """A part of a save cannot be written."""


class DigestMismatch(SaveError):
    """Other bytes arrived than Content-Digest or the path says, or it says nothing readable."""


class ContentEncoded(SaveError):
    """The body is compressed; bytes are kept as they are."""


class LengthRequired(SaveError):
    """Neither Content-Length nor chunked."""


class SaveTooLarge(SaveError):
    """One save over `save_bytes`."""


class QuotaExceeded(SaveError):
    """All current saves of the player over `bytes`."""


class TooManySlots(SaveError):
    """A new slot over `slots`."""


class BlankSave(SaveError):
    """No bytes, or only zeros: what a crashed game leaves behind."""


class SaveNotFound(SaveError):
    """The slot never held anything."""


class SaveDeleted(SaveError):
    """The slot is empty now, and held something."""


class BlobNotStaged(SaveError):
    """There are no such bytes of this player."""


class BlobMissing(SaveError):
    """A commit names bytes that are not staged, or not any more; the member `missing` lists them."""


class VersionGone(SaveError):
    """The version was pruned, or there never was one of this number."""


class VersionProtected(SaveError):
    """Only a conflict copy can be dismissed."""


class Erased(SaveError):
    """The player's saves were erased after this request began."""


class PreconditionRequired(SaveError):
    """The slot holds or held something, and the request does not say what it knows of it."""


class ConflictError(SaveError):
    """The condition is false; the members show the sides of the disagreement."""


class VersionConflict(ConflictError):
    """Another version is current."""


class DeletedConflict(ConflictError):
    """The slot was deleted since."""


class WeakValidator(ConflictError):
    """A weak entity-tag was sent."""


class Superseded(ConflictError):
    """These bytes were written in time, and replaced since."""


class CorruptBlob(SaveError):
    """Stored bytes are not those that were acknowledged."""
