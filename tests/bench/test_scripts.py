"""The smaller measurements run."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from bench.growth import SMOKE, WAITING, quartiles
from bench.inside import Inside, requests
from bench.owner_page import opened_pages
from bench.process import CPUS
from bench.workers import Turns
from bench.worst_day import ATTACKS, MIXES
from bench.wrk import Measured
from gamed.owner.act_routes import OwnerActRoutes
from gamed.owner.model import HOME
from gamed.owner.site_routes import OwnerSiteRoutes
from tests.bench.scripts import ROOT, run_script
from tests.support.folders import unused_path


class FolderTests(SynchronousTestCase):
    def test_disk(self) -> None:
        """A measurement is made on the disk that TMPDIR chooses, although the tests' own folders are in memory."""
        chosen = unused_path(self)
        chosen.mkdir()
        words = [sys.executable, "-c", "import bench.instance, tempfile; print(tempfile.gettempdir())"]
        environment = {**os.environ, "TMPDIR": str(chosen)}
        shown = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout
        self.assertEqual(shown.strip(), str(chosen))


class GrowthTests(SynchronousTestCase):
    def test_every_size_is_measured(self) -> None:
        """`python -m bench.growth --smoke`: each path at each size, and games that wait."""
        found = unused_path(self)
        run_script(self, "bench.growth", "--smoke", "--json", str(found))
        points = json.loads(found.read_text())["points"]
        wanted = [
            (over, size, path)
            for over, sizes in SMOKE.items()
            for size in sizes
            for path in ((WAITING,) if over == WAITING else ("config", "read", "put"))
        ]
        self.assertEqual([(point["over"], point["at"], point["path"]) for point in points], wanted)
        for point in points:
            [figures] = point["rounds"]
            self.assertGreater(figures["all_ms" if point["over"] == WAITING else "per_second"], 0, point)

    def test_quartiles(self) -> None:
        """With fewer than three rounds the quartiles are the minimum and the maximum."""
        self.assertEqual(quartiles([3.0, 1.0]), [1.0, 2.0, 3.0])
        self.assertEqual(quartiles([5.0, 1.0, 2.0, 4.0, 3.0]), [2.0, 3.0, 4.0])


class WorkersTests(SynchronousTestCase):
    def test_both_are_measured(self) -> None:
        """`python -m bench.workers --smoke` measures one process and two workers, and reports their ratio."""
        found = unused_path(self)
        paths = ["--only", "read", "--only", "put-16"]
        run_script(self, "bench.workers", "--smoke", *paths, "--json", str(found))
        measured = json.loads(found.read_text())["paths"]
        self.assertEqual([turns["path"] for turns in measured], ["read", "put-16"])
        for turns in measured:
            for side in ("one", "workers"):
                self.assertGreater(turns[side][0]["per_second"], 0, turns)
                self.assertGreater(turns[side][0]["client_us"], 0, turns)

    def test_targets(self) -> None:
        """Reads need their ratio; writes need theirs and a p99 of at most twice that of one process."""
        one, equal, slow, fast = (
            [Measured(rate, 100.0, 1.0, p99, 0.0, 10.0)] * 3
            for rate, p99 in ((1000.0, 10.0), (1000.0, 10.0), (1000.0, 21.0), (1700.0, 10.0))
        )
        busiest = [0.5] * 3
        self.assertEqual(Turns("put-16", one, equal, busiest).status, "met")
        self.assertEqual(Turns("put-16", one, slow, busiest).status, "missed")
        self.assertEqual(Turns("read", one, fast, busiest).status, "met")
        self.assertEqual(Turns("read", one, equal, busiest).status, "missed")
        self.assertAlmostEqual(Turns("read", one, equal, busiest).possible, len(CPUS) * 1e6 / 110 / 1000)


class StoresTests(SynchronousTestCase):
    def test_both_are_measured(self) -> None:
        """`python -m bench.stores --smoke` measures SQLite, and one and two processes on PostgreSQL."""
        found = unused_path(self)
        run_script(self, "bench.stores", "--smoke", "--only", "read", "--json", str(found))
        [path] = json.loads(found.read_text())["paths"]
        [figures] = path["rounds"]
        for side in ("sqlite", "one", "two"):
            self.assertGreater(figures[side]["per_second"], 0, side)

    def test_costs_of_a_read(self) -> None:
        """`python -m bench.reads --smoke` shows what a read costs on both stores."""
        shown = run_script(self, "bench.reads", "--smoke")
        for store in ("SQLite", "PostgreSQL"):
            line = next(line for line in shown.splitlines() if line.startswith(f"{store} "))
            self.assertGreater(int(re.findall(r" (\d+) us: ", line)[0]), 0, line)
            self.assertGreater(float(re.findall(r"([\d.]+) reads a batch", line)[0]), 0, line)

    def test_moves(self) -> None:
        """`python -m bench.moves --smoke` moves a store there and back, and kills the command once on both ways."""
        found = unused_path(self)
        run_script(self, "bench.moves", "--smoke", "--json", str(found))
        ways = json.loads(found.read_text())["ways"]
        self.assertEqual([way["name"] for way in ways], ["there", "back"])
        for way in ways:
            self.assertEqual((len(way["moves"]), len(way["kills"])), (2, 1))
            self.assertGreater(min(move["peak_mib"] for move in way["moves"]), 10, way)


class OwnerPageTests(SynchronousTestCase):
    def test_every_page_is_measured(self) -> None:
        """`python -m bench.owner_page --smoke` asks for each page of the owner's page on both stores."""
        found = unused_path(self)
        run_script(self, "bench.owner_page", "--smoke", "--json", str(found))
        stores = json.loads(found.read_text())["stores"]
        self.assertEqual(list(stores), ["sqlite", "postgresql"])
        for pages in stores.values():
            self.assertEqual([page["name"] for page in pages], [page.name for page in opened_pages(60)])
            self.assertEqual({len(page["answers"]) for page in pages}, {2})

    def test_each_address(self) -> None:
        """Each page of the owner's page is asked for: the addresses of its routes are those that are measured."""
        rules = {rule.rule for group in (OwnerSiteRoutes, OwnerActRoutes) for rule in group.app.url_map.iter_rules()}
        asked = [f"{HOME}{page.path.partition('?')[0]}" for page in opened_pages(60)]
        patterns = {rule: re.sub(r"<[a-z]+:[a-z_]+>", "[^/]+", rule) for rule in rules}
        missing = {rule for rule, pattern in patterns.items() if not any(re.fullmatch(pattern, path) for path in asked)}
        self.assertEqual(missing, set())


class RemovalTests(SynchronousTestCase):
    def test_both_are_measured(self) -> None:
        """`python -m bench.removals --smoke` merges and erases a player on both stores."""
        shown = run_script(self, "bench.removals", "--smoke")
        for store in ("SQLite", "PostgreSQL"):
            self.assertRegex(shown, rf"{store}: 4,\d\d\d rows")
        for name in ("quiet", "merge", "erase"):
            found = re.findall(rf"(?m)^  {name} +[\d.]+ s: PUT p50 [\d.]+ p99 [\d.]+ max ([\d.]+) ms", shown)
            self.assertEqual(len(found), 2, shown)


class WorstDayTests(SynchronousTestCase):
    def test_both_are_measured(self) -> None:
        """`python -m bench.worst_day --smoke` simulates, attacks and measures on both stores."""
        found = unused_path(self)
        run_script(self, "bench.worst_day", "--smoke", "--json", str(found))
        stores = json.loads(found.read_text())["stores"]
        self.assertEqual([figures["store"] for figures in stores], ["sqlite", "postgresql"])
        for figures in stores:
            day = figures["simulated"]
            self.assertEqual({mix["name"] for mix in day["mixes"] if mix["rows"] > 0}, set(MIXES), figures)
            self.assertGreater(min(day["stored"], day["counted"], day["deleted"]), 0, figures)
            self.assertGreater(min(figures["idle"] + figures["attacked"]), 0, figures)
            for name in ATTACKS:
                statuses = figures["answers"][name].keys()
                self.assertTrue(statuses and statuses <= {"200", "201", "404", "412", "413", "429"}, (name, figures))
            self.assertGreater(figures["held"][0], 0, figures)


class WrongTokenTests(SynchronousTestCase):
    def test_each_is_measured(self) -> None:
        """`python -m bench.wrong_tokens` measures the writer alone and beside both kinds of requests."""
        shown = run_script(self, "bench.wrong_tokens", "--rounds", "1", "--seconds", "0.3")
        for kind in ("alone", "wrong", "healthz"):
            [puts] = re.findall(rf"^{kind} .* (\d+) PUTs$", shown, re.MULTILINE)
            self.assertGreater(int(puts), 0, shown)


class FuzzTests(SynchronousTestCase):
    def test_against_itself(self) -> None:
        """`python -m bench.http_fuzz` finds no difference between a state and itself."""
        shown = run_script(self, "bench.http_fuzz", "--before", str(ROOT), "--count", "20")
        self.assertTrue(shown.startswith("20 pipelines, "), shown)


class InsideTests(SynchronousTestCase):
    def test_every_request_is_answered(self) -> None:
        """The real routes answer each measured request with success; another response ends the measurement."""
        Path(folder := self.mktemp()).mkdir()
        inside = Inside(Path(folder).absolute(), Clock())
        for name, request in requests().items():
            inside.transport.last = b""
            inside.ask(request, 3)
            self.assertIn(b"\r\nX-Request-Id: ", inside.transport.last, name)
        self.assertRaises(RuntimeError, inside.ask, b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n", 1)
