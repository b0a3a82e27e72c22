"""An OpenID 2.0 provider: where the browser is sent, what the provider is asked, and whose account an assertion is."""

from urllib.parse import parse_qsl, urlencode, urlsplit

from twisted.trial.unittest import SynchronousTestCase

from gamed import __version__
from gamed.config.providers import PRESETS
from gamed.crypto import Secret
from gamed.providers.base import AuthorizationUrl, ExternalIdentity, ProviderError
from gamed.providers.openid2 import parse_key_values, validate_time
from tests.config.fixtures import OAUTH, changed, load_config
from tests.providers.fake_provider import PUBLIC_URL, START_MS, ProviderFixture, started
from tests.providers.fake_steam import ACCOUNT, CHECK, ENDPOINT, NAMESPACE, FakeSteam

RETURN_TO = f"{PUBLIC_URL}/auth/steam/callback?state={'s' * 43}"


class SteamCase(SynchronousTestCase):
    def setUp(self) -> None:
        settings = load_config(changed(OAUTH, providers={"steam": {}})).config.providers["steam"]
        self.fake = FakeSteam(lambda: START_MS)
        self.fixture = ProviderFixture(self.fake, settings)

    def assertion(self, return_to: str = RETURN_TO) -> str:
        fields = {f"openid.{name}": value for name, value in self.fake.fields(return_to).items()}
        return urlencode({"state": "s" * 43, **fields})

    def identify(self, assertion: str) -> ExternalIdentity:
        found: ExternalIdentity = self.successResultOf(started(self.fixture.identify(assertion, None)))
        return found


class GoodPathTests(SteamCase):
    def test_destination(self) -> None:
        """The browser is sent to Steam with exactly these parameters: no client id, and a return with our state."""
        url: AuthorizationUrl = self.successResultOf(started(self.fixture.go(None)))
        parts = urlsplit(url.url)
        self.assertEqual(parts._replace(query="").geturl(), ENDPOINT)
        self.assertEqual(
            dict(parse_qsl(parts.query, strict_parsing=True)),
            {
                "openid.ns": NAMESPACE,
                "openid.mode": "checkid_setup",
                "openid.claimed_id": f"{NAMESPACE}/identifier_select",
                "openid.identity": f"{NAMESPACE}/identifier_select",
                "openid.return_to": RETURN_TO,
                "openid.realm": f"{PUBLIC_URL}/",
            },
        )
        self.assertFalse(url.iss_promised)

    def test_identity(self) -> None:
        """An assertion is the account's number, below what all claimed ids begin with."""
        expected = ExternalIdentity("openid2", "https://steamcommunity.com/openid/id/", ACCOUNT)
        self.assertEqual(self.identify(self.assertion()), expected)

    def test_sent(self) -> None:
        """Steam gets the fields back unchanged but for the mode, in a body, and nothing else."""
        assertion = self.assertion()
        self.identify(assertion)
        [check] = self.fake.seen
        sent = dict(parse_qsl(assertion))
        del sent["state"]
        self.assertEqual((check.method, check.url), ("POST", ENDPOINT))
        self.assertEqual(check.form, {**sent, "openid.mode": "check_authentication"})
        self.assertEqual(check.headers["user-agent"], [f"gamed/{__version__}"])
        self.assertNotIn("authorization", check.headers)

    def test_once(self) -> None:
        """An assertion that Steam has confirmed before is refused."""
        assertion = self.assertion()
        self.identify(assertion)
        self.failureResultOf(started(self.fixture.identify(assertion, None)), ProviderError)

    def test_nothing_is_shown(self) -> None:
        """Neither the request nor its repr has the assertion in a text."""
        assertion = self.assertion()
        self.fake.account = "7"
        failure = self.failureResultOf(started(self.fixture.identify(self.assertion(), None)), ProviderError)
        self.assertNotIn("steamcommunity", str(failure.value))
        self.assertNotIn(ACCOUNT, repr(Secret(assertion.encode())))
        self.assertEqual(self.fake.calls(CHECK), [])


class PartTests(SynchronousTestCase):
    def test_key_values(self) -> None:
        """Lines of a name, a colon and a value; a colon in the value is the value's."""
        self.assertEqual(parse_key_values(b"ns:http://x\nis_valid:true"), {"ns": "http://x", "is_valid": "true"})
        for body in (b"", b"\n", b"ns", b":x\n", b"ns:x\n\nis_valid:true\n", b"ns:x\nns:x\n", b" ns:x\n", b"NS:x\n"):
            self.assertRaises(ValueError, parse_key_values, body)

    def test_times(self) -> None:
        """Five minutes to both sides, by the calendar and not by the form alone."""
        for nonce in ("2027-01-15T07:55:00Zx", "2027-01-15T08:05:00Zx"):
            validate_time(nonce, START_MS, None)
        for nonce in (
            "2027-01-15T07:54:59Zx",
            "2027-01-15T08:05:01Zx",
            "2027-02-30T08:00:00Zx",
            "2027-13-01T08:00:00Zx",
        ):
            self.assertRaises(ProviderError, validate_time, nonce, START_MS, None)

    def test_no_other_preset(self) -> None:
        """Steam alone needs no registration."""
        self.assertEqual([name for name, preset in PRESETS.items() if preset.claimed_ids], ["steam"])
