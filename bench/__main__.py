"""`python -m bench` measures every path against its references in alternating rounds; see bench/README.md."""

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bench import alone, machine, pages, waiters
from bench.plots import draw
from bench.report import TITLE, as_json, lines
from bench.rounds import Outcome, measure
from bench.rows import PEER_ROWS, ROWS, Row
from bench.servers import MANY_TOKENS, Missing, Servers
from bench.wrk import SMOKE_SECONDS

ALONE = ("start", "waiters", "pages")
SMOKING = 8
"""The number of rows at once in a smoke test."""


def options(words: Sequence[str] | None = None) -> argparse.Namespace:
    names = [row.name for row in ROWS + PEER_ROWS] + list(ALONE)
    parser = argparse.ArgumentParser("bench", description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="the shortest run of everything, to see that it works")
    parser.add_argument("--peers", action="store_true", help="other whole servers with the same work, and only these")
    parser.add_argument("--all", action="store_true", help="the paths of --peers, too")
    parser.add_argument("--only", action="append", choices=names, metavar="PATH", help=", ".join(names))
    parser.add_argument("--rounds", type=int, default=7, help="[%(default)s]")
    parser.add_argument("--seconds", type=int, default=3, help="of one run; wrk knows whole ones [%(default)s]")
    parser.add_argument("--waiters", type=int, default=10_000, help="[%(default)s]")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--plots", type=Path, metavar="FOLDER", help="a PNG per path; needs matplotlib")
    given = parser.parse_args(words)
    if given.smoke:
        given.rounds, given.seconds, given.waiters = 1, SMOKE_SECONDS, 50
    return given


def main() -> None:
    given = options()
    if shutil.which("wrk") is None:
        sys.exit("bench: wrk is missing; on Debian: apt-get install wrk")
    folder = Path(tempfile.mkdtemp(prefix="gamed-bench-"))
    try:
        run(given, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run(given: argparse.Namespace, folder: Path) -> None:
    state = machine.state(folder)
    print("\n".join(machine.lines(state)), flush=True)
    if given.smoke:
        print(f"{SMOKING} rows at once, each for one short round: these figures mean nothing", flush=True)
    wanted = chosen(given)
    outcomes = measure_rows([row for row in ROWS + PEER_ROWS if row.name in wanted], folder, given)
    if given.plots is not None:
        draw(outcomes, given.plots)
    others: dict[str, Mapping[str, float]] = {}
    if "start" in wanted:
        others["start"] = alone.start_and_memory(folder, given.rounds)
    if "waiters" in wanted:
        others["waiters"] = waiters.waiters(folder, given.waiters)
    if "pages" in wanted:
        others["pages"] = pages.pages(folder, smoke=given.smoke)
    for name, figures in others.items():
        print(f"{name}: " + ", ".join(f"{key} {value:.3g}" for key, value in figures.items()))
    if given.json is not None:
        found = {"machine": state, "rows": as_json(outcomes), **others}
        given.json.write_text(json.dumps(found, indent=1))


def chosen(given: argparse.Namespace) -> set[str]:
    """Return the names of the paths to measure; --all and a smoke test take those of `--peers`, too."""
    peers = {row.name for row in PEER_ROWS}
    others = {row.name for row in ROWS} | {*ALONE}
    if given.only is not None:
        return {*given.only}
    if given.smoke or given.all:
        return peers | others
    return peers if given.peers else others


def measure_rows(rows: Sequence[Row], folder: Path, given: argparse.Namespace) -> list[Outcome]:
    """Measure rows one after another; a smoke test, whose figures do not matter, measures several at once."""
    servers = Servers(folder, tokens=200 if given.smoke else MANY_TOKENS)

    def one(row: Row) -> Outcome | None:
        try:
            outcome = measure(servers, row, given.rounds, given.seconds, warm=not given.smoke)
        except Missing as e:
            print(f"{row.name}: left out: {e} is not installed")
            return None
        print("\n".join(lines([outcome])), flush=True)
        return outcome

    print("\n".join(TITLE), flush=True)
    try:
        servers.get("G")
        with ThreadPoolExecutor(SMOKING if given.smoke else 1) as threads:
            return [outcome for outcome in threads.map(one, rows) if outcome is not None]
    finally:
        servers.stop()


if __name__ == "__main__":
    main()
