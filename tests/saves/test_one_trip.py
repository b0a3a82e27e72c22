"""Small writes that authenticate their token in their own transaction, and answer as those that do it before the body.

The cases of other modules run here again: with a service that keeps no recent tokens, and with one that knows each
token from the beginning.
"""

import gc
import re
from collections.abc import Callable
from errno import EIO
from functools import partial
from sqlite3 import OperationalError
from time import monotonic
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import capturedLogs, formatEvent

from gamed.config.game import SaveLimits
from gamed.database.connection import AUTH, STATE, Connection
from gamed.database.databases import Databases
from gamed.database.sqlite.files import PAGE_BYTES, READER_BUSY_MS, AuthReader, StateConnection, connect
from gamed.players import tables as player_tables
from gamed.saves import erase_store
from gamed.saves.limits import LATE_MS, MAX_UPLOADS, ONE_TRIP_BYTES, ONE_TRIP_TOTAL
from gamed.saves.model import EMPTY_CURSOR
from gamed.saves.tables import create_player, find_player
from gamed.saves.uploads import UploadBody
from gamed.sessions import tables as session_tables
from gamed.sessions.recent import PAUSE_MS, RECENT_MS
from tests.saves import (
    test_admission,
    test_concurrent_writes,
    test_erase,
    test_every_code,
    test_malformed_requests,
    test_uploads,
    test_versions,
    test_writing,
)
from tests.saves.helpers import ABSENT, KIB, MIB, PRESENT, SaveCase, digest_of, tag
from tests.sessions.fixtures import ANNA, BERT, DAY_MS, STRANGE_TOKEN
from tests.sessions.server import text
from tests.support import http
from tests.support.databases import elsewhere, file_databases, hold
from tests.support.stores import POSTGRESQL, sqlite_files

MODULES = (
    test_admission,
    test_concurrent_writes,
    test_erase,
    test_every_code,
    test_malformed_requests,
    test_uploads,
    test_versions,
    test_writing,
)
ONE, TWO = b"one", b"two"
DIGEST_OF_ONE = f"Content-Digest: {digest_of(ONE)}\r\n"
LEAVES = (0x0A, 0x0D)
"""The first bytes of the leaves of SQLite's indexes and tables."""
CHANGING = re.compile(rb'X-Request-Id: \w+\r\n|"request_id":"\w+"')


def _test_way(case: SaveCase) -> None:
    """Take the way of this class."""
    before = case.stores.reads.transactions, case.stores.state.transactions
    case.browser.request("PUT", "/game/saves/way", {**case.bearer, **ABSENT}, b"way")
    reads, writes = case.stores.reads.transactions - before[0], case.stores.state.transactions - before[1]
    case.assertEqual((reads, writes), (0 if case.known else 1, 1))


def _test_first_use(case: Any) -> None:
    """A token whose first use is written down needs no write of auth.db."""
    case.stores.auth.pause()
    call = case.browser.send("PUT", "/game/saves/auto", case.bearer, ONE)
    case.assertEqual(call.answer.status, 201)
    case.stores.auth.resume()


def _test_disconnect(case: Any) -> None:
    """A whole body is stored though its client has left: nothing is read before."""
    case.stores.reads.pause()
    connection = case.begin(3).send(ONE)
    connection.leave()
    case.stores.reads.resume()
    case.assertEqual((len(case.version_rows()), case.get("auto").body), (1, ONE))


IN_ONE_TRIP = {"test_first_use": _test_first_use, "test_disconnect_during_authentication": _test_disconnect}
"""Tests of the cases that end otherwise in one trip."""


def _both_ways(case: type[SaveCase]) -> dict[str, type[SaveCase]]:
    values: dict[str, object] = {"__module__": __name__}
    if case is not test_uploads.UnavailableTest:  # it can write nothing
        values["test_way"] = _test_way
    one_trip = {name: test for name, test in IN_ONE_TRIP.items() if hasattr(case, name)}
    made = (("InTwoTrips", {"recent_tokens": 0}), ("InOneTrip", {"known": True, **one_trip}))
    return {f"{case.__name__}{way}": type(f"{case.__name__}{way}", (case,), values | way_of) for way, way_of in made}


for _module in MODULES:
    for _case in list(vars(_module).values()):
        if isinstance(_case, type) and issubclass(_case, SaveCase) and _case.__module__ == _module.__name__:
            globals().update(_both_ways(_case))
del _case


class OneTripCase(SaveCase):
    """Anna's token is known."""

    known = True

    def make_stores(self) -> Databases:
        return file_databases(self, now_ms=lambda: self.server.now_ms)

    @property
    def held(self) -> int:
        """Return the bytes of the bodies whose token is not authenticated yet."""
        return self.saves.save_routes.write_policy.admission.one_trip.bytes

    def trips(self, work: Callable[[], object]) -> tuple[int, int, int]:
        """Return how many transactions of the read queue, auth.db and state.db some work needs."""
        queues = self.stores.reads, self.stores.auth, self.stores.state
        before = [queue.transactions for queue in queues]
        work()
        reads, auth, state = (queue.transactions - old for queue, old in zip(queues, before, strict=True))
        return reads, auth, state

    def put_ok(self, slot: str, data: bytes) -> None:
        self.assertEqual(self.put(slot, data, ABSENT).status, 201)

    def begin(self, size: int, slot: str = "auto", fields: str = "") -> http.Connection:
        """Send the head of a PUT, and the first byte of its body."""
        head = f"PUT /game/saves/{slot} HTTP/1.1\r\nHost: game.example\r\nContent-Length: {size}\r\n"
        return self.browser.connect().send(
            f"{head}{fields}Authorization: {self.bearer['Authorization']}\r\n\r\nx".encode()
        )

    def revoke(self) -> None:
        """End Anna's sessions, and return when that is committed."""
        revoke = lambda c: session_tables.revoke_all(c, ANNA, self.server.now_ms)  # noqa: E731
        self.assertEqual(self.successResultOf(self.stores.auth.submit(revoke)), 1)


class WayTest(OneTripCase):
    """Which writes need one transaction."""

    def test_one_transaction(self) -> None:
        """A small write with a known token needs one transaction of state.db, and none of the read queue."""
        self.assertEqual(self.trips(lambda: self.put_ok("new", ONE)), (0, 0, 1))
        self.assertEqual(self.trips(lambda: self.put_ok("other", b"x" * ONE_TRIP_BYTES)), (0, 0, 1))
        self.assertEqual(self.get("new").body, ONE)
        self.assertEqual(self.held, 0)

    def test_two_transactions(self) -> None:
        """Larger and chunked bodies, and those with Expect, authenticate first."""
        self.assertEqual(self.trips(lambda: self.put_ok("large", b"x" * (ONE_TRIP_BYTES + 1))), (1, 0, 1))
        head = f"Host: game.example\r\nAuthorization: {self.bearer['Authorization']}\r\n"
        for number, (fields, body) in enumerate(
            (("Transfer-Encoding: chunked", "1\r\nx\r\n0\r\n\r\n"), ("Content-Length: 1\r\nExpect: 100-continue", "x"))
        ):
            request = f"PUT /game/saves/s{number} HTTP/1.1\r\n{head}{fields}\r\n\r\n{body}".encode()
            connection = self.browser.connect()
            self.assertEqual(self.trips(lambda c=connection, r=request: c.send(r)), (1, 0, 1))  # type: ignore[misc]
            self.assertEqual(connection.answers[-1].status, 201)

    def test_without_a_body(self) -> None:
        """A delete, a restore of small bytes and a dismissal need one transaction, too."""
        self.put_ok("auto", ONE)
        self.put_ok("large", b"x" * (ONE_TRIP_BYTES + 1))
        self.assert_problem(self.put("auto", TWO, {"If-Match": tag(1, TWO)}), 412, "version_conflict")
        path = "/game/saves/auto/versions/2"
        self.assertEqual(self.trips(lambda: self.assertEqual(self.ask("DELETE", path).status, 204)), (0, 0, 1))
        self.assertEqual(self.trips(lambda: self.assertEqual(self.delete("auto", PRESENT).status, 204)), (0, 0, 1))
        restore = lambda slot, how: self.ask("POST", f"/game/saves/{slot}/versions/1/restore", how)  # noqa: E731
        self.assertEqual(self.trips(lambda: self.assertEqual(restore("auto", ABSENT).status, 200)), (0, 0, 1))
        self.assertEqual(self.get("auto").body, ONE)
        trips = self.trips(lambda: self.assertEqual(restore("large", PRESENT).status, 200))
        self.assertEqual((trips[0] > 0, trips[1], trips[2]), (True, 0, 2))  # its bytes are hashed elsewhere
        self.assertEqual(self.trips(lambda: self.assertEqual(self.delete("large", PRESENT).status, 204)), (0, 0, 1))

    def test_until_forgotten(self) -> None:
        """A token is known from its first write until some minutes after its last one."""
        self.bearer = {**self.bearer}
        _, pair = self.successResultOf(self.server.open())
        self.bearer = {"Authorization": f"Bearer {text(pair.access)}"}
        self.assertEqual(self.trips(lambda: self.put_ok("first", ONE)), (1, 1, 1))
        for number in range(3):
            self.server.now_ms += RECENT_MS - 1
            self.assertEqual(self.trips(lambda n=number: self.put_ok(f"s{n}", ONE)), (0, 0, 1))  # type: ignore[misc]
            if number == 1:  # the token lives for 15 minutes
                break
        self.server.now_ms += RECENT_MS
        self.assertEqual(self.trips(lambda: self.put("late", ONE))[0], 1)

    def test_first_use(self) -> None:
        """A token whose first use is not recorded changes nothing in that transaction; it is recorded first."""
        self.successResultOf(self.server.databases.auth.submit(_unused))
        self.assertEqual(self.trips(lambda: self.put_ok("auto2", ONE)), (1, 1, 2))
        self.assertEqual(self.successResultOf(self.server.rows("SELECT used FROM session")), [(1,)])
        self.assertEqual(self.trips(lambda: self.put_ok("auto3", ONE)), (0, 0, 1))

    def test_epoch(self) -> None:
        """After each write the epoch is known that its transaction found or drew."""
        known = lambda: [each.epoch for each in self.server.sessions.recent._sessions.values()]  # noqa: E731
        self.assert_problem(self.put("auto", ONE, {"If-Match": tag(1, ONE)}), 412, "version_conflict")
        self.assertEqual(known(), [EMPTY_CURSOR.epoch])
        for slot in ("auto", "other"):
            self.put_ok(slot, ONE)
            self.assertEqual(known(), [self.in_state(lambda c: find_player(c, ANNA)).cursor.epoch])
        self.assertNotEqual(known(), [EMPTY_CURSOR.epoch])

    def test_wrong_tokens(self) -> None:
        """Tokens that were never valid need no transaction of state.db, hold no memory, and are not kept."""
        wrong = {"Authorization": f"Bearer {text(STRANGE_TOKEN)}"}
        known = len(self.server.sessions.recent)
        trips = self.trips(lambda: [self.browser.request("PUT", "/game/saves/a", wrong, ONE) for _ in range(200)])
        self.assertEqual((trips, self.held, len(self.server.sessions.recent)), ((200, 0, 0), 0, known))

    def test_bad_bytes(self) -> None:
        """Bytes that cannot be stored are refused after the token was authenticated."""
        self.assert_problem(self.put("auto", b"\0"), 422, "blank_save")
        self.assert_problem(self.put("auto", ONE, {"Content-Digest": digest_of(TWO)}), 400, "digest_mismatch")
        connection = self.begin(2)
        self.revoke()
        self.assert_problem(connection.send(b"\0").answer, 401, "session_revoked")


class MemoryTest(OneTripCase):
    """The bytes of bodies that wait for the transaction."""

    limits = SaveLimits(bytes=32 * MIB, slots=1000)

    def test_given_back(self) -> None:
        """A connection that closes while its body arrives gives its bytes back, and so does each answer."""
        connections = [self.begin(ONE_TRIP_BYTES) for _ in range(4)]
        self.assertEqual((self.held, self.reservations.bytes), (4 * ONE_TRIP_BYTES, 4 * ONE_TRIP_BYTES))
        for connection in connections:
            connection.leave()
        self.assertEqual((self.held, self.reservations.bytes), (0, 0))
        self.stores.state.pause()
        calls = [self.browser.send("PUT", f"/game/saves/s{n}", self.bearer, b"x" * KIB) for n in range(8)]
        calls[0].leave()
        self.assertEqual(self.held, 8 * KIB)
        self.stores.state.resume()
        self.assertEqual([call.answer.status for call in calls[1:]], [201] * 7)
        self.assertEqual((self.held, self.reservations.bytes, len(self.version_rows())), (0, 0, 8))

    def test_once(self) -> None:
        """A body that waits for its transaction is in memory once."""
        gc.collect()  # the bodies of earlier tests
        self.stores.state.pause()
        call = self.browser.send("PUT", "/game/saves/auto", self.bearer, b"x" * ONE_TRIP_BYTES)
        [upload] = [each for each in gc.get_objects() if type(each) is UploadBody and each._bodies is not None]
        self.assertEqual((self.held, len(upload._held)), (ONE_TRIP_BYTES, 0))
        self.stores.state.resume()
        self.assertEqual(call.answer.status, 201)
        self.assertEqual(self.get("auto").body, b"x" * ONE_TRIP_BYTES)

    def test_not_more(self) -> None:
        """With 16 MiB of such bodies, further ones authenticate first, and are stored."""
        self.stores.state.pause()
        count = ONE_TRIP_TOTAL // ONE_TRIP_BYTES
        body = b"x" * ONE_TRIP_BYTES
        calls = [self.browser.send("PUT", f"/game/saves/s{n}", self.bearer, body) for n in range(count)]
        self.assertEqual(self.held, ONE_TRIP_TOTAL)
        trips = self.trips(lambda: calls.append(self.browser.send("PUT", "/game/saves/more", self.bearer, ONE)))
        self.assertEqual((trips[0], self.held), (1, ONE_TRIP_TOTAL))
        self.stores.state.resume()
        self.assertEqual({call.answer.status for call in calls}, {201})
        self.assertEqual(self.held, 0)


class RefusedTest(OneTripCase):
    """Heads that are refused hold no bytes, whatever the reason."""

    crashes = True

    def assert_nothing_held(self) -> None:
        self.assertEqual((self.held, self.reservations.bytes), (0, 0))

    def test_full_disk(self) -> None:
        """A disk that is nearly full."""
        self.free = 0
        self.assert_problem(self.put("auto", ONE), 507, "storage_full")
        self.assert_nothing_held()

    def test_uploads(self) -> None:
        """Too many uploads."""
        uploads = [self.begin(2) for _ in range(MAX_UPLOADS)]
        self.assert_problem(self.put("auto", ONE), 429, "rate_limited")
        self.assertEqual(self.held, 2 * MAX_UPLOADS)
        for upload in uploads:
            upload.leave()
        self.assert_nothing_held()

    def test_rate(self) -> None:
        """Too many writes."""
        self.writes_per_minute = 2
        self.browser = self.browser_for(SaveLimits())
        self.put_ok("auto", ONE)
        self.assert_problem(self.put("auto", TWO, {"If-Match": "*"}), 429, "rate_limited")
        self.assert_nothing_held()

    def test_failing_disk(self) -> None:
        """A disk that does not tell its free space."""

        def failing() -> tuple[int, int, int]:
            raise OSError(EIO, "Input/output error")

        working, self.reservations._disk_usage = self.reservations._disk_usage, failing
        for _ in range(3):
            self.assertEqual(self.put("auto", ONE).status, 500)
        self.assert_nothing_held()
        self.reservations._disk_usage = working
        self.assertEqual(self.trips(lambda: self.put_ok("auto", ONE)), (0, 0, 1))


class RevocationTest(OneTripCase):
    """A session that ends while a write is under way (docs/protocol.md: Sessions)."""

    def test_before_the_batch(self) -> None:
        """A revocation that was acknowledged before the transaction began refuses the write."""
        self.stores.state.pause()
        call = self.browser.send("PUT", "/game/saves/auto", self.bearer, ONE)
        self.revoke()
        self.stores.state.resume()
        self.assert_problem(call.answer, 401, "session_revoked")
        self.assertEqual((self.version_rows(), self.held), ([], 0))

    def test_delete_before_the_batch(self) -> None:
        """Nor does a delete happen after it."""
        self.put_ok("auto", ONE)
        self.stores.state.pause()
        call = self.browser.send("DELETE", "/game/saves/auto", {**self.bearer, **PRESENT})
        self.revoke()
        self.stores.state.resume()
        self.assert_problem(call.answer, 401, "session_revoked")
        self.assertEqual(len(self.version_rows()), 1)

    def test_during_the_batch(self) -> None:
        """One that is acknowledged while the batch runs comes after it: the write is stored, the next one refused."""

        def revoke(connection: Connection) -> None:
            connection.rows(
                "SELECT 1"
            )  # PostgreSQL sends the statements of both at once; the token is read before this
            statement = f"UPDATE session SET revoked_ms = 1 WHERE player_id = '{ANNA}'"
            elsewhere(self.stores.auth, statement)

        self.stores.state.pause()
        call = self.browser.send("PUT", "/game/saves/auto", self.bearer, ONE)
        revoked = self.stores.state.submit(revoke, keys=(BERT,))
        self.stores.state.resume()
        self.successResultOf(revoked)
        self.assertEqual(call.answer.status, 201)
        self.assert_problem(self.put("auto", TWO, {"If-Match": "*"}), 401, "session_revoked")
        self.assertEqual(self.get("auto").status, 401)

    def test_blocked_and_expired(self) -> None:
        """The transaction refuses a player who was blocked, and a token that expired before its request."""
        block = lambda state: lambda c: player_tables.set_state(c, ANNA, state)  # noqa: E731
        self.successResultOf(self.stores.auth.submit(block("blocked")))
        self.assert_problem(self.put("auto", ONE), 403, "player_blocked")
        self.successResultOf(self.stores.auth.submit(block("active")))
        self.put_ok("auto2", ONE)
        connection = self.begin(2)
        self.server.now_ms += DAY_MS
        self.assertEqual(connection.send(b"y").answer.status, 201)
        self.assert_problem(self.put("auto", ONE), 401, "token_expired")
        self.assertEqual(len(self.version_rows()), 2)

    def test_rotated(self) -> None:
        """After a refresh the transaction takes a known token until it expires, as the read does."""
        _, pair = self.successResultOf(self.server.open(BERT))
        self.make_known(pair.access)
        self.bearer = {"Authorization": f"Bearer {text(pair.access)}"}
        refresh = Deferred.fromCoroutine(self.server.sessions.refresh(text(pair.refresh)))
        successor = {"Authorization": f"Bearer {self.successResultOf(refresh)['access_token']}"}
        self.assertEqual(self.trips(lambda: self.put_ok("a", ONE)), (0, 0, 1))
        mine, self.bearer = self.bearer, successor
        self.put_ok("b", ONE)
        self.bearer = mine
        self.put_ok("c", ONE)
        self.server.now_ms += DAY_MS
        self.assert_problem(self.put("d", ONE), 401, "token_expired")

    def test_expired_meanwhile(self) -> None:
        """Nor does the read refuse it that replaces the transaction."""
        call = self.begin(2, fields=DIGEST_OF_ONE)
        self.server.now_ms += DAY_MS
        self.assert_problem(call.send(b"y").answer, 400, "digest_mismatch")


@sqlite_files("damaged files; PostgreSQL's server reads its own pages")
class DamagedAuthTest(OneTripCase):
    """auth.db is damaged while the service runs: each write of state.db that does not need the damaged page works."""

    def setUp(self) -> None:
        super().setUp()
        anna, _ = self.bearer, [self.sign_in(f"ply_{n:022d}") for n in range(300)]
        self.others, self.bearer = self.sign_in(BERT), anna
        self.put_ok("auto", ONE)
        self.path = self.stores.auth._database.path
        assert self.path is not None
        elsewhere(self.stores.auth, "PRAGMA wal_checkpoint(TRUNCATE)")

    def session_of(self, player_id: str) -> bytes:
        query = f"SELECT session_id FROM session WHERE player_id = '{player_id}'"
        [(session,)] = self.successResultOf(self.server.rows(query))
        return str(session).encode()

    def spoil(self) -> None:
        """Overwrite all leaves with Anna's session but not Bert's, and forget what the connections have read."""
        content, spoiled = bytearray(self.path.read_bytes()), 0
        hers, his = self.session_of(ANNA), self.session_of(BERT)
        for at in range(PAGE_BYTES, len(content), PAGE_BYTES):
            page = content[at : at + PAGE_BYTES]
            if page[0] in LEAVES and hers in page and his not in page:
                content[at + 8 : at + PAGE_BYTES] = b"\xa5" * (PAGE_BYTES - 8)
                spoiled += 1
        self.assertGreater(spoiled, 0)
        self.path.write_bytes(content)
        for thread in (self.stores.reads.thread, self.stores.state.thread, self.stores.auth.thread):
            thread.reopen()

    def assert_one_fails(self) -> None:
        """Send a write of Anna and one of Bert in one batch; only hers meets the damage."""
        self.stores.state.pause()
        hers = self.browser.send("PUT", "/game/saves/auto", {**self.bearer, "If-Match": "*"}, TWO)
        his = self.browser.send("PUT", "/game/saves/auto", self.others, TWO)
        plain = self.stores.state.submit(lambda connection: 7)
        self.stores.state.resume()
        self.assertEqual(self.successResultOf(plain), 7)
        self.assertEqual(his.answer.status, 201)
        self.assert_problem(hers.answer, 503, "store_unavailable")

    def test_a_damaged_page(self) -> None:
        """A write whose token is on a damaged page gets the answer of a read; the others of its batch are stored."""
        self.spoil()
        self.assert_one_fails()
        self.assertIsNone(self.stores.state._database.unavailable_as)
        self.assertEqual(self.stores.damaged(), {AUTH})
        mine, self.bearer = self.bearer, self.others
        self.server.now_ms += PAUSE_MS
        self.assertEqual(self.trips(lambda: self.put_ok("more", ONE)), (0, 0, 1))
        self.bearer = mine
        self.assert_problem(self.put("auto", TWO, {"If-Match": "*"}), 503, "store_unavailable")
        self.assertEqual((self.held, self.reservations.bytes), (0, 0))

    def test_the_first_page(self) -> None:
        """With a damaged first page, each write gets the answer of a read, and state.db can still be written."""
        content = bytearray(self.path.read_bytes())
        content[:100] = b"\xa5" * 100
        self.path.write_bytes(content)
        self.stores.state.thread.reopen()
        self.stores.state.pause()
        hers = self.browser.send("PUT", "/game/saves/auto", {**self.bearer, "If-Match": "*"}, TWO)
        plain = self.stores.state.submit(_pruned)
        self.stores.state.resume()
        self.assertIsNone(self.successResultOf(plain))
        self.assert_problem(hers.answer, 503, "store_unavailable")
        self.assertIsNone(self.stores.state._database.unavailable_as)

    def test_an_error_of_the_disk(self) -> None:
        """An I/O error of auth.db fails no other transaction, and the write takes the other way."""
        connection = self.stores.state.thread.pool.connect()
        assert isinstance(connection, StateConnection)
        connection._reader = reader = _FailingOnce()
        self.stores.state.pause()
        hers = self.browser.send("PUT", "/game/saves/auto", {**self.bearer, "If-Match": "*"}, TWO)
        plain = self.stores.state.submit(_pruned)
        self.stores.state.resume()
        self.successResultOf(plain)
        self.assertEqual((hers.answer.status, reader.failed), (200, 1))
        self.assertEqual(self.stores.damaged(), frozenset())

    def test_a_new_connection(self) -> None:
        """The connection to auth.db is not used again after an error, nor if its snapshot does not end."""
        connection = self.stores.state.thread.pool.connect()
        assert isinstance(connection, StateConnection)
        failing, self.bearer = (lambda c: c.auth.execute("SELECT nothing")), self.others
        self.failureResultOf(self.stores.state.submit(failing), OperationalError)
        self.assertIsNone(connection._reader)
        self.put_ok("auto", ONE)
        first = connection._reader
        assert first is not None
        self.assertEqual(first.rows("PRAGMA busy_timeout"), [(READER_BUSY_MS,)])
        self.put_ok("more", ONE)
        self.assertIs(connection._reader, first)
        endless = connect(connection.auth_uri, _Endless)
        assert isinstance(endless, _Endless)
        connection._reader = endless
        self.assertEqual(self.put("auto", TWO, {"If-Match": "*"}).status, 200)
        self.assertEqual((endless.ends, connection._reader), (1, None))
        revoke = lambda c: session_tables.revoke_all(c, BERT, self.server.now_ms)  # noqa: E731
        self.assertEqual(self.successResultOf(self.stores.auth.submit(revoke)), 1)
        self.assert_problem(self.put("auto", ONE, {"If-Match": "*"}), 401, "session_revoked")


class UnreadableAuthTest(OneTripCase):
    """Sessions that no statement can read, for a reason that is not a damaged page."""

    crashes = True

    def test_others_are_stored(self) -> None:
        """Only the writes that need a session fail; the others of their batch are committed, and further ones."""
        self.put_ok("auto", ONE)
        elsewhere(self.stores.auth, "ALTER TABLE credential RENAME TO credential_moved")
        for _ in range(2):
            self.server.now_ms += PAUSE_MS
            self.stores.state.pause()
            hers = self.browser.send("PUT", "/game/saves/auto", {**self.bearer, "If-Match": "*"}, TWO)
            plain = self.stores.state.submit(partial(create_player, player_id=BERT, epoch="berts"), keys=(BERT,))
            self.stores.state.resume()
            self.successResultOf(plain)
            self.assertEqual(self.in_state(lambda c: find_player(c, BERT)).cursor.epoch, "berts")
            self.assertEqual(hers.answer.status, 503 if POSTGRESQL else 500)
        self.assertNotIn(STATE, self.stores.damaged())
        elsewhere(self.stores.auth, "ALTER TABLE credential_moved RENAME TO credential")
        self.assertEqual(self.put("auto", TWO, {"If-Match": "*"}).status, 200)

    def test_pause(self) -> None:
        """After such an error writes authenticate first, for some seconds; it is logged once until one succeeds."""
        self.put_ok("auto", ONE)
        for logged in (1, 0):
            elsewhere(self.stores.auth, "ALTER TABLE credential RENAME TO credential_moved")
            with capturedLogs() as events:
                self.assertEqual(self.trips(lambda: self.put("auto", TWO))[2], 1)
                self.assertEqual(self.trips(lambda: self.put("auto", TWO)), (1, 0, 0))
            lines = [line for line in map(str, map(formatEvent, events)) if "sessions_unread" in line]
            self.assertEqual(lines, [f"sessions_unread code={'42P01' if POSTGRESQL else 'SQLITE_ERROR'}"] * logged)
            elsewhere(self.stores.auth, "ALTER TABLE credential_moved RENAME TO credential")
            self.assertEqual(self.trips(lambda: self.put("auto", ONE, {"If-Match": "*"})), (1, 0, 1))
            self.server.now_ms += PAUSE_MS
        self.assertEqual(self.trips(lambda: self.put_ok("other", ONE)), (0, 0, 1))
        self.assertIsNone(self.server.sessions.recent._paused_ms)


class SharedRateTest(OneTripCase):
    """The limit of all processes together, whose changes this one learns of when its transactions read them."""

    writes_per_minute = 20
    limits = SaveLimits(slots=1000)

    def setUp(self) -> None:
        super().setUp()
        others, bearer = self.browser_for(self.limits), self.sign_in(ANNA)
        self.browser = self.browser_for(self.limits)
        for number in range(10):
            call = others.send("PUT", f"/game/saves/b{number}", {**bearer, **ABSENT}, ONE)
            self.assertEqual(call.answer.status, 201)

    def test_slow_bodies(self) -> None:
        """Slow bodies are stored only until the first transaction has shown this process the full bucket."""
        statuses = []
        for number in range(8):
            call = self.begin(2, f"s{number}")
            self.server.now_ms += LATE_MS + 1
            statuses.append((call if call.answers else call.send(b"y")).answer.status)
        # The bucket has room for one more after three seconds; two trips would have refused the first one, too.
        self.assertEqual(statuses, [201, 429, 429, 201, 429, 429, 201, 429])

    def test_fast_bodies(self) -> None:
        """A body that comes at once is refused by its own transaction."""
        self.assert_problem(self.put("s", ONE, ABSENT), 429, "rate_limited")

    def test_the_read_instead(self) -> None:
        """A slow body whose transaction could not read the session is stored as well."""
        call = self.begin(2, "s")
        self.server.now_ms += LATE_MS + 1
        self.stores.reads.pause()
        elsewhere(self.stores.auth, "ALTER TABLE credential RENAME TO credential_moved")
        call.send(b"y")
        elsewhere(self.stores.auth, "ALTER TABLE credential_moved RENAME TO credential")
        self.stores.reads.resume()
        self.assertEqual(call.answer.status, 201)


class BusyTest(OneTripCase):
    """Another process does not end its write."""

    def test_one_wait(self) -> None:
        """The first batch waits for its turn once, those behind it fail with it, and no write is submitted again."""
        self.put_ok("auto", ONE)
        patience = "SET lock_timeout = 300" if POSTGRESQL else "PRAGMA busy_timeout = 300"
        self.successResultOf(self.stores.state.between_batches(lambda connection: connection.rows(patience)))
        self.stores.state.batch_items = 2
        release = hold(self.stores.state)
        self.stores.state.pause()
        calls = [self.browser.send("PUT", f"/game/saves/s{n}", self.bearer, ONE) for n in range(4)]
        began = monotonic()
        self.assertEqual(self.trips(self.stores.state.resume), (4, 0, 2))
        self.assertLess(monotonic() - began, 0.6)
        for call in calls:
            self.assert_problem(call.answer, 503, "busy")
        release()
        self.put_ok("s1", ONE)
        self.assertEqual((len(self.version_rows()), self.held), (2, 0))


class ErasedElsewhereTest(OneTripCase):
    """Another process erases a player's saves."""

    def erase(self, at_ms: int) -> None:
        begin = lambda c: erase_store.begin_erase(c, ANNA, "half", at_ms)  # noqa: E731
        self.successResultOf(self.stores.state.submit(begin))
        while self.in_state(lambda c: erase_store.erase_step(c, ANNA, "last", lambda: self.server.now_ms)):
            pass

    def test_before_the_request(self) -> None:
        """A write after the erase is a first one, by the same way; also in the same millisecond."""
        self.put_ok("auto", ONE)
        self.erase(self.server.now_ms)
        self.assertEqual(self.trips(lambda: self.put_ok("auto", TWO)), (0, 0, 1))

    def test_a_clock_behind(self) -> None:
        """A write that takes long is refused though that process's clock is behind; one that does not is stored."""
        self.put_ok("auto", ONE)
        call = self.begin(2)
        self.erase(self.server.now_ms - 20_000)
        self.server.now_ms += 10_000
        self.assert_problem(call.send(b"y").answer, 410, "erased")
        self.put_ok("auto", TWO)
        self.erase(self.server.now_ms - 20_000)
        self.put_ok("auto", ONE)

    def test_a_clock_ahead(self) -> None:
        """If that process's clock is ahead, one write is refused as if it had begun before; the next one is stored."""
        self.put_ok("auto", ONE)
        self.erase(self.server.now_ms + 5000)
        self.assert_problem(self.put("auto", TWO, ABSENT), 410, "erased")
        self.put_ok("auto", TWO)


class ErasedMeanwhileTest(OneTripCase):
    """Writes that begin before or during an erase, while the clock goes on, are refused, however late their body ends.

    The sessions are known again after each request that reads them, as by requests of other devices.
    """

    def setUp(self) -> None:
        super().setUp()
        self.put_ok("auto", ONE)

    def begin_erase(self) -> None:
        """Begin an erase as another process does."""
        self.server.now_ms += 1
        self.in_state(lambda c: erase_store.begin_erase(c, ANNA, f"half{self.server.now_ms}", self.server.now_ms))
        self.server.now_ms += 2

    def end_erase(self) -> None:
        self.server.now_ms += 1
        now_ms = self.server.now_ms
        while self.in_state(lambda c: erase_store.erase_step(c, ANNA, f"last{now_ms}", lambda: now_ms)):
            pass
        self.server.now_ms += 1

    def assert_erased(self, call: http.Connection) -> None:
        self.assert_problem(call.answer, 410, "erased")
        self.assertEqual((self.version_rows(), self.held), ([], 0))
        self.server.now_ms += 1
        self.put_ok("auto", TWO)

    def test_before(self) -> None:
        """A write whose head came before the erase."""
        call = self.begin(2)
        self.begin_erase()
        self.end_erase()
        self.assert_erased(call.send(b"y"))

    def test_during(self) -> None:
        """A write whose head came while the rows were deleted."""
        self.begin_erase()
        call = self.begin(2)
        self.end_erase()
        self.assert_erased(call.send(b"y"))

    def test_whole_during(self) -> None:
        """A write that came while the rows were deleted, and whose transaction ran before the end."""
        self.begin_erase()
        call = self.begin(2).send(b"y")
        self.end_erase()
        self.assert_erased(call)

    def test_not_known_meanwhile(self) -> None:
        """A write during an erase lets no session be known, by the epoch that changes once more."""
        self.begin_erase()
        for _ in range(2):
            self.assert_problem(self.put("auto", TWO, {"If-Match": "*"}), 410, "erased")
        self.assertEqual(len(self.server.sessions.recent), 0)
        call = self.begin(2)
        self.end_erase()
        self.assert_erased(call.send(b"y"))

    def test_waiting_erase(self) -> None:
        """A write whose head came while an erase by the same process waited for its turn."""
        self.stores.state.pause()
        erase = self.browser.send("DELETE", "/game/", {**self.bearer, "If-Match": "*"})
        self.server.now_ms += 1
        call = self.begin(2)
        self.assertEqual(len(self.server.sessions.recent), 0)
        self.stores.state.resume()
        self.assertEqual(erase.answer.status, 204)
        self.server.now_ms += 20
        self.assert_erased(call.send(b"y"))

    def test_known_again(self) -> None:
        """After an erase by the same process sessions become known again."""
        self.assertEqual(self.ask("DELETE", "/game/", {"If-Match": "*"}).status, 204)
        self.put_ok("auto", TWO)
        self.assertEqual(len(self.server.sessions.recent), self.recent_tokens and 1)

    def test_the_read_instead(self) -> None:
        """A write whose transaction cannot read the session, and whose read comes after the end of the erase."""
        call = self.begin(2)
        self.begin_erase()
        self.stores.reads.pause()
        if self.known:
            elsewhere(self.stores.auth, "ALTER TABLE credential RENAME TO credential_moved")
        call.send(b"y")
        if self.known:
            elsewhere(self.stores.auth, "ALTER TABLE credential_moved RENAME TO credential")
        self.end_erase()
        self.stores.reads.resume()
        self.assert_erased(call)

    def test_bad_bytes(self) -> None:
        """Bytes that cannot be stored are refused before the erase is."""
        call = self.begin(2)
        self.begin_erase()
        self.end_erase()
        self.assert_problem(call.send(b"y").answer, 410, "erased")
        self.server.now_ms += 1
        self.put_ok("auto", ONE)
        call = self.begin(2, fields=DIGEST_OF_ONE)
        self.begin_erase()
        self.end_erase()
        self.assert_problem(call.send(b"y").answer, 400, "digest_mismatch")


class ErasedMeanwhileInTwoTripsTest(ErasedMeanwhileTest):
    """The same by two transactions."""

    known, recent_tokens = False, 0


class _FailingOnce:
    """A connection to a disk that fails."""

    in_transaction = True
    failed = 0

    def execute(self, sql: str, parameters: Any = ()) -> Any:
        self.failed += 1
        error = OperationalError("disk I/O error")
        error.sqlite_errorcode, error.sqlite_errorname = 10, "SQLITE_IOERR"
        raise error

    def rollback(self) -> None:
        pass

    def close(self) -> None:
        pass


class _Endless(AuthReader):
    """A connection whose transaction does not end."""

    ends = 0

    def rollback(self) -> None:
        self.ends += 1
        raise OperationalError("out of memory")


def _unused(connection: Connection) -> None:
    connection.execute("UPDATE session SET used = 0")


def _pruned(connection: Connection) -> None:
    connection.execute("UPDATE save SET prune_at_ms = 1")


class SameBytesTest(SaveCase):
    """Both ways send the same bytes."""

    tag = '"1-7692c3ad3540bb80"'
    wrong = f"Bearer {text(STRANGE_TOKEN)}"

    def send(self, request: str, body: bytes, *fields: str, token: str | None = None) -> None:
        """Add the answer to a request, without what is new in each."""
        token = token or self.bearer["Authorization"]
        lines = [f"{request} HTTP/1.1", "Host: game.example", f"Authorization: {token}", *fields]
        head = "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""])
        connection = self.browser.connect().send(head.encode() + body)
        self.answers.append(CHANGING.sub(b"", connection.raw) + (b" closed" if connection.closed else b""))

    def send_put(self, slot: str, body: bytes, *fields: str, token: str | None = None) -> None:
        self.send(f"PUT /game/saves/{slot}", body, *fields, token=token)

    def send_bodiless(self, slot: str, token: str | None = None) -> None:
        """Restore, dismiss and delete: what there is, what there is not, and with other conditions."""
        path = f"/game/saves/{slot}"
        for number in ("1", "2", "3", "4", "99", "x"):
            for fields in ([], ["If-Match: *"], ["If-None-Match: *"], [f"If-Match: {self.tag}"]):
                self.send(f"POST {path}/versions/{number}/restore", b"", *fields, token=token)
            self.send(f"DELETE {path}/versions/{number}", b"", token=token)
        for fields in ([f"If-Match: {self.tag}"], [], [f"If-Match: W/{self.tag}"], ["If-Match: *"], ["If-Match: *"]):
            self.send(f"DELETE {path}", b"", *fields, token=token)

    def sent(self, known: bool) -> list[bytes]:
        """Return the answers to changes of all kinds, each behind the one before."""
        self.known, self.recent_tokens = known, 4096 if known else 0
        self.limits = SaveLimits(save_bytes=100, bytes=150, slots=3, conflict_copies=2)
        self.setUp()
        self.answers: list[bytes] = []
        before = self.stores.reads.transactions
        self.send_usual()
        self.send_at_full_rates()
        self.send_unavailable()
        self.reads = self.stores.reads.transactions - before
        return self.answers

    def send_usual(self) -> None:
        put = self.send_put
        for fields in (
            [],
            ["If-Match: *"],
            ["If-None-Match: *"],
            [f"If-Match: {self.tag}"],
            [f"If-Match: W/{self.tag}"],
        ):
            for body in (ONE, TWO, b"", b"\0\0", b"x" * 90, b"x" * 101):
                for slot in ("auto", "b"):
                    put(slot, body, *fields)
        put("NUL", ONE)
        put("auto", ONE, "If-Match: *", "If-None-Match: *")
        put("auto", ONE, token=self.wrong)
        put("auto", ONE, token="Bearer gat_nonsense")
        put("auto", ONE, "Content-Encoding: gzip")
        put("auto", ONE, f"Content-Digest: {digest_of(TWO)}")
        put("auto", ONE, 'Save-Meta: {"title":"One"}', "If-Match: *")
        put("auto", ONE, "Save-Meta: nonsense", "If-Match: *")
        for slot in ("auto", "none", "NUL"):
            self.send_bodiless(slot)
        self.send_bodiless("b", token=self.wrong)
        put("auto", ONE, "If-None-Match: *")
        for number in range(4):
            put(f"s{number}", b"y" * 70)

    def send_at_full_rates(self) -> None:
        put, others_bearer = self.send_put, self.sign_in(ANNA)
        for rate, mine, theirs in ((4, 2, 0), (20, 0, 10)):  # the bucket in memory is full, then the stored one
            self.writes_per_minute = rate
            others, self.browser = self.browser_for(self.limits), self.browser_for(self.limits)
            for number in range(theirs):
                others.request("PUT", "/game/saves/auto", {**others_bearer, "If-Match": "*"}, b"%d" % number)
            for number in range(mine):
                put("auto", b"%d" % number, "If-Match: *")
            for body in (b"\0", TWO, b"x" * 101):  # the zero first: after a read the stored bucket is known
                put("auto", body, "If-Match: *")
            self.free = 0
            put("auto", TWO, "If-Match: *")
            self.free = 2**40
            put("auto", TWO, "If-Match: *", "Content-Encoding: gzip")
            put("auto", TWO, "If-Match: *", token=self.wrong)
            self.send("DELETE /game/saves/s0", b"", "If-Match: *")
            self.send("DELETE /game/saves/s0/versions/1", b"")
            self.send("POST /game/saves/s0/versions/1/restore", b"", "If-Match: *")
            self.server.now_ms += 60_000
        self.writes_per_minute = 0
        self.browser = self.browser_for(self.limits)

    def send_unavailable(self) -> None:
        """With a full disk, with a damaged state.db, and for a blocked player."""
        put = self.send_put
        self.free = 0
        put("auto", TWO, "If-Match: *")
        put("auto", b"\0", "If-Match: *")
        self.free = 2**40
        self.stores.state._database.mark_damaged()
        put("auto", TWO, "If-Match: *")
        put("auto", TWO, "If-Match: *", token=self.wrong)
        self.send_bodiless("auto")
        self.successResultOf(self.server.databases.auth.submit(lambda c: player_tables.set_state(c, ANNA, "blocked")))
        put("auto", TWO, "If-Match: *")
        put("auto", b"\0", "If-Match: *")
        put("auto", b"x" * 101, "If-Match: *")
        self.send_bodiless("auto")

    def test_every_answer(self) -> None:
        """Each change of a long list gets the same bytes by one transaction and by two."""
        two, reads = self.sent(False), self.reads
        one = self.sent(True)
        self.assertLess(self.reads, reads - 20)
        self.assertEqual(len(one), len(two))
        for number, (ours, theirs) in enumerate(zip(one, two, strict=True)):
            self.assertEqual(ours, theirs, number)
        self.assertGreater(len({answer.partition(b"\r\n")[0] for answer in one}), 10)
        self.assertEqual(sum(b" 429 " in answer for answer in one), 2 * 8)
