"""The gate of ID tokens: one way in, every other shape refused (OIDC Core 1.0 3.1.3.7, RFC 7515)."""

from base64 import urlsafe_b64decode
from collections.abc import Mapping
from json import dumps
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ec import SECP384R1
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from gamed.config.providers import accepted_issuers
from gamed.crypto import Secret, base64url
from gamed.providers.base import ProviderError, ProviderFailure, ServerClockSkew
from gamed.providers.id_token import (
    MAX_BYTES,
    ExpectedClaims,
    KeyUnknown,
    SignatureWrong,
    decode_base64url,
    parse_token,
    read_claims,
    validate_claims,
    validate_keys,
)
from tests.providers.signing import ES, RSA, RSA_NEW, Signer, claims_of, compact, ec, hs256
from tests.support.covers import covers

NOW = 1_800_000_000
NONCE = "n" * 43
ISSUER = "https://id.example"
GOOGLE = "https://accounts.google.com"
GOOD = claims_of(ISSUER, NOW, NONCE)
BOTH = frozenset({"RS256", "ES256"})
EXPECTED = ExpectedClaims(frozenset({ISSUER}), "client:7", NONCE)
KEYS = validate_keys({"keys": [RSA.public, ES.public]})
TOKEN = RSA.sign(GOOD)
MISSING = object()


def passed(token: str, keys: Any = KEYS, algorithms: frozenset[str] = BOTH) -> str:
    """The subject of a token that goes through the whole gate."""
    claims = read_claims(parse_token(Secret(token.encode()), algorithms), keys)
    return validate_claims(claims, EXPECTED, NOW * 1000, None)


def changed(**changes: object) -> dict[str, object]:
    return {name: value for name, value in (GOOD | changes).items() if value is not MISSING}


def header_bytes(raw: bytes) -> str:
    """A good signature over a header in any bytes."""
    message = f"{base64url(raw)}.{TOKEN.split('.')[1]}"
    return f"{message}.{base64url(RSA.signature(message.encode()))}"


def pem(signer: Signer) -> bytes:
    key: bytes = signer.private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return key


@covers("threats/16")
class FormTests(SynchronousTestCase):
    def test_good_tokens(self) -> None:
        """RS256 and ES256 pass, with their kid; a header may lack typ and have unknown members."""
        for token in (TOKEN, ES.sign(GOOD), RSA.sign(GOOD, typ=None), RSA.sign(GOOD, typ="jwt", x5t="abc", foo=[1])):
            self.assertEqual(passed(token), "player-7")

    def test_not_three_canonical_parts(self) -> None:
        """JSON forms, encrypted tokens, padding, white space, another alphabet and other spellings are refused."""
        first, second, third = TOKEN.split(".")
        flat = {"protected": first, "payload": second, "signature": third}
        general = {"payload": second, "signatures": [{"protected": first, "signature": third}] * 2}
        spare = second[:-1] + chr(ord(second[-1]) + 1)
        slack = third[:-1] + {"A": "B", "Q": "R", "g": "h", "w": "x"}[third[-1]]
        self.assertEqual(urlsafe_b64decode(slack + "=="), urlsafe_b64decode(third + "=="))
        self.assertRaises(ValueError, decode_base64url, slack)
        for token in (
            *("", ".", "..", "...", f"{first}.{second}", f"{first}.{second}.", f"{first}..{third}"),
            f".{second}.{third}",
            *(f"{TOKEN}.{third}", f"{TOKEN}.x.y", dumps(flat), dumps(general), f"{TOKEN}="),
            f"{first}=.{second}.{third}",
            *(f" {TOKEN}", f"{TOKEN}\n", f"{first}. {second}.{third}", f"{first}.{spare}.{third}"),
            *(f"{TOKEN}\x00"),
            f"{first}.{second}.{slack}",
            *(f"{first}.{second}.{third[:-1]}", f"{first}.{second}.{third}A", f"{first}.{second}.{'A' * 342}"),
            *(f"é{TOKEN}", f"{first}.{second}.!{third[1:]}", RSA.sign(changed(pad="x" * MAX_BYTES))),
            f"{first}.{second}.{third}.{third}",
        ):
            self.assertRaises(ProviderError, passed, token)

    def test_headers(self) -> None:
        """Refuse a token whose header chooses how to check it, even if the rest is valid."""
        jwk = dict(RSA.public)
        one = validate_keys({"keys": [RSA.public]})
        with self.assertRaises(ProviderError) as refused:
            passed(RSA.sign(GOOD, kid=1), one)
        self.assertIn("kid is not text", str(refused.exception))
        for header in (
            *({"crit": []}, {"crit": ["b64"], "b64": False}, {"b64": False}, {"b64": True}, {"jwk": jwk}),
            {"jku": ISSUER},
            *({"x5u": ISSUER}, {"x5c": ["MIIB"]}, {"typ": "at+jwt"}, {"typ": 1}, {"typ": "JWE"}, {"crit": ["exp"]}),
            *({"kid": 1}, {"kid": ["rsa-1"]}, {"kid": ""}, {"kid": "RSA-1"}, {"kid": "rsa-1 "}, {"kid": "../rsa-1"}),
            *({"alg": "none"}, {"alg": "None"}, {"alg": "rs256"}, {"alg": "RS512"}, {"alg": "PS256"}, {"alg": "HS256"}),
            *({"alg": ["RS256"]}, {"alg": ""}, {"alg": "ES256"}, {"alg": "EdDSA"}, {"alg": 256}, {"alg": "RS256 "}),
            {"kid": "ec-1"},
        ):
            self.assertRaises(ProviderError, passed, RSA.sign(GOOD, **header))
        self.assertRaises(ProviderError, passed, RSA.sign(GOOD, alg=None))

    def test_another_algorithm(self) -> None:
        """The operator learns where to choose an algorithm that this server accepts."""
        failed = self.assertRaises(ProviderError, passed, RSA.sign(GOOD, alg="RS512"))
        self.assertEqual(
            str(failed), "ID token: alg is not ES256 or RS256; choose that for this client at the provider"
        )

    def test_null_in_a_header(self) -> None:
        """A refused member is refused whatever its value is."""
        for member in ("crit", "jwk", "jku", "x5u", "x5c", "b64", "typ", "kid", "alg"):
            raw = dumps({"alg": "RS256", "kid": "rsa-1"} | {member: None}).encode()
            self.assertRaises(ProviderError, passed, header_bytes(raw))

    def test_header_is_one_small_object(self) -> None:
        """A header with a name twice, too deep, or of another type is refused, well signed as it may be."""
        self.assertEqual(passed(header_bytes(b'{"alg":"RS256","kid":"rsa-1"}')), "player-7")
        for raw in (
            *(b'{"alg":"none","alg":"RS256","kid":"rsa-1"}', b'{"alg":"RS256","kid":"x","kid":"rsa-1"}', b"null"),
            b"[]",
            *(b'["RS256"]', b'"RS256"', b"7", b'{"alg":"RS256","kid":"rsa-1"'),
            b'\xef\xbb\xbf{"alg":"RS256","kid":"rsa-1"}',
            b"\xff\xfe",
            b'{"alg":"RS256","kid":"rsa-1","a":' + b"[" * 99 + b"]" * 99 + b"}",
            b'{"alg":"RS256","kid":"rsa-1","a":NaN}',
        ):
            self.assertRaises(ProviderError, passed, header_bytes(raw))

    @given(st.integers(0, len(TOKEN) - 1), st.characters(codec="ascii"))
    def test_any_character_changed(self, place: int, character: str) -> None:
        """No token with one character changed passes."""
        if TOKEN[place] != character:
            self.assertRaises(ProviderError, passed, TOKEN[:place] + character + TOKEN[place + 1 :])

    @given(st.binary(max_size=300), st.binary(max_size=300), st.binary(max_size=300))
    def test_any_bytes(self, first: bytes, second: bytes, third: bytes) -> None:
        """Whatever arrives is refused as a provider's error and nothing else."""
        self.assertRaises(ProviderError, passed, ".".join(map(base64url, (first, second, third))))


@covers("5/16", "threats/16")
class SignatureTests(SynchronousTestCase):
    def test_forged(self) -> None:
        """No signature, one by a shared or public secret, by a stranger, of another message or family: all refused."""
        stranger = Signer("rsa-1", "RS256", RSA_NEW.private, RSA_NEW.public)
        wrong_curve = ec("ec-1", SECP384R1)
        none = {"alg": "none", "kid": "rsa-1"}
        for token in (
            *(compact(none, GOOD, b""), compact(none, GOOD), hs256(GOOD, b"the client secret", kid="rsa-1")),
            *(hs256(GOOD, pem(RSA), kid="rsa-1"), hs256(GOOD, pem(RSA)), stranger.sign(GOOD), wrong_curve.sign(GOOD)),
            *(ES.sign(GOOD, kid="rsa-1"), RSA.sign(GOOD, kid="ec-1"), ES.sign(GOOD, alg="RS256", kid="rsa-1")),
            *(RSA.sign(GOOD, alg="ES256", kid="ec-1"), compact({"alg": "RS256", "kid": "rsa-1"}, GOOD, b"\0" * 256)),
            *(compact({"alg": "ES256", "kid": "ec-1"}, GOOD, b"\0" * 64), f"{TOKEN.rpartition('.')[0]}.AA"),
            TOKEN.split(".")[0] + "." + RSA.sign(changed(sub="other")).split(".")[1] + "." + TOKEN.split(".")[2],
        ):
            self.assertRaises(ProviderError, passed, token)

    def test_der_signature(self) -> None:
        """ES256 is two numbers of 32 bytes, never DER (RFC 7518 3.4)."""
        from cryptography.hazmat.primitives.asymmetric.ec import ECDSA
        from cryptography.hazmat.primitives.hashes import SHA256

        message = ES.sign(GOOD).rpartition(".")[0]
        signature = ES.private.sign(message.encode(), ECDSA(SHA256()))
        self.assertRaises(SignatureWrong, passed, f"{message}.{base64url(signature)}")

    def test_allow_list(self) -> None:
        """A well signed token of an algorithm that this provider is not known to use is refused."""
        self.assertRaises(ProviderError, passed, ES.sign(GOOD), KEYS, frozenset({"RS256"}))
        self.assertRaises(ProviderError, passed, TOKEN, KEYS, frozenset({"ES256"}))

    def test_which_key(self) -> None:
        """The key with that very kid; without kid only a lone one; whatever does not fit asks for newer keys."""
        one = validate_keys({"keys": [RSA.public]})
        unnamed = validate_keys({"keys": [{name: value for name, value in RSA.public.items() if name != "kid"}]})
        self.assertEqual(passed(RSA.sign(GOOD, kid=None), one), "player-7")
        self.assertEqual(passed(RSA.sign(GOOD, kid=None), unnamed), "player-7")
        self.assertRaises(KeyUnknown, passed, TOKEN, unnamed)
        self.assertRaises(KeyUnknown, passed, RSA_NEW.sign(GOOD))
        self.assertRaises(KeyUnknown, passed, RSA.sign(GOOD, kid=None))

    def test_two_keys_of_one_name(self) -> None:
        """Two keys that a token may mean are one too many; of different families they are not."""
        twice = validate_keys({"keys": [RSA.public, {**RSA_NEW.public, "kid": "rsa-1"}]})
        self.assertRaises(KeyUnknown, passed, TOKEN, twice)
        families = validate_keys({"keys": [RSA.public, {**ES.public, "kid": "rsa-1"}]})
        self.assertEqual(passed(TOKEN, families), "player-7")


@covers("5/16", "threats/16")
class ClaimTests(SynchronousTestCase):
    def validate(self, claims: Mapping[str, object], offset_ms: int | None = None, now: float = NOW) -> str:
        return validate_claims(claims, EXPECTED, int(now * 1000), offset_ms)

    def test_payload_is_one_object(self) -> None:
        """Claims that are no JSON object, or hold a name twice, are refused although they are signed."""
        head = TOKEN.split(".")[0]
        for raw in (b"[]", b"null", b"{", b"\xff", b'{"sub":"a","sub":"b"}', dumps([GOOD]).encode(), b'"claims"', b" "):
            message = f"{head}.{base64url(raw)}"
            self.assertRaises(ProviderError, passed, f"{message}.{base64url(RSA.signature(message.encode()))}")

    def test_each_wrong_claim(self) -> None:
        """Every claim in every wrong form is refused, and never as a matter of clocks alone."""
        forms = (MISSING, None, "", 0, 1, True, False, [], {}, ["x"], "x", 1.5, -1)
        for name in ("iss", "aud", "exp", "iat", "nonce", "sub"):
            for value in forms:
                if (name, value) != ("sub", "x"):
                    self.assertRaises(ProviderError, self.validate, changed(**{name: value}))
        for value in (None, "", "x", True, [], {}, -1, float("inf"), 2**60):
            self.assertRaises(ProviderError, self.validate, changed(nbf=value))

    def test_issuer(self) -> None:
        """The issuer to the letter."""
        for iss in (ISSUER + "/", ISSUER.upper(), "http://id.example", [ISSUER], ISSUER + "\n", "id.example"):
            self.assertRaises(ProviderError, self.validate, changed(iss=iss))

    def test_google_has_two_spellings(self) -> None:
        """Google's tokens may leave the scheme out; no other issuer's may, and none may name Google."""
        google = ExpectedClaims(accepted_issuers(GOOGLE), "client:7", NONCE)
        for iss in ("https://accounts.google.com", "accounts.google.com"):
            self.assertEqual(validate_claims(changed(iss=iss), google, NOW * 1000, None), "player-7")
            self.assertRaises(ProviderError, self.validate, changed(iss=iss))
        for iss in ("http://accounts.google.com", "accounts.google.com/", ISSUER):
            self.assertRaises(ProviderError, validate_claims, changed(iss=iss), google, NOW * 1000, None)

    def test_audience(self) -> None:
        """Accept only a token for this client alone (OpenID Connect Core 3.1.3.7); `azp`, if present, names it too."""
        me, other = "client:7", "client:8"
        good: list[dict[str, object]] = [
            {"aud": me},
            {"aud": [me]},
            {"aud": me, "azp": me},
            {"aud": [me], "azp": me},
        ]
        for claims in good:
            self.assertEqual(self.validate(changed(**claims)), "player-7")
        bad: list[dict[str, object]] = [
            *({"aud": other}, {"aud": [other]}, {"aud": []}, {"aud": [me, other]}, {"aud": [me, me]}, {"aud": [me, 7]}),
            *({"aud": [me, other], "azp": other}, {"aud": me, "azp": other}, {"aud": me, "azp": None}),
            *({"aud": {me: 1}}, {"aud": [me, other], "azp": me}, {"aud": [other, me], "azp": me}),
            {"aud": [me], "azp": other},
            *({"aud": me, "azp": [me]}, {"aud": f"{me} {other}"}, {"aud": [me, 7], "azp": me}, {"aud": me.upper()}),
            {"aud": [[me]]},
            {"azp": me, "aud": 7},
        ]
        for claims in bad:
            self.assertRaises(ProviderError, self.validate, changed(**claims))

    def test_nonce(self) -> None:
        """The nonce of this attempt to the letter; an attempt without one takes no token at all."""
        for nonce in (NONCE + "x", NONCE[:-1], NONCE.upper(), [NONCE], "ñ" * 43, "\ud800"):
            self.assertRaises(ProviderError, self.validate, changed(nonce=nonce))
        for none in (None, ""):
            expected = ExpectedClaims(frozenset({ISSUER}), "client:7", none)
            for nonce in (MISSING, "", None):
                self.assertRaises(ProviderError, validate_claims, changed(nonce=nonce), expected, NOW * 1000, None)

    def test_subject(self) -> None:
        """1 to 255 ASCII characters without controls."""
        for sub in ("1", "x" * 255, "auth0|5f", "a b", "~!"):
            self.assertEqual(self.validate(changed(sub=sub)), sub)
        for bad in ("", "x" * 256, "é", "a\n", "\x00", " a", "a ", "\x7f", 7, None, ["a"], "a\u200b"):
            self.assertRaises(ProviderError, self.validate, changed(sub=bad))

    def test_times_at_the_edge(self) -> None:
        """Each time holds up to 120 s beyond its edge and not a second longer."""
        edges = (
            ("exp", NOW - 119, NOW - 120),
            ("iat", NOW + 120, NOW + 121),
            ("iat", NOW - 720, NOW - 721),
            ("nbf", NOW + 120, NOW + 121),
        )
        for name, good, bad in edges:
            base = changed(exp=NOW + 3600) if name != "exp" else GOOD
            self.assertEqual(self.validate({**base, name: good}), "player-7")
            with self.assertRaises(ProviderError):
                self.validate({**base, name: bad})
        self.assertEqual(self.validate(changed(iat=NOW + 0.5, exp=NOW + 60.25, nbf=NOW - 1e6)), "player-7")

    def test_clock_skew(self) -> None:
        """A token in time by the provider's Date only is the fault of this machine's clock; it says how much."""
        for ahead in (-86400, -3600, -121, 3600, 86400):
            with self.assertRaises(ServerClockSkew) as skew:
                self.validate(changed(exp=NOW + 300), offset_ms=-ahead * 1000, now=NOW + ahead)
            self.assertIn(f"{abs(ahead)} s {'ahead of' if ahead > 0 else 'behind'}", str(skew.exception))

    def test_no_clock_skew(self) -> None:
        """Without a Date, or with one that agrees with us or excuses nothing, it is the provider's error."""
        for offset_ms in (None, 0, 60_000, -120_000, 7_200_000, -86_400_000):
            with self.assertRaises(ProviderError):
                self.validate(changed(exp=NOW - 3000), offset_ms=offset_ms)
        with self.assertRaises(ProviderError):
            self.validate(changed(exp=NOW - 150), offset_ms=-100_000)
        self.assertEqual(self.validate(GOOD, offset_ms=86_400_000), "player-7")

    @given(
        st.dictionaries(
            st.sampled_from(["iss", "aud", "azp", "exp", "nbf", "iat", "nonce", "sub"]),
            st.none()
            | st.booleans()
            | st.integers()
            | st.floats()
            | st.text(max_size=9)
            | st.lists(st.text(max_size=9)),
            min_size=1,
        ),
        st.none() | st.integers(-(10**12), 10**12),
    )
    def test_any_claims(self, changes: dict[str, object], offset_ms: int | None) -> None:
        """Whatever is claimed ends in a subject of ASCII text or a ProviderFailure; nothing else escapes."""
        try:
            subject = self.validate(GOOD | changes, offset_ms)
        except ProviderFailure:
            return
        self.assertTrue(subject.isascii() and subject == (GOOD | changes)["sub"])
        self.assertEqual((GOOD | changes)["iss"], ISSUER)
        self.assertEqual((GOOD | changes)["nonce"], NONCE)

    @covers("threats/23")
    def test_causes_are_ours(self) -> None:
        """No cause quotes a token: neither its claims nor its header come back."""
        for token in (RSA.sign(changed(iss="LEAK")), RSA.sign(GOOD, alg="LEAK"), RSA.sign(GOOD, kid="LEAK")):
            with self.assertRaises(ProviderError) as refused:
                passed(token)
            self.assertNotIn("LEAK", str(refused.exception))
