"""openssl checks the TLS of the proxies (SPEC 5/10)."""

import subprocess
from contextlib import closing
from http.client import HTTPConnection

from twisted.trial.unittest import SynchronousTestCase

from tests.cli.process import folder_of
from tests.e2e.wire import PATIENCE_SECONDS
from tests.proxies.cases import in_front
from tests.proxies.programs import HOST, Proxy, program
from tests.proxies.upstream import Upstream

WEAK = "-cipher=DEFAULT@SECLEVEL=0"
"""A configuration with which openssl offers old versions, so that only the proxy can refuse them."""


def shake_hands(proxy: Proxy, *options: str) -> tuple[int, str]:
    """Run openssl; return its exit code and output."""
    command = [program("openssl"), "s_client", f"-connect=127.0.0.1:{proxy.port}", f"-servername={HOST}"]
    trust = [f"-CAfile={proxy.certificate}", f"-verify_hostname={HOST}", "-verify_return_error"]
    done = subprocess.run(
        [part for each in (*command, *trust, *options) for part in each.split("=", 1)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=60,
    )
    return done.returncode, (done.stdout + done.stderr).decode("utf-8", "replace")


class TlsTests(SynchronousTestCase):
    def test_versions(self) -> None:
        """TLS 1.2 and 1.3 with the certificate of the host; older ones are refused by the proxy."""
        upstream = Upstream()
        self.addCleanup(upstream.close)
        for proxy in in_front(self, folder_of(self), upstream.address):
            for version in ("-tls1_2", "-tls1_3"):
                code, said = shake_hands(proxy, version)
                self.assertEqual(code, 0, (proxy.name, said))
                self.assertIn("Verification: OK", said, proxy.name)
            for version in ("-tls1", "-tls1_1"):
                code, said = shake_hands(proxy, version, WEAK)
                self.assertNotEqual(code, 0, (proxy.name, said))
                self.assertIn("alert protocol version", said, proxy.name)

    def test_https_only(self) -> None:
        """Each response tells browsers to use https for a year, those that the proxy gives itself, too."""
        upstream = Upstream()
        self.addCleanup(upstream.close)
        for proxy in in_front(self, folder_of(self), upstream.address):
            for path in ("/healthz", "/elsewhere"):
                answer = proxy.ask("GET", path)
                self.assertEqual(answer.headers.get("strict-transport-security"), "max-age=31536000", proxy.name)
            self.assertEqual(proxy.ask("GET", "/elsewhere").status, 404, proxy.name)

    def test_port_80(self) -> None:
        """Without TLS each path is sent to the same path with https, and neither gamed nor a log sees the request.

        The header for https is left out there (RFC 6797 7.2).
        """
        upstream = Upstream()
        self.addCleanup(upstream.close)
        for proxy in in_front(self, folder_of(self), upstream.address):
            for method, path in (("GET", "/"), ("GET", "/auth/login/secret?a=b%20c"), ("POST", "/auth/login")):
                with closing(HTTPConnection("127.0.0.1", proxy.plain_port, timeout=PATIENCE_SECONDS)) as connection:
                    connection.request(method, path, headers={"Host": HOST})
                    answer = connection.getresponse()
                    answer.read()
                self.assertEqual(
                    (answer.status, answer.headers["Location"]), (308, f"https://{HOST}{path}"), proxy.name
                )
                self.assertIsNone(answer.headers["Strict-Transport-Security"], proxy.name)
            self.assertNotIn("secret", "".join(proxy.logs().values()), proxy.name)
        self.assertEqual(upstream.heard, [])

    def test_renewal(self) -> None:
        """A certificate authority reads the answer to its challenge from nginx without TLS, and nothing beside it."""
        upstream = Upstream()
        self.addCleanup(upstream.close)
        [nginx] = [proxy for proxy in in_front(self, folder_of(self), upstream.address) if proxy.name == "nginx"]
        folder = nginx.folder / "html/.well-known/acme-challenge"
        folder.mkdir(parents=True)
        (folder / "token").write_text("answer")
        (folder.parent / "other").write_text("other")
        for path, status in (
            ("/.well-known/acme-challenge/token", 200),
            ("/.well-known/acme-challenge/none", 404),
            ("/.well-known/acme-challenge/../other", 308),
            ("/.well-known/other", 308),
        ):
            with closing(HTTPConnection("127.0.0.1", nginx.plain_port, timeout=PATIENCE_SECONDS)) as connection:
                connection.request("GET", path, headers={"Host": HOST})
                answer = connection.getresponse()
                body = answer.read()
            self.assertEqual((answer.status, body == b"answer"), (status, status == 200), path)
        self.assertEqual(upstream.heard, [])
