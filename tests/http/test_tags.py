"""Entity-tags are parsed and compared (RFC 9110 8.8.3, 13.1.1, 13.1.2)."""

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from gamed.http.conditional import EntityTag, EntityTagList, TagsMalformed, parse_tag, parse_tags

OPAQUE = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E, exclude_characters='"'), max_size=20)
TAGS = st.builds(EntityTag, OPAQUE, st.booleans())

# RFC 9110 8.8.3.2, the table of examples: one, other, strong comparison, weak comparison.
COMPARISONS = [
    ('W/"1"', 'W/"1"', False, True),
    ('W/"1"', 'W/"2"', False, False),
    ('W/"1"', '"1"', False, True),
    ('"1"', '"1"', True, True),
]

WELL_FORMED = [
    ('"xyzzy"', [EntityTag("xyzzy")]),
    ('W/"xyzzy"', [EntityTag("xyzzy", weak=True)]),
    ('""', [EntityTag("")]),
    ('"xyzzy", "r2d2xxxx", "c3piozzzz"', [EntityTag("xyzzy"), EntityTag("r2d2xxxx"), EntityTag("c3piozzzz")]),
    ('W/"xyzzy","r2d2xxxx"', [EntityTag("xyzzy", weak=True), EntityTag("r2d2xxxx")]),
    (', "a" , ,\t"b",', [EntityTag("a"), EntityTag("b")]),
    ('"a,b"', [EntityTag("a,b")]),
    ('"a\\"', [EntityTag("a\\")]),
    ('"\xe9"', [EntityTag("\xe9")]),
]

MALFORMED = ["", " ", ",", "xyzzy", '"xyzzy', 'xyzzy"', "'xyzzy'", 'w/"xyzzy"', 'W/ "xyzzy"', '"a" "b"', '"a";"b"']
MALFORMED += ['"a b"', '"a\x7f"', '*, "a"', '"a", *', "**", "* *", "W/*", '"a" b']


class EntityTagTest(SynchronousTestCase):
    def test_comparison(self) -> None:
        """The strong and the weak comparison give what RFC 9110 8.8.3.2 lists, whichever comes first."""
        for one, other, strong, weak in COMPARISONS:
            a, b = parse_tag(one), parse_tag(other)
            self.assertEqual((a.strongly_equals(b), b.strongly_equals(a)), (strong, strong), (one, other))
            self.assertEqual((a.weakly_equals(b), b.weakly_equals(a)), (weak, weak), (one, other))

    def test_one_tag(self) -> None:
        """A single tag is read with blanks around it; a list, `*` or a bare word is none."""
        self.assertEqual(parse_tag(' W/"a"\t'), EntityTag("a", weak=True))
        for text in ('"a", "b"', "*", "a", "", '"a"b'):
            self.assertIsNone(parse_tag(text), text)


class TagListTest(SynchronousTestCase):
    def test_well_formed(self) -> None:
        """Lists with and without blanks, commas inside quotes and empty elements are read."""
        for text, tags in WELL_FORMED:
            self.assertEqual(parse_tags(text), EntityTagList(tuple(tags)), text)

    def test_star(self) -> None:
        """`*` is read alone only."""
        self.assertEqual(parse_tags(" * "), EntityTagList((), star=True))

    def test_malformed(self) -> None:
        """Refuse every other form."""
        for text in MALFORMED:
            with self.assertRaises(TagsMalformed, msg=text):
                parse_tags(text)

    @given(st.lists(TAGS, min_size=1, max_size=5), st.sampled_from([",", ", ", " ,\t", ",,"]))
    def test_round_trip(self, tags: list[EntityTag], comma: str) -> None:
        """A written list is read as the same list."""
        self.assertEqual(parse_tags(comma.join(map(str, tags))).listed, tuple(tags))

    @given(st.text(st.sampled_from('"W/*, \ta\\'), max_size=12))
    def test_no_surprise(self, text: str) -> None:
        """Any text is read or refused."""
        try:
            parse_tags(text)
        except TagsMalformed:
            self.assertIsNone(parse_tag(text))

    def test_nothing_matches_nothing(self) -> None:
        """A resource without representation is not named, not even by `*` (RFC 9110 13.1.1)."""
        self.assertFalse(parse_tags("*").match_strongly(None))
        self.assertFalse(parse_tags("*").match_weakly(None))
