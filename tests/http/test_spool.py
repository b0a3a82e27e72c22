"""A spooled body reports a full disk to every later call."""

from pathlib import Path

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from gamed.database.errors import DiskFull
from gamed.http.spool import PIECE_BYTES, SpooledBody


class FullTests(SynchronousTestCase):
    def test_each_call_has_its_own_error(self) -> None:
        """Every call after the failure raises a new DiskFull with the cause."""
        spool = SpooledBody(Path(self.mktemp()) / "missing")
        spool.write(b"a" * PIECE_BYTES)
        added = [self.assertRaises(DiskFull, spool.write, b"a") for _ in range(2)]
        errors = [*added, self.failureResultOf(Deferred.fromCoroutine(spool.finish()), DiskFull).value]
        self.assertEqual(len({id(error) for error in errors}), 3)
        for error in errors:
            self.assertIsInstance(error.__cause__, FileNotFoundError)
            self.assertIn("Try again later", str(error))
