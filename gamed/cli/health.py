"""`gamed health`: ask the running server whether it is well, as a container's health check does (SPEC 9.4)."""

import socket
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from urllib.parse import urlsplit

import click

from gamed.cli.arguments import TEXT, json_option
from gamed.cli.host import Host
from gamed.cli.lock import noted
from gamed.cli.people import report
from gamed.cli.refusal import NotDone, ending

TIMEOUT_SECONDS = 5.0


class UnixConnection(HTTPConnection):
    """HTTP over a unix socket; the Host is localhost."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=TIMEOUT_SECONDS)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(TIMEOUT_SECONDS)
        self.sock.connect(self._path)


@click.command(short_help="Ask the running server whether it is well.")
@click.option("--url", metavar="URL", type=TEXT, help="Ask there instead, such as https://play.example.org")
@json_option
@click.pass_obj
def health(host: Host, url: str | None, as_json: bool) -> None:
    """Exit 0 if the server of this data folder answers GET /healthz with ok, else 1."""
    with ending():
        connection = _to_url(url) if url else to_server(host.places().data)
        try:
            connection.request("GET", "/healthz", headers={"Connection": "close"})
            answer = connection.getresponse()
            body = answer.read(1024)
        except (OSError, HTTPException, UnicodeError) as e:  # the last from a host name that cannot be one
            raise NotDone(f"No answer: {e or type(e).__name__}") from None
        if answer.status != 200:
            raise NotDone(f"Not well: {answer.status} {answer.reason}")
        if body != b"ok":
            raise NotDone("The answer is not gamed's: another program is at that address.")
        report({"health": "ok", "instance": answer.getheader("Gamed-Instance")}, "ok", as_json=as_json)


def _to_url(url: str) -> HTTPConnection:
    try:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        return kind(parts.hostname, parts.port, timeout=TIMEOUT_SECONDS)
    except (ValueError, HTTPException):
        what = "expected an address such as https://play.example.org"
        raise click.BadParameter(what, param_hint="--url") from None


def to_server(data: Path) -> HTTPConnection:
    """By what the server of this folder noted when it started; NotDone when it did not."""
    from gamed.cli.listeners import NETWORK, described  # late: it is most of Twisted

    listeners = [described(text) for text in noted(data)]
    if not listeners:
        raise NotDone(f"No server was ever started on {data}.")
    for listener in listeners:
        if listener.path:
            return UnixConnection(listener.path)
        if listener.kind in NETWORK and listener.plain and listener.port:
            return HTTPConnection(listener.dial, listener.port, timeout=TIMEOUT_SECONDS)
    raise NotDone("The address of this server is not known here; give it with --url.")
