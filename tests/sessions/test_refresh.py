"""The refresh table works row by row in a real auth.db (docs/internals/rules.md: Refreshes)."""

from msgspec.structs import replace

from gamed.players import tables as player_tables
from gamed.sessions import store as session_store
from gamed.sessions import tables as session_tables
from gamed.sessions.credentials import AuthenticatedSession, CredentialIssuer, Refreshed, RefreshRejected, SessionPolicy
from gamed.sessions.errors import (
    PlayerBlocked,
    RefreshExpired,
    RefreshInvalid,
    RefreshReused,
    SessionRevoked,
    TokenExpired,
)
from tests.sessions.fixtures import ANNA, DAY_MS, NOW_MS, POLICY, SECOND_MS, STRANGER, TransactionTestCase
from tests.support.covers import covers
from tests.support.stores import dump


class RefreshTests(TransactionTestCase):
    """One test per row of the table of refreshes in docs/internals/rules.md."""

    def test_current(self) -> None:
        """The current credential gets a new pair of the same session; expiry slides with it."""
        self.auth.wait(DAY_MS)
        outcome = self.refresh(self.first.refresh)
        assert isinstance(outcome, Refreshed)
        self.assertEqual(outcome.session_id, self.session_id)
        self.assertFalse(outcome.pair.refresh.matches(self.first.refresh))
        self.assertEqual(outcome.pair.refresh_expires_ms, self.auth.now_ms + 30 * DAY_MS)
        self.assertEqual(
            self.authenticate(outcome.pair.access), AuthenticatedSession(ANNA, self.session_id, False, NOW_MS, 2)
        )
        [listed] = session_tables.list_sessions(self.auth.connection, ANNA, self.auth.now_ms)
        self.assertEqual((listed.last_used_ms, listed.expires_ms), (self.auth.now_ms, self.auth.now_ms + 30 * DAY_MS))

    def test_predecessor_while_unused(self) -> None:
        """The same successor is returned, however late, and no row changes."""
        second = self.rotated(self.first.refresh)
        for wait_ms in (0, 31 * SECOND_MS, 800 * SECOND_MS):
            self.auth.wait(wait_ms)
            self.assert_changes_nothing(lambda: self.assert_same(self.rotated(self.first.refresh), second))

    def test_predecessor_while_unused_access_expired(self) -> None:
        """Days later the successor's expired access token is replaced; the refresh credential and its expiry stay."""
        second = self.rotated(self.first.refresh)
        self.auth.wait(20 * DAY_MS)
        again = self.rotated(self.first.refresh)
        self.assertTrue(again.refresh.matches(second.refresh))
        self.assertEqual(again.refresh_expires_ms, second.refresh_expires_ms)
        self.assertEqual(again.access_expires_ms, self.auth.now_ms + 900 * SECOND_MS)
        self.assert_same(self.rotated(self.first.refresh), again)
        self.assertEqual(self.use(again.access).first_use_of, 2)
        self.auth.wait(31 * SECOND_MS)
        self.assertEqual(self.refresh(self.first.refresh), RefreshRejected(RefreshReused, ANNA, self.session_id))

    def test_access_expires_at_its_instant(self) -> None:
        """One millisecond before its expiry the sealed access token is repeated, at its expiry replaced."""
        second = self.rotated(self.first.refresh)
        self.auth.now_ms = second.access_expires_ms - 1
        self.assert_same(self.rotated(self.first.refresh), second)
        self.auth.wait(1)
        self.assertFalse(self.rotated(self.first.refresh).access.matches(second.access))

    def test_predecessor_soon_after_use(self) -> None:
        """Within 30 seconds of the first rotation the used successor is returned once more."""
        second = self.rotated(self.first.refresh)
        self.use(second.access)
        self.auth.wait(30 * SECOND_MS)
        self.assert_same(self.rotated(self.first.refresh), second)

    def test_predecessor_later(self) -> None:
        """After these 30 seconds the session ends, for every holder of a credential."""
        second = self.rotated(self.first.refresh)
        self.use(second.access)
        self.auth.wait(30 * SECOND_MS + 1)
        self.assertEqual(self.refresh(self.first.refresh), RefreshRejected(RefreshReused, ANNA, self.session_id))
        self.assertEqual(self.refresh(second.refresh), RefreshRejected(SessionRevoked))
        self.assertEqual(self.refresh(self.first.refresh), RefreshRejected(SessionRevoked))
        self.assertRaises(SessionRevoked, self.authenticate, second.access)
        self.assertRaises(SessionRevoked, self.authenticate, self.first.access)

    def test_the_window_does_not_slide(self) -> None:
        """The 30 seconds count from the first delivery, however often the successor was repeated."""
        second = self.rotated(self.first.refresh)
        self.use(second.access)
        for _ in range(3):
            self.auth.wait(10 * SECOND_MS)
            self.assert_same(self.rotated(self.first.refresh), second)
        self.auth.wait(1)
        self.assertEqual(self.refresh(self.first.refresh), RefreshRejected(RefreshReused, ANNA, self.session_id))

    def test_older(self) -> None:
        """A credential from two rotations ago ends the session at once, until its own expiry, whatever was used."""
        second = self.rotated(self.first.refresh)
        third = self.rotated(second.refresh)
        self.assertEqual(self.refresh(self.first.refresh), RefreshRejected(RefreshReused, ANNA, self.session_id))
        self.assertEqual(self.refresh(third.refresh), RefreshRejected(SessionRevoked))

    def test_older_and_expired(self) -> None:
        """An old copy that has expired does not end the session."""
        self.auth.wait(29 * DAY_MS)
        third = self.rotated(self.rotated(self.first.refresh).refresh)
        self.auth.wait(DAY_MS)
        self.assert_changes_nothing(
            lambda: self.assertEqual(self.refresh(self.first.refresh), RefreshRejected(RefreshExpired))
        )
        self.rotated(third.refresh)

    def test_expired(self) -> None:
        """A credential is rejected at its expiry, not before."""
        self.auth.now_ms = self.first.refresh_expires_ms
        self.assert_changes_nothing(
            lambda: self.assertEqual(self.refresh(self.first.refresh), RefreshRejected(RefreshExpired))
        )
        self.auth.wait(-1)
        self.rotated(self.first.refresh)

    def test_unknown(self) -> None:
        """A well-formed credential that this server never issued is rejected."""
        self.assert_changes_nothing(lambda: self.assertEqual(self.refresh(STRANGER), RefreshRejected(RefreshInvalid)))

    def test_revoked(self) -> None:
        """Credentials of an ended session are rejected as revoked, expired ones included."""
        session_tables.revoke(self.auth.connection, self.session_id, self.auth.now_ms)
        for _ in range(2):
            self.assert_changes_nothing(
                lambda: self.assertEqual(self.refresh(self.first.refresh), RefreshRejected(SessionRevoked))
            )
            self.auth.wait(31 * DAY_MS)

    def test_presenting_the_current_one_is_a_use(self) -> None:
        """A successor counts as used once its refresh credential was sent, even if its access token never was."""
        second = self.rotated(self.first.refresh)
        self.rotated(second.refresh)
        self.assertEqual(self.refresh(self.first.refresh), RefreshRejected(RefreshReused, ANNA, self.session_id))

    def test_access_of_the_predecessor_is_no_use(self) -> None:
        """Old access tokens live on after a rotation and do not mark the successor."""
        second = self.rotated(self.first.refresh)
        self.assertIsNone(self.use(self.first.access).first_use_of)
        self.auth.wait(31 * SECOND_MS)
        self.assert_same(self.rotated(self.first.refresh), second)

    def test_blocked(self) -> None:
        """A blocked player's credential is rejected and unchanged: it works again when the block is lifted."""
        second = self.rotated(self.first.refresh)
        for state in ("blocked", "pending"):
            player_tables.set_state(self.auth.connection, ANNA, state)  # type: ignore[arg-type]
            for credential in (self.first.refresh, second.refresh):
                self.assert_changes_nothing(
                    lambda credential=credential: self.assertEqual(
                        self.refresh(credential), RefreshRejected(PlayerBlocked)
                    )
                )
        player_tables.set_state(self.auth.connection, ANNA, "active")
        self.assert_same(self.rotated(self.first.refresh), second)

    @covers("threats/25")
    def test_blocked_and_stolen(self) -> None:
        """A reused credential ends the session, blocked or not."""
        self.rotated(self.rotated(self.first.refresh).refresh)
        player_tables.set_state(self.auth.connection, ANNA, "blocked")
        self.assertEqual(self.refresh(self.first.refresh), RefreshRejected(RefreshReused, ANNA, self.session_id))

    def test_erasing(self) -> None:
        """While a player is erased their credentials are those of an ended session."""
        player_tables.set_state(self.auth.connection, ANNA, "erasing")
        self.assertEqual(self.refresh(self.first.refresh), RefreshRejected(SessionRevoked))
        self.assertRaises(SessionRevoked, self.authenticate, self.first.access)

    @covers("2.2/11", "threats/47")
    def test_nothing_in_clear(self) -> None:
        """No credential, current or retained for a repetition, is stored unsealed."""
        pairs = [self.first, self.rotated(self.first.refresh)]
        written = dump(self.auth.connection).encode()
        for secret in (secret for pair in pairs for secret in (pair.access, pair.refresh)):
            for form in (secret.reveal(), secret.reveal()[4:47]):
                self.assertNotIn(form, written)
                self.assertNotIn(form.hex().upper().encode(), written)


class GreatestAgeTests(TransactionTestCase):
    """`session.max_lifetime`."""

    policy = replace(POLICY, max_lifetime_seconds=40 * 24 * 3600)

    def test_cap(self) -> None:
        """A refresh extends expiries up to the maximum age and not further, access tokens included."""
        self.auth.wait(20 * DAY_MS)
        second = self.rotated(self.first.refresh)
        self.assertEqual(second.refresh_expires_ms, NOW_MS + 40 * DAY_MS)
        self.auth.now_ms = NOW_MS + 40 * DAY_MS - 1000
        third = self.rotated(second.refresh)
        self.assertEqual(third.access_expires_ms, NOW_MS + 40 * DAY_MS)
        self.auth.wait(1000)
        self.assertEqual(self.refresh(third.refresh), RefreshRejected(RefreshExpired))
        self.assertRaises(TokenExpired, self.authenticate, third.access)

    def test_lowered(self) -> None:
        """A maximum age that the owner lowers applies to credentials that were issued before."""
        self.auth.wait(2 * DAY_MS)
        lowered = CredentialIssuer(
            keys=self.auth.keys, policy=SessionPolicy(900, 3600, 24 * 3600), random=self.auth.random
        )
        outcome = session_store.refresh(self.auth.connection, lowered, self.first.refresh, self.auth.now_ms)
        self.assertEqual(outcome, RefreshRejected(RefreshExpired))
