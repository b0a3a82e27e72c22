"""The measurements run and report results. The tests do not check the figures, because the machine is busy."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from bench.report import target_status
from bench.rounds import Ratio
from bench.rows import ROWS

ROOT = Path(__file__).parents[2]
SECONDS = 300


class SmokeTests(SynchronousTestCase):
    def test_every_path_is_measured(self) -> None:
        """`python -m bench --smoke` runs real servers and wrk, and reports a figure for each path."""
        found = Path(self.mktemp()).absolute()
        words = [sys.executable, "-m", "bench", "--smoke", "--json", str(found)]
        ran = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False, timeout=SECONDS)
        self.assertEqual(ran.returncode, 0, ran.stderr[-3000:])
        self.assertIn("these figures mean nothing", ran.stdout)
        report = json.loads(found.read_text())
        compiler = shutil.which("cc") or shutil.which("gcc")
        wanted = [row.name for row in ROWS if compiler or not row.server.endswith("-slow")]
        self.assertEqual([row["path"] for row in report["rows"]], wanted)
        for row in report["rows"]:
            for name, rounds in row["sides"].items():
                self.assertGreater(rounds[0]["per_second"], 0, (row["path"], name))
        self.assertGreater(report["start"]["memory_mib"], 0)
        self.assertGreater(report["waiters"]["first_wake_ms"], 0)
        for name, pages in report["pages"].items():
            self.assertGreater(pages, 1, name)


class PageTests(SynchronousTestCase):
    def test_every_path_is_described(self) -> None:
        """A table in bench/README.md describes each path."""
        page = (ROOT / "bench" / "README.md").read_text("utf-8")
        table = page.partition("| Path | What is asked")[2].partition("\n\n")[0]
        self.assertEqual([row.name for row in ROWS if f"`{row.name}`" not in table], [])


class TargetStatusTests(SynchronousTestCase):
    def test_a_target_counts_if_the_ratio_is_stable(self) -> None:
        """A target is met or missed if the quartiles are less than a tenth of the median apart."""
        self.assertEqual(target_status(Ratio([1.0, 1.01, 1.02, 1.0, 1.01]), 1.0), "met")
        self.assertEqual(target_status(Ratio([1.0, 1.01, 1.02, 1.0, 1.01]), 1.2), "missed")
        self.assertEqual(target_status(Ratio([1.0, 1.5, 2.0, 1.0, 3.0]), 1.2), "noisy")
        self.assertEqual(target_status(Ratio([2.0]), 1.2), "noisy")
        self.assertEqual(target_status(Ratio([2.0]), None), "")
