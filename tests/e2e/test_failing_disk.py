"""A disk that fails to write under the real service: the engine's own I/O error, in the answer and in the log."""

from collections.abc import Iterator
from contextlib import contextmanager
from resource import RLIM_INFINITY, RLIMIT_FSIZE, prlimit

from twisted.trial.unittest import SynchronousTestCase

from gamed.database.connection import STATE
from tests.e2e.client import CONFIG, Keeper, gamed, write_game
from tests.e2e.service import Service
from tests.support.folders import unused_path
from tests.support.stores import POSTGRESQL, connect, fill_disk

LIMIT = 64 * 1024
"""Size limit of a file: the service's log fits, a save of 100,000 bytes does not."""
LINE = f"disk_io_error queue=state code={'58030' if POSTGRESQL else 'SQLITE_IOERR_WRITE'}"


@contextmanager
def failing(service: Service) -> Iterator[None]:
    """Prevent files of the service from growing; PostgreSQL reports an I/O error for each write of saves."""
    if POSTGRESQL:
        writable = fill_disk(connect(service.data, STATE), "io_error")
        yield
        writable()
        return
    prlimit(service.pid, RLIMIT_FSIZE, (LIMIT, RLIM_INFINITY))
    yield
    prlimit(service.pid, RLIMIT_FSIZE, (RLIM_INFINITY, RLIM_INFINITY))


class FailingDisk(SynchronousTestCase):
    def test_writes_fail_for_a_while(self) -> None:
        """While the disk fails, a save gets 507 with an I/O error in its detail, and the log has one line.

        Saves are readable meanwhile. The first write that succeeds ends it; the next error is logged again.
        """
        service = Service(unused_path(self), CONFIG)
        self.addCleanup(service.close)
        write_game(service, writes_per_minute=0, min_free_bytes=0)
        service.start()
        keeper = Keeper(service)
        self.assertEqual(keeper.put("auto", b"one").status, 201)
        for times in (1, 2):
            with failing(service):
                for _ in range(3):
                    refused = keeper.put("more", b"x" * 100_000)
                    self.assertEqual((refused.status, refused.json["code"]), (507, "storage_full"))
                    self.assertIn("I/O error", refused.json["detail"])
                self.assertEqual(keeper.ask("GET", "/auto").body, b"one")
            self.assertEqual(keeper.put(f"s{times}", b"one").status, 201)
            self.assertEqual(service.text().count(LINE), times)
        self.assertIn("no errors", gamed(service, "check", "data"))
        self.assertNotIn("Traceback", service.text())
