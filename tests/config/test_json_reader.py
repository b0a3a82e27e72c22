from json import dumps, loads

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from gamed.config.errors import Position
from gamed.config.json_reader import JsonSyntaxError, decode, read

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=("Cs",))),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


class ReadTests(SynchronousTestCase):
    @given(JSON, st.sampled_from([None, 0, 3]), st.booleans())
    def test_reads_what_json_writes(self, value: object, indent: int | None, ascii_only: bool) -> None:
        """Every JSON value comes back equal to what Python's own reader makes of it."""
        text = dumps(value, indent=indent, ensure_ascii=ascii_only)
        document = read(text)
        self.assertEqual(document.value, loads(text))
        self.assertEqual(document.recoverable_errors, ())

    @given(st.text(alphabet='{}[]",:\\ \n\t01.-+eEtrufalsn/#*é', max_size=60))
    def test_never_reads_what_json_refuses(self, text: str) -> None:
        """Text that is not JSON raises JsonSyntaxError or has recoverable errors; JSON does neither."""
        try:
            loads(text, parse_constant=self.fail_constant)
            valid = True
        except (ValueError, RecursionError):
            valid = False
        try:
            document = read(text)
        except JsonSyntaxError as e:
            self.assertGreaterEqual(e.problem.position, Position(1, 1))
            self.assertFalse(valid and "deeper" not in str(e) and "surrogate" not in str(e), text)
        else:
            names_twice = any("given twice" in error.message for error in document.recoverable_errors)
            self.assertTrue(valid or document.recoverable_errors, text)
            self.assertFalse(valid and document.recoverable_errors and not names_twice, text)

    def fail_constant(self, name: str) -> object:
        raise ValueError(name)

    def test_positions(self) -> None:
        """Each value, and each member's name, has its line and column, counted from 1 in characters."""
        document = read('{\n  "mode": "local",\n\t"é": [1,\r\n {"a": null}]\n}')
        self.assertEqual(document.values[()], Position(1, 1))
        self.assertEqual(document.values[("mode",)], Position(2, 11))
        self.assertEqual(document.names[("mode",)], Position(2, 3))
        self.assertEqual(document.values[("é", 0)], Position(3, 8))
        self.assertEqual(document.values[("é", 1, "a")], Position(4, 8))

    def test_recoverable_errors(self) -> None:
        """Comments, extra or missing commas, and duplicate names are reported in one run; the first value counts."""
        document = read('// a\n{"a": 1 /* b */ "b": [1, 2,], # c\n "a": 2,}')
        self.assertEqual(document.value, {"a": 1, "b": [1, 2]})
        found = [(error.position.line, error.position.column, error.message) for error in document.recoverable_errors]
        self.assertEqual(
            sorted(found),
            [
                (1, 1, "JSON has no comments; remove this one"),
                (2, 8, "a comma is missing here"),
                (2, 9, "JSON has no comments; remove this one"),
                (2, 27, "no comma may stand before the closing ]"),
                (2, 31, "JSON has no comments; remove this one"),
                (3, 2, "given twice, first on line 2"),
                (3, 8, "no comma may stand before the closing }"),
            ],
        )

    def test_malformed(self) -> None:
        """A syntax error is reported with its position and in words that an operator understands."""
        cases = {
            "": (1, 1, "the file is empty"),
            " \n ": (2, 2, "the file is empty"),
            "{": (1, 2, "the file ends before the closing }"),
            '{"a"': (1, 5, "expected a colon after a"),
            '{"a":': (1, 6, "expected a value here"),
            '{"a":1': (1, 7, "the file ends before the closing }"),
            "[1": (1, 3, "the file ends before the closing ]"),
            "[1 2]": (1, 4, "expected a comma or the closing ]"),
            "{mode: 1}": (1, 2, 'expected a name in double quotes, such as "mode"'),
            "{'mode': 1}": (1, 2, 'expected a name in double quotes, such as "mode"'),
            "{\"a\": 'b'}": (1, 7, 'text stands in straight double quotes, such as "local"'),
            '{"a": \u201cb\u201d}': (1, 7, 'text stands in straight double quotes, such as "local"'),
            '{"a": local}': (1, 7, 'text stands in straight double quotes, such as "local"'),
            '{"a": True}': (1, 7, "write true in small letters"),
            '{"a": NaN}': (1, 7, 'text stands in straight double quotes, such as "local"'),
            '{"a": 01}': (1, 7, "not a number of JSON; text stands in double quotes"),
            '{"a": 15m}': (1, 7, "not a number of JSON; text stands in double quotes"),
            '{"a": -}': (1, 7, "not a number of JSON; text stands in double quotes"),
            '{"a": ' + "9" * 5000 + "}": (1, 7, "not a number of JSON; text stands in double quotes"),
            '{"a": "b\n"}': (1, 7, "this string is not closed on its line"),
            '{"a": "b': (1, 7, "this string is not closed on its line"),
            '{"a": "b\tc"}': (1, 9, "a control character must be written as an escape such as \\t"),
            '{"a": "C:\\dir"}': (1, 10, "not an escape of JSON; write a backslash as \\\\"),
            '{"a": "\\ud800"}': (1, 7, "half of a surrogate pair stands alone"),
            "{} {}": (1, 4, "expected nothing more after the end of the outermost value"),
            "[" * 100000: (1, 18, "nested deeper than 16 levels"),
        }
        for text, (line, column, message) in cases.items():
            problem = self.assertRaises(JsonSyntaxError, read, text).problem
            self.assertEqual((problem.position, problem.message), (Position(line, column), message), text[:40])

    def test_surrogate_pairs_join(self) -> None:
        """Two escapes of one character beyond U+FFFF are that character."""
        self.assertEqual(read('"\\ud83c\\udfae"').value, "\U0001f3ae")


class DecodeTests(SynchronousTestCase):
    def test_byte_order_mark(self) -> None:
        """A byte order mark, as Windows editors write it, is not part of the text."""
        self.assertEqual(decode(b"\xef\xbb\xbf{}"), "{}")

    def test_other_encodings(self) -> None:
        """Latin-1 and UTF-16 are reported at their first invalid byte."""
        latin = self.assertRaises(JsonSyntaxError, decode, '{\n "server_name": "Jörg"}'.encode("latin-1")).problem
        self.assertEqual(latin.position, Position(2, 19))
        wide = self.assertRaises(JsonSyntaxError, decode, "{}".encode("utf-16")).problem
        self.assertEqual(wide.position, Position(1, 1))
        self.assertEqual(wide.message, "not UTF-8; save the file with the encoding UTF-8")
