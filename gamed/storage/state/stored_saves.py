"""Saves over the lanes: a look is one unit with its token, a change one unit of state.db."""

from collections.abc import Callable, Collection
from functools import partial
from sqlite3 import Connection
from typing import IO, BinaryIO, TypeVar

from twisted.internet.defer import Deferred

from gamed.crypto import Indexer, Secret
from gamed.http_rules.conditions import Conditions
from gamed.saves.commit import CommitOrder, Committed, Disagreed, NeedsBlobs
from gamed.saves.cursor import Cursor
from gamed.saves.entry import Listing
from gamed.saves.errors import SaveError
from gamed.saves.holdings import Holdings
from gamed.saves.limits import SaveLimits
from gamed.saves.orders import DeleteOrder, DismissOrder, NeedsBytes, Removed, RestoreOrder, WriteOrder, Written
from gamed.saves.sight import Look, Parts, Past, Sight
from gamed.saves.staging import Staged, StageOrder
from gamed.sessions.credentials import Caller
from gamed.storage.auth.sessions import authenticate
from gamed.storage.errors import SQLITE_ERRORS, attributed, found_in
from gamed.storage.files import STATE
from gamed.storage.state import committing, reading, restoring, shelves, staging, writing
from gamed.storage.stores import Stores
from gamed.store import StoreFull
from gamed.structs import Part

T = TypeVar("T")
CHANGE_BYTES = 64 * 1024
"""What one entry of a commit counts for in a batch: a full one rides alone, so that nobody waits for two."""


class StoredSaves(Part, frozen=True):
    """gamed.saves.shelf.SaveStore; failures are StoreError, SessionError where a token is judged."""

    _stores: Stores
    _indexer: Indexer
    _limits: SaveLimits

    def holdings(self, token: Secret, now_ms: int) -> Deferred[tuple[Caller, Holdings]]:
        return self._look(token, now_ms, shelves.find)

    def list_saves(
        self, token: Secret, now_ms: int, since: Cursor | None, conditions: Conditions
    ) -> Deferred[tuple[Caller, Listing]]:
        return self._look(token, now_ms, partial(reading.list_saves, since=since, conditions=conditions))

    def look_at(self, token: Secret, now_ms: int, look: Look) -> Deferred[tuple[Caller, Sight]]:
        return self._look(token, now_ms, partial(reading.look_at, look=look))

    def recall(self, token: Secret, now_ms: int, slot: str) -> Deferred[tuple[Caller, Past]]:
        return self._look(token, now_ms, partial(reading.recall, slot=slot))

    def write(self, order: WriteOrder) -> Deferred[Written | NeedsBytes | SaveError]:
        size = len(order.data) if order.data is not None else 0
        return self._stores.state.submit(partial(writing.write, limits=self._limits, order=order), size)

    def remove(self, order: DeleteOrder) -> Deferred[Removed | SaveError]:
        return self._stores.state.submit(partial(writing.remove, limits=self._limits, order=order))

    def restore(self, order: RestoreOrder) -> Deferred[Written | SaveError]:
        return self._stores.state.submit(partial(restoring.restore, limits=self._limits, order=order))

    def dismiss(self, order: DismissOrder) -> Deferred[SaveError | None]:
        return self._stores.state.submit(partial(restoring.dismiss, order=order))

    def size_of(self, player_id: str, sha256: bytes) -> Deferred[int | None]:
        return self._stores.reads.submit(
            attributed(STATE, partial(staging.size_of, player_id=player_id, sha256=sha256))
        )

    def blobs_of(self, player_id: str, digests: Collection[bytes]) -> Deferred[dict[bytes, int]]:
        return self._stores.reads.submit(attributed(STATE, partial(staging.find, player_id=player_id, digests=digests)))

    def stage(self, order: StageOrder) -> Deferred[Staged | NeedsBytes | SaveError]:
        size = len(order.data) if order.data is not None else 0
        return self._stores.state.submit(partial(staging.stage, limits=self._limits, order=order), size)

    def commit(self, order: CommitOrder) -> Deferred[Committed | Disagreed | NeedsBlobs | SaveError]:
        size = CHANGE_BYTES * len(order.changes)
        return self._stores.state.submit(partial(committing.commit, limits=self._limits, order=order), size)

    def append(self, player_id: str, spool: BinaryIO) -> Deferred[int]:
        return self._stores.blobs.append(player_id, spool)

    def fetch(self, blob_id: int) -> Deferred[IO[bytes] | Parts]:
        """A copy; on a full disk, the bytes where they are."""
        return Deferred.fromCoroutine(self._fetch(blob_id))

    def check(self, blob_id: int) -> Deferred[None]:
        return self._stores.blobs.check(blob_id)

    def discard(self, blob_id: int) -> Deferred[None]:
        return self._stores.blobs.discard(blob_id)

    def _look(self, token: Secret, now_ms: int, look: Callable[[Connection, str], T]) -> Deferred[tuple[Caller, T]]:
        """The token and what it opens in one hop; auth.db is read first."""

        def unit(connection: Connection) -> tuple[Caller, T]:
            caller = authenticate(connection, self._indexer, token, now_ms)
            try:
                return caller, look(connection, caller.player_id)
            except SQLITE_ERRORS as e:
                raise found_in(STATE, e)  # noqa: B904  its cause is set

        return self._stores.reads.submit(unit)

    async def _fetch(self, blob_id: int) -> IO[bytes] | Parts:
        try:
            return await self._stores.blobs.fetch(blob_id)
        except StoreFull:
            return await self._stores.blobs.read_parts(blob_id)
