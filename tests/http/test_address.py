"""The client's address is found behind trusted proxies (docs/owners/proxies.md: trusted_proxies)."""

from ipaddress import ip_network

from twisted.trial.unittest import SynchronousTestCase

from gamed.http.client_address import LOOPBACK, ForwardedFor, Peer, parse_address
from tests.support.covers import covers
from tests.support.http import logged

PROXIES = (*LOOPBACK, ip_network("10.0.0.0/8"))


def address(peer: str | None, *forwarded: str) -> str:
    found = Peer.classify(peer, PROXIES)
    return ForwardedFor(PROXIES).client(found, ",".join(forwarded)) if forwarded else found.address


@covers("threats/33")
class WalkTests(SynchronousTestCase):
    def test_without_a_proxy(self) -> None:
        """The address is the TCP peer; X-Forwarded-For of an untrusted peer is ignored."""
        self.assertEqual(address("192.0.2.1"), "192.0.2.1")
        self.assertEqual(address("192.0.2.1", "198.51.100.7"), "192.0.2.1")

    def test_behind_proxies(self) -> None:
        """The address is the right-most entry that is not a trusted proxy, over all lines of the field."""
        self.assertEqual(address("127.0.0.1", "198.51.100.7"), "198.51.100.7")
        self.assertEqual(address("127.0.0.1", "1.1.1.1, 198.51.100.7, 10.0.0.3"), "198.51.100.7")
        self.assertEqual(address("127.0.0.1", "1.1.1.1", "198.51.100.7", "10.0.0.3, 10.0.0.4"), "198.51.100.7")
        self.assertEqual(address("::1", "2001:db8::7"), "2001:db8::7")

    def test_only_proxies(self) -> None:
        """If all entries are trusted, the first one counts."""
        self.assertEqual(address("127.0.0.1", "10.0.0.3, 10.0.0.4"), "10.0.0.3")
        self.assertEqual(address("127.0.0.1"), "127.0.0.1")

    def test_a_local_socket(self) -> None:
        """A local socket is trusted; without an entry the client is `unix`."""
        self.assertEqual(address(None, "198.51.100.7"), "198.51.100.7")
        self.assertEqual(address(None), "unix")
        self.assertEqual(address(None, "nonsense"), "unix")

    def test_nonsense_ends_the_walk(self) -> None:
        """An entry that is not an address ends the search; the hop that reported it counts."""
        for entry in ("unknown", "_hidden", "", "1.2.3", "198.51.100.7, 999.1.1.1", "[::1", "a" * 5000):
            with self.subTest(entry):
                self.assertEqual(address("127.0.0.1", entry), "127.0.0.1")
        self.assertEqual(address("127.0.0.1", "198.51.100.7, x, 10.0.0.3"), "10.0.0.3")

    def test_spellings(self) -> None:
        """Ports, brackets, zones and mapped addresses are parsed."""
        for text, expected in {
            "192.0.2.1:4711": "192.0.2.1",
            "[2001:DB8::1]:4711": "2001:db8::1",
            "[2001:db8::1]": "2001:db8::1",
            "fe80::1%eth0": "fe80::1",
            "::ffff:192.0.2.1": "192.0.2.1",
            " 192.0.2.1\t": "192.0.2.1",
        }.items():
            self.assertEqual(str(parse_address(text)), expected)
        self.assertEqual(address("::ffff:127.0.0.1", "198.51.100.7"), "198.51.100.7")


class WarningTests(SynchronousTestCase):
    def warnings(self, *peers: str | None) -> list[str]:
        forwarding, forwarded = ForwardedFor(LOOPBACK), "198.51.100.7"
        return logged(lambda: [forwarding.client(Peer.classify(peer, LOOPBACK), forwarded) for peer in peers])

    def test_one_warning_for_an_unlisted_proxy(self) -> None:
        """One warning with the network to add to trusted_proxies; it names a private peer."""
        [warning] = self.warnings("172.17.0.1", "172.17.0.1")
        self.assertTrue(warning.startswith("forwarded_for_ignored network=172.17.0.1/32 detail="), warning)
        self.assertIn("trusted_proxies", warning)

    def test_a_public_address_is_not_logged(self) -> None:
        """A public address is not logged."""
        [warning] = self.warnings("8.8.8.8")
        self.assertNotIn("8.8.8.8", warning)

    def test_no_warning_for_trusted_peers(self) -> None:
        """X-Forwarded-For of trusted peers causes no warning."""
        self.assertEqual(self.warnings("127.0.0.1", None), [])
