"""Byte ranges: the examples of RFC 9110 14.1.2 and its edges as a table."""

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from gamed.http.conditional import ByteRange, RangeUnsatisfiable, parse_range

# Range, the bytes it selects of 10,000 (RFC 9110 14.1.2 and 14.4)
SELECTED = [
    ("bytes=0-499", (0, 499)),
    ("bytes=500-999", (500, 999)),
    ("bytes=-500", (9500, 9999)),
    ("bytes=9500-", (9500, 9999)),
    ("bytes=0-0", (0, 0)),
    ("bytes=-1", (9999, 9999)),
    ("bytes=0-", (0, 9999)),
    ("bytes=0-99999", (0, 9999)),
    ("bytes=-99999", (0, 9999)),
    ("BYTES=9999-", (9999, 9999)),
    ("bytes= 1-2 ", (1, 2)),
    (f"bytes=0-{'9' * 100}", (0, 9999)),
]

IGNORED = [None, "", "bytes", "bytes=", "bytes=-", "bytes=a-b", "bytes=2-1", "bytes=--1", "bytes=1", "bytes=+1-2"]
IGNORED += ["bytes=0-0,-1", "bytes=0-1, 5-6", "bytes=0-1,", "items=0-1", "bytes:0-1", "bytes=0 - 1", "bytes=0x1-2"]
IGNORED += ["bytes=1.5-2", "bytes=\u0661-\u0662", f"bytes={'1' * 5000}-"]

UNSATISFIABLE = ["bytes=10000-", "bytes=10000-10001", "bytes=-0", f"bytes={'9' * 100}-"]


class SelectTest(SynchronousTestCase):
    def test_selected(self) -> None:
        """One range in each form selects the bytes that RFC 9110 14.1.2 says."""
        for text, (first, last) in SELECTED:
            self.assertEqual(parse_range(text, 10_000), ByteRange(first, last, 10_000), text)

    def test_ignored(self) -> None:
        """Several ranges, other units and what does not parse select nothing: everything is sent."""
        for text in IGNORED:
            self.assertIsNone(parse_range(text, 10_000), text)

    def test_unsatisfiable(self) -> None:
        """A range behind the end, or of no byte, is refused."""
        for text in UNSATISFIABLE:
            with self.assertRaises(RangeUnsatisfiable, msg=text):
                parse_range(text, 10_000)

    def test_empty(self) -> None:
        """An empty representation has no range."""
        for text in ("bytes=0-", "bytes=0-0", "bytes=-1", "bytes=-0"):
            with self.assertRaises(RangeUnsatisfiable, msg=text):
                parse_range(text, 0)
        self.assertIsNone(parse_range(None, 0))

    def test_content_range(self) -> None:
        """Content-Range is written as in RFC 9110 14.4."""
        self.assertEqual(ByteRange(42, 1233, 1234).content_range, "bytes 42-1233/1234")
        self.assertEqual(ByteRange(42, 1233, 1234).length, 1192)

    @given(st.integers(0, 50), st.integers(0, 60), st.integers(0, 60))
    def test_agrees_with_slices(self, size: int, first: int, last: int) -> None:
        """A selected range is never empty, lies inside, and is what a slice gives."""
        whole = bytes(range(size))
        for text, wanted in ((f"bytes={first}-{last}", whole[first : last + 1]), (f"bytes=-{last}", whole[-last:])):
            try:
                chosen = parse_range(text, size)
            except RangeUnsatisfiable:
                self.assertTrue(first >= size or last == 0)
            else:
                if chosen is not None:
                    self.assertEqual(whole[chosen.first : chosen.last + 1], wanted)
                    self.assertEqual(chosen.length, len(wanted))
                    self.assertGreater(chosen.length, 0)
