"""Garbage collection deletes a day later exactly what no channel needs any more.

See docs/owners/published-files.md: What is kept.
"""

import os
from errno import EIO
from hashlib import sha256
from time import time

from hypothesis import given
from hypothesis.strategies import dictionaries, integers, sampled_from, sets

from gamed.assets import channel_store, marks, verify
from gamed.assets.errors import AssetsBusy, AssetsDamaged, AssetsUnreadable
from gamed.assets.pointer import ChannelPointer
from gamed.assets.store import publish_lock
from tests.assets.fixtures import HOUR_MS, AssetsCase, served

IDS = [f"r{letter * 16}" for letter in "abcd"]


class CollectTests(AssetsCase):
    def setUp(self) -> None:
        super().setUp()
        self.put({"shared.txt": b"in all of them"})
        self.one, self.two, self.three = (self.release(text) for text in ("one", "two", "three"))

    def test_a_day_later(self) -> None:
        """The release of a channel and the one before stay; an older one is deleted after 24 hours with its file."""
        self.now_ms += 23 * HOUR_MS
        early = self.collect()
        self.assertEqual((early.releases, early.objects, early.waiting, early.waiting_bytes), ([], [], [self.one], 3))
        self.now_ms += HOUR_MS
        done = self.collect()
        self.assertEqual((done.releases, done.objects, done.bytes), ([self.one], [sha256(b"one").hexdigest()], 3))
        self.assertEqual(self.store.releases(), sorted([self.two, self.three]))
        self.assertEqual(served(self.store), {"a.txt": b"three", "shared.txt": b"in all of them"})
        self.assertEqual(self.rollback(), self.two)
        self.assertEqual([each.release for each in self.store.pointer("stable").history], [self.three])

    def test_dry_run(self) -> None:
        """A dry run returns the same result and changes nothing."""
        self.now_ms += 24 * HOUR_MS
        before = self.tree()
        said = self.collect(dry_run=True)
        self.assertEqual(self.tree(), before)
        self.assertEqual(self.collect(), said)

    def test_needed_by_another_channel(self) -> None:
        """A release stays while one channel points at it or has it in its history."""
        channel_store.set_channel(self.store, "old", self.one, self.keep, self.now_ms)
        self.now_ms += 48 * HOUR_MS
        self.assertEqual(self.collect().releases, [])
        channel_store.set_channel(self.store, "old", self.three, self.keep, self.now_ms)
        self.now_ms += 48 * HOUR_MS
        self.assertEqual(self.collect().releases, [])

    def test_fewer_kept(self) -> None:
        """After `keep_releases` was lowered, the day begins at the next collection."""
        self.now_ms += 48 * HOUR_MS
        self.keep = 1
        self.assertEqual((self.collect().releases, self.collect().waiting), ([self.one], [self.two]))
        self.now_ms += 24 * HOUR_MS
        self.assertEqual(self.collect().releases, [self.two])

    def test_at_once(self) -> None:
        """`--older-than 0s` deletes at once."""
        self.assertEqual(self.collect(0).releases, [self.one])

    def test_needed_again(self) -> None:
        """A release to which a channel points again stays, and its day begins anew afterwards."""
        self.now_ms += 48 * HOUR_MS
        channel_store.set_channel(self.store, "stable", self.one, self.keep, self.now_ms)
        self.assertEqual((self.collect().releases, self.collect().waiting), ([], [self.two]))

    def test_published_again(self) -> None:
        """Objects of a deleted release stay if a newer release has them."""
        self.now_ms += 48 * HOUR_MS
        self.release("one")
        done = self.collect()
        self.assertEqual((done.releases, done.objects), ([self.one], []))
        self.assertEqual(served(self.store)["a.txt"], b"one")

    def test_killed_before_its_manifest(self) -> None:
        """Objects that no release names are deleted after a day."""
        self.collect(0)
        stray = self.store.object_path("0" * 64)
        stray.parent.mkdir(exist_ok=True)
        stray.write_bytes(b"stray")
        self.now_ms = stray.stat().st_ctime_ns // 1_000_000 + 23 * HOUR_MS
        self.assertEqual((self.collect().objects, self.collect().waiting_bytes), ([], 5))
        self.now_ms += 2 * HOUR_MS
        self.assertIn("0" * 64, self.collect().objects)
        self.assertFalse(stray.exists())

    def test_killed_before_its_pointer(self) -> None:
        """A release to which no channel ever pointed is deleted a day after a collection has first seen it."""
        (self.store.folder / "channels/beta.json").unlink(missing_ok=True)
        lone = self.release("lone", "beta")
        (self.store.folder / "channels/beta.json").unlink()
        self.now_ms += 48 * HOUR_MS
        self.assertEqual(self.collect().waiting, [lone])
        self.now_ms += 24 * HOUR_MS
        self.assertEqual(self.collect().releases, [lone])

    def test_lost_marks(self) -> None:
        """Without the marks, or with damaged ones, nothing is deleted for another day."""
        self.now_ms += 48 * HOUR_MS
        path = self.store.folder / marks.MARKS_FILE
        for damage in (path.unlink, lambda: path.write_bytes(b"{"), lambda: path.write_bytes(b'{"releases": 5}')):
            damage()
            self.assertEqual((self.collect().releases, self.collect().waiting), ([], [self.one]))

    def test_clock_set_back(self) -> None:
        """A mark from the future counts from now."""
        self.now_ms -= 1000 * HOUR_MS
        self.assertEqual(self.collect().releases, [])
        self.now_ms += 24 * HOUR_MS
        self.assertEqual(self.collect().releases, [self.one])

    def test_damage(self) -> None:
        """Keep every object if a pointer, or the release that it points to, is damaged."""
        self.now_ms += 48 * HOUR_MS
        newest = self.store.folder / "releases" / f"{self.three}.json"
        for path in (self.store.folder / "channels/stable.json", newest):
            good = path.read_bytes()
            path.write_bytes(b"damaged")
            before = self.tree()
            self.assertRaises(AssetsDamaged, self.collect)
            self.assertEqual(self.tree(), before)
            path.write_bytes(good)
        newest.rename(self.folder / "away")
        self.assertRaises(AssetsDamaged, self.collect)

    def test_damaged_past(self) -> None:
        """A damaged release in a channel's history is not needed: it is deleted a day later."""
        (self.store.folder / "releases" / f"{self.two}.json").write_bytes(b"damaged")
        self.now_ms += 48 * HOUR_MS
        self.assertEqual((self.collect().releases, self.collect().waiting), ([self.one], [self.two]))
        self.now_ms += 23 * HOUR_MS
        four = self.release("four")
        self.now_ms += HOUR_MS
        self.assertEqual(self.collect().releases, [self.two])
        self.assertEqual(self.store.releases(), sorted([self.three, four]))
        self.assertEqual(self.rollback(), self.three)

    def test_unreadable(self) -> None:
        """Keep every object if the system refuses to read a release, which may be intact."""
        self.keep, self.now_ms = 1, int(time() * 1000) + 48 * HOUR_MS
        self.refuse_to_open(f"{self.two}.json")  # not needed since now, and its file is old
        before = self.objects()
        self.assertRaises(AssetsUnreadable, self.collect)
        self.assertEqual(self.objects(), before)

    def objects(self) -> dict[str, bytes]:
        return {path: data for path, data in self.tree().items() if "objects/" in path}

    def refuse_to_open(self, name: str) -> None:
        """Fail to open this file like a failing disk."""
        open_ = os.open

        def refused(path: str, flags: int, *args: int, **more: int) -> int:
            if path == name:
                raise OSError(EIO, "Input/output error")
            return open_(path, flags, *args, **more)

        self.patch(os, "open", refused)

    def test_beside_publishing(self) -> None:
        """Collection fails with AssetsBusy during a publish, whose objects no release names yet."""
        with publish_lock(self.store.folder):
            self.assertRaises(AssetsBusy, self.collect)

    def test_download_goes_on(self) -> None:
        """A download of a deleted file is completed."""
        with self.store.open_object(sha256(b"one").hexdigest()) as file:
            self.collect(0)
            self.assertEqual(file.readall(), b"one")

    def test_nothing_there(self) -> None:
        """Without any release nothing is deleted."""
        os.rename(self.store.folder, self.folder / "away")
        self.assertEqual((self.collect(dry_run=True).releases, self.collect().releases), ([], []))

    def test_overview(self) -> None:
        """The overview has the size of each release, its own bytes, and whether it is needed."""
        found = verify.overview(self.store, self.keep, self.now_ms)
        self.assertEqual([each.release for each in found.releases], [self.three, self.two, self.one])
        self.assertEqual([each.own_bytes for each in found.releases], [5, 3, 3])
        self.assertEqual([each.unneeded_ms for each in found.releases], [None, None, self.now_ms])
        self.assertEqual((found.objects, found.bytes, found.release_bytes), (4, 25, 53))
        (self.store.folder / "channels/stable.json").write_bytes(b"")
        (self.store.folder / "releases" / f"{self.one}.json").write_bytes(b"")
        found = verify.overview(self.store, self.keep, self.now_ms)
        self.assertEqual(found.damaged, ["channel stable", f"release {self.one}"])


class MarkTests(AssetsCase):
    @given(
        dictionaries(sampled_from(IDS), integers(0, 100)),
        sets(sampled_from(IDS)),
        sets(sampled_from(IDS)),
        integers(0, 100),
    )
    def test_rule(self, before: dict[str, int], there: set[str], needed: set[str], now_ms: int) -> None:
        """Exactly the stored releases that are not needed are marked, with an instant that is never in the future."""
        now = marks.update_marks(before, there, needed, now_ms)
        self.assertEqual(set(now), there - needed)
        self.assertEqual(now, {each: min(before.get(each, now_ms), now_ms) for each in now})
        self.assertEqual(marks.parse_marks(marks.marks_bytes(now)), now)

    def test_retained(self) -> None:
        """Each channel retains so many releases, the present one first."""
        one = ChannelPointer(IDS[0], 1).moved_to(IDS[1], 2).moved_to(IDS[2], 3)
        self.assertEqual(marks.retained_releases([one, ChannelPointer(IDS[3], 1)], 2), {IDS[2], IDS[1], IDS[3]})
        self.assertEqual(marks.retained_releases([one], 1), {IDS[2]})
