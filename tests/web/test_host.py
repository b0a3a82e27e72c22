"""Which Host is ours (PROTOCOL 1)."""

from twisted.trial.unittest import SynchronousTestCase

from gamed.web.errors import BadRequest, Misdirected
from gamed.web.host import judge_host, normal_host

OURS = ("game.example",)


def judge(*hosts: bytes, version: bytes = b"HTTP/1.1", authority: bytes | None = None) -> None:
    judge_host(version, hosts, authority, OURS)


class HostTests(SynchronousTestCase):
    def test_ours(self) -> None:
        """The base's and loopback's names, any case, any port, with or without the last dot."""
        for host in (
            b"game.example",
            b"GAME.example.",
            b"game.example:443",
            b"game.example.:1",
            b"localhost",
            b"localhost:8080",
            b"127.0.0.1",
            b"127.0.0.1:80",
            b"[::1]",
            b"[::1]:8080",
            b"[0:0:0:0:0:0:0:1]",
            b"game.example:",
        ):
            with self.subTest(host):
                judge(host)

    def test_others(self) -> None:
        """Every other name is another server's, also one that begins or ends as ours."""
        for host in (b"evil.example", b"xgame.example", b"game.example.evil", b"127.0.0.2", b"[::2]", b"example", b"0"):
            with self.subTest(host):
                self.assertRaises(Misdirected, judge, host)
        self.assertRaises(Misdirected, judge, b"a." * 127 + b"a:65535")

    def test_malformed(self) -> None:
        """No host at all, user info, paths, blanks, bad ports and literals, more than a name's 255 bytes."""
        for host in (
            b"",
            b":80",
            b"a b",
            b"a@game.example",
            b"game.example/",
            b"game.example:x",
            b"game.example:123456",
            b"[::1",
            b"::1",
            b"[::1]x",
            b"[1::2::3]",
            b"game..example",
            b".game.example",
            b"game.example,b",
            b"g\xe4me",
            b"game.example..",
            b"[127.0.0.1]",
            b"a." * 127 + b"aa",
        ):
            with self.subTest(host):
                self.assertRaises(BadRequest, judge, host)

    def test_number(self) -> None:
        """One in HTTP/1.1; HTTP/1.0 may have none, never two."""
        self.assertRaises(BadRequest, judge)
        self.assertRaises(BadRequest, judge, b"game.example", b"game.example")
        self.assertRaises(BadRequest, judge, b"game.example", b"game.example", version=b"HTTP/1.0")
        judge(version=b"HTTP/1.0")
        self.assertRaises(Misdirected, judge, b"evil.example", version=b"HTTP/1.0")

    def test_an_absolute_target_wins(self) -> None:
        """Its authority is judged instead of Host, which must be there and well-formed (RFC 9112 3.2.2)."""
        judge(b"evil.example", authority=b"game.example")
        self.assertRaises(Misdirected, judge, b"game.example", authority=b"evil.example")
        self.assertRaises(BadRequest, judge, authority=b"game.example")
        self.assertRaises(BadRequest, judge, b"game.example", authority=b"a@game.example")
        self.assertRaises(BadRequest, judge, b"a b", authority=b"game.example")
        self.assertRaises(Misdirected, judge, version=b"HTTP/1.0", authority=b"evil.example")

    def test_normal_form(self) -> None:
        """Lower case, no port, no brackets, one spelling of an address."""
        self.assertEqual(normal_host(b"Game.Example.:80"), "game.example")
        self.assertEqual(normal_host(b"[2001:DB8:0::1]:80"), "2001:db8::1")
