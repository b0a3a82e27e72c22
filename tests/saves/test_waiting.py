"""Waiting for changes: `Prefer: wait` on the list of saves (docs/protocol.md: Saves)."""

from json import dumps

from gamed.config.game import SaveLimits
from tests.saves.commit_helpers import JSON, delete, digest, write
from tests.saves.helpers import ABSENT, SaveCase, tag
from tests.sessions.fixtures import ANNA
from tests.support.databases import elsewhere
from tests.support.http import Connection
from tests.support.stores import sqlite_files

OTHER = "ply_" + "B" * 22


class WaitCase(SaveCase):
    def setUp(self) -> None:
        super().setUp()
        self.put("auto", b"one", ABSENT)

    @property
    def cursor(self) -> str:
        return str(self.ask("GET", "/game/saves").json["cursor"])

    def wait(self, seconds: object = 25, since: str | None = None, **headers: str) -> Connection:
        query = "" if since == "" else f"?since={since or self.cursor}"
        return self.browser.send("GET", f"/game/saves{query}", {**self.bearer, "Prefer": f"wait={seconds}", **headers})

    def waits(self, connection: Connection) -> bool:
        return connection.answers == []

    def pass_seconds(self, seconds: float) -> None:
        self.server.now_ms += int(seconds * 1000)
        self.clock.pump([0.05] * int(seconds * 20))


class WaitTest(WaitCase):
    def test_change(self) -> None:
        """A change ends the wait with what has changed, and says that the wish was heard."""
        waiting = self.wait()
        self.assertTrue(self.waits(waiting))
        self.put("auto", b"two", {"If-Match": tag(1, b"one")})
        self.pass_seconds(0.1)
        answer = waiting.answer
        self.assertEqual((answer.status, answer.headers["preference-applied"]), (200, "wait=25"))
        self.assertEqual([save["etag"] for save in answer.json["saves"]], [tag(2, b"two")])
        self.assertEqual(answer.json["cursor"], self.cursor)

    def test_every_kind_of_change(self) -> None:
        """Delete, refused bytes, dismissal and restore are changes too; a refusal that changes nothing is none."""
        for method, path, headers in (
            ("PUT", "auto", {"If-Match": '"0-0000000000000000"'}),
            ("DELETE", "auto/versions/2", {}),
            ("DELETE", "auto", {"If-Match": "*"}),
            ("POST", "auto/versions/1/restore", ABSENT),
        ):
            waiting = self.wait()
            self.put("auto", b"three")
            self.pass_seconds(0.1)
            self.assertTrue(self.waits(waiting), path)
            self.ask(method, f"/game/saves/{path}", headers, b"two" if method == "PUT" else b"")
            self.pass_seconds(0.1)
            self.assertEqual(waiting.answer.json["saves"][0]["slot"], "auto")

    def test_commits_and_erasing(self) -> None:
        """A commit is a change, a refused one too if it kept bytes as a copy; so is erasing everything."""
        self.ask("PUT", f"/game/blobs/{digest(b'two')}", body=b"two")
        for status, method, path, headers, body in (
            (412, "POST", "commit", JSON, {"writes": [write("auto", b"two")]}),
            (200, "POST", "commit", JSON, {"writes": [write("auto", b"two", "*")]}),
            (204, "DELETE", "", None, None),
        ):
            before, waiting = self.cursor, self.wait()
            condition = headers or {"If-Match": self.ask("GET", "/game/").headers["etag"]}
            answer = self.ask(method, f"/game/{path}", condition, dumps(body).encode() if body else b"")
            self.assertEqual(answer.status, status)
            self.pass_seconds(0.1)
            self.assertNotEqual(waiting.answer.json["cursor"], before)

    def test_no_change(self) -> None:
        """A request that changes nothing causes no reads for waiting clients."""
        one, wrong, gone = digest(b"one"), {"If-Match": '"0-0000000000000000"'}, {"If-Match": '"9-0000000000000000"'}
        self.put("auto", b"copy", wrong)
        self.put("gone", b"one", ABSENT)
        self.delete("gone", {"If-Match": "*"})
        self.ask("PUT", f"/game/blobs/{one}", body=b"one")
        requests: list[tuple[int, str, str, dict[str, str], bytes]] = [
            (428, "PUT", "saves/auto", {}, b"two"),
            (412, "PUT", "saves/auto", wrong, b"copy"),
            (412, "PUT", "saves/never", wrong, b"two"),
            (200, "PUT", "saves/auto", ABSENT, b"one"),
            (412, "DELETE", "saves/auto", wrong, b""),
            (428, "DELETE", "saves/auto", {}, b""),
            (404, "DELETE", "saves/never", {"If-Match": "*"}, b""),
            (204, "DELETE", "saves/gone", {"If-Match": "*"}, b""),
            (412, "POST", "saves/auto/versions/2/restore", gone, b""),
            (200, "POST", "saves/auto/versions/1/restore", {"If-Match": "*"}, b""),
            (409, "DELETE", "saves/auto/versions/1", {}, b""),
            (404, "DELETE", "saves/auto/versions/9", {}, b""),
            (200, "POST", "commit", JSON, dumps({"writes": [write("auto", b"one", tag(1, b"one"))]}).encode()),
            (412, "POST", "commit", JSON, dumps({"writes": [write("never", b"one", tag(1, b"one"))]}).encode()),
            (412, "POST", "commit", JSON, dumps({"writes": [delete("never")]}).encode()),
            (412, "DELETE", "", {"If-Match": '"x.1"'}, b""),
            (428, "DELETE", "", {}, b""),
        ]
        for status, method, path, headers, body in requests:
            alone = self.reads_of(status, method, path, headers, body)
            waiting = self.wait()
            self.assertEqual(self.reads_of(status, method, path, headers, body), alone, (method, path, status))
            self.assertTrue(self.waits(waiting))
            waiting.leave()

    def reads_of(self, status: int, method: str, path: str, headers: dict[str, str], body: bytes) -> int:
        """Return how many reads a request caused, with those of the clients that it notified."""
        before = self.stores.reads.transactions
        answer = self.ask(method, f"/game/{path}", headers, body)
        self.assertEqual(answer.status, status, (method, path, answer.body))
        self.pass_seconds(0.1)
        return self.stores.reads.transactions - before

    def test_idle(self) -> None:
        """While a request waits and nothing changes, neither store runs a write batch."""
        waiting, writers = self.wait(), (self.stores.auth, self.stores.state)
        before = [writer.transactions for writer in writers]
        self.store_clock.pump([0.5] * 20)
        self.assertTrue(self.waits(waiting))
        self.assertEqual([writer.transactions for writer in writers], before)

    def test_time(self) -> None:
        """After its time: nothing new, the same cursor; with If-None-Match: 304."""
        cursor = self.cursor
        since, tagged = self.wait(3), self.wait(3, "", **{"If-None-Match": f'"{cursor}"'})
        self.pass_seconds(2.5)
        self.assertTrue(self.waits(since) and self.waits(tagged))
        self.pass_seconds(1)
        self.assertEqual(since.answer.json, {"cursor": cursor, "saves": []})
        self.assertEqual((tagged.answer.status, tagged.answer.headers["preference-applied"]), (304, "wait=3"))

    def test_no_longer_than_allowed(self) -> None:
        """A longer wait is reduced to the server's limit."""
        waiting = self.wait(900)
        self.pass_seconds(25.5)
        self.assertEqual(waiting.answer.headers["preference-applied"], "wait=25")
        self.browser = self.browser_for(SaveLimits(wait_seconds=0))
        self.assertNotIn("preference-applied", self.wait().answer.headers)

    def test_nothing_to_wait_for(self) -> None:
        """A client without a cursor, with an old one, or without Prefer is answered at once."""
        cursor = self.cursor
        self.assertNotIn("preference-applied", self.wait(25, "").answer.headers)
        self.put("more", b"x")
        self.assertEqual([save["slot"] for save in self.wait(25, cursor).answer.json["saves"]], ["more"])
        self.assertIs(self.wait(25, "otherepoch.1").answer.json["reset"], True)
        for odd in ("0", "-1", "x", "", "1.5", "25 5"):
            self.assertNotIn("preference-applied", self.wait(odd).answer.headers)

    def test_first_save_of_all(self) -> None:
        """A player who never saved waits for the first save."""
        self.bearer = self.sign_in(OTHER)
        waiting = self.wait()
        self.put("auto", b"one", ABSENT)
        self.pass_seconds(0.1)
        self.assertEqual(len(waiting.answer.json["saves"]), 1)

    def test_only_the_players_own(self) -> None:
        """Another player's changes do not wake a waiting client."""
        waiting, bearer = self.wait(), self.bearer
        self.bearer = self.sign_in(OTHER)
        self.put("auto", b"one", ABSENT)
        self.pass_seconds(0.1)
        self.assertTrue(self.waits(waiting))
        self.bearer = bearer

    def test_four_waiters(self) -> None:
        """Four requests of a player wait; a fifth ends the oldest, a sixth the next; other players are independent."""
        waiting = [self.wait() for _ in range(6)]
        self.pass_seconds(0.1)
        self.assertEqual([self.waits(each) for each in waiting], [False, False, True, True, True, True])
        self.assertEqual(waiting[0].answer.json["saves"], [])
        self.put("auto", b"two", {"If-Match": "*"})
        self.pass_seconds(0.1)
        self.assertEqual([len(each.answer.json["saves"]) for each in waiting], [0, 0, 1, 1, 1, 1])
        self.assertEqual((self.waits_left, len(self.waiters)), ([], 0))

    @property
    def waits_left(self) -> list[str]:
        return list(self.change_waiters._players)

    def test_disconnect(self) -> None:
        """A client that disconnects no longer counts as waiting."""
        waiting = [self.wait() for _ in range(4)]
        waiting[3].leave()
        fifth = self.wait()
        self.pass_seconds(0.1)
        self.assertTrue(all(map(self.waits, [*waiting[:3], fifth])))
        for each in (*waiting[:3], fifth):
            each.leave()
        self.assertEqual((self.waits_left, len(self.waiters)), ([], 0))

    def test_closing(self) -> None:
        """At shutdown all waiting requests are answered."""
        waiting = self.wait()
        self.waiters.close()
        self.pass_seconds(0.1)
        self.assertEqual((waiting.answer.status, waiting.answer.json["saves"]), (200, []))
        self.assertEqual(self.wait().answer.status, 200)

    def test_token_expires(self) -> None:
        """A wait that began with a live token ends as it would have."""
        waiting = self.wait()
        self.server.now_ms += 3600_000
        self.in_state(lambda c: c.execute("UPDATE player_saves SET seq = seq + 1").rowcount)
        self.change_waiters.notify(ANNA)
        self.pass_seconds(0.1)
        self.assertEqual(waiting.answer.status, 200)


class EndedTest(WaitCase):
    def test_revoked(self) -> None:
        """The end of a session ends its waits with 401; those of the player's other session continue."""
        first = self.wait()
        self.bearer = self.sign_in(ANNA)
        second = self.wait()
        end = "UPDATE session SET revoked_ms = 1 WHERE session_id = (SELECT min(session_id) FROM session)"
        self.successResultOf(self.stores.auth.submit(lambda c: c.execute(end).rowcount))
        self.change_waiters.notify(ANNA)
        self.pass_seconds(0.1)
        ended = [each for each in (first, second) if not self.waits(each)]
        self.assertEqual([(each.answer.status, each.answer.code) for each in ended], [(401, "session_revoked")])

    def test_by_a_command(self) -> None:
        """A session that another process ended, a player it blocked: noticed within a second."""
        waiting = self.wait()
        self.pass_seconds(0.6)
        self.elsewhere("auth", "UPDATE player SET state = 'blocked'")
        self.watch_clock(1)
        self.assertEqual((waiting.answer.status, waiting.answer.code), (403, "player_blocked"))

    def test_erased_by_a_command(self) -> None:
        """A player whom another process erased within one check: the wait ends, too."""
        waiting = self.wait()
        self.pass_seconds(0.6)
        self.elsewhere("auth", "DELETE FROM credential; DELETE FROM session; DELETE FROM player")
        self.watch_clock(1)
        self.assertEqual((waiting.answer.status, waiting.answer.code), (401, "token_invalid"))

    @sqlite_files("polling PostgreSQL compares the saves, too; its notifications name what changed")
    def test_ends_of_other_sessions(self) -> None:
        """Sessions of others that another process ends cause one comparison, and no read for each waiting client."""
        waits = [self.wait()]
        self.bearer = self.sign_in(OTHER)
        self.put("auto", b"one", ABSENT)
        waits += [self.wait() for _ in range(3)]
        self.watch_clock(1)
        before = self.stores.reads.transactions
        self.elsewhere("auth", f"UPDATE session SET revoked_ms = 1 WHERE player_id <> '{OTHER}'")
        self.watch_clock(1)
        self.assertEqual([self.waits(each) for each in waits], [False, True, True, True])
        self.assertEqual(self.stores.reads.transactions - before, 2)

    def test_save_of_a_command(self) -> None:
        """A change by another process is answered within a second; other players' changes wake no client."""
        waiting = self.wait()
        self.pass_seconds(0.6)
        self.elsewhere("state", "INSERT INTO player_saves (player_id, epoch) VALUES ('ply_other', 'e')")
        self.watch_clock(1)
        self.assertTrue(self.waits(waiting))
        self.elsewhere("state", "UPDATE player_saves SET seq = seq + 1; UPDATE save SET seq = seq + 1")
        self.watch_clock(1)
        self.assertEqual([save["slot"] for save in waiting.answer.json["saves"]], ["auto"])

    def elsewhere(self, file: str, script: str) -> None:
        """Open a connection as another process would."""
        queue = self.stores.auth if file == "auth" else self.stores.state
        elsewhere(queue, *script.split(";"))

    def watch_clock(self, seconds: float) -> None:
        self.store_clock.pump([0.1] * int(seconds * 10))
        self.pass_seconds(0.1)
