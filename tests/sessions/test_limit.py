"""A player has at most 100 sessions: one more sign-in ends the least recently used one."""

from itertools import pairwise

from gamed.players.tables import create_player
from gamed.sessions import tables
from gamed.sessions.credentials import MAX_SESSIONS, AuthenticatedSession, generate_pair, new_session_id
from gamed.sessions.errors import SessionRevoked, TokenInvalid
from gamed.sessions.tables import ENDED_SESSIONS, MOST_PRUNED, PRUNED_CREDENTIALS
from tests.account.page_fixtures import HOME, AccountCase
from tests.login.fixtures import ANNA, LoginCase
from tests.sessions.fixtures import POLICY, TransactionTestCase

BERT = "ply_" + "B" * 22


class LimitTests(TransactionTestCase):
    def living(self) -> set[str]:
        query = "SELECT session_id FROM session WHERE revoked_ms IS NULL"
        return {session_id for (session_id,) in self.auth.connection.execute(query)}

    def count(self, table: str) -> int:
        [(rows,)] = self.auth.connection.execute(f"SELECT count(*) FROM {table}").fetchall()
        return int(rows)

    def test_least_recently_used_ends(self) -> None:
        """The 101st session ends the one that was not refreshed for longest, not the oldest one."""
        self.auth.wait(1)
        second, pair = self.auth.sign_in()
        for _ in range(MAX_SESSIONS - 2):
            self.auth.wait(1)
            self.auth.sign_in()
        self.use(self.rotated(self.first.refresh).access)
        self.assertEqual(len(self.living()), MAX_SESSIONS)
        newest, _ = self.auth.sign_in()
        self.assertEqual(len(self.living()), MAX_SESSIONS)
        self.assertTrue({self.session_id, newest} < self.living())
        self.assertNotIn(second, self.living())
        self.assertRaises(SessionRevoked, self.authenticate, pair.access)

    def test_expired_sessions_do_not_count(self) -> None:
        """A session that has expired takes no other's place."""
        self.auth.wait(POLICY.refresh_seconds * 1000)
        for _ in range(MAX_SESSIONS):
            self.auth.sign_in()
        self.assertEqual(len(self.living()), MAX_SESSIONS + 1)

    def test_rows_are_bounded(self) -> None:
        """However often a player signs in, few rows are left, those of the sessions that ended last."""
        pairs = []
        for _ in range(3 * MAX_SESSIONS):
            self.auth.wait(1)
            pairs.append(self.auth.sign_in()[1])
        self.assertEqual((len(self.living()), len(self.auth.rows("session"))), (100, MAX_SESSIONS + ENDED_SESSIONS))
        self.assertEqual(len(self.auth.rows("credential")), 2 * (MAX_SESSIONS + ENDED_SESSIONS))
        self.assertRaises(TokenInvalid, self.authenticate, pairs[98].access)
        self.assertRaises(SessionRevoked, self.authenticate, pairs[100].access)
        self.assertIsInstance(self.authenticate(pairs[200].access), AuthenticatedSession)

    def test_many_credentials(self) -> None:
        """An old session with very many credentials is deleted by several sign-ins, and leaves none of them."""
        credential = self.first.refresh
        for _ in range(2 * PRUNED_CREDENTIALS):
            self.auth.wait(1)
            credential = self.rotated(credential).refresh
        for number in range(MAX_SESSIONS + ENDED_SESSIONS + 3):
            self.auth.wait(1)
            self.auth.sign_in()
            rows = [row for row in self.auth.rows("credential") if self.session_id in row]
            self.assertEqual(bool(rows), number < MAX_SESSIONS + ENDED_SESSIONS + 1, number)
        self.assertEqual(len(self.auth.rows("session")), MAX_SESSIONS + ENDED_SESSIONS)

    def test_much_refreshed_sessions(self) -> None:
        """Sessions with more credentials than a sign-in deletes do not pile up, and no sign-in deletes many."""
        refreshed, kept = 30, MAX_SESSIONS + ENDED_SESSIONS
        for number in range(kept + refreshed):
            self.auth.wait(1)
            before = self.count("credential")
            credential = self.auth.sign_in()[1].refresh
            deleted = before + 2 - self.count("credential")
            self.assertLessEqual(deleted, MOST_PRUNED + 2)
            self.assertLessEqual(self.count("session"), kept + 3)
            for _ in range(PRUNED_CREDENTIALS * 3 // 4 if number < refreshed else 0):
                credential = self.rotated(credential).refresh

    def test_many_ended_sessions(self) -> None:
        """Very many rows of ended sessions are deleted in parts, each by one sign-in."""
        columns = "player_id, login_id, provider, client, created_ms, last_used_ms, generation, rotated_ms, used"
        expiry = "expires_ms, expiry_day, tick"
        insert = f"""
            INSERT INTO session (session_id, {columns}, {expiry}, revoked_ms)
            SELECT :session_id, {columns}, {expiry}, 1 FROM session WHERE session_id = :first
        """
        for number in range(3 * MOST_PRUNED):
            values = {"session_id": f"ses_{number:022}", "first": self.session_id}
            self.auth.connection.execute(insert, values)
        left = [self.count("session")]
        while left[-1] > ENDED_SESSIONS + MAX_SESSIONS and len(left) < 20:
            self.auth.wait(1)
            self.auth.sign_in()
            left.append(self.count("session"))
        self.assertLessEqual(max(before + 1 - after for before, after in pairwise(left)), MOST_PRUNED)
        self.assertGreater(len(left), 3)
        self.assertLess(len(left), 20)


class SignInTests(LoginCase):
    """Complete sign-ins, on the store under test."""

    def setUp(self) -> None:
        self.server = self.local_server()
        self.sessions = [self.open(ANNA) for _ in range(MAX_SESSIONS)]
        self.server.write(lambda c: create_player(c, BERT, self.server.now_ms()))
        self.other = self.open(BERT)

    def open(self, player_id: str) -> str:
        server = self.server
        now_ms, session_id = server.now_ms(), new_session_id(server.random)
        pair = generate_pair(server.random, now_ms, server.terms.session, now_ms)
        values = {"session_id": session_id, "player_id": player_id, "provider": "local", "client": "{}"}
        server.write(lambda c: tables.open_session(c, server.keys, **values, login_id=None, pair=pair, now_ms=now_ms))
        server.clock.advance(1)  # so that the next session is a later one, also one of a sign-in
        return session_id

    def living(self) -> list[str]:
        query = "SELECT session_id FROM session WHERE revoked_ms IS NULL ORDER BY created_ms"
        return [session_id for (session_id,) in self.server.rows(query)]

    def test_sign_in(self) -> None:
        """A sign-in beyond the limit ends one session of this player, logs it and wakes the player's long polls."""
        server, started = self.server, self.server.start()
        server.open_link(started)
        server.sign_in(started)
        complete = server.collect(started, code=(code := server.code(started)))
        self.assertEqual(self.living(), [*self.sessions[1:], self.other, complete.login.session_id])
        self.assertEqual(server.security[-1], f"session_limit_reached player={ANNA} session={self.sessions[0]}")
        self.assertEqual(server.revoked, [ANNA])
        server.collect(started, code=code)
        self.assertEqual((len(self.living()), len(server.revoked)), (MAX_SESSIONS + 1, 1))

    def test_uncollected_result(self) -> None:
        """A session that ends before its game has used it takes its stored credentials along."""
        server, started = self.server, self.server.start()
        server.open_link(started)
        server.sign_in(started)
        server.collect(started, code=server.code(started))
        for _ in range(MAX_SESSIONS):
            self.open(ANNA)
        self.assertEqual(server.rows("SELECT stage, sealed_result FROM login"), [("collected", None)])


class PageTests(AccountCase):
    def test_browsers(self) -> None:
        """The 101st browser that signs in on the page ends the one that was used least recently, and logs it."""
        first = self.new_account_browser()
        first.sign_in()
        [(session_id,)] = self.server.rows("SELECT session_id FROM browser_session")
        for _ in range(MAX_SESSIONS):
            self.server.clock.advance(12)
            (last := self.new_account_browser()).sign_in()
        self.assertEqual(self.server.rows("SELECT count(*) FROM browser_session"), [(MAX_SESSIONS,)])
        limits = [line for line in self.server.security if line.startswith("session_limit_reached")]
        self.assertEqual(limits, [f"session_limit_reached player={ANNA} session={session_id}"])
        self.assertEqual(first.get(HOME).forms[0]["action"], f"{HOME}/sign-in")
        self.assertIn("/sign-out", last.get(HOME).forms[0]["action"])
