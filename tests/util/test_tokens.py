"""The form of credentials (docs/protocol.md: Conventions)."""

from itertools import permutations

from hypothesis import given
from hypothesis.strategies import binary, integers, sampled_from, text
from twisted.trial.unittest import SynchronousTestCase

from gamed.crypto import MalformedToken, TokenType, generate_token, parse_token, public_id
from tests.support.covers import covers

entropies = binary(min_size=32, max_size=32)


@covers("2.3/10", "5/15")
class TokenTests(SynchronousTestCase):
    """Prefix, 43 characters, checksum."""

    @given(sampled_from(TokenType), entropies)
    def test_round_trip(self, kind: TokenType, entropy: bytes) -> None:
        """A minted credential parses as its own kind: 53 URL-safe characters."""
        written = generate_token(kind, entropy).reveal().decode()
        self.assertRegex(written, rf"^{kind.value}[A-Za-z0-9_-]{{49}}$")
        self.assertTrue(parse_token(kind, written).matches(generate_token(kind, entropy)))

    def test_known(self) -> None:
        """Pinned: other programs check the same checksum."""
        self.assertEqual(
            generate_token(TokenType.ACCESS_TOKEN, bytes(32)).reveal().decode(), "gat_" + "A" * 43 + "66rS5A"
        )

    def test_another_kind(self) -> None:
        """A refresh credential is no access token, whatever else is right."""
        for kind, other in permutations(TokenType, 2):
            self.assertRaises(MalformedToken, parse_token, other, generate_token(kind, bytes(32)).reveal().decode())

    @given(entropies, integers(min_value=0, max_value=52), sampled_from("ABCabc012-_ =.\x00é"))
    def test_one_wrong_character(self, entropy: bytes, place: int, character: str) -> None:
        """Any one changed character is caught before a database is asked."""
        written = generate_token(TokenType.DEVICE_SECRET, entropy).reveal().decode()
        changed = written[:place] + character + written[place + 1 :]
        if changed != written:
            self.assertRaises(MalformedToken, parse_token, TokenType.DEVICE_SECRET, changed)

    @given(text())
    def test_any_text(self, written: str) -> None:
        """No text makes it fail in another way."""
        self.assertRaises(MalformedToken, parse_token, TokenType.ACCESS_TOKEN, written)

    def test_no_text_at_all(self) -> None:
        """Half of a surrogate pair, which has no bytes, is malformed like anything else."""
        written = generate_token(TokenType.ACCESS_TOKEN, bytes(32)).reveal().decode()
        for wrong in ("\ud800", "gat_\udfff", written[:-1] + "\ud800"):
            self.assertRaises(MalformedToken, parse_token, TokenType.ACCESS_TOKEN, wrong)

    def test_lengths(self) -> None:
        """Cut, padded, doubled, newline behind."""
        written = generate_token(TokenType.ACCESS_TOKEN, bytes(32)).reveal().decode()
        for wrong in (written[:-1], written + "A", written + "\n", written * 2, "", "gat_"):
            self.assertRaises(MalformedToken, parse_token, TokenType.ACCESS_TOKEN, wrong)

    def test_public_id(self) -> None:
        """Prefix and 22 characters of 16 bytes."""
        self.assertEqual(public_id("ply", bytes(16)), "ply_" + "A" * 22)
