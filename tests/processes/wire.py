"""Connections that stay open, and requests that reach several servers at the same time."""

import json
import socket
from collections.abc import Mapping, Sequence
from http.client import HTTPResponse
from time import perf_counter

from msgspec import Struct, field

from tests.e2e.wire import Answer

PATIENCE_SECONDS = 60


class Request(Struct, frozen=True):
    """A whole request, which one call of the kernel sends."""

    method: str
    path: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    def to_bytes(self) -> bytes:
        fields = {"Host": "127.0.0.1", **self.headers}
        if self.body or self.method in ("POST", "PUT"):
            fields["Content-Length"] = str(len(self.body))
        lines = [f"{self.method} {self.path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items()), "", ""]
        return "\r\n".join(lines).encode() + self.body


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def json_request(method: str, path: str, value: object, **headers: str) -> Request:
    """Return a request with a JSON body; `If_Match` is If-Match."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Request(method, path, {"Content-Type": "application/json", **named}, json.dumps(value).encode())


class KeptConnection:
    """A connection to a server on this machine that stays open between requests."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._method = ""

    @property
    def port(self) -> int:
        """Return the port at this end."""
        return int(self._socket.getsockname()[1])

    def send(self, request: Request) -> None:
        self._method = request.method
        self._socket.sendall(request.to_bytes())

    def receive(self) -> Answer:
        """Return the answer to the request that was sent last."""
        response = HTTPResponse(self._socket, method=self._method)
        try:
            response.begin()
            headers = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, headers, response.read())
        finally:
            response.close()

    def ask(self, request: Request) -> Answer:
        self.send(request)
        return self.receive()

    def close(self) -> None:
        self._socket.close()


def together(
    connections: Sequence[KeptConnection], requests: Sequence[Request], *, pause_seconds: float = 0
) -> list[Answer]:
    """Send a request on each connection, then read the answers in the same order.

    All are sent before the first answer is read, within some ten microseconds unless there is a pause between them.
    """
    for number, (connection, request) in enumerate(zip(connections, requests, strict=True)):
        until = perf_counter() + pause_seconds
        while number and perf_counter() < until:
            pass
        connection.send(request)
    return [connection.receive() for connection in connections]
