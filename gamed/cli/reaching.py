"""One request over the network for `gamed doctor`: no redirect is followed, no cookie kept."""

import codecs
import errno
import socket
import ssl
import time
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from urllib.parse import urlsplit

from gamed.doctor.answers import Answer, Cause, Reached, Unreached

TIMEOUT_SECONDS = 10.0
MAX_BODY_BYTES = 4 * 1024 * 1024
codecs.lookup("idna")  # for names of hosts; now, since a command that became another user may not find it any more


def ask(
    url: str,
    method: str = "GET",
    headers: Mapping[str, str] | None = None,
    body: bytes | None = None,
    timeout: float = TIMEOUT_SECONDS,
) -> Reached:
    """To an address of http or https, with whatever path and query; `timeout` is the longest silence, in seconds."""
    parts = urlsplit(url)
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    try:
        connection = kind(parts.hostname or "", parts.port, timeout=timeout)
    except (ValueError, HTTPException) as e:
        return Unreached(Cause.OTHER, str(e))
    return ask_on(connection, target, method, headers, body)


def ask_on(
    connection: HTTPConnection,
    target: str,
    method: str = "GET",
    headers: Mapping[str, str] | None = None,
    body: bytes | None = None,
) -> Reached:
    """On a connection of its own, which is closed afterwards."""
    began = time.monotonic()
    try:
        connection.connect()
        ends_ms = _certificate_ends_ms(connection.sock)
        connection.request(method, target, body=body, headers={"Connection": "close", **(headers or {})})
        answer = connection.getresponse()
        names = {name.lower() for name in answer.headers}
        fields = {name: ", ".join(answer.headers.get_all(name, [])) for name in names}
        whole = b"" if method == "HEAD" else answer.read(MAX_BODY_BYTES)
        return Answer(answer.status, fields, whole, time.monotonic() - began, ends_ms)
    except (OSError, HTTPException, UnicodeError) as e:  # the last from a host name that cannot be one
        return Unreached(_cause(e), str(getattr(e, "strerror", None) or e or type(e).__name__))
    finally:
        connection.close()


def _certificate_ends_ms(sock: socket.socket) -> int | None:
    found = sock.getpeercert() if isinstance(sock, ssl.SSLSocket) else None
    ends = (found or {}).get("notAfter")
    return int(ssl.cert_time_to_seconds(ends) * 1000) if isinstance(ends, str) else None


def _cause(error: Exception) -> Cause:
    if isinstance(error, OSError) and error.errno in (errno.EHOSTUNREACH, errno.ENETUNREACH):
        return Cause.NO_WAY
    causes = (
        (ssl.SSLCertVerificationError, Cause.CERTIFICATE),
        (socket.gaierror, Cause.NAME),
        (UnicodeError, Cause.NAME),
        (ConnectionRefusedError, Cause.REFUSED),
        (TimeoutError, Cause.TIMEOUT),
    )
    return next((cause for kind, cause in causes if isinstance(error, kind)), Cause.OTHER)
