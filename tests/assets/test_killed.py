"""After kill -9 at any step of a change players have the old release or the new one, complete."""

import os
import random
import shutil
import signal
import time
from collections.abc import Callable

from gamed.assets.store import AssetStore
from gamed.assets.verify import verify
from tests.assets.fixtures import HOUR_MS, AssetsCase, served, unseen
from tests.cli.backup_helpers import killed_at_step
from tests.support.covers import covers

OLD = {"readme.txt": b"old", "kept.txt": b"kept"}
NEW = {"readme.txt": b"new", "kept.txt": b"kept", "data/more.bin": b"\x00more" * 1000}
ROUNDS, LONGEST_SECONDS = 8, 0.5
"""Kills at a random moment."""


@covers("threats/57")
class KilledTests(AssetsCase):
    def setUp(self) -> None:
        super().setUp()
        self.patch(os, "fsync", lambda descriptor: None)  # a kill does not undo writes
        self.publish(OLD)
        self.origin = self.store.folder
        shutil.rmtree(self.source)
        self.put(NEW)

    def fresh(self, step: int) -> AssetStore:
        """Return a copy of the store from before."""
        self.store = AssetStore(self.folder / f"data{step}" / "assets")
        shutil.copytree(self.origin, self.store.folder)
        return self.store

    def each_step(self, work: Callable[[], object], check: Callable[[], None]) -> int:
        """Repeat the work, killed at its first, second, ... change of the folder, until it ends; return the kills."""
        step = 1
        while True:
            self.fresh(step)
            died = killed_at_step(work, self.store.folder, step)
            check()
            shutil.rmtree(self.store.folder)
            if not died:
                return step - 1
            step += 1

    def test_publish(self) -> None:
        """A killed publish leaves the old or the new release with intact objects; the next publish succeeds."""
        found: list[bool] = []

        def check() -> None:
            now = served(self.store)
            self.assertIn(now, (OLD, NEW))
            found.append(now == NEW)
            self.assertEqual(verify(self.store, unseen).errors, [])
            self.assertEqual(self.publish().plan.bytes, sum(map(len, NEW.values())))
            self.assertEqual(served(self.store), NEW)
            self.assertEqual(list((self.store.folder / "tmp").iterdir()), [])
            self.rollback()
            self.assertEqual(served(self.store), OLD)

        self.assertGreater(self.each_step(self.publish, check), 30)
        self.assertEqual(found, sorted(found))
        self.assertTrue(found[-1])

    def test_first_publish(self) -> None:
        """A killed first publish leaves nothing or a complete release."""
        shutil.rmtree(self.origin)
        self.origin.mkdir()

        def check() -> None:
            if self.store.channels():
                self.assertEqual(served(self.store), NEW)
            self.publish()
            self.assertEqual(served(self.store), NEW)

        self.assertGreater(self.each_step(self.publish, check), 30)

    def test_collect(self) -> None:
        """After a killed collection no channel and no history names a deleted release; the next one completes it."""
        self.keep = 1
        self.publish()
        self.now_ms += 1000
        self.release("three")
        newest = served(self.store)
        self.now_ms += 48 * HOUR_MS

        def check() -> None:
            self.assertEqual(served(self.store), newest)
            self.assertEqual(verify(self.store, unseen).errors, [])
            self.collect(0)
            self.assertEqual((len(self.store.releases()), self.store.pointer("stable").history), (1, ()))
            self.assertEqual(set(self.tree()) - {"unreferenced.json"}, needed)

        needed = self.needed()
        self.assertGreater(self.each_step(lambda: self.collect(0), check), 10)

    def needed(self) -> set[str]:
        """Return the paths that are left after a collection."""
        self.fresh(0)
        self.collect(0)
        return set(self.tree()) - {"unreferenced.json"}

    def test_rollback(self) -> None:
        """A killed rollback leaves the channel at the old or the new release."""
        self.publish()
        found: list[bool] = []

        def check() -> None:
            now = served(self.store)
            self.assertIn(now, (OLD, NEW))
            found.append(now == OLD)

        self.assertGreater(self.each_step(self.rollback, check), 3)
        self.assertEqual(found, sorted(found))
        self.assertTrue(found[-1])

    def test_any_moment(self) -> None:
        """The same holds after a kill at a random time, also in the middle of a write."""
        new = {f"data/{number}.bin": os.urandom(100_000) for number in range(30)}
        shutil.rmtree(self.source)
        self.put(new)
        self.fresh(0)
        begun = time.monotonic()
        self.publish()
        whole_seconds = min(time.monotonic() - begun, LONGEST_SECONDS)
        deaths = 0
        for step in range(1, ROUNDS + 1):
            self.fresh(step)
            deaths += self.killed_after(random.uniform(0, whole_seconds))
            self.assertIn(served(self.store), (OLD, new))
            self.assertEqual(verify(self.store, unseen).errors, [])
            shutil.rmtree(self.store.folder)
        self.assertGreater(deaths, 0)

    def killed_after(self, seconds: float) -> bool:
        """Publish in another process; return whether it was killed before its end."""
        child = os.fork()
        if child == 0:
            try:
                self.publish()
                os._exit(0)
            finally:
                os._exit(1)
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
        status = os.waitpid(child, 0)[1]
        if not os.WIFSIGNALED(status):
            self.assertEqual(os.waitstatus_to_exitcode(status), 0)
        return os.WIFSIGNALED(status)
