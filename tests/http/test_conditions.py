"""Preconditions: the rules of RFC 9110 13.1 and the order of 13.2.2 as tables."""

import tracemalloc
from itertools import product

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from gamed.http.conditional import (
    Conditions,
    EntityTag,
    Precondition,
    Representation,
    TagsMalformed,
    evaluate_conditions,
    parse_conditions,
    range_holds,
)
from gamed.timestamps import http_date

MODIFIED_MS = 784_111_777_250  # Sun, 06 Nov 1994 08:49:37 GMT, and a quarter of a second
NOW, BEFORE, AFTER = (http_date(MODIFIED_MS + delta) for delta in (0, -1000, 1000))
CURRENT = Representation(EntityTag("v2"), MODIFIED_MS)
GO, SAME, FAILED = Precondition.PROCEED, Precondition.NOT_MODIFIED, Precondition.FAILED

# headers, then the outcome for: a read, a change, a read without representation, a change without representation
ORDER = [
    ({}, GO, GO, GO, GO),
    # 13.1.1 If-Match: strong
    ({"if-match": '"v2"'}, GO, GO, FAILED, FAILED),
    ({"if-match": '"v1", "v2"'}, GO, GO, FAILED, FAILED),
    ({"if-match": '"v1"'}, FAILED, FAILED, FAILED, FAILED),
    ({"if-match": 'W/"v2"'}, FAILED, FAILED, FAILED, FAILED),
    ({"if-match": "*"}, GO, GO, FAILED, FAILED),
    # 13.1.2 If-None-Match: weak
    ({"if-none-match": '"v2"'}, SAME, FAILED, GO, GO),
    ({"if-none-match": 'W/"v2"'}, SAME, FAILED, GO, GO),
    ({"if-none-match": '"v1", W/"v2"'}, SAME, FAILED, GO, GO),
    ({"if-none-match": '"v1"'}, GO, GO, GO, GO),
    ({"if-none-match": "*"}, SAME, FAILED, GO, GO),
    # 13.1.3 If-Modified-Since: GET and HEAD only
    ({"if-modified-since": NOW}, SAME, GO, GO, GO),
    ({"if-modified-since": AFTER}, SAME, GO, GO, GO),
    ({"if-modified-since": BEFORE}, GO, GO, GO, GO),
    ({"if-modified-since": "yesterday"}, GO, GO, GO, GO),
    ({"if-modified-since": f"{NOW}, {NOW}"}, GO, GO, GO, GO),
    # 13.1.4 If-Unmodified-Since
    ({"if-unmodified-since": NOW}, GO, GO, GO, GO),
    ({"if-unmodified-since": AFTER}, GO, GO, GO, GO),
    ({"if-unmodified-since": BEFORE}, FAILED, FAILED, GO, GO),
    ({"if-unmodified-since": "yesterday"}, GO, GO, GO, GO),
    # 13.2.2 step 1 before step 2: If-Match silences If-Unmodified-Since
    ({"if-match": '"v2"', "if-unmodified-since": BEFORE}, GO, GO, FAILED, FAILED),
    ({"if-match": '"v1"', "if-unmodified-since": AFTER}, FAILED, FAILED, FAILED, FAILED),
    # steps 1 and 2 before 3 and 4
    ({"if-match": '"v1"', "if-none-match": '"v2"'}, FAILED, FAILED, FAILED, FAILED),
    ({"if-match": '"v2"', "if-none-match": '"v2"'}, SAME, FAILED, FAILED, FAILED),
    ({"if-unmodified-since": BEFORE, "if-none-match": '"v2"'}, FAILED, FAILED, GO, GO),
    ({"if-unmodified-since": NOW, "if-modified-since": NOW}, SAME, GO, GO, GO),
    # step 3 silences step 4
    ({"if-none-match": '"v1"', "if-modified-since": NOW}, GO, GO, GO, GO),
    ({"if-none-match": '"v2"', "if-modified-since": BEFORE}, SAME, FAILED, GO, GO),
]

# 13.1.5 If-Range -> whether the Range counts
IF_RANGES = [
    (None, True),
    ('"v2"', True),
    ('"v1"', False),
    ('W/"v2"', False),
    ('"v1", "v2"', False),
    (NOW, True),
    (BEFORE, False),
    (AFTER, False),
    ("v2", False),
    ("", False),
]


def parsed(headers: dict[str, str]) -> Conditions:
    return parse_conditions(headers.get)


class OrderTest(SynchronousTestCase):
    def test_table(self) -> None:
        """Each combination gives the outcome of RFC 9110 13.2.2."""
        cases = list(product((CURRENT, None), (True, False)))
        for headers, *outcomes in ORDER:
            for (current, reading), outcome in zip(cases, outcomes, strict=True):
                got = evaluate_conditions(parsed(headers), current, reading=reading)
                self.assertIs(got, outcome, (headers, current, reading))

    def test_malformed_tags(self) -> None:
        """A malformed list of tags is refused."""
        for name in ("if-match", "if-none-match"):
            with self.assertRaises(TagsMalformed):
                parsed({name: "v2"})

    def test_long_lists_are_not_kept(self) -> None:
        """Long conditions are not cached."""
        tracemalloc.start()
        self.addCleanup(tracemalloc.stop)
        for number in range(100):
            parsed({"if-none-match": ",".join([f'"{number:x}-{other}"' for other in range(1000)])})
        kept, _ = tracemalloc.get_traced_memory()
        self.assertLess(kept, 1_000_000)

    def test_all_forms_of_dates(self) -> None:
        """The three forms of RFC 9110 5.6.7 are one instant."""
        for text in ("Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"):
            self.assertEqual(parsed({"if-modified-since": text}).if_modified_since_ms, 784_111_777_000, text)

    @given(st.text(max_size=40))
    def test_any_date_text(self, text: str) -> None:
        """Any text in place of a date is parsed or ignored."""
        read = parsed({"if-modified-since": text, "if-unmodified-since": text, "if-range": text})
        evaluate_conditions(read, CURRENT, reading=True)
        range_holds(read, CURRENT)


class IfRangeTest(SynchronousTestCase):
    def test_table(self) -> None:
        """A Range counts for exactly this representation, and only then (RFC 9110 13.1.5)."""
        for text, holds in IF_RANGES:
            headers = {} if text is None else {"if-range": text}
            self.assertIs(range_holds(parsed(headers), CURRENT), holds, text)

    def test_doubtful_date(self) -> None:
        """A date does not hold when another representation had the same second (RFC 9110 8.8.2.2)."""
        doubtful = Representation(EntityTag("v2"), MODIFIED_MS, date_is_strong=False)
        self.assertFalse(range_holds(parsed({"if-range": NOW}), doubtful))
        self.assertTrue(range_holds(parsed({"if-range": '"v2"'}), doubtful))
