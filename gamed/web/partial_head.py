"""A head while it arrives: bounded in bytes and fields before anything of it is read (PROTOCOL 1)."""

from gamed.web.errors import BadRequest, HeadTooLarge

HEAD_BYTES = 16 * 1024
HEAD_FIELDS = 64


class PartialHead:
    """Collects lines until the empty one."""

    def __init__(self) -> None:
        self._lines: list[bytes] = []
        self._size = 0
        self._blank = False

    @property
    def begun(self) -> bool:
        return bool(self._lines)

    @property
    def touched(self) -> bool:
        """Whether anything came since the last head, be it an empty line."""
        return self._blank or bool(self._lines)

    @property
    def start(self) -> bytes:
        """The first line, once it is here."""
        return self._lines[0] if self._lines else b""

    def line(self, line: bytes) -> list[bytes] | None:
        """Add a line without its CR LF. At the empty one: all lines of the head, and a new head begins."""
        if line:
            self._lines.append(line)
            self._size += len(line) + 2
            if self._size > HEAD_BYTES or len(self._lines) > HEAD_FIELDS + 1:
                raise HeadTooLarge
            return None
        if self._lines:
            lines = self._lines
            self._lines, self._size, self._blank = [], 0, False
            return lines
        if self._blank:
            raise BadRequest("The request line is empty.")
        self._blank = True  # RFC 9112 2.2: one is forgiven
        return None

    def judge_rest(self, rest: bytes) -> None:
        """`rest` is the begin of the next line: already too much, or ended by LF alone?"""
        if self._size + len(rest) > HEAD_BYTES:
            raise HeadTooLarge
        if b"\n" in rest:
            raise BadRequest("Lines of a head end in CR LF.")
