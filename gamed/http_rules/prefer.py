"""The wait that a client would like (RFC 7240 4.3)."""

from re import ASCII, IGNORECASE, compile
from typing import Final

_WAIT: Final = compile(r'[ \t]*wait[ \t]*=[ \t]*(?:([0-9]{1,9})|"([0-9]{1,9})")[ \t]*(?:;.*)?', ASCII | IGNORECASE)
_NAMED: Final = compile(r"[ \t]*wait[ \t]*(?:[=;].*)?", ASCII | IGNORECASE)


def wait_seconds(text: str | None) -> int:
    """Of a Prefer header, all its lines joined; 0 without one. The first `wait` counts (RFC 7240 2)."""
    first = next((member for member in (text or "").split(",") if _NAMED.fullmatch(member)), "")
    match = _WAIT.fullmatch(first)
    return int(match[1] or match[2]) if match else 0
