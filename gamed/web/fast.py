"""The way of plain requests: the same gates, handlers, errors and headers, without what only others need.

A request is plain when its head came whole and at once, in HTTP/1.1, every field once, no coding, no expectation and
no wish about the connection, to a route of JSON whose path needs no decoding, and nothing is wrong with it. Whatever is
not plain goes the long way, which judges it from its first byte; `--http=stock` sends everything there.
"""

from collections.abc import Iterator, Sequence
from re import compile
from types import CoroutineType
from typing import Any

from msgspec import Struct
from twisted.internet.defer import Deferred

from gamed.http_rules.conditions import Header
from gamed.web.fields import AnswerFields, Fields
from gamed.web.gates import Head, SmallBodyGate
from gamed.web.partial_head import HEAD_BYTES, HEAD_FIELDS
from gamed.web.request import Request
from gamed.web.routing import Found
from gamed.web.server import Server
from gamed.web.steps import Steps

_TOKEN = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_HEAD = compile(
    rf"([A-Z]+) (/[A-Za-z0-9/._~-]*)(?:\?([!-\"$-~]*))? HTTP/1\.1\r\n((?:{_TOKEN}:[\t -~\x80-\xff]*\r\n)+)\r\n"
)


class PlainHead(Struct, frozen=True):
    """What the channel and the site ask of a head that needs no more judging."""

    method: str
    path: str
    query: bytes
    fields: dict[str, str]
    length: int
    end: int
    """Where the body begins."""

    def __repr__(self) -> str:
        """Not the path, nor what came with it."""
        return f"<PlainHead {self.method}>"


def plain_head(data: bytes) -> PlainHead | None:
    """The head that `data` begins with; None when it is not plain, or not whole."""
    end = data.find(b"\r\n\r\n", 0, HEAD_BYTES + 2) + 4
    match = _HEAD.fullmatch(data[:end].decode("latin-1"))
    if match is None:
        return None
    method, path, query, block = match.groups()
    lines = [line.split(":", 1) for line in block[:-2].split("\r\n")]
    fields = {name.lower(): value.strip(" \t") for name, value in lines}
    length = fields.get("content-length", "0")
    if len(fields) < len(lines) or len(lines) > HEAD_FIELDS:
        return None
    if "host" not in fields or "transfer-encoding" in fields or "expect" in fields:
        return None
    if not (length.isascii() and length.isdigit()) or len(length) > 18:
        return None
    if fields.get("connection", "keep-alive").lower() != "keep-alive":
        return None
    return PlainHead(method, path, (query or "").encode("latin-1"), fields, int(length), end)


class PlainFields(Fields):
    """A plain head's fields, each of them once: asking for one is a look at a dict, and nothing else."""

    __slots__ = ("_plain",)

    def __init__(self, plain: dict[str, str]) -> None:
        self._plain = plain

    @property
    def header(self) -> Header:
        return self._plain.get

    def only(self, name: str) -> str | None:
        return self._plain.get(name)

    def hasHeader(self, name: Any) -> bool:
        return _text(name) in self._plain

    def getRawHeaders(self, name: Any, default: Any = None) -> Any:
        value = self._plain.get(_text(name))
        if value is None:
            return default
        return [value.encode("latin-1") if isinstance(name, bytes) else value]

    def getAllRawHeaders(self) -> Iterator[tuple[bytes, Sequence[bytes]]]:
        return ((name.encode(), [value.encode("latin-1")]) for name, value in self._plain.items())


def _text(name: str | bytes) -> str:
    return (name.decode() if isinstance(name, bytes) else name).lower()


class PlainRequest(Request):
    """One plain exchange. What a handler does with a request it may do with this one."""

    route: Found

    def __init__(self, channel: Any, server: Server, found: Found, head: Head) -> None:
        """Everything that the longer way sets one after another, Twisted's own included."""
        self.channel = channel
        self.transport = channel.transport
        self.notifications = []
        self.requestHeaders = head.headers
        self.responseHeaders = AnswerFields()
        self.method = head.method.encode()
        self._server = server
        self.request_id = server.request_id()
        self.began = server.seconds()
        self.route = found
        self.head = head
        self.whole = head.length == 0

    def start(self) -> None:
        """As Request.begin()."""
        gate = self.route.gate
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
        if isinstance(answer, CoroutineType):
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
