"""Channels are set to a complete release, rolled back and deleted (docs/owners/assets.md: Move channels)."""

from functools import partial

from gamed.assets import channel_store
from gamed.assets import store as asset_store
from gamed.assets.errors import (
    AssetsBusy,
    AssetsDamaged,
    ChannelMoved,
    ChannelNotFound,
    NoPreviousRelease,
    PointerMalformed,
    ReleaseNotFound,
)
from gamed.assets.store import channel_lock
from tests.assets.fixtures import AssetsCase, served


class ChannelTests(AssetsCase):
    def setUp(self) -> None:
        super().setUp()
        self.one, self.two, self.three = (self.release(text) for text in ("one", "two", "three"))

    def point(self, channel: str, release: str) -> channel_store.ChannelUpdate:
        self.now_ms += 1000
        return channel_store.set_channel(self.store, channel, release, self.keep, self.now_ms)

    def pointed(self, channel: str = "stable") -> str:
        return self.store.pointer(channel).release

    def test_rollback(self) -> None:
        """Each rollback leads one release further back until none is left; publishing works afterwards."""
        self.assertEqual([self.rollback(), self.rollback()], [self.two, self.one])
        self.assertEqual(served(self.store), {"a.txt": b"one"})
        self.assertRaises(NoPreviousRelease, self.rollback)
        self.assertEqual(self.pointed(), self.one)
        self.release("four")
        self.assertEqual(self.rollback(), self.one)

    def test_point(self) -> None:
        """A channel, also a new one, is set to any stored release; the same release changes nothing."""
        self.assertEqual(self.point("stable", self.one), channel_store.ChannelUpdate("stable", self.one, self.three))
        self.assertEqual(self.point("beta", self.two).before, None)
        before = self.tree()
        self.assertEqual(self.point("beta", self.two).before, self.two)
        self.assertEqual(self.tree(), before)

    def test_expected(self) -> None:
        """A caller who names the release that is expected moves the channel from that one alone."""
        before, now_ms = self.tree(), self.now_ms + 1000
        move = partial(channel_store.set_channel, self.store, keep=self.keep, now_ms=now_ms)
        back = partial(channel_store.rollback, self.store, "stable", self.keep, now_ms)
        self.assertRaises(ChannelMoved, move, "stable", self.one, expected=self.two)
        self.assertRaises(ChannelMoved, back, expected=self.two)
        self.assertRaises(ChannelNotFound, move, "beta", self.one, expected=self.two)
        self.assertEqual(self.tree(), before)
        self.assertEqual(back(expected=self.three).release, self.two)
        self.assertEqual(move("stable", self.one, expected=self.two).before, self.two)

    def test_only_complete_releases(self) -> None:
        """A channel is not set to a release that is unknown, damaged or incomplete."""
        self.assertRaises(ReleaseNotFound, self.point, "stable", "r" + "0" * 16)
        lost = next(iter(channel_store.check_release(self.store, self.two).files.values()))
        path = self.store.object_path(lost.sha256)
        path.write_bytes(b"tw")
        self.assertRaises(AssetsDamaged, self.point, "stable", self.two)
        self.assertRaises(AssetsDamaged, self.rollback)
        path.unlink()
        self.assertRaises(AssetsDamaged, self.point, "stable", self.two)
        (self.store.folder / "releases" / f"{self.one}.json").write_bytes(b"{}")
        self.assertRaises(AssetsDamaged, self.point, "stable", self.one)
        self.assertEqual(self.pointed(), self.three)

    def test_rollback_skips_what_is_gone(self) -> None:
        """A rollback skips a deleted release."""
        (self.store.folder / "releases" / f"{self.two}.json").unlink()
        self.assertEqual(self.rollback(), self.one)

    def test_delete(self) -> None:
        """A deleted channel does not exist any more, its releases do; an unknown channel is an error."""
        self.assertEqual(channel_store.delete_channel(self.store, "stable", self.keep, self.now_ms), self.three)
        self.assertRaises(ChannelNotFound, self.store.pointer, "stable")
        self.assertEqual(len(self.store.releases()), 3)
        self.assertEqual(sorted(channel_store.read_marks(self.store)), sorted([self.one, self.two, self.three]))
        self.assertRaises(ChannelNotFound, channel_store.delete_channel, self.store, "stable", self.keep, self.now_ms)
        self.assertRaises(ChannelNotFound, self.rollback)

    def test_damaged_pointer(self) -> None:
        """A damaged pointer can be replaced or deleted, but not rolled back."""
        path = self.store.folder / "channels/stable.json"
        path.write_bytes(b"damaged")
        self.assertRaises(PointerMalformed, self.rollback)
        self.assertEqual(self.point("stable", self.two), channel_store.ChannelUpdate("stable", self.two, None, True))
        path.write_bytes(b"damaged")
        self.assertIsNone(channel_store.delete_channel(self.store, "stable", self.keep, self.now_ms))
        self.assertEqual(self.store.channels(), [])

    def test_one_at_a_time(self) -> None:
        """A command waits while another one writes a pointer, then fails with AssetsBusy."""
        self.patch(asset_store, "LOCK_WAIT_SECONDS", 0.1)
        with channel_lock(self.store.folder):
            self.assertRaises(AssetsBusy, self.point, "stable", self.one)
        self.assertEqual(self.point("stable", self.one).release, self.one)

    def test_marks(self) -> None:
        """A release that leaves a channel's history is marked with that instant; a needed one loses its mark."""
        self.assertEqual(channel_store.read_marks(self.store), {self.one: self.now_ms})
        at = self.now_ms
        self.point("stable", self.one)
        self.assertEqual(channel_store.read_marks(self.store), {self.two: at + 1000})
        self.point("old", self.two)
        self.assertEqual(channel_store.read_marks(self.store), {})
