"""The tokens that a process knows: bounded, by their index, and forgotten with their session."""

from twisted.trial.unittest import SynchronousTestCase

from gamed.crypto import Index, Secret, TokenType, generate_token
from gamed.sessions.credentials import LogoutScope
from gamed.sessions.recent import PAUSE_MS, RECENT_MS, RecentToken, RecentTokens, digest_of
from tests.sessions.fixtures import ANNA, BERT, NOW_MS
from tests.sessions.server import SessionTestCase, text


def token(number: int) -> Secret:
    return generate_token(TokenType.ACCESS_TOKEN, number.to_bytes(32, "big"))


def recent(number: int, player_id: str = ANNA, session: int | None = None) -> RecentToken:
    session_id = f"ses_{number if session is None else session}"
    return RecentToken(digest_of(token(number)), (number, Index(bytes(32))), session_id, player_id, "0", NOW_MS)


class RecentTokensTest(SynchronousTestCase):
    def test_bounded(self) -> None:
        """No more sessions than the limit are kept; the one that was added first makes room."""
        tokens = RecentTokens(100)
        for number in range(250):
            tokens.add(recent(number))
        self.assertEqual((len(tokens), len(tokens._tokens)), (100, 100))
        self.assertIsNone(tokens.find(token(149), NOW_MS))
        self.assertIsNotNone(tokens.find(token(150), NOW_MS))

    def test_one_of_a_session(self) -> None:
        """A session has one token, the last one."""
        tokens = RecentTokens()
        tokens.add(recent(1, session=1))
        tokens.add(recent(2, session=1))
        self.assertIsNone(tokens.find(token(1), NOW_MS))
        self.assertIsNotNone(tokens.find(token(2), NOW_MS))
        self.assertEqual((len(tokens), len(tokens._tokens)), (1, 1))

    def test_some_minutes(self) -> None:
        """A token is known for some minutes, and not before it was seen if the clock was set back."""
        tokens = RecentTokens()
        tokens.add(recent(1))
        for now_ms, known in ((NOW_MS - 1, False), (NOW_MS + RECENT_MS - 1, True), (NOW_MS + RECENT_MS, False)):
            self.assertEqual(tokens.find(token(1), now_ms) is not None, known)

    def test_none(self) -> None:
        """With a limit of 0, none is kept."""
        tokens = RecentTokens(0)
        tokens.add(recent(1))
        self.assertEqual((len(tokens), tokens.find(token(1), NOW_MS)), (0, None))

    def test_forgotten(self) -> None:
        """The end of a session forgets the tokens of its player, and is passed on."""
        tokens, heard = RecentTokens(), list[str]()
        for number in range(10):
            tokens.add(recent(number, BERT if number % 2 else ANNA))
        tokens.forgetting(heard.append)(BERT)
        self.assertEqual((heard, len(tokens)), ([BERT], 5))
        tokens.forget("ses_0")
        tokens.forget("ses_0")
        self.assertEqual((len(tokens), len(tokens._tokens)), (4, 4))

    def test_paused(self) -> None:
        """During a pause no token is found; it ends by itself, after a resume(), or if the clock was set back."""
        tokens = RecentTokens()
        tokens.add(recent(1))
        self.assertEqual([tokens.pause(NOW_MS), tokens.pause(NOW_MS)], [True, False])
        for now_ms, known in ((NOW_MS, False), (NOW_MS + PAUSE_MS - 1, False), (NOW_MS + PAUSE_MS, True)):
            self.assertEqual(tokens.find(token(1), now_ms) is not None, known)
        tokens.pause(NOW_MS + 1)
        self.assertIsNotNone(tokens.find(token(1), NOW_MS))
        tokens.resume()
        self.assertIsNotNone(tokens.find(token(1), NOW_MS + 1))
        self.assertTrue(tokens.pause(NOW_MS))

    def test_left_out(self) -> None:
        """In a context, or two at a time, no token of a player is kept; those of others are."""
        tokens = RecentTokens()
        for number, player_id in enumerate((ANNA, BERT)):
            tokens.add(recent(number, player_id))
        with tokens.without(ANNA):
            with tokens.without(ANNA):
                self.assertEqual(len(tokens), 1)
            tokens.add(recent(2))
            tokens.add(recent(3, BERT))
            self.assertEqual((len(tokens), tokens.find(token(2), NOW_MS)), (2, None))
        tokens.add(recent(2))
        self.assertEqual((len(tokens), tokens._left_out), (3, {}))


class ServiceTest(SessionTestCase):
    """The tokens that the service of sessions knows."""

    def remember(self) -> Secret:
        """Use the token, let the service know it, and return it."""
        access = self.pair.access
        caller = self.wait(self.sessions.authenticate(text(access)))
        self.sessions.remember(access, caller, "0", 0)
        self.assertEqual(self.sessions.find_recent(access).player_id, ANNA)  # type: ignore[union-attr]
        return access

    def test_no_token(self) -> None:
        """Neither the token nor a part of it is kept."""
        secret = text(self.remember())
        [kept] = self.sessions.recent._sessions.values()
        values = [getattr(kept, name) for name in kept.__struct_fields__]
        self.assertNotIn(secret[-8:], repr(values))
        self.assertNotIn(secret.encode()[-8:], kept.key[1] + kept.digest)
        self.assertNotIn(str(kept.key[0]), repr(kept))

    def test_revoked(self) -> None:
        """A sign-out forgets it."""
        access = self.remember()
        self.wait(self.sessions.log_out(text(access), None, LogoutScope.THIS))
        self.assertIsNone(self.sessions.find_recent(access))
        self.assertEqual(self.server.revoked, [ANNA])
