"""The errors of assets: something does not exist, or is not as it was written (docs/protocol.md: Assets)."""

from collections.abc import Sequence

from gamed.assets.paths import Refused


class AssetsError(Exception):
    """The base class of all errors of assets."""


class NotFound(AssetsError):
    """A channel, release or object that does not exist."""


class ChannelNotFound(NotFound):
    """A channel that does not exist."""


class ReleaseNotFound(NotFound):
    """A release that was never published, or was deleted."""


class ObjectNotFound(NotFound):
    """A hash of which no bytes are stored."""


class PathNotFound(NotFound):
    """A path that the release does not have."""


class NotCurrent(AssetsError):
    """A failed precondition: the representation is not the one that the request names."""


class AssetsDamaged(AssetsError):
    """A file of the store that is not as gamed wrote it; `gamed assets verify` lists all of them."""


class ManifestMalformed(AssetsDamaged):
    """A file that is not the manifest of a release."""


class PointerMalformed(AssetsDamaged):
    """A file that is not the pointer of a channel."""


class ObjectMissing(AssetsDamaged):
    """An object that a manifest names and that is not stored."""


class AssetsUnreadable(AssetsError):
    """A file of the store that the system refuses to read: a permission is missing, or a disk fails."""


class AssetsOpen(AssetsError):
    """Stored files that a group can read although only players may, and that this user cannot close."""


class AssetsReadOnly(AssetsError):
    """A folder of the store that this user cannot change; nothing was changed."""


class TooManyOpen(AssetsUnreadable):
    """A limit of open files that is reached for a moment. Players read this text."""

    def __init__(self) -> None:
        super().__init__("The server has as many files open as it may. Try again in a moment.")


class ChannelMoved(AssetsError):
    """A channel that points at another release than the caller expects; nothing was changed."""


class AssetsBusy(AssetsError):
    """A folder that another command works on."""


class AssetsFull(AssetsError):
    """A disk without enough space for the new files; nothing was changed."""


class NoPreviousRelease(AssetsError):
    """A channel without an earlier release that is still stored."""


class PublishRefused(AssetsError):
    """Files that a release cannot have; nothing was changed."""

    def __init__(self, refused: Sequence[Refused]) -> None:
        super().__init__(f"{len(refused)} refused")
        self.refused = refused
