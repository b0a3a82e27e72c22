"""The metrics module counts what has ended, reads gauges at each scrape, and writes both in Prometheus's text format.

No label holds a player, a slot, a session, an address or text that a client chose. Importing prometheus_client takes
about 12 ms, so only a service with `--admin` imports this module.
"""

import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from platform import python_version
from resource import RLIMIT_NOFILE, getrlimit
from typing import Final

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
from gamed.database.queues import DatabaseQueue
from gamed.outcomes import LoginFailure

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST
BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper bounds in seconds. Most requests end in the first bucket, where observe() stops; the last is for long polls."""
LIMIT_CODES: Final = frozenset(
    {"rate_limited", "busy", "body_too_large", "head_too_large"}
    | {"save_too_large", "quota_exceeded", "too_many_slots", "storage_full"}
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
SECONDS_TEXT = "Seconds from head to end of response."
# Without this, each counter brings a second series with the time of its first use.
disable_created_metrics()  # type: ignore[no-untyped-call]


class Counters:
    """The counters and histograms of one service.

    `provider_names` are those of the configuration; any other provider counts as `-`.
    """

    def __init__(self, provider_names: Collection[str]) -> None:
        self._provider_names = frozenset(provider_names)
        self._requests = _histogram("request_seconds", SECONDS_TEXT, "route", "method", "status")
        self._problems = _counter("problems", "Problems answered, by code.", "code")
        self.limit_hits = _counter("limit_hits", "Requests and connections rejected by a limit.", "kind", "route")
        self._save_bytes = _counter("save_bytes", "Bytes of bodies under /game/.", "direction")
        self._logins = _counter("logins", "Sign-ins that ended, by outcome.", "provider", "outcome")
        self._sessions = _counter("sessions", "Sessions created, refreshed and ended.", "event")
        self._security_events = _counter("security_events", "Security events in the log.", "event")
        self._calls = _counter("provider_calls", "Requests to providers.", "provider", "outcome")
        self._call_seconds = _histogram("provider_call_seconds", "Seconds that they took.", "provider")
        self._received, self._sent = self._save_bytes.labels("in"), self._save_bytes.labels("out")
        self._series: dict[tuple[str, str, int], Histogram] = {}
        """By route, method and status: labels() takes about 2 us, which an ordinary request should not cost."""

    @property
    def collectors(self) -> Sequence[Collector]:
        """Return everything but `limit_hits`."""
        requests = (_Requests(self._requests), self._problems, self._save_bytes)
        return *requests, self._logins, self._sessions, self._security_events, self._calls, self._call_seconds

    def record_request(  # noqa: PLR0917
        self, template: str, method: str, status: int, seconds: float, size: int, received: int, code: str
    ) -> None:
        """Count a request that has ended; see gamed.http.access_log.Count."""
        series = self._series.get((template, method, status))
        if series is None:
            series = self._requests.labels(template, method, f"{status // 100}xx")
            self._series[template, method, status] = series
        series.observe(seconds)
        if code:
            self._problems.labels(code).inc()
        if code in LIMIT_CODES or status == 429:
            self.limit_hits.labels(code or "rate_limited", template).inc()
        if template.startswith("/game/"):
            if received:
                self._received.inc(received)
            if size:
                self._sent.inc(size)
        elif status == 200 and template == "/auth/session/refresh":
            self._sessions.labels("refreshed").inc()

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


class Gauges(Struct, frozen=True, eq=False):
    """The functions and objects that are read at each scrape."""

    queues: Mapping[str, DatabaseQueue]
    long_polls: Mapping[str, Callable[[], int]]
    wal_bytes: Callable[[], Mapping[str, int]]
    exports: Callable[[], int]
    connections: Callable[[], int]
    refused: Callable[[], Mapping[str, int]]
    """Connections that were not accepted, by the limit."""


class Metrics:
    """The text of `/metrics`, from a registry of its own: what libraries add to the default one does not appear."""

    def __init__(self, counters: Counters, gauges: Gauges, engine: Mapping[str, str]) -> None:
        """Show the version of the databases' engine by its name."""
        self._registry = CollectorRegistry()
        build = Info("gamed_build", "Versions; always 1.", registry=self._registry)
        build.info({"version": __version__, "python": python_version(), **engine})
        for collector in (*counters.collectors, _Gauges(counters.limit_hits, gauges), _Process()):
            self._registry.register(collector)

    def text(self) -> bytes:
        return generate_latest(self._registry)


class _Requests(Collector):
    """The requests and their seconds, both from one histogram, so that a request updates only that."""

    def __init__(self, histogram: Histogram) -> None:
        self._histogram = histogram

    def collect(self) -> Iterator[Metric]:
        requests = CounterMetricFamily("gamed_requests", "Requests answered.", labels=("route", "method", "status"))
        totals: dict[tuple[str, str, str | None], float] = {}
        for sample in (sample for family in self._histogram.collect() for sample in family.samples):
            labels = sample.labels
            if sample.name.endswith("_count"):
                requests.add_metric((labels["route"], labels["method"], labels["status"]), sample.value)
            key = sample.name, labels["route"], labels.get("le")
            totals[key] = totals.get(key, 0.0) + sample.value
        seconds = Metric("gamed_request_seconds", SECONDS_TEXT, "histogram")
        for (name, route, bound), total in totals.items():
            seconds.add_sample(name, {"route": route, **({} if bound is None else {"le": bound})}, total)
        yield requests
        yield seconds


class _Gauges(Collector):
    """Values that are read at each scrape; rejected connections belong to the family of `limit_hits`."""

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
    """The values of prometheus_client's ProcessCollector, without /proc/stat: a unit with ProcSubset=pid hides it."""

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


def _histogram(name: str, text: str, *labels: str) -> Histogram:
    return Histogram(f"gamed_{name}", text, labels, buckets=BUCKETS, registry=None)


def _gauge(name: str, text: str, label: str, numbers: Mapping[str, int]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(f"gamed_{name}", text, labels=(label,))
    for value, number in numbers.items():
        family.add_metric((value,), number)
    return family


def _batch_sizes(queues: Mapping[str, DatabaseQueue]) -> HistogramMetricFamily:
    text = "Transactions that were committed together."
    family = HistogramMetricFamily("gamed_database_batch_size", text, labels=("queue",))
    for name, queue in queues.items():
        bounds = [*(str(2.0**step) for step in range(len(queue.batches) - 1)), "+Inf"]
        family.add_metric((name,), list(zip(bounds, accumulate(queue.batches), strict=True)), queue.transactions)
    return family
