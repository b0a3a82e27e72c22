"""The ground everything sealed or indexed stands on (SPEC 2.2)."""

import pickle
import traceback
from itertools import combinations
from secrets import token_bytes

from hypothesis import given
from hypothesis.strategies import binary, integers, lists, sampled_from, text
from twisted.trial.unittest import SynchronousTestCase

from gamed.crypto import DecryptionFailed, InvalidKey, Keys, Purpose, Secret, derive, length_prefixed
from tests.support.covers import covers

MASTER = Secret(bytes(range(32)))
KEYS = Keys.of(MASTER, token_bytes)
purposes = sampled_from(Purpose)


class SecretTests(SynchronousTestCase):
    """Bytes that must not be shown."""

    def test_no_text_form(self) -> None:
        """str(), format() and % all refuse; repr shows nothing."""
        secret = Secret(b"hunter2")
        for show in (str, format, "{}".format, lambda s: "%s" % s, lambda s: f"{s}"):  # noqa: UP031
            self.assertRaises(TypeError, show, secret)
        self.assertNotIn("hunter2", repr(secret))

    def test_not_pickled(self) -> None:
        """A secret does not leave the process by accident."""
        self.assertRaises(TypeError, pickle.dumps, Secret(b"hunter2"))

    def test_matches(self) -> None:
        """Compared by value only where asked to."""
        self.assertTrue(Secret(b"a").matches(Secret(b"a")))
        self.assertFalse(Secret(b"a").matches(Secret(b"b")))
        self.assertNotEqual(Secret(b"a"), Secret(b"a"))

    def test_keys_show_nothing(self) -> None:
        """A traceback or log line with the keys in it shows no key."""
        shown = repr(KEYS)
        for info in (b"gamed 1 hmac", b"gamed 1 aes-256-gcm"):
            self.assertNotIn(repr(derive(MASTER, info))[2:-1], shown)
        self.assertNotIn(KEYS.check.hex(), shown)


class DeriveTests(SynchronousTestCase):
    """HKDF-SHA256, RFC 5869."""

    def test_known_answer(self) -> None:
        """The published construction, written out: extract with a zero salt, expand one block."""
        from hashlib import sha256
        from hmac import digest

        extracted = digest(bytes(32), MASTER.reveal(), sha256)
        self.assertEqual(derive(MASTER, b"info"), digest(extracted, b"info\x01", sha256))

    @covers("2.2/10")
    def test_purposes_are_isolated(self) -> None:
        """The HMAC key, the AES key and the fingerprint have nothing in common (SPEC 2.2/10)."""
        derived = [derive(MASTER, info) for info in (b"gamed 1 hmac", b"gamed 1 aes-256-gcm", b"gamed 1 fingerprint")]
        for one, other in combinations(derived, 2):
            self.assertNotEqual(one, other)

    @covers("8/2")
    def test_key_size(self) -> None:
        """31 or 33 bytes are no master key (SPEC 8)."""
        for size in (0, 31, 33):
            self.assertRaises(InvalidKey, Keys.of, Secret(bytes(size)), token_bytes)


class IndexTests(SynchronousTestCase):
    """Stable look-up indexes."""

    @given(lists(binary()), lists(binary()))
    def test_framing_is_injective(self, one: list[bytes], other: list[bytes]) -> None:
        """Different lists of parts never give the same bytes: ("ab", "c") is not ("a", "bc")."""
        self.assertEqual(length_prefixed(*one) == length_prefixed(*other), one == other)

    @given(purposes, purposes, lists(binary(max_size=8), max_size=3), lists(binary(max_size=8), max_size=3))
    def test_index(self, purpose: Purpose, another: Purpose, one: list[bytes], other: list[bytes]) -> None:
        """Equal exactly for equal purpose and parts; 32 bytes."""
        first, second = KEYS.indexer.index(purpose, *one), KEYS.indexer.index(another, *other)
        self.assertEqual(len(first), 32)
        self.assertEqual(first == second, (purpose, one) == (another, other))

    @covers("2.2/13")
    def test_another_key_another_index(self) -> None:
        """With a lost or replaced master key existing indexes no longer match (SPEC 2.2/13)."""
        foreign = Keys.of(Secret(bytes(32)), token_bytes)
        self.assertNotEqual(KEYS.indexer.index(Purpose.STATE, b"x"), foreign.indexer.index(Purpose.STATE, b"x"))
        self.assertNotEqual(KEYS.check, foreign.check)
        self.assertNotEqual(KEYS.fingerprint, foreign.fingerprint)

    def test_stable(self) -> None:
        """Pinned values: a change here would orphan every existing auth.db (SPEC 2.2/7)."""
        self.assertEqual(KEYS.fingerprint, FINGERPRINT)
        self.assertEqual(KEYS.indexer.index(Purpose.STATE, b"a", b"b").hex(), STATE_AB)


class SealTests(SynchronousTestCase):
    """AES-256-GCM bound to purpose and row."""

    @given(purposes, text(), binary())
    def test_round_trip(self, purpose: Purpose, row: str, plain: bytes) -> None:
        """Decrypt what was encrypted; the sealed value does not contain the plain bytes."""
        sealed = KEYS.sealer.seal(purpose, row, plain)
        self.assertEqual(KEYS.sealer.unseal(purpose, row, sealed), plain)
        self.assertEqual(len(sealed), 12 + len(plain) + 16)

    @given(binary(max_size=40), integers(min_value=0))
    def test_one_flipped_bit(self, plain: bytes, bit: int) -> None:
        """Any single changed bit, nonce included, is SealBroken."""
        sealed = bytearray(KEYS.sealer.seal(Purpose.PKCE, "row", plain))
        sealed[bit // 8 % len(sealed)] ^= 1 << bit % 8
        self.assertRaises(DecryptionFailed, KEYS.sealer.unseal, Purpose.PKCE, "row", bytes(sealed))

    @given(binary(max_size=60))
    def test_garbage(self, sealed: bytes) -> None:
        """Short, empty or foreign bytes are SealBroken, never another error."""
        self.assertRaises(DecryptionFailed, KEYS.sealer.unseal, Purpose.PKCE, "row", sealed)

    @covers("2.2/13", "threats/47")
    def test_moved(self) -> None:
        """A value moved to another row or purpose, or opened by another key, stays shut."""
        sealed = KEYS.sealer.seal(Purpose.PKCE, "row", b"verifier")
        for purpose, row in ((Purpose.NONCE, "row"), (Purpose.PKCE, "other"), (Purpose.PKCE, "")):
            self.assertRaises(DecryptionFailed, KEYS.sealer.unseal, purpose, row, sealed)
        foreign = Keys.of(Secret(bytes(32)), token_bytes).sealer
        self.assertRaises(DecryptionFailed, foreign.unseal, Purpose.PKCE, "row", sealed)

    def test_fresh_nonce(self) -> None:
        """The same value sealed twice gives different bytes."""
        twice = {KEYS.sealer.seal(Purpose.PKCE, "row", b"verifier") for _ in range(100)}
        self.assertEqual(len(twice), 100)

    def test_error_names_no_value(self) -> None:
        """The error's traceback holds neither key nor value."""
        try:
            KEYS.sealer.unseal(Purpose.PKCE, "row", b"x" * 40)
        except DecryptionFailed:
            self.assertNotIn("xxxx", traceback.format_exc())


FINGERPRINT = "ed6f41a52681"
STATE_AB = "4756aeb17b47a5e63a1c5b2ca6a60962802b989098efddbe465dc8f7c9d515f9"
