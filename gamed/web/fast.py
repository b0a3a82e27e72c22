"""The way of plain requests: the same gates, handlers, errors and headers, without what only others need.

A request is plain when its head came whole and at once, in HTTP/1.1, every field once, no coding, no expectation and
no wish about the connection, to a route of JSON whose path needs no decoding, and nothing is wrong with it. Whatever is
not plain goes the long way, which judges it from its first byte; `--http=stock` sends everything there.
"""

from collections.abc import Coroutine, Iterator, Mapping, Sequence
from re import compile
from typing import Any, NamedTuple

from twisted.internet.defer import Deferred
from twisted.web.http import NO_BODY_CODES

from gamed.web.fields import AnswerFields, Fields
from gamed.web.gates import Head, MemorySink, SmallBodyGate
from gamed.web.partial_head import HEAD_BYTES, HEAD_FIELDS
from gamed.web.request import Request
from gamed.web.routing import Found
from gamed.web.server import Server
from gamed.web.steps import Steps

_TOKEN = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_HEAD = compile(
    rb"([A-Z]+) (/[A-Za-z0-9/._~-]*)(?:\?([!-\"$-~]*))? HTTP/1\.1\r\n((?:%b:[\t -~\x80-\xff]*\r\n)+)\r\n" % _TOKEN
)


class PlainHead(NamedTuple):
    """What the channel and the site ask of a head that needs no more judging."""

    method: str
    path: str
    query: bytes
    fields: Mapping[bytes, bytes]
    length: int
    end: int
    """Where the body begins."""

    def __repr__(self) -> str:
        """Not the path, nor what came with it."""
        return f"<PlainHead {self.method}>"


def plain_head(data: bytes) -> PlainHead | None:
    """The head that `data` begins with; None when it is not plain, or not whole."""
    match = _HEAD.match(data)
    if match is None or match.end() - 2 > HEAD_BYTES:
        return None
    method, path, query, block = match.groups()
    lines = block[:-2].split(b"\r\n")
    fields = {}
    for line in lines:
        name, _, value = line.partition(b":")
        fields[name.lower()] = value.strip(b" \t")
    length = fields.get(b"content-length", b"0")
    if len(fields) < len(lines) or len(lines) > HEAD_FIELDS or b"//" in path:
        return None
    if b"host" not in fields or b"transfer-encoding" in fields or b"expect" in fields:
        return None
    if not length.isdigit() or len(length) > 18 or fields.get(b"connection", b"keep-alive").lower() != b"keep-alive":
        return None
    return PlainHead(method.decode(), path.decode(), query or b"", fields, int(length), match.end())


class PlainFields(Fields):
    """A plain head's fields, each of them once; looked up as they are, not copied."""

    __slots__ = ("_plain",)

    def __init__(self, plain: Mapping[bytes, bytes]) -> None:
        self._plain = plain

    def hasHeader(self, name: Any) -> bool:
        return (name if isinstance(name, bytes) else name.encode()).lower() in self._plain

    def getRawHeaders(self, name: Any, default: Any = None) -> Any:
        if isinstance(name, bytes):
            value = self._plain.get(name.lower())
            return default if value is None else [value]
        value = self._plain.get(name.lower().encode())
        return default if value is None else [value.decode("latin-1")]

    def getAllRawHeaders(self) -> Iterator[tuple[bytes, Sequence[bytes]]]:
        return ((name, [value]) for name, value in self._plain.items())


class PlainRequest(Request):
    """One plain exchange. What a handler does with a request it may do with this one."""

    route: Found

    def __init__(self, channel: Any, server: Server, found: Found, head: Head) -> None:
        """Everything that the longer way sets one after another, Twisted's own included."""
        self.channel = channel
        self.transport = channel.transport
        self.queued = False
        self.notifications = []
        self.cookies = []
        self.received_cookies = {}
        self.requestHeaders = head.headers
        self.responseHeaders = AnswerFields()
        self.method = head.method.encode()
        self.clientproto = b"HTTP/1.1"
        self.args = {}
        self.uri = self.path = b"-"
        self._server = server
        self._work = None
        self.request_id = server.request_id()
        self.began = server.seconds()
        self.route = found
        self.head = head
        self.whole = head.length == 0
        if head.headers.hasHeader(b"cookie"):
            self.parseCookies()

    def start(self) -> None:
        """As Request.begin()."""
        gate = self.route.gate
        self.sink = MemorySink()
        if self.whole and type(gate) is SmallBodyGate:  # nothing to judge, nothing to wait for
            self.channel.admit(self)
        else:
            Steps(gate.admit(self.head), self._admitted, self._turned_away).go()

    def _admitted(self, sink: Any) -> None:
        self.sink = sink
        if self._disconnected:
            sink.abort()
        else:
            self.channel.admit(self)

    def _turned_away(self, error: BaseException) -> None:
        self.refuse(error)
        if not self._disconnected:
            self.channel.admit(self)

    def proceed(self) -> None:
        if self.refusal is not None:
            self.fail(self.refusal)
            return
        try:
            answer = self.route.call(self, self.head.kwargs)
        except Exception as e:
            self._broke(e)
            return
        if isinstance(answer, Coroutine):
            self._work = Steps(answer, self._answered, self._broke)
            self._work.go()
        elif isinstance(answer, Deferred):
            self._work = answer
            answer.addCallback(self._answered).addErrback(self._failed)
        else:
            self._answered(answer)

    def _answered(self, result: object) -> None:
        try:
            self.respond(result)
        except Exception as e:
            self._broke(e)

    def write(self, data: bytes) -> None:
        """The head and what comes with it in one piece."""
        if self.startedWriting or self.cookies:
            super().write(data)
            return
        if self._disconnected or self.finished:
            return
        self._seal()
        self.startedWriting = 1
        if self.code in NO_BODY_CODES:
            data = b""
        self.sentLength = len(data)
        start = b"HTTP/1.1 %d %b\r\n" % (self.code, self.code_message)
        self.channel.send(b"%b%b\r\n%b" % (start, self.responseHeaders.block(), data))

    def finish(self) -> None:
        if not self.startedWriting or self._disconnected:
            super().finish()
            return
        self._work = None
        self._server.done(self, self.code)
        self.finished = 1
        self._cleanup()  # type: ignore[no-untyped-call]
