"""base64url as JWS and JWK write it: no padding, one spelling per value (RFC 7515 2).

A provider's public keys, and the one that a token's header means (RFC 7517, 7518 6).

The gate an ID token passes: form and header first, then the signature, then every claim (OIDC Core 1.0 3.1.3.7).

Nothing of a token is believed before the step in front of it is done, and no cause quotes a token.
"""

from base64 import urlsafe_b64decode
from collections.abc import Mapping
from hmac import compare_digest
from re import ASCII, compile

from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, RSAKey
from msgspec import Struct

from gamed.crypto import Secret
from gamed.providers.base import ProviderError, ServerClockSkew, openid_subject
from gamed.providers.messages import MAX_DEPTH
from gamed.strict_json import JsonMalformed, parse_object
from gamed.structs import redacts
from gamed.tokens import base64url

_ALPHABET = compile(r"[A-Za-z0-9_-]+", ASCII)


def decode(text: object) -> bytes:
    """The bytes, at least one, or ValueError; also for the other spellings that a lenient reader takes."""
    if not isinstance(text, str) or not _ALPHABET.fullmatch(text):
        raise ValueError("not base64url")
    raw = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if base64url(raw) != text:
        raise ValueError("not canonical base64url")
    return raw


Key = RSAKey | ECKey
RSA_BITS = range(2048, 4097)
MAX_EXPONENT_BITS = 64
COORDINATE_BYTES = 32
FAMILIES = {"RS256": "RSA", "ES256": "EC"}
"""`kty` by `alg`; ES256 is P-256 and nothing else (RFC 7518 3.4)."""


class KeyUnknown(ProviderError):
    """No such key in the set in hand, or no way to tell which; a newer set may be clearer."""


@redacts("key")
class SigningKey(Struct, frozen=True):
    """One key that signatures of `algorithm` can be checked with."""

    kid: str | None
    algorithm: str
    key: Key


def validate_keys(document: Mapping[str, object]) -> tuple[SigningKey, ...]:
    """Every usable key of a JWK set; the others are as if they were not there. ProviderError if none is left."""
    listed = document.get("keys")
    if not isinstance(listed, list):
        raise ProviderError("jwks_uri: no list of keys")
    keys = tuple(key for key in map(_validate_key, listed) if key is not None)
    if not keys:
        raise ProviderError("jwks_uri: no key that can be used: RSA of 2048 to 4096 bits, or EC P-256")
    return keys


def find_key(keys: tuple[SigningKey, ...], algorithm: str, kid: str | None) -> Key:
    """The key a header names; without `kid` only where there is no choice (OIDC Core 10.1); KeyUnknown."""
    if kid is None and len(keys) > 1:
        raise KeyUnknown("ID token: names no key, and the provider has several")
    found = [key for key in keys if key.algorithm == algorithm and (kid is None or key.kid == kid)]
    if not found:
        raise KeyUnknown("ID token: signed with a key that is not among the provider's usable keys")
    if len(found) > 1:
        raise KeyUnknown("jwks_uri: two keys have the same kid")
    return found[0].key


def _validate_key(value: object) -> SigningKey | None:
    """Made from the public numbers alone: certificates, private members and addresses in a key are not read."""
    if not isinstance(value, dict) or not _for_signatures(value):
        return None
    kid = value.get("kid")
    if kid is not None and not isinstance(kid, str):
        return None
    try:
        if value.get("kty") == "RSA" and value.get("alg") in (None, "RS256"):
            return SigningKey(kid, "RS256", _rsa(value))
        if value.get("kty") == "EC" and value.get("alg") in (None, "ES256") and value.get("crv") == "P-256":
            return SigningKey(kid, "ES256", _ec(value))
    except (JoseError, ValueError):
        pass
    return None


def _for_signatures(key: Mapping[str, object]) -> bool:
    operations = key.get("key_ops")
    verifies = operations is None or (isinstance(operations, list) and "verify" in operations)
    return verifies and key.get("use") in (None, "sig")


def _rsa(value: Mapping[str, object]) -> RSAKey:
    modulus, exponent = decode(value.get("n")), decode(value.get("e"))
    bits = int.from_bytes(modulus, "big").bit_length()
    if bits not in RSA_BITS or len(exponent) * 8 > MAX_EXPONENT_BITS:
        raise ValueError("size")
    return RSAKey.import_key({"kty": "RSA", "n": str(value["n"]), "e": str(value["e"])})


def _ec(value: Mapping[str, object]) -> ECKey:
    if {len(decode(value.get(name))) for name in ("x", "y")} != {COORDINATE_BYTES}:
        raise ValueError("size")
    return ECKey.import_key({"kty": "EC", "crv": "P-256", "x": str(value["x"]), "y": str(value["y"])})


SKEW_SECONDS = 120
MAX_AGE_SECONDS = 600
"""Of `iat`: longer than any authorization code lives (RFC 6749 4.1.2)."""
MAX_BYTES = 16 * 1024
REFUSED_HEADERS = ("crit", "jwk", "jku", "x5u", "x5c", "b64")
"""Each lets a token say how it wants to be checked."""


class SignatureWrong(ProviderError):
    """Not signed with that key; a newer set of keys may hold another one."""


@redacts("nonce")
class ExpectedClaims(Struct, frozen=True):
    """What a token must fit."""

    issuers: frozenset[str]
    client_id: str
    nonce: str | None


class UnverifiedToken(Struct, frozen=True):
    """A token whose form and header are in order; nothing in it is proven yet."""

    token: Secret
    algorithm: str
    kid: str | None


class _Registry(jws.JWSRegistry):
    """Members of a header that nobody knows are ignored (RFC 7515 4); the gate has refused the harmful ones."""

    max_header_length = MAX_BYTES


def parse_token(token: Secret, algorithms: frozenset[str]) -> UnverifiedToken:
    """Three parts of canonical base64url and a header that fits, or ProviderError."""
    raw = token.reveal()
    if len(raw) > MAX_BYTES:
        raise ProviderError(f"ID token: longer than {MAX_BYTES} bytes")
    try:
        first, _claims, _signature = (decode(part) for part in raw.decode("ascii").split("."))
        header = parse_object(first, max_depth=MAX_DEPTH)
    except ValueError:
        raise ProviderError("ID token: not three parts in base64url, the first a JSON object") from None
    return _validate_header(token, header, algorithms)


def read_claims(envelope: UnverifiedToken, keys: tuple[SigningKey, ...]) -> Mapping[str, object]:
    """The claims of a token that one of these keys signed. KeyUnknown, SignatureWrong, ProviderError."""
    key = find_key(keys, envelope.algorithm, envelope.kid)
    registry = _Registry(algorithms=[envelope.algorithm], strict_check_header=False)
    try:
        signed = jws.deserialize_compact(envelope.token.reveal(), key, registry=registry)
    except (JoseError, ValueError):
        raise SignatureWrong("ID token: the signature does not fit the provider's key") from None
    try:
        return parse_object(signed.payload, max_depth=MAX_DEPTH)
    except JsonMalformed as e:
        raise ProviderError(f"ID token: the claims are {e}") from None


def validate_claims(claims: Mapping[str, object], expected: ExpectedClaims, now_ms: int, offset_ms: int | None) -> str:
    """The subject; `offset_ms` is the provider's clock minus ours, as far as it is known.

    ServerClockSkew if only this machine's clock stands in the way, ProviderError for everything else.
    """
    if not _is_one_of(claims.get("iss"), expected.issuers):
        raise ProviderError("ID token: iss is another issuer")
    _validate_audience(claims, expected.client_id)
    _validate_times(claims, now_ms, offset_ms)
    nonce = claims.get("nonce")
    if not isinstance(nonce, str) or not expected.nonce or not _same(nonce, expected.nonce):
        raise ProviderError("ID token: nonce is not the one of this sign-in")
    return openid_subject(claims.get("sub"))


def _validate_header(token: Secret, header: Mapping[str, object], algorithms: frozenset[str]) -> UnverifiedToken:
    for name in REFUSED_HEADERS:
        if name in header:
            raise ProviderError(f"ID token: {name} in its header")
    algorithm, kid, kind = header.get("alg"), header.get("kid"), header.get("typ", "JWT")
    if not _is_one_of(algorithm, algorithms):
        raise ProviderError("ID token: alg is not " + " or ".join(sorted(algorithms)))
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
        seconds, side = abs(offset_ms) // 1000, "behind" if offset_ms > 0 else "ahead of"
        raise ServerClockSkew(f"ID token: this machine's clock is {seconds} s {side} the provider's; set it right")
    raise ProviderError(f"ID token: {wrong}")


def _seconds(name: str, claims: Mapping[str, object]) -> float:
    """NumericDate (RFC 7519 2)."""
    value = claims.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 2**53:
        raise ProviderError(f"ID token: {name} is no point in time")
    return float(value)


def _out_of_time(times: Mapping[str, float], now: float) -> str | None:
    """Which claim a clock at `now` seconds contradicts by more than the skew."""
    if now >= times["exp"] + SKEW_SECONDS:
        return "exp is over"
    if now < times["iat"] - SKEW_SECONDS or now < times.get("nbf", 0) - SKEW_SECONDS:
        return "iat or nbf is yet to come"
    if now > times["iat"] + MAX_AGE_SECONDS + SKEW_SECONDS:
        return "iat is long ago"
    return None


def _is_one_of(value: object, allowed: frozenset[str]) -> bool:
    return isinstance(value, str) and value in allowed


def _same(one: str, other: str) -> bool:
    return compare_digest(one.encode("utf-8", "surrogatepass"), other.encode())
