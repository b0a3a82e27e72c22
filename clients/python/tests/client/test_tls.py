"""Over https a server without a valid certificate receives no request (SPEC 5/10)."""

import json
import os
import socket
import ssl
import subprocess
import sys
import threading
import time
from ipaddress import IPv4Address
from pathlib import Path

from cryptography.x509 import DNSName, IPAddress
from twisted.trial.unittest import SynchronousTestCase

from clients.python.tests.client.fake_server import FakeGamed, problem
from tests.support.certificates import certificate
from tests.support.covers import covers
from tests.support.folders import unused_path
from tests.support.python_client import CLIENT_PATH as PATH
from tests.support.python_client import gamed_client as gc


class Tls(SynchronousTestCase):
    """A fake server with a certificate."""

    def setUp(self) -> None:
        self.folder = unused_path(self)
        self.folder.mkdir()

    def serve(self, path: Path) -> FakeGamed:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(path)
        fake = FakeGamed(tls=context)
        fake.start()
        self.addCleanup(fake.stop)
        return fake

    def ask(self, fake: FakeGamed, trusted: Path) -> dict:
        """Return the output of `whoami` with `trusted` as the only trusted certificate."""
        place = ["--server", fake.base, "--folder", str(self.folder), "--json", "whoami"]
        env = {**os.environ, "SSL_CERT_FILE": str(trusted)}
        done = subprocess.run(
            [sys.executable, str(PATH), *place], check=False, capture_output=True, timeout=120, env=env
        )
        return json.loads(done.stdout)

    def test_trusted(self) -> None:
        """The client accepts the certificate of a trusted authority with the right name."""
        path = certificate(self.folder, IPAddress(IPv4Address("127.0.0.1")))
        fake = self.serve(path)
        gc.GamedClient(fake.base, folder=self.folder, now=lambda: 4e9).keep(fake.credentials())
        self.assertEqual(self.ask(fake, path)["player"]["id"], "ply_1")

    @covers("threats/29")
    def test_not_trusted(self) -> None:
        """An unknown authority, another name and an expired certificate are refused at once, and no request is sent."""
        own = IPAddress(IPv4Address("127.0.0.1"))
        good = certificate(self.folder, own)
        for path, trusted in [
            (certificate(self.folder, own, days=20), good),
            (other := certificate(self.folder, DNSName("evil.example")), other),
            (old := certificate(self.folder, own, days=-1), old),
        ]:
            fake = self.serve(path)
            gc.GamedClient(fake.base, folder=self.folder, now=lambda: 4e9).keep(fake.credentials())
            self.assertEqual(self.ask(fake, trusted)["error"]["code"], "untrusted_certificate")
            self.assertEqual(fake.seen, [])

    def test_refused_upload(self) -> None:
        """The client reads the response of a server that closes before it has read the body, also over https."""
        path = certificate(self.folder, IPAddress(IPv4Address("127.0.0.1")))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(path)
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)
        threading.Thread(target=refuse, args=(listener, context), daemon=True).start()
        usual = os.environ.get("SSL_CERT_FILE")
        self.addCleanup(lambda: os.environ.pop("SSL_CERT_FILE") if usual is None else set_trusted(usual))
        set_trusted(str(path))
        origin = gc.Origin.entered(f"https://127.0.0.1:{listener.getsockname()[1]}")
        wire = gc.Wire(origin, "a test", tries=1)
        error = self.assertRaises(gc.GamedError, wire.call, "PUT", "/game/saves/auto", body=bytes(1 << 24))
        self.assertEqual((error.status, error.code), (401, "token_expired"))


def set_trusted(path: str) -> None:
    os.environ["SSL_CERT_FILE"] = path


def refuse(listener: socket.socket, context: ssl.SSLContext) -> None:
    """Answer a head; close half a second later, as Go's servers do."""
    plain, _ = listener.accept()
    with context.wrap_socket(plain, server_side=True) as connection:
        connection.recv(65536)
        refusal = problem(401, "token_expired")
        head = (
            f"HTTP/1.1 401 No\r\nContent-Type: application/problem+json\r\nContent-Length: {len(refusal.body)}\r\n\r\n"
        )
        connection.sendall(head.encode() + refusal.body)
        time.sleep(0.5)
