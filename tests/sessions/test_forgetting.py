"""What a sweep of the session tables takes, and what it must leave."""

from gamed.sessions import store as session_store
from gamed.sessions import tables as session_tables
from gamed.sessions.errors import (
    RefreshExpired,
    RefreshInvalid,
    RefreshReused,
    SessionRevoked,
    TokenInvalid,
)
from gamed.sessions.rotation import RefreshRejected
from tests.sessions.fixtures import ANNA, DAY_MS, SECOND_MS, DeskCase


class ForgetTests(DeskCase):
    """What a sweep takes."""

    def forget(self, rows: int = 1000) -> int:
        return session_store.delete_old_sessions(self.desk.connection, self.desk.now_ms, rows)

    def test_nothing_live(self) -> None:
        """Nothing that still means something goes: a successor for a late predecessor, a copy that would tell."""
        second = self.rotated(self.first.refresh)
        self.desk.wait(899 * SECOND_MS)
        self.assert_changes_nothing(self.forget)
        self.assert_same(self.rotated(self.first.refresh), second)

    def test_in_order(self) -> None:
        """The used successor, then dead access tokens, at last the session with its credentials."""
        second = self.rotated(self.first.refresh)
        self.use(second.access)
        self.desk.wait(60 * SECOND_MS)
        self.assertEqual(self.forget(), 0)
        self.desk.wait(1)
        self.assertEqual(self.forget(), 1)
        self.desk.wait(DAY_MS + 900 * SECOND_MS)
        self.assertEqual(self.forget(), 2)
        self.assertRaises(TokenInvalid, self.authenticate, self.first.access)
        self.rotated(second.refresh)
        self.desk.wait(37 * DAY_MS + 1)
        self.assertEqual(self.forget(), 5)
        self.assertEqual(
            [self.desk.rows(table) for table in ("session", "access_token", "refresh_credential")], [[]] * 3
        )

    def test_kept_a_while(self) -> None:
        """For a week an expired credential is told that it expired, an ended session that it ended."""
        ended_id, ended = self.desk.sign_in()
        session_tables.revoke(self.desk.connection, ended_id, self.desk.now_ms)
        self.desk.wait(37 * DAY_MS)
        self.forget()
        self.assertEqual(self.refresh(self.first.refresh), RefreshRejected(RefreshExpired))
        self.assertEqual(self.refresh(ended.refresh), RefreshRejected(SessionRevoked))
        self.desk.wait(1)
        self.forget()
        self.assertEqual(self.refresh(self.first.refresh), RefreshRejected(RefreshInvalid))

    def test_clock_set_back(self) -> None:
        """A successor that was forgotten after its 30 seconds is not missed when the clock goes back: still reuse."""
        self.use(self.rotated(self.first.refresh).access)
        self.desk.wait(61 * SECOND_MS)
        self.forget()
        self.desk.wait(-50 * SECOND_MS)
        self.assertEqual(self.refresh(self.first.refresh), RefreshRejected(RefreshReused, ANNA))

    def test_small_batches(self) -> None:
        """No unit takes more rows than it may, and repeating it takes all."""
        for _ in range(20):
            self.desk.sign_in()
        self.desk.wait(60 * DAY_MS)
        taken = []
        while rows := self.forget(7):
            taken.append(rows)
        self.assertEqual((max(taken), sum(taken)), (7, 63))
        self.assertEqual(self.desk.rows("session"), [])

    def test_bounded(self) -> None:
        """A player who refreshes every day for a year leaves what 38 days leave."""
        pair, sizes = self.first, []
        for _ in range(365):
            self.desk.wait(DAY_MS)
            pair = self.rotated(pair.refresh)
            self.use(pair.access)
            self.forget()
            sizes.append(len(self.desk.rows("refresh_credential")))
        self.assertEqual(max(sizes), max(sizes[:40]))
        self.assertLessEqual(len(self.desk.rows("access_token")), 3)
