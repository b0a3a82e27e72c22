#!/usr/bin/env python3
"""Puts a client through the conformance suite: see README.md beside this file.

python clients/conformance/run.py --driver "python clients/conformance/drivers/python_driver.py"
"""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from fnmatch import fnmatchcase

from gamed_conformance.driver import DriverFailed
from gamed_conformance.service import Gamed
from gamed_conformance.suite import FEATURES, ScenarioFailed, lacking, run, scenarios
from gamed_conformance.world import World


def main() -> int:
    top = argparse.ArgumentParser(description="Does a client of gamed keep the rules?")
    top.add_argument("--driver", required=True, help="the command that starts your driver")
    top.add_argument("--gamed", help='the command of the server (default: this checkout, "python -m gamed")')
    top.add_argument("--list", action="store_true", help="only say what each scenario is about")
    top.add_argument("scenarios", nargs="*", help="names, with * (default: all)")
    options = top.parse_args()
    chosen = [s for s in scenarios() if not options.scenarios or any(fnmatchcase(s.name, n) for n in options.scenarios)]
    if options.list:
        for scenario in chosen:
            print(f"{scenario.name:32} {scenario.data['about']}")
        return 0
    world = World(options.driver, Gamed(shlex.split(options.gamed) if options.gamed else None))
    failed, unsupported, began = 0, 0, time.monotonic()
    try:
        known = world.driver().features
        print(f"{world.driver().language}: {', '.join(sorted(known))}")
        if unknown := known - FEATURES:
            print(f"no such feature: {', '.join(sorted(unknown))}")
        for scenario in chosen:
            start = time.monotonic()
            if missing := lacking(world, scenario):
                unsupported += 1
                print(f"-- {scenario.name}: not supported, needs {', '.join(sorted(missing))}")
                continue
            try:
                run(world, scenario)
            except ScenarioFailed as failure:
                failed += 1
                print(f"FAILED {failure}\n")
            else:
                print(f"ok {scenario.name} ({time.monotonic() - start:.1f} s)", flush=True)
    except DriverFailed as failure:
        print(failure, file=sys.stderr)
        return 1
    finally:
        world.close()
    passed = len(chosen) - failed - unsupported
    print(f"{passed} passed, {failed} failed, {unsupported} not supported, in {time.monotonic() - began:.0f} s")
    return 1 if failed or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
