"""Scenarios: read from their files, one or more cases each, run one at a time."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .browser import PageFailed
from .driver import CommandFailed, DriverFailed
from .invariants import check_invariants
from .matching import Mismatch, filled
from .scenario_run import ScenarioRun
from .service import ServiceFailed
from .walk import WALKS
from .world import World

FOLDER = Path(__file__).resolve().parents[1] / "scenarios"
CALLS = {
    "saves",
    "sync",
    "assets",
    "names",
    "ensure",
    "providers",
    "qr",
    "account",
    "confirm",
    "commit",
    "return_uri",
    "locale",
    "loop",
    "pages",
    "delete_newer",
    "tickets",
    "other_players",
    "cancel",
}
ABILITIES = {"loopback", "parallel", "shared_store", "clock", "timeout", "stop_at_once"}
FEATURES = frozenset(CALLS | ABILITIES)


class ScenarioFailed(Exception):
    """The step, the expected value, the found value, the last output of the driver."""


@dataclass(frozen=True)
class Scenario:
    name: str
    data: Mapping[str, Any]

    @classmethod
    def read(cls, path: Path) -> Scenario:
        return cls(path.stem, json.loads(path.read_text("utf-8")))

    @property
    def needs(self) -> frozenset[str]:
        return frozenset(self.data.get("needs", ()))

    @property
    def cases(self) -> list[Mapping[str, Any]]:
        """Return the values of each case; each is a run of its own."""
        return self.data.get("cases", [{}])


def scenarios(folder: Path = FOLDER) -> list[Scenario]:
    return [Scenario.read(path) for path in sorted(folder.glob("*.json"))]


def lacking(world: World, scenario: Scenario) -> frozenset[str]:
    """Return the features that the scenario needs and the driver does not have."""
    return scenario.needs - world.driver().features


def run(world: World, scenario: Scenario) -> None:
    """Run all cases; raise ScenarioFailed at the first mismatch."""
    for case in scenario.cases:
        _run_case(world, scenario, case)


def _run_case(world: World, scenario: Scenario, case: Mapping[str, Any]) -> None:
    where = scenario.name + (f" [{case.get('case', case)}]" if case else "")
    doing = "the beginning"
    scenario_run = None
    try:
        scenario_run = ScenarioRun(world, scenario.name, case, scenario.data.get("real", False))
        for number, step in enumerate(scenario.data["steps"], 1):
            doing = f"step {number}, {json.dumps(step)[:300]}"
            perform(scenario_run, step)
        doing = "what must hold in every scenario"
        check_invariants(scenario_run)
        doing = "the end"
        scenario_run.close()
    except (Mismatch, CommandFailed, DriverFailed, PageFailed, ServiceFailed, OSError) as e:
        said = "\n".join(driver.said() for driver in world.drivers)
        world.kill_all()  # the next scenario begins with nothing of this one
        raise ScenarioFailed(f"{where}, {doing}:\n{e}\n\n{scenario.data['about']}\n\nThe driver said:\n{said}") from e
    finally:
        for end in scenario_run.ends.values() if scenario_run else ():
            end.close()


def perform(scenario_run: ScenarioRun, step: Mapping[str, Any]) -> None:
    if "walk" in step:
        WALKS[step["walk"]](scenario_run, filled(dict(step), scenario_run.memory))
    else:
        scenario_run.perform(step)
