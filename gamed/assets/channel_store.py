"""Where channels point, moved: by publishing, by hand, back, or away for good (PROTOCOL 5)."""

from collections.abc import Collection, Mapping

from msgspec import Struct

from gamed.assets import channel as asset_channel
from gamed.assets.channel import ChannelPointer, pointer_bytes
from gamed.assets.errors import AssetsDamaged, ChannelNotFound, NoPreviousRelease, ObjectNotFound, ReleaseNotFound
from gamed.assets.manifest import Manifest, parse_manifest
from gamed.assets.store import CHANNELS, SUFFIX, AssetStore, make_folders, pointing, sync_folder, write_whole


class ChannelUpdate(Struct, frozen=True):
    """What became of a channel."""

    channel: str
    release: str
    before: str | None
    """The release it pointed at; None for a new channel."""
    past_lost: bool = False
    """Its pointer was damaged."""


def set_channel(store: AssetStore, channel: str, release: str, keep: int, now_ms: int) -> ChannelUpdate:
    """The channel at a release that is there whole; ReleaseNotFound, AssetsDamaged."""
    check_release(store, release)
    make_folders(store.folder)
    with pointing(store.folder):
        store.manifest(release)  # still there, now that nobody can delete it
        return move(store, channel, release, keep, now_ms)


def move(store: AssetStore, channel: str, release: str, keep: int, now_ms: int) -> ChannelUpdate:
    """The same under the lock of pointing(), for a release that was found whole."""
    found, lost = _found(store, channel)
    pointer = ChannelPointer(release, now_ms) if found is None else found.to(release, now_ms)
    if pointer != found:
        _write(store, channel, pointer, keep, now_ms)
    return ChannelUpdate(channel, release, found.release if found else None, lost)


def rollback(store: AssetStore, channel: str, keep: int, now_ms: int) -> ChannelUpdate:
    """The channel at what it pointed at before; ChannelNotFound, NothingBefore, AssetsDamaged."""
    store.pointer(channel)
    with pointing(store.folder):
        present = store.pointer(channel)
        there = present.without({each.release for each in present.history} - set(store.releases()))
        pointer = there.back(now_ms)
        if pointer is None:
            raise NoPreviousRelease(f"{channel} points at {present.release}, and nothing from before it is kept")
        check_release(store, pointer.release)
        _write(store, channel, pointer, keep, now_ms)
    return ChannelUpdate(channel, pointer.release, present.release)


def delete_channel(store: AssetStore, channel: str, keep: int, now_ms: int) -> str | None:
    """The channel away; its releases stay until they are collected. What it pointed at, None if that was damaged."""
    if channel not in store.channels():
        raise ChannelNotFound(channel)
    with pointing(store.folder):
        found, lost = _found(store, channel)
        if found is None and not lost:
            raise ChannelNotFound(channel)
        others = {name: pointer for name, pointer in readable(store).items() if name != channel}
        mark_unused(store, required_releases(store, others, keep), now_ms)
        (store.folder / CHANNELS / f"{channel}{SUFFIX}").unlink()
        sync_folder(store.folder / CHANNELS)
    return found.release if found else None


def check_release(store: AssetStore, release: str) -> Manifest:
    """The manifest of a release whose every object is there with its size; ReleaseNotFound, AssetsDamaged."""
    manifest = parse_manifest(store.manifest(release))
    sizes = {file.sha256: file.size for file in manifest.files.values()}
    lost = [sha256 for sha256, size in sizes.items() if not has_object(store, sha256, size)]
    if lost:
        raise AssetsDamaged(f"{release} is not whole: {len(lost)} of its objects are missing or damaged")
    return manifest


def has_object(store: AssetStore, sha256: str, size: int) -> bool:
    """Whether the bytes are there, by their length."""
    try:
        store.open_object(sha256, size).close()
    except (AssetsDamaged, ObjectNotFound):
        return False
    return True


def required_releases(store: AssetStore, pointers: Mapping[str, ChannelPointer], keep: int) -> set[str]:
    """What channels point at, and of what they pointed at before what `keep` allows and can be read."""
    present = {pointer.release for pointer in pointers.values()}
    return present | {
        each for each in asset_channel.retained(pointers.values(), keep) - present if _is_readable(store, each)
    }


def mark_unused(store: AssetStore, releases: Collection[str], now_ms: int) -> dict[str, int]:
    """Write down since when which others are not needed, before the pointers say so; the marks."""
    before = read_marks(store)
    now = asset_channel.marked(before, store.releases(), releases, now_ms)
    if now != before:
        write_whole(store.folder / asset_channel.FILE_NAME, asset_channel.marks_bytes(now))
    return now


def read_marks(store: AssetStore) -> dict[str, int]:
    try:
        return asset_channel.parse_marks((store.folder / asset_channel.FILE_NAME).read_bytes())
    except FileNotFoundError:
        return {}


def readable(store: AssetStore) -> dict[str, ChannelPointer]:
    """Every channel whose pointer is in order."""
    found = {channel: _found(store, channel)[0] for channel in store.channels()}
    return {channel: pointer for channel, pointer in found.items() if pointer is not None}


def write_pointer(store: AssetStore, channel: str, pointer: ChannelPointer) -> None:
    write_whole(store.folder / CHANNELS / f"{channel}{SUFFIX}", pointer_bytes(pointer))


def _write(store: AssetStore, channel: str, pointer: ChannelPointer, keep: int, now_ms: int) -> None:
    mark_unused(store, required_releases(store, {**readable(store), channel: pointer}, keep), now_ms)
    write_pointer(store, channel, pointer)


def _is_readable(store: AssetStore, release: str) -> bool:
    try:
        return bool(store.manifest(release))
    except (AssetsDamaged, ReleaseNotFound):
        return False


def _found(store: AssetStore, channel: str) -> tuple[ChannelPointer | None, bool]:
    """The channel's pointer, None for a new channel; and whether it was damaged."""
    try:
        return store.pointer(channel), False
    except ChannelNotFound:
        return None, False
    except AssetsDamaged:
        return None, True
