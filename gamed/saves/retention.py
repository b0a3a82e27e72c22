"""This module decides how long a version is kept: the rules R1 to R4 of PROTOCOL 4.3, as pure functions.

A version's age counts from the instant at which it stopped being current; a clock that was set back makes no version
older. The history of a deleted save is kept whole, so that a restore is possible, until its tombstone expires.
"""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from gamed.saves.limits import SaveLimits
from gamed.saves.model import Version, VersionKind

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
CURRENT = (VersionKind.WRITE, VersionKind.RESTORE)
"""The kinds of versions that are or were current."""


class PrunePlan(Struct, frozen=True):
    """The versions of a slot to delete now, and the instant of the next check.

    `next_check_ms` is None while only a change of the slot can make another version expire.
    """

    to_delete: tuple[Version, ...]
    next_check_ms: int | None


def plan_pruning(limits: SaveLimits, current: int | None, versions: Sequence[Version], now_ms: int) -> PrunePlan:
    """Return which versions to delete now.

    `versions` are all of the slot, newest first; `current` is the number of the current one, None in an empty slot.
    """
    expiries = _retention_of(limits, current, versions, now_ms)
    to_delete = tuple(
        version for version in versions if (end := expiries.get(version.version)) is not None and end <= now_ms
    )
    later = [end for end in expiries.values() if end is not None and end > now_ms]
    return PrunePlan(to_delete, min(later, default=None))


def expires_ms(limits: SaveLimits, version: Version, current: int | None, versions: Sequence[Version]) -> int | None:
    """Return the latest instant at which a version expires; None while only newer versions can replace it.

    `versions` and `current` are as in plan_pruning().
    """
    if version.kind not in CURRENT:
        return version.created_ms + limits.keep_days * DAY_MS
    if current is None:
        return _tombstone_expires_ms(limits, versions)
    if version.version in _protected(limits, versions):
        return None
    return _retired_ms(version) + limits.keep_days * DAY_MS


def _retention_of(
    limits: SaveLimits, current: int | None, versions: Sequence[Version], now_ms: int
) -> Mapping[int, int | None]:
    """Map each version to the instant of its next check; one that is not later than now means that it is deleted."""
    expiries = {
        version.version: expires_ms(limits, version, current, versions)
        for version in versions
        if version.kind not in CURRENT
    }
    written = [version for version in versions if version.kind in CURRENT]
    if current is None:
        expiries |= dict.fromkeys((version.version for version in written), _tombstone_expires_ms(limits, versions))
    else:
        protected = _protected(limits, versions)
        older = [version for version in written if version.version not in protected]
        expiries |= dict(_thin_out(limits, older, now_ms))
    copies = [version.version for version in versions if version.kind is VersionKind.CONFLICT]
    return expiries | dict.fromkeys(copies[limits.conflict_copies :], now_ms)


def _protected(limits: SaveLimits, versions: Sequence[Version]) -> frozenset[int]:
    """Return the newest versions that are or were current, which R1 and R2 keep."""
    written = [version.version for version in versions if version.kind in CURRENT]
    return frozenset(written[: max(2, limits.keep_versions)])


def _thin_out(limits: SaveLimits, older: Sequence[Version], now_ms: int) -> Iterator[tuple[int, int]]:
    """Yield versions and when to check them next: R3 keeps the newest of each hour, later of each day, in UTC."""
    filled: set[tuple[int, int]] = set()
    for version in older:
        retired = min(_retired_ms(version), now_ms)
        hourly_until = retired + limits.keep_hours * HOUR_MS
        hourly, daily = (HOUR_MS, hourly_until), (DAY_MS, retired + limits.keep_days * DAY_MS)
        length, end = hourly if now_ms < hourly_until else daily
        bucket = length, _retired_ms(version) // length
        yield version.version, now_ms if bucket in filled else end
        filled.add(bucket)


def _tombstone_expires_ms(limits: SaveLimits, versions: Sequence[Version]) -> int:
    """Return when the history of an empty slot expires: with its tombstone, or 0 if that is deleted already."""
    tombstone = next((version for version in versions if version.kind is VersionKind.DELETE), None)
    return 0 if tombstone is None else tombstone.created_ms + limits.keep_days * DAY_MS


def _retired_ms(version: Version) -> int:
    return version.created_ms if version.retired_ms is None else version.retired_ms
