"""What is not there, and what is there but is not as it was written (PROTOCOL 5)."""

from collections.abc import Sequence

from gamed.assets.paths import Refused


class AssetsError(Exception):
    """Something of the assets that cannot be had."""


class NotFound(AssetsError):
    """There is no such thing."""


class ChannelNotFound(NotFound):
    """Nobody published to a channel of this name."""


class ReleaseNotFound(NotFound):
    """Never published, or deleted since."""


class ObjectNotFound(NotFound):
    """No bytes with this hash are kept."""


class PathNotFound(NotFound):
    """The release has no such file."""


class NotCurrent(AssetsError):
    """Other bytes are at this address than the request wants."""


class AssetsDamaged(AssetsError):
    """A file of the store that is not as gamed wrote it; `gamed assets verify` names them all."""


class ManifestMalformed(AssetsDamaged):
    """Bytes that are no manifest of a release."""


class PointerMalformed(AssetsDamaged):
    """Bytes that do not say where a channel points."""


class ObjectMissing(AssetsDamaged):
    """Bytes that a manifest names are not there."""


class AssetsUnreadable(AssetsError):
    """The system refuses to read the store: a right is missing, a disk fails."""


class TooManyOpen(AssetsUnreadable):
    """As many files as may be are open already; in a moment there will be room. Players read this."""

    def __init__(self) -> None:
        super().__init__("The server has as many files open as it may. Try again in a moment.")


class AssetsBusy(AssetsError):
    """Another command works on the same folder."""


class AssetsFull(AssetsError):
    """The disk has no room for what is to be stored; nothing was changed."""


class NoPreviousRelease(AssetsError):
    """A channel pointed at nothing before that is still kept."""


class PublishRefused(AssetsError):
    """Files that no release can have; nothing was changed."""

    def __init__(self, refused: Sequence[Refused]) -> None:
        super().__init__(f"{len(refused)} refused")
        self.refused = refused
