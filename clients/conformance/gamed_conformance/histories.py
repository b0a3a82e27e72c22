"""Random histories of two devices with drivers of different clients: what a scenario with one driver cannot show."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from .suite import Scenario, run
from .world import World


def history(seed: int, steps: int, kills: int) -> Scenario:
    """Return a scenario of the processes 1, the desk's, and 2; the seed gives the deeds, not the moment of a kill."""
    devices = (("desk", "1", "first"), ("sofa", "2", "second"))
    opened: list[Mapping[str, Any]] = []
    for client, process, session in devices:
        where = {"client": client, "process": process}
        how = {"folder": f"${{folder}}/{client}", "pauses": 0}
        opened += [{"enter": f"${{{session}}}", **where, "open": how}, {"do": "sync_open", **where}]
    walk = {"walk": "killed", "session": "first", "seed": seed, "steps": steps, "kills": kills}
    sessions = [{"session": session, "of": "anna"} for _, _, session in devices]
    data = {"about": "Nothing is lost, doubled or replaced unseen.", "needs": ["sync"], "real": True}
    return Scenario(f"history_{seed}", {**data, "steps": [{"player": "anna"}, *sessions, *opened, walk]})


def pairs(names: Sequence[str]) -> list[tuple[str, str]]:
    """Return each pair of different clients in both orders; of one client the pair with itself."""
    return [(one, other) for one, other in product(names, names) if one != other] or [(names[0], names[0])]


def run_histories(
    world: World, drivers: Mapping[str, Sequence[str]], seeds: Sequence[int], steps: int, kills: int
) -> Iterator[tuple[int, tuple[str, str]]]:
    """Run a history for each seed, with the pairs in turn by the seed; yield what is done, raise ScenarioFailed."""
    turns = pairs([*drivers])
    for seed in seeds:
        desk, sofa = turns[seed % len(turns)]
        world.kill_all()
        world.others = {"1": drivers[desk], "2": drivers[sofa]}
        run(world, history(seed, steps, kills))
        yield seed, (desk, sofa)
