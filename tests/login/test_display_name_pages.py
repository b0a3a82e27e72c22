"""A new player is asked for a display name on the pages of the sign-up and of the result.

See docs/protocol.md: Accounts.
"""

from typing import Any

from gamed.login import sentences
from gamed.login.local import FormError
from tests.login.browser_fake_provider import DISCORD, ProviderCase
from tests.login.browser_fixtures import BrowserCase, Game, PageBrowser
from tests.login.fixtures import APPROVAL, PASSWORD
from tests.login.test_browser_routes import code

HOSTILE = ("a\u202eb", "a" * 33, "\u2800", "a\tb", "a\u200bb", "\x00", "<" * 33)


class SignUpTests(BrowserCase):
    """The form for a new account in local mode."""

    def create(self, **typed: str) -> Any:
        """Create Bert's account with these fields; return the name that the game gets."""
        self.serve()
        game, browser = self.game(), self.new_browser()
        form = browser.get(f"{game.url}/create").form("/local")
        page = browser.post(form, {"name": "Bert", "password": PASSWORD, **typed})
        return game.collect(finish_code=code(browser.get(page.headers["location"]))).json["player"]["name"]

    def test_names(self) -> None:
        """A typed name is stored as games show it; an empty field means the account's name.

        `nameless`, as earlier forms sent it, means none.
        """
        for typed, shown in (
            ({"display_name": " Bert  the Great "}, "Bert the Great"),
            ({"display_name": "<b>&\u05d0"}, "<b>&\u05d0"),
            ({}, "Bert"),
            ({"display_name": " "}, "Bert"),
            ({"nameless": "yes"}, None),
            ({"display_name": "Bo", "nameless": "yes"}, None),
        ):
            self.assertEqual(self.create(**typed), shown, typed)

    def test_without_the_field(self) -> None:
        """A form without the field, as a program may send it, makes a player without a name."""
        self.serve()
        game, browser = self.game(), self.new_browser()
        form = browser.get(f"{game.url}/create").form("/local")
        del form["fields"]["display_name"]
        page = browser.post(form, {"name": "Bert", "password": PASSWORD})
        shown = browser.get(page.headers["location"])
        self.assertIsNone(game.collect(finish_code=code(shown)).json["player"]["name"])

    def test_refused(self) -> None:
        """A name that is not allowed brings the form back with a sentence and the typed texts, and makes no account."""
        self.serve()
        game, browser = self.game(), self.new_browser()
        form = browser.get(f"{game.url}/create").form("/local")
        for text in HOSTILE:
            page = browser.post(form, {"name": "Bert", "password": PASSWORD, "display_name": text})
            self.assertEqual((page.status, page.heading), (200, "Create an account"))
            self.assertIn(sentences.REFUSED_NAME.source, page.text)
            self.assertEqual(page.form("/local")["fields"]["name"], "Bert")
        self.assertEqual(game.collect().json["stage"], "at_provider")
        page = browser.post(page.form("/local"), {"name": "B", "password": PASSWORD, "display_name": "x" * 9000})
        self.assertEqual(page.status, 413)

    def test_kept(self) -> None:
        """After another error the form still has the name."""
        self.serve()
        browser = self.new_browser()
        form = browser.get(f"{self.game().url}/create").form("/local")
        page = browser.post(form, {"name": "Anna", "password": PASSWORD, "display_name": "\u5b89"})
        self.assertIn(sentences.REFUSED[FormError.NAME_TAKEN].source, page.text)
        self.assertEqual(page.form("/local")["fields"]["display_name"], "\u5b89")


class ResultTests(ProviderCase):
    """The result page in oauth mode."""

    def begin(self, person: str = "anna", **start: Any) -> tuple[Game, PageBrowser, str]:
        """Sign in up to the result page; return its address."""
        if not hasattr(self, "fake"):
            self.serve_oauth(DISCORD)
        game, browser = self.game(provider="discord", **start), self.new_browser()
        page = browser.get(game.url)
        page = browser.post(page.form("/continue")) if page.forms else page
        back = browser.get(self.at_provider(page, person))
        return game, browser, back.headers["location"]

    def test_before_the_game_collects(self) -> None:
        """The page with the code links to the form; the game gets the name, and the page says it."""
        game, browser, done = self.begin()
        page = browser.get(done)
        self.assertIn("Choose what games call you", page.text)
        [link] = [link for link in page.links if link.endswith("/name")]
        form = browser.get(link)
        self.assertEqual(
            (form.status, form.heading, "refresh" in form.headers), (200, "What should games call you?", False)
        )
        self.assertEqual(form.links, [done])
        saved = browser.post(form.form("/name"), {"display_name": "<b>Anna"})
        self.assertEqual((saved.status, saved.headers["location"]), (303, done))
        page = browser.get(done)
        self.assertIn("<bdi>&lt;b&gt;Anna</bdi>", page.html)
        self.assertEqual(browser.get(link).form("/name")["fields"]["display_name"], "<b>Anna")
        player = game.collect(finish_code=code(page)).json["player"]
        self.assertEqual((player["created"], player["name"]), (True, "<b>Anna"))
        self.assertIn("<bdi>&lt;b&gt;Anna</bdi>", browser.get(done).html)

    def test_after_the_game_collected(self) -> None:
        """The last page of a new player has the form and does not reload, which would empty it."""
        game, browser, done = self.begin()
        answer = game.collect(finish_code=code(browser.get(done))).json
        self.assertIsNone(answer["player"]["name"])
        page = browser.get(done)
        self.assertEqual((page.heading, "refresh" in page.headers), ("You can go back to the game", False))
        form = page.form("/name")
        refused = browser.post(form, {"display_name": "a\u202eb"})
        self.assertIn(sentences.REFUSED_NAME.source, refused.text)
        self.assertEqual(browser.post(form, {"display_name": "Anna"}).headers["location"], done)
        page = browser.get(done)
        self.assertEqual(page.forms, [])
        self.assertIn("Games call you Anna .", page.text)
        late = browser.post(form, {"display_name": "Mallory"})
        self.assertEqual((late.status, late.heading), (409, "Open the game for that"))
        again, other, done = self.begin()
        page = other.get(done)
        self.assertNotIn("Choose what games call you", page.text)
        self.assertEqual(again.collect(finish_code=code(page)).json["player"]["name"], "Anna")
        self.assertEqual(other.get(done).forms, [])

    def test_on_the_way_to_the_port(self) -> None:
        """The page that leads to the game's port asks nothing; the page after it does."""
        game, browser, done = self.begin(loopback_port=51004)
        page = browser.get(done)
        ticket = page.headers["refresh"].partition("ticket=")[2]
        self.assertNotIn("/name", page.html)
        self.assertEqual(game.collect(ticket=ticket).status, 200)
        self.assertEqual(len(browser.get(done).forms), 1)

    def test_refused(self) -> None:
        """A name that is not allowed brings the form back with a sentence; the sign-in is as before."""
        game, browser, done = self.begin()
        link = f"{game.url}/name"
        form = browser.get(link).form("/name")
        for text in HOSTILE:
            page = browser.post(form, {"display_name": text})
            self.assertEqual((page.status, page.heading), (200, "What should games call you?"))
            self.assertIn(sentences.REFUSED_NAME.source, page.text)
        self.assertIsNone(game.collect(finish_code=code(browser.get(done))).json["player"]["name"])

    def test_another_browser(self) -> None:
        """Another browser gets neither the form nor the name, and a form from elsewhere is refused."""
        game, browser, _ = self.begin()
        link = f"{game.url}/name"
        form = browser.get(link).form("/name")
        other = self.new_browser()
        self.assertEqual(other.get(link).status, 409)
        self.assertEqual(other.post(form, {"display_name": "Mallory"}).status, 403)
        self.assertEqual(browser.post(form, {"display_name": "Mallory", "form": "A" * 43}).status, 403)
        self.assertEqual(browser.post(form, {"display_name": "Mallory"}, Sec_Fetch_Site="cross-site").status, 403)
        self.assertEqual(browser.get(link, Sec_Fetch_Dest="iframe").status, 403)
        self.assertEqual(browser.get(link).form("/name")["fields"]["display_name"], "")

    def test_waiting_for_approval(self) -> None:
        """A new player who has to be approved may choose a name before the game collects."""
        self.serve_oauth(DISCORD, registration=APPROVAL)
        game, browser, done = self.begin()
        form = browser.get(f"{game.url}/name").form("/name")
        self.assertEqual(browser.post(form, {"display_name": "Anna"}).status, 303)
        game.collect(finish_code=code(browser.get(done)))
        self.assertEqual(browser.get(f"{game.url}/name").status, 410)

    def test_over(self) -> None:
        """After the login was cancelled or forgotten the form is gone."""
        game, browser, _ = self.begin()
        game.cancel()
        self.assertEqual(browser.get(f"{game.url}/name").status, 410)
        self.assertEqual(browser.get(f"/auth/login/{'A' * 22}/name").status, 404)
