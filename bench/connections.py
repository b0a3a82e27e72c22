"""Many connections of one process use plain sockets and one epoll, so that the server takes most of the time."""

import json
import select
import socket
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

TIMEOUT_SECONDS = 60
AT_ONCE = 64
"""The number of connections that `ask_all` uses."""
_ANSWER_BYTES = 65536


class Answer(NamedTuple):
    at: float
    """The time of its last byte, by time.perf_counter()."""
    status: int
    body: bytes

    def json(self) -> Mapping[str, object]:
        found: Mapping[str, object] = json.loads(self.body)
        return found


class ClientConnections:
    """`count` connections to one port of this machine, each with at most one request at a time."""

    def __init__(self, port: int, count: int) -> None:
        self._epoll = select.epoll()
        self._sockets = [socket.create_connection(("127.0.0.1", port)) for _ in range(count)]
        self._members = {member.fileno(): number for number, member in enumerate(self._sockets)}
        for member in self._sockets:
            member.setblocking(False)
            self._epoll.register(member, select.EPOLLIN | select.EPOLLET)  # edge-triggered

    def ask(self, requests: Iterable[bytes], first: int = 0) -> None:
        """Send one request by each connection, beginning with connection `first`."""
        for number, request in enumerate(requests, first):
            if self._sockets[number].send(request) < len(request):
                raise BlockingIOError("a request does not fit into an empty socket")

    def answers(self, numbers: Sequence[int], pause_seconds: float = 0) -> list[Answer]:
        """Return the complete response of each of these connections, or raise TimeoutError or ConnectionError.

        `pause_seconds` is the pause between two polls: to wake this process for each of many responses would cost time
        of the server's processor, which a network card does not.
        """
        found: dict[int, Answer] = {}
        pieces: dict[int, bytes] = dict.fromkeys(numbers, b"")
        while pieces:
            ready = self._epoll.poll(TIMEOUT_SECONDS)
            if not ready:
                raise TimeoutError(f"{len(pieces)} of {len(numbers)} were not answered")
            if pause_seconds:
                time.sleep(pause_seconds)
            for file, _ in ready:
                number = self._members[file]
                if number in pieces:
                    pieces[number], answer = self._read(number, pieces[number])
                    if answer is not None:
                        found[number] = answer
                        del pieces[number]
        return [found[number] for number in numbers]

    def _read(self, number: int, data: bytes) -> tuple[bytes, Answer | None]:
        """Return `data` with the bytes that arrived since, and the response once it is complete."""
        with suppress(BlockingIOError):
            while (answer := _parse(data)) is None:
                more = self._sockets[number].recv(_ANSWER_BYTES)
                if not more:
                    raise ConnectionError(f"connection {number} was closed before its response was complete")
                data += more
            return data, answer
        return data, None

    def close(self) -> None:
        self._epoll.close()
        for member in self._sockets:
            member.close()


def ask_all(port: int, requests: Sequence[bytes]) -> list[Answer]:
    """Return the response to each request, with some requests at a time."""
    connections, found = ClientConnections(port, AT_ONCE), []
    for begin in range(0, len(requests), AT_ONCE):
        portion = requests[begin : begin + AT_ONCE]
        connections.ask(portion)
        found += connections.answers(range(len(portion)))
    connections.close()
    return found


def request(method: str, path: str, secret: str | None = None, body: Mapping[str, object] | None = None) -> bytes:
    data = b"" if body is None else json.dumps(body).encode()
    fields = ["Host: localhost", f"Content-Length: {len(data)}", "Content-Type: application/json"]
    fields += [] if secret is None else [f"Authorization: Bearer {secret}"]
    return "\r\n".join([f"{method} {path} HTTP/1.1", *fields, "", ""]).encode() + data


def _parse(data: bytes) -> Answer | None:
    """Return the response in `data`, or None while it is incomplete."""
    head, ended, body = data.partition(b"\r\n\r\n")
    _, named, length = head.partition(b"\r\nContent-Length: ")
    if not ended or (named and len(body) < int(length.partition(b"\r\n")[0])):
        return None
    return Answer(time.perf_counter(), int(head[9:12]), body)
