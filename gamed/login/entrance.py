"""How often browsers from one address may come to a login (PROTOCOL 3.9 `entries_per_minute`)."""

from gamed.crypto import Indexer
from gamed.instants import Now
from gamed.limits import Rate
from gamed.login.account_check import Limits
from gamed.login.crowd import per_address
from gamed.structs import Part


class Entrance(Part, frozen=True):
    """Opening a link and leaving for a provider count apart: one sign-in is one of each."""

    _limits: Limits
    _indexer: Indexer
    _now_ms: Now
    _per_minute: int

    async def opened(self, address: str) -> None:
        """RateLimited, also for links that lead nowhere: nobody guesses tokens at leisure."""
        await self._count(b"entry", address)

    async def pressed(self, address: str) -> None:
        """RateLimited."""
        await self._count(b"departure", address)

    async def _count(self, what: bytes, address: str) -> None:
        buckets = per_address(self._indexer, what, address, Rate.per_minute(self._per_minute))
        if buckets:
            await self._limits.take(buckets, self._now_ms())
