"""A trace of system calls shows that each 2xx response was sent after a flush of its write.

A PUT carries two unique marks, one in its bytes and one in its Save-Meta, which is in the version's row. For each
response with 20x the trace must have, in this order: writes of both marks to state.db's log, and of the frame that ends
the transaction; a flush of the log that succeeded; the response. A response without this order is reported.

strace stops a thread before and after each call, and prints the stops in the order in which it continued the threads:
a call that depends on a finished flush is therefore printed after the flush.
"""

import re
from ast import literal_eval
from collections.abc import Iterable, Iterator

from msgspec import Struct, field

LOG = "state.db-wal"
FRAME_HEAD_BYTES = 24
"""The header of a WAL frame: page number, size of the database after a commit or 0, ... (SQLite file format 4.2)."""
MARK = re.compile(rb"(?:bytes|meta)-[0-9a-f]{32}")
_LINE = re.compile(r"(\d+) +[\d.]+ (?:<\.\.\. )?(\w+)(\(| resumed>)(.*)")
_UNFINISHED = "<unfinished ...>"
_TEXT = re.compile(r'"((?:[^"\\]|\\.)*)"')
_WRITES, _FLUSHES, _SENDS = ("pwrite64",), ("fdatasync", "fsync"), ("sendto", "sendmsg")


class Call(Struct, frozen=True):
    """A system call with its arguments and result; `began` and `ended` are lines of the trace."""

    name: str
    words: str
    began: int
    ended: int

    @property
    def file(self) -> str:
        return self.words.partition(">")[0]

    @property
    def data(self) -> bytes:
        """Return all bytes of the call's arguments."""
        return b"".join(bytes(literal_eval(f'b"{text}"')) for text in _TEXT.findall(self.words))

    @property
    def good(self) -> bool:
        return not self.words.rpartition(" = ")[2].startswith(("-", "?"))


def calls(lines: Iterable[str]) -> Iterator[Call]:
    """Yield the calls of `strace -f -y -ttt -o FILE` in the order in which they ended, without unfinished ones."""
    begun: dict[str, tuple[int, str]] = {}
    for number, line in enumerate(lines):
        found = _LINE.match(line)
        if found is None:
            continue
        thread, name, how, words = found.groups()
        if words.endswith(_UNFINISHED):
            begun[thread] = number, words.removesuffix(_UNFINISHED)
        elif how == "(":
            yield Call(name, words, number, number)
        elif thread in begun:
            began, first = begun.pop(thread)
            yield Call(name, first + words, began, number)


class Sent(Struct, frozen=True):
    """An answered PUT with its marks, and the hash that identifies it in its response."""

    marks: tuple[bytes, ...]
    digest: bytes


class Log:
    """The marks that were written to state.db's log, committed and flushed, by line of the trace."""

    def __init__(self) -> None:
        self.flushes = 0
        self._seen: set[bytes] = set()
        self._open: set[bytes] = set()
        self._ending = False
        self._committed: dict[bytes, int] = {}
        self._flushed: dict[bytes, int] = {}

    def add(self, call: Call) -> None:
        if call.name in _WRITES and call.good:
            self._wrote(call)
        elif call.name in _FLUSHES and call.good:
            self.flushes += 1
            covered = [mark for mark, line in self._committed.items() if line < call.began]
            for mark in covered:
                del self._committed[mark]
                self._flushed[mark] = call.ended

    def _wrote(self, call: Call) -> None:
        """Record a write; a frame is two writes, its header and its page. Only the first write of a mark counts."""
        data = call.data
        if len(data) == FRAME_HEAD_BYTES:
            self._ending = data[4:8] != bytes(4)
            return
        new = set(MARK.findall(data)) - self._seen
        self._seen |= new
        self._open |= new
        if self._ending:
            self._committed |= dict.fromkeys(self._open, call.ended)
            self._open.clear()
            self._ending = False

    def flushed(self, marks: Iterable[bytes]) -> int | None:
        """Return the line at which all these marks were flushed, or None."""
        lines = [self._flushed.get(mark) for mark in marks]
        return None if None in lines else max(line for line in lines if line is not None)


class Findings(Struct):
    """The result of a check of some PUTs."""

    answers: int = 0
    flushes: int = 0
    missing: list[str] = field(default_factory=list)
    """The responses that were sent too early or not found."""


def check_flushes(lines: Iterable[str], sent: Iterable[Sent]) -> Findings:
    """Check that each PUT was flushed before its response; a PUT that is not in the trace is reported."""
    log, waiting, found = Log(), {each.digest: each.marks for each in sent}, Findings()
    for call in calls(lines):
        if call.file.endswith(LOG):
            log.add(call)
        elif call.name in _SENDS and b"HTTP/1.1 20" in (data := call.data):
            for digest in [digest for digest in waiting if digest in data]:
                found.answers += 1
                flushed = log.flushed(waiting.pop(digest))
                if flushed is None or flushed >= call.began:
                    found.missing.append(f"{digest.decode()} is answered in line {call.began + 1}, not flushed before")
    found.flushes = log.flushes
    found.missing += [f"{digest.decode()} is not answered in the trace" for digest in waiting]
    return found
