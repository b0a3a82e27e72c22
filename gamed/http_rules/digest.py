"""Digests on the wire (RFC 9530); pure."""

from base64 import b64encode


def sha256_field(sha256: bytes) -> str:
    """The value of Repr-Digest."""
    return f"sha-256=:{b64encode(sha256).decode()}:"
