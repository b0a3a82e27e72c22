"""Uploads that fail leave nothing in memory or on disk (docs/protocol.md: Conditions and ranges)."""

import os
from collections.abc import Callable
from errno import EIO, ENOSPC
from sqlite3 import SQLITE_IOERR_FSYNC, OperationalError
from sqlite3 import Connection as Database
from typing import Any

from twisted.internet.defer import Deferred, fail
from twisted.python.failure import Failure

from gamed.database.databases import Databases
from gamed.database.errors import DiskFull
from gamed.saves.limits import INLINE_BYTES
from tests.saves.helpers import ABSENT, BIG, SaveCase, digest_of
from tests.sessions.fixtures import ANNA
from tests.support.covers import covers
from tests.support.databases import data_folder, file_databases
from tests.support.http import Connection, logged
from tests.support.stores import POSTGRESQL, sqlite_files

ONE = b"one"


class TornCase(SaveCase):
    """A test case that counts the files of failed uploads."""

    def begin(self, size: int, *, chunked: bool = False) -> Connection:
        framing = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {size}"
        head = f"PUT /game/saves/auto HTTP/1.1\r\nHost: game.example\r\n{framing}\r\n"
        return self.browser.connect().send(f"{head}Authorization: {self.bearer['Authorization']}\r\n\r\n".encode())

    def spools(self) -> int:
        """Return how many files under the folder for larger bodies are open, unlinked ones too."""
        links = [os.path.join("/proc/self/fd", name) for name in os.listdir("/proc/self/fd")]
        files = {os.readlink(link) for link in links if os.path.islink(link)}
        return sum(file.startswith(str(self.folder)) for file in files)

    def blobs(self) -> int:
        return self.in_state(lambda connection: int(connection.execute("SELECT count(*) FROM blob").fetchone()[0]))

    def assert_no_trace(self) -> None:
        self.assertEqual(
            (self.version_rows(), self.blobs(), self.spools(), list(self.folder.iterdir())), ([], 0, 0, [])
        )


@covers("threats/46")
class TornTest(TornCase):
    """Only a complete body has an effect."""

    def test_disconnect_during_the_body(self) -> None:
        """A connection that breaks before the last byte leaves nothing, in memory or on disk."""
        for size in (100, INLINE_BYTES * 3):
            connection = self.begin(size).send(bytes(range(1, 51)) * (size // 60))
            self.assertEqual(self.spools(), int(size > INLINE_BYTES))
            connection.leave()
            self.assert_no_trace()

    def test_broken_chunks(self) -> None:
        """A chunked body that ends in nonsense, or does not end."""
        broken = self.begin(0, chunked=True).send(b"40000\r\n" + b"x" * 0x40000 + b"\r\n4\r\nabcd\r\nnonsense\r\n")
        self.assert_problem(broken.answer, 400, "bad_request")
        self.assert_no_trace()
        torn = self.begin(0, chunked=True).send(b"3\r\none\r\n")
        torn.leave()
        self.assertEqual(torn.answers, [])
        self.assert_no_trace()

    def test_too_large_on_the_way(self) -> None:
        """A body that grows over the limit is discarded at once."""
        connection = self.begin(0, chunked=True)
        for _ in range(17):
            connection.send(b"100000\r\n" + b"x" * 0x100000 + b"\r\n")
        self.assert_problem(connection.answer, 413, "save_too_large")
        self.assert_no_trace()

    def test_wrong_digest(self) -> None:
        """Bytes that changed on the way leave nothing, also when they went by way of a file."""
        for data in (ONE, BIG):
            self.assert_problem(self.put("auto", data, {"Content-Digest": digest_of(b"other")}), 400, "digest_mismatch")
            self.assert_no_trace()
            self.assertEqual(self.put("auto", data, {"Content-Digest": digest_of(data), "If-Match": "*"}).status, 412)
            self.assert_no_trace()

    def test_refused_by_the_rules(self) -> None:
        """A larger body that no rule keeps is not even copied into the store."""
        self.assert_problem(self.put("auto", BIG, {"If-Match": "*"}), 412, "version_conflict")
        self.assert_problem(self.put("auto", bytes(len(BIG))), 422, "blank_save")
        self.assert_no_trace()

    def test_disconnect_during_authentication(self) -> None:
        """A client that disconnects while its token is checked uploads nothing."""
        self.stores.reads.pause()
        connection = self.begin(3).send(ONE)
        connection.leave()
        self.stores.reads.resume()
        self.assert_no_trace()

    def test_disconnect_before_the_response(self) -> None:
        """A whole body is stored though its client has left; shutdown waits for it."""
        for number, data in enumerate((ONE, BIG), 1):
            self.stores.state.pause()
            call = self.browser.send("PUT", f"/game/saves/s{number}", {**self.bearer, **ABSENT}, data)
            call.leave()
            waiting = self.tasks.drain()
            self.assertNoResult(waiting)
            self.stores.state.resume()
            self.successResultOf(waiting)
            self.assertEqual((len(self.version_rows()), self.get(f"s{number}").body, self.spools()), (number, data, 0))

    def test_folder_fails(self) -> None:
        """If the folder for larger bodies fails they get 507 and nothing is stored; small ones succeed."""
        self.folder.rmdir()
        self.assert_problem(self.put("auto", BIG), 507, "storage_full", "nothing was stored")
        self.assertEqual(self.put("auto", ONE).status, 201)
        self.folder.mkdir()

    def test_fails_at_the_end(self) -> None:
        """If the deciding transaction fails, larger bytes that were appended before are deleted."""
        self.crashes = True
        self.browser = self.browser_for(self.limits)
        refuse = "CREATE TRIGGER t BEFORE INSERT ON save_version BEGIN SELECT RAISE(ABORT, 'no'); END"
        if POSTGRESQL:
            refuse = "ALTER TABLE save_version ADD CONSTRAINT refused CHECK (size < 0) NOT VALID"
        self.in_state(lambda connection: connection.execute(refuse).rowcount)
        self.assertEqual(self.put("auto", BIG).status, 500)
        self.assert_no_trace()

    def test_lost_answer_of_a_large_body(self) -> None:
        """A large body sent again costs no second copy."""
        for status in (201, 200, 200):
            self.assertEqual(self.put("auto", BIG, ABSENT).status, status)
        self.assertEqual((self.blobs(), len(self.version_rows()), self.spools()), (1, 1, 0))

    def test_shared_bytes(self) -> None:
        """Bytes that another slot holds are shared; once it and they are gone they are stored anew."""
        self.put("a", BIG)
        self.in_state(lambda connection: connection.execute("UPDATE blob SET sha256 = NULL").rowcount)
        self.assertEqual(self.put("b", BIG).status, 201)
        self.assertEqual((self.blobs(), self.get("b").body == BIG), (2, True))

    def test_nothing_private_in_the_log(self) -> None:
        """No slot, token or byte of a save is logged, whatever becomes of the request."""
        self.put("my-secret-slot", b"my secret bytes")
        self.put("my-secret-slot", b"my secret bytes 2", {"Save-Meta": '{"secret":1}'})
        self.get("my-secret-slot", {"Range": "bytes=99-"})
        self.delete("my-secret-slot", {"If-Match": '"1-secret"'})
        logged = f"{self.browser.log.lines} {self.browser.events}"
        self.assertEqual({line["template"] for line in self.browser.log.lines}, {"/game/saves/{slot}"})
        for private in ("secret", self.bearer["Authorization"][7:], ANNA):
            self.assertNotIn(private, logged)


class FailingDiskTest(SaveCase):
    """A disk that reports an I/O error is not a full disk, and the log has a line about it."""

    @sqlite_files("an error code of SQLite")
    def test_store(self) -> None:
        """The log has one line, and the next one only after the store was written again."""

        def broken(connection: Database) -> None:
            error = OperationalError("disk I/O error")
            error.sqlite_errorcode, error.sqlite_errorname = SQLITE_IOERR_FSYNC, "SQLITE_IOERR_FSYNC"
            raise error

        def write(times: int) -> None:
            for _ in range(times):
                reason = self.failureResultOf(self.stores.state.submit(broken), DiskFull)
                self.assertIn("I/O error", str(reason.value))

        line = "disk_io_error queue=state code=SQLITE_IOERR_FSYNC"
        self.assertEqual(logged(lambda: write(3)), [line])
        self.assertEqual(logged(lambda: write(3)), [])
        self.put("auto", ONE)
        self.assertEqual(logged(lambda: write(3)), [line])

    def test_spool(self) -> None:
        """An I/O error of the folder for larger bodies."""
        seen = logged(
            lambda: self.assert_problem(self.put("auto", BIG), 507, "storage_full", "I/O error", "nothing was stored")
        )
        self.assertEqual([line for line in seen if "disk" in line], ["disk_io_error queue=uploads code=EIO"])

    def disk(self, work: Callable[[], None]) -> Deferred[None]:
        return fail(OSError(EIO, "Input/output error"))


@sqlite_files("a damaged file; tests.database.postgresql has PostgreSQL without the schema state")
class UnavailableTest(SaveCase):
    """A damaged state.db."""

    def make_stores(self) -> Databases:
        data = data_folder(self)
        (data / "state.db").write_bytes(b"nonsense" * 1024)
        return file_databases(self, data=data)

    def test_everything_of_saves(self) -> None:
        """503 on every route of saves."""
        reads = [("GET", ""), ("GET", "saves"), ("GET", "saves/a"), ("GET", "saves/a/versions")]
        for method, path in [*reads, ("PUT", "saves/a"), ("DELETE", "saves/a")]:
            answer = self.ask(method, f"/game/{path}", {"If-Match": "*"}, ONE if method == "PUT" else b"")
            self.assert_problem(answer, 503, "store_unavailable", "owner")
            self.assertIn("retry-after", answer.headers)


class SlowDiskTest(TornCase):
    """A slow disk delays the client, not the reactor."""

    def setUp(self) -> None:
        self.waiting: list[tuple[Deferred[Any], Callable[[], Any]]] = []
        super().setUp()

    def disk(self, work: Callable[[], Any]) -> Deferred[Any]:
        self.waiting.append((Deferred(), work))
        return self.waiting[-1][0]

    def work(self, error: OSError | None = None) -> None:
        """Complete the first pending work of the disk, or let it fail."""
        done, work = self.waiting.pop(0)
        if error is not None:
            done.errback(Failure(error))
            return
        done.callback(work())

    def feed(self, connection: Connection, data: bytes) -> int:
        """Send as long as the server reads; return how much it read."""
        sent = 0
        while sent < len(data) and connection.transport.producerState == "producing":
            connection.send(data[sent : sent + 65536])
            sent += 65536
        return sent

    def test_the_client_waits(self) -> None:
        """Little is held in memory while the disk is busy; in the end every byte is there."""
        connection = self.begin(len(BIG))
        connection.transport.producerState = "producing"
        sent = 0
        for _ in range(20):
            sent += self.feed(connection, BIG[sent:])
            if not self.waiting:
                break
            self.assertEqual(len(self.waiting), 1)
            self.work()
        while self.waiting:
            self.work()
        self.assertEqual(connection.answer.status, 201)
        reading = self.browser.send("GET", "/game/saves/auto", self.bearer)
        self.assertEqual(reading.answers, [])
        while self.waiting:
            self.work()
        self.assertEqual((reading.answer.body, self.spools()), (BIG, 0))

    def test_disconnect(self) -> None:
        """A client that leaves while its bytes are on the way to the disk leaves nothing there."""
        connection = self.begin(len(BIG)).send(BIG[:300_000])
        connection.leave()
        while self.waiting:
            self.work()
        self.assert_no_trace()

    def test_full_meanwhile(self) -> None:
        """A disk that is full in the middle, or at the end: 507, and nothing is left."""
        for size in (300_000, len(BIG)):
            connection = self.begin(len(BIG))
            connection.transport.producerState = "producing"
            connection.send(BIG[:size])
            self.work(OSError(ENOSPC, "No space left on device"))
            if size < len(BIG):
                connection.send(BIG[size:])
            self.assert_problem(connection.answer, 507, "storage_full", "Try again later")
            while self.waiting:
                self.work()
            self.assert_no_trace()
