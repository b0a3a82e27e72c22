"""After a sign-in a person is back where they were in their account, with what they had typed, and nothing was done."""

from base64 import urlsafe_b64decode
from typing import Any
from urllib.parse import parse_qs, urlsplit

from gamed.account import sentences
from gamed.account.return_rules import KEPT_MS, AccountReturn, return_to_form, return_to_page
from gamed.players import tables as player_tables
from gamed.sessions.browser_rules import BROWSER_IDLE_MS
from gamed.sessions.credentials import RECENT_MS
from gamed.timestamps import CLOCKS_MS
from tests.account.page_fixtures import BERT, HOME, AccountBrowser, AccountCase
from tests.login.browser_fixtures import Page
from tests.login.fixtures import PASSWORD, PASSWORD_HASH
from tests.support.covers import covers
from tests.support.http import Answer

AGAIN = sentences.NOTICES["again"].source
SAVE, COPY = f"{HOME}/saves/auto", f"{HOME}/saves/auto/versions/2/delete"
DEVICE = f"{HOME}/devices/ses_{'A' * 22}"
NOW_MS = 1_800_000_000_000


class RuleTests(AccountCase):
    """The closed list of places, and what is sealed."""

    def test_pages(self) -> None:
        """A page leads back to itself, a download to the page of its save, anything else to the account."""
        for path, query, place in (
            (SAVE, {}, SAVE),
            (SAVE, {"before": "23"}, f"{SAVE}?before=23"),
            (SAVE, {"before": "x"}, SAVE),
            (COPY, {}, COPY),
            (f"{SAVE}/versions/2", {}, SAVE),
            (HOME, {"after": "auto"}, f"{HOME}?after=auto#saves"),
            (HOME, {"copied": "auto"}, f"{HOME}?copied=auto#saves"),
            (f"{HOME}/export", {}, f"{HOME}#saves"),
            (f"{SAVE}/delete", {}, f"{SAVE}/delete"),
            (f"{SAVE}/keep", {}, f"{SAVE}/keep"),
            (DEVICE, {}, DEVICE),
        ):
            found = return_to_page(path, query, NOW_MS)
            self.assertEqual(None if found is None else found.path, place)
        for path in (
            *(
                "/",
                HOME,
                f"{HOME}/",
                f"{HOME}/done",
                f"{HOME}/devices/x",
                f"{DEVICE}/x",
                f"{HOME}/saves/",
                f"{HOME}/saves/..",
                "/auth/x",
            ),
            *(f"{HOME}/saves/A", f"{SAVE}\r\n", f"{SAVE}//evil.example", f"{SAVE}/versions/x", f"//evil.example{SAVE}"),
        ):
            self.assertIsNone(return_to_page(path, {"after": "../x"}, NOW_MS), path)

    def test_forms(self) -> None:
        """A form leads back to its section or save; its texts are kept within bounds, a password never."""
        fields = {"name": "Anna L", "old": "one", "new": "two", "password": "three", "word": "delete", "back": "x"}
        for action, path, typed in (
            ("name", f"{HOME}#profile", {"name": "Anna L"}),
            ("delete", f"{HOME}#delete", {"word": "delete"}),
            ("password", f"{HOME}#password", {}),
            ("explode", HOME, {}),
            ("bring-back", f"{HOME}#saves", {}),
        ):
            found = return_to_form(action, fields, NOW_MS)
            self.assertEqual((found.path, found.typed, found.refused), (path, typed, True))
        for value in ("", "W" * 65):
            self.assertEqual(return_to_form("name", {"name": value}, NOW_MS).typed, {})
        renamed = return_to_form("rename-device", {"session_id": "ses_A", "device_name": "Deck"}, NOW_MS)
        self.assertEqual((renamed.path, renamed.typed), (f"{HOME}/devices/ses_A", {"device_name": "Deck"}))
        self.assertEqual(return_to_form("rename-device", {"session_id": "../x"}, NOW_MS).path, HOME)
        save = {"slot": "auto", "version": "2"}
        self.assertEqual(return_to_form("delete-save", save, NOW_MS).path, f"{SAVE}/delete")
        self.assertEqual(return_to_form("keep-current", save, NOW_MS).path, f"{SAVE}/keep")
        self.assertEqual(return_to_form("dismiss", save, NOW_MS).path, COPY)
        self.assertEqual(return_to_form("restore", save, NOW_MS).path, SAVE)
        self.assertEqual(return_to_form("restore", {"slot": "../x", "version": "2"}, NOW_MS).path, HOME)

    def test_sealed(self) -> None:
        """A sealed place is read for its row alone, for an hour, and shows nothing of its content."""
        keys, place = self.server.keys, AccountReturn(SAVE, NOW_MS, BERT, True, {"name": "\U0001f44d" * 64})
        sealed = place.seal(keys, "one")
        self.assertLess(len(sealed), 1024)
        self.assertNotIn(b"saves", urlsafe_b64decode(sealed + "=="))
        self.assertNotIn("saves", repr(place))
        for now_ms in (NOW_MS - CLOCKS_MS, NOW_MS + KEPT_MS - 1):
            self.assertEqual(AccountReturn.unseal(keys, "one", sealed, now_ms), place)
        for row, text, now_ms in (
            ("two", sealed, NOW_MS),
            ("one", sealed, NOW_MS + KEPT_MS),
            ("one", sealed, NOW_MS - CLOCKS_MS - 1),
            ("one", sealed[:-2], NOW_MS),
            *(("one", odd, NOW_MS) for odd in ("", "x", "\u00e9", "A" * 9000, "=", "A" * 40)),
        ):
            self.assertIsNone(AccountReturn.unseal(keys, row, text, now_ms))


class ReturnCase(AccountCase):
    def setUp(self) -> None:
        super().setUp()
        deck = self.play(device_name="Deck")
        self.put(deck, "auto", b"\x01")
        self.put(deck, "auto", b"\x02", If_Match='"9-0000000000000000"')
        self.deck = deck

    def again(self, asked: Page, name: str = "Anna", browser: AccountBrowser | None = None) -> Answer:
        """Sign in with the form of a page; return the redirect at the end."""
        visitor = browser or self.browser
        done = visitor.post_only(asked.form("/sign-in"), {"name": name, "password": PASSWORD})
        return visitor.ask("GET", done.headers["location"].replace("/auth/login/done", f"{HOME}/done"))

    def place(self, answer: Answer) -> str:
        self.assertEqual(answer.status, 303)
        return answer.headers["location"].removeprefix("https://game.example")


class SignedOutTests(ReturnCase):
    def test_pages(self) -> None:
        """A page that was asked for without a session is the one after the sign-in, without a notice."""
        for path, place in (
            (SAVE, SAVE),
            (f"{SAVE}?before=3", f"{SAVE}?before=3"),
            (COPY, COPY),
            (f"{HOME}?after=auto", f"{HOME}?after=auto#saves"),
            (HOME, HOME),
        ):
            browser = self.new_account_browser()
            asked = browser.get(path)
            self.assertEqual((asked.status, "Sign in to see your devices" in asked.text), (200, True))
            back = self.again(asked, browser=browser)
            self.assertEqual(self.place(back), place)
            self.assertNotIn(AGAIN, browser.get(place.partition("#")[0]).text)

    def test_downloads(self) -> None:
        """A download leads to the page of its save; it does not begin by itself."""
        for path, place in ((f"{SAVE}/versions/1", SAVE), (f"{HOME}/export", f"{HOME}#saves")):
            self.assertEqual(self.place(self.new_account_browser().ask("GET", path)), place)

    def test_wrong_password(self) -> None:
        """A wrong password keeps the place."""
        form = self.browser.get(SAVE).form("/sign-in")
        asked = self.browser.post(form, {"name": "Anna", "password": "something else"})
        self.assertEqual(self.place(self.again(asked)), SAVE)

    def test_session_over(self) -> None:
        """A form that came too late is shown again after the sign-in, with what was typed; it was not carried out."""
        form = self.browser.sign_in().form("/name")
        self.server.clock.advance(BROWSER_IDLE_MS / 1000)
        asked = self.browser.post(form, {"name": "Anna \U0001f44d"})
        self.assertIn("Nothing was changed.", asked.text)
        self.assertEqual(self.place(self.again(asked)), f"{HOME}#profile")
        page = self.browser.get(HOME)
        self.assertIn(AGAIN, page.text)
        self.assertEqual(page.form("/name")["fields"]["name"], "Anna \U0001f44d")
        self.assertEqual(page.heading, "Hello, Anna")
        self.assertEqual(self.browser.get(HOME).form("/name")["fields"]["name"], "")


class RecentTests(ReturnCase):
    def setUp(self) -> None:
        super().setUp()
        self.home = self.browser.sign_in()
        self.server.clock.advance(RECENT_MS / 1000 + 1)

    def asked(self) -> Page:
        page = self.browser.post(self.home.form("/delete"), {"word": "delete"})
        self.assertEqual((page.status, page.heading), (403, "Sign in again"))
        return page

    def test_word(self) -> None:
        """The word that was typed is there again, once; the account is not deleted."""
        back = self.again(self.asked())
        self.assertEqual(self.place(back), f"{HOME}#delete")
        page = self.browser.get(HOME)
        self.assertIn(AGAIN, page.text)
        self.assertEqual(page.form("/delete")["fields"]["word"], "delete")
        self.assertEqual(self.browser.get(HOME).form("/delete")["fields"]["word"], "")

    def test_wrong_password(self) -> None:
        """A wrong password shows the same page again."""
        asked = self.browser.post(self.asked().form("/sign-in"), {"name": "Anna", "password": "something else"})
        self.assertEqual((asked.heading, self.place(self.again(asked))), ("Sign in again", f"{HOME}#delete"))

    def test_question(self) -> None:
        """The page that asks before a copy is deleted comes after the sign-in; the copy is there."""
        self.assertEqual(self.place(self.again(self.browser.get(COPY))), COPY)
        self.assertEqual(self.browser.get(COPY).heading, "Delete this copy?")

    @covers("threats/67")
    def test_other_player(self) -> None:
        """Another player who signs in there sees neither the place nor what was typed."""
        account = {"player_id": BERT, "name": "Bert", "password": PASSWORD_HASH, "now_ms": self.server.now_ms()}
        self.server.write(lambda c: player_tables.add_local_player(c, self.server.keys, **account))
        self.assertEqual(self.place(self.again(self.asked(), "Bert")), HOME)
        page = self.browser.get(HOME)
        self.assertEqual((page.form("/delete")["fields"]["word"], AGAIN in page.text), ("", False))

    @covers("threats/67")
    def test_forged(self) -> None:
        """A place of another browser, of too long ago or of no server leads to the account."""
        foreign = self.new_account_browser().get(SAVE).form("/sign-in")["fields"]["back"]
        old = self.asked()
        self.server.clock.advance(KEPT_MS / 1000)
        for value in (foreign, old.form("/sign-in")["fields"]["back"], "", "x", "//evil.example", "A" * 5000):
            asked = self.asked() if self.browser.get(HOME).heading != "Your account" else self.browser.get(HOME)
            form = asked.form("/sign-in")
            form["fields"]["back"] = value
            self.assertEqual(self.place(self.again(asked)), HOME, value[:20])
            self.home = self.browser.get(HOME)
            self.server.clock.advance(RECENT_MS / 1000 + 1)

    def test_forged_cookie(self) -> None:
        """A cookie that the server did not seal for this player shows nothing."""
        self.again(self.asked())
        self.browser.get(HOME)
        for value in ("x", "A" * 60, AccountReturn(HOME, self.server.now_ms(), typed={"word": "delete"}).seal(
            self.server.keys, BERT
        )):  # fmt: skip
            self.browser.cookies["__Host-gr"] = value
            page = self.browser.get(HOME)
            self.assertEqual((page.status, page.form("/delete")["fields"]["word"]), (200, ""))

    def test_two_tabs(self) -> None:
        """Each of two tabs comes back to its own place."""
        one, two = self.asked(), self.browser.get(COPY)
        self.assertEqual(self.place(self.again(two)), COPY)
        self.assertEqual(self.place(self.again(one)), f"{HOME}#delete")

    def test_nothing_is_left(self) -> None:
        """The login keeps nothing of it once it has ended, no address holds what was typed, and the cookie is brief."""
        asked = self.browser.post(self.home.form("/delete"), {"word": "secret word"})
        done = self.browser.post_only(asked.form("/sign-in"), {"name": "Anna", "password": PASSWORD})
        [(sealed,)] = self.server.rows("SELECT sealed_result FROM login WHERE stage = 'ready'")
        self.assertNotIn(b"secret", bytes(sealed))
        back = self.browser.ask("GET", done.headers["location"].replace("/auth/login/done", f"{HOME}/done"))
        self.assertEqual(self.server.rows("SELECT sealed_result FROM login WHERE sealed_result IS NOT NULL"), [])
        [cookie] = [each for each in back.cookies if each.startswith("__Host-gr=")]
        self.assertRegex(
            cookie, "^__Host-gr=[A-Za-z0-9_-]{1,2000}; Path=/; Secure; HttpOnly; SameSite=Lax; Max-Age=60$"
        )
        self.assertNotIn("secret", str(done.headers) + str(back.headers) + cookie)

    def test_notice(self) -> None:
        """The section to which the browser scrolls says that nothing was done; a page of a save says it at its top."""
        self.again(self.asked())
        page = self.browser.get(HOME).html
        self.assertIn(AGAIN, page.partition('id="delete"')[2].partition("</section>")[0])
        self.assertEqual(page.count(AGAIN), 1)
        self.server.clock.advance(RECENT_MS / 1000 + 1)
        form = {**self.browser.get(HOME).form("/sign-out"), "action": f"{HOME}/do/dismiss"}
        back = self.again(self.browser.post(form, {"slot": "auto", "version": "x"}))
        self.assertEqual(self.place(back), SAVE)
        self.assertEqual([AGAIN in self.browser.get(SAVE).text for _ in range(2)], [True, False])

    def test_again(self) -> None:
        """The end of the sign-in, opened once more, leads to the account."""
        done = self.browser.post_only(self.asked().form("/sign-in"), {"name": "Anna", "password": PASSWORD})
        end = done.headers["location"].replace("/auth/login/done", f"{HOME}/done")
        self.assertEqual([self.place(self.browser.ask("GET", end)) for _ in range(2)], [f"{HOME}#delete", HOME])


class ProviderTests(AccountCase):
    def test_away_and_back(self) -> None:
        """A sign-in at a provider comes back to the same place with the same words."""
        self.serve_providers()
        self.play_at("discord")
        home = self.sign_in_at("discord")
        self.server.clock.advance(RECENT_MS / 1000 + 1)
        asked = self.browser.post(home.form("/delete"), {"word": "del"})
        away = self.browser.post_only(asked.form("/sign-in", provider="discord"))
        self.assertEqual(self.words(away), [])
        done = self.browser.ask("GET", self.at_provider(Page(away)))
        back = self.browser.ask("GET", done.headers["location"].replace("/auth/login/done", f"{HOME}/done"))
        self.assertEqual(back.headers["location"], f"https://game.example{HOME}#delete")
        page = self.browser.get(HOME)
        self.assertEqual((page.form("/delete")["fields"]["word"], AGAIN in page.text), ("del", True))

    def test_declined(self) -> None:
        """A sign-in that failed at the provider is tried again from the same page, with the same place and words."""
        self.serve_providers()
        self.play_at("discord")
        home = self.sign_in_at("discord")
        self.server.clock.advance(RECENT_MS / 1000 + 1)
        asked = self.browser.post(home.form("/delete"), {"word": "del"})
        for _ in range(2):
            ended = self.declined(asked)
            self.assertEqual(ended.heading, "You are not signed in")
            asked = self.browser.post(ended.form("/sign-in"))
            self.assertEqual((asked.status, asked.heading), (200, "Sign in again"))
        away = self.browser.post(asked.form("/sign-in", provider="discord"))
        done = self.browser.ask("GET", self.at_provider(away))
        back = self.browser.ask("GET", done.headers["location"].replace("/auth/login/done", f"{HOME}/done"))
        self.assertEqual(back.headers["location"], f"https://game.example{HOME}#delete")
        page = self.browser.get(HOME)
        self.assertEqual((page.form("/delete")["fields"]["word"], AGAIN in page.text), ("del", True))

    def test_declined_before(self) -> None:
        """So is the first sign-in, from the page of a save; one that leads to the account itself has a plain link."""
        self.serve_providers()
        self.play_at("discord")
        asked = self.browser.post(self.declined(self.browser.get(SAVE)).form("/sign-in"))
        self.assertIn("Sign in to see your devices", asked.text)
        away = self.browser.post(asked.form("/sign-in", provider="discord"))
        done = self.browser.ask("GET", self.at_provider(away))
        back = self.browser.ask("GET", done.headers["location"].replace("/auth/login/done", f"{HOME}/done"))
        self.assertEqual(back.headers["location"], f"https://game.example{SAVE}")
        self.browser = self.new_account_browser()
        plain = self.declined(self.browser.get(HOME))
        self.assertEqual(
            ([form["action"] for form in plain.forms if "sign-in" in form["action"]], HOME in plain.links), ([], True)
        )

    def test_link(self) -> None:
        """Linking asks for the sign-in first, and leads back to the ways to sign in."""
        self.serve_providers()
        self.play_at("discord")
        home = self.sign_in_at("discord")
        self.server.clock.advance(RECENT_MS / 1000 + 1)
        asked = self.browser.post(home.form("/link", provider="google"))
        away = self.browser.post(asked.form("/sign-in", provider="discord"))
        page = self.browser.get(self.at_provider(away))
        self.assertIn(AGAIN, page.text)
        self.assertIn("/link", str(page.forms))

    def declined(self, asked: Page) -> Page:
        """Decline at the provider to which the form of this page leads; return the page at the end."""
        away = self.browser.post(asked.form("/sign-in", provider="discord"))
        [state] = parse_qs(urlsplit(away.headers["location"]).query)["state"]
        return self.browser.get(f"/auth/discord/callback?state={state}&error=access_denied")

    def words(self, away: Answer) -> list[Any]:
        """Return what the address of the provider has of our values."""
        query = parse_qs(urlsplit(away.headers["location"]).query)
        return [value for values in query.values() for value in values if "del" in value.split()]


class FieldTests(AccountCase):
    def test_refused(self) -> None:
        """A text that cannot be used is shown again in its field, beside the reason."""
        home = self.browser.sign_in()
        for form, field, typed, sentence in (
            ("/name", "name", "a\u202eb", sentences.NAME_UNUSABLE),
            ("/delete", "word", "delte", sentences.NOT_TYPED),
        ):
            page = self.browser.post(home.form(form), {field: typed})
            self.assertEqual((page.status, page.heading), (400, "Hello, Anna"))
            self.assertEqual(page.form(form)["fields"][field], typed)
            inside = page.html.partition(f'action="/auth/account/do{form}"')[2].partition("</form>")[0]
            self.assertIn(sentence.source, inside)
            self.assertIn('autofocus aria-describedby="refused', inside)
