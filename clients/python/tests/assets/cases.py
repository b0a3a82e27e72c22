"""Fixtures of the tests of downloads: a fake server, a client without a player, a folder."""

from pathlib import Path
from random import Random

from twisted.trial.unittest import SynchronousTestCase

from clients.python.tests.assets.fake_server import FakeAssets
from tests.support.folders import unused_path
from tests.support.python_client import gamed_assets as ga
from tests.support.python_client import gamed_client as gc

PIECE = 10_000
FIRST = {
    "data/level1.pck": Random(1).randbytes(3 * PIECE + 700),
    "data/level2.pck": Random(2).randbytes(900),
    "data/again/level2.pck": Random(2).randbytes(900),
    "empty.txt": b"",
    "sounds/größe ☃.ogg": Random(3).randbytes(2 * PIECE),
}
SECOND = {
    **{path: data for path, data in FIRST.items() if path != "empty.txt"},
    "data/level2.pck": Random(4).randbytes(1500),
    "level3.pck": Random(5).randbytes(PIECE),
    "moved/level1.pck": FIRST["data/level1.pck"],
}


def tree(folder: Path) -> dict[str, bytes]:
    """Return every file below it with its bytes."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


class AssetsCase(SynchronousTestCase):
    """Pieces are small; `self.pauses` records the pauses instead of waiting."""

    def setUp(self) -> None:
        self.fake = FakeAssets()
        self.server = self.fake.start()
        self.addCleanup(self.fake.stop)
        self.root = unused_path(self)
        self.folder = self.root / "content"
        self.pauses: list[float] = []
        self.patch(ga, "PIECE_BYTES", PIECE)
        self.patch(ga, "BLOCK_BYTES", 1000)
        self.patch(ga, "SPARE_BYTES", 0)
        self.patch(ga, "pause_after", self.pause)
        self.client = gc.GamedClient(self.server, folder=self.root / "state", sleep=self.pauses.append)
        self.assets = self.another()

    def pause(self, error: Exception, attempt: int) -> float:
        """Record a pause and return a short one, except one of hours: the client must give up then."""
        self.pauses.append(gc.pause_after(error, attempt))
        return self.pauses[-1] if self.pauses[-1] > gc.LONGEST_PAUSE_SECONDS else 0.01

    def another(self):
        """Open the folder as another process does."""
        found = ga.Assets(self.client, self.folder)
        self.addCleanup(found.close)
        return found

    def raised(self, error: type[Exception], code: str, **how: object) -> Exception:
        found = self.assertRaises(error, self.assets.download, **how)
        self.assertEqual(found.code, code)
        return found

    def assert_has(self, files: dict[str, bytes]) -> None:
        """Assert that a process which starts now finds exactly these files."""
        with self.another() as assets:
            release = assets.current
            self.assertEqual(tree(release.folder), files)
            self.assertEqual({name: release.path(name).read_bytes() for name in release.manifest.files}, files)
