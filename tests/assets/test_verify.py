"""`verify` reads every byte and reports damaged and missing objects with their files.

See docs/owners/published-files.md: Check the files.
"""

from gamed.assets.errors import ReleaseNotFound
from gamed.assets.verify import VerifyResult, verify
from tests.assets.fixtures import FILES, AssetsCase, meddling, unseen


class VerifyTests(AssetsCase):
    def setUp(self) -> None:
        super().setUp()
        self.done = self.publish(FILES)
        self.one = str(self.done.release)
        self.two = self.release("two")

    def verify(self, release: str | None = None) -> VerifyResult:
        return verify(self.store, unseen, release)

    def test_all_is_well(self) -> None:
        """An intact store, or one release, gives counts and no errors."""
        found = self.verify()
        self.assertEqual((found.releases, found.objects, found.bytes, found.errors), (2, 3, 408, []))
        self.assertEqual(self.verify(self.one).objects, 3)
        self.assertRaises(ReleaseNotFound, self.verify, "r" + "0" * 16)

    def test_damaged_objects(self) -> None:
        """A flipped bit, a missing end and a missing file are reported with the paths that have the object."""
        files = self.done.plan.files
        level1, readme, level2 = (files[path].sha256 for path in ("data/level1.pck", "readme.txt", "data/level2.pck"))
        self.store.object_path(level1).write_bytes(b"\x01" + FILES["data/level1.pck"][1:])
        self.store.object_path(readme).write_bytes(b"hell")
        self.store.object_path(level2).unlink()
        errors = "\n".join(self.verify(self.one).errors)
        self.assertIn(f"object {level1} is damaged: data/level1.pck of {self.one}", errors)
        self.assertIn(f"object {readme} is damaged: copy.txt of {self.one}, readme.txt of {self.one}", errors)
        self.assertIn(f"object {level2} is missing: data/level2.pck of {self.one}", errors)
        self.assertEqual(len(self.verify().errors), 3)

    def test_collected_meanwhile(self) -> None:
        """An object that gc deletes meanwhile is not an error."""
        self.keep = 1
        found = verify(self.store, meddling("reading", lambda: self.collect(0)))
        self.assertEqual((len(self.store.releases()), found.errors), (1, []))

    def test_unused_object(self) -> None:
        """An object that no release has is read and reported."""
        stray = self.store.object_path("0" * 64)
        stray.parent.mkdir(exist_ok=True)
        stray.write_bytes(b"stray")
        self.assertEqual(self.verify().errors, [f"object {'0' * 64} is damaged: no release has it"])
        self.assertEqual(self.verify(self.two).errors, [])

    def test_damaged_names(self) -> None:
        """Damaged pointers and manifests are reported, and pointers without a release."""
        (self.store.folder / "channels/beta.json").write_bytes(b"{")
        (self.store.folder / "releases" / f"{self.one}.json").write_bytes(b"{}")
        (self.store.folder / "releases" / f"{self.two}.json").unlink()
        errors = self.verify().errors
        self.assertEqual(
            [error.split(":")[0] for error in errors], ["channel beta", "channel stable", f"release {self.one}"]
        )
        self.assertIn(self.two, errors[1])

    def test_links(self) -> None:
        """An object that is a link is damaged."""
        path = self.store.object_path(self.done.plan.files["readme.txt"].sha256)
        path.unlink()
        path.symlink_to(self.source / "readme.txt")
        self.assertEqual(len(self.verify().errors), 1)
