"""The history of a slot is kept as R1 to R4 of docs/internals/rules.md say."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from twisted.trial.unittest import SynchronousTestCase

from gamed.config.game import SaveLimits
from gamed.saves.model import SaveContent, Version, VersionKind
from gamed.saves.retention import DAY_MS, HOUR_MS, Retention, plan_pruning

LIMITS = SaveLimits()
NOW = 20_000 * DAY_MS + 12 * HOUR_MS
BODY = SaveContent(bytes(32), 5, "a/b")


def written(
    number: int, retired_ms: int | None = None, kind: VersionKind = VersionKind.WRITE, created_ms: int = 0
) -> Version:
    body = None if kind is VersionKind.DELETE else BODY
    return Version(
        slot="auto",
        version=number,
        kind=kind,
        blob_id=number,
        content=body,
        created_ms=created_ms,
        retired_ms=retired_ms,
    )


def saved_every(step_ms: int, count: int, until_ms: int = NOW) -> list[Version]:
    """Return `count` versions, newest first, each replaced after `step_ms`, the newest current."""
    made = [until_ms - step_ms * age for age in range(count)]
    return [written(count - age, None if age == 0 else made[age - 1], created_ms=made[age]) for age in range(count)]


def kept_versions(
    versions: Sequence[Version], now_ms: int = NOW, head: int | None = -1, limits: SaveLimits = LIMITS
) -> list[int]:
    """Return the numbers of the kept versions, oldest first; -1 stands for the newest as the current one."""
    gone = {
        version.version
        for version in plan_pruning(limits, versions[0].version if head == -1 else head, versions, now_ms).to_delete
    }
    return sorted(version.version for version in versions if version.version not in gone)


class HistoryTest(SynchronousTestCase):
    def test_newest_ten(self) -> None:
        """R2: ten stay, however long ago they were replaced."""
        versions = saved_every(1000, 10, until_ms=NOW - 400 * DAY_MS)
        self.assertEqual(kept_versions(versions), list(range(1, 11)))

    def test_current_and_the_one_before(self) -> None:
        """R1: with the smallest setting two stay."""
        versions = saved_every(1000, 9, until_ms=NOW - 400 * DAY_MS)
        self.assertEqual(kept_versions(versions, limits=replace(LIMITS, keep_versions=1)), [8, 9])

    def test_hours_then_days(self) -> None:
        """R3: a save every minute for forty days keeps ten, then one an hour for a day, then one a day for thirty."""
        versions = saved_every(60_000, 40 * 24 * 60)
        numbers = kept_versions(versions)
        ages = [(NOW - (versions[-number].retired_ms or NOW)) / HOUR_MS for number in numbers]
        self.assertEqual(len([age for age in ages if age < 1 / 6]), 11)
        self.assertEqual(len([age for age in ages if 1 < age < 24]), 23)
        self.assertEqual(len([age for age in ages if age >= 24]), 30)
        self.assertLess(max(ages), 30 * 24)

    def test_counted_from_retirement(self) -> None:
        """A save that was current for a year and was replaced just now is new to the history."""
        old = written(1, NOW - 5, created_ms=NOW - 365 * DAY_MS)
        versions = [*(replace(version, version=version.version + 1) for version in saved_every(1, 10)), old]
        for now_ms, stays in ((NOW + 30 * DAY_MS - 6, True), (NOW + 30 * DAY_MS - 5, False)):
            self.assertEqual(1 in kept_versions(versions, now_ms), stays)

    def test_newest_of_its_hour(self) -> None:
        """Keep the later one of two versions in one hour of the clock."""
        young = saved_every(1000, 10)
        hour = NOW - 3 * HOUR_MS
        old = [written(-1, hour + 50), written(-2, hour + 10), written(-3, hour - 10), written(-4, hour - 20)]
        self.assertEqual(kept_versions([*young, *old])[:2], [-3, -1])

    def test_copies_and_tombstones(self) -> None:
        """R4: thirty days from when they were made; the newest five copies."""
        for kind in (VersionKind.CONFLICT, VersionKind.DELETE):
            versions = [written(2), written(1, 5, kind, created_ms=NOW)]
            self.assertEqual(kept_versions(versions, NOW + 30 * DAY_MS - 1), [1, 2])
            self.assertEqual(kept_versions(versions, NOW + 30 * DAY_MS), [2])
        copies = [written(9), *(written(number, NOW, VersionKind.CONFLICT, NOW) for number in range(8, 0, -1))]
        self.assertEqual(kept_versions(copies), [4, 5, 6, 7, 8, 9])

    def test_deleted(self) -> None:
        """The history of a deleted save stays thirty days after the delete, and goes with the tombstone."""
        versions = [
            written(4, None, VersionKind.DELETE, NOW),
            written(3, NOW),
            written(2, NOW - 90 * DAY_MS),
            written(1, 0),
        ]
        self.assertEqual(kept_versions(versions, NOW + 30 * DAY_MS - 1, head=None), [1, 2, 3, 4])
        self.assertEqual(kept_versions(versions, NOW + 30 * DAY_MS, head=None), [])
        self.assertEqual(Retention(1, NOW).expires_ms(LIMITS, versions[1]), NOW + 30 * DAY_MS)

    def test_clock_set_back(self) -> None:
        """A version that was replaced in the future does not count as older."""
        versions = [*saved_every(1000, 10), written(-1, NOW + 90 * DAY_MS)]
        self.assertIn(-1, kept_versions(versions))

    @given(
        st.lists(
            st.tuples(st.integers(0, 90), st.sampled_from(list(VersionKind)), st.integers(1, 40 * DAY_MS)), max_size=60
        ),
        st.booleans(),
    )
    def test_any_history(self, steps: list[tuple[int, VersionKind, int]], deleted: bool) -> None:
        """Pruned again at the same instant nothing more is deleted; a check only at `next_check_ms` misses nothing; the
        current version and the one before it never go."""
        at, made = NOW, []
        for number, (_, kind, age) in enumerate(steps, 1):
            at += age % (3 * HOUR_MS)
            made.append(written(number, at if kind is VersionKind.CONFLICT else None, kind, at))
        versions = self.retired(made, deleted)
        current = [version.version for version in versions if version.kind in (VersionKind.WRITE, VersionKind.RESTORE)]
        head = None if deleted or not current else current[0]
        if head is None:
            return
        now_ms = at
        for _ in range(6):
            pruning = plan_pruning(LIMITS, head, versions, now_ms)
            self.assertTrue({version.version for version in pruning.to_delete}.isdisjoint(current[:2]))
            versions = [version for version in versions if version not in pruning.to_delete]
            self.assertEqual(plan_pruning(LIMITS, head, versions, now_ms).to_delete, ())
            if pruning.next_check_ms is None:
                self.assertEqual(plan_pruning(LIMITS, head, versions, now_ms + 900 * DAY_MS).to_delete, ())
                return
            again = plan_pruning(LIMITS, head, versions, now_ms).next_check_ms or now_ms
            self.assertEqual(plan_pruning(LIMITS, head, versions, again - 1).to_delete, ())
            now_ms = again

    def retired(self, made: list[Version], deleted: bool) -> list[Version]:
        """Newest first; each that was current retired when the next one came."""
        found: list[Version] = []
        later: int | None = made[-1].created_ms if deleted and made else None
        for version in reversed(made):
            found.append(version if version.kind is VersionKind.CONFLICT else replace(version, retired_ms=later))
            later = later if version.kind is VersionKind.CONFLICT else version.created_ms
        return found
