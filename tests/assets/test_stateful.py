"""After any sequence of commands every needed release is complete, and only expired ones are deleted."""

import os
import shutil

from hypothesis import given, settings
from hypothesis.strategies import integers, lists, sampled_from, tuples
from msgspec import Struct, field

from gamed.assets import channel_store
from gamed.assets.errors import ChannelNotFound, NoPreviousRelease, ReleaseNotFound
from gamed.assets.verify import verify
from tests.assets.fixtures import HOUR_MS, AssetsCase, served, unseen
from tests.support.examples import examples

WORDS = (
    ["publish"] * 6
    + ["rollback"] * 3
    + ["point"] * 2
    + ["drop", "hours", "day", "day", "collect", "collect", "collect"]
)
STEPS = tuples(sampled_from(WORDS), sampled_from(["stable", "stable", "beta"]), integers(0, 9))


class Model(Struct):
    """A model of channels and marks in plain lists."""

    keep: int
    pasts: dict[str, list[tuple[str, bool]]] = field(default_factory=dict)
    """Channel -> releases, newest first, each with whether a rollback has left it."""
    published: list[str] = field(default_factory=list)
    unneeded_ms: dict[str, int] = field(default_factory=dict)

    def point(self, channel: str, release: str, now_ms: int, *, withdrawn: bool = False) -> None:
        past = self.pasts.get(channel, [])
        if past and past[0][0] == release:
            return
        left = [(past[0][0], withdrawn), *past[1:]] if past else []
        self.pasts[channel] = [(release, False), *(each for each in left if each[0] != release)]
        self.mark(now_ms)

    def mark(self, now_ms: int) -> None:
        needed = {release for past in self.pasts.values() for release, _ in past[: self.keep]}
        lost = [release for release in self.published if release not in needed]
        self.unneeded_ms = {release: self.unneeded_ms.get(release, now_ms) for release in lost}

    def collect(self, now_ms: int) -> set[str]:
        self.mark(now_ms)
        gone = {release for release, since in self.unneeded_ms.items() if now_ms - since >= 24 * HOUR_MS}
        self.published = [release for release in self.published if release not in gone]
        self.unneeded_ms = {release: since for release, since in self.unneeded_ms.items() if release not in gone}
        self.pasts = {name: [each for each in past if each[0] not in gone] for name, past in self.pasts.items()}
        return gone


class StatefulTests(AssetsCase):
    @settings(max_examples=examples(few=12, many=100))
    @given(lists(STEPS, min_size=15, max_size=30))
    def test_any_steps(self, steps: list[tuple[str, str, int]]) -> None:
        """Channels and releases are those of the model after any steps."""
        self.patch(os, "fsync", lambda descriptor: None)
        shutil.rmtree(self.store.folder, ignore_errors=True)
        model = Model(self.keep)
        for step, channel, number in steps:
            self.now_ms += 1000
            self.apply_step(model, step, channel, number)
            self.assertEqual(self.store.channels(), sorted(model.pasts))
            for name, past in model.pasts.items():
                self.assertEqual(self.store.pointer(name).release, past[0][0])
                self.assertTrue(served(self.store, name))
            self.assertEqual(self.store.releases(), sorted(model.published))
        self.assertEqual(verify(self.store, unseen).errors, [])

    def apply_step(self, model: Model, step: str, channel: str, number: int) -> None:
        match step:
            case "publish":
                self.publish_new(model, channel, number)
            case "point" if model.published:
                release = model.published[number % len(model.published)]
                channel_store.set_channel(self.store, channel, release, self.keep, self.now_ms)
                model.point(channel, release, self.now_ms)
            case "point":
                self.assertRaises(
                    ReleaseNotFound,
                    channel_store.set_channel,
                    self.store,
                    channel,
                    "r" + "0" * 16,
                    self.keep,
                    self.now_ms,
                )
            case "rollback":
                self.roll_back(model, channel)
            case "drop" if channel in model.pasts:
                channel_store.delete_channel(self.store, channel, self.keep, self.now_ms)
                del model.pasts[channel]
                model.mark(self.now_ms)
            case "drop":
                self.assertRaises(
                    ChannelNotFound, channel_store.delete_channel, self.store, channel, self.keep, self.now_ms
                )
            case "hours":
                self.now_ms += number * HOUR_MS
            case "day":
                self.now_ms += 24 * HOUR_MS
            case _:
                self.assertEqual(set(self.collect().releases), model.collect(self.now_ms))

    def publish_new(self, model: Model, channel: str, number: int) -> None:
        done = self.publish({"a": b"%d" % number}, channel=channel)
        release = str(done.release)
        if release not in model.published:
            model.published.append(release)
        model.point(channel, release, self.now_ms)

    def roll_back(self, model: Model, channel: str) -> None:
        past = model.pasts.get(channel, [])
        before = next((release for release, withdrawn in past[1:] if not withdrawn), None)
        if before is None:
            kind = NoPreviousRelease if past else ChannelNotFound
            self.assertRaises(kind, channel_store.rollback, self.store, channel, self.keep, self.now_ms)
        else:
            moved = channel_store.rollback(self.store, channel, self.keep, self.now_ms)
            self.assertEqual(moved.release, before)
            model.point(channel, before, self.now_ms, withdrawn=True)
