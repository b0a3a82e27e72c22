"""Over https a server without a valid certificate receives no request of the C# client (SPEC 5/10)."""

import ssl
from ipaddress import IPv4Address
from pathlib import Path

from cryptography.x509 import IPAddress
from twisted.trial.unittest import SynchronousTestCase

from clients.csharp.tests.building import CHECKS, TODAY_CHECKS, built, ran
from clients.python.tests.client.fake_server import FakeGamed
from tests.support.certificates import certificate
from tests.support.folders import unused_path


class Tls(SynchronousTestCase):
    def check(self, program: Path) -> None:
        """Run the program with a fake server whose authority this machine does not know."""
        folder = unused_path(self)
        folder.mkdir()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate(folder, IPAddress(IPv4Address("127.0.0.1"))))
        fake = FakeGamed(tls=context)
        fake.start()
        self.addCleanup(fake.stop)
        done = ran(program, "Untrusted", fake.base, str(folder / "state"))
        self.assertEqual((done.returncode, done.stdout), (0, ""))
        self.assertEqual(fake.seen, [])

    def test_not_trusted(self) -> None:
        """An unknown authority is refused at once, and no request is sent."""
        self.check(built("Checks", CHECKS))

    def test_not_trusted_today(self) -> None:
        """HttpClient refuses it, too."""
        self.check(built("TodayChecks", CHECKS, TODAY_CHECKS, today=True))
