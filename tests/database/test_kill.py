"""Acknowledged writes survive kill -9."""

import os
import sys
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from gamed.database.sqlite.offline import run_transaction
from tests.cli.process import ROOT, environment
from tests.support import forks
from tests.support.covers import covers
from tests.support.databases import ask, data_folder, prepare_files
from tests.support.examples import examples
from tests.support.stores import sqlite_files

ROUNDS = examples(few=10, many=40)
FEWEST, MOST = 50, 753
"""The numbers of acknowledged writes after which the first and the last round kill the writers."""


def killed_after(folder: Path, name: str, acknowledged: int) -> list[bytes]:
    """Kill the writers after so many acknowledged writes; return all that they acknowledged."""
    command = [sys.executable, "-m", "tests.database.writers", str(folder), name]
    near, far = os.pipe()
    with open(near, "rb") as printed:
        with open(far, "wb") as out:
            process = forks.popen(command, env=environment({}), stdout=out, stderr=2, cwd=ROOT)
        rows = [printed.readline() for _ in range(acknowledged)]
        process.kill()
        rows += printed.readlines()
        process.wait()
    return [row.strip() for row in rows if row.endswith(b"\n")]


@sqlite_files("its files; tests.database.postgresql has PostgreSQL's failures")
class Kill(SynchronousTestCase):
    @covers("threats/46")
    def test_nothing_acknowledged_is_lost(self) -> None:
        """A process with 32 writers is killed, each time at another moment: every acknowledged row stays there."""
        data = data_folder(self)
        acknowledged: set[bytes] = set()
        for number in range(ROUNDS):
            enough = FEWEST + (MOST - FEWEST) * number // (ROUNDS - 1)
            rows = killed_after(data, str(number), enough)
            self.assertGreaterEqual(len(rows), enough)
            acknowledged.update(rows)
            prepare_files(data)
            stored = run_transaction(data / "auth.db", ask("SELECT bucket_index FROM limit_bucket"))
            self.assertEqual(set(), acknowledged - {row for (row,) in stored})
            whole = run_transaction(data / "auth.db", ask("PRAGMA integrity_check"))
            self.assertEqual([("ok",)], whole)
