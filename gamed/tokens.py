"""The form of every credential and public id (PROTOCOL 1): refused by shape before a database is asked."""

from binascii import b2a_base64, crc32
from enum import StrEnum
from re import ASCII, compile

from gamed.crypto import Secret

ENTROPY_BYTES = 32
ID_BYTES = 16
_BODY = compile(r"[A-Za-z0-9_-]{43}", ASCII)
_URL_SAFE = bytes.maketrans(b"+/", b"-_")


class TokenMalformed(Exception):
    """Wrong prefix, length, alphabet or checksum."""


class Kind(StrEnum):
    """What a credential opens, as its prefix says."""

    DEVICE_SECRET = "gds_"
    ACCESS_TOKEN = "gat_"
    REFRESH_CREDENTIAL = "grc_"


def base64url(raw: bytes) -> str:
    """RFC 4648 5, without padding."""
    return b2a_base64(raw, newline=False).rstrip(b"=").translate(_URL_SAFE).decode()


def mint(kind: Kind, entropy: bytes) -> Secret:
    """Prefix, 43 characters of 32 random bytes, 6 characters of CRC-32 over both."""
    text = kind.value + base64url(entropy)
    return Secret((text + checksum(text)).encode())


def parse(kind: Kind, text: str) -> Secret:
    """The credential, or TokenMalformed; says nothing about whether it was ever issued."""
    prefix, body, check = text[:4], text[4:47], text[47:]
    if prefix != kind or not _BODY.fullmatch(body) or check != checksum(prefix + body):
        raise TokenMalformed(f"not of the form {kind.value}...")
    return Secret(text.encode())


def checksum(text: str) -> str:
    """6 base64url characters that catch a slip of the keyboard, not an attacker."""
    return base64url(crc32(text.encode()).to_bytes(4, "big"))


def public_id(prefix: str, raw: bytes) -> str:
    """An id that may be shown: `ply_`, `ses_`, `lgn_` and 22 base64url characters of 16 random bytes."""
    return f"{prefix}_{base64url(raw[:ID_BYTES])}"
