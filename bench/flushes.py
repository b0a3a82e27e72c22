"""What a trace of system calls says: was the flush done before the answer was given?

A PUT carries two marks of its own, one in its bytes, one in its Save-Meta, which lies in the version's row. Proved is,
for each answer with 20x: both marks were written to state.db's log, and after them the frame that ends a transaction;
then a flush of the log began, and ended well; then the answer was sent. What is not found in this order is missing.

strace stops a thread before a call and after it, and tells of stops in the order in which it let go on: whoever could
have learnt from a flush that it was done is told of later.
"""

import re
from ast import literal_eval
from collections.abc import Iterable, Iterator

from msgspec import Struct, field

LOG = "state.db-wal"
FRAME_HEAD_BYTES = 24
"""SQLite's file format, 4.2: the page's number, the database's pages after a commit or 0, ..."""
MARK = re.compile(rb"(?:bytes|meta)-[0-9a-f]{32}")
_LINE = re.compile(r"(\d+) +[\d.]+ (?:<\.\.\. )?(\w+)(\(| resumed>)(.*)")
_UNFINISHED = "<unfinished ...>"
_TEXT = re.compile(r'"((?:[^"\\]|\\.)*)"')
_WRITES, _FLUSHES, _SENDS = ("pwrite64",), ("fdatasync", "fsync"), ("sendto", "sendmsg")


class Call(Struct, frozen=True):
    """A call of the system: what it was asked and answered; `began` and `ended` are lines of the trace."""

    name: str
    words: str
    began: int
    ended: int

    @property
    def file(self) -> str:
        return self.words.partition(">")[0]

    @property
    def data(self) -> bytes:
        """All bytes that were handed over."""
        return b"".join(bytes(literal_eval(f'b"{text}"')) for text in _TEXT.findall(self.words))

    @property
    def good(self) -> bool:
        return not self.words.rpartition(" = ")[2].startswith(("-", "?"))


def calls(lines: Iterable[str]) -> Iterator[Call]:
    """Of `strace -f -y -ttt -o FILE`, in the order in which they ended; those that never did are left out."""
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
    """A PUT that was answered: the marks that it carried, and the hash by which its answer names it."""

    marks: tuple[bytes, ...]
    digest: bytes


class Log:
    """Which marks are written to state.db's log, ended by a commit, and flushed; by line of the trace."""

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
        """A frame is two writes: its head, then its page. A mark counts where it is written for the first time."""
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
        """The line by which all of them were."""
        lines = [self._flushed.get(mark) for mark in marks]
        return None if None in lines else max(line for line in lines if line is not None)


class Findings(Struct):
    """What a trace says of some PUTs."""

    answers: int = 0
    flushes: int = 0
    missing: list[str] = field(default_factory=list)
    """What was answered too early, or never seen."""


def judge(lines: Iterable[str], sent: Iterable[Sent]) -> Findings:
    """A trace that knows nothing of a PUT does not speak for it."""
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
