"""The gate an ID token passes: form and header first, then the signature, then every claim (OIDC Core 1.0 3.1.3.7).

Nothing of a token is believed before the step in front of it is done, and no cause quotes a token.
"""

from collections.abc import Mapping
from hmac import compare_digest

from joserfc import jws
from joserfc.errors import JoseError
from msgspec import Struct

from gamed.crypto import Secret
from gamed.identity.answer import MAX_DEPTH
from gamed.identity.base64url import decode
from gamed.identity.provider import ProviderError, ServerClockSkew
from gamed.identity.signing_keys import SigningKey, find_key
from gamed.identity.subject import openid_subject
from gamed.strict_json import JsonMalformed, parse_object
from gamed.structs import hides

SKEW_SECONDS = 120
MAX_AGE_SECONDS = 600
"""Of `iat`: longer than any authorization code lives (RFC 6749 4.1.2)."""
MAX_BYTES = 16 * 1024
REFUSED_HEADERS = ("crit", "jwk", "jku", "x5u", "x5c", "b64")
"""Each lets a token say how it wants to be checked."""


class SignatureWrong(ProviderError):
    """Not signed with that key; a newer set of keys may hold another one."""


@hides("nonce")
class Expected(Struct, frozen=True):
    """What a token must fit."""

    issuers: frozenset[str]
    client_id: str
    nonce: str | None


class Envelope(Struct, frozen=True):
    """A token whose form and header are in order; nothing in it is proven yet."""

    token: Secret
    algorithm: str
    kid: str | None


class _Registry(jws.JWSRegistry):
    """Members of a header that nobody knows are ignored (RFC 7515 4); the gate has refused the harmful ones."""

    max_header_length = MAX_BYTES


def open_envelope(token: Secret, algorithms: frozenset[str]) -> Envelope:
    """Three parts of canonical base64url and a header that fits, or ProviderError."""
    raw = token.reveal()
    if len(raw) > MAX_BYTES:
        raise ProviderError(f"ID token: longer than {MAX_BYTES} bytes")
    try:
        first, _claims, _signature = (decode(part) for part in raw.decode("ascii").split("."))
        header = parse_object(first, max_depth=MAX_DEPTH)
    except ValueError:
        raise ProviderError("ID token: not three parts in base64url, the first a JSON object") from None
    return _judge_header(token, header, algorithms)


def read_claims(envelope: Envelope, keys: tuple[SigningKey, ...]) -> Mapping[str, object]:
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


def judge_claims(claims: Mapping[str, object], expected: Expected, now_ms: int, offset_ms: int | None) -> str:
    """The subject; `offset_ms` is the provider's clock minus ours, as far as it is known.

    ServerClockSkew if only this machine's clock stands in the way, ProviderError for everything else.
    """
    if not _is_one_of(claims.get("iss"), expected.issuers):
        raise ProviderError("ID token: iss is another issuer")
    _judge_audience(claims, expected.client_id)
    _judge_times(claims, now_ms, offset_ms)
    nonce = claims.get("nonce")
    if not isinstance(nonce, str) or not expected.nonce or not _same(nonce, expected.nonce):
        raise ProviderError("ID token: nonce is not the one of this sign-in")
    return openid_subject(claims.get("sub"))


def _judge_header(token: Secret, header: Mapping[str, object], algorithms: frozenset[str]) -> Envelope:
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
    return Envelope(token, str(algorithm), kid if isinstance(kid, str) else None)


def _judge_audience(claims: Mapping[str, object], client_id: str) -> None:
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


def _judge_times(claims: Mapping[str, object], now_ms: int, offset_ms: int | None) -> None:
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
