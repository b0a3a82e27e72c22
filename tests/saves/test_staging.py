"""Bytes are staged for a commit (docs/protocol.md: Saves, Commits)."""

from hashlib import sha256
from io import BytesIO

from msgspec.structs import replace
from twisted.internet.defer import ensureDeferred

from gamed.config.game import SaveLimits
from gamed.database.errors import DatabaseUnavailable
from gamed.saves import erase_store
from gamed.saves.cleanup import CleanupTask
from gamed.saves.commands import BytesMissing, StageCommand, WriteContext
from gamed.saves.limits import SaveRateLimiter
from gamed.saves.model import SaveContent
from gamed.saves.retention import DAY_MS
from gamed.saves.service import execute_with_blob
from gamed.saves.store import SaveStore
from tests.saves.commit_helpers import CommitCase, digest, write
from tests.saves.helpers import ABSENT, BIG, digest_of, tag
from tests.saves.state_machine import damage_blobs
from tests.sessions.fixtures import ANNA
from tests.support.covers import covers

BERTA = "ply_" + "B" * 22
LARGE = bytes(range(1, 241)) * 5000


class StageTest(CommitCase):
    def test_staged(self) -> None:
        """201 with hash and size, also for the same again; HEAD says how large they are; no save is changed."""
        for data in (b"one", BIG):
            before = self.ask("GET", "/game/").json
            for _ in range(2):
                answer = self.put_blob(data)
                self.assertEqual((answer.status, answer.json), (201, {"sha256": digest(data), "size": len(data)}))
            found = self.head_blob(data)
            self.assertEqual((found.status, found.headers["content-length"], found.body), (200, str(len(data)), b""))
            self.assertEqual(self.ask("GET", "/game/").json, before)
        self.assertEqual(self.in_state(lambda c: c.execute("SELECT count(*) FROM blob").fetchall()), [(2,)])
        self.assert_counts_agree()

    def test_not_staged(self) -> None:
        """HEAD of what was never sent is 404; GET is no method of these addresses."""
        self.assertEqual(self.head_blob(b"one").status, 404)
        answer = self.ask("GET", f"/game/blobs/{digest(b'one')}")
        self.assert_problem(answer, 405, "method_not_allowed", "answers HEAD, OPTIONS, PUT")
        self.assertEqual(answer.headers["allow"], "HEAD, OPTIONS, PUT")

    def test_of_a_save(self) -> None:
        """Bytes of a save need not be staged."""
        self.put("auto", b"one", ABSENT)
        self.assertEqual(self.head_blob(b"one").status, 200)
        self.assertEqual(self.put_blob(b"one").status, 201)
        self.assert_counts_agree()

    @covers("threats/45")
    def test_others_bytes(self) -> None:
        """A player can neither find nor commit the bytes of another player."""
        self.stage(b"one")
        self.bearer = self.sign_in(BERTA)
        self.assertEqual(self.head_blob(b"one").status, 404)
        self.assert_problem(self.commit(write("auto", b"one")), 409, "blob_missing", "PUT them to /game/blobs/")

    def test_wrong_bytes(self) -> None:
        """Other bytes than the path or Content-Digest says are refused, and nothing stays."""
        self.assert_problem(self.put_blob(b"two", name=digest(b"one")), 400, "digest_mismatch", "the path says")
        headers = {"Content-Digest": digest_of(b"one")}
        self.assert_problem(self.put_blob(b"two", headers), 400, "digest_mismatch", "Content-Digest")
        self.assertEqual(self.put_blob(b"one", headers).status, 201)
        self.assert_problem(self.put_blob(BIG, name=digest(b"one")), 400, "digest_mismatch")
        self.assertEqual(self.in_state(lambda c: c.execute("SELECT size FROM blob").fetchall()), [(3,)])

    def test_addresses(self) -> None:
        """Only 64 lower-case hex digits are an address, which is checked before Content-Digest."""
        for name in ("x", digest(b"one")[:-1], digest(b"one").upper(), digest(b"one") + "0"):
            self.assert_problem(self.put_blob(b"one", name=name), 400, "bad_request", "64 lower-case hex digits")
            self.assertEqual(self.ask("HEAD", f"/game/blobs/{name}").status, 400)
            answer = self.put_blob(b"one", {"Content-Digest": "sha-256=:?:"}, name)
            self.assert_problem(answer, 400, "bad_request", "64 lower-case hex digits")
        for path in ("/game/blobs", "/game/blobs/", f"/game/blobs/{digest(b'one')}/"):
            self.assert_problem(self.ask("PUT", path, body=b"one"), 404, "route_not_found")

    def test_damaged_bytes_are_repaired(self) -> None:
        """Bytes that went bad in the store count as missing for a commit; staging them again repairs them."""
        for data in (b"one", BIG):
            self.stage(data)
            self.in_state(damage_blobs)
            self.assert_problem(self.commit(write("auto", data)), 409, "blob_missing")
            self.stage(data)
            self.assertEqual(self.commit(write("auto", data, None if data != BIG else "*")).status, 200)
            self.assertEqual(self.get("auto").body, data)

    def test_damaged_bytes_of_one_of_two_saves(self) -> None:
        """Bytes of two saves, of which one went bad, can be committed after they were staged."""
        for slot in ("a", "b"):
            self.put(slot, b"one", ABSENT)
        for slot in ("a", "b"):
            self.damage(slot, 1)
            self.stage(b"one")
            self.assertEqual(self.commit(write(f"new-{slot}", b"one")).status, 200)
            self.assertEqual(self.get(f"new-{slot}").body, b"one")
            self.assertEqual(self.put(slot, b"one", {"If-Match": tag(1, b"one")}).status, 200)
            self.assertEqual(self.get(slot).body, b"one")
        self.assert_counts_agree()


class OrderTest(CommitCase):
    """The order of checks (docs/protocol.md: Saves)."""

    limits = SaveLimits(save_bytes=20, bytes=30)

    def test_everything_wrong(self) -> None:
        """With several errors the first is reported: syntax, token, rate, size, coding, disk, digest."""
        headers = {"Content-Range": "bytes 0-1/9", "Content-Encoding": "gzip"}
        good, self.bearer, self.free = self.bearer, {"Authorization": "Basic nobody:nothing"}, 0
        self.writes_per_minute = 1
        self.browser = self.browser_for(replace(self.limits, commit_writes=1))
        name, data = digest(b"other"), b"x" * 21
        self.assert_problem(self.put_blob(data, headers, "nonsense"), 400, "bad_range_put")
        del headers["Content-Range"]
        self.assert_problem(self.put_blob(data, headers, "nonsense"), 400, "bad_request")
        self.assert_problem(self.put_blob(data, headers, name), 401, "token_missing")
        self.bearer = good
        self.assert_problem(self.put_blob(data, headers, name), 413, "save_too_large")
        self.assert_problem(self.put_blob(data, headers, name), 429, "rate_limited")
        self.server.now_ms += 60_000
        self.assert_problem(self.put_blob(data[1:], headers, name), 415, "content_encoding")
        self.server.now_ms += 60_000
        self.assert_problem(self.put_blob(data[1:], None, name), 507, "storage_full")
        self.free = 2**40
        self.server.now_ms += 60_000
        self.assert_problem(self.put_blob(bytes(20), None, name), 400, "digest_mismatch")
        self.server.now_ms += 60_000
        self.assert_problem(self.put_blob(bytes(20)), 422, "blank_save")
        self.assertEqual(self.reservations.bytes, 0)

    def test_quota(self) -> None:
        """Staged bytes are limited to the quota of all saves; bytes that exist already count once."""
        self.stage(b"x" * 20)
        answer = self.assert_problem(self.put_blob(b"y" * 11), 413, "quota_exceeded", "commit what is staged")
        self.assertEqual((answer.json["limit"], answer.json["usage"]), (30, 20))
        self.stage(b"y" * 10, b"x" * 20)
        self.assert_problem(self.put_blob(b"z"), 413, "quota_exceeded")
        self.assertEqual(self.commit(write("auto", b"x" * 20)).status, 200)
        self.stage(b"z")

    def test_rate(self) -> None:
        """Staging has its own bucket, large enough for one commit at once."""
        self.writes_per_minute = 2
        self.browser = self.browser_for(replace(self.limits, commit_writes=5))
        bodies = [bytes([n]) for n in range(1, 7)]
        self.stage(*bodies[:5])
        self.assert_problem(self.put_blob(bodies[5]), 429, "rate_limited")
        answer = self.commit(*(write(f"s{n}", data) for n, data in enumerate(bodies[:5])))
        self.assertEqual(answer.status, 200)
        self.assert_problem(self.commit(write("more", bodies[0])), 429, "rate_limited")
        self.assert_problem(self.put("more", b"x", ABSENT), 429, "rate_limited")


class DatabaseAwayTest(CommitCase):
    def test_answer_does_not_wait_for_deletion(self) -> None:
        """If the database fails when the bytes are stored, the request fails at once, though they cannot be deleted
        yet; when the database answers again, they are."""
        blobs = self.stores.blobs.queue
        appended: list[int | None] = []

        async def away(command: StageCommand) -> BytesMissing:
            appended.append(command.appended_blob)
            if command.appended_blob is None:
                return BytesMissing(None)
            blobs.pause()
            raise DatabaseUnavailable("The database does not answer.")

        content = SaveContent(sha256(BIG).digest(), len(BIG), "application/octet-stream")
        command = StageCommand(WriteContext(ANNA, ""), content, self.server.now_ms, 0)
        store = SaveStore(
            databases=self.stores, keys=self.server.issuer.keys, limits=self.limits, lists=SaveRateLimiter.of_lists()
        )
        executed = ensureDeferred(execute_with_blob(store, command, away, BytesIO(BIG)))
        self.failureResultOf(executed, DatabaseUnavailable)
        self.assertEqual((len(appended), appended[0]), (2, None))
        blobs.resume()
        self.assertEqual(self.in_state(lambda c: c.execute("SELECT count(*) FROM blob").fetchall()), [(0,)])


class TimeTest(CommitCase):
    """The lifetime of staged bytes."""

    def clean_up(self) -> None:
        task = CleanupTask(self.stores, self.limits, lambda: self.server.now_ms, bytes, lambda _: None)
        self.successResultOf(ensureDeferred(task.clean_up()))
        self.assert_counts_agree()

    def later(self, ms: int) -> None:
        self.server.now_ms += ms
        self.bearer = self.sign_in(ANNA)

    def test_a_day(self) -> None:
        """Staged bytes are deleted after a day; then a commit reports them as missing."""
        self.stage(b"one", BIG)
        self.later(DAY_MS)
        self.clean_up()
        self.assertEqual([self.head_blob(data).status for data in (b"one", BIG)], [200, 200])
        self.later(1)
        self.clean_up()
        self.assertEqual([self.head_blob(data).status for data in (b"one", BIG)], [404, 404])
        answer = self.commit(write("auto", b"one"), write("big", BIG))
        self.assert_problem(answer, 409, "blob_missing", "2 of the named bytes")
        self.assertEqual(answer.json["missing"], sorted([digest(b"one"), digest(BIG)]))

    def test_sent_again(self) -> None:
        """Staging the same bytes again restarts their time."""
        self.stage(b"one")
        self.later(DAY_MS)
        self.stage(b"one")
        self.later(DAY_MS)
        self.clean_up()
        self.assertEqual(self.head_blob(b"one").status, 200)

    def test_also_of_a_save(self) -> None:
        """Staging bytes of an old version keeps them for a day, even if that version is deleted."""
        for data in (b"one", b"two", b"three"):
            self.put("auto", data, {"If-Match": "*"} if data != b"one" else ABSENT)
        self.stage(b"one")
        self.browser = self.browser_for(SaveLimits(history_bytes=0))
        self.put("auto", b"four", {"If-Match": "*"})
        self.clean_up()
        self.assertEqual([self.head_blob(data).status for data in (b"one", b"two")], [200, 404])

    def test_once_saved(self) -> None:
        """Bytes of versions are deleted with the last of them, without a delay."""
        self.stage(b"one")
        self.put("auto", b"one", ABSENT)
        for data in (b"two", b"three"):
            self.put("auto", data, {"If-Match": "*"})
        self.browser = self.browser_for(SaveLimits(history_bytes=0))
        self.put("auto", b"four", {"If-Match": "*"})
        self.clean_up()
        self.assertEqual(self.head_blob(b"one").status, 404)

    def test_expired_do_not_count(self) -> None:
        """Expired bytes do not count, even before they are deleted."""
        self.browser = self.browser_for(SaveLimits(bytes=3))
        self.stage(b"one")
        self.assert_problem(self.put_blob(b"two"), 413, "quota_exceeded")
        self.later(DAY_MS)
        self.stage(b"two")

    def test_erased(self) -> None:
        """An erase deletes staged bytes; a staging that began before it fails, one after it succeeds."""
        self.stage(b"one", BIG)
        upload = self.browser.connect()
        head = f"PUT /game/blobs/{digest(b'12345')} HTTP/1.1\r\nHost: game.example\r\nAuthorization: "
        upload.send(f"{head}{self.bearer['Authorization']}\r\nContent-Length: 5\r\n\r\n123".encode())
        self.in_state(lambda c: erase_store.begin_erase(c, ANNA, "new", self.server.now_ms))
        self.assert_problem(self.put_blob(b"meanwhile"), 410, "erased")
        self.assert_problem(self.commit(write("auto", b"one")), 410, "erased")
        self.clean_up()
        self.assert_problem(upload.send(b"45").answer, 410, "erased")
        self.server.now_ms += 1
        self.stage(b"after")
        self.clean_up()
        self.assertEqual([self.head_blob(data).status for data in (b"one", BIG, b"after")], [404, 404, 200])
        self.assertEqual(self.in_state(lambda c: c.execute("SELECT size FROM blob").fetchall()), [(5,)])

    def test_disconnect(self) -> None:
        """After a disconnect during the body nothing is stored."""
        for data in (b"123", LARGE[:400_000]):
            upload = self.browser.connect()
            head = f"PUT /game/blobs/{digest(LARGE)} HTTP/1.1\r\nHost: game.example\r\nAuthorization: "
            upload.send(f"{head}{self.bearer['Authorization']}\r\nContent-Length: {len(LARGE)}\r\n\r\n".encode())
            upload.send(data)
            upload.leave()
        self.assertEqual(self.reservations.bytes, 0)
        self.assertEqual(self.in_state(lambda c: c.execute("SELECT size FROM blob").fetchall()), [])
