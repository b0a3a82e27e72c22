"""The metrics count requests and security events, and have no label with text of a client."""

from itertools import pairwise

from prometheus_client.parser import text_string_to_metric_families
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from gamed.audit import SecurityEvent
from gamed.http.access_log import AccessLog, EndedRequest
from gamed.ops.logging import LoggedSignInFailures, TwistedAuditLog
from gamed.ops.metrics import Counters, CountingAuditLog, Gauges, Metrics
from gamed.outcomes import LoginFailure
from tests.http.apps import EchoRoutes
from tests.support.covers import covers
from tests.support.databases import ask, memory_databases
from tests.support.http import Browser


def gauges(**queues: object) -> Gauges:
    """Return gauges with fixed values, and the queues that are passed."""
    return Gauges(
        queues,  # type: ignore[arg-type]
        {"login": lambda: 3, "saves": lambda: 0},
        lambda: {"auth": 4096},
        lambda: 1,
        lambda: 7,
        lambda: {"connections": 2},
    )


ENGINE = {"sqlite": "3.45.1"}


class MetricsTestCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.counters = Counters(["discord", "local"])

    def samples(self, wanted: Gauges | None = None) -> dict[str, dict[tuple[str, ...], float]]:
        """Values by name, and by the values of the labels in the order of their names."""
        found: dict[str, dict[tuple[str, ...], float]] = {}
        text = Metrics(self.counters, wanted or gauges(), ENGINE).text().decode()
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                labels = tuple(value for _, value in sorted(sample.labels.items()))
                found.setdefault(sample.name, {})[labels] = sample.value
        return found


class RequestTests(MetricsTestCase):
    def log(self) -> AccessLog:
        return AccessLog(str, Clock(), lambda: 0, count=self.counters.record_request)  # type: ignore[arg-type]

    def line(
        self, method: str = "GET", template: str = "/game/saves/{slot}", status: int = 200, code: str = ""
    ) -> None:
        self.log().log(
            EndedRequest(
                request_id="5f0c",
                method=method,
                template=template,
                status=status,
                size=10,
                seconds=0.004,
                received=500,
                code=code,
            )
        )

    def test_counted(self) -> None:
        """By route, method and class of the status; with how long they took and how much they moved."""
        self.line()
        self.line()
        self.line("PUT", status=412, code="version_conflict")
        samples = self.samples()
        self.assertEqual(
            samples["gamed_requests_total"],
            {("GET", "/game/saves/{slot}", "2xx"): 2, ("PUT", "/game/saves/{slot}", "4xx"): 1},
        )
        self.assertEqual(samples["gamed_request_seconds_count"], {("/game/saves/{slot}",): 3})
        self.assertAlmostEqual(samples["gamed_request_seconds_sum"]["/game/saves/{slot}",], 0.012)
        self.assertEqual(samples["gamed_save_bytes_total"], {("in",): 1500, ("out",): 30})
        self.assertEqual(samples["gamed_problems_total"], {("version_conflict",): 1})

    def test_buckets(self) -> None:
        """Each holds all that are smaller; the last holds all."""
        self.line()
        buckets = self.samples()["gamed_request_seconds_bucket"]
        counts = [count for _, count in sorted(buckets.items(), key=lambda pair: float(pair[0][0]))]
        self.assertTrue(all(one <= other for one, other in pairwise(counts)))
        self.assertEqual((buckets["0.0025", "/game/saves/{slot}"], buckets["0.005", "/game/saves/{slot}"]), (0, 1))
        self.assertEqual(buckets["+Inf", "/game/saves/{slot}"], 1)

    def test_limits(self) -> None:
        """Count refusals of a limit by kind and route, also those shown as a page."""
        self.line("PUT", status=413, code="quota_exceeded")
        self.line("POST", "/auth/login/{token}/local", 429)
        self.line(status=404, code="save_not_found")
        self.assertEqual(
            self.samples()["gamed_limit_hits_total"],
            {
                ("quota_exceeded", "/game/saves/{slot}"): 1,
                ("rate_limited", "/auth/login/{token}/local"): 1,
                ("connections", "-"): 2,
            },
        )

    def test_codes_of_one_status(self) -> None:
        """Requests that differ only in their problem code count in the same series, and in one for each code."""
        for code in ("save_too_large", "quota_exceeded", "quota_exceeded"):
            self.line("PUT", status=413, code=code)
        samples = self.samples()
        self.assertEqual(samples["gamed_requests_total"], {("PUT", "/game/saves/{slot}", "4xx"): 3})
        self.assertEqual(samples["gamed_problems_total"], {("save_too_large",): 1, ("quota_exceeded",): 2})

    def test_two_services(self) -> None:
        """A second service in the process has counters of its own."""
        first, self.counters = self.counters, Counters([])
        self.line()
        self.assertEqual(len(self.samples()["gamed_requests_total"]), 1)
        self.counters = first
        self.assertNotIn("gamed_requests_total", self.samples())

    def test_refreshed(self) -> None:
        """Only those that got something."""
        for status in (200, 200, 401):
            self.line("POST", "/auth/session/refresh", status)
        self.assertEqual(self.samples()["gamed_sessions_total"], {("refreshed",): 2})

    @covers("threats/35")
    def test_nothing_of_a_clients(self) -> None:
        """Over the wire: an unknown route and an invented method are `-`, a slot is its place in the route."""
        browser = Browser([EchoRoutes()])
        browser.site.site.access_log = self.log()
        for method, path in (("GET", "/S3cret/x?S3cret"), ("S3CRET", "/echo/json"), ("GET", "/game/S3cret")):
            browser.request(method, path, {"Host": "S3cret.example"} if method == "GET" else {})
        text = Metrics(self.counters, gauges(), ENGINE).text().decode()
        self.assertNotIn("s3cret", text.lower())
        self.assertEqual(sum(self.samples()["gamed_requests_total"].values()), 3)


class SecurityTests(MetricsTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.lines: list[str] = []
        self.audit = CountingAuditLog(TwistedAuditLog(self.lines.append), self.counters)

    def test_sign_ins(self) -> None:
        """By provider and outcome, wherever they ended; the log has its line as before."""
        words = {"player": "ply_1", "session": "ses_1", "created": "yes"}
        self.audit.record(SecurityEvent.SIGN_IN, provider="discord", **words)
        self.audit.record(SecurityEvent.SIGN_IN_REFUSED, provider="local", outcome="wrong_password", request="5f0c")
        LoggedSignInFailures(self.counters).sign_in_failed("discord", LoginFailure.PROVIDER_ERROR, "no JSON", "5f0c")
        samples = self.samples()
        self.assertEqual(
            samples["gamed_logins_total"],
            {("signed_in", "discord"): 1, ("wrong_password", "local"): 1, ("provider_error", "discord"): 1},
        )
        self.assertEqual(samples["gamed_sessions_total"], {("created",): 1})
        self.assertEqual(len(self.lines), 2)
        self.flushLoggedErrors()

    def test_sessions(self) -> None:
        """How they ended: by the player, by the owner's command, or because a credential was stolen."""
        self.audit.record(SecurityEvent.SIGNED_OUT, player="ply_1", scope="all")
        self.audit.record(SecurityEvent.REFRESH_REUSED, player="ply_1", session="ses_1")
        self.audit.record(SecurityEvent.SESSION_REVOKED, player="ply_1", session="ses_2")
        self.audit.record(SecurityEvent.COMMAND, command="sessions revoke", player="ply_1", by="uid:0", at="now")
        self.audit.record(SecurityEvent.COMMAND, command="players note", player="ply_1", by="uid:0", at="now")
        samples = self.samples()
        self.assertEqual(samples["gamed_sessions_total"], {("signed_out",): 1, ("reused",): 1, ("revoked",): 2})
        self.assertEqual(samples["gamed_security_events_total"]["command",], 2)

    @covers("threats/35")
    def test_nobody_is_named(self) -> None:
        """Players, sessions and providers that are not configured are no labels."""
        self.audit.record(SecurityEvent.SIGN_IN_REFUSED, player="ply_S3cret", provider="S3cret", outcome="login_denied")
        self.audit.record(SecurityEvent.CALLBACK_REJECTED, provider="discord", check="iss", request="5f0c")
        samples = self.samples()
        self.assertEqual(samples["gamed_logins_total"], {("login_denied", "-"): 1})
        self.assertEqual(samples["gamed_security_events_total"]["callback_rejected",], 1)
        self.assertNotIn(b"S3cret", Metrics(self.counters, gauges(), ENGINE).text())


class GaugeTests(MetricsTestCase):
    def test_looked_at_when_asked(self) -> None:
        """Waiters, connections, exports and logs as they stand now."""
        samples = self.samples()
        self.assertEqual(samples["gamed_long_polls"], {("login",): 3, ("saves",): 0})
        self.assertEqual(samples["gamed_wal_bytes"], {("auth",): 4096})
        self.assertEqual((samples["gamed_exports_running"][()], samples["gamed_connections"][()]), (1, 7))
        self.assertEqual(list(samples["gamed_build_info"].values()), [1])

    def test_queues(self) -> None:
        """Each database queue has its length now, and the number of transactions per batch."""
        stores = memory_databases(self)
        stores.reads.pause()
        for _ in range(3):
            stores.reads.submit(ask("SELECT 1"))
        waiting = self.samples(gauges(**stores.queues))
        self.assertEqual(
            waiting["gamed_database_queue_length"], {("auth",): 0, ("blob",): 0, ("read",): 3, ("state",): 0}
        )
        stores.reads.resume()
        done = self.samples(gauges(**stores.queues))
        self.assertEqual(done["gamed_database_queue_length"]["read",], 0)
        self.assertEqual(
            [done["gamed_database_batch_size_bucket"][bound, "read"] for bound in ("1.0", "2.0", "4.0", "64.0")],
            [0, 0, 1, 1],
        )
        self.assertEqual(done["gamed_database_batch_size_sum"]["read",], 3)
