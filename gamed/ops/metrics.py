"""The numbers of `/metrics`, in Prometheus's text format; read from the objects themselves when somebody asks."""

import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from platform import python_version
from resource import RLIMIT_NOFILE, getrlimit
from typing import Any, Protocol

from attrs import frozen
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from gamed import __version__
from gamed.ops.tally import BOUNDS, Spread, Tally

CONTENT_TYPE = CONTENT_TYPE_LATEST
Number = Callable[[], int]


class Lane(Protocol):
    """A queue in front of a thread of a store."""

    @property
    def waiting(self) -> int:
        """Units that no batch has taken yet."""

    @property
    def batches(self) -> Sequence[int]:
        """How many held up to 1, 2, 4, ... units."""

    @property
    def units(self) -> int:
        """In all of them."""


@frozen
class Gauges:
    """What is looked at only when somebody asks."""

    lanes: Mapping[str, Lane]
    waiters: Mapping[str, Number]
    wal_bytes: Callable[[], Mapping[str, int]]
    exports: Number
    connections: Number
    refused: Callable[[], Mapping[str, int]]
    """Connections turned away, by the limit that was hit."""


class Metrics:
    """A registry of its own: nothing that a library adds to the common one shows up here."""

    def __init__(self, tally: Tally, gauges: Gauges) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(_Counts(tally, gauges))
        self.registry.register(_Gauges(gauges))
        self.registry.register(_Process())

    def text(self) -> bytes:
        return generate_latest(self.registry)


class _Counts(Collector):
    def __init__(self, tally: Tally, gauges: Gauges) -> None:
        self._tally = tally
        self._gauges = gauges

    def collect(self) -> Iterator[Metric]:
        tally = self._tally
        requests = {(route, method, f"{hundreds}xx"): n for (route, method, hundreds), n in tally.requests.items()}
        refused = {(kind, "-"): count for kind, count in self._gauges.refused().items()}
        events = {(event,): count for event, count in tally.events.items()}
        sessions = {(event,): count for event, count in tally.sessions.items()}
        problems = {(code,): count for code, count in tally.problems.items()}
        directions = {(direction,): count for direction, count in tally.save_bytes.items()}
        yield _counter("requests", "Requests answered.", ("route", "method", "status"), requests)
        yield _histogram("request_seconds", "From a request's head to its answer's end.", "route", tally.latencies)
        yield _counter("problems", "Problems answered, by code.", ("code",), problems)
        limits = {**tally.limits, **refused}
        yield _counter("limit_hits", "Requests and connections refused by a limit.", ("kind", "route"), limits)
        yield _counter("save_bytes", "Bytes of bodies under /game/.", ("direction",), directions)
        yield _counter("logins", "Sign-ins that ended, by outcome.", ("provider", "outcome"), tally.logins)
        yield _counter("sessions", "Sessions made, refreshed and ended.", ("event",), sessions)
        yield _counter("security_events", "Lines of security events.", ("event",), events)
        yield _counter("provider_calls", "Calls to providers.", ("provider", "outcome"), tally.calls)
        yield _histogram("provider_call_seconds", "How long they took.", "provider", tally.call_latencies)


class _Gauges(Collector):
    def __init__(self, gauges: Gauges) -> None:
        self._gauges = gauges

    def collect(self) -> Iterator[Metric]:
        gauges = self._gauges
        waiters = {kind: number() for kind, number in gauges.waiters.items()}
        yield _gauge("waiters", "Requests that wait for news.", "kind", waiters)
        waiting = {name: lane.waiting for name, lane in gauges.lanes.items()}
        yield _gauge("lane_waiting", "Units that wait for a lane of the stores.", "lane", waiting)
        yield _batches(gauges.lanes)
        yield _gauge("wal_bytes", "Size of a store's write-ahead log.", "store", gauges.wal_bytes())
        yield GaugeMetricFamily("gamed_exports_running", "Exports that are made or sent.", value=gauges.exports())
        yield GaugeMetricFamily("gamed_connections", "Open connections.", value=gauges.connections())
        build = GaugeMetricFamily("gamed_build_info", "What runs; always 1.", labels=("version", "python", "sqlite"))
        build.add_metric((__version__, python_version(), sqlite3.sqlite_version), 1)
        yield build


class _Process(Collector):
    """What Prometheus's own collector says, without the files that a unit with ProcSubset=pid does not show."""

    def __init__(self) -> None:
        self._began = time.time() - time.process_time()

    def collect(self) -> Iterator[Metric]:
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
        for name, text, number in (
            ("resident_memory_bytes", "Memory in use.", pages * os.sysconf("SC_PAGE_SIZE")),
            ("open_fds", "Open file descriptors.", len(os.listdir("/proc/self/fd")) - 1),
            ("max_fds", "How many there may be.", getrlimit(RLIMIT_NOFILE)[0]),
            ("start_time_seconds", "When the process started.", self._began),
        ):
            yield GaugeMetricFamily(f"process_{name}", text, value=number)
        yield CounterMetricFamily("process_cpu_seconds", "Processor time.", value=time.process_time())


def _counter(name: str, text: str, labels: Sequence[str], counts: Mapping[Any, int]) -> CounterMetricFamily:
    """`counts` by the values of the labels."""
    family = CounterMetricFamily(f"gamed_{name}", text, labels=labels)
    for values, count in counts.items():
        family.add_metric(values, count)
    return family


def _gauge(name: str, text: str, label: str, numbers: Mapping[str, int]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(f"gamed_{name}", text, labels=(label,))
    for value, number in numbers.items():
        family.add_metric((value,), number)
    return family


def _histogram(name: str, text: str, label: str, spreads: Mapping[str, Spread]) -> HistogramMetricFamily:
    family = HistogramMetricFamily(f"gamed_{name}", text, labels=(label,))
    for value, spread in spreads.items():
        family.add_metric((value,), _buckets(BOUNDS, spread.counts), spread.seconds)
    return family


def _batches(lanes: Mapping[str, Lane]) -> HistogramMetricFamily:
    family = HistogramMetricFamily("gamed_lane_batch_units", "Units that rode together.", labels=("lane",))
    for name, lane in lanes.items():
        bounds = [2.0**step for step in range(len(lane.batches) - 1)]
        family.add_metric((name,), _buckets(bounds, lane.batches), lane.units)
    return family


def _buckets(bounds: Iterable[float], counts: Sequence[int]) -> list[tuple[str, float]]:
    """As Prometheus counts: each bucket holds all that are smaller, too."""
    names = [*map(str, bounds), "+Inf"]
    return list(zip(names, accumulate(counts), strict=True))
