"""This is gamed, which notes how long its reactor's thread and its database queues are busy at once.

python -m bench.references.watched FILE, and the arguments of gamed
"""

import json
import sys
import time
from atexit import register
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from gamed.cli import main
from gamed.database.queues import ReadQueue, WriteQueue

NOTED_MS = 2.0
"""Shorter ones are not noted."""


class Watch:
    """Stretches of more than NOTED_MS: what was busy, when it ended, and its milliseconds by clock and by processor."""

    def __init__(self) -> None:
        self.stretches: list[tuple[str, float, float, float]] = []

    def measured(self, name: str, work: Callable[[], Any]) -> Any:
        began, cpu = time.perf_counter(), time.thread_time()
        try:
            return work()
        finally:
            self.note(name, began, cpu)

    def note(self, name: str, began: float, cpu: float) -> None:
        """Note a stretch that ends now."""
        ms = (time.perf_counter() - began) * 1000
        if ms > NOTED_MS:
            self.stretches.append((name, time.time(), ms, (time.thread_time() - cpu) * 1000))

    def watch(self, kind: type[ReadQueue | WriteQueue]) -> None:
        """Note the batches of a kind of queue: what waits for a transaction waits for its batch."""
        run = kind._run_batch

        def run_batch(queue: Any, connection: Any, transactions: Sequence[Any]) -> Any:
            return self.measured(queue.name, lambda: run(queue, connection, transactions))

        kind._run_batch = run_batch  # type: ignore[assignment,method-assign]

    def watch_reactor(self) -> None:
        """Note what happens between two waits of the reactor."""
        from twisted.internet import reactor

        reactor._poller = _Poller(reactor._poller, self)  # type: ignore[attr-defined]


class _Poller:
    """The reactor's epoll, with a note of the time between two calls of poll()."""

    def __init__(self, poller: Any, watch: Watch) -> None:
        self._poller, self._watch = poller, watch
        self._began: tuple[float, float] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._poller, name)

    def poll(self, *words: Any) -> Any:
        if self._began is not None:
            self._watch.note("reactor", *self._began)
        found = self._poller.poll(*words)
        self._began = time.perf_counter(), time.thread_time()
        return found


if __name__ == "__main__":
    file, watch = Path(sys.argv.pop(1)).absolute(), Watch()
    register(lambda: file.write_text(json.dumps(watch.stretches)))
    watch.watch(WriteQueue)
    watch.watch(ReadQueue)
    watch.watch_reactor()
    main()
