"""Finds tests that fail by chance, on a quiet machine of two cores with everything that the tests need.

- `python -m tests.chance` prints the tests that did, each with the cause and the repair.
- `python -m tests.chance times [PACKAGE...]` prints the seconds of each class; its last lines are the twenty slowest.
- `python -m tests.chance rounds 10 CLASS...` runs classes ten times beside two busy loops.
"""

import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from subprocess import DEVNULL, STDOUT, Popen, run

from msgspec import Struct

from tests.quick import ROOT, Sources, is_below

TRIAL = [sys.executable, "-m", "twisted.trial"]
BUSY = [sys.executable, "-c", "while True: pass"]
BUSY_LOOPS = 2
JOBS = 2
"""How many modules are timed at once, and how many classes run at once in a round: as many as there are cores."""
SHOWN_LINES = 40
CLASSES = 20
_TIMED = re.compile(r"^([\w.]+)\.test_\w+ \.\.\. .*?^\(([0-9.]+) secs\)$", re.MULTILINE | re.DOTALL)


class Repaired(Struct, frozen=True):
    """A test that failed by chance, and was repaired at its cause."""

    test: str
    """The name of a module, then what of it."""
    cause: str
    repair: str


REPAIRED = (
    Repaired(
        "tests.database.test_blobs, tests.saves.state_machine: damaged bytes",
        "the first byte became `X`, which a random one is once in 256 runs",
        "a bit of it is flipped",
    ),
    Repaired(
        "tests.sessions.test_limit",
        "two sessions were opened in the same millisecond, so that either was the older one",
        "the fake clock advances between them",
    ),
    Repaired(
        "tests.cli.test_postgresql_backup: a database that goes back",
        "a heartbeat between two statements brought it up to date, and the server stayed",
        "both statements are one transaction, and the wait has a deadline",
    ),
    Repaired(
        "tests.cli.test_postgresql_backup: two workers",
        "a worker that still started was refused in other words",
        "the test waits until both have started",
    ),
    Repaired(
        "clients.conformance: loop_signed_out, loop_revoked, loop_run",
        "a pump under way, or the request that waits, got the answer first: `session_revoked` or `signed_out`",
        "either code is right",
    ),
    Repaired(
        "clients.conformance: loop_expired, loop_signed_out and six other loops",
        "the trouble was read before the pump had ended",
        "the step waits for it",
    ),
    Repaired(
        "clients.conformance.tests.test_can_fail: a foreign address",
        "the server answered either of the two links first",
        "either sign of the defect is right",
    ),
    Repaired(
        "tests.support.forks: processes of tests",
        "a fork had the umask of its parent, not of the test",
        "the request has the umask",
    ),
    Repaired(
        "tests.walk: rolling",
        "nginx counts whole seconds, so that `fail_timeout=1s` may last two, and both servers were left out",
        "2.5 s between two restarts",
    ),
    Repaired(
        "tests.ops.test_workers: a worker that hangs",
        "it was stopped before it was ready",
        "the test waits until its modules are loaded",
    ),
    Repaired(
        "tests.ops.test_workers: a dead worker",
        "the limit of ten seconds held for the imports of the new process, too, which take longer at a load of 15",
        "the limit is for the parent, which starts the process",
    ),
    Repaired(
        "tests.e2e.test_engines: the garden in WebKit",
        "the garden said `Saved` while the browser still wrote it, and the walk went on",
        "the garden says `Saving`; a test holds the browser's database",
    ),
    Repaired(
        "tests.cli.test_notify: a full disk",
        "the log was read before the record of the notice was written",
        "the test waits for the record",
    ),
    Repaired(
        "tests.cli.test_people: players by a part of a name",
        "a random id has the two letters that were looked for, in 4 of 100 runs",
        "a part of seven letters",
    ),
    Repaired(
        "clients.python.tests.sync.test_killed: a game that is killed",
        "communicate() leaves out the lines that readline() has read ahead, which came once the disk was fast",
        "the rest is read from the same file object",
    ),
    Repaired(
        "tests.bench.test_scripts: a moment of attack",
        "all answers of the moment were `413` or `429`",
        "any answer but an error counts",
    ),
    Repaired(
        "tests.e2e.test_engines: the garden in Firefox",
        "the picture came while a plot was pressed and moved it, so that the press was beside it",
        "the walk waits for the picture",
    ),
    Repaired(
        "tests.e2e.test_engines: a link on the page with the code",
        "the page loaded itself again between the search for the link and the press",
        "the link is pressed once in each document, until the next page is there",
    ),
    Repaired(
        "clients.python.tests.sync.test_started: a refused save",
        "another test had set an epoch of too many characters, so that each list was a whole one and the save was sent "
        "again",
        "that test draws an epoch as `gamed restored` does, and asks for a second list",
    ),
    Repaired(
        "tests.e2e.test_engines: the account in Chromium",
        "the page with the code loaded itself again in the moment in which the walk opened the next one",
        "the address is opened once more, as other tests of pages do",
    ),
    Repaired(
        "tests.e2e.other_origin: a provider died without a word",
        "another process copied the scripts at that moment, and node read an empty one",
        "a script that differs is replaced whole",
    ),
    Repaired(
        "tests.cli.test_postgresql_backup: the password is in no argument",
        "the first program that it saw was psql, not pg_dump",
        "it looks among all of them",
    ),
    Repaired(
        "tests.saves.test_one_trip: a body is in memory once",
        "bodies of earlier tests were not collected yet",
        "they are collected before",
    ),
    Repaired(
        "clients.godot3.tests.test_addon: the editor",
        "its display refused a client just after another one had left, or another display took its number",
        "the display stays as it is, and a second one is started",
    ),
    Repaired(
        "tests.e2e.test_demo: without a network",
        "the newer garden came before the page first drew, so that there was nothing to load",
        "the button is pressed if it is there",
    ),
    Repaired(
        "clients.conformance.tests.test_js: a tab that takes the place of another one in Chromium",
        "the closed one held its locks for over 0.3 s on a busy machine, so that the new one was another device",
        "the driver waits until the tab is gone, and then for a second",
    ),
    Repaired(
        "clients.js.tests.test_js: a signal ends the wait for a lock",
        "the client kept the player's name once the lock was free, while the test's folder was being removed",
        "the removal is tried again",
    ),
    Repaired(
        "clients.conformance.tests.test_js: a missing browser",
        "Node.js had put its cache of compiled code into the folder that has to be empty, when it ended by itself",
        "it keeps none there",
    ),
    Repaired(
        "clients.conformance: no secret is printed",
        "a random id of a session held `grc_`, and counted as a secret from there on",
        "a secret has more characters than are left in an id",
    ),
)
"""All since the first release candidate. A test is repaired and gets an entry; none is run again until it passes."""


def trial(names: Sequence[str], *options: str) -> tuple[bool, str]:
    """Run tests in a folder of their own; return whether they passed, and the output."""
    with tempfile.TemporaryDirectory(prefix="gamed-chance-") as folder:
        words = [*TRIAL, f"--temp-directory={folder}/trial", *options, *names]
        done = run(words, cwd=ROOT, stdin=DEVNULL, capture_output=True, text=True, errors="replace", check=False)
        return done.returncode == 0, done.stdout + done.stderr


def seconds_by_class(output: str) -> Mapping[str, float]:
    """Return the seconds of each class from the output of trial's timing reporter."""
    found: dict[str, float] = {}
    for name, seconds in _TIMED.findall(output):
        found[name] = found.get(name, 0.0) + float(seconds)
    return found


def times(packages: Sequence[str]) -> int:
    """Print the seconds of all classes of these packages."""
    modules = sorted(name for name in Sources(ROOT).tests if is_below(name, packages or ("tests", "clients")))
    found: dict[str, float] = {}

    def measure(module: str) -> None:
        measured = seconds_by_class(trial([module], "--reporter=timing")[1])
        found.update(measured)
        for name, seconds in measured.items():
            print(f"{seconds:7.1f} s  {name}", flush=True)

    with ThreadPoolExecutor(JOBS) as threads:
        list(threads.map(measure, modules))
    print("", *sorted(found, key=lambda name: -found[name])[:CLASSES], sep="\n")
    return 0


def rounds(number: int, classes: Sequence[str]) -> int:
    """Run the classes so many times beside busy loops; print each failure, and return the exit code."""
    failed: Counter[str] = Counter()
    loops = [Popen(BUSY, stdin=DEVNULL, stdout=DEVNULL, stderr=STDOUT) for _ in range(BUSY_LOOPS)]
    try:
        for each in range(1, number + 1):
            began = time.monotonic()
            with ThreadPoolExecutor(JOBS) as threads:
                results = [*threads.map(lambda name: trial([name]), classes)]
            for name, (passed, output) in zip(classes, results, strict=True):
                if not passed:
                    failed[name] += 1
                    print(f"FAILED in round {each}: {name}", *output.splitlines()[-SHOWN_LINES:], sep="\n")
            print(f"round {each} of {number}: {time.monotonic() - began:.0f} s", flush=True)
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
    print(f"{number} rounds of {len(classes)} classes, {failed.total()} failures")
    return 1 if failed else 0


def main(words: Sequence[str]) -> int:
    """Do what the arguments ask for; return the exit code."""
    match words:
        case ["times", *packages]:
            return times(packages)
        case ["rounds", number, *classes] if number.isdecimal() and classes:
            return rounds(int(number), classes)
        case []:
            print(*(f"{each.test}\n  cause:  {each.cause}\n  repair: {each.repair}" for each in REPAIRED), sep="\n")
            return 0
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
