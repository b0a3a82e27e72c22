"""Save-Meta: a small JSON object of the game's own beside the bytes (PROTOCOL 4.1)."""

from gamed.saves.errors import BadMeta
from gamed.strict_json import JsonMalformed, parse_object

_FORM = "Save-Meta is one line of ASCII with a JSON object, other characters as \\uXXXX"


def check_meta(text: str | None, max_bytes: int) -> str | None:
    """The object as sent, or BadMeta; None when there is none."""
    if text is None:
        return None
    if len(text) > max_bytes:
        raise BadMeta(f"Save-Meta is {len(text)} bytes; at most {max_bytes} are kept.")
    if not text.isascii() or not text.isprintable():
        raise BadMeta(f"{_FORM}: there are other characters in it.")
    try:
        parse_object(text.encode(), whole_number=_small)
    except JsonMalformed as e:
        raise BadMeta(f"{_FORM}; this is {e}.") from None
    return text


def _small(digits: str) -> int:
    """Integers of 64 bits; Python alone would keep thousands of digits, which few clients can read back."""
    if len(digits) > 20 or not -(2**63) <= int(digits) < 2**64:
        raise JsonMalformed("not for everyone to read: a number is too large")
    return int(digits)
