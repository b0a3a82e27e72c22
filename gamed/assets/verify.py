"""`gamed assets verify` reads every byte of the assets folder again, and `gamed assets list` shows what is stored.

See docs/owners/published-files.md: Check the files. Neither needs a lock, so files may be deleted while they run.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256 as new_sha256
from threading import Lock

from msgspec import Struct, field

from gamed.assets import channel_store
from gamed.assets.errors import AssetsError, NotFound, ReleaseNotFound
from gamed.assets.manifest import Manifest, is_object, parse_manifest
from gamed.assets.marks import update_marks
from gamed.assets.scan import Progress, ProgressDisplay, run_parallel
from gamed.assets.snapshot import Overview, ReleaseListing
from gamed.assets.store import OBJECTS, AssetStore

CHUNK = 1024 * 1024
SHOWN_USERS = 3


class VerifyResult(Struct):
    """The counts of what was read, and a line for each error."""

    releases: int = 0
    objects: int = 0
    bytes: int = 0
    errors: list[str] = field(default_factory=list)


def is_object_intact(store: AssetStore, sha256: str, size: int | None, count: Callable[[int], None]) -> bool:
    """Return whether an object exists and has its hash; call `count` with the bytes of each read."""
    digest = new_sha256()
    try:
        with store.open_object(sha256, size) as file:
            while chunk := file.read(CHUNK):
                digest.update(chunk)
                count(len(chunk))
    except (AssetsError, OSError):  # OSError: the disk cannot read it
        return False
    return digest.hexdigest() == sha256


def verify(store: AssetStore, display: ProgressDisplay, release: str | None = None) -> VerifyResult:
    """Check one release, or all pointers, releases and objects; raise ReleaseNotFound."""
    done = VerifyResult()
    if release is not None and release not in store.releases():
        raise ReleaseNotFound(release)
    releases = store.releases() if release is None else [release]
    manifests = {each: manifest for each in releases if (manifest := _manifest(store, each, done)) is not None}
    if release is None:
        _pointers(store, done)
    users = _users(manifests)
    sizes = {file.sha256: file.size for each in manifests.values() for file in each.files.values()}
    stored = stored_objects(store) if release is None else {}
    _objects(store, display, {**stored, **sizes}, users, done)
    done.releases, done.errors = len(manifests), sorted(done.errors)
    return done


def stored_objects(store: AssetStore) -> dict[str, int]:
    """Return the size of each stored object."""
    found: dict[str, int] = {}
    try:
        shards = sorted(name for name in os.listdir(store.folder / OBJECTS) if len(name) == 2)
    except FileNotFoundError:
        return found
    for shard in shards:
        with os.scandir(store.folder / OBJECTS / shard) as entries:
            for entry in entries:
                if is_object(entry.name) and entry.name.startswith(shard):
                    found[entry.name] = entry.stat(follow_symlinks=False).st_size
    return found


def _manifest(store: AssetStore, release: str, done: VerifyResult) -> Manifest | None:
    try:
        return parse_manifest(store.manifest(release))
    except NotFound:  # deleted meanwhile
        return None
    except AssetsError as e:
        done.errors.append(f"release {release}: {e}")
        return None


def _pointers(store: AssetStore, done: VerifyResult) -> None:
    for channel in store.channels():
        try:
            store.manifest(store.pointer(channel).release)
        except NotFound as e:
            done.errors.append(f"channel {channel}: points at {e}, which is not there")
        except AssetsError as e:
            done.errors.append(f"channel {channel}: {e}")


Users = Mapping[str, Sequence[tuple[str, str]]]
"""Object -> release and path of each file that has its bytes."""


def _users(manifests: Mapping[str, Manifest]) -> Users:
    users: dict[str, list[tuple[str, str]]] = {}
    for release, manifest in manifests.items():
        for path, file in manifest.files.items():
            users.setdefault(file.sha256, []).append((release, path))
    return users


def _objects(
    store: AssetStore, display: ProgressDisplay, sizes: Mapping[str, int], users: Users, done: VerifyResult
) -> None:
    lock = Lock()

    def check(sha256: str, progress: Progress) -> None:
        size = sizes[sha256] if sha256 in users else None
        if not is_object_intact(store, sha256, size, progress.add):
            error = _object_error(store, sha256, users.get(sha256, []))
            with lock:
                done.errors += [error] if error else []

    with display("reading", sum(sizes.values())) as show:
        run_parallel(sizes, check, show)
    done.objects, done.bytes = len(sizes), sum(sizes.values())


def _object_error(store: AssetStore, sha256: str, users: Sequence[tuple[str, str]]) -> str | None:
    """Return the line for a missing or damaged object; None if it was deleted meanwhile with its releases."""
    exists, releases = os.path.lexists(store.object_path(sha256)), set(store.releases())
    left = [f"{path} of {release}" for release, path in users if release in releases]
    if not exists and not left:
        return None
    more = f" and {len(left) - SHOWN_USERS} more" if len(left) > SHOWN_USERS else ""
    used = ", ".join(left[:SHOWN_USERS]) + more if left else "no release has it"
    return f"object {sha256} is {'damaged' if exists else 'missing'}: {used}"


def overview(store: AssetStore, keep: int, now_ms: int) -> Overview:
    """Return the channels, releases and sizes as they are now; raise AssetsUnreadable."""
    pointers = channel_store.readable_pointers(store)
    damaged = [f"channel {channel}" for channel in store.channels() if channel not in pointers]
    manifests: dict[str, Manifest] = {}
    for release in store.releases():
        try:
            manifests[release] = parse_manifest(store.manifest(release))
        except AssetsError:
            damaged.append(f"release {release}")
    needed = channel_store.required_releases(store, pointers, keep)
    since = update_marks(channel_store.read_marks(store), manifests, needed, now_ms)
    sizes = stored_objects(store)
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
