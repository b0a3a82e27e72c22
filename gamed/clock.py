"""The wall clock. Whatever stands below the wiring does not ask: it is told."""

from time import time_ns


def now_ms() -> int:
    """Epoch milliseconds."""
    return time_ns() // 1_000_000
