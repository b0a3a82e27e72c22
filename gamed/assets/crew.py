"""Files worked on by some threads, while the one that waits for them shows how far they are."""

from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from os import cpu_count
from threading import Lock
from typing import TypeVar

T = TypeVar("T")
Growing = Callable[[str, int], AbstractContextManager[Callable[[int], None]]]
"""What a piece of work is called and how much it is in all -> what to call with how much is done."""
THREADS = min(4, cpu_count() or 1)
LOOK_SECONDS = 0.2


class Stopped(Exception):
    """Another thread failed, or the owner has seen enough."""


class Meter:
    """How much is done, counted by all threads; each count is where a thread may be stopped."""

    def __init__(self) -> None:
        self.done = 0
        self._lock = Lock()
        self._stopped = False

    def add(self, amount: int) -> None:
        """Stopped when the work is to end."""
        if self._stopped:
            raise Stopped
        with self._lock:
            self.done += amount

    def stop(self) -> None:
        self._stopped = True


def each(
    items: Iterable[T], task: Callable[[T, Meter], None], shown: Callable[[int], None], look: Callable[[], None]
) -> None:
    """Every item through `task`, in no order; the first error ends all of it, also one that `look` raises.

    The caller's own thread shows what is done and looks around, some times a second.
    """
    meter, todo = Meter(), iter(list(items))  # a list's iterator may be shared

    def drain() -> None:
        for item in todo:
            meter.add(0)  # also where items have no bytes to count
            task(item, meter)

    with ThreadPoolExecutor(THREADS) as threads:
        running = {threads.submit(drain) for _ in range(THREADS)}
        try:
            _wait(running, meter, shown, look)
        except BaseException:
            meter.stop()
            raise
    shown(meter.done)


def _wait(running: set[Future[None]], meter: Meter, shown: Callable[[int], None], look: Callable[[], None]) -> None:
    while running:
        ended, running = wait(running, LOOK_SECONDS, FIRST_EXCEPTION)
        for future in ended:
            future.result()
        shown(meter.done)
        look()
