"""What a player may keep (PROTOCOL 7); sizes in bytes."""

from collections.abc import Sequence

from msgspec import Struct

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

    def left(self, limits: SaveLimits) -> int:
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
