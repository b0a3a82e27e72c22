"""The metrics module counts what has ended, reads gauges at each scrape, and writes both in Prometheus's text format.

No label holds a player, a slot, a session, an address or text that a client chose. Importing prometheus_client takes
about 12 ms, so only a service with `--admin` imports this module.
"""

import os
import sqlite3
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from platform import python_version
from resource import RLIMIT_NOFILE, getrlimit
from typing import Final, Protocol

from msgspec import Struct
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Histogram,
    Info,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from gamed import __version__
from gamed.audit import AuditLog, SecurityEvent
from gamed.outcomes import LoginFailure

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST
BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper bounds in seconds. Most requests end in the first bucket, where observe() stops; the last is for long polls."""
LIMIT_CODES: Final = frozenset(
    {
        "rate_limited",
        "busy",
        "body_too_large",
        "head_too_large",
        "save_too_large",
        "quota_exceeded",
        "too_many_slots",
        "storage_full",
    }
)
"""Problem codes of requests that a limit rejected."""
SESSION_EVENTS: Final = {
    SecurityEvent.SIGN_IN: "created",
    SecurityEvent.SIGNED_OUT: "signed_out",
    SecurityEvent.SESSION_REVOKED: "revoked",
    SecurityEvent.REFRESH_REUSED: "reused",
}
"""Values of the label `event` of `gamed_sessions_total`."""
UNKNOWN: Final = "-"
# Without this, each counter brings a second series with the time of its first use.
disable_created_metrics()  # type: ignore[no-untyped-call]


class _RequestSeries(Struct, frozen=True, eq=False):
    """What a request counts in, with its labels bound: labels() takes about 2 us, which no request should pay."""

    counters: tuple[Counter, ...]
    seconds: Histogram
    has_save_bytes: bool


class Counters:
    """The counters and histograms of one service.

    `provider_names` are those of the configuration; any other provider counts as `-`.
    """

    def __init__(self, provider_names: Collection[str]) -> None:
        self._provider_names = frozenset(provider_names)
        self._requests = _counter("requests", "Requests answered.", "route", "method", "status")
        self._request_seconds = _histogram("request_seconds", "Seconds from head to end of response.", "route")
        self._problems = _counter("problems", "Problems answered, by code.", "code")
        self.limit_hits = _counter("limit_hits", "Requests and connections rejected by a limit.", "kind", "route")
        self._save_bytes = _counter("save_bytes", "Bytes of bodies under /game/.", "direction")
        self._logins = _counter("logins", "Sign-ins that ended, by outcome.", "provider", "outcome")
        self._sessions = _counter("sessions", "Sessions created, refreshed and ended.", "event")
        self._security_events = _counter("security_events", "Security events in the log.", "event")
        self._calls = _counter("provider_calls", "Requests to providers.", "provider", "outcome")
        self._call_seconds = _histogram("provider_call_seconds", "Seconds that they took.", "provider")
        self._received, self._sent = self._save_bytes.labels("in"), self._save_bytes.labels("out")
        self._series: dict[tuple[str, str, int, str], _RequestSeries] = {}
        """By route, method, status and problem code."""

    @property
    def collectors(self) -> Sequence[Collector]:
        """Everything but `limit_hits`."""
        requests = (self._requests, self._request_seconds, self._problems, self._save_bytes)
        return *requests, self._logins, self._sessions, self._security_events, self._calls, self._call_seconds

    def record_request(  # noqa: PLR0917
        self, template: str, method: str, status: int, seconds: float, size: int, received: int, code: str
    ) -> None:
        """Count a request that has ended; see gamed.http.access_log.Count."""
        key = template, method, status, code
        series = self._series.get(key) or self._bind_request(*key)
        for counter in series.counters:
            counter.inc()
        series.seconds.observe(seconds)
        if series.has_save_bytes:
            if received:
                self._received.inc(received)
            if size:
                self._sent.inc(size)

    def record_event(self, event: SecurityEvent, values: Mapping[str, str]) -> None:
        """Count a security event; `values` are those of gamed.audit.FIELDS."""
        self._security_events.labels(event.value).inc()
        if event in SESSION_EVENTS:
            self._sessions.labels(SESSION_EVENTS[event]).inc()
        if event is SecurityEvent.COMMAND and values.get("command") == "sessions revoke":
            self._sessions.labels("revoked").inc()
        if event in (SecurityEvent.SIGN_IN, SecurityEvent.SIGN_IN_REFUSED):
            self._logins.labels(self._known(values.get("provider", "")), values.get("outcome") or "signed_in").inc()

    def record_failed_sign_in(self, provider: str, outcome: LoginFailure) -> None:
        """Count a sign-in that failed at the provider, or on the way between the provider and this server."""
        self._logins.labels(self._known(provider), outcome.value).inc()

    def record_provider_call(self, provider: str, outcome: str, seconds: float) -> None:
        """Count a request to a provider; see gamed.providers.client.Report."""
        self._calls.labels(self._known(provider), outcome).inc()
        self._call_seconds.labels(self._known(provider)).observe(seconds)

    def _bind_request(self, template: str, method: str, status: int, code: str) -> _RequestSeries:
        counters = [self._requests.labels(template, method, f"{status // 100}xx")]
        if code:
            counters.append(self._problems.labels(code))
        if code in LIMIT_CODES or status == 429:
            counters.append(self.limit_hits.labels(code or "rate_limited", template))
        if template == "/auth/session/refresh" and status == 200:
            counters.append(self._sessions.labels("refreshed"))
        series = _RequestSeries(tuple(counters), self._request_seconds.labels(template), template.startswith("/game/"))
        self._series[template, method, status, code] = series
        return series

    def _known(self, provider: str) -> str:
        return provider if provider in self._provider_names else UNKNOWN


class CountingAuditLog:
    """An audit log that also counts its events."""

    def __init__(self, audit: AuditLog, counters: Counters) -> None:
        self._audit = audit
        self._counters = counters

    def record(self, event: SecurityEvent, **values: str) -> None:
        """Count the event and pass it on; see gamed.audit.AuditLog."""
        self._counters.record_event(event, values)
        self._audit.record(event, **values)


class QueueStatistics(Protocol):
    """The figures of a queue of transactions in front of a database thread."""

    @property
    def waiting(self) -> int:
        """Return the number of transactions that wait."""

    @property
    def batches(self) -> Sequence[int]:
        """Return the numbers of batches with up to 1, 2, 4, ... transactions; the last is unbounded."""

    @property
    def transactions(self) -> int:
        """Return the number of transactions in all batches."""


class Gauges(Struct, frozen=True, eq=False):
    """The functions and objects that are read at each scrape."""

    queues: Mapping[str, QueueStatistics]
    long_polls: Mapping[str, Callable[[], int]]
    wal_bytes: Callable[[], Mapping[str, int]]
    exports: Callable[[], int]
    connections: Callable[[], int]
    refused: Callable[[], Mapping[str, int]]
    """Connections that were not accepted, by the limit."""


class Metrics:
    """The text of `/metrics`, from a registry of its own: what libraries add to the default one does not appear."""

    def __init__(self, counters: Counters, gauges: Gauges) -> None:
        self._registry = CollectorRegistry()
        build = Info("gamed_build", "Versions; always 1.", registry=self._registry)
        build.info({"version": __version__, "python": python_version(), "sqlite": sqlite3.sqlite_version})
        for collector in (*counters.collectors, _ReadAtScrape(counters.limit_hits, gauges), _Process()):
            self._registry.register(collector)

    def text(self) -> bytes:
        """Return the metrics as they are now."""
        return generate_latest(self._registry)


class _ReadAtScrape(Collector):
    def __init__(self, limit_hits: Counter, gauges: Gauges) -> None:
        self._limit_hits = limit_hits
        self._gauges = gauges

    def collect(self) -> Iterator[Metric]:
        gauges = self._gauges
        for family in self._limit_hits.collect():
            for kind, count in gauges.refused().items():
                family.add_sample(f"{family.name}_total", {"kind": kind, "route": UNKNOWN}, count)
            yield family
        polls = {kind: count() for kind, count in gauges.long_polls.items()}
        yield _gauge("long_polls", "Requests that wait for a change.", "kind", polls)
        lengths = {name: queue.waiting for name, queue in gauges.queues.items()}
        yield _gauge("database_queue_length", "Transactions that wait for a database thread.", "queue", lengths)
        yield _batch_sizes(gauges.queues)
        yield _gauge("wal_bytes", "Size of a database's write-ahead log.", "store", gauges.wal_bytes())
        yield GaugeMetricFamily("gamed_exports_running", "Exports in progress.", value=gauges.exports())
        yield GaugeMetricFamily("gamed_connections", "Open connections.", value=gauges.connections())


class _Process(Collector):
    """What prometheus_client's ProcessCollector reports, without /proc/stat: a unit with ProcSubset=pid hides it."""

    def __init__(self) -> None:
        self._started = time.time() - time.process_time()

    def collect(self) -> Iterator[Metric]:
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
        for name, text, number in (
            ("resident_memory_bytes", "Memory in use.", pages * os.sysconf("SC_PAGE_SIZE")),
            ("open_fds", "Open file descriptors.", len(os.listdir("/proc/self/fd")) - 1),
            ("max_fds", "Limit of open file descriptors.", getrlimit(RLIMIT_NOFILE)[0]),
            ("start_time_seconds", "When the process started.", self._started),
        ):
            yield GaugeMetricFamily(f"process_{name}", text, value=number)
        yield CounterMetricFamily("process_cpu_seconds", "Processor time.", value=time.process_time())


def _counter(name: str, text: str, *labels: str) -> Counter:
    return Counter(f"gamed_{name}", text, labels, registry=None)


def _histogram(name: str, text: str, label: str) -> Histogram:
    return Histogram(f"gamed_{name}", text, (label,), buckets=BUCKETS, registry=None)


def _gauge(name: str, text: str, label: str, numbers: Mapping[str, int]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(f"gamed_{name}", text, labels=(label,))
    for value, number in numbers.items():
        family.add_metric((value,), number)
    return family


def _batch_sizes(queues: Mapping[str, QueueStatistics]) -> HistogramMetricFamily:
    text = "Transactions that were committed together."
    family = HistogramMetricFamily("gamed_database_batch_size", text, labels=("queue",))
    for name, queue in queues.items():
        bounds = [*(str(2.0**step) for step in range(len(queue.batches) - 1)), "+Inf"]
        family.add_metric((name,), list(zip(bounds, accumulate(queue.batches), strict=True)), queue.transactions)
    return family
