"""One byte range of a representation (RFC 9110 14); pure (PROTOCOL 6)."""

from re import ASCII, IGNORECASE, compile
from typing import Final

from msgspec import Struct

_ONE: Final = compile(r"bytes=[ \t]*([0-9]{1,100})?-([0-9]{1,100})?[ \t]*", ASCII | IGNORECASE)


class RangeUnsatisfiable(ValueError):
    """A well-formed range of which the representation has no byte; answered with its size (RFC 9110 15.5.17)."""

    def __init__(self, detail: str, size: int) -> None:
        super().__init__(detail)
        self.members = {"size": size}
        self.headers = {"Content-Range": f"bytes */{size}"}


class ByteRange(Struct, frozen=True):
    """Bytes `first` to `last`, both included, of `size`."""

    first: int
    last: int
    size: int

    @property
    def length(self) -> int:
        return self.last - self.first + 1

    @property
    def content_range(self) -> str:
        return f"bytes {self.first}-{self.last}/{self.size}"


def select(text: str | None, size: int) -> ByteRange | None:
    """The bytes that a Range header asks for, or None to send everything.

    Several ranges, other units and what does not parse are ignored, as RFC 9110 14.2 allows.
    """
    match = _ONE.fullmatch(text) if text is not None else None
    if match is None:
        return None
    begin, end = match.groups()
    if begin is None and end is None:
        return None
    if begin is None:
        first, last = max(0, size - int(end)), size - 1
    else:
        first, last = int(begin), int(end) if end else size - 1
        if end and last < first:
            return None
    if first >= size:
        raise RangeUnsatisfiable(
            f"There are {size} bytes, so the last one is number {size - 1}." if size else EMPTY, size
        )
    return ByteRange(first, min(last, size - 1), size)


EMPTY: Final = "There are 0 bytes; send no Range."
