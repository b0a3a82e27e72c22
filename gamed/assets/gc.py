"""What nobody has needed for long, deleted (PROTOCOL 5, 7).

Releases that fell out of every channel's past first, then the objects that no release names any more.
"""

import os
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from gamed.assets import channel as asset_channel
from gamed.assets import channel_store
from gamed.assets.channel import ChannelPointer
from gamed.assets.errors import AssetsDamaged, NotFound
from gamed.assets.manifest import parse_manifest
from gamed.assets.store import OBJECTS, RELEASES, SUFFIX, AssetStore, make_folders, pointing, publishing, sync_folder
from gamed.assets.verify import stored


class GcResult(Struct, frozen=True):
    """What was deleted, or would be."""

    releases: list[str]
    objects: list[str]
    bytes: int
    waiting: list[str]
    """Releases that nobody needs, but not for long enough."""
    waiting_bytes: int
    """Of objects that go with them."""


def collect(store: AssetStore, keep: int, older_than_seconds: int, now_ms: int, *, dry_run: bool) -> GcResult:
    """AssetsBusy, or AssetsDamaged for a pointer or the release it points at: what is needed cannot be known then.

    AssetsUnreadable where the system refuses to read any release: what it holds cannot be known either.
    """
    if dry_run:
        needed = channel_store.required_releases(store, _pointers(store), keep)
        return _checkd(store, needed, channel_store.read_marks(store), older_than_seconds, now_ms)
    make_folders(store.folder)
    with publishing(store.folder):
        with pointing(store.folder):
            pointers = _pointers(store)
            needed = channel_store.required_releases(store, pointers, keep)
            done = _checkd(store, needed, channel_store.mark_unused(store, needed, now_ms), older_than_seconds, now_ms)
            _delete_releases(store, pointers, set(done.releases))
        _delete_objects(store, done.objects)
    return done


def _pointers(store: AssetStore) -> dict[str, ChannelPointer]:
    pointers = {channel: store.pointer(channel) for channel in store.channels()}
    there = set(store.releases())
    for channel, pointer in pointers.items():
        if pointer.release not in there:
            raise AssetsDamaged(f"channel {channel} points at {pointer.release}, which is not there")
    return pointers


def _checkd(
    store: AssetStore, needed: set[str], written: asset_channel.Marks, older_than_seconds: int, now_ms: int
) -> GcResult:
    there = set(store.releases())
    marked = asset_channel.marked(written, there, needed, now_ms)
    gone = asset_channel.outlived(marked, now_ms, older_than_seconds)
    waiting = set(marked) - gone
    held = {sha256 for release in sorted(there - gone - waiting) for sha256 in _objects_of(store, release)}
    later = {sha256 for release in waiting for sha256 in _objects_if_whole(store, release)} - held
    had = {sha256 for release in gone for sha256 in _objects_if_whole(store, release)}
    sizes = stored(store)
    loose = set(sizes) - held - later
    old = {sha256 for sha256 in loose if sha256 in had or _age_ms(store, sha256, now_ms) >= older_than_seconds * 1000}
    return GcResult(
        sorted(gone),
        sorted(old),
        sum(sizes[sha256] for sha256 in old),
        sorted(waiting),
        sum(sizes.get(sha256, 0) for sha256 in later | (loose - old)),
    )


def _objects_of(store: AssetStore, release: str) -> set[str]:
    return {file.sha256 for file in parse_manifest(store.manifest(release)).files.values()}


def _objects_if_whole(store: AssetStore, release: str) -> set[str]:
    """Of a release that nobody needs: one that is damaged cannot be served, and holds nothing back.

    AssetsUnreadable for one that may be whole.
    """
    try:
        return _objects_of(store, release)
    except (AssetsDamaged, NotFound):
        return set()


def _age_ms(store: AssetStore, sha256: str, now_ms: int) -> int:
    """How long an object that no release names has been where it is: its publishing was killed."""
    try:
        state = os.lstat(store.object_path(sha256))
    except FileNotFoundError:
        return 0
    return now_ms - max(state.st_mtime_ns, state.st_ctime_ns) // 1_000_000


def _delete_releases(store: AssetStore, pointers: dict[str, ChannelPointer], gone: set[str]) -> None:
    """No channel's past names them any more before they go."""
    for channel, pointer in pointers.items():
        if (without := pointer.without(gone)) != pointer:
            channel_store.write_pointer(store, channel, without)
    _unlink([store.folder / RELEASES / f"{release}{SUFFIX}" for release in sorted(gone)])
    sync_folder(store.folder / RELEASES)


def _delete_objects(store: AssetStore, gone: list[str]) -> None:
    """Who downloads one of them right now reads on to its end."""
    _unlink([store.object_path(sha256) for sha256 in gone])
    for shard in {sha256[:2] for sha256 in gone}:
        with suppress(FileNotFoundError):
            sync_folder(store.folder / OBJECTS / shard)


def _unlink(paths: list[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)
