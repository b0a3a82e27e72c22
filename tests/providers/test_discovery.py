"""Metadata, key sets, subjects and the parameters of the code flow are validated by pure functions."""

import contextlib
from base64 import urlsafe_b64encode
from hashlib import sha256
from itertools import count
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from cryptography.hazmat.primitives.asymmetric.ec import SECP384R1
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from gamed.config.model import Preset, ProviderProtocol
from gamed.config.providers import MICROSOFT, accepted_issuers
from gamed.crypto import Indexer, Secret
from gamed.providers.base import (
    AuthorizationRequest,
    ExternalIdentity,
    ProviderError,
    ProviderFailure,
    ProviderMisconfigured,
)
from gamed.providers.discovery import metadata_url, origin, validate_metadata
from gamed.providers.id_token import openid_subject, validate_keys
from gamed.providers.messages import (
    ClientCredentials,
    authorization_url,
    basic_authorization,
    challenge_of,
    generate_nonce,
    generate_verifier,
    token_request,
)
from gamed.providers.oauth2 import parse_digits, parse_text_or_number
from tests.providers.signing import ES, RSA, ec, rsa
from tests.providers.test_messages import JSON
from tests.support.covers import covers

ISSUER = "https://id.example"
GOOGLE = "https://accounts.google.com"
ALGORITHMS = Preset(ProviderProtocol.OIDC).algorithms
DOCUMENT: dict[str, object] = {
    "issuer": ISSUER,
    "authorization_endpoint": "https://id.example/auth",
    "token_endpoint": "https://tokens.example/token",
    "jwks_uri": "https://keys.example/keys",
}
JOURNEY = AuthorizationRequest("STATE", "CHALLENGE", "NONCE", "https://game.example/auth/idp/callback")


class FlowTests(SynchronousTestCase):
    def test_pkce(self) -> None:
        """A verifier of 86 unreserved characters, fresh each time; the challenge is its S256 (RFC 7636 B)."""
        numbers = count()
        verifier = generate_verifier(lambda size: bytes([next(numbers)]) * size)
        self.assertRegex(verifier.reveal().decode(), r"\A[A-Za-z0-9_-]{86}\Z")
        self.assertFalse(verifier.matches(generate_verifier(lambda size: bytes([next(numbers)]) * size)))
        example = Secret(b"dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk")
        self.assertEqual(challenge_of(example), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM")
        digest = urlsafe_b64encode(sha256(verifier.reveal()).digest()).decode()
        self.assertEqual(challenge_of(verifier), digest.rstrip("="))
        self.assertEqual(len(generate_nonce(lambda size: b"\xff" * size)), 43)

    def test_query_is_kept(self) -> None:
        """An endpoint's own query stays; what we ask for stands once, as we ask for it."""
        endpoint = "https://id.example/auth?tenant=a%26b&empty=&state=theirs&prompt=login"
        parts = urlsplit(authorization_url(endpoint, "c&d", ("openid", "x"), JOURNEY, {}))
        pairs = parse_qsl(parts.query, keep_blank_values=True)
        query = dict(pairs)
        self.assertEqual(len(pairs), len(query))
        self.assertEqual((query["tenant"], query["empty"], query["state"]), ("a&b", "", "STATE"))
        self.assertEqual((query["client_id"], query["scope"], query["prompt"]), ("c&d", "openid x", "login"))
        self.assertEqual((query["code_challenge_method"], query["nonce"]), ("S256", "NONCE"))
        self.assertNotIn("+", parts.query)

    def test_basic(self) -> None:
        """Both halves are form-encoded before they are joined (RFC 6749 2.3.1)."""
        self.assertEqual(
            basic_authorization("a:b", Secret("p%é c".encode())).reveal(), b"Basic YSUzQWI6cCUyNSVDMyVBOStj"
        )

    def test_secret_in_the_form(self) -> None:
        """Where only client_secret_post is offered the secret is in the body, and only there."""
        client = ClientCredentials("c", Secret(b"s&t"))
        call = token_request("https://id.example/token", client, {"code": b"1"}, "lgn_a", basic_auth=False)
        self.assertEqual(call.body and call.body.reveal(), b"code=1&client_id=c&client_secret=s%26t")
        self.assertNotIn("Authorization", call.headers)
        self.assertFalse(call.repeatable)
        self.assertNotIn("s%26t", repr(call))


class MetadataTests(SynchronousTestCase):
    def validate(self, issuer: str = ISSUER, **changes: object) -> Any:
        return validate_metadata(DOCUMENT | {"issuer": issuer} | changes, issuer, ALGORITHMS)

    def test_the_least(self) -> None:
        """Three addresses are enough: RS256, HTTP Basic and no promise of iss are what silence means."""
        metadata = self.validate()
        self.assertEqual(metadata.token_endpoint, "https://tokens.example/token")
        self.assertEqual(metadata.algorithms, {"RS256"})
        self.assertEqual((metadata.basic_auth, metadata.iss_promised), (True, False))

    def test_what_is_offered(self) -> None:
        """Use only those of a provider's offers that gamed accepts."""
        algorithms = "id_token_signing_alg_values_supported"
        methods = "token_endpoint_auth_methods_supported"
        self.assertEqual(self.validate(**{algorithms: ["HS256", "ES256", "none"]}).algorithms, {"ES256"})
        self.assertEqual(self.validate(**{algorithms: ["PS256", "RS256", "ES256"]}).algorithms, set(ALGORITHMS))
        self.assertTrue(self.validate(**{methods: ["client_secret_post", "client_secret_basic"]}).basic_auth)
        self.assertFalse(self.validate(**{methods: ["private_key_jwt", "client_secret_post"]}).basic_auth)
        self.assertTrue(self.validate(**{methods: ["private_key_jwt", "none"]}).basic_auth)
        self.assertRaises(ProviderError, self.validate, **{methods: "client_secret_post"})
        for promised, said in ((True, True), (False, False), (False, "true"), (False, 1), (False, None)):
            metadata = self.validate(authorization_response_iss_parameter_supported=said)
            self.assertIs(metadata.iss_promised, promised)

    def test_what_cannot_work(self) -> None:
        """A provider without S256, the code flow or a usable signature is the owner's to know."""
        for name, offered in (
            ("code_challenge_methods_supported", ["plain"]),
            ("response_types_supported", ["id_token", "token"]),
            ("id_token_signing_alg_values_supported", ["HS256", "none"]),
            ("id_token_signing_alg_values_supported", []),
        ):
            with self.assertRaises(ProviderMisconfigured) as failed:
                self.validate(**{name: offered})
            self.assertIn(name, str(failed.exception))
            for nonsense in ("S256", 7, {}, [7], [["S256"]], [None]):
                self.assertRaises(ProviderError, self.validate, **{name: nonsense})

    def test_other_issuer(self) -> None:
        """The issuer to the byte; a slash more is another one."""
        for issuer in (ISSUER + "/", ISSUER.upper(), "https://evil.example", "", None, 7, [ISSUER], "id.example"):
            self.assertRaises(
                ProviderMisconfigured, validate_metadata, DOCUMENT | {"issuer": issuer}, ISSUER, ALGORITHMS
            )

    @covers("threats/16")
    def test_tenants(self) -> None:
        """The document is of the configured tenants alone: a GUID, personal accounts, or the template of several."""
        personal, work = "9188040d-6c67-4c5b-b112-36a304b66dad", "8eaef023-2b34-4da1-9baa-8bc8c9d6a490"
        template = "{tenantid}"
        every = {personal, work, template, work.upper(), "common", "consumers", "contoso.onmicrosoft.com", ""}
        for configured, right in (
            (work, {work}),
            (work.upper(), {work}),
            ("consumers", {personal}),
            ("common", {template}),
            ("organizations", {template}),
            ("contoso.onmicrosoft.com", {personal, work}),
        ):
            issuer = f"https://login.microsoftonline.com/{configured}/v2.0"
            taken = set()
            for tenant in every:
                found = f"https://login.microsoftonline.com/{tenant}/v2.0"
                with contextlib.suppress(ProviderMisconfigured):
                    document = DOCUMENT | {"issuer": found}
                    metadata = validate_metadata(document, issuer, ALGORITHMS, tenants=MICROSOFT.tenants)
                    self.assertEqual(metadata.issuer, found)
                    taken.add(tenant)
            self.assertEqual(taken, right, configured)

    @covers("threats/18")
    def test_addresses(self) -> None:
        """Every address is https elsewhere than on this machine, whole, and without user, fragment or white space."""
        for name in ("authorization_endpoint", "token_endpoint", "jwks_uri"):
            for url in (
                *(None, 7, [], {}, "", "/token", "//id.example/t", "https://", "https:///t", "https:id.example"),
                "id.example",
                *("http://id.example/t", "ftp://id.example/t", "javascript:alert(1)", "file:///etc/passwd", "data:,x"),
                *("https://a@id.example/t", "https://a:b@id.example/t", "https://id.example/t#f"),
                "https://id.example/ t",
                *("https://id.example\\@evil.example/t", "https://id.example\\t", "https://id.example/\r\nX: y"),
                "https://id.example:0/t",
                *("https://id.example:99999/t", "https://id.example:x/t", "https://[::1/t", "https://é.example/t"),
                *("http://localhost/t", "https://localhost/t", "http://127.0.0.1:8080/t", "https://127.0.0.1/t"),
                *("https://[::1]/t", "http://[::1]/t", "https://id.example/" + "x" * 2048),
            ):
                self.assertRaises(ProviderError, self.validate, **{name: url})

    def test_loopback(self) -> None:
        """An issuer on this machine may speak plain http, to this machine only."""
        home = "http://127.0.0.1:9000"
        local = {name: f"{home}/x" for name in ("authorization_endpoint", "token_endpoint", "jwks_uri")}
        self.assertEqual(self.validate(home, **local).token_endpoint, f"{home}/x")
        self.assertEqual(self.validate(home, **local | {"jwks_uri": "http://[::1]/k"}).jwks_uri, "http://[::1]/k")
        self.assertRaises(ProviderError, self.validate, home, **local | {"token_endpoint": "http://id.example/x"})
        secure = "https://localhost"
        self.assertRaises(ProviderError, self.validate, secure, **local)

    def test_places(self) -> None:
        """The document's address, origins, and Google's two spellings."""
        self.assertEqual(metadata_url("https://a.example/t/"), "https://a.example/t/.well-known/openid-configuration")
        self.assertEqual(metadata_url("https://a.example"), "https://a.example/.well-known/openid-configuration")
        for url, place in (
            ("https://discord.com/api/v10/users/@me", "https://discord.com"),
            ("https://Forge.Example:443/u?x=1", "https://forge.example"),
            ("http://[::1]:8080/u", "http://[::1]:8080"),
            ("http://localhost:80/u", "http://localhost"),
        ):
            self.assertEqual(origin(url), place)
        self.assertEqual(accepted_issuers(GOOGLE), {GOOGLE, "accounts.google.com"})
        self.assertEqual(accepted_issuers(ISSUER), {ISSUER})

    @given(st.dictionaries(st.sampled_from([*DOCUMENT, "code_challenge_methods_supported"]), JSON))
    @settings(deadline=None)
    def test_any_document(self, changes: dict[str, object]) -> None:
        """Any document is metadata or a ProviderFailure."""
        with contextlib.suppress(ProviderFailure):
            self.assertTrue(validate_metadata(DOCUMENT | changes, ISSUER, ALGORITHMS).jwks_uri.startswith("https://"))


class KeyTests(SynchronousTestCase):
    def usable(self, *keys: object) -> list[str | None]:
        return [key.kid for key in validate_keys({"keys": [*keys, {**ES.public, "kid": "last"}]})][:-1]

    def test_usable(self) -> None:
        """RSA from 2048 bits and P-256, for signatures or for nothing in particular."""
        plain = {name: value for name, value in RSA.public.items() if name not in ("use", "alg")}
        self.assertEqual(self.usable(RSA.public, ES.public, plain), ["rsa-1", "ec-1", "rsa-1"])
        self.assertEqual(self.usable(rsa("big", 3072).public, {**plain, "key_ops": ["verify"]}), ["big", "rsa-1"])
        harmless = {**plain, "x5c": ["?"], "x5t": "?", "d": "AQAB", "jku": "http://evil.example"}
        self.assertEqual(self.usable(harmless), ["rsa-1"])
        self.assertFalse(validate_keys({"keys": [harmless]})[0].key.is_private)

    def test_not_usable(self) -> None:
        """Short, huge, broken, secret, foreign or otherwise meant keys are as if they were not there."""
        point = {**ES.public, "y": ES.public["x"]}
        huge = urlsafe_b64encode(b"\xff" * 1025).decode().rstrip("=")
        for key in (
            *(rsa("short", 1024).public, rsa("short", 2047).public, {**RSA.public, "n": huge}),
            ec("e", SECP384R1).public,
            *({**RSA.public, "use": "enc"}, {**RSA.public, "use": None, "key_ops": ["encrypt"]}),
            {**RSA.public, "kty": "oct"},
            *({**RSA.public, "alg": "RS512"}, {**RSA.public, "alg": "PS256"}, {**RSA.public, "alg": 1}, {"kty": "RSA"}),
            *({**RSA.public, "e": "AA"}, {**RSA.public, "e": "Ag"}, {**RSA.public, "e": "AQAAAAAAAAAB"}),
            {**RSA.public, "e": 3},
            *({**RSA.public, "n": ""}, {**RSA.public, "n": None}, {**RSA.public, "n": "a b"}, {**RSA.public, "n": "é"}),
            *({**RSA.public, "kid": 7}, {**RSA.public, "kid": ["rsa-1"]}, {**RSA.public, "key_ops": "verify"}),
            *(point, {**ES.public, "crv": "P-384"}, {**ES.public, "crv": "secp256k1"}, {**ES.public, "x": "AA"}),
            *({"kty": "oct", "k": "c2VjcmV0", "kid": "o"}, {"kty": "OKP", "crv": "Ed25519", "x": "AA"}, {}, []),
            *(None, "key", 7),
        ):
            self.assertEqual(self.usable(key), [], key)

    def test_no_keys(self) -> None:
        """A set with nothing usable in it is an error, so that it never replaces one that works."""
        for document in (
            {},
            {"keys": []},
            {"keys": None},
            {"keys": {}},
            {"keys": [{}]},
            {"keys": "x"},
            dict(RSA.public),
        ):
            self.assertRaises(ProviderError, validate_keys, document)

    @given(JSON | st.lists(st.dictionaries(st.sampled_from([*RSA.public, "crv", "x", "y"]), JSON)))
    @settings(deadline=None)
    def test_any_set(self, keys: object) -> None:
        """Any set is keys or a ProviderError."""
        with contextlib.suppress(ProviderError):
            validate_keys({"keys": keys})


class SubjectTests(SynchronousTestCase):
    def test_snowflakes(self) -> None:
        """Discord's ids are text of 1 to 20 digits."""
        for good in ("0", "80351110224678912", "9" * 20):
            self.assertEqual(parse_digits(good), good)
        for bad in ("", "9" * 21, 80351110224678912, "1 ", "-1", "1.0", "\u0661", "1\n", None, True, ["1"], {}, "a"):
            self.assertRaises(ProviderError, parse_digits, bad)

    def test_other_accounts(self) -> None:
        """Text as it is, or a whole number from 1, which is its own decimal text."""
        for value, subject in (
            ("anna", "anna"),
            (7, "7"),
            ("7", "7"),
            ("x" * 255, "x" * 255),
            ("Ünal", "Ünal"),
            ("a b", "a b"),
        ):
            self.assertEqual(parse_text_or_number(value), subject)
        for bad in (
            "",
            " ",
            " a",
            "a ",
            "a\n",
            "x" * 256,
            "a\u200bb",
            "\ud800",
            0,
            -1,
            2**64,
            1.0,
            True,
            False,
            None,
            [],
            {},
        ):
            self.assertRaises(ProviderError, parse_text_or_number, bad)

    @given(JSON)
    @settings(deadline=None)
    def test_any_value(self, value: object) -> None:
        """Any value is a subject that is text, or a ProviderError."""
        for validate in (parse_digits, openid_subject, parse_text_or_number):
            with contextlib.suppress(ProviderError):
                self.assertTrue(validate(value))


class IdentityTests(SynchronousTestCase):
    def test_index(self) -> None:
        """Kind, namespace and subject all count, and none can run into the next; a repr hides the subject."""
        indexer = Indexer(b"k" * 32)
        several = [
            ExternalIdentity("oidc", "https://a.example", "12"),
            ExternalIdentity("oauth2", "https://a.example", "12"),
            ExternalIdentity("oidc", "https://a.example1", "2"),
            ExternalIdentity("oidc", "https://a.example", "21"),
        ]
        self.assertEqual(len({identity.index(indexer) for identity in several}), 4)
        self.assertEqual(several[0].index(indexer), ExternalIdentity("oidc", "https://a.example", "12").index(indexer))
        self.assertNotIn("12", repr(several[0]))
