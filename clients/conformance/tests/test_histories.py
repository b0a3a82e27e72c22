"""Random histories of two clients with kills: one passes, and a client that loses a save after a kill does not."""

import sys
from shutil import copytree

from twisted.trial.unittest import SynchronousTestCase

from clients.conformance.tests import test_python
from clients.conformance.tests.helpers import CLIENTS, ScenarioFailed, World, in_memory, lender
from tests.support.folders import unused_path

from gamed_conformance.histories import pairs, run_histories  # isort: skip  (the helpers set its path)

KEEPS = "                self._store.keep(after)\n"
CLOSES = "                self._store.close()\n                self._ended"
KEEPS_LATE = "                [self._store.keep(record) for record in self._records.values()]\n"
OPENS = "            self._records = self._store.records()\n"
DROPS = """            self._records = {
                slot: replace(record, local=None, base=None, dirty=False, sent=None, dispute=None)
                if record.dirty and record.remote
                else record
                for slot, record in self._store.records().items()
            }
"""


class HistoryTests(SynchronousTestCase):
    def run_with(self, other: list[str], seeds: range) -> list[tuple[int, tuple[str, str]]]:
        world = World([], lender=lender(), parent=in_memory())
        self.addCleanup(world.close)
        drivers = {"python": test_python.Python.driver(), "other": other}
        return list(run_histories(world, drivers, seeds, steps=20, kills=2))

    def test_passes(self) -> None:
        """The client and its asyncio face share saves through kills, in both orders."""
        other = [sys.executable, str(test_python.DRIVERS / "asyncio_driver.py")]
        done = self.run_with(other, range(2, 4))
        self.assertEqual(done, [(2, ("python", "other")), (3, ("other", "python"))])

    def test_finds_a_kill(self) -> None:
        """A client that keeps its records only when it is closed is found by a kill."""
        said = self.failing({KEEPS: "", CLOSES: KEEPS_LATE + CLOSES})
        self.assertIn("after a kill the game has", said)

    def test_finds_a_lost_save(self) -> None:
        """A client that drops a pending save as it opens is found although the server has a newer one."""
        self.assertIn("the pending save of", self.failing({OPENS: DROPS}))

    def failing(self, edits: dict[str, str]) -> str:
        """Return the failure of a client with these edits."""
        folder = unused_path(self) / "clients"
        copytree(CLIENTS / "python", folder / "python")
        copytree(test_python.DRIVERS, folder / "conformance" / "drivers")
        source = folder / "python" / "gamed_client" / "sync.py"
        text = source.read_text("utf-8")
        for right, wrong in edits.items():
            self.assertEqual(text.count(right), 1)
            text = text.replace(right, wrong)
        source.write_text(text, "utf-8")
        other = [sys.executable, str(folder / "conformance" / "drivers" / "python_driver.py")]
        return str(self.assertRaises(ScenarioFailed, self.run_with, other, range(2, 40)))

    def test_pairs(self) -> None:
        """Twenty seeds have each pair of five clients once, in both orders."""
        found = pairs(["a", "b", "c", "d", "e"])
        self.assertEqual((len(found), len(set(found)), pairs(["a"])), (20, 20, [("a", "a")]))
        self.assertFalse([pair for pair in found if pair[0] == pair[1]])
