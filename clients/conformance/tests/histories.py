"""Random histories across the clients, and kills: `python -m clients.conformance.tests.histories --help`."""

import argparse
import sys
import time
from collections import Counter

from clients.conformance.tests.helpers import ScenarioFailed, World, in_memory, lender
from clients.conformance.tests.test_csharp import CSharp
from clients.conformance.tests.test_godot3 import Godot3
from clients.conformance.tests.test_godot4 import Godot4
from clients.conformance.tests.test_js import JavaScript
from clients.conformance.tests.test_python import Python

from gamed_conformance.histories import pairs, run_histories  # isort: skip  (the helpers set its path)

CLIENTS = {"python": Python, "js": JavaScript, "csharp": CSharp, "godot4": Godot4, "godot3": Godot3}
UNTIL_SECONDS = 30.0


def main(arguments: list[str]) -> int:
    top = argparse.ArgumentParser(prog="python -m clients.conformance.tests.histories", description=__doc__)
    top.add_argument("--clients", default=",".join(CLIENTS), help="names, with commas (default: all five)")
    top.add_argument("--seed", type=int, default=1, help="of the first history; each next one has the next number")
    top.add_argument("--count", type=int, default=20, help="of histories; 20 have each pair of five clients once")
    top.add_argument("--steps", type=int, default=45, help="deeds of a history")
    top.add_argument("--kills", type=int, default=1, help="of a history")
    options = top.parse_args(arguments)
    drivers = {name: CLIENTS[name].driver() for name in options.clients.split(",")}
    world = World([], lender=lender(), until_seconds=UNTIL_SECONDS, parent=in_memory())
    began, done = time.monotonic(), Counter[str]()
    seeds = range(options.seed, options.seed + options.count)
    code = 0
    try:
        for seed, pair in run_histories(world, drivers, seeds, options.steps, options.kills):
            done[" ".join(pair)] += 1
            print(f"ok {seed} {' '.join(pair)} ({time.monotonic() - began:.0f} s)", flush=True)
    except ScenarioFailed as failure:
        turns, seed = pairs([*drivers]), options.seed + done.total()
        again = f"--clients {options.clients} --seed {seed} --count 1 --steps {options.steps} --kills {options.kills}"
        print(f"FAILED {' '.join(turns[seed % len(turns)])}: {failure}\nRepeat it with {again}")
        code = 1
    finally:
        world.close()
    count = done.total()
    print(f"{count} histories of {options.steps} steps, {count * options.kills} kills, {len(done)} pairs of clients, ")
    print(f"seeds from {options.seed}, in {time.monotonic() - began:.0f} s")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
