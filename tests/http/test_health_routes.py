"""GET /healthz, GET /auth/config and GET /auth/providers report health and configuration.

See docs/protocol.md: Conventions, Signing in; SPEC 2.4.
"""

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from gamed.database.errors import DatabaseUnavailable
from gamed.http.health_routes import PublicRoutes
from tests.support.http import Browser


class Stores:
    """A fake health check of the databases that answers when the test says so."""

    def __init__(self) -> None:
        self.checks: list[Deferred[None]] = []

    def check(self) -> Deferred[None]:
        self.checks.append(Deferred())
        return self.checks[-1]


class PolicyCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.stores = Stores()
        self.browser = Browser(
            [
                PublicRoutes(
                    mode="oauth",
                    labels={"zeta": "Zeta", "alpha": "Ålpha & Söhne"},
                    instance="0a1b2c3d",
                    store="00112233445566ff",
                    databases=self.stores,
                )
            ]
        )


class HealthTests(PolicyCase):
    def test_well(self) -> None:
        """A healthy service answers 200 `ok`, not cached, with its instance and its store."""
        call = self.browser.send("GET", "/healthz")
        self.stores.checks[0].callback(None)
        answer = call.answer
        self.assertEqual((answer.status, answer.body, answer.headers["content-type"]), (200, b"ok", "text/plain"))
        self.assertEqual((answer.headers["cache-control"], answer.headers["gamed-instance"]), ("no-store", "0a1b2c3d"))
        self.assertEqual(answer.headers["gamed-store"], "00112233445566ff")

    def test_not_well(self) -> None:
        """An unhealthy service answers 503 without the reason, and 200 once the databases answer."""
        call = self.browser.send("GET", "/healthz")
        self.stores.checks[0].errback(DatabaseUnavailable("disk /dev/x"))
        answer = call.answer
        self.assertEqual((answer.status, answer.code, answer.headers["retry-after"]), (503, "unhealthy", "5"))
        self.assertEqual((answer.headers["cache-control"], answer.headers["gamed-instance"]), ("no-store", "0a1b2c3d"))
        self.assertEqual(answer.headers["gamed-store"], "00112233445566ff")
        self.assertNotIn(b"disk", answer.body)
        call = self.browser.send("GET", "/healthz")
        self.stores.checks[1].callback(None)
        self.assertEqual(call.answer.status, 200)


class ConfigTests(PolicyCase):
    def test_exactly_two_members(self) -> None:
        """The configuration has mode and providers in the order of the file."""
        self.assertEqual(self.browser.get("/auth/config").body, b'{"mode":"oauth","providers":["zeta","alpha"]}')

    def test_local_mode(self) -> None:
        """Local mode has an empty list of providers."""
        browser = Browser(
            [
                PublicRoutes(
                    mode="local", labels={}, instance="0a1b2c3d", store="00112233445566ff", databases=self.stores
                )
            ]
        )
        self.assertEqual(browser.get("/auth/config").body, b'{"mode":"local","providers":[]}')


class ProviderTests(PolicyCase):
    def test_labels(self) -> None:
        """Each provider has its name and the owner's label, in the order of the file; nothing is cached."""
        answer = self.browser.get("/auth/providers")
        expected = [{"name": "zeta", "label": "Zeta"}, {"name": "alpha", "label": "Ålpha & Söhne"}]
        self.assertEqual((answer.status, answer.json), (200, {"providers": expected}))
        self.assertEqual(answer.headers["cache-control"], "no-store")

    def test_local_mode(self) -> None:
        """Local mode has an empty list of providers."""
        browser = Browser(
            [
                PublicRoutes(
                    mode="local", labels={}, instance="0a1b2c3d", store="00112233445566ff", databases=self.stores
                )
            ]
        )
        self.assertEqual(browser.get("/auth/providers").body, b'{"providers":[]}')
