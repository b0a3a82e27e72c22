"""base64url as JWS and JWK write it: no padding, one spelling per value (RFC 7515 2)."""

from base64 import urlsafe_b64decode
from re import ASCII, compile

from gamed.tokens import base64url

_ALPHABET = compile(r"[A-Za-z0-9_-]+", ASCII)


def decode(text: object) -> bytes:
    """The bytes, at least one, or ValueError; also for the other spellings that a lenient reader takes."""
    if not isinstance(text, str) or not _ALPHABET.fullmatch(text):
        raise ValueError("not base64url")
    raw = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if base64url(raw) != text:
        raise ValueError("not canonical base64url")
    return raw
