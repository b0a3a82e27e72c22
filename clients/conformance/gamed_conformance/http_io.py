"""HTTP/1.1 as bytes: one request per connection, read to the end, so that a fake server can lose, tear or change it."""

from __future__ import annotations

import contextlib
import json
import random
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

LIMIT_SECONDS = 60.0
MAX_HEAD_BYTES = 1 << 16


def listening(ports: Sequence[int]) -> socket.socket:
    """Listen on a free port of these; a port of the ephemeral range may be in use a moment later."""
    begin = random.randrange(len(ports))
    for port in (*ports[begin:], *ports[:begin]):
        with contextlib.suppress(OSError):
            return socket.create_server(("127.0.0.1", port), backlog=50)
    raise OSError(f"no free port from {ports[0]} to {ports[-1]}")


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    """With the query."""
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes = field(repr=False)
    seconds: float = 0.0
    """The time of its arrival by the monotonic clock."""

    @property
    def line(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def json(self) -> Any:
        try:
            return json.loads(self.body)
        except ValueError:
            return None

    def shown(self) -> dict[str, Any]:
        """Return the members that expectations compare."""
        text = self.body.decode("utf-8", "backslashreplace")
        return {"line": self.line, "headers": dict(self.headers), "text": text, "json": self.json}


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Sequence[tuple[str, str]]
    body: bytes = field(repr=False)

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)

    @property
    def json(self) -> Any:
        try:
            return json.loads(self.body)
        except ValueError:
            return None

    def with_body(self, body: bytes) -> Answer:
        return Answer(self.status, [pair for pair in self.headers if pair[0].lower() != "content-length"], body)

    def raw(self, method: str) -> bytes:
        """Encode the response; the connection closes after it."""
        names = {name.lower() for name, _ in self.headers}
        fields = [pair for pair in self.headers if pair[0].lower() not in ("connection", "transfer-encoding")]
        if "content-length" not in names and self.status not in (204, 304):
            fields.append(("Content-Length", str(len(self.body))))
        fields.append(("Connection", "close"))
        phrase = HTTPStatus(self.status).phrase if self.status in set(HTTPStatus) else "Status"
        lines = [f"HTTP/1.1 {self.status} {phrase}", *(f"{name}: {value}" for name, value in fields)]
        body = b"" if method == "HEAD" else self.body
        return "\r\n".join(lines).encode("utf-8") + b"\r\n\r\n" + body


class Torn(Exception):
    """The connection ended in the middle."""


class Stream:
    """Bytes of a connection, by line and by length."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self._held = b""

    def until(self, mark: bytes) -> bytes:
        while mark not in self._held:
            if len(self._held) > MAX_HEAD_BYTES:
                raise Torn
            self._more()
        found, _, self._held = self._held.partition(mark)
        return found

    def exactly(self, size: int) -> bytes:
        while len(self._held) < size:
            self._more()
        found, self._held = self._held[:size], self._held[size:]
        return found

    def rest(self) -> bytes:
        parts = [self._held]
        while part := self.connection.recv(1 << 16):
            parts.append(part)
        return b"".join(parts)

    def _more(self) -> None:
        part = self.connection.recv(1 << 16)
        if not part:
            raise Torn
        self._held += part

    def chunks(self) -> bytes:
        """Read a body that was sent in chunks (RFC 9112 7.1)."""
        parts = []
        while size := int(self.until(b"\r\n").partition(b";")[0], 16):
            parts.append(self.exactly(size))
            self.until(b"\r\n")
        while self.until(b"\r\n"):
            pass
        return b"".join(parts)


def fields_of(lines: Sequence[str]) -> list[tuple[str, str]]:
    return [(name.strip(), value.strip()) for name, _, value in (line.partition(":") for line in lines)]


def read_request(connection: socket.socket, now: Callable[[], float]) -> Request:
    """Read a request, and send 100 Continue if the client expects it; raise Torn or OSError."""
    if connection.recv(1, socket.MSG_PEEK) == b"\x16":
        raise Torn  # the beginning of TLS
    stream = Stream(connection)
    lines = stream.until(b"\r\n\r\n").decode("latin-1").split("\r\n")
    method, path, _ = lines[0].split(" ")
    headers = {name.lower(): value for name, value in fields_of(lines[1:])}
    if headers.get("expect", "").lower() == "100-continue":
        connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
    chunked = "chunked" in headers.get("transfer-encoding", "").lower()
    body = stream.chunks() if chunked else stream.exactly(int(headers.get("content-length") or 0))
    return Request(method, path, headers, body, now())


def forward(port: int, request: Request, torn: bool = False) -> Answer:
    """Return the response of the server on `port`; with `torn` it receives only the first half of the request."""
    left_out = {"connection", "expect", "transfer-encoding", "content-length", "host"}
    fields = [(name, value) for name, value in request.headers.items() if name not in left_out]
    fields += [("host", f"127.0.0.1:{port}"), ("connection", "close")]
    if request.body or request.method in ("POST", "PUT"):
        fields.append(("content-length", str(len(request.body))))
    head = "\r\n".join([f"{request.line} HTTP/1.1", *(f"{name}: {value}" for name, value in fields)])
    raw = head.encode("latin-1") + b"\r\n\r\n" + request.body
    with socket.create_connection(("127.0.0.1", port), timeout=LIMIT_SECONDS) as connection:
        if torn:
            connection.sendall(raw[: len(raw) // 2])
            raise Torn
        connection.sendall(raw)
        return read_answer(connection, request.method)


def read_answer(connection: socket.socket, method: str) -> Answer:
    stream = Stream(connection)
    while True:
        lines = stream.until(b"\r\n\r\n").decode("utf-8").split("\r\n")
        status = int(lines[0].split(" ")[1])
        if status >= 200:
            break
    fields = fields_of(lines[1:])
    length = next((int(value) for name, value in fields if name.lower() == "content-length"), None)
    if method == "HEAD" or status in (204, 304):
        return Answer(status, fields, b"")
    return Answer(status, fields, stream.rest() if length is None else stream.exactly(length))
