"""Credentials and public ids have a fixed form: a malformed one is rejected without a database read.

See docs/protocol.md: Conventions.
"""

from binascii import b2a_base64, crc32
from enum import StrEnum
from re import ASCII, compile

from gamed.crypto import Secret

ENTROPY_BYTES = 32
ID_BYTES = 16
_REST = compile(r"[A-Za-z0-9_-]{49}", ASCII)
"""The body and the checksum, which follow the prefix."""
_URL_SAFE = bytes.maketrans(b"+/", b"-_")


class MalformedToken(Exception):
    """A text with a wrong prefix, length, alphabet or checksum."""


class TokenType(StrEnum):
    """The type of a credential, which is also its prefix."""

    DEVICE_SECRET = "gds_"
    ACCESS_TOKEN = "gat_"
    REFRESH_CREDENTIAL = "grc_"
    BROWSER_SESSION = "gbs_"


def base64url(raw: bytes) -> str:
    """Encode bytes with the URL-safe alphabet of RFC 4648 section 5, without padding."""
    return b2a_base64(raw, newline=False).rstrip(b"=").translate(_URL_SAFE).decode()


def generate_token(kind: TokenType, entropy: bytes) -> Secret:
    """Return a credential: the prefix, 43 characters of 32 bytes, 6 characters of CRC-32 over both."""
    raw = (kind + base64url(entropy)).encode()
    return Secret(raw + checksum(raw))


def parse_token(kind: TokenType, text: str) -> Secret:
    """Return a well-formed credential, whether or not it was ever issued; raise MalformedToken."""
    raw = text.encode() if text.startswith(kind) and _REST.fullmatch(text, 4) else b""
    if not raw or raw[47:] != checksum(raw[:47]):
        raise MalformedToken(f"not of the form {kind.value}...")
    return Secret(raw)


def checksum(raw: bytes) -> bytes:
    """Return 6 base64url characters that detect a mistyped credential; they are not a protection against attackers."""
    return b2a_base64(crc32(raw).to_bytes(4, "big"), newline=False)[:6].translate(_URL_SAFE)


def public_id(prefix: str, raw: bytes) -> str:
    """Return an id that may be shown: `ply_`, `ses_` or `lgn_` and 22 base64url characters of 16 random bytes."""
    return f"{prefix}_{base64url(raw[:ID_BYTES])}"
