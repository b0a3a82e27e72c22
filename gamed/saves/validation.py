"""This module validates what a client sends with a save: slot name, Content-Type, Save-Meta, digest, blank bodies.

The sources are PROTOCOL 4.1, RFC 9110 8.3 (media types) and RFC 9530 (digests).
"""

from binascii import Error, a2b_base64
from re import ASCII, compile
from typing import Final

from msgspec import Struct

from gamed.saves.errors import BadMeta, BlankSave, DigestMismatch, InvalidSaveRequest, InvalidSlot
from gamed.strict_json import JsonMalformed, parse_object

_DIGEST_MEMBER: Final = compile(r"[ \t]*([a-z*][a-z0-9_.*-]*)=:([A-Za-z0-9+/=]*):[ \t]*", ASCII)
_SHA256_BYTES = 32
MAX_DIGEST_LENGTH = 1024
"""Characters of a Content-Digest, enough for eight of the longest digests."""
_DIGEST_HELP = "Send Content-Digest: sha-256=:<Base64 of the 32 bytes of SHA-256>:"


def parse_content_digest(text: str | None) -> bytes | None:
    """Return the 32 bytes of `sha-256=:...:`, or None without one; raise DigestMismatch.

    Other algorithms are ignored (RFC 9530 2).
    """
    if text is None:
        return None
    members = (
        [_DIGEST_MEMBER.fullmatch(member) for member in text.split(",")] if len(text) <= MAX_DIGEST_LENGTH else [None]
    )
    if not all(members):
        raise DigestMismatch(f"Content-Digest cannot be read. {_DIGEST_HELP}, or leave it out.")
    digests = {member[1]: member[2] for member in members if member}  # the last of a name counts (RFC 8941 3.2)
    encoded = digests.get("sha-256")
    if encoded is None:
        return None
    try:
        digest = a2b_base64(encoded, strict_mode=True)
    except Error:
        digest = b""
    if len(digest) != _SHA256_BYTES:
        raise DigestMismatch(
            f"The sha-256 of Content-Digest is not 32 bytes in Base64. {_DIGEST_HELP}, or leave it out."
        )
    return digest


def check_digest(expected: bytes | None, received: bytes) -> None:
    """Compare the SHA-256 of the received bytes with that of Content-Digest, if there is one; raise DigestMismatch."""
    if expected is not None and expected != received:
        raise DigestMismatch("Other bytes arrived than Content-Digest says; nothing was stored. Send it again.")


_SHA256_HEX: Final = compile(r"[0-9a-f]{64}", ASCII)


def parse_sha256(text: str) -> bytes | None:
    """Return the bytes of 64 lower-case hex digits, or None if the text is anything else."""
    return bytes.fromhex(text) if _SHA256_HEX.fullmatch(text) else None


_META_FORM = "Save-Meta is one line of ASCII with a JSON object, other characters as \\uXXXX"


def check_meta(text: str | None, max_bytes: int) -> str | None:
    """Return the Save-Meta object as it was sent, or None without one; raise BadMeta."""
    if text is None:
        return None
    if len(text) > max_bytes:
        raise BadMeta(f"Save-Meta is {len(text)} bytes; at most {max_bytes} are kept.")
    if not text.isascii() or not text.isprintable():
        raise BadMeta(f"{_META_FORM}: there are other characters in it.")
    try:
        parse_object(text.encode(), whole_number=_parse_integer)
    except JsonMalformed as e:
        raise BadMeta(f"{_META_FORM}; this is {e}.") from None
    return text


def _parse_integer(digits: str) -> int:
    """Parse an integer of at most 64 bits; larger ones, which Python accepts, few clients could read back."""
    if len(digits) > 20 or not -(2**63) <= int(digits) < 2**64:
        raise JsonMalformed("not for everyone to read: a number is too large")
    return int(digits)


DEFAULT_MEDIA_TYPE = "application/octet-stream"
MAX_MEDIA_TYPE_LENGTH = 255
_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]++"
_QUOTED = r'"(?:[\t \x21\x23-\x5b\x5d-\x7e]|\\[\t \x21-\x7e])*+"'
_MEDIA_TYPE: Final = compile(rf"{_TOKEN}/{_TOKEN}(?:[ \t]*+;[ \t]*+(?:{_TOKEN}=(?:{_TOKEN}|{_QUOTED}))?+)*+", ASCII)
"""All quantifiers are possessive: with `*`, the white space around n empty parameters would match in 2**n ways."""


def check_media_type(text: str | None) -> str:
    """Return the media type as it was sent, or the default one without it; raise InvalidSaveRequest."""
    if text is None:
        return DEFAULT_MEDIA_TYPE
    if len(text) > MAX_MEDIA_TYPE_LENGTH or not _MEDIA_TYPE.fullmatch(text):
        raise InvalidSaveRequest(
            f"Content-Type is not a media type such as {DEFAULT_MEDIA_TYPE} (at most {MAX_MEDIA_TYPE_LENGTH} "
            "characters); send one, or leave it out."
        )
    return text


_SLOT_NAME: Final = compile(r"[a-z0-9][a-z0-9._-]{0,63}", ASCII)
_NUMBERED: Final = frozenset(f"{port}{digit}" for port in ("com", "lpt") for digit in "0123456789")
DEVICES: Final = frozenset({"con", "prn", "aux", "nul"}) | _NUMBERED
"""Names that Windows reserves for devices, also with an extension: an exported file could not have them."""


def check_slot(name: str) -> str:
    """Return the slot's name unchanged; raise InvalidSlot if it does not suit every file system."""
    if not _SLOT_NAME.fullmatch(name) or name.endswith("."):
        raise InvalidSlot(
            "A slot's name is 1 to 64 of a-z 0-9 . _ - (lower case), begins with a letter or digit and does not end "
            "in a dot, such as auto or slot-1.sav."
        )
    if name.partition(".")[0] in DEVICES:
        raise InvalidSlot("This is the name of a device on Windows, where no file can have it. Choose another name.")
    return name


class BlankDetector(Struct):
    """A check of a body that arrives in pieces: it is blank while it has only zero bytes, or no bytes."""

    blank: bool = True

    def feed(self, data: bytes) -> None:
        """Examine the next piece of the body."""
        if self.blank and data:
            self.blank = not data[0] and data.count(0) == len(data)

    def check(self, size: int, *, allowed: bool) -> None:
        """Raise BlankSave if all `size` bytes of the body are zero; `allowed` turns the check off."""
        if self.blank and not allowed:
            seen = "holds only zero bytes" if size else "is empty"
            raise BlankSave(
                f"The body {seen}, as after a crash while saving. Nothing was stored and the save on the server is "
                "as it was; to remove it, DELETE it."
            )
