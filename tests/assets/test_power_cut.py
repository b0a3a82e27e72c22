"""Syncs and renames have an order in which no file on disk names one that a power cut can undo."""

import os
from pathlib import Path

from tests.assets.fixtures import FILES, AssetsCase
from tests.support.covers import covers


@covers("threats/57")
class OrderTests(AssetsCase):
    def setUp(self) -> None:
        super().setUp()
        self.events: list[tuple[str, Path]] = []
        fsync, rename, replace = os.fsync, os.rename, os.replace

        def synced(descriptor: int) -> None:
            fsync(descriptor)
            self.events.append(("sync", Path(f"/proc/self/fd/{descriptor}").readlink()))

        def renamed(source: Path, target: Path) -> None:
            rename(source, target)
            self.events.append(("rename", Path(target)))

        def replaced(source: Path, target: Path) -> None:
            self.assertIn(("sync", Path(source)), self.events)
            replace(source, target)
            self.events.append(("rename", Path(target)))

        self.patch(os, "fsync", synced)
        self.patch(os, "rename", renamed)
        self.patch(os, "replace", replaced)

    def at(self, event: str, path: Path) -> int:
        return self.events.index((event, path))

    def last(self, event: str, path: Path) -> int:
        return len(self.events) - 1 - self.events[::-1].index((event, path))

    def test_publish(self) -> None:
        """Objects, their names, the manifest, its name, the pointer and its name are on disk in this order."""
        done = self.publish(FILES)
        manifest = self.store.folder / "releases" / f"{done.release}.json"
        pointer = self.store.folder / "channels/stable.json"
        for sha256 in done.plan.new:
            place = self.store.object_path(sha256)
            staged = self.store.folder / "tmp/publish" / sha256
            self.assertLess(self.at("sync", staged), self.at("rename", place))
            self.assertLess(self.at("rename", place), self.last("sync", place.parent))
            self.assertLess(self.last("sync", place.parent), self.at("rename", manifest))
        for folder in (self.store.folder / "objects", self.store.folder, self.store.folder.parent):
            self.assertLess(self.last("sync", folder), self.at("rename", manifest))
        self.assertLess(self.at("rename", manifest), self.last("sync", manifest.parent))
        self.assertLess(self.last("sync", manifest.parent), self.at("rename", pointer))
        self.assertEqual(self.events[-1], ("sync", pointer.parent))

    def test_repair(self) -> None:
        """A repaired object has its name on disk before publishing ends."""
        done = self.publish(FILES)
        places = [self.store.object_path(sha256) for sha256 in done.plan.new]
        for damage in (lambda path: path.unlink(), lambda path: path.write_bytes(b"")):
            damage(places[0])
            self.events.clear()
            again = self.publish(repair=True)
            self.assertEqual((again.release, list(again.plan.new)), (done.release, [places[0].name]))
            self.assertLess(self.at("rename", places[0]), self.last("sync", places[0].parent))

    def test_collect(self) -> None:
        """A release is deleted after its name in each history, and its objects after it."""
        self.keep = 1
        one, two = self.release("one"), self.release("two")
        self.events.clear()
        self.collect(0)
        self.assertEqual(self.store.releases(), [two])
        self.assertNotIn(one, str(self.store.pointer("stable")))
        channels, releases = self.store.folder / "channels", self.store.folder / "releases"
        self.assertLess(self.at("rename", channels / "stable.json"), self.at("sync", channels))
        self.assertLess(self.at("sync", channels), self.at("sync", releases))
