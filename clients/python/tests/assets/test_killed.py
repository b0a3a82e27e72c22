"""kill -9 of a download at each of its steps: the old release stays complete, and the next download finishes."""

import shutil
import subprocess
import sys
from pathlib import Path

from clients.python.tests.assets.cases import FIRST, SECOND, AssetsCase, tree
from tests.support.covers import covers
from tests.support.examples import examples
from tests.support.python_client import FOLDER
from tests.support.python_client import gamed_assets as ga

DYING_CLIENT = Path(__file__).with_name("dying_client.py")
STEP = examples(few=2, many=1)
"""Distance of the tested steps; 1 tests each."""
LIMIT_SECONDS = 60


@covers("threats/60")
class Killed(AssetsCase):
    def setUp(self) -> None:
        super().setUp()
        command = [sys.executable, str(DYING_CLIENT), str(FOLDER), self.server, str(self.root / "state")]
        self.client_process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.end)
        self.old = self.fake.publish(FIRST)
        self.assets.download()
        self.assets.close()
        self.new = self.fake.publish(SECOND)

    def end(self) -> None:
        self.client_process.kill()
        self.client_process.communicate()

    def dies_at(self, number: int, folder: Path) -> bool:
        """Return whether the download died; False if it was done before."""
        self.client_process.stdin.write(f"{number} {folder} stable\n")
        self.client_process.stdin.flush()
        said = self.client_process.stdout.readline().strip()
        self.assertIn(said, ("killed", "done 0"))
        return said == "killed"

    def test_each_step(self) -> None:
        """After a kill at any step a complete release is current, and the next download does not repeat bytes."""
        kills, current = 0, set()
        while True:
            folder = self.root / f"copy{kills}"
            shutil.copytree(self.folder, folder, copy_function=shutil.copy2)
            if not self.dies_at(1 + kills * STEP, folder):
                break
            current.add(self.whole(folder))
            with ga.Assets(self.client, folder) as assets:
                assets.download()
                self.assertEqual((assets.current.id, tree(assets.current.folder)), (self.new, SECOND))
                self.assertEqual(list((folder / "staging").iterdir()), [])
                self.assertEqual(
                    sorted(p.name for p in (folder / "releases").iterdir()), [self.new, f"{self.new}.json"]
                )
            shutil.rmtree(folder)
            kills += 1
        self.assertGreaterEqual(kills, 20)
        self.assertEqual(current, {self.old, self.new})

    def test_again_and_again(self) -> None:
        """A download that is killed again and again still finishes, and fetches hardly any byte twice."""
        self.fake.served, deaths = 0, 0
        while self.dies_at(40, self.folder):
            self.whole(self.folder)
            deaths += 1
            self.assertLess(deaths, 20)
        self.assertEqual(self.whole(self.folder), self.new)
        self.assertGreater(deaths, 0)
        self.assertLessEqual(self.fake.served, 1500 + 10_000 + deaths * 4000 * ga.WORKERS)

    def whole(self, folder: Path) -> str:
        """Return the current release; assert that every file of it is as published."""
        with ga.Assets(self.client, folder) as assets:
            release = assets.current
            self.assertEqual(tree(release.folder), {self.old: FIRST, self.new: SECOND}[release.id])
            return release.id
