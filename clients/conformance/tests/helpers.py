"""Every scenario of clients/conformance as a test of its own, for one driver.

class CSharp(ConformanceCase):
    lacks = frozenset({"clock"})

    @classmethod
    def driver(cls) -> list[str]:
        return ["mono", str(built())]             # may build first; a missing tool raises, so the tests fail
"""

import os
import subprocess
import sys
from atexit import register
from collections.abc import Callable, Sequence
from contextlib import suppress
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import ClassVar

from twisted.trial.unittest import SynchronousTestCase

from tests.e2e.service import INHERITED
from tests.support import forks
from tests.support.examples import AMOUNT, MANY

CLIENTS = Path(__file__).parents[2]
sys.path.append(str(CLIENTS / "conformance"))  # last: that folder has a package `tests` of its own

from gamed_conformance.driver import DriverFailed  # noqa: E402
from gamed_conformance.matching import Mismatch, expect, filled  # noqa: E402
from gamed_conformance.service import ROOT, SECRETS, Gamed, Process  # noqa: E402
from gamed_conformance.suite import FEATURES, Scenario, ScenarioFailed, lacking, run, scenarios  # noqa: E402
from gamed_conformance.world import World  # noqa: E402

__all__ = [
    "CLIENTS",
    "FEATURES",
    "ConformanceCase",
    "DriverFailed",
    "Mismatch",
    "Scenario",
    "ScenarioFailed",
    "World",
    "expect",
    "filled",
    "in_memory",
    "lender",
    "run",
    "scenarios",
]


MEMORY = Path("/dev/shm")
MEMORY_BYTES = 1 << 30
"""The free memory from which on files are there: those of six processes of the tests take less than a tenth of it."""


def in_memory() -> Path | None:
    """Return a folder in memory for the files of clients and servers; None for the system's temporary folder.

    Client and server wait for the disk at each write. A killed process loses as much in memory as on a disk: the page
    cache outlives it.
    """
    with suppress(OSError):
        found = os.statvfs(MEMORY)
        if found.f_bavail * found.f_frsize >= MEMORY_BYTES and os.access(MEMORY, os.W_OK):
            return MEMORY
    return None


class ForkedGamed(Gamed):
    """The server with quick passwords, forked from a process that has imported it.

    The suite starts it 12 times per client: once in each mode, after kills, and for the owner's commands.
    """

    def __init__(self) -> None:
        super().__init__([sys.executable, "-m", "tests.support.quick_passwords"])
        self.environ = {name: os.environ[name] for name in INHERITED if name in os.environ} | {"PYTHONPATH": str(ROOT)}
        self.environ |= SECRETS

    def start(self, arguments: Sequence[str], folder: Path, log: Path) -> Process:
        with log.open("ab") as out, open(os.devnull, "rb") as nothing:
            command = [*self.command, *arguments]
            return forks.popen(command, env=self.environ, cwd=folder, stdin=nothing, stdout=out, stderr=out)

    def run(self, arguments: Sequence[str], seconds: float) -> subprocess.CompletedProcess[str]:
        return forks.run([*self.command, *arguments], env=self.environ, timeout=seconds)


@cache
def lender() -> World:
    """Return the world with the service of all tests of a process, without a driver."""
    world = World([], ForkedGamed(), parent=in_memory())
    world.service("local")  # before `register`: the process that forks has to outlive the servers
    register(world.close)
    return world


_worlds: dict[type["ConformanceCase"], World] = {}
"""World of the last case with its drivers; only one is kept, because idle engines of Godot use a processor."""


def world_of(case: type["ConformanceCase"]) -> World:
    """Return the world of all tests of a case in this process, in which its driver starts once; close any other."""
    if case not in _worlds:
        while _worlds:
            _worlds.popitem()[1].close()
        _worlds[case] = world = World(case.driver(), lender=lender(), parent=in_memory())
        register(world.close)
    return _worlds[case]


def test_of(scenario: Scenario) -> Callable[["ConformanceCase"], None]:
    def test(self: "ConformanceCase") -> None:
        world = world_of(type(self))
        self.assertEqual(lacking(world, scenario), frozenset())
        run(world, scenario)

    test.__doc__ = scenario.data["about"]
    return test


class ConformanceCase(SynchronousTestCase):
    """Subclasses start their driver and name the features that it lacks; scenarios for those are not tests."""

    lacks: ClassVar[frozenset[str]] = frozenset()
    few: ClassVar[Sequence[str]] = ("*",)
    """Names of the scenarios to run, unless GAMED_EXAMPLES asks for many."""
    never: ClassVar[Sequence[str]] = ()
    """Names of scenarios that ask for more than the driver's platform does."""

    @classmethod
    def driver(cls) -> Sequence[str]:
        raise NotImplementedError

    def __init_subclass__(cls) -> None:
        chosen = ("*",) if AMOUNT == MANY else cls.few
        names = [scenario.name for scenario in scenarios()]
        unknown = [pattern for pattern in (*cls.few, *cls.never) if not any(fnmatch(name, pattern) for name in names)]
        assert not unknown, f"{cls.__name__} names scenarios that do not exist: {unknown}"
        for scenario in scenarios():
            if scenario.name in cls.never or scenario.needs & cls.lacks:
                continue
            if any(fnmatch(scenario.name, pattern) for pattern in chosen):
                setattr(cls, f"test_{scenario.name}", test_of(scenario))

        def test_features(self: ConformanceCase) -> None:
            """The driver has every feature, except those that are named here as missing."""
            self.assertEqual(world_of(type(self)).driver().features, FEATURES - cls.lacks)

        cls.test_features = test_features
