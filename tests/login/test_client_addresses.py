"""These tests count requests of peers, proxies and forged headers against the right client address.

See docs/owners/proxies.md: trusted_proxies.
"""

from ipaddress import ip_network
from typing import Any

from msgspec.structs import replace
from twisted.internet.address import IPv4Address, IPv6Address, UNIXAddress
from twisted.internet.interfaces import IAddress

from gamed.http.client_address import LOOPBACK
from gamed.http.settings import HttpSettings
from gamed.login.policy import NO_LIMITS
from tests.login.browser_fixtures import BrowserCase
from tests.support.covers import covers
from tests.support.http import BASE_HOST, Answer, request_bytes

PROXY = IPv4Address("TCP", "127.0.0.1", 51000)
PROXY6 = IPv6Address("TCP", "::1", 51000)
INNER = IPv4Address("TCP", "10.0.0.3", 51000)
STRANGER = IPv4Address("TCP", "198.51.100.66", 51000)
SOCKET = UNIXAddress(None)
POLICY = HttpSettings(BASE_HOST, (*LOOPBACK, ip_network("10.0.0.0/8")))


class AddressCase(BrowserCase):
    def limited(self, **members: int) -> None:
        self.serve(limits=replace(NO_LIMITS, **members))

    def start(self, peer: IAddress = PROXY, *forwarded: str, **headers: str) -> Answer:
        """Start a login over a connection from `peer`; each of `forwarded` is a line of X-Forwarded-For."""
        fields = {"Content-Type": "application/json", **{k.replace("_", "-"): v for k, v in headers.items()}}
        raw = request_bytes("POST", "/auth/login", fields, b"{}")
        lines = "".join(f"X-Forwarded-For: {line}\r\n" for line in forwarded).encode()
        head, _, body = raw.partition(b"\r\n\r\n")
        connection = self.site.connect(peer)
        connection.send(head + b"\r\n" + lines + b"\r\n" + body)
        answer = connection.answer
        connection.leave()
        return answer

    def counts_as_one(self, *starts: tuple[Any, ...]) -> None:
        """Check that all these requests count as one client."""
        self.limited(starts_per_minute=1)
        statuses = [self.start(*each).status for each in starts]
        self.assertEqual(statuses, [201] + [429] * (len(starts) - 1))

    def counts_apart(self, *starts: tuple[Any, ...]) -> None:
        self.limited(starts_per_minute=1)
        self.assertEqual([self.start(*each).status for each in starts], [201] * len(starts))


class Peers(AddressCase):
    def test_players_behind_one_proxy(self) -> None:
        """Two hundred players behind one trusted proxy have a limit each."""
        self.limited(starts_per_minute=2, live_logins_per_address=2)
        players = [f"203.0.113.{number}" for number in range(200)]
        for _ in range(2):
            self.assertEqual({self.start(PROXY, player).status for player in players}, {201})
        self.assertEqual({self.start(PROXY, player).status for player in players[:5]}, {429})

    def test_strangers_speak_for_nobody(self) -> None:
        """The header of an untrusted peer is ignored: a new address in each request does not avoid the limit."""
        self.counts_as_one(*((STRANGER, f"203.0.113.{number}") for number in range(5)))

    def test_a_client_forges_behind_the_proxy(self) -> None:
        """An address that the client wrote itself stands left of the proxy's, and does not count."""
        self.counts_as_one(*((PROXY, f"203.0.113.{number}, 198.51.100.7") for number in range(5)))
        self.counts_as_one(*((PROXY, f"203.0.113.{number}", "198.51.100.7") for number in range(5)))
        self.counts_as_one(*((PROXY, f"127.0.0.1, 10.0.0.{number}, 198.51.100.7, 10.0.0.9") for number in range(5)))

    def test_local_socket(self) -> None:
        """A unix socket is a trusted proxy; without the header it counts as one client."""
        self.counts_apart((SOCKET, "203.0.113.1"), (SOCKET, "203.0.113.2"), (SOCKET,))
        self.counts_as_one((SOCKET,), (SOCKET, "nonsense"), (SOCKET, ""))

    def test_ipv6(self) -> None:
        """A /64 is one client in any spelling, with and without a port; a mapped address is its IPv4 address."""
        self.counts_as_one(*((PROXY6, text) for text in ("2001:db8::1", "2001:DB8:0:0:9::7", "[2001:db8::1]:4711")))
        self.counts_as_one((PROXY6, "203.0.113.7"), (PROXY, "::ffff:203.0.113.7"), (PROXY, "203.0.113.7:4711"))
        self.counts_apart((PROXY6, "2001:db8::1"), (PROXY6, "2001:db8:0:1::1"))

    def test_garbage(self) -> None:
        """An entry that is not an address ends the search: the hop that reported it is the client."""
        garbage = ("unknown", "", ",,,", "999.1.1.1", "1.2.3", "[::1", "'; DROP TABLE login", "a" * 4000, "\t")
        self.counts_as_one(*((PROXY, f"203.0.113.{n}, {text}") for n, text in enumerate(garbage)))

    def test_many_entries(self) -> None:
        """Thousands of entries in one head are read in linear time, and change nothing."""
        many = ",".join(["203.0.113.9"] * 1000)
        self.counts_as_one((PROXY, f"{many},198.51.100.7"), (PROXY, "198.51.100.7"))

    def test_other_headers(self) -> None:
        """Forwarded, X-Real-IP, True-Client-IP and similar fields are ignored."""
        self.limited(starts_per_minute=1)
        names = ("Forwarded", "X_Real_IP", "True_Client_IP", "CF_Connecting_IP", "X_Client_IP", "X_Forwarded")
        values = {"Forwarded": "for=203.0.113.1"}
        self.assertEqual(self.start(PROXY).status, 201)
        for name in names:
            self.assertEqual(self.start(PROXY, **{name: values.get(name, "203.0.113.1")}).status, 429)

    def test_listed_proxies(self) -> None:
        """Listed proxies are skipped, and the header of a listed peer is used."""
        self.limited(starts_per_minute=1)
        self.open_site(POLICY)
        statuses = [
            self.start(INNER, "203.0.113.1").status,
            self.start(PROXY, "203.0.113.1, 10.0.0.3").status,
            self.start(INNER, "203.0.113.2, 10.0.0.4, 10.0.0.3").status,
        ]
        self.assertEqual(statuses, [201, 429, 201])


@covers("8/9")
class Refusals(AddressCase):
    def test_start(self) -> None:
        """A refused start is a problem with Retry-After, in seconds and in the sentence."""
        for members, seconds in (({"starts_per_minute": 30}, 2), ({"live_logins_per_address": 30}, 60)):
            self.limited(**members)
            for _ in range(30):
                self.start(PROXY, "203.0.113.7")
            answer = self.start(PROXY, "203.0.113.7")
            self.assertEqual((answer.status, answer.headers["retry-after"]), (429, str(seconds)))
            self.assertEqual(answer.headers["content-type"], "application/problem+json")
            expected = {"code": "rate_limited", "status": 429, "retry_after": seconds}
            self.assertLessEqual(expected.items(), answer.json.items())
            self.assertEqual(answer.json["detail"], f"Try again in {seconds} seconds.")

    def test_too_many_logins(self) -> None:
        """A start is 503 `busy` with Retry-After if no login can be evicted."""
        self.limited(live_logins=1)
        game = self.game()
        self.new_browser().sign_in(game.url, password="wrong horse")
        answer = self.start()
        self.assertEqual((answer.status, answer.json["code"], answer.headers["retry-after"]), (503, "busy", "15"))

    def test_entry(self) -> None:
        """A refused visit is a page that says when to retry; it sets no cookie and notifies no game."""
        self.limited(entries_per_minute=2)
        game, browser = self.game(), self.new_browser()
        for _ in range(2):
            self.assertEqual(browser.get(game.url).status, 200)
        late = self.new_browser()
        page = late.get(game.url)
        self.assertEqual((page.status, page.headers["retry-after"]), (429, "30"))
        self.assertTrue(page.headers["content-type"].startswith("text/html"))
        self.assertIn("Try again in 30 seconds.", page.text)
        self.assertEqual(late.cookie, None)
        self.assertEqual(game.collect().json["stage"], "waiting_for_browser")

    def test_each_behind_the_proxy_enters(self) -> None:
        """Visits count per forwarded address."""
        self.limited(entries_per_minute=1)
        game = self.game()
        statuses = [self.visit(game.url, f"203.0.113.{number}") for number in (1, 2, 1)]
        self.assertEqual(statuses, [200, 200, 429])

    def test_form_finishes_all_the_same(self) -> None:
        """A form that is open already can be sent, however many visits are refused."""
        self.limited(entries_per_minute=1)
        game, browser = self.game(), self.new_browser()
        form = browser.get(game.url).form("/local")
        self.assertEqual(browser.get(game.url).status, 429)
        self.assertEqual(browser.post(form, {"name": "Anna", "password": "correct horse"}).status, 303)

    def visit(self, url: str, forwarded: str) -> int:
        return self.new_browser().get(url, X_Forwarded_For=forwarded).status
