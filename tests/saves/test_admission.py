"""Write rates, concurrent uploads and a nearly full disk are checked in the order of the protocol.

See docs/protocol.md: Saves.
"""

from twisted.trial.unittest import SynchronousTestCase

from gamed.config.game import SaveLimits
from gamed.rate_limit import MAX_BUCKETS, RateLimited
from gamed.saves.limits import SaveRateLimiter
from tests.saves.helpers import ABSENT, BIG, SaveCase, tag
from tests.sessions.fixtures import BERT
from tests.support.covers import covers
from tests.support.http import Connection

MIB = 2**20


class PaceTest(SaveCase):
    writes_per_minute = 60

    def test_burst(self) -> None:
        """Thirty at once, then one a second; what is refused changes nothing and costs nothing."""
        for number in range(30):
            self.assertEqual(self.put(f"s{number}", b"x", ABSENT).status, 201)
        for _ in range(3):
            answer = self.assert_problem(self.put("more", b"x", ABSENT), 429, "rate_limited", "Try again in 1 second")
            self.assertEqual(answer.headers["retry-after"], "1")
        self.server.now_ms += 1000
        self.assertEqual(self.put("more", b"x", ABSENT).status, 201)

    def test_every_change_counts(self) -> None:
        """Deletes, restores and dismissals are writes; reading is free, and another player has a rate of their own."""
        for _ in range(10):
            self.put("auto", b"x")
            self.delete("auto", {"If-Match": "*"})
            self.ask("POST", "/game/saves/auto/versions/1/restore", ABSENT)
        for answer in (
            self.delete("auto", {"If-Match": "*"}),
            self.ask("POST", "/game/saves/auto/versions/1/restore", ABSENT),
            self.ask("DELETE", "/game/saves/auto/versions/1"),
        ):
            self.assert_problem(answer, 429, "rate_limited")
        self.assertEqual(self.get("auto").status, 200)
        self.bearer = self.sign_in("ply_" + "B" * 22)
        self.assertEqual(self.put("auto", b"x", ABSENT).status, 201)

    def test_order(self) -> None:
        """Syntax before the token, the token before the rate, the rate before size, coding and disk."""
        for _ in range(30):
            self.put("auto", b"x", ABSENT)
        self.free = 0
        huge = {"Content-Length": str(2**40), **ABSENT}
        self.assert_problem(self.put("NUL", b"", huge), 400, "invalid_slot")
        signed_in, self.bearer = self.bearer, {"Authorization": "Basic nobody:nothing"}
        self.assert_problem(self.put("auto", b"", huge), 401, "token_missing")
        self.bearer = signed_in
        self.assert_problem(self.put("auto", b"", huge), 429, "rate_limited")
        self.server.now_ms += 5000
        self.assert_problem(self.put("auto", b"", huge), 413, "save_too_large")
        self.assert_problem(self.put("auto", b"x", {"Content-Encoding": "gzip"}), 415, "content_encoding")
        self.assert_problem(self.put("auto", b"x", {"If-Match": "*"}), 507, "storage_full")


class TwoProcessesTest(SaveCase):
    """The same player at two services on the same databases; `others` is the second."""

    writes_per_minute = 20

    def setUp(self) -> None:
        super().setUp()
        self.others = self.browser_for(self.limits)
        self.get("none")  # the first use of the token is settled before

    def elsewhere(self, method: str, path: str, headers: dict[str, str] | None = None, body: bytes = b"") -> Connection:
        return self.others.send(method, path, {**self.bearer, **(headers or {})}, body)

    def test_one_bucket(self) -> None:
        """Ten changes at once are for both together, then one every three seconds."""
        for number in range(5):
            self.assertEqual(self.put(f"a{number}", b"x", ABSENT).status, 201)
            self.assertEqual(self.elsewhere("PUT", f"/game/saves/b{number}", ABSENT, b"x").answer.status, 201)
        self.assert_problem(self.put("more", b"x", ABSENT), 429, "rate_limited")
        self.assert_problem(self.elsewhere("PUT", "/game/saves/more", ABSENT, b"x").answer, 429, "rate_limited")
        self.server.now_ms += 3000
        self.assertEqual(self.put("more", b"x", ABSENT).status, 201)
        answer = self.elsewhere("PUT", "/game/saves/others", ABSENT, b"x").answer
        self.assertEqual(self.assert_problem(answer, 429, "rate_limited").headers["retry-after"], "3")

    def test_race(self) -> None:
        """Accept ten of twenty changes that both processes admitted at once; the others store nothing."""
        self.stores.state.pause()
        calls = [
            ask("PUT", f"/game/saves/{name}{n}", ABSENT, b"x")
            for n in range(10)
            for name, ask in (("a", self.elsewhere), ("b", self.here))
        ]
        self.stores.state.resume()
        answers = [call.answer for call in calls]
        self.assertEqual(sorted(answer.status for answer in answers), [201] * 10 + [429] * 10)
        for answer in answers:
            if answer.status == 429:
                self.assert_problem(answer, 429, "rate_limited", "Try again")
                self.assertEqual(answer.headers["retry-after"], "3")
        self.assertEqual(len(self.version_rows()), 10)
        self.assert_counts_agree()

    def here(self, method: str, path: str, headers: dict[str, str] | None = None, body: bytes = b"") -> Connection:
        return self.browser.send(method, path, {**self.bearer, **(headers or {})}, body)

    def test_every_change(self) -> None:
        """Deletes, restores, conflict copies, dismissals and commits count for the other process, too."""
        commit = b'{"writes":[{"slot":"auto","delete":true,"if_match":"*"}]}'
        changes = (
            ("PUT", "/game/saves/auto", ABSENT, b"x"),
            ("PUT", "/game/saves/auto", ABSENT, b"refused"),
            ("DELETE", "/game/saves/auto/versions/2", None, b""),
            ("DELETE", "/game/saves/auto", {"If-Match": "*"}, b""),
            ("POST", "/game/saves/auto/versions/1/restore", ABSENT, b""),
            ("POST", "/game/commit", {"Content-Type": "application/json"}, commit),
        )
        for method, path, headers, body in changes:
            self.assertLess(self.here(method, path, headers, body).answer.status, 413, path)
        [(arrival_ms,)] = self.in_state(lambda c: c.execute("SELECT write_arrival_ms FROM player_saves").fetchall())
        self.assertEqual(arrival_ms - self.server.now_ms, len(changes) * 3000)
        for number in range(4):
            self.assertEqual(self.elsewhere("PUT", f"/game/saves/{number}", ABSENT, b"x").answer.status, 201)
        self.assert_problem(self.elsewhere("PUT", "/game/saves/more", ABSENT, b"x").answer, 429, "rate_limited")

    def test_what_changes_nothing(self) -> None:
        """A refused change and a repeated one count in their process alone, and write no row."""
        self.put("auto", b"x", ABSENT)
        before = self.in_state(lambda c: c.execute("SELECT * FROM player_saves").fetchall())
        for number in range(9):
            self.put("auto", b"x", ABSENT) if number % 2 else self.delete("auto", {"If-Match": tag(7, b"other")})
        self.assertEqual(self.in_state(lambda c: c.execute("SELECT * FROM player_saves").fetchall()), before)
        self.assert_problem(self.put("auto", b"y", {"If-Match": "*"}), 429, "rate_limited")
        self.assertEqual(self.elsewhere("PUT", "/game/saves/auto", {"If-Match": "*"}, b"y").answer.status, 200)

    def test_slow_bodies(self) -> None:
        """A body that took long is stored, although others have filled the bucket since: it was counted before."""
        upload = self.browser.connect()
        head = {"Host": "localhost", **self.bearer, **ABSENT, "Content-Length": "2"}
        lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
        upload.send(f"PUT /game/saves/slow HTTP/1.1\r\n{lines}\r\nx".encode())
        self.server.now_ms += 2000
        for number in range(10):
            self.assertEqual(self.elsewhere("PUT", f"/game/saves/{number}", ABSENT, b"x").answer.status, 201)
        self.assertEqual(upload.send(b"y").answer.status, 201)

    def test_restart(self) -> None:
        """A restart empties no bucket."""
        for number in range(10):
            self.put(f"s{number}", b"x", ABSENT)
        self.browser = self.browser_for(self.limits)
        self.assert_problem(self.put("more", b"x", ABSENT), 429, "rate_limited")

    def test_clock_set_back(self) -> None:
        """A bucket from a clock that was a day ahead counts as empty, and the next change corrects it."""
        self.put("auto", b"x", ABSENT)
        self.in_state(
            lambda c: c.execute("UPDATE player_saves SET write_arrival_ms = write_arrival_ms + 86400000").rowcount
        )
        for number in range(9):
            self.assertEqual(self.put(f"s{number}", b"x", ABSENT).status, 201)
        self.assert_problem(self.put("more", b"x", ABSENT), 429, "rate_limited")


class RateTest(SynchronousTestCase):
    def test_off(self) -> None:
        """0 is no limit."""
        rate = SaveRateLimiter.of(SaveLimits(writes_per_minute=0))
        for _ in range(1000):
            rate.acquire("ply_a", 5)

    def test_least(self) -> None:
        """One a minute is one a minute."""
        rate = SaveRateLimiter.of(SaveLimits(writes_per_minute=1))
        rate.acquire("ply_a", 0)
        self.assertRaises(RateLimited, rate.acquire, "ply_a", 59_000)
        rate.acquire("ply_a", 60_000)

    def test_memory(self) -> None:
        """Empty buckets are discarded."""
        rate = SaveRateLimiter.of(SaveLimits())
        for number in range(3 * MAX_BUCKETS):
            rate.acquire(f"ply_{number}", number * 10)
        self.assertLessEqual(len(rate._buckets), MAX_BUCKETS + 1)


class DiskTest(SaveCase):
    def test_nearly_full(self) -> None:
        """Below `min_free_bytes` writes are rejected with Retry-After; later they succeed again."""
        self.put("auto", b"one", ABSENT)
        self.free = 256 * MIB + 2
        answer = self.assert_problem(self.put("auto", b"two", {"If-Match": "*"}), 507, "storage_full", "nearly full")
        self.assertEqual((answer.headers["retry-after"], answer.json["retry_after"]), ("300", 300))
        self.assertEqual(self.get("auto").body, b"one")
        self.assertEqual(self.delete("auto", {"If-Match": "*"}).status, 204)
        self.free += 1
        self.assertEqual(self.put("auto", b"two", ABSENT).headers["etag"], tag(3, b"two"))

    def test_uploads_under_way(self) -> None:
        """Reserved bytes count as used, so that concurrent uploads do not fill the disk together."""
        self.free = 256 * MIB + 1000
        first = self.browser.connect()
        first.send(f"{self.head('a')}Content-Length: 600\r\n\r\n".encode())
        self.assert_problem(self.put("b", b"x" * 600), 507, "storage_full")
        first.leave()
        self.assertEqual(self.put("b", b"x" * 600).status, 201)
        self.assertEqual(self.put("c", b"x" * 600).status, 201)

    def test_of_unknown_length(self) -> None:
        """A chunked body reserves what has arrived, not the largest there may be; the disk may still become full."""
        self.free = 256 * MIB + 16 * MIB
        first = self.browser.connect()
        first.send(f"{self.head('a')}Transfer-Encoding: chunked\r\n\r\n".encode())
        self.assertEqual(self.reservations.bytes, 0)
        self.assertEqual(self.put("b", b"x" * 15 * MIB).status, 201)
        first.send(b"100000\r\n" + b"x" * MIB + b"\r\n")
        self.assertEqual(self.reservations.bytes, MIB)
        self.free = 256 * MIB + MIB
        self.assert_problem(first.send(b"100000\r\n" + b"x" * MIB + b"\r\n").answer, 507, "storage_full", "nearly full")
        self.assertEqual(self.reservations.bytes, 0)

    def test_full_meanwhile(self) -> None:
        """An upload whose size was announced ends as soon as less than `min_free_bytes` is free."""
        first = self.browser.connect()
        first.send(f"{self.head('a')}Content-Length: {4 * MIB}\r\n\r\n".encode()).send(b"x" * MIB)
        self.free = 256 * MIB - 1
        self.assert_problem(first.send(b"x" * MIB).answer, 507, "storage_full", "nearly full")
        self.assertEqual(self.reservations.bytes, 0)

    def head(self, slot: str) -> str:
        """The head of a PUT, without its framing."""
        authorization = f"Authorization: {self.bearer['Authorization']}"
        return f"PUT /game/saves/{slot} HTTP/1.1\r\nHost: game.example\r\n{authorization}\r\n"


@covers("threats/38")
class ManyUploadsTest(SaveCase):
    """Uploads that trickle, of one player or of many; the saves of another player."""

    def trickle(self, target: str, framing: str) -> Connection:
        """An upload of which only the first byte has arrived."""
        head = f"{target} HTTP/1.1\r\nHost: game.example\r\nAuthorization: {self.bearer['Authorization']}\r\n"
        body = "x" if framing.startswith("Content-Length") else "1\r\nx\r\n"
        return self.browser.connect().send(f"{head}{framing}\r\n\r\n{body}".encode())

    def test_of_one_player(self) -> None:
        """Accept four of 58 uploads of one player and reject the others; another player can save."""
        self.free = 256 * MIB + 1000 * MIB
        for framing in ("Transfer-Encoding: chunked", f"Content-Length: {16 * MIB}"):
            calls = [self.trickle(f"PUT /game/saves/s{n}", framing) for n in range(58)]
            rejected = [call.answer for call in calls if call.answers]
            self.assertEqual(len(rejected), 58 - 4)
            for answer in rejected:
                self.assert_problem(answer, 429, "rate_limited", "4 of your uploads", "Try again in 5 seconds")
                self.assertEqual(answer.headers["retry-after"], "5")
            mine, self.bearer = self.bearer, self.sign_in(BERT)
            self.assertEqual(self.put(f"of-{len(framing)}", b"x" * 16 * MIB).status, 201)
            self.bearer = mine
            for call in calls:
                call.leave()
            self.assertEqual(self.reservations.bytes, 0)
            self.assertEqual(self.put(f"of-{len(framing)}", b"x").status, 201)

    def test_of_many_players(self) -> None:
        """Announced but unsent bodies of many players leave half of the free disk to other saves."""
        self.free = 256 * MIB + 100 * MIB
        mine, calls = self.bearer, []
        for n in range(16):
            self.bearer = self.sign_in(f"ply_{n:022d}")
            calls += [self.trickle(f"PUT /game/saves/s{n}", f"Content-Length: {16 * MIB}") for n in range(4)]
        self.assertEqual([call.answers for call in calls], [[]] * len(calls))
        self.bearer = mine
        self.assertEqual(self.put("auto", b"x" * 16 * MIB).status, 201)
        for call in calls:
            call.leave()
        self.assertEqual(self.reservations.bytes, 0)

    def test_staging_and_commits(self) -> None:
        """Staged bytes and commits count as uploads too, each until its body is here."""
        blob, json = "0" * 64, "Content-Type: application/json\r\n"
        calls = [
            self.trickle(f"PUT /game/blobs/{blob}", "Transfer-Encoding: chunked"),
            self.trickle(f"PUT /game/blobs/{blob}", "Content-Length: 1000"),
            self.trickle("POST /game/commit", f"{json}Transfer-Encoding: chunked"),
            self.trickle("POST /game/commit", f"Content-Length: 1000\r\n{json}".removesuffix("\r\n")),
        ]
        self.assertEqual([call.answers for call in calls], [[]] * 4)
        for target in (f"PUT /game/blobs/{blob}", "POST /game/commit", "PUT /game/saves/auto"):
            self.assert_problem(self.trickle(target, f"Content-Length: 5\r\n{json}"[:-2]).answer, 429, "rate_limited")
        calls.pop().leave()
        self.assertEqual(self.put("auto", b"x").status, 201)
        self.assertEqual(self.put("more", b"x").status, 201)
        for call in calls:
            call.leave()
        self.assertEqual(self.reservations.bytes, 0)

    def test_small_bodies_at_once(self) -> None:
        """Small saves that are here whole count no more, though they wait for the disk."""
        self.stores.state.pause()
        calls = [self.browser.send("PUT", f"/game/saves/s{n}", self.bearer, b"x") for n in range(10)]
        self.stores.state.resume()
        self.assertEqual([call.answer.status for call in calls], [201] * 10)

    def test_large_bodies_at_once(self) -> None:
        """Larger bodies count until they are stored."""
        self.stores.state.pause()
        calls = [self.browser.send("PUT", f"/game/saves/s{n}", self.bearer, BIG + bytes([n])) for n in range(5)]
        self.assert_problem(calls.pop().answer, 429, "rate_limited")
        self.stores.state.resume()
        self.assertEqual([call.answer.status for call in calls], [201] * 4)
        self.assertEqual((self.put("s9", BIG).status, self.reservations.bytes), (201, 0))

    def test_no_more_than_is_left(self) -> None:
        """A player reserves no more than is left of what they may keep."""
        self.browser = self.browser_for(
            SaveLimits(bytes=1500, history_bytes=1000, save_bytes=1200, writes_per_minute=0)
        )
        self.put("a", b"x" * 1000)
        # With Expect, so that the token is authenticated before the body: only then is it known what the player has.
        framing = "Content-Length: 1200\r\nExpect: 100-continue"
        calls = [self.trickle(f"PUT /game/saves/s{n}", framing) for n in range(2)]
        self.assertEqual(self.reservations.bytes, 1500)
        calls[0].leave()
        self.assertEqual(self.reservations.bytes, 300)
        calls[1].leave()
        self.assertEqual(self.reservations.bytes, 0)
