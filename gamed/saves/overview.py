"""The body of `GET /game/` (PROTOCOL 4.2)."""

from gamed.instants import rfc3339
from gamed.saves.holdings import Holdings
from gamed.saves.limits import SaveLimits


def overview(player_id: str, owner: bool, holdings: Holdings, limits: SaveLimits, now_ms: int) -> dict[str, object]:
    """Return the player, the server's time, the cursor and usage of the player's saves, and the limits."""
    usage = holdings.usage
    return {
        "player": {"id": player_id, "owner": owner},
        "time": rfc3339(now_ms),
        "epoch": holdings.cursor.epoch,
        "cursor": str(holdings.cursor),
        "usage": {"slots": usage.slots, "bytes": usage.bytes, "history_bytes": usage.history_bytes},
        "limits": _limits(limits),
    }


def _limits(limits: SaveLimits) -> dict[str, object]:
    return {
        "save_bytes": limits.save_bytes,
        "slots": limits.slots,
        "bytes": limits.bytes,
        "history_bytes": limits.history_bytes,
        "meta_bytes": limits.meta_bytes,
        "commit_writes": limits.commit_writes,
        "writes_per_minute": limits.writes_per_minute,
        "wait_seconds": limits.wait_seconds,
        "keep_versions": limits.keep_versions,
        "keep_days": limits.keep_days,
    }
