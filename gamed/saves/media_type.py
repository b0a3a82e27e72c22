"""The Content-Type of a save: any media type, kept and given back as sent (RFC 9110 8.3)."""

from re import ASCII, compile
from typing import Final

from gamed.saves.errors import InvalidSaveRequest

DEFAULT = "application/octet-stream"
MAX_LENGTH = 255
_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]++"
_QUOTED = r'"(?:[\t \x21\x23-\x5b\x5d-\x7e]|\\[\t \x21-\x7e])*+"'
_FORM: Final = compile(rf"{_TOKEN}/{_TOKEN}(?:[ \t]*+;[ \t]*+(?:{_TOKEN}=(?:{_TOKEN}|{_QUOTED}))?+)*+", ASCII)
"""All quantifiers are possessive: with `*`, the white space around an empty parameter matches in 2**n ways."""


def check_media_type(text: str | None) -> str:
    """The type as sent, the default when none was; InvalidSaveRequest for what is none."""
    if text is None:
        return DEFAULT
    if len(text) > MAX_LENGTH or not _FORM.fullmatch(text):
        raise InvalidSaveRequest(
            f"Content-Type is not a media type such as {DEFAULT} (at most {MAX_LENGTH} characters); "
            "send one, or leave it out."
        )
    return text
