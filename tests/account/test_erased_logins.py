"""The transaction that begins an erasure deletes the player's logins, with what devices said about themselves."""

from gamed.account import store
from gamed.players import tables
from tests.account.page_fixtures import HOME, AccountCase
from tests.login.browser_fixtures import Game


class ErasedLoginTests(AccountCase):
    def setUp(self) -> None:
        self.serve_providers()
        self.deck = self.play_at("discord")
        self.sign_in_at("discord")

    def mark(self) -> None:
        self.assertTrue(self.server.write(lambda c: store.mark_removed(c, self.player_id, self.server.now_ms())))

    def logins(self) -> int:
        [(rows,)] = self.server.rows("SELECT count(*) FROM login")
        return int(rows)

    def test_sessions_and_links(self) -> None:
        """Logins that made a session, and links that a game or a browser has begun, are gone; others' logins stay."""
        player_id = self.player_id
        self.play_at("google", "bo")
        self.player_id, others = player_id, self.server.rows("SELECT login_id FROM login WHERE intent = 'account'")
        token = self.deck["Authorization"].removeprefix("Bearer ")
        self.assertEqual(Game(self.site, token, provider="google", intent="link").answer.status, 201)
        self.browser.post(self.browser.get(HOME).form("/link", provider="google"))
        Game(self.site, provider="discord")
        self.assertEqual(self.logins(), 6)
        self.mark()
        left = self.server.rows("SELECT l.intent, s.player_id FROM login l LEFT JOIN session s USING (session_id)")
        self.assertEqual(len(left), 3)  # Bo's, one that nobody has opened, and Anna's on the page, which names no one
        self.assertNotIn(self.player_id, [each[1] for each in left])
        self.assertEqual(self.server.rows("SELECT login_id FROM login WHERE intent = 'account'"), others)

    def test_counted(self) -> None:
        """The counts of logins by stage agree with the rows afterwards."""
        self.mark()
        [(counted,)] = self.server.rows("SELECT sum(logins) FROM login_count")
        self.assertEqual(int(counted), self.logins())

    def test_repeated(self) -> None:
        """A removal that goes on after a crash deletes a login that came meanwhile."""
        self.mark()
        self.server.write(
            lambda c: c.execute("UPDATE login SET session_id = (SELECT session_id FROM session)").rowcount
        )
        self.server.write(lambda c: store.delete_player_rows(c, store.Removal(self.player_id)))
        self.assertEqual((self.logins(), self.server.write(lambda c: tables.find_player(c, self.player_id))), (0, None))
