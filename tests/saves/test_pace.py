"""How often a player may write, and a disk that is nearly full: in the order of PROTOCOL 4."""

from twisted.trial.unittest import SynchronousTestCase

from gamed.limits import RateLimited
from gamed.saves.limits import SaveLimits
from gamed.saves.write_rate import CROWD, WriteRate
from tests.saves.kit import ABSENT, SaveCase, tag

MIB = 2**20


class PaceTest(SaveCase):
    writes_per_minute = 60

    def test_burst(self) -> None:
        """Thirty at once, then one a second; what is refused changes nothing and costs nothing."""
        for number in range(30):
            self.assertEqual(self.put(f"s{number}", b"x", ABSENT).status, 201)
        for _ in range(3):
            answer = self.refused(self.put("more", b"x", ABSENT), 429, "rate_limited", "Try again in 1 second")
            self.assertEqual(answer.headers["retry-after"], "1")
        self.house.now_ms += 1000
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
            self.refused(answer, 429, "rate_limited")
        self.assertEqual(self.get("auto").status, 200)
        self.bearer = self.sign_in("ply_" + "B" * 22)
        self.assertEqual(self.put("auto", b"x", ABSENT).status, 201)

    def test_order(self) -> None:
        """Syntax before the token, the token before the rate, the rate before size, coding and disk."""
        for _ in range(30):
            self.put("auto", b"x", ABSENT)
        self.free = 0
        huge = {"Content-Length": str(2**40), **ABSENT}
        self.refused(self.put("NUL", b"", huge), 400, "invalid_slot")
        signed_in, self.bearer = self.bearer, {"Authorization": "Basic nobody:nothing"}
        self.refused(self.put("auto", b"", huge), 401, "token_missing")
        self.bearer = signed_in
        self.refused(self.put("auto", b"", huge), 429, "rate_limited")
        self.house.now_ms += 5000
        self.refused(self.put("auto", b"", huge), 413, "save_too_large")
        self.refused(self.put("auto", b"x", {"Content-Encoding": "gzip"}), 415, "content_encoding")
        self.refused(self.put("auto", b"x", {"If-Match": "*"}), 507, "storage_full")


class RateTest(SynchronousTestCase):
    def test_off(self) -> None:
        """0 is no limit."""
        rate = WriteRate.of(SaveLimits(writes_per_minute=0))
        for _ in range(1000):
            rate.spend("ply_a", 5)

    def test_least(self) -> None:
        """One a minute is one a minute."""
        rate = WriteRate.of(SaveLimits(writes_per_minute=1))
        rate.spend("ply_a", 0)
        self.assertRaises(RateLimited, rate.spend, "ply_a", 59_000)
        rate.spend("ply_a", 60_000)

    def test_memory(self) -> None:
        """Who is quiet is forgotten."""
        rate = WriteRate.of(SaveLimits())
        for number in range(3 * CROWD):
            rate.spend(f"ply_{number}", number * 10)
        self.assertLessEqual(len(rate._arrivals), CROWD + 1)


class DiskTest(SaveCase):
    def test_nearly_full(self) -> None:
        """Below `min_free_bytes` nothing is taken; the answer says when to come back. Then all is as before."""
        self.put("auto", b"one", ABSENT)
        self.free = 256 * MIB + 2
        answer = self.refused(self.put("auto", b"two", {"If-Match": "*"}), 507, "storage_full", "nearly full")
        self.assertEqual((answer.headers["retry-after"], answer.json["retry_after"]), ("300", 300))
        self.assertEqual(self.get("auto").body, b"one")
        self.assertEqual(self.delete("auto", {"If-Match": "*"}).status, 204)
        self.free += 1
        self.assertEqual(self.put("auto", b"two", ABSENT).headers["etag"], tag(3, b"two"))

    def test_uploads_under_way(self) -> None:
        """What is still arriving counts as taken: many at once do not fill the disk together."""
        self.free = 256 * MIB + 1000
        first = self.browser.connect()
        head = f"PUT /game/saves/a HTTP/1.1\r\nHost: game.example\r\nAuthorization: {self.bearer['Authorization']}\r\n"
        first.send(f"{head}Content-Length: 600\r\n\r\n".encode())
        self.refused(self.put("b", b"x" * 600), 507, "storage_full")
        first.leave()
        self.assertEqual(self.put("b", b"x" * 600).status, 201)
        self.assertEqual(self.put("c", b"x" * 600).status, 201)

    def test_of_unknown_length(self) -> None:
        """A body that comes in chunks counts as the largest there may be, until it is here."""
        self.free = 256 * MIB + 16 * MIB + 999
        first = self.browser.connect()
        head = f"PUT /game/saves/a HTTP/1.1\r\nHost: game.example\r\nAuthorization: {self.bearer['Authorization']}\r\n"
        first.send(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
        self.refused(self.put("b", b"x" * 1000), 507, "storage_full")
        self.assertEqual(first.send(b"3\r\none\r\n0\r\n\r\n").answer.status, 201)
        self.assertEqual(self.put("b", b"x" * 1000).status, 201)
        self.free -= 1000
        self.refused(
            self.ask("PUT", "/game/saves/c", {"Transfer-Encoding": "chunked"}, b"0\r\n\r\n"), 507, "storage_full"
        )
