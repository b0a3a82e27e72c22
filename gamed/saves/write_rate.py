"""How often one player may change something (PROTOCOL 7); kept in memory, so a restart forgives."""

from msgspec import Struct, field

from gamed.limits import Rate
from gamed.saves.limits import SaveLimits

CROWD = 10_000
"""Players remembered before those who are quiet are forgotten."""


class WriteRate(Struct):
    """One bucket per player."""

    _rate: Rate
    _arrivals: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, limits: SaveLimits) -> "WriteRate":
        """Half a minute's worth at once, then evenly; 0 is no limit."""
        count = limits.writes_per_minute
        return cls(Rate(60_000 // count if count else 0, max(1, count // 2)))

    @classmethod
    def of_staging(cls, limits: SaveLimits) -> "WriteRate":
        """A bucket of its own, so that a whole commit can be staged at once."""
        count = limits.writes_per_minute
        return cls(Rate(60_000 // count if count else 0, max(limits.commit_writes, count // 2)))

    def spend(self, player_id: str, now_ms: int) -> None:
        """One change more; RateLimited leaves everything as it was."""
        self._arrivals[player_id] = self._rate.after(self._arrivals.get(player_id), now_ms)
        if len(self._arrivals) > CROWD:
            self._arrivals = {player: ms for player, ms in self._arrivals.items() if ms > now_ms}
