"""These builders make keys and tokens as a provider does, and as an attacker does: a test sets every part."""

import hmac
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from json import dumps
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, SECP256R1, SECP384R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key as generate_rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from msgspec import Struct

from gamed.crypto import base64url

CLIENT_ID = "client:7"


def claims_of(issuer: str, now: int, nonce: str) -> dict[str, object]:
    """Return the claims of a valid ID token."""
    times = {"iat": now, "exp": now + 3600}
    return {"iss": issuer, "aud": CLIENT_ID, "sub": "player-7", "nonce": nonce, **times}


def compact(header: object, claims: object, signature: bytes = b"x") -> str:
    """Join three parts to a token."""
    return ".".join(map(base64url, (dumps(header).encode(), dumps(claims).encode(), signature)))


class Signer(Struct, frozen=True):
    """A private key, with the `kid` of its public key."""

    kid: str | None
    alg: str
    private: Any
    public: Mapping[str, object]

    def sign(self, claims: object, **header: object) -> str:
        """`header` adds to or replaces `alg`, `kid` and `typ`; None leaves one out."""
        members = {"alg": self.alg, "kid": self.kid, "typ": "JWT"} | header
        message = compact({name: value for name, value in members.items() if value is not None}, claims)
        message = message.rpartition(".")[0]
        return f"{message}.{base64url(self.signature(message.encode()))}"

    def signature(self, message: bytes) -> bytes:
        if self.alg == "ES256":
            numbers = decode_dss_signature(self.private.sign(message, ECDSA(SHA256())))
            size = (self.private.curve.key_size + 7) // 8
            return b"".join(number.to_bytes(size, "big") for number in numbers)
        signed: bytes = self.private.sign(message, PKCS1v15(), SHA256())
        return signed


def hs256(claims: object, key: bytes, **header: object) -> str:
    """Signed with a shared secret, or with what is public."""
    message = compact({"alg": "HS256", "typ": "JWT", **header}, claims).rpartition(".")[0]
    return f"{message}.{base64url(hmac.new(key, message.encode(), sha256).digest())}"


def rsa(kid: str | None, bits: int = 2048) -> Signer:
    private = _rsa(kid or "", bits)
    numbers = private.public_key().public_numbers()
    public = {"kty": "RSA", "use": "sig", "alg": "RS256", "n": _number(numbers.n), "e": _number(numbers.e)}
    return Signer(kid, "RS256", private, public if kid is None else {**public, "kid": kid})


def ec(kid: str | None, curve: Any = SECP256R1) -> Signer:
    private = generate_private_key(curve())
    numbers, size = private.public_key().public_numbers(), (curve.key_size + 7) // 8
    name = {SECP256R1: "P-256", SECP384R1: "P-384"}[curve]
    point = {"x": base64url(numbers.x.to_bytes(size, "big")), "y": base64url(numbers.y.to_bytes(size, "big"))}
    public = {"kty": "EC", "use": "sig", "crv": name, **point}
    return Signer(kid, "ES256", private, public if kid is None else {**public, "kid": kid})


@cache
def _rsa(_kid: str, bits: int) -> Any:
    return generate_rsa(65537, bits)


def _number(value: int) -> str:
    return base64url(value.to_bytes((value.bit_length() + 7) // 8, "big"))


RSA = rsa("rsa-1")
RSA_NEW = rsa("rsa-2")
ES = ec("ec-1")
