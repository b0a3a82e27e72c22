"""A player's reads of large saves are few at a time: they let no other player wait, and fill neither disk nor process.

See docs/protocol.md: Saves.
"""

import contextlib
import os
from collections.abc import Callable
from resource import RLIMIT_NOFILE, getrlimit, setrlimit
from typing import TypeVar

from twisted.internet.defer import Deferred

from gamed.saves.limits import MAX_READS
from gamed.saves.reads import READ_SECONDS
from gamed.saves.retention import DAY_MS
from tests.saves.helpers import ABSENT, BIG, tag
from tests.saves.test_uploads import TornCase
from tests.sessions.fixtures import BERT
from tests.support.covers import covers

T = TypeVar("T")
BYTE = {"Range": "bytes=0-0"}


class LargeReadsTest(TornCase):
    def setUp(self) -> None:
        super().setUp()
        self.stores.blobs._folder = self.folder
        self.put("big", BIG, ABSENT)
        self.put("small", b"x", ABSENT)

    def copies(self) -> int:
        return self.spools()

    def test_share(self) -> None:
        """A fifth unread response is 429; what needs no large bytes, and other players, are answered as before."""
        slow = [self.read_slowly("/game/saves/big") for _ in range(MAX_READS)]
        self.assertEqual(self.copies(), MAX_READS)
        for headers in ({}, BYTE):
            answer = self.assert_problem(self.get("big", headers), 429, "rate_limited", "4 large saves")
            self.assertEqual(answer.headers["retry-after"], "1")
        self.assertEqual(self.ask("HEAD", "/game/saves/big").status, 200)
        self.assertEqual(self.get("big", {"If-None-Match": tag(1, BIG)}).status, 304)
        self.assertEqual(self.get("small").status, 200)
        mine, self.bearer = self.bearer, self.sign_in(BERT)
        self.put("big", BIG, ABSENT)
        self.assertEqual(self.get("big").body, BIG)
        self.bearer = mine
        slow[0].leave()
        self.assertEqual(self.get("big").body, BIG)
        for call in slow[1:]:
            while len(call.raw) < len(BIG):
                call.channel.flow.resumeProducing()
            self.assertEqual(call.answer.body, BIG)
        self.assertEqual(self.copies(), 0)
        self.assertEqual([self.get("big", BYTE).status for _ in range(2 * MAX_READS)], [206] * 2 * MAX_READS)

    @covers("threats/38")
    def test_waiting_for_others(self) -> None:
        """Few of 64 reads of one byte are in the queue of large bytes, before an upload of another player."""
        self.stores.blobs.queue.pause()
        calls = [self.browser.send("GET", "/game/saves/big", {**self.bearer, **BYTE}) for _ in range(64)]
        self.assertEqual(self.stores.blobs.queue.waiting, MAX_READS)
        self.assertEqual([call.answer.status for call in calls if call.answers], [429] * (64 - MAX_READS))
        self.browser.watched(self.stores.blobs.queue.resume)
        self.assertEqual([call.answer.status for call in calls], [206] * MAX_READS + [429] * (64 - MAX_READS))
        self.assertEqual(self.copies(), 0)

    def test_left_while_it_waits(self) -> None:
        """A client that leaves before its turn frees its share, its reservation and its place."""
        self.stores.blobs.queue.pause()
        for _ in range(3 * MAX_READS):
            self.browser.send("GET", "/game/saves/big", self.bearer).leave()
        self.assertEqual(self.reservations.bytes, 0)
        call = self.browser.send("GET", "/game/saves/big", self.bearer)
        self.browser.watched(self.stores.blobs.queue.resume)
        self.assertEqual((call.answer.body, self.copies()), (BIG, 0))

    def test_left_while_it_is_copied(self) -> None:
        """A copy counts until it is written, also without its client; a thread then closes it."""
        thread, reads = self.stores.blobs.queue.thread, self.saves.saves.reads
        run, held = thread.run, []

        def holding(work: Callable[..., T]) -> Deferred[T]:
            done: Deferred[T] = Deferred()
            held.append(lambda: run(work).chainDeferred(done))
            return done

        thread.run = holding  # type: ignore[method-assign]
        self.late = []
        for folder in (self.folder, self.folder / "missing"):
            self.stores.blobs._folder = folder
            self.browser.send("GET", "/game/saves/big", self.bearer).leave()
            self.assertEqual((reads._copies, [*reads._players.values()], self.reservations.bytes), (1, [1], len(BIG)))
            held.pop()()
            self.assertEqual((reads._copies, reads._players, self.reservations.bytes), (0, {}, 0))
            self.assertEqual((self.copies(), len(self.late)), (1, 1) if folder == self.folder else (0, 0))
            self.run_late()
            self.assertEqual(self.copies(), 0)

    def test_reservation(self) -> None:
        """A copy reserves its space until it is written, so that all of them leave `min_free_bytes`."""
        self.stores.blobs.queue.pause()
        calls = [self.browser.send("GET", "/game/saves/big", self.bearer) for _ in range(2)]
        self.assertEqual(self.reservations.bytes, 2 * len(BIG))
        self.browser.watched(self.stores.blobs.queue.resume)
        self.assertEqual([call.answer.body for call in calls], [BIG, BIG])
        self.assertEqual(self.reservations.bytes, 0)

    def test_nearly_full_disk(self) -> None:
        """Without space for a copy the bytes are read where they are stored."""
        self.free = self.limits.min_free_bytes + len(BIG) - 1
        slow = self.read_slowly("/game/saves/big")
        self.assertEqual((slow.raw[9:12], self.copies()), (b"200", 0))
        self.assertEqual(self.get("big").body, BIG)

    def test_many_copies(self) -> None:
        """Beyond the most copies of the process, saves are read where they are stored."""
        self.saves.saves.reads._most_copies = 1
        slow = [self.read_slowly("/game/saves/big") for _ in range(2)]
        self.assertEqual(self.copies(), 1)
        self.assertEqual(self.get("big").body, BIG)
        slow[0].leave()
        self.assertEqual(self.copies(), 0)
        another = self.read_slowly("/game/saves/big")
        self.assertEqual((another.raw[9:12], self.copies()), (b"200", 1))
        for call in (slow[1], another):
            call.leave()
        self.assertEqual(self.copies(), 0)

    def test_no_descriptor(self) -> None:
        """A process that can open no file any more still answers."""
        soft, hard = getrlimit(RLIMIT_NOFILE)
        most = max(int(name) for name in os.listdir("/proc/self/fd")) + 1
        setrlimit(RLIMIT_NOFILE, (most, hard))
        held: list[int] = []
        try:
            with contextlib.suppress(OSError):
                while True:
                    held.append(os.dup(1))
            answer = self.get("big")
        finally:
            setrlimit(RLIMIT_NOFILE, (soft, hard))
            for descriptor in held:
                os.close(descriptor)
        self.assertEqual((answer.status, answer.body == BIG), (200, True))

    def test_part_of_damaged_bytes(self) -> None:
        """A part is not sent if any other byte of the save is damaged."""
        self.damage("big", 1)
        for headers in (BYTE, {"Range": "bytes=-1"}):
            self.assert_problem(self.get("big", headers), 500, "corrupt_blob")
        self.assertEqual(self.get("small").status, 200)

    def test_deleted_elsewhere(self) -> None:
        """A part is complete after one transaction, because another process may delete the bytes right after it."""
        thread = self.stores.blobs.queue.thread
        run, runs = thread.run, []

        def deleting(work: Callable[..., T]) -> Deferred[T]:
            def delete(result: T) -> T:
                self.in_state(lambda connection: connection.execute("DELETE FROM blob_part") and None)
                return result

            runs.append(work)
            return run(work).addCallback(delete)

        thread.run = deleting  # type: ignore[method-assign]
        answer = self.get("big", {"Range": "bytes=262140-262149"})
        self.assertEqual((answer.status, answer.body, len(runs)), (206, BIG[262140:262150], 1))

    def test_replaced_elsewhere(self) -> None:
        """A part is read from the new version if another process begins to delete the old one before the read."""
        self.stores.blobs.queue.pause()
        call = self.browser.send("GET", "/game/saves/big", {**self.bearer, **BYTE})
        self.put("big", b"new", {"If-Match": tag(1, BIG)})
        self.in_state(
            lambda connection: connection.execute("UPDATE blob SET sha256 = NULL WHERE data IS NULL") and None
        )
        self.browser.watched(self.stores.blobs.queue.resume)
        self.assertEqual((call.answer.status, call.answer.body), (206, b"n"))

    def test_slow_client(self) -> None:
        """A client that reads slowly, but is never idle, cannot keep a copy for ever, whatever sets the clock."""
        for day_ms in (-DAY_MS, DAY_MS):
            slow = self.read_slowly("/game/saves/big")
            self.server.now_ms += day_ms
            self.clock.rightNow += READ_SECONDS - 1  # advance() would run the time-outs of idle connections
            slow.channel.flow.resumeProducing()
            self.assertEqual((slow.closed, self.copies()), (False, 1))
            self.clock.rightNow += 1
            slow.channel.flow.resumeProducing()
            self.assertEqual((slow.closed, self.copies()), (True, 0))
            self.assertLess(len(slow.raw), len(BIG))

    def test_disk_in_threads(self) -> None:
        """A copy is read in threads; it is closed only when none reads it, for its descriptor may be another file's."""
        self.late = []
        call = self.browser.send("GET", "/game/saves/big", self.bearer)
        self.assertEqual((len(self.late), call.answers), (1, []))
        call.leave()
        self.assertEqual(self.copies(), 1)
        self.run_late()
        self.assertEqual(self.copies(), 0)
        call = self.browser.send("GET", "/game/saves/big", self.bearer)
        self.run_late()
        self.assertEqual((call.answer.body, self.copies()), (BIG, 0))
