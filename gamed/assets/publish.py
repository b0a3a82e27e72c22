"""`gamed assets publish` makes a release of a folder and points a channel at it (docs/owners/assets.md: Publishing).

The objects are written first, then the manifest that names them, then the pointer that names the manifest. A command
that is killed in between leaves the channel at the old release, which is complete.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct, field

from gamed.assets import channel_store
from gamed.assets.errors import AssetsDamaged, AssetsError, AssetsFull, NotFound, PublishRefused
from gamed.assets.manifest import (
    MAX_MANIFEST_BYTES,
    AssetFile,
    Manifest,
    manifest_bytes,
    media_type,
    parse_manifest,
    release_id,
)
from gamed.assets.paths import Refused
from gamed.assets.scan import FolderScan, Progress, ProgressDisplay, ScannedFile, hash_files, run_parallel, scan_folder
from gamed.assets.store import (
    OBJECTS,
    RELEASES,
    SUFFIX,
    AssetStore,
    as_disk_full,
    channel_lock,
    free_bytes,
    make_folders,
    publish_lock,
    store_objects,
    write_atomically,
)
from gamed.assets.verify import is_object_intact
from gamed.disk import sync_folder
from gamed.structs import Component
from gamed.timestamps import Now


class PublishRequest(Struct, frozen=True):
    """A folder to publish, and how."""

    folder: Path
    channel: str
    note: str = ""
    meta: Mapping[str, object] = field(default_factory=dict)
    types: Mapping[str, str] = field(default_factory=dict)
    """Media types by suffix, which precede those of gamed."""
    hidden: bool = False
    """Whether to publish files whose names begin with a dot."""
    repair: bool = False
    """Whether to read the stored objects, and to write damaged ones again."""


class PublishPlan(Struct, frozen=True):
    """The files of a release, and the objects to write for it."""

    files: Mapping[str, AssetFile]
    new: Mapping[str, ScannedFile]
    """The objects that the store does not have: SHA-256 -> a file with the bytes."""
    hidden: Sequence[str]

    @property
    def bytes(self) -> int:
        return sum(file.size for file in self.files.values())

    @property
    def new_bytes(self) -> int:
        return sum(found.size for found in self.new.values())


class Published(Struct, frozen=True):
    """The result of publishing."""

    plan: PublishPlan
    release: str | None
    """None after a dry run."""
    before: str | None = None
    """The release that the channel pointed at; equal to `release` if nothing was new."""
    past_lost: bool = False
    """Whether the pointer of the channel was damaged, so that its history is lost."""


BLOCK: Final = 4096
"""Least space that a file takes on a disk."""


class Publisher(Component, frozen=True, kw_only=True):
    """The work of one command; it blocks, and an exception in the waiting thread ends it."""

    store: AssetStore
    progress: ProgressDisplay
    now_ms: Now
    min_free_bytes: int
    keep_releases: int
    free_bytes: Callable[[Path], int] = free_bytes

    def plan(self, request: PublishRequest) -> PublishPlan:
        """Read and check everything, and write nothing; raise PublishRefused or AssetsFull."""
        found = scan_folder(request.folder, hidden=request.hidden)
        if found.refused:
            raise PublishRefused(found.refused)
        digests = hash_files(found.files, self.progress)
        files = {
            file.path: AssetFile(file.size, digests[file.path], media_type(file.path, request.types))
            for file in found.files
        }
        size = len(manifest_bytes(Manifest(0, files, request.note, request.meta)))
        if size > MAX_MANIFEST_BYTES:
            error = f"its manifest would have {size} bytes, more than {MAX_MANIFEST_BYTES}"
            raise PublishRefused([Refused(".", error)])
        plan = PublishPlan(files, self._missing_objects(found, digests, repair=request.repair), found.hidden)
        self._check_space(plan)
        return plan

    def publish(self, request: PublishRequest) -> Published:
        """Publish the whole folder or nothing; raise PublishRefused, AssetsBusy, AssetsFull or an OSError."""
        make_folders(self.store.folder)
        with publish_lock(self.store.folder):
            plan = self.plan(request)
            present = self._same_release(request, plan)
            stored: list[Path] = []
            try:
                store_objects(self.store, plan.new, stored, self.progress, self._check_free_space)
                # Also if the channel has this release already: --repair may have written objects of it.
                self._sync_objects(plan)
                if present is not None:
                    return Published(plan, present, present)
                return self._write_release(request, plan, stored)
            except BaseException:
                self._delete_written(request.channel, stored)
                raise

    def _missing_objects(
        self, found: FolderScan, digests: Mapping[str, str], *, repair: bool
    ) -> dict[str, ScannedFile]:
        by_digest = {digests[file.path]: file for file in found.files}
        if not repair:
            return {
                sha256: file
                for sha256, file in by_digest.items()
                if not channel_store.has_object(self.store, sha256, file.size)
            }
        missing: dict[str, ScannedFile] = {}

        def check(sha256: str, progress: Progress) -> None:
            if not is_object_intact(self.store, sha256, by_digest[sha256].size, progress.add):
                missing[sha256] = by_digest[sha256]

        with self.progress("reading the store", sum(file.size for file in by_digest.values())) as show:
            run_parallel(by_digest, check, show)
        return missing

    def _same_release(self, request: PublishRequest, plan: PublishPlan) -> str | None:
        """Return the release of the channel if it has exactly these files, note and meta; else None."""
        try:
            release = self.store.pointer(request.channel).release
            manifest = parse_manifest(self.store.manifest(release))
        except (NotFound, AssetsDamaged):
            return None
        same = (manifest.files, manifest.note, manifest.meta) == (plan.files, request.note, request.meta)
        return release if same else None

    def _check_space(self, plan: PublishPlan) -> None:
        if not plan.new:
            return
        needed, free = plan.new_bytes + BLOCK * (len(plan.new) + len(plan.files)), self._free_space()
        if free - needed < self.min_free_bytes:
            raise AssetsFull(
                f"up to {needed} bytes are to be stored, {free} are free, and {self.min_free_bytes} of them have to "
                "stay free (min_free_bytes)"
            )

    def _free_space(self) -> int:
        """Return the free bytes on the disk of the store, which may not exist yet."""
        folder = self.store.folder
        return self.free_bytes(folder if folder.exists() else folder.parent)

    def _check_free_space(self) -> None:
        """Raise AssetsFull if other programs have filled the disk while the objects are written."""
        if (free := self._free_space()) < self.min_free_bytes:
            raise AssetsFull(f"{free} bytes are free by now, and {self.min_free_bytes} have to stay free")

    def _write_release(self, request: PublishRequest, plan: PublishPlan, stored: list[Path]) -> Published:
        text = manifest_bytes(Manifest(self.now_ms(), plan.files, request.note, request.meta))
        release = release_id(text)
        path = self.store.folder / RELEASES / f"{release}{SUFFIX}"
        try:
            stored.insert(0, path)  # before it is written, so that a failure in between deletes it
            write_atomically(path, text)
            with channel_lock(self.store.folder):
                moved = channel_store.move_channel(
                    self.store, request.channel, release, self.keep_releases, self.now_ms()
                )
        except OSError as e:
            raise as_disk_full(e) from None
        return Published(plan, release, moved.before, moved.past_lost)

    def _sync_objects(self, plan: PublishPlan) -> None:
        """Write the names of all objects to disk, innermost folder first, before a manifest may name them.

        Some may be of another command that was killed before it did this.
        """
        store = self.store
        shards = {store.object_path(file.sha256).parent for file in plan.files.values()}
        try:
            for folder in (*sorted(shards), store.folder / OBJECTS, store.folder, store.folder.parent):
                sync_folder(folder)
        except OSError as e:
            raise as_disk_full(e) from None

    def _delete_written(self, channel: str, stored: Sequence[Path]) -> None:
        """Delete the files of a failed publish, the manifest first, unless the channel points at it already."""
        with suppress(AssetsError, OSError), channel_lock(self.store.folder):
            try:
                release = self.store.pointer(channel).release
            except NotFound:
                release = None
            if not stored or stored[0].stem == release:
                return
            for path in stored:
                path.unlink(missing_ok=True)
