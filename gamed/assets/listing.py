"""What is published: channels, releases, and what they take of the disk together (PROTOCOL 5)."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from gamed.assets import channels, marks
from gamed.assets.errors import AssetsError
from gamed.assets.pointer import Pointer
from gamed.assets.release import Manifest, parse_manifest
from gamed.assets.store import AssetStore
from gamed.assets.verifying import stored


class Listed(Struct, frozen=True):
    """One release."""

    release: str
    manifest: Manifest
    channels: Sequence[str]
    """That point at it."""
    own_bytes: int
    """That no other release has: what deleting it would free."""
    unneeded_ms: int | None
    """Since when no channel's past needs it; None while one does."""


class Overview(Struct, frozen=True):
    """The whole folder; `releases` newest first."""

    channels: Mapping[str, Pointer]
    releases: Sequence[Listed]
    damaged: Sequence[str]
    objects: int
    bytes: int
    """Of all objects on disk."""

    @property
    def release_bytes(self) -> int:
        """What all releases would take if they shared nothing."""
        return sum(each.manifest.size for each in self.releases)


def overview(store: AssetStore, keep: int, now_ms: int) -> Overview:
    """As it is now; AssetsUnreadable."""
    damaged: list[str] = []
    pointers = channels.readable(store)
    damaged += [f"channel {channel}" for channel in store.channels() if channel not in pointers]
    manifests: dict[str, Manifest] = {}
    for release in store.releases():
        try:
            manifests[release] = parse_manifest(store.manifest(release))
        except AssetsError:
            damaged.append(f"release {release}")
    since = marks.marked(channels.read_marks(store), manifests, channels.needed(store, pointers, keep), now_ms)
    sizes = stored(store)
    own = _own_bytes(manifests)
    releases = [
        Listed(
            release,
            manifest,
            [channel for channel, pointer in pointers.items() if pointer.release == release],
            own[release],
            since.get(release),
        )
        for release, manifest in manifests.items()
    ]
    releases.sort(key=lambda each: each.manifest.published_ms, reverse=True)
    return Overview(pointers, releases, damaged, len(sizes), sum(sizes.values()))


def _own_bytes(manifests: Mapping[str, Manifest]) -> dict[str, int]:
    users: dict[str, set[str]] = {}
    for release, manifest in manifests.items():
        for file in manifest.files.values():
            users.setdefault(file.sha256, set()).add(release)
    own = dict.fromkeys(manifests, 0)
    for release, manifest in manifests.items():
        sizes = {file.sha256: file.size for file in manifest.files.values()}
        own[release] = sum(size for sha256, size in sizes.items() if users[sha256] == {release})
    return own
