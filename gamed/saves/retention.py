"""How long a version is kept: R1 to R4 of PROTOCOL 4.3, pure.

A version's age counts from when it stopped being current; a clock set back makes none older than it is. While a slot
is empty its history is kept as if it were not, so that the save can be brought back; it goes with the tombstone.
"""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from gamed.saves.limits import SaveLimits
from gamed.saves.model import Version, VersionKind

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
CURRENT = (VersionKind.WRITE, VersionKind.RESTORE)
"""Kinds that are or were current."""


class PrunePlan(Struct, frozen=True):
    """What has to go now, and when to look again: None while only a change of the slot can make a difference."""

    to_delete: tuple[Version, ...]
    next_check_ms: int | None


def plan_pruning(limits: SaveLimits, head: int | None, versions: Sequence[Version], now_ms: int) -> PrunePlan:
    """`versions` are all of one slot, newest first; `head` is the current one, None of an empty slot."""
    fates = _retention_of(limits, head, versions, now_ms)
    gone = tuple(version for version in versions if (ends := fates.get(version.version)) is not None and ends <= now_ms)
    later = [ends for ends in fates.values() if ends is not None and ends > now_ms]
    return PrunePlan(gone, min(later, default=None))


def expires_ms(limits: SaveLimits, version: Version, head: int | None, versions: Sequence[Version]) -> int | None:
    """When it goes at the latest, in epoch milliseconds; None while nothing but newer versions can push it out.

    `versions` are the slot's, newest first.
    """
    if version.kind not in CURRENT:
        return version.created_ms + limits.keep_days * DAY_MS
    if head is None:
        return _burial_ms(limits, versions)
    if version.version in _guarded(limits, versions):
        return None
    return _retired_ms(version) + limits.keep_days * DAY_MS


def _retention_of(
    limits: SaveLimits, head: int | None, versions: Sequence[Version], now_ms: int
) -> Mapping[int, int | None]:
    """By version: when it has to be looked at again; what is not later than now goes."""
    others = [version for version in versions if version.kind not in CURRENT]
    fates: dict[int, int | None] = {version.version: expires_ms(limits, version, head, versions) for version in others}
    current = [version for version in versions if version.kind in CURRENT]
    if head is None:
        fates |= dict.fromkeys((version.version for version in current), _burial_ms(limits, versions))
    else:
        guarded = _guarded(limits, versions)
        fates |= dict(_thin_out(limits, [version for version in current if version.version not in guarded], now_ms))
    copies = [version.version for version in versions if version.kind is VersionKind.CONFLICT]
    return fates | dict.fromkeys(copies[limits.conflict_copies :], now_ms)


def _guarded(limits: SaveLimits, versions: Sequence[Version]) -> frozenset[int]:
    """R1 and R2: the newest that were current, the current one among them."""
    current = [version.version for version in versions if version.kind in CURRENT]
    return frozenset(current[: max(2, limits.keep_versions)])


def _thin_out(limits: SaveLimits, older: Sequence[Version], now_ms: int) -> Iterator[tuple[int, int]]:
    """R3: the newest of each hour while it is young, then of each day; hours and days of UTC."""
    filled: set[tuple[int, int]] = set()
    for version in older:
        retired = min(_retired_ms(version), now_ms)
        turns = retired + limits.keep_hours * HOUR_MS
        length, ends = (HOUR_MS, turns) if now_ms < turns else (DAY_MS, retired + limits.keep_days * DAY_MS)
        bucket = length, _retired_ms(version) // length
        yield version.version, now_ms if bucket in filled else ends
        filled.add(bucket)


def _burial_ms(limits: SaveLimits, versions: Sequence[Version]) -> int:
    """When an empty slot's history goes; at once where its tombstone is gone already."""
    tombstone = next((version for version in versions if version.kind is VersionKind.DELETE), None)
    return 0 if tombstone is None else tombstone.created_ms + limits.keep_days * DAY_MS


def _retired_ms(version: Version) -> int:
    return version.created_ms if version.retired_ms is None else version.retired_ms
