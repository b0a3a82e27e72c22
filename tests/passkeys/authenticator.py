"""An authenticator in software (WebAuthn Level 2, 6), whose responses a test can spoil one by one."""

import json
from base64 import urlsafe_b64decode
from hashlib import sha256
from struct import pack
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ec import (
    ECDSA,
    SECP256R1,
    EllipticCurvePrivateKey,
    generate_private_key,
)
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from fido2 import cbor
from fido2.cose import ES256, RS256, EdDSA

from gamed.crypto import base64url

UP, UV, BE, BS, AT, ED = 0x01, 0x04, 0x08, 0x10, 0x40, 0x80
PrivateKey = EllipticCurvePrivateKey | Ed25519PrivateKey | RSAPrivateKey
ORIGIN, RP_ID = "https://game.example", "game.example"


class Authenticator:
    """A device with one passkey at most; `counts` is False for synced passkeys, which do not count."""

    def __init__(self, *, counts: bool = True, flags: int = UP | UV, key: PrivateKey | None = None) -> None:
        """Use `key` for ES256, EdDSA or RS256, or a new one for ES256."""
        self.key = key or generate_private_key(SECP256R1())
        self.public_key = _cose(self.key)
        self.credential_id = sha256(self.public_key).digest()
        self.user_handle = b""
        self.count = 0
        self.counts, self.flags = counts, flags

    def create(self, options: str, **spoilt: Any) -> dict[str, str]:
        """Return the fields of a form with a new credential; `spoilt` replaces parts of the response."""
        public = json.loads(options)["publicKey"]
        self.user_handle = _bytes(public["user"]["id"])
        public_key = spoilt.get("public_key", self.public_key)
        credential = bytes(16) + pack(">H", len(self.credential_id)) + self.credential_id + public_key
        data = self._head(AT, spoilt) + credential
        attestation = cbor.encode({"fmt": "none", "attStmt": {}, "authData": data})
        return {
            "client_data": base64url(self._client_data("webauthn.create", public["challenge"], spoilt)),
            "attestation": base64url(spoilt.get("attestation", attestation)),
        }

    def get(self, options: str, **spoilt: Any) -> dict[str, str]:
        """Return the fields of a form with a signed challenge; `spoilt` replaces parts of the response."""
        public = json.loads(options)["publicKey"]
        client_data = self._client_data("webauthn.get", public["challenge"], spoilt)
        data = self._head(0, spoilt) + spoilt.get("more", b"")
        signature = _sign(self.key, data + sha256(client_data).digest())
        return {
            "credential_id": base64url(spoilt.get("credential_id", self.credential_id)),
            "client_data": base64url(client_data),
            "authenticator_data": base64url(data),
            "signature": base64url(spoilt.get("signature", signature)),
            "user_handle": base64url(spoilt.get("user_handle", self.user_handle)),
        }

    def _head(self, more_flags: int, spoilt: dict[str, Any]) -> bytes:
        self.count += self.counts
        flags = spoilt.get("flags", self.flags) | more_flags
        rp_id_hash = sha256(spoilt.get("rp_id", RP_ID).encode()).digest()
        return rp_id_hash + pack(">BI", flags, spoilt.get("count", self.count))

    def _client_data(self, kind: str, challenge: str, spoilt: dict[str, Any]) -> bytes:
        members = {"type": kind, "challenge": challenge, "origin": ORIGIN, "crossOrigin": False}
        members |= spoilt.get("client_data", {})
        return json.dumps(members).encode()


def _cose(key: PrivateKey) -> bytes:
    if isinstance(key, EllipticCurvePrivateKey):
        return cbor.encode(ES256.from_cryptography_key(key.public_key()))
    if isinstance(key, Ed25519PrivateKey):
        return cbor.encode(EdDSA.from_cryptography_key(key.public_key()))
    return cbor.encode(RS256.from_cryptography_key(key.public_key()))


def _sign(key: PrivateKey, data: bytes) -> bytes:
    if isinstance(key, EllipticCurvePrivateKey):
        return key.sign(data, ECDSA(SHA256()))
    return key.sign(data) if isinstance(key, Ed25519PrivateKey) else key.sign(data, PKCS1v15(), SHA256())


def _bytes(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))
