"""Digests on the wire (RFC 9530): what a client may send along.

Save-Meta: a small JSON object of the game's own beside the bytes (PROTOCOL 4.1).

The Content-Type of a save: any media type, kept and given back as sent (RFC 9110 8.3).

The names of slots (PROTOCOL 4): the same on every file system a player may export to.

Recognising a blank save while its bytes arrive (PROTOCOL 4.1).
"""

from binascii import Error, a2b_base64
from re import ASCII, compile
from typing import Final

from msgspec import Struct

from gamed.saves.errors import BadMeta, BlankSave, DigestMismatch, InvalidSaveRequest, InvalidSlot
from gamed.strict_json import JsonMalformed, parse_object

_MEMBER: Final = compile(r"[ \t]*([a-z*][a-z0-9_.*-]*)=:([A-Za-z0-9+/=]*):[ \t]*", ASCII)
_SHA256_BYTES = 32
MAX_DIGEST_LENGTH = 1024
"""Characters of a Content-Digest: some eight of the longest digests."""
_HELP = "Send Content-Digest: sha-256=:<Base64 of the 32 bytes of SHA-256>:"


def parse_content_digest(text: str | None) -> bytes | None:
    """The 32 bytes that `sha-256=:...:` holds; None without one. Other algorithms are passed over (RFC 9530 2)."""
    if text is None:
        return None
    members = [_MEMBER.fullmatch(member) for member in text.split(",")] if len(text) <= MAX_DIGEST_LENGTH else [None]
    if not all(members):
        raise DigestMismatch(f"Content-Digest cannot be read. {_HELP}, or leave it out.")
    digests = {member[1]: member[2] for member in members if member}  # the last of a name counts (RFC 8941 3.2)
    encoded = digests.get("sha-256")
    return None if encoded is None else _decoded(encoded)


def check_digest(wanted: bytes | None, arrived: bytes) -> None:
    """DigestMismatch when other bytes arrived than were announced."""
    if wanted is not None and wanted != arrived:
        raise DigestMismatch("Other bytes arrived than Content-Digest says; nothing was stored. Send it again.")


def _decoded(encoded: str) -> bytes:
    try:
        digest = a2b_base64(encoded, strict_mode=True)
    except Error:
        digest = b""
    if len(digest) != _SHA256_BYTES:
        raise DigestMismatch(f"The sha-256 of Content-Digest is not 32 bytes in Base64. {_HELP}, or leave it out.")
    return digest


_META_FORM = "Save-Meta is one line of ASCII with a JSON object, other characters as \\uXXXX"


def check_meta(text: str | None, max_bytes: int) -> str | None:
    """The object as sent, or BadMeta; None when there is none."""
    if text is None:
        return None
    if len(text) > max_bytes:
        raise BadMeta(f"Save-Meta is {len(text)} bytes; at most {max_bytes} are kept.")
    if not text.isascii() or not text.isprintable():
        raise BadMeta(f"{_META_FORM}: there are other characters in it.")
    try:
        parse_object(text.encode(), whole_number=_small)
    except JsonMalformed as e:
        raise BadMeta(f"{_META_FORM}; this is {e}.") from None
    return text


def _small(digits: str) -> int:
    """Integers of 64 bits; Python alone would keep thousands of digits, which few clients can read back."""
    if len(digits) > 20 or not -(2**63) <= int(digits) < 2**64:
        raise JsonMalformed("not for everyone to read: a number is too large")
    return int(digits)


DEFAULT = "application/octet-stream"
MAX_MEDIA_TYPE_LENGTH = 255
_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]++"
_QUOTED = r'"(?:[\t \x21\x23-\x5b\x5d-\x7e]|\\[\t \x21-\x7e])*+"'
_MEDIA_TYPE_FORM: Final = compile(
    rf"{_TOKEN}/{_TOKEN}(?:[ \t]*+;[ \t]*+(?:{_TOKEN}=(?:{_TOKEN}|{_QUOTED}))?+)*+", ASCII
)
"""All quantifiers are possessive: with `*`, the white space around an empty parameter matches in 2**n ways."""


def check_media_type(text: str | None) -> str:
    """The type as sent, the default when none was; InvalidSaveRequest for what is none."""
    if text is None:
        return DEFAULT
    if len(text) > MAX_MEDIA_TYPE_LENGTH or not _MEDIA_TYPE_FORM.fullmatch(text):
        raise InvalidSaveRequest(
            f"Content-Type is not a media type such as {DEFAULT} (at most {MAX_MEDIA_TYPE_LENGTH} characters); "
            "send one, or leave it out."
        )
    return text


_SLOT_FORM: Final = compile(r"[a-z0-9][a-z0-9._-]{0,63}", ASCII)
_NUMBERED: Final = frozenset(f"{port}{digit}" for port in ("com", "lpt") for digit in "0123456789")
DEVICES: Final = frozenset({"con", "prn", "aux", "nul"}) | _NUMBERED
"""Names that Windows gives to devices, with any extension behind them."""


def check_slot(name: str) -> str:
    """The name as it is, or InvalidSlot."""
    if not _SLOT_FORM.fullmatch(name) or name.endswith("."):
        raise InvalidSlot(
            "A slot's name is 1 to 64 of a-z 0-9 . _ - (lower case), begins with a letter or digit and does not end "
            "in a dot, such as auto or slot-1.sav."
        )
    if name.partition(".")[0] in DEVICES:
        raise InvalidSlot("This is the name of a device on Windows, where no file can have it. Choose another name.")
    return name


class BlankDetector(Struct):
    """Blank until a byte other than zero was seen; no bytes at all are blank too."""

    blank: bool = True

    def feed(self, data: bytes) -> None:
        if self.blank and data:
            self.blank = not data[0] and data.count(0) == len(data)

    def check(self, size: int, *, allowed: bool) -> None:
        """BlankSave once all `size` bytes were fed and none said anything."""
        if self.blank and not allowed:
            seen = "holds only zero bytes" if size else "is empty"
            raise BlankSave(
                f"The body {seen}, as after a crash while saving. Nothing was stored and the save on the server is "
                "as it was; to remove it, DELETE it."
            )
