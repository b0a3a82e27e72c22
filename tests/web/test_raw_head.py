"""Heads: what two readers could read differently is refused (RFC 9112)."""

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from gamed.web.errors import BadRequest
from gamed.web.framing import body_length
from gamed.web.raw_head import parse_head


def head(*lines: bytes):
    return parse_head([b"PUT /a HTTP/1.1", *lines])


class RequestLineTests(SynchronousTestCase):
    def test_three_parts(self) -> None:
        """Method, target and version, one space between."""
        raw = parse_head([b"GET /a?b=c HTTP/1.0"])
        self.assertEqual((raw.method, raw.target, raw.version), (b"GET", b"/a?b=c", b"HTTP/1.0"))

    def test_all_else_is_bad(self) -> None:
        """Other spacing, other versions, controls and bytes beyond ASCII in the target."""
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


class FieldTests(SynchronousTestCase):
    def test_names_ignore_case_and_blanks_around_values_go(self) -> None:
        """`Host:  a \\t` is host a."""
        self.assertEqual(head(b"HoSt:  a b \t").fields, [(b"host", b"a b")])

    def test_odd_fields_are_bad(self) -> None:
        """Blank before the colon, folds, bare CR or LF, NUL and other controls, no colon, no name."""
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
        self.assertEqual(head(b"A:", b"B: \xff").fields, [(b"a", b""), (b"b", b"\xff")])

    def test_a_head_of_blanks_is_read_in_no_time(self) -> None:
        """16 KiB of blanks before a control character do not send the parser back and forth."""
        self.assertRaises(BadRequest, head, b"A:" + b" " * 16000 + b"\x01")

    def test_persistence(self) -> None:
        """HTTP/1.1 stays open unless `close` is among the members of Connection, in any line and case."""
        self.assertTrue(head().persistent)
        self.assertTrue(head(b"Connection: keep-alive").persistent)
        for lines in ([b"Connection: close"], [b"Connection: te , CLOSE"], [b"Connection: te", b"Connection: close"]):
            self.assertFalse(head(*lines).persistent)
        self.assertFalse(parse_head([b"GET / HTTP/1.0", b"Connection: keep-alive"]).persistent)

    def test_expectation(self) -> None:
        """100-continue in any case; HTTP/1.0 knows none (RFC 9110 10.1.1)."""
        self.assertTrue(head(b"Expect: 100-Continue").expects_continue)
        self.assertFalse(head(b"Expect: 200-maybe").expects_continue)
        self.assertFalse(parse_head([b"PUT / HTTP/1.0", b"Expect: 100-continue"]).expects_continue)

    @given(st.lists(st.binary(max_size=60), min_size=1, max_size=5))
    def test_any_bytes(self, lines: list[bytes]) -> None:
        """Any lines are a head or BadRequest, nothing else."""
        try:
            raw = parse_head(lines)
            body_length(raw)
        except BadRequest:
            return
        self.assertEqual(len(raw.fields), len(lines) - 1)


class FramingTests(SynchronousTestCase):
    def test_lengths(self) -> None:
        """Digits, also with zeros in front; nothing said is nothing to come."""
        self.assertEqual(body_length(head()), 0)
        self.assertEqual(body_length(head(b"Content-Length: 0")), 0)
        self.assertEqual(body_length(head(b"Content-Length: 0042")), 42)
        self.assertIsNone(body_length(head(b"Transfer-Encoding: Chunked")))

    def test_absurd_lengths_are_huge_not_errors(self) -> None:
        """A number that no one sends is judged by size like any other; Python's limit on digits is not met."""
        self.assertEqual(body_length(head(b"Content-Length: " + b"9" * 6000)), 10**18)

    def test_ambiguous_framing_is_bad(self) -> None:
        """Two lengths, both kinds, identity, lists, signs, blanks, other codings, chunked in HTTP/1.0."""
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
                self.assertRaises(BadRequest, body_length, head(*lines))
        old = parse_head([b"PUT / HTTP/1.0", b"Transfer-Encoding: chunked"])
        self.assertRaises(BadRequest, body_length, old)
