"""OpenID Connect providers: discovery, keys, tokens, and what becomes of them when a provider misbehaves."""

from typing import Any
from urllib.parse import parse_qsl, urlsplit

from joserfc.jwk import ECKey, RSAKey
from msgspec.structs import replace
from twisted.trial.unittest import SynchronousTestCase

from gamed import __version__
from gamed.crypto import Secret
from gamed.providers.base import (
    ExternalIdentity,
    ProviderError,
    ProviderFailure,
    ProviderMisconfigured,
    ProviderUnavailable,
    ServerClockSkew,
)
from gamed.providers.client import TIMEOUT_SECONDS
from gamed.providers.document_cache import FRESH_SECONDS, REST_SECONDS, STALE_SECONDS
from gamed.providers.messages import challenge_of
from tests.providers.fake_provider import (
    CLIENT_SECRET,
    ISSUER,
    NONCE,
    PUBLIC_URL,
    START_MS,
    VERIFIER,
    ProviderFixture,
    Reply,
    openid,
    started,
)
from tests.providers.signing import ES, RSA, RSA_NEW, claims_of
from tests.support.covers import covers

DISCOVERY = "/.well-known/openid-configuration"
KEYS = "/keys"
TOKEN = "/token"
GOOGLE = "https://accounts.google.com"
MICROSOFT, PERSONAL = "https://login.microsoftonline.com", "9188040d-6c67-4c5b-b112-36a304b66dad"


class OidcCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.fixture = openid()
        self.fake: Any = self.fixture.fake

    def identity(self) -> ExternalIdentity:
        self.fake.claims |= {"iat": self.fixture.now_ms() // 1000, "exp": self.fixture.now_ms() // 1000 + 300}
        identity = self.successResultOf(self.fixture.identify())
        assert isinstance(identity, ExternalIdentity)
        return identity

    def failure(self) -> ProviderFailure:
        failed = self.failureResultOf(started(self.fixture.identify()), ProviderFailure)
        assert isinstance(failed.value, ProviderFailure)
        return failed.value

    def count(self, path: str) -> int:
        return len(self.fake.calls(path))


class GoodPathTests(OidcCase):
    def test_destination(self) -> None:
        """The browser goes where discovery says, with exactly these parameters and the endpoint's own."""
        self.fake.metadata["authorization_response_iss_parameter_supported"] = True
        destination = self.successResultOf(self.fixture.go())
        parts = urlsplit(destination.url)
        self.assertEqual(parts._replace(query="").geturl(), f"{ISSUER}/authorize")
        query = parse_qsl(parts.query, strict_parsing=True)
        self.assertEqual(
            sorted(query),
            sorted(
                {
                    "tenant": "7",
                    "response_type": "code",
                    "client_id": "client:7",
                    "redirect_uri": f"{PUBLIC_URL}/auth/idp/callback",
                    "scope": "openid",
                    "state": "s" * 43,
                    "nonce": NONCE,
                    "code_challenge": challenge_of(VERIFIER),
                    "code_challenge_method": "S256",
                }.items()
            ),
        )
        self.assertTrue(destination.iss_promised)

    def test_identity(self) -> None:
        """The subject of the ID token, in the namespace of the configured issuer; the journey needs a nonce."""
        self.assertEqual(self.identity(), ExternalIdentity("oidc", ISSUER, "player-7"))
        self.assertTrue(self.fixture.provider.uses_nonce)
        self.assertEqual(self.fixture.provider.issuer_for(None), ISSUER)

    @covers("1/16", "5/16")
    def test_what_is_sent(self) -> None:
        """Code, verifier and secret to the token endpoint only, each once; documents are asked for with nothing."""
        self.identity()
        discovery, token, keys = self.fake.seen
        self.assertEqual([call.path for call in self.fake.seen], [DISCOVERY, TOKEN, KEYS])
        redirect_uri = f"{PUBLIC_URL}/auth/idp/callback"
        form = {"grant_type": "authorization_code", "code": "code-7", "redirect_uri": redirect_uri}
        self.assertEqual(token.form, {**form, "code_verifier": "v" * 86})
        self.assertEqual(token.basic, "client%3A7:s%3Ae+c%25ret%2B%2F%3D")
        for call in (discovery, keys):
            self.assertEqual((call.method, call.body, call.headers.get("authorization")), ("GET", b"", None))
        for call in self.fake.seen:
            self.assertEqual(call.headers["user-agent"], [f"gamed/{__version__}"])
            self.assertNotIn("?", call.url)

    def test_secret_in_the_form(self) -> None:
        """Where discovery offers client_secret_post only, id and secret are in the form instead."""
        self.fake.metadata["token_endpoint_auth_methods_supported"] = ["client_secret_post"]
        self.identity()
        [token] = self.fake.calls(TOKEN)
        self.assertEqual((token.form["client_id"], token.form["client_secret"]), ("client:7", CLIENT_SECRET))
        self.assertNotIn("authorization", token.headers)

    def test_key_that_cannot_sign(self) -> None:
        """A private key that does not sign is the owner's to know; it is in no text, and no code is sent."""
        pair = ECKey.generate_key("P-256")
        names = {"team_id": "DEF123GHIJ", "key_id": "ABC123DEFG"}
        for pem in (
            pair.as_pem(private=False) + pair.as_pem(private=True),
            pair.as_pem(private=True) + pair.as_pem(private=False),
            pair.as_pem(private=True)[:-40],
            pair.as_pem(private=True, password="x"),
            ECKey.generate_key("P-384").as_pem(private=True),
            RSAKey.generate_key(2048).as_pem(private=True),
            b"hush",
        ):
            apple = openid("apple", "https://appleid.apple.com", **names)
            settings = replace(apple.settings, client_secret=Secret(pem))
            self.fixture = ProviderFixture(apple.fake, settings)
            self.fake = self.fixture.fake
            failure = self.failure()
            self.assertIsInstance(failure, ProviderMisconfigured)
            self.assertEqual(
                str(failure),
                "the key that client_secret_env names cannot sign; set it to the whole content of the .p8 file",
            )
            self.assertEqual(self.count(TOKEN), 0)

    def test_elliptic_curve(self) -> None:
        """ES256 works where discovery offers it."""
        self.fake.signers, self.fake.signer = [ES, RSA], ES
        self.assertEqual(self.identity().subject, "player-7")

    @covers("4/13", "4/14")
    def test_google(self) -> None:
        """The preset: its prompt, its issuer in both spellings as one identity, RS256 whatever discovery says."""
        self.fixture = openid("google", GOOGLE)
        self.fake = self.fixture.fake
        query = dict(parse_qsl(urlsplit(self.successResultOf(self.fixture.go()).url).query))
        self.assertEqual((query["prompt"], query["scope"]), ("select_account", "openid"))
        self.assertNotIn("access_type", query)
        self.assertEqual(self.fake.seen[0].url, f"{GOOGLE}{DISCOVERY}")
        first = self.identity()
        self.fake.claims["iss"] = "accounts.google.com"
        self.assertEqual(self.identity(), first)
        self.assertEqual(first, ExternalIdentity("oidc", GOOGLE, "player-7"))
        self.fake.signers, self.fake.signer = [RSA, ES], ES
        self.assertIsInstance(self.failure(), ProviderError)

    @covers("threats/16")
    def test_one_tenant(self) -> None:
        """Where personal accounts alone may sign in, a token of an organization is refused, whichever key signed it."""
        personal, work = (f"{MICROSOFT}/{tenant}/v2.0" for tenant in (PERSONAL, "8eaef023-2b34-4da1-9baa-8bc8c9d6a490"))
        self.fixture = openid("microsoft", f"{MICROSOFT}/consumers/v2.0")
        self.fake = self.fixture.fake
        self.fake.metadata |= {"issuer": personal}
        template = f"{MICROSOFT}/{{tenantid}}/v2.0"
        self.fake.usual[KEYS] = lambda _: Reply.json({"keys": [{**RSA.public, "issuer": template}]})
        self.fake.claims |= {"iss": personal, "tid": PERSONAL}
        identity = self.identity()
        self.assertEqual((identity.namespace, identity.subject), (personal, str(self.fake.claims["sub"])))
        self.fake.claims |= {"iss": work, "tid": "8eaef023-2b34-4da1-9baa-8bc8c9d6a490"}
        self.assertIn("iss is another issuer", str(self.failure()))

    def test_cloud(self) -> None:
        """A key of another of Microsoft's clouds, which are in the same set, signs for none of this one's accounts."""
        personal = f"{MICROSOFT}/{PERSONAL}/v2.0"
        self.fixture = openid("microsoft", f"{MICROSOFT}/consumers/v2.0")
        self.fake = self.fixture.fake
        self.fake.metadata |= {"issuer": personal, "cloud_instance_name": "microsoftonline.com"}
        self.fake.claims |= {"iss": personal, "tid": PERSONAL}
        clouds: list[dict[str, str]] = [{"cloud_instance_name": "microsoftonline.us"}]
        template = {"issuer": f"{MICROSOFT}/{{tenantid}}/v2.0"}
        self.fake.usual[KEYS] = lambda _: Reply.json({"keys": [{**RSA.public, **template, **clouds[0]}]})
        self.assertIn("a key that is for another cloud", str(self.failure()))
        for clouds[0] in ({"cloud_instance_name": "microsoftonline.com"}, {}):
            self.fixture.clock.advance(2 * FRESH_SECONDS)
            self.assertEqual(self.identity().namespace, personal)

    def test_issuer_of_callback(self) -> None:
        """With tenants a callback may name the issuer of any tenant, and no other."""
        provider = openid("microsoft", f"{MICROSOFT}/common/v2.0").provider
        template = f"{MICROSOFT}/{{tenantid}}/v2.0"
        for tenant in (PERSONAL, "8eaef023-2b34-4da1-9baa-8bc8c9d6a490"):
            iss = f"{MICROSOFT}/{tenant}/v2.0"
            self.assertEqual(provider.issuer_for(iss), iss)
        for iss in (None, f"{MICROSOFT}/common/v2.0", f"https://evil.example/{PERSONAL}/v2.0", "https://id.example"):
            self.assertEqual(provider.issuer_for(iss), template)
        self.assertEqual(openid().provider.issuer_for("https://evil.example"), ISSUER)

    def test_apple(self) -> None:
        """Apple's endpoints are those that it documents: what its discovery document says changes nothing."""
        names = {"team_id": "DEF123GHIJ", "key_id": "ABC123DEFG"}
        pem = ECKey.generate_key("P-256").as_pem(private=True)
        apple = openid("apple", "https://appleid.apple.com", **names)
        self.fixture = ProviderFixture(apple.fake, replace(apple.settings, client_secret=Secret(pem)))
        self.fake = self.fixture.fake
        self.fake.metadata |= {"issuer": "https://account.apple.com", "token_endpoint": "https://account.apple.com/t"}
        url = self.successResultOf(self.fixture.go()).url
        self.assertTrue(url.startswith("https://appleid.apple.com/auth/authorize?response_mode=query&"), url)
        self.assertEqual(self.identity(), ExternalIdentity("oidc", "https://appleid.apple.com", "player-7"))
        asked = [call.url for call in self.fake.seen]
        self.assertEqual(asked, ["https://appleid.apple.com/auth/token", "https://appleid.apple.com/auth/keys"])
        self.assertEqual(self.fake.seen[0].form["client_id"], "client:7")

    def test_no_metadata_at_start(self) -> None:
        """Fetch metadata at the first sign-in; a provider that was down at the start works as soon as it is up."""
        self.assertEqual(self.fake.seen, [])
        self.fake.script(DISCOVERY, Reply(503))
        self.failureResultOf(started(self.fixture.go()), ProviderUnavailable)
        self.successResultOf(self.fixture.go())


class DocumentTests(OidcCase):
    def test_fetched_once(self) -> None:
        """Both documents are fetched once an hour, however many sign in."""
        for _ in range(3):
            self.identity()
        self.assertEqual((self.count(DISCOVERY), self.count(KEYS)), (1, 1))
        self.fixture.clock.advance(FRESH_SECONDS)
        self.identity()
        self.assertEqual((self.count(DISCOVERY), self.count(KEYS)), (2, 2))

    def test_one_fetch_for_many(self) -> None:
        """Ten who wait for the document wait for one fetch; when it fails all fail, each with an error of its own."""
        for reply, worked in ((Reply.json(self.fake.metadata), True), (Reply(500), False)):
            self.setUp()
            self.fake.script(DISCOVERY, Reply(hang=True))
            waiting = [started(self.fixture.go()) for _ in range(10)]
            self.fixture.clock.advance(TIMEOUT_SECONDS - 1)
            self.fixture.release(reply)
            if worked:
                self.assertEqual({self.successResultOf(one).iss_promised for one in waiting}, {False})
            else:
                errors = {id(self.failureResultOf(one, ProviderUnavailable).value) for one in waiting}
                self.assertEqual(len(errors), 10)
            self.assertEqual(self.count(DISCOVERY), 1)
            self.assertEqual(self.fixture.clock.getDelayedCalls(), [])

    def test_who_came_late(self) -> None:
        """End a late caller with the fetch that it joined; begin a new fetch for the next."""
        self.fake.script(DISCOVERY, Reply(hang=True))
        early = started(self.fixture.go())
        self.fixture.clock.advance(TIMEOUT_SECONDS - 1)
        late = started(self.fixture.go())
        self.fixture.clock.advance(1)
        for one in (early, late):
            self.failureResultOf(one, ProviderUnavailable)
        self.successResultOf(self.fixture.go())
        self.assertEqual(self.count(DISCOVERY), 2)

    @covers("threats/21")
    def test_old_is_better_than_none(self) -> None:
        """With the provider's documents down or broken the old ones serve for a day, asked for every 30 s."""
        other = Reply.json({"issuer": "https://evil.example", "keys": []})
        for reply in (Reply(500), Reply(200, b"<html>"), Reply(404), other):
            self.setUp()
            self.identity()
            self.fake.always(DISCOVERY, reply)
            self.fake.always(KEYS, reply)
            self.fixture.clock.advance(FRESH_SECONDS)
            for _ in range(3):
                self.assertEqual(self.identity().subject, "player-7")
            self.assertEqual(self.count(DISCOVERY), 2)
            self.fixture.clock.advance(REST_SECONDS)
            self.assertEqual(self.identity().subject, "player-7")
            self.assertEqual(self.count(DISCOVERY), 3)
            self.fixture.clock.advance(STALE_SECONDS)
            for _ in range(2):
                self.failureResultOf(started(self.fixture.go()), ProviderFailure)

    def test_old_is_better_than_waiting(self) -> None:
        """A provider that no longer answers its documents holds a sign-in up for 3 s each, and only once in 30 s."""
        self.identity()
        self.fixture.clock.advance(FRESH_SECONDS)
        self.fake.claims |= {"iat": self.fixture.now_ms() // 1000, "exp": self.fixture.now_ms() // 1000 + 300}
        for path in (DISCOVERY, KEYS):
            self.fake.script(path, Reply(hang=True))
        waiting = started(self.fixture.identify())
        self.fixture.clock.advance(2.9)
        self.assertEqual(self.count(TOKEN), 1)
        self.fixture.clock.advance(0.1)
        self.assertEqual(self.count(TOKEN), 2)
        self.fixture.clock.advance(3)
        self.assertEqual(self.successResultOf(waiting).subject, "player-7")
        self.assertEqual(self.identity().subject, "player-7")

    def test_keys_out_of_time(self) -> None:
        """Keys that never come end the sign-in 10 s after it began."""
        self.fake.script(KEYS, Reply(hang=True))
        waiting = started(self.fixture.identify())
        self.fixture.clock.advance(TIMEOUT_SECONDS - 0.1)
        self.assertNoResult(waiting)
        self.fixture.clock.advance(0.1)
        self.failureResultOf(waiting, ProviderUnavailable)

    @covers("threats/18")
    def test_discovery_that_lies(self) -> None:
        """Another issuer, addresses elsewhere in clear or on this machine, none at all: no browser is redirected."""
        for changes, kind in (
            ({"issuer": ISSUER + "/"}, ProviderMisconfigured),
            ({"issuer": "https://evil.example"}, ProviderMisconfigured),
            ({"token_endpoint": "http://id.example/token"}, ProviderError),
            ({"jwks_uri": "http://169.254.169.254/"}, ProviderError),
            ({"token_endpoint": "https://localhost/token"}, ProviderError),
            ({"authorization_endpoint": "javascript:alert(1)"}, ProviderError),
            ({"authorization_endpoint": None}, ProviderError),
            ({"code_challenge_methods_supported": ["plain"]}, ProviderMisconfigured),
            ({"error": "x"}, ProviderError),
        ):
            self.setUp()
            self.fake.metadata |= changes
            self.failureResultOf(started(self.fixture.go()), kind)
            self.failureResultOf(started(self.fixture.identify()), kind)
            self.assertEqual({call.path for call in self.fake.seen}, {DISCOVERY})

    def test_wrong_issuer_in_the_file(self) -> None:
        """If the document is missing, the owner's log says to check the issuer."""
        self.fake.script(DISCOVERY, Reply(404))
        failed = self.failureResultOf(started(self.fixture.go()), ProviderMisconfigured).value
        self.assertIn("issuer", str(failed))


class KeyTests(OidcCase):
    def test_rotation(self) -> None:
        """A token signed with a key published since is taken after one more look at the keys."""
        self.identity()
        self.fake.signers, self.fake.signer = [RSA, RSA_NEW], RSA_NEW
        self.assertEqual(self.identity().subject, "player-7")
        self.assertEqual(self.count(KEYS), 2)
        self.identity()
        self.assertEqual(self.count(KEYS), 2)

    def test_unknown_keys(self) -> None:
        """Tokens of unknown keys cause one look at the keys per 30 s, however many come."""
        self.identity()
        self.fake.signer = RSA_NEW
        for _ in range(5):
            self.assertIsInstance(self.failure(), ProviderError)
        self.assertEqual(self.count(KEYS), 2)
        self.fixture.clock.advance(REST_SECONDS)
        self.failure()
        self.assertEqual(self.count(KEYS), 3)

    def test_new_key_of_the_same_name(self) -> None:
        """A key that was replaced under its old name, or has none, is found, too."""
        for unnamed in (True, False):
            self.setUp()
            for signer in (RSA, RSA_NEW):
                public = {**signer.public, "kid": "same"}
                if unnamed:
                    del public["kid"]
                token = signer.sign(self.fake.claims, kid=None if unnamed else "same")
                self.fake.always(KEYS, Reply.json({"keys": [public]}))
                self.fake.always(TOKEN, Reply.json(self.fake.tokens(id_token=token)))
                self.assertEqual(self.successResultOf(self.fixture.identify()).subject, "player-7")
            self.assertEqual(self.count(KEYS), 2)

    def test_withdrawn_key(self) -> None:
        """A key that the provider no longer publishes is not believed once the keys were looked at again."""
        self.identity()
        self.fake.signers = [RSA_NEW]
        self.fixture.clock.advance(FRESH_SECONDS)
        self.fake.claims |= {"iat": self.fixture.now_ms() // 1000, "exp": self.fixture.now_ms() // 1000 + 300}
        self.assertIsInstance(self.failure(), ProviderError)

    def test_broken_sets(self) -> None:
        """No usable key, HTML, an error with 200, a redirect: typed, and the code is not sent again."""
        for reply in (
            Reply.json({"keys": []}),
            Reply(200, b"<html>"),
            Reply.json({"error": "x", "keys": [dict(RSA.public)]}),
            Reply(302, headers={"Location": "https://evil.example/"}),
            Reply.json([dict(RSA.public)]),
        ):
            self.setUp()
            self.fake.always(KEYS, reply)
            self.assertIsInstance(self.failure(), ProviderError)
            self.assertEqual(self.count(TOKEN), 1)


class TokenTests(OidcCase):
    def test_what_is_no_id_token(self) -> None:
        """Without an ID token, or with one in any other form, there is no player; no user endpoint is tried instead."""
        for id_token in (None, "", 7, [], {"payload": "x"}, "a.b", "a.b.c", "a.b.c.d.e", "é.é.é"):
            self.fake.always(TOKEN, Reply.json(self.fake.tokens(id_token=id_token)))
            self.assertIsInstance(self.failure(), ProviderError)
        self.assertEqual({call.path for call in self.fake.seen}, {DISCOVERY, TOKEN})

    @covers("threats/15")
    def test_other_attempts_token(self) -> None:
        """A token of another attempt, client or issuer is refused, good as it is."""
        for changes in ({"nonce": "x" * 43}, {"aud": "client:8"}, {"iss": GOOGLE}, {"iss": "accounts.google.com"}):
            self.fake.claims = claims_of(ISSUER, START_MS // 1000, NONCE) | changes
            self.assertIsInstance(self.failure(), ProviderError)
        self.fake.claims = claims_of(ISSUER, START_MS // 1000, NONCE)
        self.failureResultOf(started(self.fixture.identify(nonce=None)), ProviderError)

    def test_wrong_secret(self) -> None:
        """401 and invalid_client tell the owner which settings to look at."""
        for reply in (Reply(401), Reply.json({"error": "invalid_client"}, 400)):
            self.fake.script(TOKEN, reply)
            failure = self.failure()
            self.assertIsInstance(failure, ProviderMisconfigured)
            self.assertIn("client_secret_env", str(failure))

    def test_clock_skew(self) -> None:
        """With our clock off the provider's Date says so: an outcome of its own; without a Date it cannot be known."""
        for late_ms in (3_600_000, -86_400_000):
            for date, kind in ((START_MS, ServerClockSkew), (None, ProviderError)):
                self.fixture = openid(late_ms=late_ms)
                self.fake = self.fixture.fake
                self.fake.clock_ms = lambda date=date: date
                self.assertIs(type(self.failure()), kind)

    def test_small_skew(self) -> None:
        """Two minutes either way are accepted."""
        for late_ms in (120_000, -120_000):
            self.fixture = openid(late_ms=late_ms)
            self.assertEqual(self.successResultOf(self.fixture.identify()).subject, "player-7")

    def test_nothing_leaks(self) -> None:
        """Causes hold nothing of tokens, codes and secrets, and a destination's repr no state."""
        self.fake.claims |= {"sub": "LEAK" * 99, "iss": ISSUER}
        token = self.fake.tokens()["id_token"]
        cause = str(self.failure())
        for word in ("LEAK", "code-7", "vvv", "s:e", str(token)[:20]):
            self.assertNotIn(word, cause)
        self.assertNotIn("sss", repr(self.successResultOf(self.fixture.go())))
