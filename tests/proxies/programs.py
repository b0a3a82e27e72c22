"""A proxy as a process with its files in one folder, and requests to it over TLS."""

import os
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from http.client import HTTPSConnection
from pathlib import Path

from tests.e2e.wire import PATIENCE_SECONDS, Answer, ask_on
from tests.support.ports import free_port

HOST = "play.example.org"
"""The address of gamed in both samples."""
START_SECONDS = STOP_SECONDS = 60


class ProxyDied(Exception):
    """A proxy that ended or never listened; the text is its output."""


HAS_IPV6 = Path("/proc/net/if_inet6").exists() and "00000000000000000000000000000001" in Path(
    "/proc/net/if_inet6"
).read_text("ascii")
"""Whether this machine has the address ::1."""


class Line(HTTPSConnection):
    """Connect from `source` to a proxy on this machine, which must prove that it is HOST."""

    def __init__(self, port: int, tls: ssl.SSLContext, source: str) -> None:
        super().__init__(HOST, port, timeout=PATIENCE_SECONDS, context=tls)
        self._tls, self._source = tls, source

    def connect(self) -> None:
        host = "::1" if ":" in self._source else "127.0.0.1"
        plain = socket.create_connection((host, self.port), self.timeout, (self._source, 0))
        self.sock = self._tls.wrap_socket(plain, server_hostname=HOST)

    def request(self, *what: object, **how: object) -> None:
        """Send bytes; a proxy that refuses a body may close before the end of it."""
        with suppress(BrokenPipeError, ConnectionResetError, ssl.SSLEOFError):
            super().request(*what, **how)


class Proxy:
    """A running proxy; `upstream` replaces the address of gamed in the sample."""

    name = ""

    def __init__(self, folder: Path, certificate: Path, upstream: str) -> None:
        folder.mkdir(parents=True)
        self.folder, self.log = folder, folder / "gamed.log"
        self.certificate, self._tls = certificate, ssl.create_default_context(cafile=certificate)
        self.port, self.plain_port = free_port(), free_port()
        command = self._prepare(upstream)
        with (folder / "said").open("wb") as said:
            self._process = subprocess.Popen(
                command,
                cwd=folder,
                env={"PATH": os.environ["PATH"], "HOME": str(folder)},
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
            )
        limit = time.monotonic() + START_SECONDS
        while not self._listens():
            if self._process.poll() is not None or time.monotonic() > limit:
                self.close()
                raise ProxyDied(self.said())
            time.sleep(0.02)

    def _prepare(self, upstream: str) -> Sequence[str]:
        """Write the files; return the command that runs the proxy in the foreground."""
        raise NotImplementedError

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def line(self, source: str = "127.0.0.1") -> Line:
        return Line(self.port, self._tls, source)

    def raw(self, *pieces: bytes) -> bytes:
        """Return the response to these bytes, until the proxy closes. Each further piece is sent after a response to
        the one before.
        """
        line = self.line()
        line.connect()
        received = b""
        with closing(line), suppress(ConnectionError):
            for piece in pieces:
                line.sock.sendall(piece)
                received += (part := line.sock.recv(65536))
            while part:
                received += (part := line.sock.recv(65536))
        return received

    def ask(self, method: str, path: str, *, source: str = "127.0.0.1", **how: object) -> Answer:
        """Send one request to HOST over TLS; `how` as in ask_on()."""
        headers = {"Host": HOST, **(how.pop("headers", None) or {})}
        return ask_on(self.line(source), method, path, headers=headers, **how)

    def said(self) -> str:
        """Return the output of the proxy."""
        return (self.folder / "said").read_text("utf-8", "replace")

    def logs(self) -> dict[str, str]:
        """Return the log files of the proxy."""
        own = {"gamed.conf", "nginx.conf", "Caddyfile", "autosave.json"}
        files = [path for path in self.folder.rglob("*") if path.is_file() and path.name not in own]
        return {str(path.relative_to(self.folder)): path.read_text("utf-8", "replace") for path in files}

    def kept(self) -> list[Path]:
        """Return the files and folders in which the proxy has stored bodies."""
        return [path for name in ("body", "proxy", "cache") for path in (self.folder / name).rglob("*")]

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait(STOP_SECONDS)


def program(name: str) -> str:
    """Return the path of the program; raise AssertionError if it is not installed."""
    found = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    if found is None:
        raise AssertionError(f"{name} is missing: apt-get install {name}")
    return found
