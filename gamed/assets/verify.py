"""Every byte of the assets folder read again, and every name in it looked up (PROTOCOL 5).

What is published: channels, releases, and what they take of the disk together (PROTOCOL 5).
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256 as new_sha256
from threading import Lock

from msgspec import Struct, field

from gamed.assets import channel as asset_channel
from gamed.assets import channel_store, scan
from gamed.assets.channel import ChannelPointer
from gamed.assets.errors import AssetsError, NotFound, ReleaseNotFound
from gamed.assets.manifest import Manifest, is_object, parse_manifest
from gamed.assets.scan import Growing, Progress
from gamed.assets.store import OBJECTS, AssetStore

CHUNK = 1024 * 1024
SHOWN_USERS = 3


class VerifyResult(Struct):
    """What was read, and what is wrong with it."""

    releases: int = 0
    objects: int = 0
    bytes: int = 0
    flaws: list[str] = field(default_factory=list)


def object_is_whole(store: AssetStore, sha256: str, size: int | None, told: Callable[[int], None]) -> bool:
    """Whether the bytes give their name; `told` gets how many were read each time. False too where there are none."""
    digest = new_sha256()
    try:
        with store.open_object(sha256, size) as file:
            while chunk := file.read(CHUNK):
                digest.update(chunk)
                told(len(chunk))
    except (AssetsError, OSError):  # the latter of a disk that cannot read it back
        return False
    return digest.hexdigest() == sha256


def verify(store: AssetStore, growing: Growing, release: str | None = None) -> VerifyResult:
    """One release, ReleaseNotFound without it; else all pointers, all releases, and every object that is there."""
    done = VerifyResult()
    if release is not None:
        _require(store, release)
    releases = store.releases() if release is None else [release]
    manifests = {each: manifest for each in releases if (manifest := _manifest(store, each, done)) is not None}
    if release is None:
        _pointers(store, done)
    users = _users(manifests)
    sizes = {file.sha256: file.size for each in manifests.values() for file in each.files.values()}
    here = stored(store) if release is None else {}
    _objects(store, growing, {**here, **sizes}, users, done)
    done.releases, done.flaws = len(manifests), sorted(done.flaws)
    return done


def stored(store: AssetStore) -> dict[str, int]:
    """Every object that is there, with its size on disk."""
    found: dict[str, int] = {}
    for shard in _folders(store):
        with os.scandir(store.folder / OBJECTS / shard) as entries:
            for entry in entries:
                if is_object(entry.name) and entry.name.startswith(shard):
                    found[entry.name] = entry.stat(follow_symlinks=False).st_size
    return found


def _folders(store: AssetStore) -> Iterator[str]:
    try:
        yield from sorted(name for name in os.listdir(store.folder / OBJECTS) if len(name) == 2)
    except FileNotFoundError:
        return


def _require(store: AssetStore, release: str) -> None:
    if release not in store.releases():
        raise ReleaseNotFound(release)


def _manifest(store: AssetStore, release: str, done: VerifyResult) -> Manifest | None:
    try:
        return parse_manifest(store.manifest(release))
    except NotFound:  # collected since
        return None
    except AssetsError as e:
        done.flaws.append(f"release {release}: {e}")
        return None


def _pointers(store: AssetStore, done: VerifyResult) -> None:
    for channel in store.channels():
        try:
            store.manifest(store.pointer(channel).release)
        except NotFound as e:
            done.flaws.append(f"channel {channel}: points at {e}, which is not there")
        except AssetsError as e:
            done.flaws.append(f"channel {channel}: {e}")


Users = Mapping[str, Sequence[tuple[str, str]]]
"""By object: release and path of each that has it."""


def _users(manifests: Mapping[str, Manifest]) -> Users:
    users: dict[str, list[tuple[str, str]]] = {}
    for release, manifest in manifests.items():
        for path, file in manifest.files.items():
            users.setdefault(file.sha256, []).append((release, path))
    return users


def _objects(store: AssetStore, growing: Growing, sizes: Mapping[str, int], users: Users, done: VerifyResult) -> None:
    lock = Lock()

    def look(sha256: str, meter: Progress) -> None:
        size = sizes[sha256] if sha256 in users else None
        if not object_is_whole(store, sha256, size, meter.add):
            flaw = _flaw(store, sha256, users.get(sha256, []))
            with lock:
                done.flaws += [flaw] if flaw else []

    with growing("reading", sum(sizes.values())) as shown:
        scan.run_parallel(sizes, look, shown, lambda: None)
    done.objects, done.bytes = len(sizes), sum(sizes.values())


def _flaw(store: AssetStore, sha256: str, users: Sequence[tuple[str, str]]) -> str | None:
    """What to say of a bad object; None for one that was collected while this looked."""
    there, releases = os.path.lexists(store.object_path(sha256)), set(store.releases())
    left = [f"{path} of {release}" for release, path in users if release in releases]
    if not there and not left:
        return None
    more = f" and {len(left) - SHOWN_USERS} more" if len(left) > SHOWN_USERS else ""
    used = ", ".join(left[:SHOWN_USERS]) + more if left else "no release has it"
    return f"object {sha256} is {'damaged' if there else 'missing'}: {used}"


class ReleaseListing(Struct, frozen=True):
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

    channels: Mapping[str, ChannelPointer]
    releases: Sequence[ReleaseListing]
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
    pointers = channel_store.readable(store)
    damaged += [f"channel {channel}" for channel in store.channels() if channel not in pointers]
    manifests: dict[str, Manifest] = {}
    for release in store.releases():
        try:
            manifests[release] = parse_manifest(store.manifest(release))
        except AssetsError:
            damaged.append(f"release {release}")
    since = asset_channel.marked(
        channel_store.read_marks(store), manifests, channel_store.required_releases(store, pointers, keep), now_ms
    )
    sizes = stored(store)
    own = _own_bytes(manifests)
    releases = [
        ReleaseListing(
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
