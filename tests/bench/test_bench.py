"""The measurements run and report results. The tests do not check the figures, because the machine is busy."""

import json
import shutil
from importlib.util import find_spec
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from bench.report import contender_status, target_status
from bench.rounds import Outcome, Ratio
from bench.rows import PEER_ROWS, ROWS, Row, Side
from bench.servers import pocketbase_program
from bench.wrk import Load, Measured
from tests.bench.scripts import run_script
from tests.support.folders import unused_path

ROOT = Path(__file__).parents[2]


class SmokeTests(SynchronousTestCase):
    def test_every_path_is_measured(self) -> None:
        """`python -m bench --smoke` runs real servers and wrk, and reports a figure for each path."""
        found = unused_path(self)
        shown = run_script(self, "bench", "--smoke", "--json", str(found))
        self.assertIn("these figures mean nothing", shown)
        report = json.loads(found.read_text())
        compiler = shutil.which("cc") or shutil.which("gcc")
        wanted = [row.name for row in ROWS + PEER_ROWS if compiler or not row.server.endswith("-slow")]
        self.assertEqual([row["path"] for row in report["rows"]], wanted)
        for row in report["rows"]:
            for name, rounds in row["sides"].items():
                self.assertGreater(rounds[0]["per_second"], 0, (row["path"], name))
        installed = {"F": find_spec("fastapi"), "P": pocketbase_program(), "N1": True, "NG": True}
        sides = next(row["sides"] for row in report["rows"] if row["path"] == "peers-put-16")
        self.assertEqual(sides.keys(), {"peers-put-16", *(name for name, found in installed.items() if found)})
        self.assertGreater(report["machine"]["flush_ms"], 0)
        self.assertIn("pgo", report["machine"])
        self.assertGreater(report["start"]["memory_mib"], 0)
        self.assertGreater(report["waiters"]["first_wake_ms"], 0)
        for name, pages in report["pages"].items():
            self.assertGreater(pages, 1, name)


class PageTests(SynchronousTestCase):
    def test_every_path_is_described(self) -> None:
        """A table in bench/README.md describes each path."""
        page = (ROOT / "bench" / "README.md").read_text("utf-8")
        table = page.partition("| Path | What is asked")[2].partition("\n\n")[0]
        self.assertEqual([row.name for row in ROWS + PEER_ROWS if f"`{row.name}`" not in table], [])


class TargetStatusTests(SynchronousTestCase):
    def test_a_target_counts_if_the_ratio_is_stable(self) -> None:
        """A target is met or missed if the quartiles are less than a tenth of the median apart."""
        self.assertEqual(target_status(Ratio([1.0, 1.01, 1.02, 1.0, 1.01]), 1.0), "met")
        self.assertEqual(target_status(Ratio([1.0, 1.01, 1.02, 1.0, 1.01]), 1.2), "missed")
        self.assertEqual(target_status(Ratio([1.0, 1.5, 2.0, 1.0, 3.0]), 1.2), "noisy")
        self.assertEqual(target_status(Ratio([2.0]), 1.2), "noisy")
        self.assertEqual(target_status(Ratio([2.0]), None), "")

    def test_targets_by_rate_and_by_processor_time(self) -> None:
        """A contender may have a target for the rate and another for the processor time of a request."""
        load = Load("plain", "/")
        row = Row("a", load, {"B": Side("B", load)}, {"B": 1.5}, wanted_by_cpu={"B": 3.0})
        own, other = Measured(200.0, 10.0, 1.0, 2.0, 0.0), Measured(100.0, 20.0, 1.0, 2.0, 0.0)
        outcome = Outcome(row, {"a": [own] * 3, "B": [other] * 3})
        self.assertEqual(contender_status(outcome, "B"), (">= 1.5, >= 3 by CPU", "met, missed by CPU"))
