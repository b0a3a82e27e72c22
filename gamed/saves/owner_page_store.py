"""The changes of the owner's page to saves; commands make the same ones without a server and without Twisted."""

from functools import partial

from twisted.internet.defer import Deferred

from gamed.database.connection import STATE, attributed
from gamed.database.databases import Databases
from gamed.database.errors import BlobCorrupt, BlobNotFound, DatabaseCorrupt
from gamed.saves import operator_store
from gamed.saves.errors import CorruptBlob, VersionGone
from gamed.saves.model import Version
from gamed.structs import Component


class OperatorSaves(Component, frozen=True, kw_only=True):
    """The functions of operator_store as transactions of a server."""

    databases: Databases

    def find_deleted(self, player_id: str, slot: str) -> Deferred[int]:
        return self.databases.reads.submit(
            attributed(STATE, partial(operator_store.find_deleted, player_id=player_id, slot=slot))
        )

    async def check_restorable(self, player_id: str, slot: str, number: int) -> None:
        """Raise what find_restorable() does, VersionGone if the bytes are missing, or CorruptBlob."""
        find = partial(operator_store.find_restorable, player_id=player_id, slot=slot, number=number)
        version = await self.databases.reads.submit(attributed(STATE, find))
        try:
            await self.databases.blobs.check(version.blob_id or 0)
        except BlobNotFound:
            raise VersionGone("That version is not kept any more.") from None
        except (BlobCorrupt, DatabaseCorrupt):
            raise CorruptBlob("The bytes of that version are damaged.") from None

    def restore(self, player_id: str, slot: str, number: int, now_ms: int) -> Deferred[Version]:
        """Call restore_version(); raise SaveError."""
        return self.databases.state.submit(
            partial(operator_store.restore_version, player_id=player_id, slot=slot, number=number, now_ms=now_ms)
        )
