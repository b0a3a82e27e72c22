"""The end of a sign-up offers a passkey, and a new password says that passkeys stay."""

from typing import Any

from gamed.account import sentences
from gamed.config.model import Registration
from gamed.sessions.credentials import RECENT_MS
from tests.account.page_fixtures import HOME, AccountBrowser
from tests.account.test_links import LinkCase
from tests.login.browser_fixtures import Game, Page
from tests.login.fixtures import PASSWORD
from tests.passkeys.fixtures import NEW, PasskeyCase
from tests.support.covers import covers

SIGNED_UP = f"{HOME}/signed-up"
OFFER = "Sign in without a password next time?"
KEPT = "Your passkeys still work"


class OfferCase(PasskeyCase):
    """A test with a person who makes an account named Cleo in Anna's browser."""

    def sign_up(self, browser: AccountBrowser | None = None, name: str = "Cleo") -> tuple[Game, Page]:
        """Make an account on the way into a game; return the game and the page with its code."""
        game, visitor = self.game(), browser or self.browser
        form = visitor.get(f"{game.url}/create").form("/local", create="yes")
        return game, visitor.post(form, {"name": name, "password": PASSWORD})

    def collect(self, game: Game, page: Page) -> dict[str, Any]:
        collected = game.collect(finish_code=page.html.partition('class="code">')[2][:7])
        self.assertEqual(collected.status, 200, collected.json)
        return dict(collected.json)

    def end(self, game: Game, later: str = "", browser: AccountBrowser | None = None) -> Page:
        """Return the page at the end of a sign-in."""
        return (browser or self.browser).get(f"/auth/login/done?login_id={game.login['login_id']}{later}")

    def signed_up(self) -> tuple[Game, dict[str, Any]]:
        game, page = self.sign_up()
        self.assertNotIn(OFFER, page.text)
        return game, self.collect(game, page)


class OfferTests(OfferCase):
    """The offer at the end of a sign-up in a game."""

    def accept(self, game: Game) -> Page:
        """Follow the offer, and type the password that it asks for."""
        self.assertIn(SIGNED_UP, self.end(game).links)
        page = self.browser.get(SIGNED_UP)
        self.assertEqual((page.status, page.heading), (200, "Sign in again"))
        return self.browser.post(page.form("/sign-in"), {"name": "Cleo", "password": PASSWORD})

    def test_accepted(self) -> None:
        """The button leads by the password to the page that makes a passkey, which then signs the new player in."""
        game, collected = self.signed_up()
        page = self.accept(game)
        self.assertEqual(page.heading, "Add a passkey")
        form = page.form("/add-passkey")
        fields = self.device.create(form["options"])
        self.assertIn("The passkey is added", self.browser.post(form, {"passkey_name": "Phone", **fields}).text)
        self.assertEqual(self.passkeys[0][1], collected["player"]["id"])
        self.assertIn("Hello, Cleo", self.use(self.new_account_browser()).text)
        self.assertNotIn(OFFER, self.end(game).text)

    @covers("threats/67")
    def test_next_person(self) -> None:
        """The offer opens no account by itself: not to the next person at the browser, before or after a sign-out."""
        game, _ = self.signed_up()
        self.browser.get(SIGNED_UP)
        self.assertIsNone(self.browser.token)
        self.assertEqual(self.browser.get(NEW).heading, "Your account")
        self.accept(game)
        self.browser.post(self.browser.get(HOME).form("/do/sign-out"))
        self.browser.get(SIGNED_UP)
        self.assertIsNone(self.browser.token)

    def test_refused(self) -> None:
        """Not now leads to the same end without the offer; the game has its sign-in in any case."""
        game, _ = self.signed_up()
        page = self.end(game)
        self.assertEqual((page.heading, "script" in page.tags), ("You can go back to the game", False))
        [later] = [link for link in page.links if "later" in link]
        page = self.browser.get(later)
        self.assertEqual((page.heading, page.forms), ("You can go back to the game", []))
        self.assertNotIn(OFFER, page.text)

    def test_once(self) -> None:
        """Only the sign-in that made the account offers one."""
        self.signed_up()
        self.server.clock.advance(1)
        game = self.game()
        form = self.browser.get(game.url).form("/local")
        self.collect(game, self.browser.post(form, {"name": "Cleo", "password": PASSWORD}))
        page = self.end(game)
        self.assertEqual(page.heading, "You can go back to the game")
        self.assertNotIn(OFFER, page.text)

    def test_after_ten_minutes(self) -> None:
        """Later the page offers none."""
        game, _ = self.signed_up()
        self.server.clock.advance(RECENT_MS // 1000 + 1)
        self.assertNotIn(OFFER, self.end(game).text)

    def test_ended(self) -> None:
        """The offer ends with the session of the sign-up."""
        game, collected = self.signed_up()
        token = {"Authorization": f"Bearer {collected['access_token']}"}
        self.assertEqual(self.site.post_json("/auth/session/logout", {}, token).status, 204)
        self.assertNotIn(OFFER, self.end(game).text)

    def test_another_player_signed_in(self) -> None:
        """In a browser with the account of another the passkey is the new player's, and the other is signed out."""
        self.browser.sign_in()
        game, collected = self.signed_up()
        form = self.accept(game).form("/add-passkey")
        self.browser.post(form, {"passkey_name": "Phone", **self.device.create(form["options"])})
        self.assertEqual([row[1] for row in self.passkeys], [collected["player"]["id"]])

    def test_approval(self) -> None:
        """A player who waits for the owner is offered nothing."""
        self.serve(registration=Registration.APPROVAL)
        self.browser = self.new_account_browser()
        game, page = self.sign_up()
        game.collect(finish_code=page.html.partition('class="code">')[2][:7])
        self.assertNotIn(OFFER, self.end(game).text)

    def test_providers(self) -> None:
        """A newcomer who signed in at a provider is offered none."""
        self.serve_providers()
        game, browser = self.game(provider="discord"), self.new_account_browser()
        away = browser.post(browser.get(game.url).form("/continue"))
        page = browser.get(self.at_provider(away, "anna"))
        self.collect(game, page)
        self.assertNotIn(OFFER, self.end(game, browser=browser).text)


class InviteTests(OfferCase, LinkCase):
    """The account of an invited player, and links for new passwords."""

    def test_invited(self) -> None:
        """The account says once that it can have a passkey."""
        self.assertIn(sentences.NOTICES["invited"].source, self.accept(self.invite()).text)

    def test_new_password(self) -> None:
        """A new password says that passkeys stay, to a player who has some of this address."""
        self.browser.sign_in()
        self.assertIn(sentences.NOTICES["password"].source, self.change(PASSWORD, "other password 1").text)
        self.assertIn("The passkey is added", self.add().text)
        page = self.change("other password 1", "other password 2")
        self.assertIn(sentences.NOTICES["password-both"].source, page.text)
        self.execute("DELETE FROM recovery_code")
        page = self.change("other password 2", PASSWORD)
        self.assertIn(sentences.NOTICES["password-passkeys"].source, page.text)
        self.assertIn("Hello, Anna", self.use(self.new_account_browser()).text)
        self.execute("UPDATE passkey SET rp_id = 'old.example'")
        page = self.change(PASSWORD, "other password 3")
        self.assertIn(sentences.NOTICES["password"].source, page.text)
        self.assertNotIn(KEPT, page.text)

    def change(self, old: str, new: str) -> Page:
        self.server.clock.advance(1)
        return self.browser.post(self.browser.get(HOME).form("/do/password"), {"old": old, "new": new})

    def test_reset(self) -> None:
        """The end of a link for a new password says so, too."""
        self.added()
        self.assertIn(KEPT, self.reset(self.reset_link()).text)
        self.execute("DELETE FROM passkey")
        self.assertNotIn(KEPT, self.reset(self.reset_link()).text)
