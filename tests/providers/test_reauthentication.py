"""A provider is made to ask a player again who is signed in there, and the ID token proves it (OIDC Core 3.1.2.1)."""

from urllib.parse import parse_qs, urlsplit

from twisted.trial.unittest import SynchronousTestCase

from gamed.config.model import Reauthentication
from gamed.providers.base import ProviderError
from tests.providers.fake_provider import ProviderFixture, discord, generic, github, openid, started

OFFERED: dict[str, object] = {"claims_supported": ["sub", "auth_time"]}
GOOGLE = "https://accounts.google.com"
APPLE = "https://appleid.apple.com"
MICROSOFT = "https://login.microsoftonline.com"
TWITCH = "https://id.twitch.tv/oauth2"


def set_to(kind: Reauthentication) -> ProviderFixture:
    return openid(reauthentication=kind)


class AskingTests(SynchronousTestCase):
    def asked(self, fixture: ProviderFixture, *, ask_again: bool = True) -> dict[str, list[str]]:
        """Return `prompt` and `max_age` of the authorization URL."""
        url = self.successResultOf(fixture.go(ask_again=ask_again)).url
        found = parse_qs(urlsplit(url).query)
        return {name: found[name] for name in ("prompt", "max_age") if name in found}

    def test_by_metadata(self) -> None:
        """A provider whose ID tokens say when it asked is sent max_age; another one only a prompt."""
        fixture = openid()
        self.assertEqual(self.asked(fixture), {"prompt": ["login"]})
        fixture = openid()
        fixture.fake.metadata |= OFFERED  # type: ignore[attr-defined]
        self.assertEqual(self.asked(fixture), {"max_age": ["0"]})
        self.assertEqual(self.asked(fixture, ask_again=False), {})

    def test_by_setting(self) -> None:
        """The owner's setting counts more than the metadata."""
        self.assertEqual(self.asked(set_to(Reauthentication.AUTH_TIME)), {"max_age": ["0"]})
        fixture = set_to(Reauthentication.NONE)
        fixture.fake.metadata |= OFFERED  # type: ignore[attr-defined]
        self.assertEqual(self.asked(fixture), {})

    def test_presets(self) -> None:
        """Google, Discord and GitHub cannot be asked again; their own prompt stays."""
        google = openid("google", GOOGLE)
        google.fake.metadata |= OFFERED  # type: ignore[attr-defined]
        for fixture, prompt in ((google, "select_account"), (discord(), "consent"), (github(), "select_account")):
            for ask_again in (True, False):
                self.assertEqual(self.asked(fixture, ask_again=ask_again), {"prompt": [prompt]})
        self.assertEqual(self.asked(generic()), {})
        for name, issuer in (("twitch", TWITCH), ("apple", APPLE)):
            fixture = openid(name, issuer)
            fixture.fake.metadata |= OFFERED  # type: ignore[attr-defined]
            self.assertEqual(self.asked(fixture), {}, name)
        microsoft = openid("microsoft", f"{MICROSOFT}/common/v2.0")
        microsoft.fake.metadata |= OFFERED | {"issuer": f"{MICROSOFT}/{{tenantid}}/v2.0"}  # type: ignore[attr-defined]
        self.assertEqual(self.asked(microsoft), {"prompt": ["login"]})
        self.assertEqual(self.asked(microsoft, ask_again=False), {"prompt": ["select_account"]})


class ProofTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.fixture = openid()
        self.fixture.fake.metadata |= OFFERED  # type: ignore[attr-defined]
        self.asked_ms = self.fixture.now_ms()

    def identify(self, **claims: object) -> bool:
        """Return whether the identity was asked again; raise what the provider's client raises."""
        self.fixture.fake.claims |= claims  # type: ignore[attr-defined]
        waiting = started(self.fixture.identify(asked_ms=self.asked_ms))
        failures: list[BaseException] = []
        found: list[bool] = []
        waiting.addCallbacks(
            lambda identity: found.append(identity.asked_again), lambda reason: failures.append(reason.value)
        )
        if failures:
            raise failures[0]
        return found[0]

    def test_proved(self) -> None:
        """A player who has signed in since is asked again; two clocks may differ by two minutes."""
        for seconds in (-120, 0, 60):
            self.assertTrue(self.identify(auth_time=self.asked_ms // 1000 + seconds))

    def test_not_proved(self) -> None:
        """An older sign-in, none, or one that is no time is refused."""
        for auth_time in (self.asked_ms // 1000 - 121, 0, None, "now", True, -1, [self.asked_ms], 2**60):
            self.assertRaises(ProviderError, self.identify, auth_time=auth_time)
        del self.fixture.fake.claims["auth_time"]  # type: ignore[attr-defined]
        self.assertRaises(ProviderError, self.identify)

    def test_another_clock(self) -> None:
        """The provider's clock decides: a machine whose clock is ahead refuses nothing that is right."""
        late_ms = 100_000
        fixture = openid(late_ms=late_ms)
        fixture.fake.metadata |= OFFERED  # type: ignore[attr-defined]
        fixture.fake.clock_ms = lambda: fixture.now_ms() - late_ms
        provider_seconds = (fixture.now_ms() - late_ms) // 1000
        for auth_time, right in ((provider_seconds - 119, True), (provider_seconds - 122, False)):
            fixture.fake.claims |= {"auth_time": auth_time}  # type: ignore[attr-defined]
            waiting = started(fixture.identify(asked_ms=fixture.now_ms()))
            if right:
                self.assertTrue(self.successResultOf(waiting).asked_again)
            else:
                self.failureResultOf(waiting, ProviderError)

    def test_no_proof(self) -> None:
        """Where nothing can prove it, the sign-in counts as before, and is not called asked again."""
        for fixture in (openid(), set_to(Reauthentication.PROMPT), set_to(Reauthentication.NONE), discord()):
            identity = self.successResultOf(started(fixture.identify(asked_ms=self.asked_ms)))
            self.assertFalse(identity.asked_again)

    def test_not_wanted(self) -> None:
        """A sign-in for a game does not ask, and needs no auth_time."""
        self.assertFalse(self.successResultOf(started(self.fixture.identify())).asked_again)
