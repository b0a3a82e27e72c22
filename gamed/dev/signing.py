"""ID tokens and the keys to check them with (OpenID Connect Core 2, RFC 7517)."""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from joserfc import jwt
from joserfc.jwk import RSAKey

from gamed.tokens import base64url

TOKEN_SECONDS = 3600


def new_key(kid: str) -> RSAKey:
    """RSA of 2048 bits."""
    return RSAKey.generate_key(2048, {"kid": kid, "use": "sig", "alg": "RS256"})


def key_set(key: RSAKey) -> dict[str, Any]:
    """The public half as a JWKS document."""
    return {"keys": [key.as_dict(private=False)]}


def sign(key: RSAKey, claims: Mapping[str, Any]) -> str:
    """Compact form, RS256."""
    return jwt.encode({"alg": "RS256", "kid": key.kid}, dict(claims), key, algorithms=["RS256"])


def claims(*, issuer: str, client_id: str, subject: str, nonce: str, access_token: str, now_ms: int) -> dict[str, Any]:
    """As Google fills them for the scope `openid`."""
    now = now_ms // 1000
    half = sha256(access_token.encode()).digest()[:16]
    return {
        "iss": issuer,
        "azp": client_id,
        "aud": client_id,
        "sub": subject,
        "at_hash": base64url(half),
        "nonce": nonce,
        "iat": now,
        "exp": now + TOKEN_SECONDS,
    }
