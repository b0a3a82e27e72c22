"""Publishing makes a release of a folder and sets a channel to it, or changes nothing.

See docs/owners/assets.md: Publishing.
"""

import os
import shutil
import socket
import tracemalloc
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from resource import RLIMIT_FSIZE, getrlimit, setrlimit
from unicodedata import normalize

from gamed.assets import channel_store
from gamed.assets.errors import AssetsBusy, AssetsDamaged, AssetsFull, PublishRefused
from gamed.assets.manifest import parse_manifest
from gamed.assets.publish import Publisher, PublishRequest
from gamed.assets.scan import UnusableSource, digest_of, scan_folder
from gamed.assets.store import publish_lock
from tests.assets.fixtures import FILES, NOW_MS, AssetsCase, meddling, served, unseen
from tests.support.covers import covers

MIB = 1024 * 1024


class PublishTests(AssetsCase):
    def test_first(self) -> None:
        """Each file is stored once with its type and time, readable by this user only."""
        done = self.publish(FILES, note="1.0", meta={"build": 7})
        self.assertEqual(served(self.store), FILES)
        manifest = parse_manifest(self.store.manifest(str(done.release)))
        self.assertEqual((manifest.published_ms, manifest.note, manifest.meta), (NOW_MS, "1.0", {"build": 7}))
        self.assertEqual(manifest.files["readme.txt"].type, "text/plain; charset=utf-8")
        self.assertEqual(manifest.files["data/level1.pck"].type, "application/octet-stream")
        self.assertEqual((done.before, len(done.plan.new), done.plan.new_bytes), (None, 3, 408))
        self.assertEqual(list((self.store.folder / "tmp").iterdir()), [])
        for path in [self.store.folder, *self.store.folder.rglob("*")]:
            self.assertEqual(path.stat().st_mode & 0o777, 0o700 if path.is_dir() else 0o600, path)

    def test_group(self) -> None:
        """Only this user can read what is stored, unless the owner lets the group of the folder read it, too."""
        modes = lambda: {path.stat().st_mode & 0o777 for path in self.store.folder.glob("objects/**/*")}  # noqa: E731
        self.publish(FILES)
        self.assertEqual(modes(), {0o700, 0o600})
        for name in ("objects", "tmp"):
            (self.store.folder / name).chmod(0o2750)
        old = os.umask(0o077)
        self.addCleanup(os.umask, old)
        before = set(self.store.folder.glob("objects/**/*"))
        self.publish({"new.bin": b"of the group"})
        new = set(self.store.folder.glob("objects/**/*")) - before
        self.assertEqual({path.stat().st_mode & 0o777 for path in new}, {0o750, 0o640})

    def test_again(self) -> None:
        """Publishing an unchanged folder writes nothing."""
        first = self.publish(FILES, note="1.0")
        before = self.tree()
        self.now_ms += 1
        again = self.publish(note="1.0")
        self.assertEqual((again.release, again.before, len(again.plan.new)), (first.release, first.release, 0))
        self.assertEqual(self.tree(), before)

    def test_only_what_is_new(self) -> None:
        """Only changed bytes are stored; a renamed file uses its old object."""
        first = self.publish(FILES)
        (self.source / "data/level1.pck").rename(self.source / "data/renamed.pck")
        (self.source / "copy.txt").unlink()
        second = self.publish({"new.bin": b"new"})
        self.assertEqual(
            (second.before, [file.path for file in second.plan.new.values()]), (first.release, ["new.bin"])
        )
        self.assertEqual(sorted(served(self.store)), ["data/level2.pck", "data/renamed.pck", "new.bin", "readme.txt"])
        self.now_ms += 1
        third = self.publish(note="only a note")
        self.assertEqual((third.before, len(third.plan.new)), (second.release, 0))
        self.assertNotEqual(third.release, second.release)

    def test_channels(self) -> None:
        """Publishing to another channel creates that channel."""
        stable = self.publish(FILES)
        beta = self.publish({"readme.txt": b"beta"}, channel="beta")
        self.assertEqual(self.store.channels(), ["beta", "stable"])
        self.assertEqual(self.store.pointer("stable").release, stable.release)
        self.assertEqual(self.store.pointer("beta").release, beta.release)

    @covers("threats/55")
    def test_names(self) -> None:
        """Paths are in NFC; names that begin with a dot are published only with `hidden`."""
        self.put({normalize("NFD", "é/ü.txt"): b"1", ".git/config": b"2", "a/.DS_Store": b"3", "a/b": b""})
        self.assertEqual(self.publish().plan.hidden, [".git", "a/.DS_Store"])
        self.assertEqual(served(self.store), {normalize("NFC", "é/ü.txt"): b"1", "a/b": b""})
        self.assertEqual(len(self.publish(hidden=True).plan.files), 4)

    def test_types(self) -> None:
        """The media type follows from the last suffix in any case; the operator's types precede."""
        plan = self.publish(
            dict.fromkeys(["A.PNG", "b.tar.gz", "c", "d.bank", "e.json"], b"x"), types={"bank": "a/b"}
        ).plan
        types = {path: file.type for path, file in plan.files.items()}
        octets = "application/octet-stream"
        self.assertEqual(
            types,
            {
                "A.PNG": "image/png",
                "b.tar.gz": "application/gzip",
                "c": octets,
                "d.bank": "a/b",
                "e.json": "application/json",
            },
        )

    def test_dry_run(self) -> None:
        """A plan reads everything and writes nothing, not even a folder."""
        self.put(FILES)
        plan = self.publisher().plan(PublishRequest(self.source, "stable"))
        self.assertEqual((len(plan.files), len(plan.new)), (4, 3))
        self.assertFalse(self.store.folder.exists())

    def test_linked_store(self) -> None:
        """The assets folder may be a link to another disk."""
        elsewhere = self.folder / "elsewhere"
        elsewhere.mkdir()
        self.store.folder.symlink_to(elsewhere)
        self.publish(FILES)
        self.assertEqual(served(self.store), FILES)
        self.assertTrue((elsewhere / "objects").is_dir())

    def test_large_file(self) -> None:
        """Publishing a large file does not need memory of its size."""
        self.put({"large.bin": b""})
        os.truncate(self.source / "large.bin", 64 * MIB)
        tracemalloc.start()
        self.addCleanup(tracemalloc.stop)
        self.publish()
        self.assertLess(tracemalloc.get_traced_memory()[1], 16 * MIB)
        self.assertEqual(self.publish().plan.bytes, 64 * MIB)


@covers("threats/57")
class RefusedTests(AssetsCase):
    def setUp(self) -> None:
        super().setUp()
        self.publish(FILES)
        self.before = self.tree()

    def refused(self, work: Callable[[], object] | None = None) -> dict[str, str]:
        """Publish files that are refused and change nothing; return the reasons."""
        error = self.assertRaises(PublishRefused, work or self.publish)
        self.assertEqual(self.tree(), self.before)
        self.assertEqual(list((self.store.folder / "tmp").iterdir()), [])
        return {each.path: each.reason for each in error.refused}

    @covers("threats/55")
    def test_all_are_named(self) -> None:
        """Each kind of bad file is reported with its reason, all of them at once."""
        (self.source / "data/link").symlink_to("/etc/passwd")
        (self.source / "folder").symlink_to(self.folder)
        os.mkfifo(self.source / "pipe")
        with socket.socket(socket.AF_UNIX) as server:
            here = os.getcwd()
            os.chdir(self.source)
            server.bind("socket")
            os.chdir(here)
        Path(os.fsdecode(os.fsencode(self.source) + b"/bad\xff")).write_bytes(b"")
        self.put({"README.TXT": b"", "a:b": b"", "line\nbreak": b"", "nul.txt": b"", "a\\b": b"", "end.": b""})
        reasons = self.refused()
        for path, reason in (
            ("data/link", "symbolic link"),
            ("folder", "symbolic link"),
            ("pipe", "pipe"),
            ("socket", "socket"),
            ("bad\udcff", "UTF-8"),
            ("readme.txt", "README.TXT"),
            ("a:b", "Windows"),
            ("line\nbreak", "control"),
            ("nul.txt", "device"),
            ("a\\b", "\\"),
            ("end.", "dot"),
        ):
            self.assertIn(reason, reasons.pop(path))
        self.assertEqual(reasons, {})

    def test_deep_folders(self) -> None:
        """Folders deeper than any path and than Python's recursion limit are reported by the first of them."""
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.source)
        for _ in range(600):
            os.mkdir("d")
            os.chdir("d")
            self.addCleanup(os.rmdir, "d")  # no tool has to go down there
            self.addCleanup(os.chdir, "..")
        Path("f").write_bytes(b"")
        self.addCleanup(os.unlink, "f")
        [(path, reason)] = self.refused().items()
        self.assertEqual((path, "longer than 1024 bytes" in reason), ("/".join(["d"] * 513), True))

    def test_empty_folder(self) -> None:
        """An empty folder, such as one that is not mounted, is refused."""
        shutil.rmtree(self.source)
        self.source.mkdir()
        (self.source / "sub").mkdir()
        self.assertEqual(self.refused(), {".": "there is no file in it"})

    def test_changed_while_read(self) -> None:
        """A file that is changed in any way while it is published is refused."""
        target = self.source / "data/level1.pck"

        def replace() -> None:
            target.with_suffix(".new").write_bytes(b"\x00new" * 100)
            target.with_suffix(".new").replace(target)

        def link() -> None:
            target.unlink()
            target.symlink_to(self.source / "readme.txt")

        for change in (
            lambda: target.write_bytes(b"longer" * 100),
            lambda: target.write_bytes(b"short"),
            lambda: target.write_bytes(b""),
            replace,
            target.unlink,
            link,
        ):
            for moment in ("reading", "storing"):
                if target.is_symlink():
                    target.unlink()
                self.put({"data/level1.pck": b"\x00two" * 100})
                growing = meddling(moment, change)
                [(path, reason)] = self.refused(lambda growing=growing: self.publish(growing=growing)).items()
                self.assertEqual(path, "data/level1.pck")
                self.assertTrue("changed while it was read" in reason or "cannot be read" in reason, reason)

    def test_changed_unseen(self) -> None:
        """Bytes that change between the two reads, with the same size and time, are found by their hash."""
        target = self.source / "data/level1.pck"
        self.put({"data/level1.pck": b"\x00two" * 100})
        state = target.stat()

        def change() -> None:
            target.write_bytes(b"\x00six" * 100)
            os.utime(target, ns=(state.st_atime_ns, state.st_mtime_ns))

        reasons = self.refused(lambda: self.publish(growing=meddling("storing", change)))
        self.assertEqual(reasons, {"data/level1.pck": "changed while it was read"})

    def test_changed_meanwhile(self) -> None:
        """Bytes that change during a read, with the same size, are found by their time."""
        [file] = [each for each in scan_folder(self.source).files if each.path == "readme.txt"]
        error = self.assertRaises(UnusableSource, digest_of, file, lambda chunk: self.put({"readme.txt": b"HELLO"}))
        self.assertEqual(str(error), "changed while it was read")

    def test_unreadable_folder(self) -> None:
        """A folder that is deleted meanwhile is reported."""
        shutil.rmtree(self.source)
        self.assertIn("cannot be read", self.refused()["."])

    def test_disk_nearly_full(self) -> None:
        """`min_free_bytes` stay free; a release without new objects is published all the same."""
        self.put({"new.bin": b"new"})
        publisher = self.publisher(min_free_bytes=2**60)
        self.assertRaises(AssetsFull, publisher.publish, PublishRequest(self.source, "stable"))
        self.assertRaises(AssetsFull, publisher.plan, PublishRequest(self.source, "stable"))
        self.assertEqual(self.tree(), self.before)
        (self.source / "new.bin").unlink()
        self.assertIsNotNone(publisher.publish(PublishRequest(self.source, "stable", "a note")).release)

    def test_disk_full(self) -> None:
        """A failed write to a full disk leaves no files."""
        self.put({"large.bin": b"x" * 200_000})
        soft, hard = getrlimit(RLIMIT_FSIZE)
        setrlimit(RLIMIT_FSIZE, (100_000, hard))
        try:
            self.assertRaises(AssetsFull, self.publish)
        finally:
            setrlimit(RLIMIT_FSIZE, (soft, hard))
        self.assertEqual(self.tree(), self.before)
        self.assertEqual(list((self.store.folder / "tmp").iterdir()), [])

    def test_others_fill_the_disk(self) -> None:
        """A disk that other programs fill is noticed while objects are written."""
        seen = iter([100_000])
        publisher = Publisher(
            store=self.store,
            progress=unseen,
            now_ms=lambda: NOW_MS,
            min_free_bytes=0,
            keep_releases=1,
            free_bytes=lambda folder: next(seen, -1),
        )
        self.put({"new.bin": b""})
        self.assertRaises(AssetsFull, publisher.publish, PublishRequest(self.source, "stable"))
        self.assertEqual(self.tree(), self.before)

    def test_interrupted(self) -> None:
        """Ctrl-C while objects are written or renamed changes nothing."""
        self.put({"new.bin": b"new"})
        for moment in ("reading", "storing"):
            self.assertRaises(KeyboardInterrupt, self.publish, growing=meddling(moment, interrupt))
            self.assertEqual(self.tree(), self.before)
            self.assertEqual(list((self.store.folder / "tmp").iterdir()), [])

    def test_pointer_cannot_be_written(self) -> None:
        """A failure at the end leaves no new files, and the channel at its release."""
        self.put({"new.bin": b"new"})
        (self.store.folder / "channels/.new").mkdir()
        self.assertRaises(OSError, self.publish)
        self.assertEqual(self.tree(), self.before)

    def test_linked_shard(self) -> None:
        """A folder of the store that is a link is not written to, because readers do not follow it."""
        content = next(each for number in range(10_000) if not self.shard(each := b"%d" % number).exists())
        self.shard(content).symlink_to(self.source)
        self.put({"new.bin": content})
        self.assertRaises(AssetsDamaged, self.publish)
        self.assertEqual(self.tree(), self.before)

    def shard(self, content: bytes) -> Path:
        return self.store.object_path(sha256(content).hexdigest()).parent

    def test_one_at_a_time(self) -> None:
        """A second publish fails at once with AssetsBusy; a channel can be set meanwhile."""
        first = self.store.pointer("stable").release
        with publish_lock(self.store.folder):
            self.assertRaises(AssetsBusy, self.publish)
            channel_store.set_channel(self.store, "beta", first, self.keep, self.now_ms)
        self.assertEqual(self.store.pointer("beta").release, first)


class RepairTests(AssetsCase):
    def setUp(self) -> None:
        super().setUp()
        self.done = self.publish(FILES)
        self.sha256 = self.done.plan.files["readme.txt"].sha256
        self.object = self.store.object_path(self.sha256)

    def test_leftovers(self) -> None:
        """The next publish deletes the files that a killed one has left."""
        stale = self.store.folder / "tmp/publish"
        stale.mkdir()
        (stale / "x").write_bytes(b"x")
        (self.store.folder / "tmp/y").write_bytes(b"y")
        (self.store.folder / "releases/.new").write_bytes(b"half")
        self.publish({"new.bin": b"new"})
        self.assertEqual(list((self.store.folder / "tmp").iterdir()), [])
        self.assertFalse((self.store.folder / "releases/.new").exists())

    def test_missing_or_short_object(self) -> None:
        """Publishing the same folder restores objects that are missing or have another size."""
        for damage in (self.object.unlink, lambda: self.object.write_bytes(b"hell")):
            damage()
            again = self.publish()
            self.assertEqual((again.release, list(again.plan.new)), (self.done.release, [self.sha256]))
            self.assertEqual(served(self.store), FILES)

    def test_damaged_object(self) -> None:
        """Damaged objects of the same size are found only with `repair`."""
        self.object.write_bytes(b"HELLO")
        self.assertEqual(len(self.publish().plan.new), 0)
        again = self.publish(repair=True)
        self.assertEqual((again.release, list(again.plan.new)), (self.done.release, [self.sha256]))
        self.assertEqual(served(self.store), FILES)

    def test_damaged_pointer(self) -> None:
        """A channel with a damaged pointer is set, and the result reports that its history is lost."""
        (self.store.folder / "channels/stable.json").write_bytes(b"{")
        self.now_ms += 1
        done = self.publish()
        self.assertEqual((done.past_lost, done.before), (True, None))
        self.assertEqual(served(self.store), FILES)


def interrupt() -> None:
    raise KeyboardInterrupt
