"""What a player may keep (PROTOCOL 7); sizes in bytes.

How often one player may change something (PROTOCOL 7); kept in memory, so a restart forgives.

The disk of the stores: how full it may become, and what uploads and exports reserve of it (PROTOCOL 7).
"""

from collections.abc import Callable, Sequence

from msgspec import Struct, field

from gamed.database.errors import DiskFull
from gamed.rate_limit import RateLimit, RateLimited
from gamed.saves.errors import QuotaExceeded, SaveError, SaveTooLarge, TooManySlots

KIB = 1024
MIB = 1024 * KIB
INLINE_BYTES = 256 * KIB
"""Bodies up to here stay in memory and ride the deciding transaction; larger ones go by way of files."""


class SaveLimits(Struct, frozen=True):
    """The defaults of PROTOCOL 7."""

    save_bytes: int = 16 * MIB
    slots: int = 256
    bytes: int = 256 * MIB
    """All current versions of one player."""
    history_bytes: int = 512 * MIB
    """Everything else that is kept of one player."""
    meta_bytes: int = 2048
    keep_versions: int = 10
    keep_hours: int = 24
    keep_days: int = 30
    conflict_copies: int = 5
    """Per slot, the newest."""
    commit_writes: int = 64
    writes_per_minute: int = 60
    """0 = off."""
    wait_seconds: int = 25
    upload_seconds: int = 600
    min_free_bytes: int = 256 * MIB
    """The owner's disk: below it nothing is written."""
    allow_blank_saves: bool = False


class Usage(Struct, frozen=True):
    """What a player keeps now; sizes are counted for each version, also where two share their bytes."""

    slots: int = 0
    bytes: int = 0
    history_bytes: int = 0

    def remaining(self, limits: SaveLimits) -> int:
        """Return how many bytes the player may keep beyond these; 0 where a limit was lowered since."""
        return max(0, limits.bytes + limits.history_bytes - self.bytes - self.history_bytes)


def check_size(limits: SaveLimits, size: int) -> None:
    """SaveTooLarge when one save is over the limit; for a declared size, and again as bytes arrive."""
    if size > limits.save_bytes:
        raise SaveTooLarge(
            f"A save may have {limits.save_bytes} bytes at most; nothing was stored.",
            _measured(limits.save_bytes, size),
        )


def room_to_write(limits: SaveLimits, usage: Usage, old: int | None, new: int) -> SaveError | None:
    """Why a current version of `new` bytes may not take the place of one of `old` (None: an empty slot)."""
    return room_to_change(limits, usage, [(old, new)])


def room_to_change(
    limits: SaveLimits, usage: Usage, changes: Sequence[tuple[int | None, int | None]]
) -> SaveError | None:
    """Why several slots may not change together, each from and to so many bytes; None is an empty slot.

    A change that makes saves no larger and no more is always allowed (PROTOCOL 4.3, R6).
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


def room_to_stage(limits: SaveLimits, staged: int, size: int) -> SaveError | None:
    """Why `size` bytes more may not wait for a commit beside the `staged` ones: no commit could keep them all."""
    if staged + size <= limits.bytes:
        return None
    return QuotaExceeded(
        f"Bytes that wait for a commit would be {staged + size} and may be {limits.bytes}; commit what is staged, "
        "or wait until it expires.",
        _measured(limits.bytes, staged),
    )


def _measured(limit: int, usage: int) -> dict[str, object]:
    return {"limit": limit, "usage": usage}


MAX_REMEMBERED_PLAYERS = 10_000
"""Players remembered before those who are quiet are forgotten."""


class WriteRateLimiter(Struct):
    """One bucket per player."""

    _rate: RateLimit
    _next_allowed_ms: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, limits: SaveLimits) -> "WriteRateLimiter":
        """Half a minute's worth at once, then evenly; 0 is no limit."""
        count = limits.writes_per_minute
        return cls(RateLimit(60_000 // count if count else 0, max(1, count // 2)))

    @classmethod
    def of_staging(cls, limits: SaveLimits) -> "WriteRateLimiter":
        """A bucket of its own, so that a whole commit can be staged at once."""
        count = limits.writes_per_minute
        return cls(RateLimit(60_000 // count if count else 0, max(limits.commit_writes, count // 2)))

    def acquire(self, player_id: str, now_ms: int) -> None:
        """One change more; RateLimited leaves everything as it was."""
        self._next_allowed_ms[player_id] = self._rate.acquire(self._next_allowed_ms.get(player_id), now_ms)
        if len(self._next_allowed_ms) > MAX_REMEMBERED_PLAYERS:
            self._next_allowed_ms = {player: ms for player, ms in self._next_allowed_ms.items() if ms > now_ms}


UPLOADS = 4
"""Of one player at the same time."""
STEP_BYTES = 256 * 1024
"""After so many bytes more of a body the disk is checked again; a body of unknown length reserves as many at once."""
RETRY_MS = 5000


class DiskNearlyFull(DiskFull):
    """Less is free than the owner wants to keep free."""

    retry_after = 300


class TooManyUploads(RateLimited):
    """As many uploads of this player are under way as may be at once."""

    def __init__(self) -> None:
        super().__init__(RETRY_MS)
        self.args = (f"{UPLOADS} of your uploads are under way, which is the limit. {self.args[0]}",)


class _Uploading(Struct, eq=False):
    """The uploads of one player, and the bytes that they have reserved together."""

    player_id: str
    count: int = 0
    bytes: int = 0


class DiskReservations(Struct):
    """The bytes that uploads and exports have reserved on the disk, and have neither stored nor given up yet.

    Exports are written at once, so they count in full. Uploads arrive at the speed of their clients, or never: what all
    of them have reserved counts as half of the free room at most. So announcing bytes, by however many players, never
    refuses another player's save that fits into the other half. What has really arrived lies on the disk and is missing
    from its free bytes; the disk is checked again while a body arrives.
    """

    _free_bytes: Callable[[], int]
    """Returns what the stores' disk has left."""
    _min_free_bytes: int
    bytes: int = 0
    """By uploads and exports together."""
    _uploads: int = 0
    """By uploads alone."""
    _players: dict[str, _Uploading] = field(default_factory=dict)

    def check(self, size: int) -> None:
        """Raise DiskNearlyFull if the disk has no room for so many bytes more."""
        room = self._free_bytes() - self._min_free_bytes - (self.bytes - self._uploads)
        if room - min(self._uploads, max(0, room) // 2) < size:
            raise DiskNearlyFull("The server's disk is nearly full; nothing was stored. Its owner must make room.")

    def reserve(self, size: int) -> None:
        """Reserve bytes for an export, which gives them back itself; raise DiskNearlyFull."""
        self.check(size)
        self.bytes += size

    def begin_upload(self, player_id: str, left: int) -> "UploadSpace":
        """Begin an upload of a player who may keep `left` bytes more; raise TooManyUploads."""
        player = self._players.get(player_id)
        if player is None:
            player = self._players[player_id] = _Uploading(player_id)
        if player.count >= UPLOADS:
            raise TooManyUploads
        player.count += 1
        return UploadSpace(self, player, left)

    def _reserve(self, player: _Uploading, size: int) -> None:
        """Add `size` bytes, fewer than 0 to give them back, to what the player's uploads have reserved."""
        self.bytes += size
        self._uploads += size
        player.bytes += size
        if not player.count and not player.bytes and self._players.get(player.player_id) is player:
            del self._players[player.player_id]


class UploadSpace(Struct, eq=False):
    """What one upload has reserved, and its place among the uploads of its player."""

    _reservations: DiskReservations
    _player: _Uploading
    _remaining: int
    """What the player may keep beyond what they keep now: all their uploads together reserve no more than that."""
    _size: int = 0
    _reserved: int = 0
    """How much of `_size` is reserved."""
    _arriving: bool = True

    def grow(self, size: int) -> None:
        """Reserve `size` bytes in all, or check the disk again if they are reserved; raise DiskNearlyFull."""
        more = max(0, size - self._size)
        self._reservations.check(more)
        counted = min(more, max(0, self._remaining - self._player.bytes))
        self._size += more
        self._reserved += counted
        self._reservations._reserve(self._player, counted)

    def arrived(self) -> None:
        """Let the player begin another upload; what is reserved stays reserved."""
        if self._arriving:
            self._arriving = False
            self._player.count -= 1
            self._reservations._reserve(self._player, 0)

    def release(self) -> None:
        """Give everything back."""
        self.arrived()
        counted, self._reserved = self._reserved, 0
        self._reservations._reserve(self._player, -counted)
