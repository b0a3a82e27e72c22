"""The form of every credential and public id (PROTOCOL 1): refused by shape before a database is asked."""

from binascii import b2a_base64, crc32
from enum import StrEnum
from re import ASCII, compile

from gamed.crypto import Secret

ENTROPY_BYTES = 32
ID_BYTES = 16
_REST = compile(r"[A-Za-z0-9_-]{49}", ASCII)
"""Body and checksum, behind the prefix."""
_URL_SAFE = bytes.maketrans(b"+/", b"-_")


class MalformedToken(Exception):
    """Wrong prefix, length, alphabet or checksum."""


class TokenType(StrEnum):
    """What a credential opens, as its prefix says."""

    DEVICE_SECRET = "gds_"
    ACCESS_TOKEN = "gat_"
    REFRESH_CREDENTIAL = "grc_"


def base64url(raw: bytes) -> str:
    """RFC 4648 5, without padding."""
    return b2a_base64(raw, newline=False).rstrip(b"=").translate(_URL_SAFE).decode()


def generate_token(kind: TokenType, entropy: bytes) -> Secret:
    """Prefix, 43 characters of 32 random bytes, 6 characters of CRC-32 over both."""
    raw = (kind + base64url(entropy)).encode()
    return Secret(raw + checksum(raw))


def parse_token(kind: TokenType, text: str) -> Secret:
    """The credential, or TokenMalformed; says nothing about whether it was ever issued."""
    raw = text.encode() if text.startswith(kind) and _REST.fullmatch(text, 4) else b""
    if not raw or raw[47:] != checksum(raw[:47]):
        raise MalformedToken(f"not of the form {kind.value}...")
    return Secret(raw)


def checksum(raw: bytes) -> bytes:
    """6 base64url characters that catch a slip of the keyboard, not an attacker."""
    return b2a_base64(crc32(raw).to_bytes(4, "big"), newline=False)[:6].translate(_URL_SAFE)


def public_id(prefix: str, raw: bytes) -> str:
    """An id that may be shown: `ply_`, `ses_`, `lgn_` and 22 base64url characters of 16 random bytes."""
    return f"{prefix}_{base64url(raw[:ID_BYTES])}"
