"""The rules for names and passwords of local accounts say which are allowed, and when two names are one."""

from sys import maxunicode
from unicodedata import normalize

from hypothesis import given
from hypothesis.strategies import characters, text
from twisted.trial.unittest import SynchronousTestCase

from gamed.crypto import Keys, Secret
from gamed.players.errors import DisplayNameInvalid, NameMalformed, PasswordMalformed
from gamed.players.names import (
    COMPOSED_OF,
    fold,
    fold_typed,
    name_index,
    new_player_id,
    parse_display_name,
    parse_name,
    parse_password,
)
from tests.sessions.fixtures import Counting
from tests.support.effort import growth

ONE_NAME = (
    ("Anna", "ANNA", "anna", "\u3000anna ", "Ａｎｎａ", "𝒜nna"),
    ("strasse", "straße", "STRASSE", "straẞe"),
    ("zoë", "zoe\u0308", "ZOË"),
    ("file", "ﬁle", "FILE"),
    ("kelvin", "\u212aelvin"),
    ("sos", "\u017fo\u017f"),
    ("σίσυφος", "ΣΊΣΥΦΟΣ", "σίσυφοσ"),
    ("x1", "x\u2460", "X１"),
)
REFUSED = (
    "", " ", "a b", "a\tb", "a\n", "a/b", "a\\b", "a@b", "a:b", "<b>", "a'b", 'a"b', "a,b", "a+b", "é!", "😀", "a\x00",
    "\u0301a", "9\u0301", "a\u200bb", "a\u200db", "a\u202eb", "a\ufeffb", "a\u00adb", "a\u034fb", "\u3164", "\uffa0",
    "a\u115fb", "a\ufe0f", "a\U000e0100", "a\u2028b", "\ufdfa", "½", "Ⅷ½", "\ud800", "a" * 33, "ﬃ" * 11,
)  # fmt: skip
ACCEPTED = (
    "a",
    "9",
    "_",
    ".",
    "-",
    "a.b-c_d",
    "Анна",
    "अनीता",
    "สมชาย",
    "안나",
    "安娜",
    "Ólafur",
    "a" * 32,
    "e\u0301" * 32,
)


class NameTests(SynchronousTestCase):
    """1 to 32 letters, digits, dots, underscores, hyphens."""

    def test_accepted(self) -> None:
        """Letters of any script with their marks are allowed, at most 32 characters once composed."""
        for name in ACCEPTED:
            self.assertEqual(parse_name(name), normalize("NFKC", name))

    def test_long_texts_are_refused_whole(self) -> None:
        """A text that is too long for a name is rejected, even if it begins with a name."""
        self.assertEqual(parse_name(" " * 8000 + "anna" + " " * 8000), "anna")
        for long in ("\u3000" * 125 + "anna" + "bert", "\u3000" * 125 + "anna" + "\u3000" * 4):
            self.assertRaises(NameMalformed, parse_name, long)

    def test_long_texts_are_little_work(self) -> None:
        """Only texts of a bounded length are normalized, whether they are parsed or only counted."""
        self.assertLess(growth(parse_name), 64)
        self.assertLess(growth(fold_typed), 64)

    def test_composed_of_four(self) -> None:
        """No character is composed of more than four code points, which is what the bounds of raw texts rely on."""
        every = (chr(code) for code in range(maxunicode + 1))
        self.assertEqual(max(len(normalize("NFD", character)) for character in every), COMPOSED_OF)

    def test_counted_as_one(self) -> None:
        """All spellings of a name count against one limit, with or without space around it."""
        for spellings in ONE_NAME:
            for typed in (*spellings, *(f" \u3000{spelling}\u00a0 " for spelling in spellings)):
                self.assertEqual(fold_typed(typed), fold(parse_name(spellings[0])), typed)

    def test_refused(self) -> None:
        """Spaces, signs, control and invisible characters are rejected, and names that are too long once normalized."""
        for name in REFUSED:
            self.assertRaises(NameMalformed, parse_name, name)

    def test_one_name(self) -> None:
        """Names that differ in case, width, ligatures, compatibility letters or composition are one name."""
        for spellings in ONE_NAME:
            self.assertEqual({fold(parse_name(spelling)) for spelling in spellings}, {fold(spellings[0])})

    def test_other_names(self) -> None:
        """Names that differ in accents, scripts or punctuation are different names."""
        names = ("anna", "änna", "аnna", "ann.a", "ann-a", "ann_a", "anna1", "annä", "ánna")
        self.assertEqual(len({fold(parse_name(name)) for name in names}), len(names))

    def test_every_character(self) -> None:
        """For every allowed character, the name is in NFKC, and folding twice equals folding once."""
        accepted = 0
        for code in range(maxunicode + 1):
            try:
                name = parse_name("a" + chr(code))
            except NameMalformed:
                continue
            accepted += 1
            self.assertEqual(parse_name(name), name)
            self.assertEqual(fold(fold(name)), fold(name))
        self.assertGreater(accepted, 100_000)

    @given(text(characters(categories=["L", "M", "Nd"]), max_size=40))
    def test_stable(self, wanted: str) -> None:
        """A stored name is accepted again, and found by every spelling that folds to it."""
        try:
            name = parse_name(wanted)
        except NameMalformed:
            return
        self.assertEqual(parse_name(name), name)
        self.assertEqual(fold(fold(name)), fold(name))
        self.assertEqual(fold(wanted), fold(name))
        self.assertTrue(1 <= len(name) <= 32)

    def test_index(self) -> None:
        """All spellings of a name have one index; another key gives another index."""
        one, other = (Keys.of(Secret(bytes([number]) * 32), Counting()).indexer for number in (1, 2))
        self.assertEqual(name_index(one, "Anna"), name_index(one, "ＡＮＮＡ"))
        self.assertNotEqual(name_index(one, "Anna"), name_index(one, "Anne"))
        self.assertNotEqual(name_index(one, "Anna"), name_index(other, "Anna"))

    def test_player_id(self) -> None:
        """A player id is `ply_` and 22 characters."""
        self.assertRegex(new_player_id(Counting()), r"^ply_[A-Za-z0-9_-]{22}$")


class PasswordFormTests(SynchronousTestCase):
    def test_512_code_points_may_become_128(self) -> None:
        """A password that fits once composed is accepted; a longer text is rejected before it is composed."""
        self.assertEqual(parse_password("\u03b1\u0313\u0300\u0345" * 128).reveal(), ("\u1f82" * 128).encode())
        self.assertLess(growth(parse_password), 64)

    """8 to 128 characters."""

    def test_length(self) -> None:
        """The length is counted in characters, not bytes, limits included."""
        for character in ("a", "ж", "😀"):
            for count in (8, 128):
                self.assertEqual(parse_password(character * count).reveal(), (character * count).encode())
            for count in (0, 7, 129, 100_000):
                self.assertRaises(PasswordMalformed, parse_password, character * count)

    def test_composed(self) -> None:
        """A password is the same on keyboards that compose differently."""
        self.assertEqual(parse_password("pass wörd").reveal(), parse_password("pass wo\u0308rd").reveal())

    def test_case_and_width_count(self) -> None:
        """Case and width of a password count."""
        spellings = ("password", "Password", "ｐassword", "password ")
        self.assertEqual(len({parse_password(spelling).reveal() for spelling in spellings}), len(spellings))

    def test_half_a_character(self) -> None:
        """Half of a surrogate pair is rejected, and the message does not show the password."""
        error = self.assertRaises(PasswordMalformed, parse_password, "password\ud800")
        self.assertNotIn("password\ud800", repr(error))
        self.assertIsNone(error.__cause__)
        self.assertTrue(error.__suppress_context__)


SHOWN = {
    "Anna": "Anna",
    "  Anna  Maria ": "Anna Maria",
    "\u5c71\u7530\u3000\u592a\u90ce": "\u5c71\u7530 \u592a\u90ce",
    "Zoe\u0308": "Zo\u00eb",
    "<b>&amp;\"'": "<b>&amp;\"'",
    "Anna \u2764\ufe0f": "Anna \u2764",
    "\U0001f44d\U0001f3fd 1\ufe0f\u20e3": "\U0001f44d\U0001f3fd 1\u20e3",
    "\u05d0\u05e0\u05d4 Anna": "\u05d0\u05e0\u05d4 Anna",
    "\u0b95\u0bcd\u0bb7\u0bcd": "\u0b95\u0bcd\u0bb7\u0bcd",
    "e\u0301" * 32: "\u00e9" * 32,
    "\U0001f469\u200d\U0001f680": "\U0001f469\u200d\U0001f680",
    "\U0001f469\U0001f3fd\u200d\u2764\ufe0f\u200d\U0001f468 A": "\U0001f469\U0001f3fd\u200d\u2764\u200d\U0001f468 A",
    "\U0001f3f3\ufe0f\u200d\U0001f308": "\U0001f3f3\u200d\U0001f308",
    "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645": "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
    "\u0dc1\u0dca\u200d\u0dbb\u0dd3": "\u0dc1\u0dca\u200d\u0dbb\u0dd3",
    "\u0915\u094d\u200d\u0937 \u0915\u094d\u200c\u0937": "\u0915\u094d\u200d\u0937 \u0915\u094d\u200c\u0937",
}
"""Texts that people type, and the display names that they become."""
NOT_SHOWN = (
    "", " ", "\u3000", "\ufe0f", "a" * 33, "a\tb", "Anna\n", "\x00", "\x1b[31mAnna", "a\x7fb", "a\u0085b",
    "a\u200bb", "a\u200db", "a\u200cb", "a\u00adb", "a\ufeffb", "a\u2060b", "\u202eannA", "a\u2066b", "a\u200fb",
    "a\u061cb", "a\u2028b", "a\u2029b", "\ud800", "a\udfff", "a\ue000", "a\U000f0000", "a\uffff", "a\u0378",
    "a\U000e0041", "a\u034fb", "a\u115fb", "a\u17b4b", "a\u180bb", "a\ufe0eb", "a\U000e0100", "\u2800", "\u3164",
    "\uffa0", "\U0001d159", "\u0301a", "a \u0301", "a" + "\u0334" * 5,
    "\u200d", "\u200cAnna", "Anna\u200d", "\U0001f469\u200d", "\u200d\U0001f680", "\U0001f469\u200d\u200d\U0001f680",
    "\U0001f469\u200c\U0001f680", "a\u200d\U0001f680", "\U0001f3fd\u200d\U0001f680", "1\u200d2", "\u06cc\u200c",
    "\u0645\u06cc\u200c\u200c\u062e", "\u0dc1\u0dca\u200d\u200d\u0dbb", "\u0627\u200c\u0645", "\u0645\u200d\u0645",
    "\u0dc1" + "\u0dca\u200d" * 5, "\u200d" * 32,
)  # fmt: skip


class DisplayNameTests(SynchronousTestCase):
    """1 to 32 visible characters."""

    def test_accepted(self) -> None:
        """Letters of any script, digits, signs and emoji are allowed; spaces are trimmed, and runs become one."""
        for typed, shown in SHOWN.items():
            self.assertEqual(parse_display_name(typed), shown)

    def test_refused(self) -> None:
        """Invisible characters, those that change the direction of text, and piles of marks are refused."""
        for typed in NOT_SHOWN:
            self.assertRaises(DisplayNameInvalid, parse_display_name, typed)

    @given(
        text(characters(codec=None), max_size=140)
        | text("\u200c\u200d\u0dc1\u0dca\u0645\u06cc\U0001f469 a", max_size=9)
    )
    def test_any_text(self, typed: str) -> None:
        """Each accepted name is 1 to 32 printable characters in NFC, and is accepted again unchanged."""
        try:
            name = parse_display_name(typed)
        except DisplayNameInvalid:
            return
        self.assertTrue(1 <= len(name) <= 32 and name == name.strip())
        self.assertTrue(name.translate({0x200C: None, 0x200D: None}).isprintable())
        self.assertEqual((normalize("NFC", name), parse_display_name(name)), (name, name))
        name.encode()

    def test_long_texts_cost_little(self) -> None:
        """A text of marks is refused by its length, before the work that grows with the square of it."""
        self.assertLess(growth(parse_display_name), 64)
