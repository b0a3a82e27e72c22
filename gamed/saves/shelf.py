"""The work of keeping saves: look, write, delete, whatever the store and the rules say (PROTOCOL 4)."""

from collections.abc import Awaitable
from typing import IO, Protocol

from msgspec.structs import replace

from gamed.crypto import Random, Secret
from gamed.http_rules.conditions import Conditions, Outcome, range_holds
from gamed.http_rules.ranges import select
from gamed.instants import Now
from gamed.saves.answers import (
    no_bytes,
    not_found,
    nothing_to_read,
    refusal_of_reading,
    refusal_of_removal,
    refusal_of_restore,
    refusal_of_write,
    version_gone,
)
from gamed.saves.arrival import Arrival
from gamed.saves.condition import Condition
from gamed.saves.cursor import UNBORN, Cursor, new_epoch
from gamed.saves.damage import damage
from gamed.saves.digest import check_digest
from gamed.saves.entry import Listing
from gamed.saves.errors import CorruptBlob, SaveError
from gamed.saves.holdings import Holdings
from gamed.saves.limits import SaveLimits
from gamed.saves.orders import (
    DeleteOrder,
    DismissOrder,
    Entry,
    NeedsBytes,
    Removed,
    RestoreOrder,
    WriteOrder,
    Written,
)
from gamed.saves.overview import overview
from gamed.saves.player_waits import PlayerWaits
from gamed.saves.rules import WRITES, Removal
from gamed.saves.save_info import remembered
from gamed.saves.sight import Look, Parts, Past, Reading, Sight
from gamed.saves.supply import ATTEMPTS, ByteStore, Supply
from gamed.saves.version import Version
from gamed.saves.write_rate import WriteRate
from gamed.sessions.credentials import Caller
from gamed.sessions.keeper import Sessions
from gamed.store import BlobCorrupt, BlobGone, StoreBusy, StoreCorrupt
from gamed.structs import Part
from gamed.waits import Woken


class SaveStore(ByteStore, Protocol):
    """Each call is one transaction; StoreError when it did not take place, SessionError where a token is judged."""

    def holdings(self, token: Secret, now_ms: int) -> Awaitable[tuple[Caller, Holdings]]: ...
    def list_saves(
        self, token: Secret, now_ms: int, since: Cursor | None, conditions: Conditions
    ) -> Awaitable[tuple[Caller, Listing]]: ...
    def look_at(self, token: Secret, now_ms: int, look: Look) -> Awaitable[tuple[Caller, Sight]]: ...
    def recall(self, token: Secret, now_ms: int, slot: str) -> Awaitable[tuple[Caller, Past]]: ...
    def write(self, order: WriteOrder) -> Awaitable[Written | NeedsBytes | SaveError]: ...
    def remove(self, order: DeleteOrder) -> Awaitable[Removed | SaveError]: ...
    def restore(self, order: RestoreOrder) -> Awaitable[Written | SaveError]: ...
    def dismiss(self, order: DismissOrder) -> Awaitable[SaveError | None]: ...
    def fetch(self, blob_id: int) -> Awaitable[IO[bytes] | Parts]: ...


class Shelf(Part, frozen=True):
    """All saves of all players. Raises SaveError, SessionError, StoreError, RangeUnsatisfiable."""

    _store: SaveStore
    _sessions: Sessions
    _limits: SaveLimits
    _now_ms: Now
    _random: Random
    _waits: PlayerWaits
    _rate: WriteRate

    async def holdings(self, token: Secret, *, reading: bool = False) -> tuple[Caller, Holdings]:
        """Who asks, and the shelf as a whole; the token's first use is settled."""
        caller, holdings = await self._store.holdings(token, self._now_ms())
        await self._sessions.settle(caller, reading=reading)
        return caller, holdings

    async def overview(self, token: Secret) -> tuple[Cursor, dict[str, object]]:
        """The cursor and the body of `GET /game/`."""
        now_ms = self._now_ms()
        caller, holdings = await self.holdings(token, reading=True)
        return holdings.cursor, overview(caller.player_id, caller.owner, holdings, self._limits, now_ms)

    def granted(self, wanted_seconds: int) -> int:
        """How long a request for a list may wait that would like to wait so long."""
        return min(wanted_seconds, self._limits.wait_seconds)

    async def list_saves(
        self, token: Secret, since: Cursor | None, conditions: Conditions, wait_seconds: int = 0
    ) -> Listing:
        """Everything, or what changed since; where nothing has, what changes within `wait_seconds`.

        The token may expire while it waits, but not be revoked.
        """
        began_ms = self._now_ms()
        caller, listing = await self._store.list_saves(token, began_ms, since, conditions)
        await self._sessions.settle(caller, reading=True)
        if wait_seconds <= 0 or listing.is_news(since):
            return listing
        with self._waits.open(caller.player_id, listing.cursor) as slot:
            while True:
                _, listing = await self._store.list_saves(token, began_ms, since, conditions)
                left_ms = min(began_ms + wait_seconds * 1000 - self._now_ms(), wait_seconds * 1000)
                if left_ms <= 0 or listing.is_news(since) or await slot.wait(left_ms / 1000) is not Woken.NEWS:
                    return listing

    async def read(self, token: Secret, look: Look) -> Reading:
        """The current version, with its bytes where they will be sent; stored bytes were hashed again."""
        for _ in range(ATTEMPTS):
            try:
                caller, sight = await self._store.look_at(token, self._now_ms(), look)
            except StoreCorrupt:
                if not look.whole:
                    raise
                reading = await self.read(token, replace(look, whole=False))  # StoreCorrupt if more than bytes is hit
                raise await self._damaged(token, reading.version) from None
            await self._sessions.settle(caller, reading=True)
            reading = self._judged(look, sight)
            if not reading.modified or not look.whole or reading.content is not None:
                return reading
            try:
                return replace(reading, content=await self._bytes_of(sight, reading.version))
            except BlobGone:  # replaced and swept since the look
                continue
            except (BlobCorrupt, StoreCorrupt):
                raise await self._damaged(token, reading.version) from None
        raise StoreBusy("The save changes faster than it can be read. Try again in a moment.")

    async def recall(self, token: Secret, slot: str) -> dict[str, object]:
        """The body of the versions list."""
        caller, past = await self._store.recall(token, self._now_ms(), slot)
        await self._sessions.settle(caller, reading=True)
        if not past.view.seen:
            raise not_found(slot)
        head = past.view.head.version if past.view.head else None
        return remembered(self._limits, slot, head, past.versions)

    async def enter(self, token: Secret) -> Entry:
        """Judge who wants to change something, before any of the body is taken."""
        caller, holdings = await self.holdings(token)
        self._rate.spend(caller.player_id, self._now_ms())
        return Entry(caller.player_id, holdings.cursor.epoch, holdings.usage)

    async def write(self, entry: Entry, arrival: Arrival) -> Written:
        """Judge and store a body; what was refused is raised, and may be kept all the same."""
        check_digest(arrival.announced, arrival.body.sha256)
        arrival.blank.check(arrival.body.size, allowed=self._limits.allow_blank_saves)
        order = WriteOrder(
            entry,
            arrival.slot,
            arrival.condition,
            arrival.body,
            self._now_ms(),
            new_epoch(self._random) if entry.epoch == UNBORN.epoch else entry.epoch,
            arrival.data,
        )
        written = await Supply(self._store).carry_out(order, self._store.write, arrival.spool)
        if written.changed:
            self._waits.changed(entry.player_id)
        refusal = refusal_of_write(arrival.slot, arrival.condition, written)
        if refusal is not None:
            raise refusal
        return written

    async def remove(self, entry: Entry, slot: str, condition: Condition) -> None:
        """Empty a slot; its history stays."""
        outcome = await self._store.remove(DeleteOrder(entry, slot, condition, self._now_ms()))
        refusal = outcome if isinstance(outcome, SaveError) else refusal_of_removal(slot, condition, outcome)
        if refusal is not None:
            raise refusal
        if isinstance(outcome, Removed) and outcome.removal is Removal.DELETES:
            self._waits.changed(entry.player_id)

    async def restore(self, token: Secret, slot: str, number: int, condition: Condition) -> Version:
        """Make an old version current again, after its bytes were hashed; -> what is current now."""
        entry = await self.enter(token)
        look = Look(slot, Conditions(), whole=False, version=number)
        _, sight = await self._store.look_at(token, self._now_ms(), look)
        await self._check(token, self._judged(look, sight).version)
        outcome = await self._store.restore(RestoreOrder(entry, slot, number, condition, self._now_ms()))
        if isinstance(outcome, Written) and outcome.verdict.rule in WRITES:
            self._waits.changed(entry.player_id)
        refusal = outcome if isinstance(outcome, SaveError) else refusal_of_restore(slot, condition, outcome)
        if isinstance(outcome, Written) and outcome.current is not None and refusal is None:
            return outcome.current
        raise refusal or version_gone(slot, number)

    async def dismiss(self, token: Secret, slot: str, number: int) -> None:
        """Let go of a conflict copy."""
        entry = await self.enter(token)
        refusal = await self._store.dismiss(DismissOrder(entry, slot, number))
        if refusal is not None:
            raise refusal
        self._waits.changed(entry.player_id)

    async def _check(self, token: Secret, version: Version) -> None:
        """Stored bytes that are not what they were are not made current."""
        if version.blob_id is None:
            raise no_bytes(version)
        try:
            await self._store.check(version.blob_id)
        except BlobGone:
            raise version_gone(version.slot, version.version) from None
        except (BlobCorrupt, StoreCorrupt):
            raise await self._damaged(token, version) from None

    def _judged(self, look: Look, sight: Sight) -> Reading:
        if sight.outcome is Outcome.FAILED:
            raise refusal_of_reading(look.slot, look.conditions, sight)
        if sight.target is None or sight.current is None:
            raise nothing_to_read(look, sight)
        if sight.outcome is Outcome.NOT_MODIFIED or not look.whole:
            return Reading(sight.target, sight.outcome is not Outcome.NOT_MODIFIED)
        part = select(look.range, sight.target.size) if range_holds(look.conditions, sight.current) else None
        return Reading(sight.target, True, part, sight.data)

    async def _bytes_of(self, sight: Sight, version: Version) -> IO[bytes] | Parts:
        if sight.damaged or version.blob_id is None:
            raise BlobCorrupt
        return await self._store.fetch(version.blob_id)

    async def _damaged(self, token: Secret, version: Version) -> CorruptBlob:
        _, past = await self._store.recall(token, self._now_ms(), version.slot)
        return await damage(self._store.check, version, past)
