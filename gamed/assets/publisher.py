"""A folder made into a release, and a channel pointed at it, last (PROTOCOL 5).

Objects first, on disk, under a name of their own each; then the manifest that names them; then the pointer that names
the manifest. Whoever is killed in between leaves the old release whole, and the channel at it.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from gamed.assets import channels, crew
from gamed.assets.crew import Growing, Meter
from gamed.assets.disk import free_bytes, make_folders, pointing, publishing, sync_folder, write_whole
from gamed.assets.errors import AssetsDamaged, AssetsError, AssetsFull, NotFound, PublishRefused
from gamed.assets.media_types import media_type
from gamed.assets.paths import Refused
from gamed.assets.plan import Order, Plan, Published
from gamed.assets.release import MAX_MANIFEST_BYTES, AssetFile, Manifest, manifest_bytes, parse_manifest, release_id
from gamed.assets.scanning import Found, Scan, hashes, scan
from gamed.assets.store import OBJECTS, RELEASES, SUFFIX, AssetStore
from gamed.assets.storing import full, store_objects
from gamed.assets.verifying import object_is_whole
from gamed.instants import Now
from gamed.structs import Part

BLOCK: Final = 4096
"""What a file takes of a disk at least."""


class Publisher(Part, frozen=True):
    """One command's work; blocks, and is stopped by an exception in the thread that waits for it."""

    _store: AssetStore
    _growing: Growing
    _now_ms: Now
    _min_free_bytes: int
    _keep_releases: int
    _free_bytes: Callable[[Path], int] = free_bytes

    def plan(self, order: Order) -> Plan:
        """Everything read and judged, nothing written; PublishRefused, AssetsFull."""
        found = scan(order.folder, hidden=order.hidden)
        if found.refused:
            raise PublishRefused(found.refused)
        digests = hashes(found.files, self._growing)
        files = {
            file.path: AssetFile(file.size, digests[file.path], media_type(file.path, order.types))
            for file in found.files
        }
        _require_manifest(files, order)
        plan = Plan(files, self._missing(found, digests, repair=order.repair), found.hidden)
        self._require_room(plan)
        return plan

    def publish(self, order: Order) -> Published:
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

    def _missing(self, found: Scan, digests: Mapping[str, str], *, repair: bool) -> dict[str, Found]:
        by_digest = {digests[file.path]: file for file in found.files}
        if not repair:
            return {
                sha256: file
                for sha256, file in by_digest.items()
                if not channels.has_object(self._store, sha256, file.size)
            }
        missing: dict[str, Found] = {}

        def look(sha256: str, meter: Meter) -> None:
            if not object_is_whole(self._store, sha256, by_digest[sha256].size, meter.add):
                missing[sha256] = by_digest[sha256]

        with self._growing("reading the store", sum(file.size for file in by_digest.values())) as shown:
            crew.each(by_digest, look, shown, lambda: None)
        return missing

    def _same(self, order: Order, plan: Plan) -> str | None:
        """The release that the channel points at, when it is what would be published."""
        try:
            release = self._store.pointer(order.channel).release
            manifest = parse_manifest(self._store.manifest(release))
        except (NotFound, AssetsDamaged):
            return None
        same = (manifest.files, manifest.note, manifest.meta) == (plan.files, order.note, order.meta)
        return release if same else None

    def _require_room(self, plan: Plan) -> None:
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

    def _point(self, order: Order, plan: Plan, stored: list[Path]) -> Published:
        text = manifest_bytes(Manifest(self._now_ms(), plan.files, order.note, order.meta))
        release = release_id(text)
        path = self._store.folder / RELEASES / f"{release}{SUFFIX}"
        try:
            stored.insert(0, path)
            write_whole(path, text)
            with pointing(self._store.folder):
                moved = channels.move(self._store, order.channel, release, self._keep_releases, self._now_ms())
        except OSError as e:
            raise full(e) from None
        return Published(plan, release, moved.before, moved.past_lost)

    def _sync(self, plan: Plan) -> None:
        """The names of its objects; also what another publish made that was killed before it came to this."""
        try:
            for folder in self._folders(plan):
                sync_folder(folder)
        except OSError as e:
            raise full(e) from None

    def _folders(self, plan: Plan) -> list[Path]:
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


def _require_manifest(files: Mapping[str, AssetFile], order: Order) -> None:
    """PublishRefused for more than a manifest can say."""
    size = len(manifest_bytes(Manifest(0, files, order.note, order.meta)))
    if size > MAX_MANIFEST_BYTES:
        raise PublishRefused([Refused(".", f"its manifest would have {size} bytes, more than {MAX_MANIFEST_BYTES}")])


def _pointed(store: AssetStore, channel: str) -> str | None:
    try:
        return store.pointer(channel).release
    except NotFound:
        return None
