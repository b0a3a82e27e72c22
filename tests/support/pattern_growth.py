"""Measure how the time of a pattern grows with the length of its text; run as a program in a process of its own.

Standard input holds one JSON object per line: `pattern` (the path of a module and the name in it), `methods`, `length`
(characters) and `texts`, each text as [head, repeated unit, tail]. One line is printed before each measurement and one
after it, so that a process that was killed has named the measurement that did not end. The argument is the processor
time in seconds, counted from the first measurement, after which the kernel kills this process.
"""

import json
import resource
import sys
from collections.abc import Callable, Iterator
from functools import reduce
from importlib import import_module
from math import ceil
from re import Pattern
from time import process_time, thread_time

LENGTH = 16_384
"""Characters of the longer text, unless the case names more: a request head has at most as many."""
STEP = 4
LINEAR = 9.0
"""The time may grow by this factor when the length grows by STEP: 4 is linear, 16 is quadratic."""
ROUNDS = 5
SLOW = 0.1
"""Seconds of one call after which no second one is made; a linear pattern needs less than a hundredth."""
SHORTEST_RUN = 0.0005
"""Seconds that one measurement takes at least; shorter calls are repeated."""


def find(path: str) -> Pattern[str] | Pattern[bytes]:
    """Return the compiled pattern at `package.module:NAME` or `package.module:NAME.attribute`."""
    module, _, names = path.partition(":")
    return reduce(getattr, names.split("."), import_module(module))


def build(pattern: Pattern[str] | Pattern[bytes], parts: tuple[str, str, str], length: int) -> str | bytes:
    """Return head, unit and tail, the unit repeated until the text has about this length."""
    head, unit, tail = parts
    text = head + unit * max(1, (length - len(head) - len(tail)) // len(unit)) + tail
    return text if isinstance(pattern.pattern, str) else text.encode("latin-1")


def call_of(pattern: Pattern, method: str, text: str | bytes) -> Callable[[], object]:
    """Return a function that runs the pattern over the text as the package does."""
    run = getattr(pattern, method)
    if method == "sub":
        empty = text[:0]
        return lambda: run(empty, text)
    if method == "finditer":
        return lambda: sum(1 for _ in run(text))
    return lambda: run(text)


def growth(short: Callable[[], object], long: Callable[[], object]) -> float:
    """Return how many times as long the second call takes; the smallest of several rounds each."""
    if (once := _timed(long, 1)) > SLOW:
        return once / _timed(short, 1)
    repeat = 1
    while (took := _timed(short, repeat)) < SHORTEST_RUN:
        repeat *= 2 if took > SHORTEST_RUN / 16 else 8
    return min(_timed(long, repeat) for _ in range(ROUNDS)) / min(_timed(short, repeat) for _ in range(ROUNDS))


def _timed(call: Callable[[], object], repeat: int) -> float:
    began = thread_time()
    for _ in range(repeat):
        call()
    return thread_time() - began


def measurements(case: dict) -> Iterator[tuple[str, Callable[[], float]]]:
    """Yield the name of each measurement of one pattern, and the function that takes it."""
    pattern, length = find(case["pattern"]), case["length"]
    for method in case["methods"]:
        for parts in case["texts"]:
            calls = [call_of(pattern, method, build(pattern, parts, size)) for size in (length // STEP, length)]
            yield f"{case['pattern']} {method} {parts!r}", lambda calls=calls: growth(*calls)


def limit_processor_time(seconds: int) -> None:
    """Let the kernel kill this process after `seconds` more: Python handles no signal while a pattern runs."""
    limit = ceil(process_time()) + seconds
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))


def main() -> None:
    """Print `begin NAME`, then `end FACTOR NAME` for each measurement; repeat one that seems to be more than linear."""
    limited = False
    for line in sys.stdin:
        for name, measure in measurements(json.loads(line)):
            if not limited:
                limit_processor_time(int(sys.argv[1]))
                limited = True
            print(f"begin {name}", flush=True)
            factor = measure()
            for _ in range(2):
                factor = min(factor, measure()) if factor >= LINEAR else factor
            print(f"end {factor:.2f} {name}", flush=True)


if __name__ == "__main__":
    main()
