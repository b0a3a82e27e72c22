"""A server behind a proxy that records each received byte."""

import socketserver
import threading
from contextlib import suppress
from pathlib import Path

from msgspec import Struct, field

from tests.support.ports import free_port


class Heard(Struct):
    """One request as received; it grows until its end."""

    start: str = ""
    fields: list[tuple[str, str]] = field(default_factory=list)
    body: bytearray = field(default_factory=bytearray)

    def values(self, name: str) -> list[str]:
        return [value for key, value in self.fields if key.lower() == name]


class _Handler(socketserver.StreamRequestHandler):
    server: "_Tcp | _Unix"

    def handle(self) -> None:
        self.server.connections.append(None)
        with suppress(ConnectionError):
            while start := self.rfile.readline().decode("latin-1").rstrip("\r\n"):
                self._hear(Heard(start))

    def _hear(self, heard: Heard) -> None:
        while line := self.rfile.readline().decode("latin-1").rstrip("\r\n"):
            name, _, value = line.partition(":")
            heard.fields.append((name, value.strip()))
        self.server.heard.append(heard)
        for size in map(int, heard.values("content-length")):
            while len(heard.body) < size and (part := self.rfile.read1(size - len(heard.body))):
                heard.body += part
        self._chunks(heard)
        answer = self.server.answer
        self.wfile.write(answer.partition(b"\r\n\r\n")[0] + b"\r\n\r\n" if heard.start.startswith("HEAD ") else answer)

    def _chunks(self, heard: Heard) -> None:
        chunked = heard.values("transfer-encoding") == ["chunked"]
        while chunked and (size := int(self.rfile.readline(), 16)):
            heard.body += self.rfile.read(size)
            self.rfile.readline()
        if chunked:
            self.rfile.readline()


META = b'{"title":"' + b"x" * 8180 + b'"}'
ANSWER = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: 4000\r\n"
    b'ETag: "9-9f86d081884c7d65"\r\nCache-Control: max-age=600\r\nAccept-Ranges: bytes\r\n'
    b"Save-Meta: " + META + b"\r\n\r\n" + b"a" * 4000
)
"""A response that caches and compressors like, with the longest metadata of gamed."""


class _Tcp(socketserver.ThreadingTCPServer):
    allow_reuse_address = daemon_threads = True
    block_on_close = False
    request_queue_size = 64
    heard: list[Heard]
    connections: list[None]
    answer: bytes


class _Unix(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    block_on_close = False
    heard: list[Heard]
    connections: list[None]
    answer: bytes


class Upstream:
    """A server on a free port, or on the socket `path`, that keeps connections open and always answers the same."""

    def __init__(self, path: Path | None = None, answer: bytes = ANSWER) -> None:
        port = 0 if path else free_port()
        self.address = f"unix:{path}" if path else f"127.0.0.1:{port}"
        self._server = _Unix(str(path), _Handler) if path else _Tcp(("127.0.0.1", port), _Handler)
        self.heard = self._server.heard = []
        self.connections = self._server.connections = []
        self._server.answer = answer
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
