"""How full the owner's disk may become (PROTOCOL 7, `min_free_bytes`)."""

from msgspec import Struct

from gamed.store import StoreFull


class DiskNearlyFull(StoreFull):
    """Less is free than the owner wants to keep free."""

    retry_after = 300


class Announced(Struct):
    """Bytes that will come to the disk, and that have not all been stored or given up yet; shared by all who write."""

    bytes: int = 0

    def claim(self, size: int, free_bytes: int, min_free_bytes: int) -> None:
        """So many more, or DiskNearlyFull; whoever claimed gives them back."""
        if free_bytes - self.bytes - size < min_free_bytes:
            raise DiskNearlyFull("The server's disk is nearly full; nothing was stored. Its owner must make room.")
        self.bytes += size
