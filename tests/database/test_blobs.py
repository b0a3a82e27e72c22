"""The blob store: blobs in parts, checked copies, deletion in small steps."""

from errno import ENOSPC
from hashlib import sha256
from io import BytesIO
from os import urandom
from threading import Event
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import CancelledError, gatherResults
from twisted.internet.threads import deferToThread
from twisted.trial.unittest import SynchronousTestCase, TestCase

from gamed.database.blob_rows import PART_BYTES, claim_unreferenced
from gamed.database.blobs import KEPT_MS
from gamed.database.databases import Databases
from gamed.database.errors import BlobCorrupt, BlobNotFound, DiskFull
from tests.support.databases import InlineReactor, ask, file_databases, memory_databases
from tests.support.stores import literal, sqlite_files

LARGE = urandom(16 * PART_BYTES + 5)


class BlobCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = InlineReactor()
        self.now_ms = 5_000_000_000
        self.stores = file_databases(self, now_ms=lambda: self.now_ms, inline=self.clock)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return self.successResultOf(self.stores.reads.submit(ask(sql)))

    def state(self, sql: str) -> None:
        self.successResultOf(self.stores.state.submit(ask(sql)))

    def append(self, data: bytes) -> int:
        return self.successResultOf(self.stores.blobs.append("ply_a", BytesIO(data)))

    def finish(self, blob_id: int, data: bytes) -> None:
        """Do what the deciding transaction of a save does."""
        digest = literal(sha256(data).digest())
        self.state(f"UPDATE blob SET sha256 = {digest}, refs = 1 WHERE blob_id = {blob_id}")

    def parts(self) -> list[tuple[Any, ...]]:
        return self.rows("SELECT blob_id, n, length(data) FROM blob_part ORDER BY blob_id, n")


class Blobs(BlobCase):
    def test_append(self) -> None:
        """A spool becomes a blob without hash and references, in parts of 256 KiB and a rest."""
        blob_id = self.append(LARGE)
        self.assertEqual(
            [("ply_a", None, len(LARGE), 0, self.now_ms)],
            self.rows("SELECT player_id, sha256, size, refs, created_ms FROM blob"),
        )
        self.assertEqual([*((blob_id, n, PART_BYTES) for n in range(16)), (blob_id, 16, 5)], self.parts())

    def test_append_exact(self) -> None:
        """Bytes that fill their parts exactly have no empty part behind them; no bytes have no part."""
        blob_id = self.append(bytes(2 * PART_BYTES))
        self.append(b"")
        self.assertEqual([(blob_id, 0, PART_BYTES), (blob_id, 1, PART_BYTES)], self.parts())

    def test_append_reads_all(self) -> None:
        """The whole spool is stored, wherever its position was."""
        spool = BytesIO(LARGE)
        spool.seek(1234)
        blob_id = self.successResultOf(self.stores.blobs.append("ply_a", spool))
        self.finish(blob_id, LARGE)
        with self.successResultOf(self.stores.blobs.fetch(blob_id)) as copy:
            self.assertEqual(LARGE, copy.read())

    @sqlite_files("a number of pages")
    def test_append_without_room(self) -> None:
        """An append that does not fit fails and leaves no rows."""
        blobs = self.stores.threads[3]
        [(pages,)] = self.successResultOf(blobs.run(ask("PRAGMA page_count")))
        self.successResultOf(blobs.run(ask(f"PRAGMA max_page_count = {pages + 300}")))
        self.failureResultOf(self.stores.blobs.append("ply_a", BytesIO(LARGE)), DiskFull)
        self.assertEqual([], self.rows("SELECT * FROM blob"))
        self.assertEqual([], self.parts())

    def test_append_of_a_broken_spool(self) -> None:
        """A spool that cannot be read to its end leaves nothing behind."""

        class Broken(BytesIO):
            def read(self, size: int | None = -1) -> bytes:
                if self.tell() >= 6 * PART_BYTES:
                    raise OSError(ENOSPC, "unreadable")
                return super().read(size)

        self.failureResultOf(self.stores.blobs.append("ply_a", Broken(LARGE)), OSError)
        self.assertEqual([], self.rows("SELECT * FROM blob"))
        self.assertEqual([], self.parts())

    def test_fetch(self) -> None:
        """A finished blob comes back whole in a file without a name, at its start."""
        blob_id = self.append(LARGE)
        self.finish(blob_id, LARGE)
        folder = self.stores.blobs._folder
        with self.successResultOf(self.stores.blobs.fetch(blob_id)) as copy:
            self.assertEqual(0, copy.tell())
            self.assertEqual(LARGE, copy.read())
            self.assertEqual([], list(folder.iterdir()))

    def test_fetch_damaged(self) -> None:
        """A changed or missing byte is noticed before the copy is handed out."""
        for number, damage in enumerate(
            (
                f"UPDATE blob_part SET data = {literal(bytes(262144))} WHERE n = 3",
                "DELETE FROM blob_part WHERE n = 16",
                "UPDATE blob SET size = size + 1",
            )
        ):
            data = LARGE + bytes([number])
            blob_id = self.append(data)
            self.finish(blob_id, data)
            self.state(damage)
            self.failureResultOf(self.stores.blobs.fetch(blob_id), BlobCorrupt)
            self.state("DELETE FROM blob")
        self.assertEqual(1, self.successResultOf(self.stores.state.submit(lambda _: 1)))

    def test_fetch_unknown(self) -> None:
        """A blob that is not there (any more), or was never finished, is BlobNotFound."""
        self.failureResultOf(self.stores.blobs.fetch(77), BlobNotFound)
        self.failureResultOf(self.stores.blobs.fetch(self.append(LARGE)), BlobNotFound)

    def test_fetch_unknown_without_a_folder(self) -> None:
        """A blob that does not exist is BlobNotFound, even if no file could be made for its copy."""
        self.stores.blobs._folder /= "missing"
        self.failureResultOf(self.stores.blobs.fetch(77), BlobNotFound)

    def test_discard(self) -> None:
        """A discarded blob goes with all its parts; one that something refers to stays."""
        kept, dropped = self.append(LARGE), self.append(bytes(40 * PART_BYTES))
        self.finish(kept, LARGE)
        self.successResultOf(self.stores.blobs.discard(dropped, "ply_a"))
        self.successResultOf(self.stores.blobs.discard(kept, "ply_a"))
        self.assertEqual([(kept,)], self.rows("SELECT blob_id FROM blob"))
        self.assertEqual({kept}, {row[0] for row in self.parts()})

    def test_numbers_are_not_used_again(self) -> None:
        """The number of a deleted blob is never given to another one, whichever were deleted and in which order."""
        used = [self.append(b"1"), self.append(b"2"), self.append(b"3")]
        for deleted in (used[1], used[2], used[0]):
            self.successResultOf(self.stores.blobs.discard(deleted, "ply_a"))
            used.append(self.append(b"4"))
        for deleted in used[3:]:
            self.successResultOf(self.stores.blobs.discard(deleted, "ply_a"))
        self.assertEqual(self.rows("SELECT * FROM blob"), [])
        used.append(self.append(b"5"))
        self.assertEqual(len(set(used)), 7)
        self.assertEqual(sorted(used), used)

    def test_swept_after_a_day(self) -> None:
        """Delete a blob without references after a day; keep younger blobs and those in use."""
        self.append(LARGE)
        used = self.append(LARGE)
        self.finish(used, LARGE)
        self.now_ms += KEPT_MS
        young = self.append(LARGE)
        self.clock.advance(3600)
        self.assertEqual(3, len(self.rows("SELECT 1 FROM blob")))
        self.now_ms += 1
        self.clock.advance(3600)
        self.assertEqual([(used,), (young,)], self.rows("SELECT blob_id FROM blob ORDER BY blob_id"))
        self.assertEqual({used, young}, {row[0] for row in self.parts()})

    def test_staged_bytes_have_their_own_time(self) -> None:
        """Delete staged blobs after their own time, shorter or longer than that of other blobs; delete blobs that a
        version had at the next cleanup.
        """
        for days, swept in ((0.5, {1, 3}), (2, {2, 3})):
            with self.subTest(days=days):
                stores = memory_databases(self, lambda: self.now_ms, staged_ms=int(days * KEPT_MS))

                def state(sql: str, stores: Databases = stores) -> list[tuple[Any, ...]]:
                    return self.successResultOf(stores.state.submit(ask(sql)))

                for number in (1, 2, 3):
                    self.successResultOf(stores.blobs.append("ply_a", BytesIO(bytes([number]))))
                state(f"UPDATE blob SET sha256 = {literal(b'a')} WHERE blob_id = 1")
                state(f"UPDATE blob SET sha256 = {literal(b'b')}, created_ms = 0 WHERE blob_id = 3")
                self.now_ms += int((days + 1) / 2 * KEPT_MS)
                self.successResultOf(stores.blobs.delete_expired())
                left = {blob_id for (blob_id,) in state("SELECT blob_id FROM blob")}
                self.assertEqual({1, 2, 3} - left, swept)

    def test_marked_at_once(self) -> None:
        """No query finds a blob once cleanup has chosen it, although its parts are deleted later."""
        blob_id = self.append(LARGE)
        self.state(f"UPDATE blob SET sha256 = {literal(b'a')} WHERE blob_id = {blob_id}")
        late_ms = self.now_ms + 1
        chosen = self.stores.state.submit(lambda c: claim_unreferenced(c, late_ms, late_ms))
        self.assertEqual(self.successResultOf(chosen), blob_id)
        self.assertEqual(self.rows("SELECT sha256 FROM blob"), [(None,)])
        self.assertEqual(self.successResultOf(self.stores.blobs.delete_expired()), 1)

    def test_hash_is_deleted_first(self) -> None:
        """A blob that is being deleted is no longer found by its hash, so no save can use half of it."""
        blob_id = self.append(bytes(40 * PART_BYTES))
        self.finish(blob_id, b"")
        self.state("UPDATE blob SET refs = 0")
        queue = self.stores.blobs.queue
        removing = self.stores.blobs.discard
        seen: list[list[tuple[Any, ...]]] = []
        run = queue.thread.run

        def stepwise(work: Any) -> Any:
            seen.append(self.rows("SELECT sha256, (SELECT count(*) FROM blob_part) FROM blob"))
            return run(work)

        queue.thread.run = stepwise  # type: ignore[method-assign]
        self.successResultOf(removing(blob_id, "ply_a"))
        self.assertEqual([(sha256(b"").digest(), 40)], seen[0])
        self.assertEqual([[(None, 36)], [(None, 32)]], seen[1:3])

    def test_in_memory(self) -> None:
        """The blob store works in memory, too."""
        stores = memory_databases(self)
        blob_id = self.successResultOf(stores.blobs.append("ply_a", BytesIO(LARGE)))
        digest = literal(sha256(LARGE).digest())
        self.successResultOf(stores.state.submit(ask(f"UPDATE blob SET sha256 = {digest}")))
        with self.successResultOf(stores.blobs.fetch(blob_id)) as copy:
            self.assertEqual(LARGE, copy.read())


class PartByPart(BlobCase):
    """Reading a blob in place, for a disk without space for a copy."""

    def read(self, blob_id: int) -> bytes:
        parts = self.successResultOf(self.stores.blobs.read_parts(blob_id))
        try:
            count = -(-len(LARGE) // parts.part_bytes)
            return b"".join(self.successResultOf(parts.part(n)) for n in range(count))
        finally:
            parts.close()

    def test_whole(self) -> None:
        """All parts together are the blob, and each is hashed again when it is read."""
        self.finish(blob_id := self.append(LARGE), LARGE)
        self.assertEqual(self.read(blob_id), LARGE)
        parts = self.successResultOf(self.stores.blobs.read_parts(blob_id))
        part = LARGE[3 * PART_BYTES : 4 * PART_BYTES]
        changed = bytes([part[0] ^ 1]) + part[1:]
        self.state(f"UPDATE blob_part SET data = {literal(changed)} WHERE n = 3")
        self.assertEqual(len(self.successResultOf(parts.part(2))), PART_BYTES)
        self.failureResultOf(parts.part(3), BlobCorrupt)
        self.failureResultOf(self.stores.blobs.read_parts(blob_id), BlobCorrupt)
        self.failureResultOf(self.stores.blobs.check(blob_id), BlobCorrupt)

    def test_some_parts(self) -> None:
        """The wanted parts come back alone, unless any part is damaged."""
        self.finish(blob_id := self.append(LARGE), LARGE)
        found = self.successResultOf(self.stores.blobs.read_some(blob_id, range(15, 17)))
        self.assertEqual(found, {15: LARGE[15 * PART_BYTES : 16 * PART_BYTES], 16: LARGE[16 * PART_BYTES :]})
        self.state(f"UPDATE blob_part SET data = {literal(bytes(PART_BYTES))} WHERE n = 0")
        self.failureResultOf(self.stores.blobs.read_some(blob_id, range(15, 17)), BlobCorrupt)
        self.failureResultOf(self.stores.blobs.read_some(77, range(1)), BlobNotFound)

    def test_kept_while_it_is_read(self) -> None:
        """A blob without references stays until its last reader is closed; no query finds it meanwhile."""
        self.finish(blob_id := self.append(LARGE), LARGE)
        first, second = (self.successResultOf(self.stores.blobs.read_parts(blob_id)) for _ in range(2))
        self.state("UPDATE blob SET refs = 0")
        self.successResultOf(self.stores.blobs.discard(blob_id, "ply_a"))
        self.assertEqual(self.rows("SELECT sha256 FROM blob"), [(None,)])
        for reader in (first, second):
            self.assertEqual(self.successResultOf(self.stores.blobs.delete_expired()), 0)
            self.assertEqual(len(self.successResultOf(reader.part(1))), PART_BYTES)
            reader.close()
        self.assertEqual(self.successResultOf(self.stores.blobs.delete_expired()), 1)
        self.failureResultOf(self.stores.blobs.read_parts(blob_id), BlobNotFound)
        self.assertEqual(self.parts(), [])


class HeldSpool(BytesIO):
    """A spool that blocks before its second half."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.half_way, self.go_on = Event(), Event()

    def read(self, size: int | None = -1, /) -> bytes:
        if self.tell() > len(self.getbuffer()) // 2:
            self.half_way.set()
            self.go_on.wait(60)
        return super().read(size)


class Threads(TestCase):
    async def test_beside_the_write_queue(self) -> None:
        """Several large appends and many small decisions at once all arrive, and none waits in vain for the file."""
        stores = file_databases(self, reactor)
        appends = [stores.blobs.append(f"ply_{n}", BytesIO(LARGE)) for n in range(4)]
        insert = "INSERT INTO player_saves (player_id, epoch) VALUES ('{}', 'e') RETURNING player_id"
        decisions = [stores.state.submit(ask(insert.format(n))) for n in range(500)]
        self.assertEqual(4, len(set(await gatherResults(appends))))
        self.assertEqual([[(str(n),)] for n in range(500)], await gatherResults(decisions))
        rows = await stores.reads.submit(ask("SELECT count(*), sum(length(data)) FROM blob_part"))
        self.assertEqual([(4 * 17, 4 * len(LARGE))], rows)

    async def test_cancelled_append(self) -> None:
        """An append that is cancelled half-way removes what it stored."""
        stores, spool = file_databases(self, reactor), HeldSpool(bytes(200 * PART_BYTES))
        append = stores.blobs.append("ply_a", spool)
        await deferToThread(spool.half_way.wait, 60)
        append.cancel()
        spool.go_on.set()
        with self.assertRaises(CancelledError):
            await append
        await stores.close()
        stores = file_databases(self, reactor, data=stores.blobs._folder.parent)
        self.assertEqual(
            [(0, 0)],
            await stores.reads.submit(ask("SELECT (SELECT count(*) FROM blob), (SELECT count(*) FROM blob_part)")),
        )
