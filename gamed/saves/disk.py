"""The disk of the stores: how full it may become, and what uploads and exports reserve of it (PROTOCOL 7)."""

from collections.abc import Callable

from msgspec import Struct, field

from gamed.limits import RateLimited
from gamed.store import StoreFull

UPLOADS = 4
"""Of one player at the same time."""
STEP_BYTES = 256 * 1024
"""After so many bytes more of a body the disk is checked again; a body of unknown length reserves as many at once."""
RETRY_MS = 5000


class DiskNearlyFull(StoreFull):
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


class Announced(Struct):
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

    def claim(self, size: int) -> None:
        """Reserve bytes for an export, which gives them back itself; raise DiskNearlyFull."""
        self.check(size)
        self.bytes += size

    def upload(self, player_id: str, left: int) -> "UploadSpace":
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

    _announced: Announced
    _player: _Uploading
    _left: int
    """What the player may keep beyond what they keep now: all their uploads together reserve no more than that."""
    _size: int = 0
    _counted: int = 0
    """How much of `_size` is reserved."""
    _arriving: bool = True

    def grow(self, size: int) -> None:
        """Reserve `size` bytes in all, or check the disk again if they are reserved; raise DiskNearlyFull."""
        more = max(0, size - self._size)
        self._announced.check(more)
        counted = min(more, max(0, self._left - self._player.bytes))
        self._size += more
        self._counted += counted
        self._announced._reserve(self._player, counted)

    def arrived(self) -> None:
        """Let the player begin another upload; what is reserved stays reserved."""
        if self._arriving:
            self._arriving = False
            self._player.count -= 1
            self._announced._reserve(self._player, 0)

    def release(self) -> None:
        """Give everything back."""
        self.arrived()
        counted, self._counted = self._counted, 0
        self._announced._reserve(self._player, -counted)
