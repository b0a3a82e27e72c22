"""The clocks of a process: the wall clock, and the clock that Twisted's timers run by.

Only `cli/`, `tap.py` and `service.py` import this module; all other code receives a clock as an argument.
"""

from time import monotonic, time_ns
from typing import Any


def now_ms() -> int:
    """Return the wall clock in epoch milliseconds."""
    return time_ns() // 1_000_000


def use_monotonic_clock(reactor: Any) -> None:
    """Let the reactor's timers run by a clock that an operator cannot set.

    Twisted's own timers run by the wall clock: set back a day, they stand still for a day; set forward, every
    connection counts as idle.
    """
    reactor.seconds = monotonic
