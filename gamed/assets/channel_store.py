"""Channels of the assets folder are created, moved, rolled back and deleted (docs/owners/assets.md: Move channels)."""

from collections.abc import Collection, Mapping

from msgspec import Struct

from gamed.assets import marks
from gamed.assets.errors import (
    AssetsDamaged,
    ChannelMoved,
    ChannelNotFound,
    NoPreviousRelease,
    ObjectNotFound,
    ReleaseNotFound,
)
from gamed.assets.manifest import Manifest, parse_manifest
from gamed.assets.pointer import ChannelPointer, pointer_bytes
from gamed.assets.store import CHANNELS, SUFFIX, AssetStore, channel_lock, make_folders, write_atomically
from gamed.disk import sync_folder


class ChannelUpdate(Struct, frozen=True):
    """The result of moving a channel."""

    channel: str
    release: str
    before: str | None
    """The release that it pointed at before; None for a new channel."""
    past_lost: bool = False
    """Whether its pointer was damaged, so that its history is lost."""


def set_channel(
    store: AssetStore, channel: str, release: str, keep: int, now_ms: int, *, expected: str | None = None
) -> ChannelUpdate:
    """Set a channel to a complete release; raise ReleaseNotFound or AssetsDamaged.

    With `expected`, raise ChannelMoved unless the channel points at that release, and ChannelNotFound for a new one.
    """
    check_release(store, release)
    make_folders(store.folder)
    with channel_lock(store.folder):
        if expected is not None:
            _require(channel, store.pointer(channel), expected)
        store.manifest(release)  # it still exists, and under the lock no command can delete it
        return move_channel(store, channel, release, keep, now_ms)


def move_channel(store: AssetStore, channel: str, release: str, keep: int, now_ms: int) -> ChannelUpdate:
    """Set a channel to a release that check_release() has accepted; the caller holds channel_lock()."""
    before, damaged = _read_pointer(store, channel)
    pointer = ChannelPointer(release, now_ms) if before is None else before.moved_to(release, now_ms)
    if pointer != before:
        _write(store, channel, pointer, keep, now_ms)
    return ChannelUpdate(channel, release, before.release if before else None, damaged)


def rollback(store: AssetStore, channel: str, keep: int, now_ms: int, *, expected: str | None = None) -> ChannelUpdate:
    """Set a channel back to its release before; raise ChannelNotFound, NoPreviousRelease or AssetsDamaged.

    With `expected`, raise ChannelMoved unless the channel points at that release.
    """
    store.pointer(channel)
    with channel_lock(store.folder):
        present = store.pointer(channel)
        if expected is not None:
            _require(channel, present, expected)
        stored = present.without_releases({each.release for each in present.history} - set(store.releases()))
        pointer = stored.rolled_back(now_ms)
        if pointer is None:
            raise NoPreviousRelease(f"{channel} points at {present.release}, and nothing from before it is kept")
        check_release(store, pointer.release)
        _write(store, channel, pointer, keep, now_ms)
    return ChannelUpdate(channel, pointer.release, present.release)


def delete_channel(store: AssetStore, channel: str, keep: int, now_ms: int) -> str | None:
    """Delete a channel, not its releases; return the release that it pointed at, None if its pointer was damaged."""
    if channel not in store.channels():
        raise ChannelNotFound(channel)
    with channel_lock(store.folder):
        pointer, damaged = _read_pointer(store, channel)
        if pointer is None and not damaged:
            raise ChannelNotFound(channel)
        others = {name: other for name, other in readable_pointers(store).items() if name != channel}
        # The marks first: a command that is killed in between leaves a mark too many, which the next one removes. A
        # mark too few would let `gamed assets gc` count from a later time.
        mark_unused(store, required_releases(store, others, keep), now_ms)
        (store.folder / CHANNELS / f"{channel}{SUFFIX}").unlink()
        sync_folder(store.folder / CHANNELS)
    return pointer.release if pointer else None


def check_release(store: AssetStore, release: str) -> Manifest:
    """Return the manifest of a release; raise ReleaseNotFound, or AssetsDamaged if an object is missing."""
    manifest = parse_manifest(store.manifest(release))
    sizes = {file.sha256: file.size for file in manifest.files.values()}
    lost = [sha256 for sha256, size in sizes.items() if not has_object(store, sha256, size)]
    if lost:
        raise AssetsDamaged(f"{release} is not whole: {len(lost)} of its objects are missing or damaged")
    return manifest


def has_object(store: AssetStore, sha256: str, size: int) -> bool:
    """Return whether an object of this size is stored; its bytes are not read."""
    try:
        store.open_object(sha256, size).close()
    except (AssetsDamaged, ObjectNotFound):
        return False
    return True


def required_releases(store: AssetStore, pointers: Mapping[str, ChannelPointer], keep: int) -> set[str]:
    """Return the releases that channels point at, and of the ones before up to `keep` that can be read."""
    present = {pointer.release for pointer in pointers.values()}
    # A damaged release of the history is not needed: it cannot be rolled back to. A present one is, whatever its state:
    # its objects may be intact, and a repair needs them.
    earlier = marks.retained_releases(pointers.values(), keep) - present
    return present | {each for each in earlier if _is_readable(store, each)}


def mark_unused(store: AssetStore, needed: Collection[str], now_ms: int) -> dict[str, int]:
    """Write and return since when each other release is not needed, before a pointer is changed."""
    before = read_marks(store)
    now = marks.update_marks(before, store.releases(), needed, now_ms)
    if now != before:
        write_atomically(store.folder / marks.MARKS_FILE, marks.marks_bytes(now))
    return now


def read_marks(store: AssetStore) -> dict[str, int]:
    try:
        return marks.parse_marks((store.folder / marks.MARKS_FILE).read_bytes())
    except FileNotFoundError:
        return {}


def readable_pointers(store: AssetStore) -> dict[str, ChannelPointer]:
    """Return the pointers that are not damaged, by channel."""
    found = {channel: _read_pointer(store, channel)[0] for channel in store.channels()}
    return {channel: pointer for channel, pointer in found.items() if pointer is not None}


def write_pointer(store: AssetStore, channel: str, pointer: ChannelPointer) -> None:
    write_atomically(store.folder / CHANNELS / f"{channel}{SUFFIX}", pointer_bytes(pointer))


def _require(channel: str, pointer: ChannelPointer, expected: str) -> None:
    """Raise ChannelMoved for another release; the caller holds channel_lock(), so that of two callers one wins."""
    if pointer.release != expected:
        raise ChannelMoved(f"{channel} points at {pointer.release}. Look at the channels again.")


def _write(store: AssetStore, channel: str, pointer: ChannelPointer, keep: int, now_ms: int) -> None:
    mark_unused(store, required_releases(store, {**readable_pointers(store), channel: pointer}, keep), now_ms)
    write_pointer(store, channel, pointer)


def _is_readable(store: AssetStore, release: str) -> bool:
    try:
        return bool(store.manifest(release))
    except (AssetsDamaged, ReleaseNotFound):
        return False


def _read_pointer(store: AssetStore, channel: str) -> tuple[ChannelPointer | None, bool]:
    """Return a channel's pointer, None for a new channel, and whether it is damaged."""
    try:
        return store.pointer(channel), False
    except ChannelNotFound:
        return None, False
    except AssetsDamaged:
        return None, True
