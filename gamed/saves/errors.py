"""The errors of saves (docs/protocol.md: Errors); their texts say what a developer or player can do."""

from collections.abc import Mapping


class SaveError(Exception):
    """A rejected request; it changed no current version.

    `members` are added to the problem details of the response.
    """

    def __init__(self, detail: str, members: Mapping[str, object] | None = None) -> None:
        super().__init__(detail)
        self.members: Mapping[str, object] = members or {}


class TokenUnread(Exception):
    """The transaction of a write could not read auth.db, and changed nothing; the read queue may still do so."""


class InvalidSlot(SaveError):
    """The name is not one that a slot may have."""


class InvalidSaveRequest(SaveError):
    """A header or parameter is invalid, and has no problem code of its own."""


class InvalidCommit(SaveError):
    """Entries of a commit are invalid; the member `errors` has a JSON pointer (RFC 6901) and a detail for each."""


class InvalidCondition(SaveError):
    """The request has two conditions, an unquoted entity-tag, or a condition that its method does not allow."""


class BadMeta(SaveError):
    """Save-Meta is not one line of ASCII holding a small JSON object."""


class BadRangePut(SaveError):
    """A PUT has Content-Range, but a save is written whole."""


class DigestMismatch(SaveError):
    """The received bytes are not those of Content-Digest or of the path, or Content-Digest is malformed."""


class ContentEncoded(SaveError):
    """The body has a Content-Encoding; the server stores bytes as they are."""


class LengthRequired(SaveError):
    """The request has neither Content-Length nor chunked transfer coding."""


class SaveTooLarge(SaveError):
    """The save is larger than the limit `save_bytes`."""


class QuotaExceeded(SaveError):
    """The player's current saves would be larger than the limit `bytes`."""


class TooManySlots(SaveError):
    """The player would have more saves than the limit `slots`."""


class BlankSave(SaveError):
    """The body has no bytes, or only zeros, as after a crash while the game was saving."""


class SaveNotFound(SaveError):
    """The slot was never used."""


class SaveDeleted(SaveError):
    """The save in this slot was deleted."""


class BlobNotStaged(SaveError):
    """The player has no bytes with this hash."""


class BlobMissing(SaveError):
    """A commit names bytes that are not staged; the member `missing` lists them."""


class VersionGone(SaveError):
    """The version was pruned, or never existed."""


class VersionProtected(SaveError):
    """The version is not a conflict copy, so the player cannot dismiss it."""


class Erased(SaveError):
    """The player's saves were erased after this request began."""


class PreconditionRequired(SaveError):
    """The slot holds or held a save, and the request has no condition."""


class ConflictError(SaveError):
    """The condition is false; the members show the sides of the conflict."""


class VersionConflict(ConflictError):
    """Another version is current."""


class DeletedConflict(ConflictError):
    """The save was deleted since the client read it."""


class WeakValidator(ConflictError):
    """The condition has a weak entity-tag."""


class Superseded(ConflictError):
    """The bytes were stored by an earlier attempt of the client, and replaced since."""


class CorruptBlob(SaveError):
    """The stored bytes are not those that the server acknowledged."""
