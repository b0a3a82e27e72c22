"""Targets: decoded once, never normalised (RFC 9112 3.2, PROTOCOL 1)."""

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from gamed.web.errors import BadRequest, RouteNotFound, WebError
from gamed.web.raw_head import RawHead
from gamed.web.target import Target, decode_path, has_control, split_target


def split(target: bytes, method: bytes = b"GET") -> Target:
    return split_target(RawHead(method, target, b"HTTP/1.1", []))


class SplitTests(SynchronousTestCase):
    def test_origin_form(self) -> None:
        """Path and raw query; the first question mark divides."""
        self.assertEqual(split(b"/a/b?c=%2f?d"), Target(b"/a/b", b"c=%2f?d", None))
        self.assertEqual(split(b"/?"), Target(b"/", b"", None))

    def test_absolute_form(self) -> None:
        """A whole URL is taken too; its authority is told."""
        self.assertEqual(split(b"http://game.example:80/a?b"), Target(b"/a", b"b", b"game.example:80"))
        self.assertEqual(split(b"HTTPS://Game.example"), Target(b"/", b"", b"Game.example"))
        self.assertEqual(split(b"http://game.example?q"), Target(b"/", b"q", b"game.example"))

    def test_asterisk(self) -> None:
        """Only OPTIONS may ask for `*`."""
        self.assertEqual(split(b"*", b"OPTIONS").path, b"*")
        self.assertRaises(BadRequest, split, b"*")

    def test_the_rest_is_bad(self) -> None:
        """Authority form, other schemes, relative paths, fragments."""
        for target in (b"game.example:443", b"ftp://game.example/", b"a/b", b"?a", b"/a#b", b"../a", b"\\a"):
            with self.subTest(target):
                self.assertRaises(BadRequest, split, target)


class DecodeTests(SynchronousTestCase):
    def test_once(self) -> None:
        """Percent signs are decoded once, as UTF-8; plus and dots stay."""
        self.assertEqual(decode_path(b"/a%20b/%c3%a4"), "/a b/\N{LATIN SMALL LETTER A WITH DIAERESIS}")
        self.assertEqual(decode_path(b"/%2541"), "/%41")
        self.assertEqual(decode_path(b"/a+b/../."), "/a+b/../.")

    def test_no_route_has_these(self) -> None:
        """Empty segments and encoded slashes."""
        for path in (
            b"//",
            b"//a",
            b"/a//b",
            b"/a//",
            b"/a%2fb",
            b"/a%2Fb",
            b"*",
        ):
            with self.subTest(path):
                self.assertRaises(RouteNotFound, decode_path, path)

    def test_control_characters(self) -> None:
        """NUL and other control characters are found: of ASCII, DEL, and those of Latin-1."""
        for path in (b"/%00", b"/a%0ab", b"/%1f", b"/%7f", b"/%c2%80", b"/a/%c2%9f/b"):
            with self.subTest(path):
                self.assertTrue(has_control(decode_path(path)))
        self.assertFalse(has_control(decode_path(b"/%20~%c2%a0%c3%a4")))

    def test_unreadable(self) -> None:
        """Half an escape, or bytes that are not UTF-8."""
        for path in (b"/%", b"/%4", b"/%zz", b"/%%41", b"/%ff", b"/%c3", b"/%ed%a0%80"):
            with self.subTest(path):
                self.assertRaises(BadRequest, decode_path, path)

    @given(st.binary(max_size=40))
    def test_any_bytes(self, tail: bytes) -> None:
        """Any path is text with the same number of segments, or a typed error."""
        try:
            path = decode_path(b"/" + tail)
        except WebError:
            return
        self.assertEqual(path.count("/"), tail.count(b"/") + 1)
