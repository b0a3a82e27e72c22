"""The work of changing several slots at once: bytes are staged, then one commit names them (PROTOCOL 4.4)."""

from collections.abc import Awaitable, Collection, Mapping, Sequence
from typing import Protocol

from msgspec.structs import replace

from gamed.crypto import Random, Secret
from gamed.instants import Now
from gamed.saves.answers import refusal_of_commit
from gamed.saves.commit import Change, CommitOrder, Committed, Disagreed, NeedsBlobs
from gamed.saves.cursor import new_epoch
from gamed.saves.digest import check_digest
from gamed.saves.errors import BlobMissing, BlobNotStaged, DigestMismatch, SaveError
from gamed.saves.limits import SaveLimits
from gamed.saves.orders import Entry, NeedsBytes
from gamed.saves.player_waits import PlayerWaits
from gamed.saves.shelf import Shelf
from gamed.saves.staging import Delivery, Staged, StageOrder
from gamed.saves.supply import ATTEMPTS, ByteStore, Supply
from gamed.saves.write_rate import WriteRate
from gamed.store import BlobCorrupt, BlobGone, StoreBusy
from gamed.structs import Part


class CommitStore(ByteStore, Protocol):
    """Each call is one transaction; StoreError when it did not take place."""

    def size_of(self, player_id: str, sha256: bytes) -> Awaitable[int | None]: ...
    def blobs_of(self, player_id: str, digests: Collection[bytes]) -> Awaitable[Mapping[bytes, int]]: ...
    def stage(self, order: StageOrder) -> Awaitable[Staged | NeedsBytes | SaveError]: ...
    def commit(self, order: CommitOrder) -> Awaitable[Committed | Disagreed | NeedsBlobs | SaveError]: ...


class Commits(Part, frozen=True):
    """Of all players; nobody ever learns of another's bytes. Raises SaveError, SessionError, StoreError."""

    _shelf: Shelf
    _store: CommitStore
    _limits: SaveLimits
    _staged_seconds: int
    """How long bytes wait for a commit."""
    _now_ms: Now
    _random: Random
    _waits: PlayerWaits
    _staging_rate: WriteRate

    async def enter(self, token: Secret) -> Entry:
        """To commit."""
        return await self._shelf.enter(token)

    async def enter_to_stage(self, token: Secret) -> Entry:
        """Staged bytes have a rate of their own: nothing that a player sees is changed by them."""
        caller, holdings = await self._shelf.holdings(token)
        self._staging_rate.spend(caller.player_id, self._now_ms())
        return Entry(caller.player_id, holdings.cursor.epoch, holdings.usage)

    async def size_of(self, token: Secret, sha256: bytes) -> int:
        """Of the player's own bytes with this hash, staged or saved; else BlobNotStaged."""
        caller, _ = await self._shelf.holdings(token, reading=True)
        size = await self._store.size_of(caller.player_id, sha256)
        if size is None:
            raise BlobNotStaged("These bytes are not staged, or not any more: PUT them here.")
        return size

    async def stage(self, entry: Entry, delivery: Delivery) -> None:
        """Keep bytes for a commit; the same again begins their time anew."""
        if delivery.sha256 != delivery.body.sha256:
            raise DigestMismatch("Other bytes arrived than the path says; nothing was stored. Send them again.")
        check_digest(delivery.announced, delivery.body.sha256)
        delivery.blank.check(delivery.body.size, allowed=self._limits.allow_blank_saves)
        now_ms = self._now_ms()
        order = StageOrder(entry, delivery.body, now_ms, now_ms - self._staged_seconds * 1000, delivery.data)
        await Supply(self._store).carry_out(order, self._store.stage, delivery.spool)

    async def commit(self, entry: Entry, changes: Sequence[Change]) -> Committed:
        """All or nothing; what was refused is raised, and its bytes are kept all the same."""
        order = CommitOrder(entry, changes, self._now_ms(), new_epoch(self._random), {})
        outcome = await self._decided(order)
        if outcome.changed:
            self._waits.changed(entry.player_id)
        if isinstance(outcome, Disagreed):
            raise refusal_of_commit(outcome.outcomes, len(changes))
        return outcome

    async def _decided(self, order: CommitOrder) -> Committed | Disagreed:
        """Bytes are hashed beside the deciding lane; where they turn out to be others by then, it begins again."""
        for _ in range(ATTEMPTS):
            order = replace(order, checked=await self._checked(order))
            outcome = await self._store.commit(order)
            if isinstance(outcome, SaveError):
                raise outcome
            if not isinstance(outcome, NeedsBlobs):
                return outcome
            absent = [sha256.hex() for sha256 in outcome.digests if sha256 not in order.checked]
            if absent:
                raise _missing(absent)
        raise StoreBusy("Too much goes on with these bytes. Send the commit again in a moment.")

    async def _checked(self, order: CommitOrder) -> Mapping[bytes, int]:
        """Blobs that hold what they should; damaged ones count as missing, and are healed when they are staged."""
        good = {}
        for sha256, blob_id in (await self._store.blobs_of(order.entry.player_id, order.digests)).items():
            try:
                await self._store.check(blob_id)
            except (BlobCorrupt, BlobGone):
                continue
            good[sha256] = blob_id
        return good


def _missing(absent: Sequence[str]) -> BlobMissing:
    return BlobMissing(
        f"Nothing was changed: {len(absent)} of the named bytes are not here. PUT them to /game/blobs/ and their "
        "sha256, then send the same commit again.",
        {"missing": absent},
    )
