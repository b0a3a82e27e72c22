"""Limits of what a player stores, how often they change it, and how much disk uploads reserve.

Sizes are bytes. Requests are counted in memory, which a restart resets; changes also in the player's row, for all
processes together. Reservations are in memory.

See docs/protocol.md: Limits.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache

from msgspec import Struct, field

from gamed.config.game import KIB, MIB, SaveLimits
from gamed.database.errors import DiskFull
from gamed.rate_limit import PlayerRateLimiter, RateLimit, RateLimited
from gamed.saves.errors import QuotaExceeded, SaveError, SaveTooLarge, TooManySlots

INLINE_BYTES = 256 * KIB
"""Bodies up to this size stay in memory and are stored by the transaction that decides; larger ones go to a file."""
VERSION_BYTES = 512
"""The bytes that each version counts beside its own and its Save-Meta: about its rows and index entries on the disk.

Without it, a history of empty rows would grow without a limit: a delete has no bytes at all.
"""
LONG_META = 256
LONG_META_BYTES = 2000
"""The bytes that a Save-Meta longer than LONG_META counts at least: its row may be too long for SQLite to keep it in a
page with others, and the rest of such a row takes a page of 4 KiB of its own."""
STAGED_COMMITS = 16
"""How many full commits' bytes may be staged at once. Each PUT of staged bytes adds up those of its player."""
LISTED_AT_ONCE = 256
"""The most slots of one response: with the longest Save-Meta, 3 ms to read and 1.3 ms to encode."""
VERSIONS_AT_ONCE = 100
"""The most versions of one response."""
LISTED_FREELY = 32
"""A list of up to so many rows costs like the read of a save; longer ones have a rate for each player."""
LIST_RATE = RateLimit(500, 40)
"""The rate of long lists: 40 pages at once, which is a list of 10,000 slots, then two a second."""
EXPIRY_HOURS = 24
"""A deleted save is kept at least so long, whatever else the player deletes."""


def counted_bytes(size: int, content_type: int, meta: int) -> int:
    """Return the bytes that a version counts in the history: those of its data, stored media type and Save-Meta."""
    return VERSION_BYTES + size + content_type + (max(meta, LONG_META_BYTES) if meta > LONG_META else meta)


class Usage(Struct, frozen=True, kw_only=True):
    """A player's usage; each version counts with its full size, even if two versions share a blob.

    In the history it counts more (counted_bytes()).
    """

    slots: int = 0
    bytes: int = 0
    history_bytes: int = 0
    deleted_slots: int = 0

    def remaining(self, limits: SaveLimits) -> int:
        """Return the number of bytes that the player may still store; 0 if a limit was lowered below the usage."""
        return max(0, limits.bytes + limits.history_bytes - self.bytes - self.history_bytes)


def check_size(limits: SaveLimits, size: int) -> None:
    """Check the declared size of one save, or the bytes received so far; raise SaveTooLarge."""
    if size > limits.save_bytes:
        raise SaveTooLarge(
            f"A save may have {limits.save_bytes} bytes at most; nothing was stored.",
            _measured(limits.save_bytes, size),
        )


def check_declared_size(limits: SaveLimits, declared: int | None) -> int:
    """Return how many bytes of an upload may arrive at most; raise SaveTooLarge. None: the length is not known yet."""
    check_size(limits, declared or 0)
    return limits.save_bytes if declared is None else declared


def room_to_change(
    limits: SaveLimits, usage: Usage, changes: Sequence[tuple[int | None, int | None]]
) -> SaveError | None:
    """Return the error if these slots may not change together, each from and to a size; None is an empty slot.

    A change that adds neither slots nor bytes is always allowed (rule R6 of docs/internals/rules.md).
    """
    more = sum((new is not None) - (old is not None) for old, new in changes)
    if more > 0 and usage.slots + more > limits.slots:
        return TooManySlots(
            f"You have {usage.slots} saves and may have {limits.slots}; delete one first.",
            _measured(limits.slots, usage.slots),
        )
    larger = sum((new or 0) - (old or 0) for old, new in changes)
    if larger > 0 and usage.bytes + larger > limits.bytes:
        return QuotaExceeded(
            f"All your saves together would have {usage.bytes + larger} bytes and may have {limits.bytes}; "
            "delete one first.",
            _measured(limits.bytes, usage.bytes),
        )
    return None


def slots_to_expire(limits: SaveLimits, usage: Usage, new: int) -> int:
    """Return the number of deleted slots that have to expire before `new` slots of other names may be written.

    Each one beyond the limit takes the place of one, so that a player never has more than `slots` and `deleted_slots`
    together: a delete changes their sum as little as a write to a deleted slot.
    """
    return max(0, min(new, usage.deleted_slots - limits.deleted_slots + 1))


def too_many_deleted(limits: SaveLimits, usage: Usage) -> QuotaExceeded:
    """Return the error for a new slot while the player deleted more than `deleted_slots` within EXPIRY_HOURS."""
    return QuotaExceeded(
        f"You have deleted {usage.deleted_slots} saves, and the server keeps {limits.deleted_slots} of them. "
        f"Write to one of these slots again, or wait until the oldest was deleted {EXPIRY_HOURS} hours ago.",
        _measured(limits.deleted_slots, usage.deleted_slots),
    )


def room_to_stage(limits: SaveLimits, staged: tuple[int, int], size: int) -> SaveError | None:
    """Return the error if `size` more bytes may not be staged beside the `staged` ones: their number, and bytes.

    With more bytes no commit could store them.
    """
    count, total = staged
    if count >= (most := STAGED_COMMITS * limits.commit_writes):
        return QuotaExceeded(
            f"{count} bodies wait for a commit, and {most} may; commit what is staged, or wait until it expires.",
            _measured(most, count),
        )
    if total + size <= limits.bytes:
        return None
    return QuotaExceeded(
        f"Bytes that wait for a commit would be {total + size} and may be {limits.bytes}; commit what is staged, "
        "or wait until it expires.",
        _measured(limits.bytes, total),
    )


def _measured(limit: int, usage: int) -> dict[str, object]:
    return {"limit": limit, "usage": usage}


@lru_cache(8)  # each write asks for the same rate
def change_rate(writes_per_minute: int, commit_writes: int) -> RateLimit:
    """Return the rate of changes: half a minute's writes at once, then evenly. A commit counts with its entries."""
    interval_ms = 60_000 // writes_per_minute if writes_per_minute else 0
    return RateLimit(interval_ms, max(1, writes_per_minute // 2), most=commit_writes)


LATE_MS = 1000
"""A change whose body took longer is not refused at its end: it was counted when it was admitted."""


def count_change(limits: SaveLimits, arrival_ms: int, now_ms: int, admitted_ms: int, count: int = 1) -> int | None:
    """Return a player's bucket of committed changes after `count` more, None without a limit.

    Raise RateLimited if the changes of other processes have filled it since this one was admitted.
    """
    if not limits.writes_per_minute:
        return None
    try:
        return change_rate(limits.writes_per_minute, limits.commit_writes).acquire(arrival_ms, now_ms, count)
    except RateLimited:
        if 0 <= now_ms - admitted_ms <= LATE_MS:
            raise
        return arrival_ms


class SaveRateLimiter(PlayerRateLimiter):
    """Requests of one kind for saves.

    That of changes also counts those that change nothing, for which no row is written, and bodies that are under way.
    """

    @classmethod
    def of(cls, limits: SaveLimits) -> "SaveRateLimiter":
        return cls(change_rate(limits.writes_per_minute, limits.commit_writes))

    @classmethod
    def of_staging(cls, limits: SaveLimits) -> "SaveRateLimiter":
        """Return a limiter for staging, which allows the bytes of one whole commit at once."""
        count = limits.writes_per_minute
        return cls(RateLimit(60_000 // count if count else 0, max(limits.commit_writes, count // 2)))

    @classmethod
    def of_lists(cls) -> "SaveRateLimiter":
        return cls(LIST_RATE)


MAX_UPLOADS = 4
"""Concurrent uploads of one player."""
STEP_BYTES = 256 * 1024
"""Bytes of a body between two checks of the disk; a body of unknown length reserves its space in such steps."""
RETRY_MS = 5000


class DiskNearlyFull(DiskFull):
    """The error that the disk has less free space than `min_free_bytes`."""

    retry_after = 300


class TooManyUploads(RateLimited):
    """The error that a player has MAX_UPLOADS uploads under way."""

    def __init__(self) -> None:
        super().__init__(RETRY_MS)
        self.args = (f"{MAX_UPLOADS} of your uploads are under way, which is the limit. {self.args[0]}",)


MAX_READS = 4
"""Concurrent reads of saves over INLINE_BYTES of one player: each checks the whole save, in the only thread for it."""


class TooManyReads(RateLimited):
    """The error that a player has MAX_READS reads under way."""

    def __init__(self) -> None:
        super().__init__(1000)
        self.args = (f"You are reading {MAX_READS} large saves, which is the limit. {self.args[0]}",)


class _Uploading(Struct, eq=False):
    """The number of one player's uploads, and the bytes that they have reserved together."""

    player_id: str
    count: int = 0
    bytes: int = 0


class DiskReservations(Struct):
    """The bytes that uploads and exports have reserved on the disk and have not yet written or released.

    Exports are written at full speed, so their reservations count in full. Uploads arrive at the speed of their
    clients, or never, so all their reservations together count as at most half of the free space: clients that only
    announce large bodies cannot block a save that fits into the other half. Received bytes lie on the disk and lower
    its free space themselves; the disk is checked again while a body arrives.
    """

    _disk_usage: Callable[[], tuple[int, int, int]]
    """Returns the total, used and free bytes of the disk that has the databases, as shutil.disk_usage()."""
    _min_free_bytes: int
    bytes: int = 0
    """The reservations of uploads and exports together."""
    _uploads: int = 0
    """The reservations of uploads."""
    _players: dict[str, _Uploading] = field(default_factory=dict)

    def check(self, size: int) -> None:
        """Raise DiskNearlyFull if `size` more bytes do not fit on the disk."""
        _, _, free = self._disk_usage()
        free -= self._min_free_bytes + self.bytes - self._uploads
        if free - min(self._uploads, max(0, free) // 2) < size:
            raise DiskNearlyFull("The server's disk is nearly full; nothing was stored. Its owner must make room.")

    def reserve(self, size: int) -> None:
        """Reserve bytes for an export, which lowers `bytes` itself when it is done; raise DiskNearlyFull."""
        self.check(size)
        self.bytes += size

    def begin_upload(self, player_id: str, remaining: int) -> "UploadSpace":
        """Begin an upload of a player who may store `remaining` more bytes; raise TooManyUploads."""
        player = self._players.get(player_id)
        if player is None:
            player = self._players[player_id] = _Uploading(player_id)
        if player.count >= MAX_UPLOADS:
            raise TooManyUploads
        player.count += 1
        return UploadSpace(self, player, remaining)

    def _reserve(self, player: _Uploading, size: int) -> None:
        """Add `size` bytes to the reservation of the player's uploads; a negative size releases bytes."""
        self.bytes += size
        self._uploads += size
        player.bytes += size
        if not player.count and not player.bytes and self._players.get(player.player_id) is player:
            del self._players[player.player_id]


ONE_TRIP_BYTES = 64 * KIB
"""The largest body that waits in memory for the transaction that authenticates its token, too."""
ONE_TRIP_TOTAL = 16 * MIB


class OneTripBodies(Struct):
    """The bytes of all bodies, arriving or complete, whose tokens were not authenticated yet."""

    limit: int = ONE_TRIP_TOTAL
    bytes: int = 0

    def hold(self, size: int) -> bool:
        """Count a body; return False if they would be too many bytes."""
        if self.bytes + size > self.limit:
            return False
        self.bytes += size
        return True

    def release(self, size: int) -> None:
        """Count a body no more."""
        self.bytes -= size


class UploadSpace(Struct, eq=False):
    """The disk space that one upload has reserved; until its body is complete it counts towards MAX_UPLOADS."""

    _reservations: DiskReservations
    _player: _Uploading
    _remaining: int
    """Bytes that the player may still store; all uploads of the player together reserve no more."""
    _size: int = 0
    _reserved: int = 0
    """The part of `_size` that is reserved."""
    _arriving: bool = True

    def grow(self, size: int) -> None:
        """Reserve `size` bytes in total, or only check the disk again if they are reserved; raise DiskNearlyFull."""
        more = max(0, size - self._size)
        self._reservations.check(more)
        reserved = min(more, max(0, self._remaining - self._player.bytes))
        self._size += more
        self._reserved += reserved
        self._reservations._reserve(self._player, reserved)

    def arrived(self) -> None:
        """Allow the player another upload, because this body is complete; its reservation stays."""
        if self._arriving:
            self._arriving = False
            self._player.count -= 1
            self._reservations._reserve(self._player, 0)

    def release(self) -> None:
        """Release the whole reservation."""
        self.arrived()
        reserved, self._reserved = self._reserved, 0
        self._reservations._reserve(self._player, -reserved)
