"""The parts of a ticket, and tickets that the server would not sign."""

import json
from base64 import urlsafe_b64decode
from collections.abc import Mapping
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from gamed.crypto import base64url


def parts(ticket: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the header and the claims of a ticket, not verified."""
    first, second, _ = ticket.split(".")
    return json.loads(decoded(first)), json.loads(decoded(second))


def decoded(part: str) -> bytes:
    return urlsafe_b64decode(part + "=" * (-len(part) % 4))


def verified(ticket: str, keys: list[dict[str, str]]) -> dict[str, Any]:
    """Return the claims after verifying the signature with cryptography alone; raise InvalidSignature."""
    header, claims = parts(ticket)
    [key] = [key for key in keys if key["kid"] == header["kid"]]
    signed, _, signature = ticket.rpartition(".")
    Ed25519PublicKey.from_public_bytes(decoded(key["x"])).verify(decoded(signature), signed.encode())
    return claims


def sign(header: Mapping[str, object], claims: Mapping[str, object], key: Ed25519PrivateKey) -> str:
    """Return a token that is signed by Ed25519, whatever its header says."""
    signed = ".".join(base64url(json.dumps(part).encode()) for part in (header, claims))
    return f"{signed}.{base64url(key.sign(signed.encode()))}"
