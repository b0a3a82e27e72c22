"""The way of plain requests: the same gates, handlers, errors and headers, without what only others need.

A request is plain when its head came whole and at once, in HTTP/1.1, every field once, no coding, no expectation and
no wish about the connection, to a route of JSON whose path needs no decoding, and nothing is wrong with it. Whatever is
not plain goes the long way, which judges it from its first byte; `--http=stock` sends everything there.
"""

from collections.abc import Coroutine, Iterator, Mapping, Sequence
from re import Pattern, compile, escape
from typing import Any, NamedTuple

from attrs import evolve
from twisted.internet.defer import Deferred
from twisted.web.http import NO_BODY_CODES
from werkzeug.routing import Rule

from gamed.web.app import JsonApp
from gamed.web.fields import AnswerFields, Fields
from gamed.web.gates import Head, MemorySink, SmallBodyGate
from gamed.web.partial_head import HEAD_BYTES, HEAD_FIELDS
from gamed.web.request import Request
from gamed.web.routing import Doorway, Found
from gamed.web.server import Server
from gamed.web.steps import Steps

_TOKEN = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_HEAD = compile(
    rb"([A-Z]+) (/[A-Za-z0-9/._~-]*)(?:\?([!-\"$-~]*))? HTTP/1\.1\r\n((?:%b:[\t -~\x80-\xff]*\r\n)+)\r\n" % _TOKEN
)
_ARGUMENT = compile(r"<(?:string:)?([a-z_][a-z_0-9]*)>")
_REST = compile(r"<path:([a-z_][a-z_0-9]*)>")


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


class Table:
    """Methods and paths of the JSON rooms, compiled from their maps; where a map is not plain, its room is left out.

    What is found here is what the map finds; what is not here may still be a route.
    """

    def __init__(self, doorways: Sequence[tuple[str, Doorway]]) -> None:
        self._whole: dict[tuple[str, str], Found] = {}
        self._shapes: dict[str, list[tuple[Pattern[str], Found]]] = {}
        for doorway in {doorway for _, doorway in doorways if isinstance(doorway.app, JsonApp)}:
            others = [prefix for prefix, other in doorways if other is not doorway]
            for rule in _plain_rules(doorway, others):
                for method in rule.methods or ():
                    self._add(doorway, rule, method)

    def _add(self, doorway: Doorway, rule: Rule, method: str) -> None:
        found = doorway.find(_REST.sub("-", _ARGUMENT.sub("-", rule.rule)), method)
        if method == "HEAD" or found.refusal is not None:
            return
        found = evolve(found, handler=getattr(doorway.room, rule.endpoint), kwargs={})
        if "<" in rule.rule:
            pattern = _ARGUMENT.sub(r"(?P<\1>[^/]+)", escape(rule.rule))
            pattern = _REST.sub(r"(?P<\1>(?:[^/]+/)*[^/]+)", pattern)
            self._shapes.setdefault(method, []).append((compile(pattern), found))
        else:
            self._whole[method, rule.rule] = found

    def find(self, method: str, path: str) -> tuple[Found, Mapping[str, str]] | None:
        """The route and its arguments."""
        whole = self._whole.get((method, path))
        if whole is not None:
            return whole, whole.kwargs
        for pattern, found in self._shapes.get(method, ()):
            match = pattern.fullmatch(path)
            if match is not None:
                return found, match.groupdict()
        return None


def _plain_rules(doorway: Doorway, others: Sequence[str]) -> Sequence[Rule]:
    """All rules of a room, when each segment is a text or an argument of any text, or the last one any further
    segments, and only one rule fits a path, or of two the first.

    `others` are the prefixes of other rooms, which may not reach into an argument.
    """
    rules = sorted(doorway.app.url_map.iter_rules(), key=lambda rule: "<path:" in rule.rule)
    shapes = [rule.rule.split("/") for rule in rules]
    plain = all(_is_plain(segment) for shape in shapes for segment in shape[:-1]) and all(
        _is_plain(shape[-1]) or _REST.fullmatch(shape[-1]) for shape in shapes
    )
    begins = [rule.rule.partition("<")[0] for rule in rules if "<" in rule.rule]
    crossed = any(prefix.startswith(begin) for prefix in others for begin in begins)
    return () if not plain or crossed or _ambiguous(shapes) else rules


def _is_plain(segment: str) -> bool:
    return "<" not in segment or _ARGUMENT.fullmatch(segment) is not None


def _ambiguous(shapes: Sequence[Sequence[str]]) -> bool:
    """Whether one path could be of two different rules, and the map would not choose as is done here."""
    return any(one != other and _both_fit(one, other) for one in shapes for other in shapes)


def _both_fit(one: Sequence[str], other: Sequence[str]) -> bool:
    """A rule for any further segments is asked last; as by the map, where the other has a text for its argument."""
    rest, other_rest = "<path:" in one[-1], "<path:" in other[-1]
    pairs = list(zip(one[:-1] if rest else one, other, strict=False))
    alike = all(a == b or ("<" in a + b and a != "" != b) for a, b in pairs)
    if rest and not other_rest:
        return alike and len(other) >= len(one) and any("<" in b and "<" not in a for a, b in pairs)
    return alike and (rest or (len(one) == len(other) and not other_rest))


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
