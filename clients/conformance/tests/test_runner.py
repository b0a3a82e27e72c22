"""The runner reports a missing tool, a driver without a feature, and a driver that writes nonsense."""

import json
import re
import subprocess
import sys

from twisted.trial.unittest import SynchronousTestCase

from clients.conformance.tests.helpers import (
    CLIENTS,
    FEATURES,
    DriverFailed,
    Mismatch,
    Scenario,
    World,
    expect,
    filled,
    lender,
    run,
    scenarios,
)

from gamed_conformance.fake_server import SECRET  # isort: skip  (the helpers set its path)

RUN = CLIENTS / "conformance" / "run.py"
PAGE = (CLIENTS / "conformance" / "README.md").read_text("utf-8")
PYTHON = [sys.executable, str(CLIENTS / "conformance" / "drivers" / "python_driver.py")]
HELLO = """
import sys
print("A banner.")
print('{"event":"hello","language":"Nothing","features":[]}', flush=True)
for line in sys.stdin:
    print(%s, flush=True)
"""


def ran(answer: str, *names: str) -> tuple[int, str]:
    """Run the command line with a driver that gives the same answer to every command."""
    command = [sys.executable, str(RUN), "--driver", f"{sys.executable} driver.py", *names]
    with open("driver.py", "w") as driver:
        driver.write(HELLO % answer)
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, done.stdout + done.stderr


class RunnerTests(SynchronousTestCase):
    def test_missing_tool(self) -> None:
        """The failure of a driver that cannot be started names it."""
        world = World(["gamed-no-such-tool"])
        self.addCleanup(world.close)
        self.assertIn("gamed-no-such-tool", str(self.assertRaises(DriverFailed, world.driver)))

    def test_driver_that_ends(self) -> None:
        """The failure shows the driver's last output."""
        world = World([sys.executable, "-c", "raise SystemExit('I cannot')"])
        self.addCleanup(world.close)
        self.assertIn("I cannot", str(self.assertRaises(DriverFailed, world.driver)))

    def test_unsupported_is_named(self) -> None:
        """A feature that a driver does not have is neither a failure nor a success, and is listed."""
        code, said = ran("'x'", "slots", "sync_*")
        self.assertIn("slots: not supported, needs saves", said)
        self.assertIn("sync_unseen: not supported, needs sync", said)
        self.assertEqual((code, "0 passed, 0 failed" in said), (0, True), said)

    def test_nonsense(self) -> None:
        """A line that is not JSON fails the scenario at once, and so does a driver's own error."""
        for answer, words in (
            ("'{nonsense'", "no JSON"),
            ('\'{"id":1,"error":{"code":"driver_failed","kind":"Driver","detail":"oh"}}\'', "oh"),
            ("'{\"id\":1}'", "neither ok nor error"),
        ):
            code, said = ran(answer, "https_is_tls")
            self.assertEqual((code, words in said, "FAILED https_is_tls" in said), (1, True, True), said)

    def test_no_such_scenario(self) -> None:
        """A misspelt name is not a success."""
        self.assertEqual(ran("'x'", "slotz")[0], 1)

    def test_scenarios_are_whole(self) -> None:
        """Each scenario states its subject and its source, and needs only existing features."""
        found = scenarios()
        self.assertGreater(len(found), 80)
        for scenario in found:
            self.assertTrue(scenario.data["about"].endswith("."), scenario.name)
            self.assertTrue(scenario.data["source"].startswith(("SPEC", "docs/")), scenario.name)
            self.assertLessEqual(scenario.needs, FEATURES)
            self.assertLessEqual(set(scenario.data), {"about", "source", "needs", "real", "cases", "steps"})


class PageTests(SynchronousTestCase):
    def test_example(self) -> None:
        """The scenario on the page runs as printed."""
        [printed] = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
        scenario = Scenario("page", json.loads(printed))
        world = World(PYTHON, lender=lender())
        self.addCleanup(world.close)
        self.assertIsNone(run(world, scenario))

    def test_every_word(self) -> None:
        """The page lists each kind of step, each member of a rule, each command and each feature."""
        steps = [step for scenario in scenarios() for step in scenario.data["steps"]]
        words = {next(name for name in step if name != "with") for step in steps}
        words |= {name for step in steps for rule in step.get("rules", ()) for name in rule}
        words |= {step[kind] for step in steps for kind in ("do", "start") if step.get(kind, "$")[:1].isalpha()}
        self.assertEqual({word for word in (words | FEATURES) - {"with"} if f"`{word}`" not in PAGE}, set())


class MatchingTests(SynchronousTestCase):
    def test_expect(self) -> None:
        """Named members must match; other members may have any value."""
        found = {"a": 1, "b": [{"c": "x"}, {"c": "y"}], "d": None, "e": True}
        for good in (
            {},
            {"a": 1},
            {"b": [{}, {"c": "y"}]},
            {"d": None, "missing": None},
            {"a": {"$between": [1, 2]}},
            {"a": {"$not": 2}},
            {"b": {"$has": {"c": "y"}}},
            {"b": {"$unordered": [{"c": "y"}, {"c": "x"}]}},
            {"a": {"$one_of": [2, 1]}},
            {"e": {"$any": True}},
        ):
            expect(good, found)
        for bad in (
            {"a": 2},
            {"a": "1"},
            {"a": True},
            {"e": 1},
            {"b": [{}]},
            {"b": {}},
            {"d": {"$any": True}},
            {"d": {}},
            {"a": {"$pattern": "1"}},
            {"b": {"$has": {"c": "z"}}},
            {"e": {"$between": [0, 2]}},
        ):
            self.assertRaises(Mismatch, expect, bad, found)

    def test_filled(self) -> None:
        """References keep the type of their value, also in names of members."""
        memory = {"x": {"y": [1, {"z": None}]}, "n": "name"}
        value = {"${n}": ["${x.y}", "${x.y.0}!", "${x.y.1.z}", {"$repeat": ["ab", 2]}]}
        self.assertEqual(filled(value, memory), {"name": [[1, {"z": None}], "1!", None, "abab"]})
        self.assertRaises(Mismatch, filled, "${x.nothing}", memory)

    def test_secret(self) -> None:
        """A credential is a secret wherever it stands; an id that has its letters by chance is none."""
        for name in ("gat", "grc", "gds"):
            secret = f"{name}_{'aB3-_' * 8}xyz".encode()
            self.assertEqual(SECRET.findall(b"https://game.example/?t=" + secret + b"&x"), [secret])
            self.assertIsNone(SECRET.search(f"ses_{name}_{'a' * 18}".encode()))
