"""A disk that fails to write under the real service: SQLite's own I/O error, in the answer and in the log."""

from pathlib import Path
from resource import RLIM_INFINITY, RLIMIT_FSIZE, prlimit

from twisted.trial.unittest import SynchronousTestCase

from tests.e2e.client import CONFIG, Keeper, gamed, write_game
from tests.e2e.service import Service
from tests.support.stores import sqlite_files

LIMIT = 64 * 1024
"""No file may grow beyond it: the service's log has room, a save of 100,000 bytes has none."""
LINE = "disk_io_error queue=state code=SQLITE_IOERR_WRITE"


@sqlite_files("an I/O error of its files; PostgreSQL's server writes its own")
class FailingDisk(SynchronousTestCase):
    def test_writes_fail_for_a_while(self) -> None:
        """While no file can grow any more, a save is 507 with an I/O error in its detail, and the log has one line.

        Saves are readable meanwhile. The first write that succeeds ends it; the next error is logged again.
        """
        service = Service(Path(self.mktemp()).absolute(), CONFIG)
        self.addCleanup(service.close)
        write_game(service, writes_per_minute=0, min_free_bytes=0)
        service.start()
        keeper = Keeper(service)
        self.assertEqual(keeper.put("auto", b"one").status, 201)
        for times in (1, 2):
            prlimit(service.pid, RLIMIT_FSIZE, (LIMIT, RLIM_INFINITY))
            for _ in range(3):
                refused = keeper.put("more", b"x" * 100_000)
                self.assertEqual((refused.status, refused.json["code"]), (507, "storage_full"))
                self.assertIn("I/O error", refused.json["detail"])
            self.assertEqual(keeper.ask("GET", "/auto").body, b"one")
            prlimit(service.pid, RLIMIT_FSIZE, (RLIM_INFINITY, RLIM_INFINITY))
            self.assertEqual(keeper.put(f"s{times}", b"one").status, 201)
            self.assertEqual(service.text().count(LINE), times)
        self.assertIn("no errors", gamed(service, "check", "data"))
        self.assertNotIn("Traceback", service.text())
