"""Validation of what a client sends with a save: slot name, condition, Content-Type, Save-Meta, digest.

The sources are docs/developers/saves.md: Writing; RFC 9110 8.3 (media types) and 13.1 (conditions), and RFC 9530
(digests).
"""

from binascii import Error, a2b_base64
from re import ASCII, compile
from typing import Final

from msgspec import Struct

from gamed.http.conditional import EntityTagList, Header, TagsMalformed, parse_tags
from gamed.saves.errors import BadMeta, BadRangePut, DigestMismatch, InvalidCondition, InvalidSaveRequest, InvalidSlot
from gamed.saves.model import ANY_VERSION, DEFAULT_MEDIA_TYPE, version_number
from gamed.saves.write_rules import UNCONDITIONAL, Condition, ConditionKind
from gamed.strict_json import JsonMalformed, parse_object


class UploadHeaders(Struct, frozen=True):
    """The condition and description of bytes, from the head of their PUT."""

    condition: Condition
    content_type: str
    meta: str | None
    expected_sha256: bytes | None
    """The SHA-256 of Content-Digest."""


def save_headers(slot: str, header: Header, max_meta_bytes: int) -> UploadHeaders:
    """Validate everything that the head of a save's PUT alone shows; raise SaveError."""
    _reject_content_range(header)
    check_slot(slot)
    return UploadHeaders(
        writing_condition(header),
        check_media_type(header("content-type")),
        check_meta(header("save-meta"), max_meta_bytes),
        parse_content_digest(header("content-digest")),
    )


def staging_headers(sha256: str, header: Header) -> UploadHeaders:
    """Validate the head of bytes to stage; the commit that names them has the other fields. Raise SaveError."""
    _reject_content_range(header)
    sha256_of_path(sha256)
    return UploadHeaders(UNCONDITIONAL, DEFAULT_MEDIA_TYPE, None, parse_content_digest(header("content-digest")))


def _reject_content_range(header: Header) -> None:
    if header("content-range") is not None:
        raise BadRangePut("A save is written whole. Send all its bytes, without Content-Range.")


MAX_LENGTH = 1024
"""Characters of a condition: the JSON of a commit could hold one of 256 KiB."""
MAX_TAG = 64
"""Characters of an entity-tag: the server stores the tag with refused bytes."""


def writing_condition(header: Header) -> Condition:
    """Read the condition of a PUT: `If-Match: "<etag>"`, `If-Match: *`, `If-None-Match: *` or none.

    Raise InvalidCondition for anything else.
    """
    match, none_match = _tags(header, "if-match"), _tags(header, "if-none-match")
    if match and none_match:
        raise InvalidCondition("Send If-Match or If-None-Match, not both.")
    if none_match:
        if not none_match.star:
            raise InvalidCondition("To create a save, send If-None-Match: *; it takes no entity-tag here.")
        return Condition(ConditionKind.ABSENT)
    return _matching(match)


def deleting_condition(header: Header) -> Condition:
    """Read the condition of a DELETE: `If-Match: "<etag>"`, `If-Match: *` or none; raise InvalidCondition."""
    if header("if-none-match") is not None:
        raise InvalidCondition('To delete, send If-Match: "<etag>"; If-None-Match makes no sense here.')
    return _matching(_tags(header, "if-match"))


def _matching(match: EntityTagList | None) -> Condition:
    if match is None:
        return UNCONDITIONAL
    if match.star:
        return Condition(ConditionKind.PRESENT)
    if any(len(tag.opaque) > MAX_TAG for tag in match.listed):
        raise InvalidCondition("This entity-tag is longer than any of this server. Send the etag as you received it.")
    if len(match.listed) > 1:
        raise InvalidCondition("Send one entity-tag in If-Match: the one of the version you built on.")
    return Condition(ConditionKind.THIS, match.listed[0])


def _tags(header: Header, name: str) -> EntityTagList | None:
    text = header(name)
    if text is not None and len(text) > MAX_LENGTH:
        raise InvalidCondition(
            f"{name.title()} is longer than {MAX_LENGTH} characters. Send one etag as you received it."
        )
    try:
        return None if text is None else parse_tags(text)
    except TagsMalformed:
        raise InvalidCondition(
            f'{name.title()} takes the etag with its double quotes, such as "9-9f86d081884c7d65", or *.'
        ) from None


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


_SHA256_HEX: Final = compile(r"[0-9a-f]{64}", ASCII)


def parse_sha256(text: str) -> bytes | None:
    """Return the bytes of 64 lower-case hex digits, or None if the text is anything else."""
    return bytes.fromhex(text) if _SHA256_HEX.fullmatch(text) else None


def sha256_of_path(text: str) -> bytes:
    """Return the SHA-256 at the end of the path; raise InvalidSaveRequest."""
    sha256 = parse_sha256(text)
    if sha256 is None:
        raise InvalidSaveRequest("The address ends in the SHA-256 of the bytes: 64 lower-case hex digits.")
    return sha256


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


MAX_MEDIA_TYPE_LENGTH = 255  # room for two names of 127 characters, the most that RFC 6838 4.2 allows
_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]++"
_QUOTED = r'"(?:[\t \x21\x23-\x5b\x5d-\x7e]|\\[\t \x21-\x7e])*+"'
_TYPE: Final = compile(rf"{_TOKEN}/{_TOKEN}", ASCII)
_PARAMETER: Final = compile(rf"[ \t]*+;[ \t]*+(?:{_TOKEN}=(?:{_TOKEN}|{_QUOTED}))?", ASCII)


def check_media_type(text: str | None) -> str:
    """Return the media type as it was sent, or the default one without it; raise InvalidSaveRequest."""
    if text is None:
        return DEFAULT_MEDIA_TYPE
    if len(text) > MAX_MEDIA_TYPE_LENGTH or not _is_media_type(text):
        raise InvalidSaveRequest(
            f"Content-Type is not a media type such as {DEFAULT_MEDIA_TYPE} (at most {MAX_MEDIA_TYPE_LENGTH} "
            "characters); send one, or leave it out."
        )
    return text


def _is_media_type(text: str) -> bool:
    """Return whether a text is a media type with parameters (RFC 9110 8.3.1)."""
    match = _TYPE.match(text)
    while match is not None and match.end() < len(text):
        match = _PARAMETER.match(text, match.end())
    return match is not None


def page_limit(text: str | None, most: int) -> int:
    """Return the number of entries for one response, at most and by default `most`; raise InvalidSaveRequest."""
    if text is None:
        return most
    number = version_number(text)
    if not 1 <= number <= most:
        raise InvalidSaveRequest(f"limit is not a number from 1 to {most}. Leave it out to get {most} at once.")
    return number


def page_before(text: str | None) -> int:
    """Return the number below which the page of a history begins; raise InvalidSaveRequest."""
    if text is None:
        return ANY_VERSION
    number = version_number(text)
    if not number:
        raise InvalidSaveRequest("before is not the number of a version. Send the last one of the page before.")
    return number


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
