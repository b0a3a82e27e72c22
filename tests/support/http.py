"""A client for tests of routes: bytes in, bytes out, through the real HTTP connection and server, without a socket.

    browser = Browser([routes])
    answer = browser.request("PUT", "/game/saves/auto", {"If-None-Match": "*"}, b"...")
    answer.status, answer.json["code"], answer.headers["etag"]

For a handler that waits: `call = browser.send("POST", "/auth/login/collect", ..., body)`, then fire its Deferred (or
`browser.clock.advance(25)`), then `call.answer`. A response 500 `internal_error` fails the test with its traceback,
unless the browser was made with `crashes=True`; so does a response that docs/openapi.yaml does not have.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from json import dumps, loads
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict
from twisted.internet.address import IPv4Address
from twisted.internet.error import ConnectionDone
from twisted.internet.interfaces import IAddress
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.logger import LogEvent, formatEvent, globalLogPublisher
from twisted.python.failure import Failure

from gamed.http.access_log import EndedRequest
from gamed.http.app import RouteGroup
from gamed.http.connection import State
from gamed.http.problems import Renderer, render_json
from gamed.http.request import CLIENT_LEFT
from gamed.http.server import HttpServer, build_server
from gamed.http.settings import HttpSettings
from tests.contract.document import is_described

BASE_HOST = "game.example"
PEER = IPv4Address("TCP", "127.0.0.1", 51000)
START_MS = 1_800_000_000_000
CRASHES = tuple(f"unexpected_error phase={phase} " for phase in ("handler", "error_response", "response_content"))


class Lines:
    """An access log in memory."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []

    def log(self, request: EndedRequest) -> None:
        self.lines.append(asdict(request))


class Answer(Struct, frozen=True):
    """One HTTP response. Header names are lower case; a repeated header is joined by a comma, Set-Cookie excepted."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    cookies: Sequence[str] = ()
    """Set-Cookie fields as sent."""

    @property
    def json(self) -> Any:
        return loads(self.body)

    @property
    def code(self) -> str:
        """Return the code of a problem."""
        assert self.headers["content-type"] == "application/problem+json", self.headers
        return str(self.json["code"])


class Connection:
    """An open connection: bytes in, parsed responses out."""

    def __init__(self, site: HttpServer, clock: Clock, peer: IAddress = PEER) -> None:
        self._clock = clock
        self.transport = StringTransport(peerAddress=peer, lenient=True)
        self.channel = site.buildProtocol(peer)
        self.refused = self.channel is None
        self._answers: list[Answer] = []
        self.head_only = False
        self._lost = False
        if not self.refused:
            self.channel.makeConnection(self.transport)

    def send(self, data: bytes) -> "Connection":
        self.channel.dataReceived(data)
        self.turn()
        return self

    def leave(self) -> None:
        """Close the connection, or let the server's close arrive."""
        if not self._lost:
            self._lost = True
            self.channel.connectionLost(Failure(ConnectionDone()))

    def turn(self) -> None:
        """Run what is due now on the clock: the next request of a pipeline waits for that."""
        self._clock.advance(0)

    @property
    def raw(self) -> bytes:
        """Return all bytes that the server has sent."""
        self.turn()
        return self.transport.value()

    @property
    def closed(self) -> bool:
        """Return whether the server has closed or aborted the connection."""
        self.turn()
        return bool(self.transport.disconnecting or self.transport.disconnected)

    @property
    def closing(self) -> bool:
        """Return whether the server sends nothing more on this connection, though it may still read."""
        return self.closed or self.channel._state is State.CLOSING

    @property
    def interim(self) -> int:
        """Return how often `100 Continue` was sent."""
        return self.raw.count(b"HTTP/1.1 100 Continue\r\n\r\n")

    @property
    def answers(self) -> list[Answer]:
        """Return all complete responses without interim ones."""
        return parse_answers(self.raw, head_only=self.head_only)

    @property
    def answer(self) -> Answer:
        """Return the only response; fail if there is none yet, or more than one."""
        [answer] = self.answers
        return answer


class Browser:
    """A client of some routes; every request has a connection of its own."""

    def __init__(
        self,
        routes: Sequence[RouteGroup],
        policy: HttpSettings | None = None,
        *,
        clock: Clock | None = None,
        peer: IAddress = PEER,
        crashes: bool = False,
        now_ms: Callable[[], int] | None = None,
        render_unknown: Renderer = render_json,
    ) -> None:
        self.clock = clock or Clock()
        self.log = Lines()
        self.peer = peer
        self.events: list[str] = []
        """All events that were logged during requests, as text."""
        self._crashes = crashes
        self._checked_lines = 0
        numbers = count(1)
        self.site = build_server(
            routes,
            policy or HttpSettings(BASE_HOST),
            self.clock,  # type: ignore[arg-type]
            access_log=self.log,
            now_ms=now_ms or (lambda: START_MS + int(self.clock.seconds() * 1000)),
            random=lambda size: b"".join(next(numbers).to_bytes(12, "big") for _ in range(0, size, 12))[:size],
            render_unknown=render_unknown,
        )

    def connect(self, peer: IAddress | None = None) -> Connection:
        """Return a connection for arbitrary bytes."""
        return Connection(self.site, self.clock, peer or self.peer)

    def send(self, method: str, path: str, headers: Mapping[str, str] | None = None, body: bytes = b"") -> Connection:
        """Send a whole request; its response may come later as `.answer`."""
        connection = self.connect()
        connection.head_only = method == "HEAD"
        self.watched(lambda: connection.send(request_bytes(method, path, headers, body)))
        return connection

    def request(self, method: str, path: str, headers: Mapping[str, str] | None = None, body: bytes = b"") -> Answer:
        """Send a request; return its response, which must come at once."""
        connection = self.send(method, path, headers, body)
        answer = connection.answer
        if not connection.closed:
            connection.leave()
        return answer

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> Answer:
        return self.request("GET", path, headers)

    def post_json(self, path: str, value: object, headers: Mapping[str, str] | None = None) -> Answer:
        """POST a JSON value."""
        return self.request(
            "POST", path, {"Content-Type": "application/json", **(headers or {})}, dumps(value).encode()
        )

    def post_form(self, path: str, fields: str, headers: Mapping[str, str] | None = None) -> Answer:
        """POST an encoded form."""
        kind = {"Content-Type": "application/x-www-form-urlencoded"}
        return self.request("POST", path, {**kind, **(headers or {})}, fields.encode())

    def watched(self, act: Callable[[], object]) -> None:
        """Call `act`; fail the test if the server logs an unexpected error meanwhile."""
        seen = logged(act)
        self.events += seen
        crashed = [text for text in seen if text.startswith(CRASHES)]
        if crashed and not self._crashes:
            raise AssertionError("\n".join(crashed))
        strange = [line for line in self.log.lines[self._checked_lines :] if not _is_described(line)]
        self._checked_lines = len(self.log.lines)
        if strange and not self._crashes:
            raise AssertionError(f"not in docs/openapi.yaml: {strange}")


def _is_described(line: Mapping[str, Any]) -> bool:
    """Check that docs/openapi.yaml has the response of this access log line; a client that left got none."""
    status = line["status"]
    return status == CLIENT_LEFT or is_described(line["method"], line["template"], status)


def logged(act: Callable[[], object]) -> list[str]:
    """Call `act`; return the logged events as text."""
    seen: list[str] = []

    def observe(event: LogEvent) -> None:
        seen.append(formatEvent(event))

    globalLogPublisher.addObserver(observe)
    try:
        act()
    finally:
        globalLogPublisher.removeObserver(observe)
    return seen


def request_bytes(method: str, path: str, headers: Mapping[str, str] | None = None, body: bytes = b"") -> bytes:
    """Return an HTTP/1.1 request with a Host, and a Content-Length if there is a body or the method needs one."""
    fields = {"Host": BASE_HOST, **(headers or {})}
    chunked = any(name.lower() == "transfer-encoding" for name in fields)
    if (body or method in {"POST", "PUT"}) and not chunked:
        fields.setdefault("Content-Length", str(len(body)))
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items()), "", ""]
    return "\r\n".join(lines).encode("utf-8") + body


def parse_answers(raw: bytes, *, head_only: bool = False) -> list[Answer]:
    """Parse all responses that a server sent; a body has a Content-Length and is never chunked."""
    answers: list[Answer] = []
    while raw:
        head, mark, raw = raw.partition(b"\r\n\r\n")
        assert mark, head
        start, *lines = head.decode("latin-1").split("\r\n")
        status = int(start.split(" ")[1])
        if status == 100:
            continue
        headers, cookies = _fields(lines)
        assert "transfer-encoding" not in headers, headers
        bodiless = head_only or status in (204, 304)
        size = 0 if bodiless else int(headers["content-length"])
        assert len(raw) >= size, "the answer is not whole"
        answers.append(Answer(status, headers, raw[:size], cookies))
        raw = raw[size:]
    return answers


def _fields(lines: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    headers: dict[str, str] = {}
    cookies = []
    for line in lines:
        name, _, value = line.partition(": ")
        key = name.lower()
        if key == "set-cookie":
            cookies.append(value)
        headers[key] = f"{headers[key]}, {value}" if key in headers else value
    return headers, cookies
