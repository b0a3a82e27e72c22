"""An ID token is validated in order: form and header, signature, then every claim (OIDC Core 1.0 3.1.3.7).

Each step uses only what an earlier one has validated, and no error text quotes a token. The provider's public keys are
those of RFC 7517 and RFC 7518 6.
"""

from base64 import urlsafe_b64decode
from collections.abc import Mapping
from hmac import compare_digest
from re import ASCII, compile

from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, RSAKey
from msgspec import Struct

from gamed.crypto import Secret, base64url
from gamed.providers.base import ProviderError, ServerClockSkew
from gamed.providers.discovery import tenant_of, text_of
from gamed.providers.messages import MAX_DEPTH
from gamed.strict_json import JsonMalformed, parse_object
from gamed.structs import redacts

Key = RSAKey | ECKey
RSA_BITS = range(2048, 4097)
MAX_EXPONENT_BITS = 64
"""With 4096 bits and the usual exponent of 17 bits a signature takes 0.2 ms to verify, with one of 64 bits 0.7 ms.

All is verified in the reactor's thread, so a provider must not choose how long that takes.
"""
COORDINATE_BYTES = 32  # of a point of P-256, with leading zeros (RFC 7518 6.2.1.2)
_OPENID = compile(r"[!-~](?:[ -~]{0,253}[!-~])?", ASCII)


class KeyUnknown(ProviderError):
    """A token whose key is not in the cached set, or is ambiguous; a newer set may have it."""


@redacts("key")
class SigningKey(Struct, frozen=True):
    """A public key that verifies signatures of `algorithm`."""

    kid: str | None
    algorithm: str
    key: Key
    issuer: str | None = None
    """The issuer for whose tokens the key is, or the template of them; only a provider with tenants has it."""
    cloud: str | None = None
    """The cloud for whose tokens the key is (see gamed.providers.discovery.Metadata)."""


def validate_keys(document: Mapping[str, object]) -> tuple[SigningKey, ...]:
    """Return the usable keys of a JWK set and ignore the others; raise ProviderError if there is none."""
    listed = document.get("keys")
    if not isinstance(listed, list):
        raise ProviderError("jwks_uri: keys is not a list")
    keys = tuple(key for key in map(_validate_key, listed) if key is not None)
    if not keys:
        raise ProviderError("jwks_uri: not one usable key, which is RSA of 2048 to 4096 bits or EC P-256")
    return keys


def find_key(keys: tuple[SigningKey, ...], algorithm: str, kid: str | None) -> SigningKey:
    """Return the key that a header names, or the only one if it has no `kid` (OIDC Core 10.1); raise KeyUnknown."""
    if kid is None and len(keys) > 1:
        raise KeyUnknown("ID token: kid is missing, and the provider has several keys")
    found = [key for key in keys if key.algorithm == algorithm and (kid is None or key.kid == kid)]
    if not found:
        raise KeyUnknown("ID token: signed with a key that is not among the provider's usable keys")
    if len(found) > 1:
        raise KeyUnknown("jwks_uri: two keys have the same kid")
    return found[0]


def _validate_key(value: object) -> SigningKey | None:
    """Build a key from its public numbers alone, and ignore certificates, private members and URLs.

    Return None for a key that cannot be used.
    """
    if not isinstance(value, dict) or not _verifies_signatures(value):
        return None
    kid = value.get("kid")  # without one the key serves a provider that has only this key
    if kid is not None and not isinstance(kid, str):
        return None
    limits = text_of(value, "issuer"), text_of(value, "cloud_instance_name")
    try:
        if value.get("kty") == "RSA" and value.get("alg") in (None, "RS256"):
            return SigningKey(kid, "RS256", _rsa(value), *limits)
        if value.get("kty") == "EC" and value.get("alg") in (None, "ES256") and value.get("crv") == "P-256":
            return SigningKey(kid, "ES256", _ec(value), *limits)
    except (JoseError, ValueError):
        pass
    return None


def _verifies_signatures(key: Mapping[str, object]) -> bool:
    operations = key.get("key_ops")
    verifies = operations is None or (isinstance(operations, list) and "verify" in operations)
    return verifies and key.get("use") in (None, "sig")


def _rsa(value: Mapping[str, object]) -> RSAKey:
    modulus, exponent = decode_base64url(value.get("n")), decode_base64url(value.get("e"))
    bits = int.from_bytes(modulus, "big").bit_length()
    if bits not in RSA_BITS or len(exponent) * 8 > MAX_EXPONENT_BITS:
        raise ValueError("size")
    return RSAKey.import_key({"kty": "RSA", "n": str(value["n"]), "e": str(value["e"])})


def _ec(value: Mapping[str, object]) -> ECKey:
    if {len(decode_base64url(value.get(name))) for name in ("x", "y")} != {COORDINATE_BYTES}:
        raise ValueError("size")
    return ECKey.import_key({"kty": "EC", "crv": "P-256", "x": str(value["x"]), "y": str(value["y"])})


SKEW_SECONDS = 120
"""How far two clocks may differ; beyond that it is ServerClockSkew if this machine's clock is the wrong one."""
MAX_AGE_SECONDS = 600
"""Maximum age by `iat`, longer than the lifetime of an authorization code (RFC 6749 4.1.2)."""
MAX_BYTES = 16 * 1024
FORBIDDEN_HEADERS = ("crit", "jwk", "jku", "x5u", "x5c", "b64")
"""Header members by which a token would control its own validation."""


class SignatureWrong(ProviderError):
    """A token that is not signed with the key it names; a newer set of keys may have another one."""


@redacts("nonce")
class ExpectedClaims(Struct, frozen=True):
    """The values that a token's claims must have."""

    issuers: frozenset[str]
    client_id: str
    nonce: str | None
    asked_ms: int | None = None
    """When the browser was sent to a provider that should ask again, by our clock; None for any other sign-in."""


class UnverifiedToken(Struct, frozen=True):
    """A token whose form and header are valid, and whose signature is not verified yet."""

    token: Secret
    algorithm: str
    kid: str | None


class _Registry(jws.JWSRegistry):
    """A registry that ignores unknown header members (RFC 7515 4); FORBIDDEN_HEADERS are rejected before."""

    max_header_length = MAX_BYTES


def parse_token(token: Secret, algorithms: frozenset[str]) -> UnverifiedToken:
    """Parse three parts of canonical base64url and validate the header; raise ProviderError."""
    raw = token.reveal()
    if len(raw) > MAX_BYTES:
        raise ProviderError(f"ID token: longer than {MAX_BYTES} bytes")
    try:
        # All parts are decoded for their form alone: a lenient decoder would accept many texts as one token.
        first, _claims, _signature = (decode_base64url(part) for part in raw.decode("ascii").split("."))
        header = parse_object(first, max_depth=MAX_DEPTH)
    except ValueError:
        raise ProviderError("ID token: not three parts in base64url, the first a JSON object") from None
    return _validate_header(token, header, algorithms)


def read_claims(token: UnverifiedToken, keys: tuple[SigningKey, ...]) -> Mapping[str, object]:
    """Verify the signature and return the claims; raise KeyUnknown, SignatureWrong or another ProviderError."""
    key = find_key(keys, token.algorithm, token.kid).key
    registry = _Registry(algorithms=[token.algorithm], strict_check_header=False)
    try:
        signed = jws.deserialize_compact(token.token.reveal(), key, registry=registry)
    except (JoseError, ValueError):
        raise SignatureWrong("ID token: the signature does not fit the provider's key") from None
    try:
        return parse_object(signed.payload, max_depth=MAX_DEPTH)
    except JsonMalformed as e:
        raise ProviderError(f"ID token: the claims are {e}") from None


def validate_claims(claims: Mapping[str, object], expected: ExpectedClaims, now_ms: int, offset_ms: int | None) -> str:
    """Validate all claims and return the subject; `offset_ms` is the provider's clock minus ours, if known.

    Raise ServerClockSkew if the token is valid but for this machine's clock, ProviderError otherwise.
    """
    if not _is_one_of(claims.get("iss"), expected.issuers):
        raise ProviderError("ID token: iss is another issuer")
    _validate_audience(claims, expected.client_id)
    _validate_times(claims, now_ms, offset_ms)
    nonce = claims.get("nonce")
    given = nonce.encode("utf-8", "surrogatepass") if isinstance(nonce, str) else b""
    if not expected.nonce or not compare_digest(given, expected.nonce.encode()):
        raise ProviderError("ID token: nonce is not the one of this sign-in")
    if expected.asked_ms is not None:
        _validate_asked(claims, (expected.asked_ms + (offset_ms or 0)) / 1000)
    return openid_subject(claims.get("sub"))


def validate_tenant(
    claims: Mapping[str, object], issuer: str, cloud: str | None, key: SigningKey, template: str
) -> str:
    """Return the tenant whose issuer a token has, a GUID; raise ProviderError.

    `issuer` and `cloud` are those of the metadata: of one tenant, or the template. A key of one tenant is for no
    other's tokens: a key of personal accounts must not sign for an organization (Microsoft: Access tokens, Validate the
    issuer).
    """
    iss = claims.get("iss")
    tenant = tenant_of(iss, template)
    if tenant is None or issuer not in (template, iss):
        raise ProviderError("ID token: iss is another issuer")
    # `iss` is signed and names the tenant already; a token without `tid`, which Microsoft's documentation once bound to
    # the scope `profile`, is as good.
    if claims.get("tid", tenant) != tenant:
        raise ProviderError("ID token: tid is not the tenant of iss")
    if key.issuer not in (template, iss):
        raise ProviderError("ID token: signed with a key that is for another issuer")
    if None not in (key.cloud, cloud) and key.cloud != cloud:  # the keys of all clouds are in one set
        raise ProviderError("ID token: signed with a key that is for another cloud")
    return tenant


def openid_subject(value: object) -> str:
    """Return `sub` of an ID token, 1 to 255 printable ASCII characters (OIDC Core 2); raise ProviderError."""
    if not isinstance(value, str) or not _OPENID.fullmatch(value):
        raise ProviderError("ID token: sub is not 1 to 255 ASCII characters")
    return value


def _validate_header(token: Secret, header: Mapping[str, object], algorithms: frozenset[str]) -> UnverifiedToken:
    for name in FORBIDDEN_HEADERS:
        if name in header:
            raise ProviderError(f"ID token: {name} in its header")
    algorithm, kid, kind = header.get("alg"), header.get("kid"), header.get("typ", "JWT")
    if not _is_one_of(algorithm, algorithms):
        listed = " or ".join(sorted(algorithms))
        raise ProviderError(f"ID token: alg is not {listed}; choose that for this client at the provider")
    if not isinstance(kind, str) or kind.upper() != "JWT":
        raise ProviderError("ID token: typ is not JWT")
    if "kid" in header and not isinstance(kid, str):
        raise ProviderError("ID token: kid is not text")
    return UnverifiedToken(token, str(algorithm), kid if isinstance(kid, str) else None)


def _validate_audience(claims: Mapping[str, object], client_id: str) -> None:
    """Raise ProviderError unless this client is the only audience, and `azp`, if present, names it too.

    OpenID Connect Core 3.1.3.7 (3) rejects a token with an audience that the client does not trust. This server trusts
    itself alone, so `azp` can never make further audiences acceptable; (5) only lets it confirm the one.
    """
    audience = claims.get("aud")
    listed = [audience] if isinstance(audience, str) else audience
    if not isinstance(listed, list) or client_id not in listed:
        raise ProviderError("ID token: aud is another client; check client_id")
    if len(listed) > 1:
        raise ProviderError("ID token: aud names other clients beside this one, which are not trusted")
    if claims.get("azp", client_id) != client_id:
        raise ProviderError("ID token: azp is another client; check client_id")


def _validate_times(claims: Mapping[str, object], now_ms: int, offset_ms: int | None) -> None:
    times = {name: _seconds(name, claims) for name in ("exp", "iat", "nbf") if name in claims or name != "nbf"}
    wrong = _out_of_time(times, now_ms / 1000)
    if wrong is None:
        return
    skewed = offset_ms is not None and abs(offset_ms) > SKEW_SECONDS * 1000
    if skewed and offset_ms is not None and _out_of_time(times, (now_ms + offset_ms) / 1000) is None:
        seconds, direction = abs(offset_ms) // 1000, "behind" if offset_ms > 0 else "ahead of"
        raise ServerClockSkew(f"ID token: this machine's clock is {seconds} s {direction} the provider's; correct it")
    raise ProviderError(f"ID token: {wrong}")


def _validate_asked(claims: Mapping[str, object], asked: float) -> None:
    """Check that the player has signed in there since `asked`, in seconds of the provider's clock.

    A browser that took max_age out of the URL brings a token without the claim, or an old one.
    """
    if "auth_time" not in claims or _seconds("auth_time", claims) < asked - SKEW_SECONDS:
        raise ProviderError(
            "ID token: auth_time does not show that the provider asked the player again; if it never does, set "
            'reauthentication to "prompt"'
        )


def _seconds(name: str, claims: Mapping[str, object]) -> float:
    """Return a NumericDate (RFC 7519 2); raise ProviderError."""
    value = claims.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 2**53:
        raise ProviderError(f"ID token: {name} is not a timestamp")
    return float(value)


def _out_of_time(times: Mapping[str, float], now: float) -> str | None:
    """Return why a token is not valid for a clock at `now` seconds, with the skew allowed; None if it is."""
    if now >= times["exp"] + SKEW_SECONDS:
        return "exp has passed"
    if now < times["iat"] - SKEW_SECONDS or now < times.get("nbf", 0) - SKEW_SECONDS:
        return "iat or nbf is in the future"
    if now > times["iat"] + MAX_AGE_SECONDS + SKEW_SECONDS:
        return "iat is too old"
    return None


def _is_one_of(value: object, allowed: frozenset[str]) -> bool:
    return isinstance(value, str) and value in allowed


_ALPHABET = compile(r"[A-Za-z0-9_-]+", ASCII)


def decode_base64url(text: object) -> bytes:
    """Decode at least one byte of base64url without padding (RFC 7515 2).

    Raise ValueError for other text, also for the non-canonical spellings that a lenient decoder accepts.
    """
    if not isinstance(text, str) or not _ALPHABET.fullmatch(text):
        raise ValueError("not base64url")
    raw = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if base64url(raw) != text:
        raise ValueError("not canonical base64url")
    return raw
