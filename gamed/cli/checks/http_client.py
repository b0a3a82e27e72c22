"""`gamed doctor` sends its requests with this client; `gamed health` asks the running server (SPEC operational/6).

The client follows no redirect and keeps no cookie.
"""

import codecs
import errno
import socket
import ssl
import time
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

import click

from gamed.cli.context import CommandContext, reports_json
from gamed.cli.errors import CommandFailed
from gamed.cli.output import utf8
from gamed.cli.paths import command_line
from gamed.cli.process import read_listeners
from gamed.cli.terminal import GOOD, painted
from gamed.ops.findings import CertificateTimes, FailureCause, HttpFailure, HttpReply, Reached

REQUEST_TIMEOUT_SECONDS = 10.0
MAX_BODY_BYTES = 4 * 1024 * 1024
HEALTH_TIMEOUT_SECONDS = 5.0
codecs.lookup("idna")  # for host names; a command that became another user may not be able to load it later


def ask(
    url: str,
    method: str = "GET",
    headers: Mapping[str, str] | None = None,
    body: bytes | None = None,
    timeout: float = REQUEST_TIMEOUT_SECONDS,
) -> Reached:
    """Send one request to an http or https address; `timeout` is the longest time without a byte, in seconds."""
    parts = urlsplit(url)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    try:
        connection = _connection(parts, timeout)
    except (ValueError, HTTPException) as e:
        return HttpFailure(FailureCause.OTHER, str(e))
    return ask_on(connection, target, method, headers, body)


def _connection(parts: SplitResult, timeout: float) -> HTTPConnection:
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    return kind(parts.hostname or "", parts.port, timeout=timeout)


def ask_on(
    connection: HTTPConnection,
    target: str,
    method: str = "GET",
    headers: Mapping[str, str] | None = None,
    body: bytes | None = None,
) -> Reached:
    """Send one request on this connection, and close it."""
    began = time.monotonic()
    try:
        connection.connect()
        certificate = _certificate_times(connection.sock)
        connection.request(method, target, body=body, headers={"Connection": "close", **(headers or {})})
        answer = connection.getresponse()
        names = {name.lower() for name in answer.headers}
        fields = {name: ", ".join(answer.headers.get_all(name, [])) for name in names}
        whole = b"" if method == "HEAD" else answer.read(MAX_BODY_BYTES)
        return HttpReply(answer.status, fields, whole, time.monotonic() - began, certificate)
    except (OSError, HTTPException, UnicodeError) as e:  # the last from a host name that cannot be one
        return HttpFailure(_cause(e), str(getattr(e, "strerror", None) or e or type(e).__name__))
    finally:
        connection.close()


def _certificate_times(sock: socket.socket) -> CertificateTimes | None:
    found = sock.getpeercert() if isinstance(sock, ssl.SSLSocket) else None
    begins, ends = ((found or {}).get(name) for name in ("notBefore", "notAfter"))
    if not (isinstance(begins, str) and isinstance(ends, str)):
        return None
    return CertificateTimes(int(ssl.cert_time_to_seconds(begins)) * 1000, int(ssl.cert_time_to_seconds(ends)) * 1000)


def _cause(error: Exception) -> FailureCause:
    if isinstance(error, OSError) and error.errno in (errno.EHOSTUNREACH, errno.ENETUNREACH):
        return FailureCause.NO_WAY
    causes = (
        (ssl.SSLCertVerificationError, FailureCause.CERTIFICATE),
        (socket.gaierror, FailureCause.NAME),
        (UnicodeError, FailureCause.NAME),
        (ConnectionRefusedError, FailureCause.REFUSED),
        (TimeoutError, FailureCause.TIMEOUT),
    )
    return next((cause for kind, cause in causes if isinstance(error, kind)), FailureCause.OTHER)


class UnixConnection(HTTPConnection):
    """A connection for HTTP over a unix socket; the Host is localhost."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=HEALTH_TIMEOUT_SECONDS)
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(HEALTH_TIMEOUT_SECONDS)
        self.sock.connect(self.path)


@click.command()
@click.option("--url", metavar="URL", type=utf8, help="Ask that address instead, such as https://play.example.org")
@reports_json
def health(context: CommandContext, url: str | None) -> None:
    """Exit 0 if the server of this data folder answers GET /healthz with ok, else 1."""
    places = context.places()
    connection = _to_url(url) if url else to_server(places.data)
    try:
        connection.request("GET", "/healthz", headers={"Connection": "close"})
        answer = connection.getresponse()
        body = answer.read(1024)
    except (OSError, HTTPException, UnicodeError) as e:  # the last from a host name that cannot be one
        reason = getattr(e, "strerror", None) or e or type(e).__name__
        start = f"Start it: {command_line(places, 'serve')}"
        advice = "" if url else f" {'Read its log, then restart it.' if isinstance(e, TimeoutError) else start}"
        raise CommandFailed(f"No server answers at {url or _address(connection)} ({reason}).{advice}") from None
    if answer.status != 200:
        raise CommandFailed(f"Not healthy: {answer.status} {answer.reason}")
    if body != b"ok":
        raise CommandFailed("The answer is not from gamed: another program uses that address.")
    context.report({"health": "ok", "instance": answer.getheader("Gamed-Instance")}, painted("ok", GOOD))


def _to_url(url: str) -> HTTPConnection:
    try:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError
        return _connection(parts, HEALTH_TIMEOUT_SECONDS)
    except (ValueError, HTTPException):
        what = "expected an address such as https://play.example.org"
        raise click.BadParameter(what, param_hint="--url") from None


def _address(connection: HTTPConnection) -> str:
    if isinstance(connection, UnixConnection):
        return connection.path.replace("\0", "@")
    host = f"[{connection.host}]" if ":" in connection.host else connection.host
    return f"http://{host}:{connection.port}"


def to_server(data: Path) -> HTTPConnection:
    """Return a connection to the server of this folder, by the listeners that it recorded when it started.

    Several servers may share the folder, and one of them may have ended: prefer a listener that accepts a connection.
    Raise CommandFailed if there is no record, or no address in it that can be used here.
    """
    from gamed.cli.service.listen import NETWORK, describe  # late: it is most of Twisted

    listeners = [describe(text) for text in read_listeners(data)]
    if not listeners:
        raise CommandFailed(f"No server has been started on {data}. Start it, or name another folder with --data DIR.")
    connections = [
        UnixConnection(listener.path)
        if listener.path
        else HTTPConnection(listener.client_host, listener.port, timeout=HEALTH_TIMEOUT_SECONDS)
        for listener in listeners
        if listener.path or (listener.kind in NETWORK and listener.plain and listener.port)
    ]
    if not connections:
        raise CommandFailed("The address of this server is not known here. Pass it with --url.")
    if len(connections) == 1:
        return connections[0]
    return next(filter(_connects, connections), connections[0])


def _connects(connection: HTTPConnection) -> bool:
    try:
        connection.connect()
    except OSError:
        return False
    return True
