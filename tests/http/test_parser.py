"""A request head that two programs could read in two ways is refused (RFC 9112)."""

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from gamed.http.app import make_app
from gamed.http.bodies import RequestHead
from gamed.http.errors import BadRequest, HeadTooLarge, HttpError, MisdirectedRequest, RouteNotFound
from gamed.http.parser import (
    RawRequestHead,
    RequestHeaders,
    check_host,
    decode_path,
    normalize_host,
    read_head,
    split_target,
)
from gamed.http.request import PreparedHeaders, ResponseHeaders
from gamed.http.site import Routed, RouteMatch
from tests.support.covers import covers


def parse_head(lines: list[bytes]) -> RawRequestHead:
    """Read a head of these lines, which is complete."""
    raw = read_head(b"".join(line + b"\r\n" for line in lines) + b"\r\n")
    assert raw is not None
    return raw


def head(*lines: bytes) -> RawRequestHead:
    return parse_head([b"PUT /a HTTP/1.1", *lines])


class RequestLineTests(SynchronousTestCase):
    def test_three_parts(self) -> None:
        """A request line is method, target and version with one blank between."""
        raw = parse_head([b"GET /a?b=c HTTP/1.0"])
        self.assertEqual((raw.method, raw.target, raw.version), ("GET", "/a?b=c", "HTTP/1.0"))

    def test_all_else_is_bad(self) -> None:
        """Other spacing, other versions, controls and bytes beyond ASCII in the target are refused."""
        lines = [
            b"GET",
            b"GET /",
            b"GET  / HTTP/1.1",
            b"GET / HTTP/1.1 ",
            b" GET / HTTP/1.1",
            b"GET\t/ HTTP/1.1",
            b"GET / HTTP/2.0",
            b"GET / HTTP/1.2",
            b"GET / HTTP/0.9",
            b"GET / HTTP/1.10",
            b"GET / http/1.1",
            b"GET / HTTP/1,1",
            b"GET /a b HTTP/1.1",
            b"GET /\xc3\xa4 HTTP/1.1",
            b"GET /\x00 HTTP/1.1",
            b"G(T / HTTP/1.1",
            b"\x16\x03\x01\x02\x00\x01",
            b"GET / HTTP/1.1\r",
            b"GET /\x7f HTTP/1.1",
            b"PRI * HTTP/2.0",
        ]
        for line in lines:
            with self.subTest(line):
                self.assertRaises(BadRequest, parse_head, [line])

    def test_empty_lines(self) -> None:
        """One empty line before a head is skipped (RFC 9112 2.2), a second is not, however little has arrived."""
        for more in (b"", b"G", b"GET / HTTP/1.1\r\n"):
            self.assertIsNone(read_head(b"\r\n" + more))
            self.assertRaises(BadRequest, read_head, b"\r\n\r\n" + more)
        raw = read_head(b"\r\nGET / HTTP/1.1\r\n\r\nGET")
        assert raw is not None
        self.assertEqual((raw.method, raw.size), ("GET", 20))


class FieldTests(SynchronousTestCase):
    def test_names_ignore_case_and_blanks_around_values_go(self) -> None:
        """Blanks around a value are removed: `Host:  a \\t` is host a."""
        self.assertEqual(head(b"HoSt:  a b \t").headers.lines(), [("host", "a b")])

    @covers("threats/40")
    def test_odd_fields_are_bad(self) -> None:
        """Blanks before the colon, folds, bare CR or LF, controls, and lines without colon or name are refused."""
        lines = [
            b"Host : a",
            b" folded",
            b"\tfolded",
            b"Host: a\rb",
            b"Host: a\nb",
            b"Host: a\x00",
            b"Host: \x01",
            b"Host: \x7f",
            b"nocolon",
            b": a",
            b"Ho st: a",
            b"H\xc3\xb6st: a",
            b"Host\x00: a",
            b"(: a",
        ]
        for line in lines:
            with self.subTest(line):
                self.assertRaises(BadRequest, head, line)

    def test_values_may_be_empty_or_latin(self) -> None:
        """Bytes from 0x80 on are opaque text (RFC 9110 5.5)."""
        self.assertEqual(head(b"A:", b"B: \xff").headers.lines(), [("a", ""), ("b", "\xff")])

    def test_a_head_of_blanks_is_read_in_no_time(self) -> None:
        """16 KiB of blanks before a control character cost linear time."""
        self.assertRaises(BadRequest, head, b"A:" + b" " * 16000 + b"\x01")

    def test_persistence(self) -> None:
        """HTTP/1.1 stays open unless `close` is among the members of Connection, in any line and case."""
        self.assertTrue(head().persistent)
        self.assertTrue(head(b"Connection: keep-alive").persistent)
        for lines in ([b"Connection: close"], [b"Connection: te , CLOSE"], [b"Connection: te", b"Connection: close"]):
            self.assertFalse(head(*lines).persistent)
        self.assertFalse(parse_head([b"GET / HTTP/1.0", b"Connection: keep-alive"]).persistent)

    def test_expectation(self) -> None:
        """100-continue is case-insensitive; HTTP/1.0 has none (RFC 9110 10.1.1)."""
        self.assertTrue(head(b"Expect: 100-Continue").expects_continue)
        self.assertFalse(head(b"Expect: 200-maybe").expects_continue)
        self.assertFalse(parse_head([b"PUT / HTTP/1.0", b"Expect: 100-continue"]).expects_continue)

    @given(st.lists(st.binary(max_size=60), min_size=1, max_size=5))
    def test_any_bytes(self, lines: list[bytes]) -> None:
        """Any lines are a head or BadRequest, nothing else."""
        try:
            raw = read_head(b"".join(line + b"\r\n" for line in lines) + b"\r\n")
        except (BadRequest, HeadTooLarge):
            return
        if raw is not None:
            self.assertLess(len(raw.headers.lines()), sum(line.count(b"\r\n") + 1 for line in lines))


class FramingTests(SynchronousTestCase):
    def test_lengths(self) -> None:
        """Content-Length has digits, also with leading zeros; without it there is no body."""
        self.assertEqual(head().length, 0)
        self.assertEqual(head(b"Content-Length: 0").length, 0)
        self.assertEqual(head(b"Content-Length: 0042").length, 42)
        self.assertIsNone(head(b"Transfer-Encoding: Chunked").length)

    def test_absurd_lengths_are_huge_not_errors(self) -> None:
        """A number of a thousand digits is too large; Python's limit on digits is not reached."""
        self.assertEqual(head(b"Content-Length: " + b"9" * 6000).length, 10**18)

    @covers("threats/40")
    def test_ambiguous_framing_is_bad(self) -> None:
        """Two lengths, both framings, lists, signs, blanks, other codings and chunked in HTTP/1.0 are refused."""
        cases = [
            [b"Content-Length: 5", b"Content-Length: 5"],
            [b"Content-Length: 5, 5"],
            [b"Content-Length: +5"],
            [b"Content-Length: -1"],
            [b"Content-Length: 0x5"],
            [b"Content-Length: 5 5"],
            [b"Content-Length:"],
            [b"Content-Length: \xb2"],
            [b"Content-Length: 5", b"Transfer-Encoding: chunked"],
            [b"Transfer-Encoding: chunked", b"Content-Length: 0"],
            [b"Transfer-Encoding: identity"],
            [b"Transfer-Encoding: gzip, chunked"],
            [b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked"],
            [b"Transfer-Encoding: chunked, chunked"],
            [b"Transfer-Encoding: xchunked"],
            [b"Transfer-Encoding:"],
        ]
        for lines in cases:
            with self.subTest(lines):
                self.assertRaises(BadRequest, head, *lines)
        self.assertRaises(BadRequest, parse_head, [b"PUT / HTTP/1.0", b"Transfer-Encoding: chunked"])


def split(target: str, method: str = "GET") -> tuple[str, str, str | None]:
    return split_target(method, target)


class SplitTests(SynchronousTestCase):
    def test_origin_form(self) -> None:
        """The first question mark separates path and raw query."""
        self.assertEqual(split("/a/b?c=%2f?d"), ("/a/b", "c=%2f?d", None))
        self.assertEqual(split("/?"), ("/", "", None))

    def test_absolute_form(self) -> None:
        """An absolute URL is accepted; its authority is returned."""
        self.assertEqual(split("http://game.example:80/a?b"), ("/a", "b", "game.example:80"))
        self.assertEqual(split("HTTPS://Game.example"), ("/", "", "Game.example"))
        self.assertEqual(split("http://game.example?q"), ("/", "q", "game.example"))

    def test_asterisk(self) -> None:
        """Only OPTIONS may have the target `*`."""
        self.assertEqual(split("*", "OPTIONS")[0], "*")
        self.assertRaises(BadRequest, split, "*")

    def test_the_rest_is_bad(self) -> None:
        """The authority form, other schemes, relative paths and fragments are refused."""
        for target in ("game.example:443", "ftp://game.example/", "a/b", "?a", "/a#b", "../a", "\\a"):
            with self.subTest(target):
                self.assertRaises(BadRequest, split, target)


@covers("threats/41")
class DecodeTests(SynchronousTestCase):
    def test_once(self) -> None:
        """A path is decoded once, as UTF-8; plus and dots stay."""
        self.assertEqual(decode_path("/a%20b/%c3%a4"), "/a b/\N{LATIN SMALL LETTER A WITH DIAERESIS}")
        self.assertEqual(decode_path("/%2541"), "/%41")
        self.assertEqual(decode_path("/a+b/../."), "/a+b/../.")

    def test_no_route_has_these(self) -> None:
        """Empty segments and encoded slashes are 404."""
        for path in (
            "//",
            "//a",
            "/a//b",
            "/a//",
            "/a%2fb",
            "/a%2Fb",
            "*",
        ):
            with self.subTest(path):
                self.assertRaises(RouteNotFound, decode_path, path)

    def test_unreadable(self) -> None:
        """Incomplete escapes and invalid UTF-8 are refused."""
        for path in ("/%", "/%4", "/%zz", "/%%41", "/%ff", "/%c3", "/%ed%a0%80"):
            with self.subTest(path):
                self.assertRaises(BadRequest, decode_path, path)

    @given(st.binary(max_size=40))
    def test_any_bytes(self, tail: bytes) -> None:
        """Any path is text with the same number of segments, or a typed error."""
        try:
            path = decode_path("/" + tail.decode("latin-1"))
        except HttpError:
            return
        self.assertEqual(path.count("/"), tail.count(b"/") + 1)


def check(*hosts: bytes, version: str = "HTTP/1.1", authority: bytes | None = None) -> None:
    headers = RequestHeaders("".join(f"host:{host.decode('latin-1')}\r\n" for host in hosts))
    check_host(version, headers, None if authority is None else authority.decode("latin-1"), "game.example")


@covers("threats/30")
class HostTests(SynchronousTestCase):
    def test_ours(self) -> None:
        """The names of public_url and loopback are accepted, in any case, with any port or final dot."""
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
                check(host)

    def test_others(self) -> None:
        """Every other name is 421, also one that begins or ends like ours."""
        for host in (b"evil.example", b"xgame.example", b"game.example.evil", b"127.0.0.2", b"[::2]", b"example", b"0"):
            with self.subTest(host):
                self.assertRaises(MisdirectedRequest, check, host)
        self.assertRaises(MisdirectedRequest, check, b"a." * 127 + b"a:65535")

    def test_malformed(self) -> None:
        """Empty hosts, user info, paths, blanks, bad ports and literals, and more than 255 bytes are refused."""
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
            b".",
            b"..",
            b".game.example",
            b"game.example,b",
            b"g\xe4me",
            b"game.example..",
            b"[127.0.0.1]",
            b"a." * 127 + b"aa",
        ):
            with self.subTest(host):
                self.assertRaises(BadRequest, check, host)

    def test_number(self) -> None:
        """HTTP/1.1 needs one Host; HTTP/1.0 may have none, never two."""
        self.assertRaises(BadRequest, check)
        self.assertRaises(BadRequest, check, b"game.example", b"game.example")
        self.assertRaises(BadRequest, check, b"game.example", b"game.example", version="HTTP/1.0")
        check(version="HTTP/1.0")
        self.assertRaises(MisdirectedRequest, check, b"evil.example", version="HTTP/1.0")

    def test_an_absolute_target_wins(self) -> None:
        """The authority is checked instead of Host, which must be there and well-formed (RFC 9112 3.2.2)."""
        check(b"evil.example", authority=b"game.example")
        self.assertRaises(MisdirectedRequest, check, b"game.example", authority=b"evil.example")
        self.assertRaises(BadRequest, check, authority=b"game.example")
        self.assertRaises(BadRequest, check, b"game.example", authority=b"a@game.example")
        self.assertRaises(BadRequest, check, b"a b", authority=b"game.example")
        self.assertRaises(MisdirectedRequest, check, version="HTTP/1.0", authority=b"evil.example")

    def test_normal_form(self) -> None:
        """A host is normalized: lower case, no port, no brackets, one spelling of an address."""
        self.assertEqual(normalize_host("Game.Example.:80"), "game.example")
        self.assertEqual(normalize_host("[2001:DB8:0::1]:80"), "2001:db8::1")


class ReprTests(SynchronousTestCase):
    def test_nothing_of_a_head_is_shown(self) -> None:
        """No repr of a head or its parts shows a credential, path, query or address."""
        words = ("gat_hidden", "s3cret", "hidden-path", "192.0.2.7")
        raw = read_head(b"GET /hidden-path?code=s3cret HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer gat_hidden\r\n\r\n")
        assert raw is not None
        path, query, _ = split_target(raw.method, raw.target)
        decoded = RequestHead("GET", path, query.encode(), {"slot": "s3cret"}, raw.headers, 0, "192.0.2.7")
        match = RouteMatch(make_app(), kwargs={"slot": "s3cret"})
        response = ResponseHeaders()
        response.set("Location", "/hidden-path")
        prepared = PreparedHeaders({"Location": "/hidden-path"})
        for each in (raw, decoded, match, Routed(match, decoded), raw.headers, response, prepared):
            with self.subTest(type(each).__name__):
                self.assertTrue(repr(each))
                self.assertEqual([word for word in words if word in repr(each)], [])
