"""The cleanup of the session tables deletes old rows only."""

from gamed.sessions import store as session_store
from gamed.sessions import tables as session_tables
from gamed.sessions.credentials import RefreshRejected
from gamed.sessions.errors import (
    RefreshExpired,
    RefreshInvalid,
    RefreshReused,
    SessionRevoked,
    TokenInvalid,
)
from tests.sessions.fixtures import ANNA, DAY_MS, SECOND_MS, TransactionTestCase


class CleanupTests(TransactionTestCase):
    """Rows that a cleanup deletes, in order."""

    def clean_up(self, rows: int = 1000) -> int:
        return session_store.delete_old_sessions(self.auth.connection, self.auth.now_ms, rows)

    def test_nothing_live(self) -> None:
        """A successor that may be repeated is not deleted, nor a credential whose reuse would be detected."""
        second = self.rotated(self.first.refresh)
        self.auth.wait(899 * SECOND_MS)
        self.assert_changes_nothing(self.clean_up)
        self.assert_same(self.rotated(self.first.refresh), second)

    def test_in_order(self) -> None:
        """First the used successor is deleted, then expired access tokens, at last the session with its credentials."""
        second = self.rotated(self.first.refresh)
        self.use(second.access)
        self.auth.wait(60 * SECOND_MS)
        self.assertEqual(self.clean_up(), 0)
        self.auth.wait(1)
        self.assertEqual(self.clean_up(), 1)
        self.auth.wait(DAY_MS + 900 * SECOND_MS)
        self.assertEqual(self.clean_up(), 2)
        self.assertRaises(TokenInvalid, self.authenticate, self.first.access)
        self.rotated(second.refresh)
        self.auth.wait(37 * DAY_MS + 1)
        self.assertEqual(self.clean_up(), 5)
        self.assertEqual([self.auth.rows(table) for table in ("session", "credential")], [[]] * 2)

    def test_kept_a_while(self) -> None:
        """For a week an expired credential is rejected as expired, and one of an ended session as revoked."""
        ended_id, ended = self.auth.sign_in()
        session_tables.revoke(self.auth.connection, ended_id, self.auth.now_ms)
        self.auth.wait(37 * DAY_MS)
        self.clean_up()
        self.assertEqual(self.refresh(self.first.refresh), RefreshRejected(RefreshExpired))
        self.assertEqual(self.refresh(ended.refresh), RefreshRejected(SessionRevoked))
        self.auth.wait(1)
        self.clean_up()
        self.assertEqual(self.refresh(self.first.refresh), RefreshRejected(RefreshInvalid))

    def test_clock_set_back(self) -> None:
        """A successor that was deleted after its 30 seconds stays reused when the clock is set back."""
        self.use(self.rotated(self.first.refresh).access)
        self.auth.wait(61 * SECOND_MS)
        self.clean_up()
        self.auth.wait(-50 * SECOND_MS)
        self.assertEqual(self.refresh(self.first.refresh), RefreshRejected(RefreshReused, ANNA, self.session_id))

    def test_small_batches(self) -> None:
        """No transaction deletes more rows than it may, and repeating it deletes all."""
        for _ in range(20):
            self.auth.sign_in()
        self.auth.wait(60 * DAY_MS)
        deleted = []
        while rows := self.clean_up(7):
            deleted.append(rows)
        self.assertEqual((max(deleted), sum(deleted)), (7, 63))
        self.assertEqual(self.auth.rows("session"), [])

    def test_bounded(self) -> None:
        """A player who refreshes every day for a year has as many rows as after 38 days."""
        pair, sizes = self.first, []
        for _ in range(365):
            self.auth.wait(DAY_MS)
            pair = self.rotated(pair.refresh)
            self.use(pair.access)
            self.clean_up()
            sizes.append(len(self.auth.rows("credential WHERE refreshes = 1")))
        self.assertEqual(max(sizes), max(sizes[:40]))
        self.assertLessEqual(len(self.auth.rows("credential WHERE refreshes = 0")), 3)
