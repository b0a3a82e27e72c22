"""Larger bytes brought to the store beside its deciding lane (PROTOCOL 4)."""

from collections.abc import Awaitable, Callable
from typing import BinaryIO, Protocol, TypeVar

from msgspec.structs import replace

from gamed.saves.errors import SaveError
from gamed.saves.orders import NeedsBytes, WriteOrder, Written
from gamed.saves.staging import Staged, StageOrder
from gamed.store import BlobCorrupt, BlobGone, StoreBusy, StoreError
from gamed.structs import Part

ATTEMPTS = 4
"""How often a change that found its bytes gone, or a look whose bytes went meanwhile, begins again."""


class ByteStore(Protocol):
    """Blobs; StoreError."""

    def append(self, player_id: str, spool: BinaryIO) -> Awaitable[int]: ...
    def check(self, blob_id: int) -> Awaitable[None]: ...
    def discard(self, blob_id: int) -> Awaitable[None]: ...


Order = TypeVar("Order", WriteOrder, StageOrder)
Taken = TypeVar("Taken", Written, Staged)


class Supply(Part, frozen=True):
    """Decides; where the store lacks larger bytes, appends them and decides again."""

    _store: ByteStore

    async def carry_out(
        self,
        order: Order,
        decide: Callable[[Order], Awaitable[Taken | NeedsBytes | SaveError]],
        spool: BinaryIO | None,
    ) -> Taken:
        """What `decide` came to at last; its SaveError is raised. `spool` is None when the order has the bytes."""
        taken: Taken | None = None
        try:
            for _ in range(ATTEMPTS):
                outcome = await decide(order)
                if isinstance(outcome, SaveError):
                    raise outcome
                if not isinstance(outcome, NeedsBytes):
                    taken = outcome
                    return taken
                if spool is not None:
                    order = await self._supplied(order, outcome.known, spool)
        finally:
            await self._tidy(order.appended, taken)
        raise StoreBusy("Too much goes on with these bytes. Send them again in a moment.")

    async def _supplied(self, order: Order, known: int | None, spool: BinaryIO) -> Order:
        """The order with a blob that surely holds the bytes: one that is there and good, else an appended one."""
        if known is not None and known != order.checked and order.appended is None:
            try:
                await self._store.check(known)
                return replace(order, checked=known)
            except (BlobCorrupt, BlobGone):
                pass
        await self._tidy(order.appended, None)
        return replace(order, appended=await self._store.append(order.entry.player_id, spool))

    async def _tidy(self, appended: int | None, outcome: Written | Staged | None) -> None:
        """An appended blob that nothing wants goes at once, however it came to that; else it is swept later."""
        if appended is None or (outcome is not None and outcome.took(appended)):
            return
        try:
            await self._store.discard(appended)
        except StoreError:
            return
