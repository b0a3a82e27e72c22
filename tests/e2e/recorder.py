"""A proxy in front of a provider, or of the service, that records its requests and their senders."""

import contextlib
import http.client
import http.server
import ssl
import threading
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import parse_qsl

from msgspec import Struct

HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length"}


class Exchange(Struct, frozen=True):
    """One request and its response. Field names are in lower case."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes
    status: int
    answer_headers: Mapping[str, str]
    answer: bytes

    @property
    def from_browser(self) -> bool:
        return self.headers.get("user-agent", "").startswith("Mozilla/")

    @property
    def parameters(self) -> list[tuple[str, str]]:
        return parse_qsl(self.query, keep_blank_values=True, strict_parsing=bool(self.query))

    @property
    def form(self) -> list[tuple[str, str]]:
        return parse_qsl(self.body.decode(), keep_blank_values=True, strict_parsing=bool(self.body))


class Recorder:
    """Listens on its own port and passes Host on, so that the provider uses this address.

    With a certificate for localhost, and its key, the address is https.
    """

    def __init__(self, upstream: int, certificate: Path | None = None) -> None:
        self.exchanges: list[Exchange] = []
        self.held: str | None = None
        """Path of requests that are neither passed on nor answered."""
        self._paused: str | None = None
        self._arrived, self._resumed = threading.Event(), threading.Event()
        self._closed = threading.Event()
        self._lock = threading.Lock()
        recorder = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            server_version = sys_version = ""

            def handle(self) -> None:
                with contextlib.suppress(ssl.SSLError):  # a browser that does not know the certificate yet
                    super().handle()

            def do_GET(self) -> None:
                recorder._pass_on(self, upstream)

            do_POST = do_PUT = do_DELETE = do_HEAD = do_OPTIONS = do_GET

            def log_message(self, format: str, *arguments: object) -> None: ...

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.block_on_close = False
        self.port = self._server.server_port
        self.base = f"http://127.0.0.1:{self.port}"
        if certificate is not None:
            self.base = f"https://localhost:{self.port}"
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            options = {"server_side": True, "do_handshake_on_connect": False}  # one that waits must not delay the next
            self._server.socket = context.wrap_socket(self._server.socket, **options)
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        self._closed.set()
        self._server.shutdown()
        self._server.server_close()

    def pause(self, path: str) -> None:
        """Hold requests to this path until resume()."""
        self._arrived.clear()
        self._resumed.clear()
        self._paused = path

    def wait_paused(self) -> None:
        """Return when a request is held; raise TimeoutError if none comes."""
        if not self._arrived.wait(60):
            raise TimeoutError

    def resume(self) -> None:
        """Pass on the requests that pause() holds, and later ones."""
        self._paused = None
        self._resumed.set()

    def of_service(self) -> list[Exchange]:
        """Return the requests that did not come from a browser."""
        return [exchange for exchange in self.exchanges if not exchange.from_browser]

    def of_browser(self) -> list[Exchange]:
        return [exchange for exchange in self.exchanges if exchange.from_browser]

    def _pass_on(self, request: http.server.BaseHTTPRequestHandler, upstream: int) -> None:
        body = request.rfile.read(int(request.headers.get("Content-Length", 0)))
        if request.path.partition("?")[0] == self.held:
            self._closed.wait()
            request.close_connection = True
            return
        if request.path.partition("?")[0] == self._paused:
            self._arrived.set()
            self._resumed.wait()
        connection = http.client.HTTPConnection("127.0.0.1", upstream, timeout=60)
        try:
            connection.putrequest(request.command, request.path, skip_host=True, skip_accept_encoding=True)
            for name, value in request.headers.items():
                if name.lower() != "connection":
                    connection.putheader(name, value)
            connection.putheader("Connection", "close")
            connection.endheaders(body or None)
            answer = connection.getresponse()
            self._note(request, body, answer, answered := answer.read())
        except OSError:  # nothing listens there: nothing answers here
            request.close_connection = True
            return
        finally:
            connection.close()
        request.send_response_only(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in HOP_BY_HOP:
                request.send_header(name, value)
        request.send_header("Content-Length", str(len(answered)))
        with contextlib.suppress(OSError):  # a service that was killed waits no more
            request.end_headers()
            if request.command != "HEAD":
                request.wfile.write(answered)

    def _note(
        self,
        request: http.server.BaseHTTPRequestHandler,
        body: bytes,
        answer: http.client.HTTPResponse,
        answered: bytes,
    ) -> None:
        path, _, query = request.path.partition("?")
        headers = {name.lower(): value for name, value in request.headers.items()}
        answer_headers = {name.lower(): value for name, value in answer.getheaders()}
        exchange = Exchange(request.command, path, query, headers, body, answer.status, answer_headers, answered)
        with self._lock:
            self.exchanges.append(exchange)
