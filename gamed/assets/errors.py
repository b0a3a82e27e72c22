"""What is not there, and what is there but is not as it was written (PROTOCOL 5)."""


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


class AssetsDamaged(AssetsError):
    """A file of the store that is not as gamed wrote it; `gamed assets verify` names them all."""


class ManifestMalformed(AssetsDamaged):
    """Bytes that are no manifest of a release."""


class PointerMalformed(AssetsDamaged):
    """Bytes that do not say where a channel points."""


class AssetsUnreadable(AssetsError):
    """The system refuses to read the store: a right is missing, a disk fails."""
