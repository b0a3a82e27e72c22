"""The limits of a browser's visits to a login, per client address (PROTOCOL 3.9)."""

from gamed.config import model
from gamed.crypto import Indexer
from gamed.instants import Now
from gamed.limits import Rate, RateLimited
from gamed.login.account_check import Limits
from gamed.login.crowd import per_address
from gamed.login.errors import CallbacksLimited
from gamed.structs import Part


class Entrance(Part, frozen=True):
    """The buckets for opened links, departures to a provider and callbacks: one sign-in takes one of each."""

    _limits: Limits
    _indexer: Indexer
    _now_ms: Now
    _configured: model.Limits

    async def opened(self, address: str) -> None:
        """Count an opened link, also an unknown one, so that tokens cannot be guessed quickly; raise RateLimited."""
        await self._count(b"entry", address, self._configured.entries_per_minute)

    async def pressed(self, address: str) -> None:
        """Count a departure to a provider; raise RateLimited."""
        await self._count(b"departure", address, self._configured.entries_per_minute)

    async def returned(self, address: str) -> None:
        """Count a callback, also a malformed one; raise CallbacksLimited."""
        try:
            await self._count(b"callback", address, self._configured.callbacks_per_minute)
        except RateLimited as e:
            raise CallbacksLimited(1000 * e.retry_after) from None

    async def _count(self, what: bytes, address: str, per_minute: int) -> None:
        buckets = per_address(self._indexer, what, address, Rate.per_minute(per_minute))
        if buckets:
            await self._limits.take(buckets, self._now_ms())
