"""How long a version is kept: the rules R1 to R4 of docs/internals/rules.md, as pure functions.

A version's age counts from the instant at which it stopped being current; a clock that was set back makes no version
older. A deleted save keeps as many versions as a living one, so that a restore is possible, until its tombstone
expires. A slot has one tombstone: the earlier ones say nothing that a client or a rule needs, and a slot that is
written and deleted in turns would keep one for each turn.
"""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from gamed.config.game import SaveLimits
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


class Retention(Struct, frozen=True):
    """The facts that decide how long the versions of a slot are kept; the same for a page of them as for all."""

    protected_from: int
    """The lowest number of the newest versions that are or were current, which R1 and R2 keep."""
    deleted_ms: int | None
    """When the slot was deleted; None while it has a current version."""

    def expires_ms(self, limits: SaveLimits, version: Version) -> int | None:
        """Return the latest instant at which a version expires; None while only newer versions can replace it."""
        keep_ms = limits.keep_days * DAY_MS
        if version.kind not in CURRENT:
            return version.created_ms + keep_ms
        if version.version < self.protected_from:
            return _retired_ms(version) + keep_ms
        return None if self.deleted_ms is None else kept_until_ms(limits, self.deleted_ms)


def kept_until_ms(limits: SaveLimits, deleted_ms: int) -> int:
    """Return when the history of a save that is deleted at `deleted_ms` expires."""
    return deleted_ms + limits.keep_days * DAY_MS


def protected_versions(limits: SaveLimits) -> int:
    """Return how many of the newest versions that are or were current a slot keeps."""
    return max(2, limits.keep_versions)  # R2: the current version and the one that it replaced


def plan_pruning(limits: SaveLimits, current: int | None, versions: Sequence[Version], now_ms: int) -> PrunePlan:
    """Return the versions to delete now.

    `versions` are all of the slot, newest first; `current` is the number of the current one, None in an empty slot.
    """
    expiries = dict(_retention_of(limits, current, versions, now_ms))
    to_delete = tuple(
        version for version in versions if (end := expiries.get(version.version)) is not None and end <= now_ms
    )
    later = [end for end in expiries.values() if end is not None and end > now_ms]
    return PrunePlan(to_delete, min(later, default=None))


def _retention_of(
    limits: SaveLimits, current: int | None, versions: Sequence[Version], now_ms: int
) -> Iterator[tuple[int, int | None]]:
    """Yield versions and the instants of their next checks; one that is not later than now means: delete it."""
    tombstones = [version for version in versions if version.kind is VersionKind.DELETE]
    written = [version for version in versions if version.kind in CURRENT]
    copies = [version for version in versions if version.kind is VersionKind.CONFLICT]
    protected = written[: protected_versions(limits)]
    # 0 without a tombstone, which alone has the time of the delete: then nothing keeps the history any longer.
    deleted_ms = None if current is not None else tombstones[0].created_ms if tombstones else 0
    if deleted_ms is not None and deleted_ms + limits.keep_days * DAY_MS <= now_ms:
        yield from ((version.version, now_ms) for version in [*tombstones, *written])
    else:
        retention = Retention(protected[-1].version if protected else 0, deleted_ms)
        yield from ((version.version, retention.expires_ms(limits, version)) for version in tombstones[:1] + protected)
        yield from ((version.version, now_ms) for version in tombstones[1:])
        yield from _thin_out(limits, written[len(protected) :], now_ms)
    for place, copy in enumerate(copies):
        yield copy.version, now_ms if place >= limits.conflict_copies else copy.created_ms + limits.keep_days * DAY_MS


def _thin_out(limits: SaveLimits, older: Sequence[Version], now_ms: int) -> Iterator[tuple[int, int]]:
    """Yield versions and when to check them next: R3 keeps the newest of each hour, later of each day, in UTC."""
    filled: set[tuple[int, int]] = set()
    for version in older:
        retired = min(_retired_ms(version), now_ms)
        hourly_until = retired + limits.keep_hours * HOUR_MS
        hourly, daily = (HOUR_MS, hourly_until), (DAY_MS, retired + limits.keep_days * DAY_MS)
        length, end = hourly if now_ms < hourly_until else daily
        # By the stored time: after a clock was set back, `retired` is now for all of these, and all but one would go.
        bucket = length, _retired_ms(version) // length
        yield version.version, now_ms if bucket in filled else end
        filled.add(bucket)


def _retired_ms(version: Version) -> int:
    return version.created_ms if version.retired_ms is None else version.retired_ms
