"""What is to be published, what that would do, and what was done.

A folder made into a release, and a channel pointed at it, last (PROTOCOL 5).

Objects first, on disk, under a name of their own each; then the manifest that names them; then the pointer that names
the manifest. Whoever is killed in between leaves the old release whole, and the channel at it.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct, field

from gamed.assets import channel_store, scan
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
from gamed.assets.scan import FolderScan, Growing, Progress, ScannedFile, hashes, scan_folder
from gamed.assets.store import (
    OBJECTS,
    RELEASES,
    SUFFIX,
    AssetStore,
    free_bytes,
    full,
    make_folders,
    pointing,
    publishing,
    store_objects,
    sync_folder,
    write_whole,
)
from gamed.assets.verify import object_is_whole
from gamed.structs import Component
from gamed.timestamps import Now


class PublishRequest(Struct, frozen=True):
    """What is to be published, and how."""

    folder: Path
    channel: str
    note: str = ""
    meta: Mapping[str, object] = field(default_factory=dict)
    types: Mapping[str, str] = field(default_factory=dict)
    """Media types by suffix, before gamed's own."""
    hidden: bool = False
    """Names that begin with a dot, too."""
    repair: bool = False
    """Read what is in the store already, and write it anew where it is damaged."""


class PublishPlan(Struct, frozen=True):
    """What publishing would do."""

    files: Mapping[str, AssetFile]
    new: Mapping[str, ScannedFile]
    """By SHA-256: the objects that the store does not have, and a file with their bytes."""
    hidden: Sequence[str]

    @property
    def bytes(self) -> int:
        return sum(file.size for file in self.files.values())

    @property
    def new_bytes(self) -> int:
        return sum(found.size for found in self.new.values())


class Published(Struct, frozen=True):
    """What was done."""

    plan: PublishPlan
    release: str | None
    """None when it was only tried."""
    before: str | None = None
    """What the channel pointed at; the same when nothing was new."""
    past_lost: bool = False


BLOCK: Final = 4096
"""What a file takes of a disk at least."""


class Publisher(Component, frozen=True):
    """One command's work; blocks, and is stopped by an exception in the thread that waits for it."""

    _store: AssetStore
    _growing: Growing
    _now_ms: Now
    _min_free_bytes: int
    _keep_releases: int
    _free_bytes: Callable[[Path], int] = free_bytes

    def plan(self, order: PublishRequest) -> PublishPlan:
        """Everything read and judged, nothing written; PublishRefused, AssetsFull."""
        found = scan_folder(order.folder, hidden=order.hidden)
        if found.refused:
            raise PublishRefused(found.refused)
        digests = hashes(found.files, self._growing)
        files = {
            file.path: AssetFile(file.size, digests[file.path], media_type(file.path, order.types))
            for file in found.files
        }
        _require_manifest(files, order)
        plan = PublishPlan(files, self._missing(found, digests, repair=order.repair), found.hidden)
        self._require_room(plan)
        return plan

    def publish(self, order: PublishRequest) -> Published:
        """All of it, or nothing; AssetsBusy, PublishRefused, AssetsFull, or an OSError of the store's disk."""
        make_folders(self._store.folder)
        with publishing(self._store.folder):
            plan = self.plan(order)
            present = self._same(order, plan)
            stored: list[Path] = []
            try:
                store_objects(self._store, plan.new, stored, self._growing, self._look)
                self._sync(plan)
                if present is not None:  # and only repaired
                    return Published(plan, present, present)
                return self._point(order, plan, stored)
            except BaseException:
                self._withdraw(order.channel, stored)
                raise

    def _missing(self, found: FolderScan, digests: Mapping[str, str], *, repair: bool) -> dict[str, ScannedFile]:
        by_digest = {digests[file.path]: file for file in found.files}
        if not repair:
            return {
                sha256: file
                for sha256, file in by_digest.items()
                if not channel_store.has_object(self._store, sha256, file.size)
            }
        missing: dict[str, ScannedFile] = {}

        def look(sha256: str, meter: Progress) -> None:
            if not object_is_whole(self._store, sha256, by_digest[sha256].size, meter.add):
                missing[sha256] = by_digest[sha256]

        with self._growing("reading the store", sum(file.size for file in by_digest.values())) as shown:
            scan.run_parallel(by_digest, look, shown, lambda: None)
        return missing

    def _same(self, order: PublishRequest, plan: PublishPlan) -> str | None:
        """The release that the channel points at, when it is what would be published."""
        try:
            release = self._store.pointer(order.channel).release
            manifest = parse_manifest(self._store.manifest(release))
        except (NotFound, AssetsDamaged):
            return None
        same = (manifest.files, manifest.note, manifest.meta) == (plan.files, order.note, order.meta)
        return release if same else None

    def _require_room(self, plan: PublishPlan) -> None:
        if not plan.new:
            return
        needed, free = plan.new_bytes + BLOCK * (len(plan.new) + len(plan.files)), self._free()
        if free - needed < self._min_free_bytes:
            raise AssetsFull(
                f"up to {needed} bytes are to be stored, {free} are free, and {self._min_free_bytes} of them have to "
                "stay free (min_free_bytes)"
            )

    def _free(self) -> int:
        """Where the store is, or will be."""
        folder = self._store.folder
        return self._free_bytes(folder if folder.exists() else folder.parent)

    def _look(self) -> None:
        """While bytes are written, others write too."""
        if (free := self._free()) < self._min_free_bytes:
            raise AssetsFull(f"{free} bytes are free by now, and {self._min_free_bytes} have to stay free")

    def _point(self, order: PublishRequest, plan: PublishPlan, stored: list[Path]) -> Published:
        text = manifest_bytes(Manifest(self._now_ms(), plan.files, order.note, order.meta))
        release = release_id(text)
        path = self._store.folder / RELEASES / f"{release}{SUFFIX}"
        try:
            stored.insert(0, path)
            write_whole(path, text)
            with pointing(self._store.folder):
                moved = channel_store.move(self._store, order.channel, release, self._keep_releases, self._now_ms())
        except OSError as e:
            raise full(e) from None
        return Published(plan, release, moved.before, moved.past_lost)

    def _sync(self, plan: PublishPlan) -> None:
        """The names of its objects; also what another publish made that was killed before it came to this."""
        try:
            for folder in self._folders(plan):
                sync_folder(folder)
        except OSError as e:
            raise full(e) from None

    def _folders(self, plan: PublishPlan) -> list[Path]:
        """Whose names have to last before a manifest may name what is in them: the innermost first."""
        store = self._store
        shards = {store.object_path(file.sha256).parent for file in plan.files.values()}
        return [*sorted(shards), store.folder / OBJECTS, store.folder, store.folder.parent]

    def _withdraw(self, channel: str, stored: Sequence[Path]) -> None:
        """What came to nothing is taken away again, the manifest first; unless the channel points at it already."""
        with suppress(AssetsError, OSError), pointing(self._store.folder):
            if not stored or stored[0].stem == _pointed(self._store, channel):
                return
            for path in stored:
                path.unlink(missing_ok=True)


def _require_manifest(files: Mapping[str, AssetFile], order: PublishRequest) -> None:
    """PublishRefused for more than a manifest can say."""
    size = len(manifest_bytes(Manifest(0, files, order.note, order.meta)))
    if size > MAX_MANIFEST_BYTES:
        raise PublishRefused([Refused(".", f"its manifest would have {size} bytes, more than {MAX_MANIFEST_BYTES}")])


def _pointed(store: AssetStore, channel: str) -> str | None:
    try:
        return store.pointer(channel).release
    except NotFound:
        return None
