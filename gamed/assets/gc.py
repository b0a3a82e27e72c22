"""`gamed assets gc` deletes what has not been needed for long (docs/owners/published-files.md: What is kept).

A release is not needed if no channel points at it or has it in the kept part of its history. Releases are deleted
first, then the objects that no manifest names any more.
"""

import os
from contextlib import suppress

from msgspec import Struct

from gamed.assets import channel_store
from gamed.assets.errors import AssetsDamaged, NotFound
from gamed.assets.manifest import parse_manifest
from gamed.assets.marks import Marks, expired_releases, update_marks
from gamed.assets.pointer import ChannelPointer
from gamed.assets.store import OBJECTS, RELEASES, SUFFIX, AssetStore, channel_lock, make_folders, publish_lock
from gamed.assets.verify import stored_objects
from gamed.disk import sync_folder


class GcResult(Struct, frozen=True):
    """The releases and objects that were deleted, or would be."""

    releases: list[str]
    objects: list[str]
    bytes: int
    waiting: list[str]
    """Releases that are not needed, but not for long enough."""
    waiting_bytes: int
    """The size of the objects that will be deleted with them."""


def collect_garbage(store: AssetStore, keep: int, older_than_seconds: int, now_ms: int, *, dry_run: bool) -> GcResult:
    """Delete what has not been needed for so long; raise AssetsBusy, AssetsDamaged or AssetsUnreadable.

    Nothing is deleted if a pointer or a needed release is damaged or unreadable: what it needs is not known then.
    """
    if dry_run:
        needed = channel_store.required_releases(store, _pointers(store), keep)
        return _select(store, needed, channel_store.read_marks(store), older_than_seconds, now_ms)
    make_folders(store.folder)
    with publish_lock(store.folder):  # a publish relies on the objects that it found stored
        with channel_lock(store.folder):
            pointers = _pointers(store)
            needed = channel_store.required_releases(store, pointers, keep)
            marks = channel_store.mark_unused(store, needed, now_ms)
            result = _select(store, needed, marks, older_than_seconds, now_ms)
            _delete_releases(store, pointers, set(result.releases))
        _delete_objects(store, result.objects)
    return result


def _pointers(store: AssetStore) -> dict[str, ChannelPointer]:
    """Return the pointer of each channel; raise AssetsDamaged if its release is missing."""
    pointers = {channel: store.pointer(channel) for channel in store.channels()}
    stored = set(store.releases())
    for channel, pointer in pointers.items():
        if pointer.release not in stored:
            raise AssetsDamaged(f"channel {channel} points at {pointer.release}, which is not there")
    return pointers


def _select(store: AssetStore, needed: set[str], marks: Marks, older_than_seconds: int, now_ms: int) -> GcResult:
    """Return the releases and objects to delete; only releases that are not needed may be damaged."""
    releases = set(store.releases())
    unneeded = update_marks(marks, releases, needed, now_ms)
    expired = expired_releases(unneeded, now_ms, older_than_seconds)
    waiting = set(unneeded) - expired
    needed_objects = {sha256 for release in sorted(releases - set(unneeded)) for sha256 in _objects_of(store, release)}
    waiting_objects = {sha256 for release in waiting for sha256 in _readable_objects_of(store, release)}
    waiting_objects -= needed_objects
    expired_objects = {sha256 for release in expired for sha256 in _readable_objects_of(store, release)}
    sizes = stored_objects(store)
    unnamed = set(sizes) - needed_objects - waiting_objects
    deleted = {
        sha256
        for sha256 in unnamed
        if sha256 in expired_objects or _age_ms(store, sha256, now_ms) >= older_than_seconds * 1000
    }
    return GcResult(
        sorted(expired),
        sorted(deleted),
        sum(sizes[sha256] for sha256 in deleted),
        sorted(waiting),
        sum(sizes.get(sha256, 0) for sha256 in waiting_objects | (unnamed - deleted)),
    )


def _objects_of(store: AssetStore, release: str) -> set[str]:
    return {file.sha256 for file in parse_manifest(store.manifest(release)).files.values()}


def _readable_objects_of(store: AssetStore, release: str) -> set[str]:
    """Return the objects of a release that is not needed; none if it is damaged, because it cannot be served then.

    Raise AssetsUnreadable if it may be intact.
    """
    try:
        return _objects_of(store, release)
    except (AssetsDamaged, NotFound):
        return set()


def _age_ms(store: AssetStore, sha256: str, now_ms: int) -> int:
    """Return the age of an object that no release names, because the command that published it was killed."""
    try:
        state = os.lstat(store.object_path(sha256))
    except FileNotFoundError:
        return 0
    return now_ms - max(state.st_mtime_ns, state.st_ctime_ns) // 1_000_000


def _delete_releases(store: AssetStore, pointers: dict[str, ChannelPointer], releases: set[str]) -> None:
    """Delete releases, after they are removed from the history of every channel."""
    for channel, pointer in pointers.items():
        if (without := pointer.without_releases(releases)) != pointer:
            channel_store.write_pointer(store, channel, without)
    for release in sorted(releases):
        (store.folder / RELEASES / f"{release}{SUFFIX}").unlink(missing_ok=True)
    sync_folder(store.folder / RELEASES)


def _delete_objects(store: AssetStore, objects: list[str]) -> None:
    """Delete objects; a response that is sending one of them reads on from its open file."""
    for sha256 in objects:
        store.object_path(sha256).unlink(missing_ok=True)
    for shard in {sha256[:2] for sha256 in objects}:
        with suppress(FileNotFoundError):
            sync_folder(store.folder / OBJECTS / shard)
