"""The service reads the assets folder, also an empty or damaged one (docs/internals/storage.md: Assets)."""

import os
from hashlib import sha256
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from gamed.assets.errors import (
    AssetsDamaged,
    ChannelNotFound,
    ManifestMalformed,
    ObjectNotFound,
    PointerMalformed,
    ReleaseNotFound,
)
from gamed.assets.manifest import AssetFile, Manifest, manifest_bytes, release_id
from gamed.assets.pointer import ChannelPointer, pointer_bytes
from gamed.assets.store import AssetStore
from tests.support.databases import data_folder

CONTENT = b"level one"
HASH = sha256(CONTENT).hexdigest()
MANIFEST = manifest_bytes(Manifest(0, {"a": AssetFile(len(CONTENT), HASH, "text/plain")}))
RELEASE = release_id(MANIFEST)


class StoreTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.folder = data_folder(self) / "assets"
        self.store = AssetStore(self.folder)

    def put(self, path: str, content: bytes) -> Path:
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.with_suffix(".new").write_bytes(content)
        target.with_suffix(".new").rename(target)
        return target

    def fill(self) -> None:
        self.put("channels/stable.json", pointer_bytes(ChannelPointer(RELEASE, 0)))
        self.put(f"releases/{RELEASE}.json", MANIFEST)
        self.put(f"objects/{HASH[:2]}/{HASH}", CONTENT)

    def test_nothing_there(self) -> None:
        """A missing folder counts as an empty one."""
        self.assertEqual((self.store.stamp(), self.store.channels(), self.store.releases()), ((), [], []))
        self.assertRaises(ChannelNotFound, self.store.pointer, "stable")
        self.assertRaises(ReleaseNotFound, self.store.manifest, RELEASE)
        self.assertRaises(ObjectNotFound, self.store.open_object, HASH)

    def test_read(self) -> None:
        """Pointers, manifests and objects are read; other files in the folders are ignored."""
        self.fill()
        self.put("channels/objects.json", b"")
        self.put("channels/x.txt", b"")
        self.put("releases/stable.json", b"")
        self.assertEqual((self.store.channels(), self.store.releases()), (["stable"], [RELEASE]))
        self.assertEqual(self.store.pointer("stable").release, RELEASE)
        self.assertEqual(self.store.manifest(RELEASE), MANIFEST)
        with self.store.open_object(HASH, len(CONTENT)) as file:
            self.assertEqual(file.read(), CONTENT)
            self.assertFalse(os.get_inheritable(file.fileno()))

    def test_stamp(self) -> None:
        """The stamp changes when a pointer is created, moved or deleted."""
        self.fill()
        seen = [self.store.stamp()]
        self.put("releases/other.json", b"")
        self.assertEqual(self.store.stamp(), seen[0])
        self.put("channels/beta.json", pointer_bytes(ChannelPointer(RELEASE, 0)))
        seen.append(self.store.stamp())
        self.put("channels/beta.json", pointer_bytes(ChannelPointer(RELEASE, 0)))
        seen.append(self.store.stamp())
        (self.folder / "channels/beta.json").unlink()
        seen.append(self.store.stamp())
        self.assertEqual(len(set(seen)), 3)
        self.assertEqual(seen[3], seen[0])

    def test_names_are_no_paths(self) -> None:
        """A malformed name is never used in a path."""
        self.fill()
        self.put("secret.json", pointer_bytes(ChannelPointer(RELEASE, 0)))
        for name in ("../secret", "stable.json", "", ".", "STABLE", "stable\0"):
            self.assertRaises(ChannelNotFound, self.store.pointer, name)
        self.assertRaises(ReleaseNotFound, self.store.manifest, f"../releases/{RELEASE}")
        for name in (f"../{HASH}", HASH.upper(), HASH[:63], f"{HASH}\n"):
            self.assertRaises(ObjectNotFound, self.store.open_object, name)

    def test_damaged(self) -> None:
        """Damaged files raise an error with their name."""
        self.fill()
        self.put("channels/stable.json", b"{")
        self.assertRaises(PointerMalformed, self.store.pointer, "stable")
        self.put("channels/stable.json", b" " * 300_000)
        self.assertRaises(AssetsDamaged, self.store.pointer, "stable")
        self.put(f"releases/{RELEASE}.json", MANIFEST.replace(b"1970", b"1971"))
        self.assertRaises(ManifestMalformed, self.store.manifest, RELEASE)
        self.assertRaises(AssetsDamaged, self.store.open_object, HASH, len(CONTENT) + 1)

    def test_no_regular_files(self) -> None:
        """Links, folders, pipes and devices are refused without waiting."""
        self.fill()
        outside = self.put("../outside", CONTENT)
        target = self.store.object_path(HASH)
        for make in (
            lambda: target.symlink_to(outside),
            target.mkdir,
            lambda: os.mkfifo(target),
        ):
            target.unlink()
            make()
            self.assertRaises(AssetsDamaged, self.store.open_object, HASH)
            if target.is_dir() and not target.is_symlink():
                target.rmdir()
                target.touch()
        target.unlink()
        target.parent.rmdir()
        target.parent.symlink_to(outside.parent)
        self.assertRaises(AssetsDamaged, self.store.open_object, HASH)

    def test_descriptors_are_closed(self) -> None:
        """No descriptor stays open after any error."""
        self.fill()
        self.put(f"objects/{'0' * 2}/{'0' * 64}/x", b"")
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(5):
            self.store.open_object(HASH).close()
            self.assertRaises(AssetsDamaged, self.store.open_object, HASH, 1)
            self.assertRaises(AssetsDamaged, self.store.open_object, "0" * 64)
            self.assertRaises(ObjectNotFound, self.store.open_object, "1" * 64)
            self.store.manifest(RELEASE)
        self.assertEqual(len(os.listdir("/proc/self/fd")), before)
