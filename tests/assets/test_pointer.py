"""The pointer of a channel has a history, and rollbacks follow it."""

from hypothesis import given
from hypothesis.strategies import integers, lists, one_of, sampled_from
from twisted.trial.unittest import SynchronousTestCase

from gamed.assets.errors import PointerMalformed
from gamed.assets.pointer import ChannelPointer, PointerHistoryEntry, parse_pointer, pointer_bytes

A, B, C, D = (f"r{letter * 16}" for letter in "abcd")
BEGUN = ChannelPointer(A, 1).moved_to(B, 2).moved_to(C, 3)


class PointerTests(SynchronousTestCase):
    def test_back_and_further_back(self) -> None:
        """Each rollback leads one release further back, never to a withdrawn one."""
        once = BEGUN.rolled_back(4)
        assert once is not None
        self.assertEqual(
            (once.release, once.history), (B, (PointerHistoryEntry(C, 3, True), PointerHistoryEntry(A, 1)))
        )
        twice = once.rolled_back(5)
        assert twice is not None
        self.assertEqual(twice.release, A)
        self.assertEqual([each.release for each in twice.history], [B, C])
        self.assertIsNone(twice.rolled_back(6))

    def test_on_from_there(self) -> None:
        """A rollback from a release that followed a rollback leads to the release of that rollback."""
        rolled = BEGUN.rolled_back(4)
        assert rolled is not None
        back = rolled.moved_to(D, 5).rolled_back(6)
        assert back is not None
        self.assertEqual(back.release, B)

    def test_pointed_again(self) -> None:
        """A withdrawn release can be set explicitly."""
        rolled = BEGUN.rolled_back(4)
        assert rolled is not None
        again = rolled.moved_to(C, 5)
        self.assertEqual((again.release, [each.release for each in again.history]), (C, [B, A]))
        self.assertEqual(again.moved_to(C, 9), again)

    def test_retained(self) -> None:
        """The present release and the newest before it are retained."""
        self.assertEqual(BEGUN.retained(2), [C, B])
        self.assertEqual(BEGUN.retained(9), [C, B, A])
        self.assertEqual(BEGUN.without_releases({B}).retained(9), [C, A])

    @given(lists(one_of(sampled_from([A, B, C, D]), integers(0, 0)), max_size=12))
    def test_any_steps(self, steps: list[str | int]) -> None:
        """After any steps each release is in the pointer once, and the pointer is read as it was written."""
        pointer, seen = ChannelPointer(A, 0), {A}
        for number, step in enumerate(steps, 1):
            pointer = (
                pointer.moved_to(step, number) if isinstance(step, str) else pointer.rolled_back(number) or pointer
            )
            seen |= {pointer.release}
            self.assertEqual(parse_pointer(pointer_bytes(pointer)), pointer)
            self.assertEqual({pointer.release, *(each.release for each in pointer.history)}, seen)

    def test_damaged(self) -> None:
        """A file that gamed has not written raises PointerMalformed."""
        good = pointer_bytes(BEGUN)
        for text in (
            b"",
            b"[]",
            good[:-3],
            good.replace(C.encode(), b"stable"),
            good.replace(A.encode(), C.encode()),
            good.replace(b'"format": 1', b'"format": 2'),
            good.replace(b"1970-", b"1970:"),
            good.replace(b'"history"', b'"past"'),
        ):
            self.assertRaises(PointerMalformed, parse_pointer, text)
