"""A network that loses requests and responses: a TCP proxy between devices and the service.

It takes one request per connection, as the reference client makes them, and loses requests before they arrive and
answers after; it does not know what they mean.
"""

import socket
import threading
from collections import deque
from collections.abc import Callable
from enum import Enum, auto

from msgspec import Struct, field

LIMIT_SECONDS = 30


class Fate(Enum):
    """The outcome of an exchange."""

    PASSES = auto()
    REQUEST_LOST = auto()
    REQUEST_TORN = auto()
    """Half of the request arrives."""
    ANSWER_LOST = auto()
    ANSWER_TORN = auto()


class Request(Struct, frozen=True):
    method: str
    path: str
    condition: str
    body: bytes
    """The bytes after the head."""


def always(request: Request) -> Fate | bytes:
    return Fate.PASSES


class Proxy(Struct):
    """`decide` chooses the fate of each request; bytes are a response of its own, and the request is not passed on.

    `next_fates` come first, each for the next request of its method. `seen` is every request, in order.
    """

    port: int
    """The service's port; the service may be down."""
    decide: Callable[[Request], Fate | bytes] = always
    offline: bool = False
    next_fates: dict[str, deque[Fate | bytes]] = field(default_factory=dict)
    seen: list[Request] = field(default_factory=list)
    _listener: socket.socket = field(default_factory=lambda: socket.create_server(("127.0.0.1", 0), backlog=50))

    def start(self) -> "Proxy":
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def stop(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def next(self, method: str, *fates: Fate | bytes) -> None:
        self.next_fates.setdefault(method, deque()).extend(fates)

    def sent(self, method: str) -> list[Request]:
        return [request for request in self.seen if request.method == method]

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client:
            client.settimeout(LIMIT_SECONDS)
            try:
                if not self.offline:
                    self._exchange(client)
            except OSError:
                return

    def _exchange(self, client: socket.socket) -> None:
        raw = _whole_request(client)
        if raw is None:
            return
        request = _parsed(raw)
        self.seen.append(request)
        waiting = self.next_fates.get(request.method)
        fate = waiting.popleft() if waiting else self.decide(request)
        if isinstance(fate, bytes):
            client.sendall(fate)
        elif fate is Fate.REQUEST_TORN:
            self._forward(raw[: len(raw) // 2], whole=False)
        elif fate is not Fate.REQUEST_LOST:
            answer = self._forward(raw)
            if fate is Fate.PASSES:
                client.sendall(answer)
            elif fate is Fate.ANSWER_TORN:
                client.sendall(answer[: len(answer) // 2])

    def _forward(self, raw: bytes, whole: bool = True) -> bytes:
        """Return the complete response of the service."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=LIMIT_SECONDS) as service:
            service.sendall(raw)
            if not whole:
                return b""
            answer = b""
            while part := service.recv(1 << 16):
                answer += part
            return answer


def _whole_request(client: socket.socket) -> bytes | None:
    """Return the request; None if it was interrupted."""
    raw = b""
    while b"\r\n\r\n" not in raw:
        part = client.recv(1 << 16)
        if not part:
            return None
        raw += part
    head, _, body = raw.partition(b"\r\n\r\n")
    length = int(_field(head, "content-length") or 0)
    while len(body) < length:
        part = client.recv(1 << 16)
        if not part:
            return None
        body += part
    return head + b"\r\n\r\n" + body


def _parsed(raw: bytes) -> Request:
    head, _, body = raw.partition(b"\r\n\r\n")
    method, path, _ = head.split(b"\r\n")[0].decode("ascii").split(" ")
    return Request(method, path, _field(head, "if-match") or _field(head, "if-none-match"), body)


def _field(head: bytes, name: str) -> str:
    lines = [line.partition(b":") for line in head.split(b"\r\n")[1:]]
    return next((value.strip().decode() for key, _, value in lines if key.decode().lower() == name), "")


def problem(status: int, code: str, retry_after: int | None = None) -> bytes:
    """Return a response as the service sends it."""
    body = f'{{"status":{status},"code":"{code}","title":"{code}","detail":"{code}."}}'.encode()
    wait = f"Retry-After: {retry_after}\r\n" if retry_after is not None else ""
    head = f"HTTP/1.1 {status} X\r\nContent-Type: application/problem+json\r\nContent-Length: {len(body)}\r\n{wait}\r\n"
    return head.encode() + body
