"""Quotas (rule R6 of docs/internals/rules.md; docs/owners/configuration.md: Saves and assets)."""

from twisted.trial.unittest import SynchronousTestCase

from gamed.config.game import SaveLimits
from gamed.rate_limit import RateLimited
from gamed.saves.errors import QuotaExceeded, SaveTooLarge, TooManySlots
from gamed.saves.limits import SaveRateLimiter, Usage, check_size, room_to_change

LIMITS = SaveLimits(save_bytes=10, slots=2, bytes=15, history_bytes=20)

# usage, size of the slot now (None: empty), new size, what speaks against it
WRITES = [
    (Usage(), None, 10, None),
    (Usage(slots=1, bytes=5), None, 10, None),
    (Usage(slots=1, bytes=6), None, 10, QuotaExceeded),
    (Usage(slots=2, bytes=2), None, 1, TooManySlots),
    (Usage(slots=3, bytes=2), None, 1, TooManySlots),
    (Usage(slots=2, bytes=10), 5, 10, None),
    (Usage(slots=2, bytes=11), 5, 10, QuotaExceeded),
    (Usage(slots=9, bytes=99), 10, 10, None),  # over quota since the owner lowered it: no larger is fine
    (Usage(slots=9, bytes=99), 10, 3, None),
    (Usage(slots=9, bytes=99), 9, 10, QuotaExceeded),
]


class LimitTest(SynchronousTestCase):
    def test_declared_size(self) -> None:
        """`save_bytes` is the last size that fits; the answer says limit and size."""
        check_size(LIMITS, 10)
        with self.assertRaises(SaveTooLarge) as caught:
            check_size(LIMITS, 11)
        self.assertEqual(caught.exception.members, {"limit": 10, "usage": 11})

    def test_writes(self) -> None:
        """A write must fit, but may always make a save no larger."""
        for usage, old, new, error in WRITES:
            got = room_to_change(LIMITS, usage, [(old, new)])
            self.assertIs(None if got is None else type(got), error, (usage, old, new))
            if got is not None:
                self.assertEqual(set(got.members), {"limit", "usage"})

    def test_defaults(self) -> None:
        """The defaults are those of docs/owners/configuration.md: Saves and assets."""
        mib = 2**20
        limits = SaveLimits()
        self.assertEqual((limits.save_bytes, limits.bytes, limits.history_bytes), (16 * mib, 256 * mib, 512 * mib))
        self.assertEqual((limits.slots, limits.meta_bytes, limits.conflict_copies), (256, 2048, 5))
        self.assertEqual((limits.min_free_bytes, limits.allow_blank_saves), (256 * mib, False))


class RefusedCommitTest(SynchronousTestCase):
    def test_entries_of_two(self) -> None:
        """Two commits that were admitted together and refused both fill the bucket; the next request waits."""
        limits = SaveLimits()
        rate = SaveRateLimiter.of(limits)
        for _ in range(2):
            rate.acquire("p", 1_000_000)
        for _ in range(2):
            rate.add("p", 1_000_000, limits.commit_writes - 1)
        with self.assertRaises(RateLimited) as caught:
            rate.acquire("p", 1_000_000)
        self.assertEqual(caught.exception.retry_after, limits.commit_writes)
        rate.acquire("p", 1_000_000 + limits.commit_writes * 1000)
