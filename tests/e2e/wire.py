"""Requests as bytes, without the reference client's checks."""

import contextlib
import http.client
import json
import socket
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

PATIENCE_SECONDS = 120
"""Longer than any wait that a client may ask for."""


class Answer(Struct, frozen=True):
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> dict:
        return json.loads(self.body)


def ask(port: int, method: str, path: str, **how: Any) -> Answer:
    """Send one request on its own connection; `how` as in ask_on()."""
    return ask_on(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS), method, path, **how)


def ask_on(
    connection: http.client.HTTPConnection,
    method: str,
    path: str,
    *,
    json_body: object = None,
    body: bytes | None = None,
    bearer: str | None = None,
    headers: Mapping[str, str] | None = None,
    sent: Callable[[], object] = lambda: None,
) -> Answer:
    """Send the only request of this connection; header names of the response are in lower case. `sent` is called
    before the wait for the response."""
    fields = dict(headers or {})
    if json_body is not None:
        body, fields["Content-Type"] = json.dumps(json_body).encode(), "application/json"
    if bearer is not None:
        fields["Authorization"] = f"Bearer {bearer}"
    try:
        connection.request(method, path, body, fields)
        sent()
        answer = connection.getresponse()
        lower = {name.lower(): value for name, value in answer.getheaders()}
        return Answer(answer.status, lower, answer.read())
    finally:
        connection.close()


def raw(port: int, *pieces: bytes, half_close: bool = False) -> bytes:
    """Return the response to these bytes: one complete response, or all bytes until the server closes."""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS) as connection:
        received = b""
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):
            for piece in pieces:
                connection.sendall(piece)
            if half_close:
                connection.shutdown(socket.SHUT_WR)
            while not _whole(received) and (part := connection.recv(65536)):
                received += part
        return received


def _whole(received: bytes) -> bool:
    return b"\r\n\r\n" in received and len((answer := parse(received)).body) == int(
        answer.headers.get("content-length", -1)
    )


def parse(received: bytes) -> Answer:
    """Parse the first response in the bytes."""
    head, _, rest = received.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
    return Answer(int(lines[0].split(" ")[1]), headers, rest[: int(headers.get("content-length", 0))])
