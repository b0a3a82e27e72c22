"""Chunked bodies (RFC 9112 7.1): decoded in any pieces, and refused when they are malformed."""

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from gamed.http.parser import CHUNK_LINE_BYTES, TRAILER_BYTES, ChunkedDecoder

WHOLE = b"5\r\nhello\r\n6;a=b\r\n world\r\n0\r\nA: b\r\n\r\n"


def decode(data: bytes, step: int | None = None) -> tuple[bytes, str]:
    """Return the decoded bytes, and the state of the decoder after all pieces of this size."""
    decoder, decoded = ChunkedDecoder(), b""
    for at in range(0, len(data), step or len(data) or 1):
        decoded += decoder.decode(data[at : at + (step or len(data))])
        while decoder.unfinished:
            decoded += decoder.decode(b"")
        if decoder.complete or decoder.malformed:
            break
    return decoded, "malformed" if decoder.malformed else "complete" if decoder.complete else "open"


class ChunkTests(SynchronousTestCase):
    def test_in_any_pieces(self) -> None:
        """The bytes are the same, however they are cut."""
        for step in range(1, len(WHOLE) + 1):
            self.assertEqual(decode(WHOLE, step), (b"hello world", "complete"))

    def test_rest(self) -> None:
        """Bytes behind a complete body belong to the next request."""
        decoder = ChunkedDecoder()
        self.assertEqual(decoder.decode(WHOLE + b"GET /"), b"hello world")
        self.assertEqual(decoder.rest(), b"GET /")

    def test_sizes(self) -> None:
        """Hexadecimal digits in any case, with zeros in front."""
        for size in (b"a", b"A", b"0a", b"0" * 900 + b"a"):
            self.assertEqual(decode(size + b"\r\n0123456789\r\n0\r\n\r\n"), (b"0123456789", "complete"))

    def test_malformed(self) -> None:
        """Malformed sizes, extensions, ends and trailers are refused; earlier chunks are still decoded."""
        for data in (
            b"\r\n", b"-1\r\n", b"+1\r\n", b"0x1\r\n", b"1 \r\n", b" 1\r\n", b"g\r\n", b";a\r\n", b"1_0\r\n",
            b"1;\x00\r\n", b"1;a\nb\r\n", b"1;a\rb\r\n", b"1;a\\b\r\n", b"1;a\x7f\r\n", b"1\r\nab\r\n", b"1\r\na\n\r",
            b"1" * (CHUNK_LINE_BYTES + 1), b"1;" + b"a" * CHUNK_LINE_BYTES + b"\r\n",
            b"0\r\nA b\r\n\r\n", b"0\r\n A: b\r\n\r\n", b"0\r\nA: b\nC: d\r\n\r\n", b"0\r\nA : b\r\n\r\n",
            b"0\r\n: b\r\n",
            b"0\r\nA: " + b"b" * TRAILER_BYTES, b"0\r\n" + b"A: b\r\n" * (TRAILER_BYTES // 6 + 1),
        ):  # fmt: skip
            with self.subTest(data[:30]):
                self.assertEqual(
                    decode(b"3\r\nabc\r\n" + data), (b"abc" + (b"a" if data[:4] == b"1\r\na" else b""), "malformed")
                )

    def test_bounds(self) -> None:
        """The longest line and the longest trailers are accepted."""
        line = b"1;" + b"a" * (CHUNK_LINE_BYTES - 3) + b"\r\na\r\n"
        trailers = b"A: " + b"b" * (TRAILER_BYTES - 5) + b"\r\n"
        self.assertEqual(decode(line + b"0\r\n" + trailers + b"\r\n"), (b"a", "complete"))

    def test_huge_size(self) -> None:
        """A size of a thousand digits is only a number."""
        self.assertEqual(decode(b"f" * 1000 + b"\r\nabc"), (b"abc", "open"))

    @given(st.lists(st.binary(min_size=1, max_size=30), max_size=8), st.integers(1, 7))
    def test_any_body(self, parts: list[bytes], step: int) -> None:
        """An encoded body is decoded to the same bytes."""
        data = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"
        self.assertEqual(decode(data, step), (b"".join(parts), "complete"))

    @given(st.binary(max_size=60))
    def test_any_bytes(self, data: bytes) -> None:
        """Any bytes leave the same state, in one piece and byte by byte."""
        self.assertEqual(decode(data), decode(data, 1))
