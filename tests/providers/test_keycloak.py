"""The configuration of the page about Keycloak works with a provider that answers as Keycloak does."""

import json
from urllib.parse import parse_qsl, urlsplit

from twisted.trial.unittest import SynchronousTestCase

from gamed.providers.base import ExternalIdentity, ProviderError
from tests.providers.fake_provider import PUBLIC_URL, FakeOpenIdProvider, ProviderFixture, Reply, started
from tests.test_guides import blocks, configured

REALM = "https://id.example.org/realms/club"
ENDPOINTS = f"{REALM}/protocol/openid-connect"
USER = "7f1d0a52-4e1c-4f1e-9a55-0d3f5c1f6f11"


class KeycloakTests(SynchronousTestCase):
    def setUp(self) -> None:
        """Take the provider of the page, and answer with Keycloak's paths, lists and claims."""
        [page] = [text for text in blocks("docs/owners/keycloak.md", "json") if '"mode"' in text]
        self.settings = configured(page).providers["club"]
        fake = FakeOpenIdProvider(REALM)
        fake.metadata = {
            "issuer": REALM,
            "authorization_endpoint": f"{ENDPOINTS}/auth",
            "token_endpoint": f"{ENDPOINTS}/token",
            "jwks_uri": f"{ENDPOINTS}/certs",
            "grant_types_supported": ["authorization_code", "implicit", "refresh_token", "password"],
            "response_types_supported": ["code", "none", "id_token", "token", "id_token token", "code id_token"],
            "subject_types_supported": ["public", "pairwise"],
            "id_token_signing_alg_values_supported": ["PS384", "RS384", "ES384", "HS256", "ES256", "RS256", "none"],
            "token_endpoint_auth_methods_supported": ["private_key_jwt", "client_secret_basic", "client_secret_post"],
            "claims_supported": ["aud", "sub", "iss", "auth_time", "name", "preferred_username", "email", "acr"],
            "code_challenge_methods_supported": ["plain", "S256"],
            "authorization_response_iss_parameter_supported": True,
        }
        for path in ("certs", "token"):
            fake.usual[urlsplit(f"{ENDPOINTS}/{path}").path] = fake.usual["/keys" if path == "certs" else "/token"]
        self.fixture = ProviderFixture(fake, self.settings)
        client = self.settings.client_id
        fake.claims |= {"sub": USER, "aud": client, "azp": client, "typ": "ID", "acr": "1", "sid": "a", "at_hash": "b"}
        self.fake = fake

    def query(self, *, ask_again: bool) -> dict[str, str]:
        url = self.successResultOf(started(self.fixture.go(ask_again=ask_again)))
        self.assertTrue(url.url.startswith(f"{ENDPOINTS}/auth?"), url.url)
        self.assertTrue(url.iss_promised)
        return dict(parse_qsl(urlsplit(url.url).query, strict_parsing=True))

    def test_destination(self) -> None:
        """The redirect URI is the one of the page, PKCE is sent, and only `openid` is asked for."""
        query = self.query(ask_again=False)
        self.assertEqual((query["scope"], query["code_challenge_method"]), ("openid", "S256"))
        self.assertEqual((query["client_id"], "max_age" in query), ("gamed", False))
        self.assertEqual(query["redirect_uri"], f"{PUBLIC_URL}/auth/club/callback")

    def test_identity(self) -> None:
        """Keycloak's number of the user, in the realm; the secret goes by HTTP Basic."""
        identity = self.successResultOf(started(self.fixture.identify()))
        self.assertEqual(identity, ExternalIdentity("oidc", REALM, USER))
        [token] = self.fake.calls(urlsplit(f"{ENDPOINTS}/token").path)
        self.assertEqual(token.basic.partition(":")[0], "gamed")

    def test_asked_again(self) -> None:
        """Before the account opens Keycloak is sent max_age, and its token must prove that it asked."""
        self.assertEqual(self.query(ask_again=True)["max_age"], "0")
        asked_ms = self.fixture.now_ms()
        self.fake.claims |= {"auth_time": asked_ms // 1000}
        self.assertTrue(self.successResultOf(started(self.fixture.identify(asked_ms=asked_ms))).asked_again)
        self.fake.claims |= {"auth_time": asked_ms // 1000 - 3600}
        self.failureResultOf(started(self.fixture.identify(asked_ms=asked_ms)), ProviderError)

    def test_another_realm(self) -> None:
        """A document of another realm, or of a Keycloak whose hostname is another, is refused."""
        for issuer in ("https://id.example.org/realms/master", REALM.replace("https", "http"), f"{REALM}/"):
            self.fake.usual[f"{urlsplit(REALM).path}/.well-known/openid-configuration"] = lambda _, issuer=issuer: (
                Reply(200, json.dumps({**self.fake.metadata, "issuer": issuer}).encode())
            )
            failed = self.failureResultOf(started(ProviderFixture(self.fake, self.settings).go()))
            self.assertIn("another issuer", str(failed.value))
