"""A provider's public keys, and the one that a token's header means (RFC 7517, 7518 6)."""

from collections.abc import Mapping

from joserfc.errors import JoseError
from joserfc.jwk import ECKey, RSAKey
from msgspec import Struct

from gamed.identity.base64url import decode
from gamed.identity.provider import ProviderError
from gamed.structs import hides

Key = RSAKey | ECKey
RSA_BITS = range(2048, 4097)
MAX_EXPONENT_BITS = 64
COORDINATE_BYTES = 32
FAMILIES = {"RS256": "RSA", "ES256": "EC"}
"""`kty` by `alg`; ES256 is P-256 and nothing else (RFC 7518 3.4)."""


class KeyUnknown(ProviderError):
    """No such key in the set in hand, or no way to tell which; a newer set may be clearer."""


@hides("key")
class SigningKey(Struct, frozen=True):
    """One key that signatures of `algorithm` can be checked with."""

    kid: str | None
    algorithm: str
    key: Key


def judge_keys(document: Mapping[str, object]) -> tuple[SigningKey, ...]:
    """Every usable key of a JWK set; the others are as if they were not there. ProviderError if none is left."""
    listed = document.get("keys")
    if not isinstance(listed, list):
        raise ProviderError("jwks_uri: no list of keys")
    keys = tuple(key for key in map(_judge_key, listed) if key is not None)
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


def _judge_key(value: object) -> SigningKey | None:
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
