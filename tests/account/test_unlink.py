"""Unlinking a way to sign in ends the sessions that it opened, those of games and of browsers."""

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from gamed.account import sentences
from gamed.crypto import Index
from gamed.players import tables
from gamed.players.names import SignInMethod, SignInMethods, names_of_others
from tests.account.page_fixtures import HOME, AccountBrowser, AccountCase, _code
from tests.login.browser_fixtures import Game, Page

ONE, TWO = Index(b"1" * 32), Index(b"2" * 32)


class UnlinkCase(AccountCase):
    """A player with Discord and Google, and a game and a browser that signed in with each."""

    def setUp(self) -> None:
        self.serve_providers()
        self.deck = self.play_at("discord")
        self.home = self.sign_in_at("discord")
        away = self.browser.post(self.home.form("/link", provider="google"))
        self.home = self.browser.get(self.at_provider(away))
        player_id = self.player_id
        self.pad = self.play_at("google")
        self.assertEqual(self.player_id, player_id)
        self.google = self.new_account_browser()
        self.google_home = self.sign_in_at("google", browser=self.google)

    def unlink(self, game: dict[str, str], provider: str = "google") -> int:
        return self.site.request("DELETE", f"/auth/identities/{provider}", game).status

    def code(self, game: dict[str, str]) -> str | None:
        """Return the problem code of a game's next request, None if it is answered."""
        answer = self.site.request("GET", "/auth/sessions", game)
        return None if answer.status == 200 else answer.code

    def ready(self, provider: str = "google", person: str = "anna", token: str | None = None) -> tuple[Game, str]:
        """Sign in from a game up to the finish code; with a token, to link."""
        intent = {} if token is None else {"intent": "link"}
        game, browser = Game(self.site, token, provider=provider, **intent), self.new_browser()
        return game, _code(self.signed_in(browser, game.url, person))

    def signed_in_browser(self, browser: AccountBrowser) -> bool:
        return any(form["action"].endswith("/do/sign-out") for form in browser.get(HOME).forms)


class ApiTests(UnlinkCase):
    def test_other_session(self) -> None:
        """The game and the browser that signed in with the unlinked account are signed out, all others stay."""
        self.assertEqual(self.unlink(self.deck), 204)
        self.assertEqual((self.code(self.deck), self.code(self.pad)), (None, "session_revoked"))
        self.assertEqual([self.signed_in_browser(each) for each in (self.browser, self.google)], [True, False])
        line = f"identity_unlinked player={self.player_id} provider=google sessions=2"
        self.assertEqual(self.server.security[-1], line)

    def test_own_session(self) -> None:
        """A game may unlink the account it signed in with: it gets its answer, and is signed out afterwards."""
        self.assertEqual(self.unlink(self.pad), 204)
        self.assertEqual((self.code(self.pad), self.code(self.deck)), ("session_revoked", None))

    def test_refused(self) -> None:
        """The last account stays, and with it its sessions."""
        self.assertEqual([self.unlink(self.deck), self.unlink(self.deck, "discord")], [204, 409])
        self.assertIsNone(self.code(self.deck))

    def test_waiting_game(self) -> None:
        """A game that waits for changes gets its answer at once."""
        cursor = self.site.request("GET", "/game/", self.pad).json["cursor"]
        waiting = self.site.send("GET", f"/game/saves?since={cursor}", {**self.pad, "Prefer": "wait=25"})
        self.assertEqual(waiting.answers, [])
        self.unlink(self.deck)
        self.assertEqual((waiting.answer.status, waiting.answer.code), (401, "session_revoked"))

    def test_refresh(self) -> None:
        """The refresh credential of an ended session is refused."""
        game, code = self.ready()
        collected = game.collect(finish_code=code).json
        self.unlink(self.deck)
        sent = {"refresh_credential": collected["refresh_credential"]}
        answer = self.site.post_json("/auth/session/refresh", sent)
        self.assertEqual((answer.status, answer.code), (401, "session_revoked"))

    def test_uncollected_credentials(self) -> None:
        """Credentials that a game could still repeat are void, and nothing of them is stored."""
        game, code = self.ready()
        collected = game.collect(finish_code=code).json
        self.unlink(self.deck)
        self.assertEqual(game.collect().code, "login_collected")
        self.assertEqual(self.code({"Authorization": f"Bearer {collected['access_token']}"}), "session_revoked")
        self.assertEqual(self.server.rows("SELECT count(*) FROM login WHERE sealed_result IS NOT NULL"), [(0,)])

    def test_sign_in_under_way(self) -> None:
        """A sign-in with the account that is finished after the unlinking does not sign in as this player."""
        game, code = self.ready()
        self.unlink(self.deck)
        player = game.collect(finish_code=code).json["player"]
        self.assertTrue(player["created"])
        self.assertNotEqual(player["id"], self.player_id)

    def test_link_under_way(self) -> None:
        """A link that an ended session had begun links nothing, in a game as on the page."""
        server = self.server
        server.write(lambda c: tables.unlink(c, self.player_id, "discord"))
        game, code = self.ready("discord", "bo", self.pad["Authorization"].removeprefix("Bearer "))
        away = self.google.post(self.google.get(HOME).form("/link", provider="discord"))
        back = self.at_provider(away, "bo")
        other, other_code = self.ready("discord", "anna", self.deck["Authorization"].removeprefix("Bearer "))
        self.assertEqual(other.collect(finish_code=other_code).json["linked"], {"provider": "discord"})
        self.assertEqual(self.unlink(self.deck, "google"), 204)
        self.assertEqual(game.collect(finish_code=code).json["problem"]["code"], "session_revoked")
        self.assertIn("You were signed out in the meantime", self.google.get(back).text)
        query = f"SELECT provider FROM identity WHERE player_id = '{self.player_id}'"
        self.assertEqual(server.rows(query), [("discord",)])


class PageTests(UnlinkCase):
    def test_other_way(self) -> None:
        """The page of a browser that signed in otherwise says what ended."""
        self.assertIn("Unlinking signs out all games and browsers that signed in that way.", self.home.text)
        page = self.browser.post(self.home.form("/unlink", provider="google"))
        self.assertIn(sentences.NOTICES["unlinked"].source, page.text)
        self.assertEqual((self.code(self.deck), self.code(self.pad)), (None, "session_revoked"))
        self.assertFalse(self.signed_in_browser(self.google))

    def test_own_way(self) -> None:
        """The page says that this browser is signed out, too, and its cookie is void."""
        cookies = dict(self.google.cookies)
        page = self.google.post(self.google_home.form("/unlink", provider="google"))
        self.assertEqual((page.status, page.heading), (200, "It is unlinked"))
        self.assertIn(
            "You had signed in with it here, so you are signed out of this page, too.",
            page.text,
        )
        self.assertIsNone(self.google.token)
        self.assertEqual(self.code(self.pad), "session_revoked")
        self.google.cookies = cookies
        for action, typed in (("delete", {"word": "delete"}), ("link", {"provider": "google"}), ("unlink", {})):
            refused = self.act(self.google, action, {"provider": "discord", **typed})
            self.assertEqual(
                (refused.status, "You are signed out here. Nothing was changed. Sign in again." in refused.text),
                (403, True),
                action,
            )
        self.assertIsNone(self.code(self.deck))

    def act(self, browser: AccountBrowser, action: str, typed: dict[str, Any]) -> Page:
        return browser.post({**self.google_home.form("/sign-out"), "action": f"{HOME}/do/{action}"}, typed)


class DecisionTests(UnlinkCase):
    """Which sessions end is decided by the provider's name that each keeps."""

    def test_unknown_name(self) -> None:
        """A session of a name that no other account has may be of the unlinked one, so it ends."""
        rename = "UPDATE session SET provider = 'old' WHERE provider = 'discord'"
        self.assertEqual(self.server.write(lambda c: c.execute(rename).rowcount), 1)
        self.unlink(self.pad)
        self.assertEqual((self.code(self.deck), self.code(self.pad)), ("session_revoked", "session_revoked"))
        self.assertTrue(self.signed_in_browser(self.browser))

    def test_session_of_a_command(self) -> None:
        """A session that the owner opened by a command is of no account, and stays."""
        game = self.play(self.player_id)
        self.unlink(self.deck)
        self.assertIsNone(self.code(game))

    def test_session_by_a_recovery_code(self) -> None:
        """A session by a code is of the local account with whose name it was typed, and ends with that one."""
        opened = "UPDATE session SET provider = 'recovery_code' WHERE provider = 'discord'"
        self.assertEqual(self.server.write(lambda c: c.execute(opened).rowcount), 1)
        named = {"player_id": self.player_id, "name": "Anna2", "password": "phc", "now_ms": self.server.now_ms()}
        self.server.write(lambda c: tables.create_account(c, self.server.keys, **named))
        self.unlink(self.pad)
        self.assertEqual((self.code(self.pad), self.code(self.deck)), ("session_revoked", None))
        self.assertTrue(self.signed_in_browser(self.browser))


class NameTests(SynchronousTestCase):
    def test_renamed_providers(self) -> None:
        """A name does not count if the unlinked account may have signed in under it."""
        corp, work, local = (
            SignInMethod("corp", 0, 0, ONE),
            SignInMethod("work", 0, 0, TWO),
            SignInMethod("local", 0, 0),
        )
        known = SignInMethods(True, frozenset({ONE, TWO}), {"corp": ONE, "work": TWO})
        swapped = SignInMethods(True, frozenset({ONE, TWO}), {"work": ONE, "other": TWO})
        same = [corp, SignInMethod("work", 0, 0, ONE), local]
        self.assertEqual(names_of_others([corp, work, local], corp, known), {"work", "local"})
        self.assertEqual(names_of_others([corp, work, local], corp, swapped), {"local"})
        self.assertEqual(names_of_others(same, corp, known), {"local"})
        self.assertEqual(names_of_others([corp, work, local], local, swapped), {"corp", "work"})
