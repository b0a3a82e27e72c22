"""JSON from outside, strictly (docs/protocol.md: Conventions)."""

import contextlib
from json import dumps, loads

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from gamed.strict_json import DEPTH, JsonMalformed, depth, parse_object
from tests.support.covers import covers

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


class ParseTests(SynchronousTestCase):
    def test_malformed(self) -> None:
        """Each way in which a text is not one plain JSON object."""
        cases = [
            b"",
            b" ",
            b"{",
            b"}",
            b"[]",
            b"17",
            b'"a"',
            b"null",
            b"true",
            b"{}{}",
            b"{},",
            b"{a:1}",
            b"{'a':1}",
            b'{"a":}',
            b'{"a":1,}',
            b'{"a" 1}',
            b'{"a":01}',
            b'{"a":.5}',
            b'{"a":+1}',
            b'{"a":0x1}',
            b'{"a":1e}',
            b'{"a":"\n"}',
            b'{"a":"\\x"}',
            b'{"a":"\\u12"}',
            b'{"a":"b}',
            b'{"a":tru}',
            b"{/*c*/}",
            b'{"a":undefined}',
            b'\xef\xbb\xbf{"a":1}',
            b'\xff{"a":1}',
            b'{"a":"\xc3"}',
            b'{"a":"\xed\xa0\x80"}',
            b'{"a":1}\x00',
            '{"a":1}'.encode("utf-16"),
            b"\x00" * 8,
        ]
        for body in cases:
            with self.subTest(body):
                self.assertRaises(JsonMalformed, parse_object, body)

    @covers("threats/17")
    def test_twice(self) -> None:
        """A name twice in one object, at any depth, also when spelled with escapes."""
        for body in (b'{"a":1,"a":2}', b'{"a":1,"\\u0061":1}', b'{"b":{"a":1,"a":1}}', b'{"b":[{"a":1,"a":1}]}'):
            with self.subTest(body):
                self.assertRaises(JsonMalformed, parse_object, body)

    def test_numbers(self) -> None:
        """NaN, Infinity, numbers beyond a double, integers too long to convert."""
        for number in ("NaN", "Infinity", "-Infinity", "1e999", "-1e999", "9" * 5000):
            with self.subTest(number[:20]):
                self.assertRaises(JsonMalformed, parse_object, b'{"a":%b}' % number.encode())
        self.assertEqual(parse_object(b'{"a":123456789012345678901234567890}')["a"], 123456789012345678901234567890)

    def test_lone_surrogates(self) -> None:
        """Half a pair in a value, a name, a list; a whole pair is a character."""
        for body in (rb'{"a":"\ud800"}', rb'{"\udc00":1}', rb'{"a":["\ud800x"]}', rb'{"a":[[{"b":"\udfff"}]]}'):
            with self.subTest(body):
                self.assertRaises(JsonMalformed, parse_object, body)
        self.assertEqual(parse_object(rb'{"a":"\ud83d\ude00"}'), {"a": "\N{GRINNING FACE}"})

    @covers("threats/37")
    def test_depth(self) -> None:
        """Eight levels pass, nine do not; brackets in strings do not count; a flood of brackets is only counted."""
        self.assertEqual(parse_object(b'{"a":' * DEPTH + b"1" + b"}" * DEPTH)["a"], loads('{"a":' * 7 + "1" + "}" * 7))
        self.assertRaises(JsonMalformed, parse_object, b'{"a":' * 9 + b"1" + b"}" * 9)
        self.assertRaises(JsonMalformed, parse_object, b'{"a":' + b"[" * 8000)
        self.assertEqual(parse_object(b'{"a":[[1]]}', max_depth=3), {"a": [[1]]})
        self.assertRaises(JsonMalformed, parse_object, b'{"a":[[1]]}', max_depth=2)
        self.assertEqual(depth(r'{"[[[[[[[[[\"[[[[": ["]", "{"]}'), 2)

    @given(st.dictionaries(st.text(), JSON, max_size=4))
    def test_json_passes(self, value: dict[str, object]) -> None:
        """Read the output of another JSON writer as the same value, or refuse it as too deep."""
        text = dumps(value)
        if depth(text) <= DEPTH:
            self.assertEqual(parse_object(text.encode()), value)

    @given(st.binary(max_size=80))
    def test_any_bytes(self, body: bytes) -> None:
        """An object or JsonMalformed, nothing else."""
        with contextlib.suppress(JsonMalformed):
            self.assertIsInstance(parse_object(body), dict)
