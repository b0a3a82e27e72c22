"""These tests send a browser's requests to the pages of a login (docs/internals/threats.md: Signing in)."""

from base64 import b64encode
from hashlib import sha256
from re import DOTALL, findall, search, sub
from urllib.parse import parse_qs, urlsplit

from gamed.config.model import Registration
from gamed.http.problems import plain_problem
from gamed.login import sentences
from gamed.login.local import FormError
from gamed.login.views import ended_page, error_page, problem_page, sign_in_page
from gamed.outcomes import LoginFailure
from gamed.pages.model import Page as ShownPage
from gamed.pages.model import text
from gamed.players.names import parse_name
from gamed.players.passwords import AT_ONCE, QUEUED
from gamed.sessions import tables as session_tables
from tests.login.browser_fixtures import BASE, BrowserCase, Page
from tests.login.fixtures import APPROVAL, CLOSED, OFF, PASSWORD
from tests.login.gallery import Shown, asked
from tests.support.covers import covers
from tests.support.http import Answer

OTHER_SENTENCE = "Another browser finished this sign-in. If that was not you, cancel in the game."
EVIL = "<script>alert(1)</script>\u202egnp.exe\u2066"


def rendered(page: ShownPage) -> str:
    return Shown.of("", page).html.decode()


class Link(BrowserCase):
    def test_the_page(self) -> None:
        """The page shows server, host, the client's description, the age, the form, and "This was not me"."""
        self.serve()
        game = self.game(client={"name": "MyGame", "version": "1.4.2", "device_name": "ANNA-PC", "platform": "windows"})
        self.server.clock.advance(125)
        page = self.new_browser().get(game.url)
        self.assertEqual((page.status, page.heading), (200, "Sign in"))
        for words in ("Anna's Arena", "game.example", "Reported by the device", "asked 2 min ago"):
            self.assertIn(words, page.text)
        for words in ("MyGame", "1.4.2", "ANNA-PC", "Windows"):
            self.assertIn(f"<bdi>{words}</bdi>", page.html)
        actions = [form["action"].rpartition("/")[2] for form in page.forms]
        self.assertEqual(actions, ["local", "passkey", "decline", "recovery"])
        for field in ('autocomplete="username webauthn"', 'autocomplete="current-password"'):
            self.assertIn(field, page.html)
        self.assertIn("This was not me", page.text)

    @covers("threats/7")
    def test_opening_it_changes_nothing(self) -> None:
        """Opening the page writes no row and notifies no game."""
        self.serve()
        game = self.game()
        before = self.server.rows("SELECT * FROM login")
        for browser in (self.new_browser(), self.new_browser()):
            browser.get(game.url)
            browser.get(game.url)
        self.assertEqual(self.server.rows("SELECT * FROM login"), before)

    def test_registration(self) -> None:
        """Closed: no link to the form for an account. Approval: that form's page says that the owner approves it."""
        self.serve(registration=CLOSED)
        self.assertEqual(self.new_browser().get(self.game().url).links, [])
        self.serve(registration=APPROVAL)
        game, browser = self.game(), self.new_browser()
        [link] = browser.get(game.url).links
        self.assertIn("The owner of this server approves new accounts before they can play.", browser.get(link).text)

    def test_the_page_of_a_new_account(self) -> None:
        """The link "Create an account" leads to a page with that form, "This was not me" and a link back."""
        self.serve()
        game, browser = self.game(client={"name": "MyGame"}), self.new_browser()
        [link] = browser.get(game.url).links
        page = browser.get(link)
        self.assertEqual((page.status, page.heading), (200, "Create an account"))
        self.assertEqual([form["action"].rpartition("/")[2] for form in page.forms], ["local", "decline"])
        self.assertEqual([f"{BASE}{each}" for each in page.links], [game.url])
        self.assertIn('autocomplete="new-password"', page.html)
        self.assertIn("<bdi>MyGame</bdi>", page.html)
        self.assertEqual(game.collect().json["stage"], "waiting_for_browser")

    def test_a_new_account_on_a_closed_server(self) -> None:
        """The address of the form shows the sign-in page with a sentence when registration is closed."""
        self.serve(registration=CLOSED)
        page = self.new_browser().get(f"{self.game().url}/create")
        self.assertEqual((page.status, page.heading), (200, "Sign in"))
        self.assertIn(sentences.REFUSED[FormError.CLOSED].source, page.text)

    def test_the_page_of_a_new_account_is_guarded_as_the_link(self) -> None:
        """The page is refused in a frame, as a prefetch and for unknown logins, and is 410 once the login has ended."""
        self.serve()
        game, browser = self.game(), self.new_browser()
        url = f"{game.url}/create"
        self.assertEqual(browser.get(url, Sec_Fetch_Dest="iframe").status, 403)
        self.assertEqual(browser.get(url, Sec_Purpose="prefetch").status, 503)
        self.assertEqual(browser.get(f"/auth/login/{'A' * 22}/create").status, 404)
        game.cancel()
        self.assertEqual(browser.get(url).status, 410)

    def test_registration_closed_meanwhile(self) -> None:
        """A form that was opened before registration closed is rejected with a sentence, and is not shown again."""
        self.serve(registration=CLOSED)
        game, browser = self.game(), self.new_browser()
        page = browser.post(browser.get(game.url).form("/local"), {"create": "yes", "name": "bo", "password": PASSWORD})
        self.assertIn(sentences.REFUSED[FormError.CLOSED].source, page.text)
        self.assertEqual([form["fields"].get("create") for form in page.forms], [None] * 4)

    @covers("threats/8")
    def test_words_of_the_device_stay_words(self) -> None:
        """Markup and direction marks of the client have no effect on the page."""
        self.serve()
        page = self.new_browser().get(self.game(client={"name": EVIL}).url)
        self.assertIn("<bdi>&lt;script&gt;alert(1)&lt;/script&gt;gnp.exe</bdi>", page.html)
        self.assertEqual(page.html.count("<script"), 1)  # the one of passkeys
        self.assertIn("The device did not say what it is.", self.new_browser().get(self.game().url).text)

    def test_without_a_name(self) -> None:
        """A server without a name is shown by its host."""
        self.server_name = None
        self.serve()
        self.assertIn("<strong><bdi>game.example</bdi></strong>", self.new_browser().get(self.game().url).html)

    def test_unknown_and_malformed(self) -> None:
        """An unknown and a malformed token are 404 as a page."""
        self.serve()
        for path in ("/auth/login/" + "A" * 22, "/auth/login/short", "/auth/login/" + "A" * 21 + "!", "/auth/login/"):
            page = self.new_browser().get(path)
            self.assertEqual((page.status, page.headers["content-type"]), (404, "text/html; charset=utf-8"), path)

    def test_methods(self) -> None:
        """HEAD and other methods are 405 with Allow, as pages."""
        self.serve()
        url = self.game().url.removeprefix(BASE)
        for path, allow in (
            (url, "GET"),
            (f"{url}/local", "POST"),
            (f"{url}/decline", "POST"),
            ("/auth/login/done", "GET"),
        ):
            for method in {"HEAD", "PUT", "GET", "POST"} - {allow}:
                answer = self.site.request(method, path)
                self.assertEqual((answer.status, answer.headers["allow"]), (405, allow), (method, path))
                self.assertEqual(answer.headers["content-type"], "text/html; charset=utf-8")

    def test_over(self) -> None:
        """Each end of a login is 410 with its own sentence."""
        self.serve()
        denied, cancelled, expired = self.game(), self.game(), self.game()
        browser = self.new_browser()
        browser.post(browser.get(denied.url).form("/decline"))
        cancelled.cancel()
        self.assertEqual(
            self.new_browser().get(denied.url).heading, sentences.ENDED[LoginFailure.LOGIN_DENIED][0].source
        )
        self.assertEqual(browser.get(cancelled.url).heading, sentences.ENDED[LoginFailure.LOGIN_CANCELLED][0].source)
        self.server.clock.advance(600)
        page = browser.get(expired.url)
        self.assertEqual((page.status, page.heading), (410, sentences.ENDED[LoginFailure.LOGIN_EXPIRED][0].source))


class Cookie(BrowserCase):
    def test_on_https(self) -> None:
        """The cookie is __Host-gl with 256 bits, Secure, HttpOnly, SameSite=Lax, Path=/; it is set once per browser."""
        self.serve()
        url = self.game().url.removeprefix(BASE)
        answer = self.site.get(url)
        self.assertRegex(answer.cookies[0], r"\A__Host-gl=[A-Za-z0-9_-]{43}; Path=/; Secure; HttpOnly; SameSite=Lax\Z")
        again = self.site.get(url, {"Cookie": answer.cookies[0].split(";")[0]})
        self.assertEqual(again.cookies, [])

    def test_on_loopback(self) -> None:
        """On loopback the cookie is `gl` without Secure."""
        self.base = "http://127.0.0.1:8080"
        self.serve()
        answer = self.site.get(self.game().url.removeprefix(self.base))
        self.assertRegex(answer.cookies[0], r"\Agl=[A-Za-z0-9_-]{43}; Path=/; HttpOnly; SameSite=Lax\Z")

    def test_a_foreign_value_is_replaced(self) -> None:
        """A cookie of another form is replaced."""
        self.serve()
        url = self.game().url.removeprefix(BASE)
        for value in ("", "short", "A" * 44, "A" * 42 + "!"):
            self.assertEqual(len(self.site.get(url, {"Cookie": f"__Host-gl={value}"}).cookies), 1, value)

    def test_the_store_has_no_cookie(self) -> None:
        """The database holds only the HMAC of the cookie, once the login belongs to the browser."""
        self.serve()
        game, browser = self.game(), self.new_browser()
        browser.get(game.url)
        self.assertEqual(self.server.rows("SELECT browser_index FROM login"), [(None,)])
        browser.sign_in(game.url)
        [(index,)] = self.server.rows("SELECT browser_index FROM login")
        value = str(browser.cookie).partition("=")[2]
        self.assertEqual((len(index), value.encode() in index), (32, False))


class Forms(BrowserCase):
    def refused(self, page: Page, status: int = 403) -> None:
        self.assertEqual((page.status, page.headers["content-type"]), (status, "text/html; charset=utf-8"))
        self.assertEqual(self.server.rows("SELECT DISTINCT stage FROM login"), [("pending",)])

    @covers("threats/5")
    def test_a_form_needs_its_cookie(self) -> None:
        """A form without a cookie, with another browser's, or with another login's field is 403 without effect."""
        self.serve()
        game, other, browser = self.game(), self.game(), self.new_browser()
        typed = {"name": "Anna", "password": "correct horse"}
        for action in ("/local", "/decline"):
            form = browser.get(game.url).form(action)
            page = self.new_browser().post(form, typed)
            self.refused(page)
            self.assertIn(sentences.NO_COOKIE.source, page.text)
            other_browser = self.new_browser()
            other_browser.get(game.url)
            self.refused(other_browser.post(form, typed))
            others_form = browser.get(other.url).form(action)
            self.refused(browser.post({**form, "fields": others_form["fields"]}, typed))
            self.refused(browser.post({**form, "fields": {}}, typed))

    @covers("threats/5")
    def test_a_form_from_another_site(self) -> None:
        """A form from another site or a frame is 403 without effect; old browsers send no such headers and pass."""
        self.serve()
        game, browser = self.game(), self.new_browser()
        form, typed = browser.get(game.url).form("/local"), {"name": "Anna", "password": "correct horse"}
        for site in ("cross-site", "same-site", "none"):
            self.refused(browser.post(form, typed, Sec_Fetch_Site=site))
        for place in ("iframe", "empty", "embed"):
            self.refused(browser.post(form, typed, Sec_Fetch_Dest=place))
        headers = {"Cookie": str(browser.cookie)}
        fields = "&".join(f"{name}={value}" for name, value in {**form["fields"], **typed}.items())
        self.assertEqual(self.site.post_form(form["action"], fields.replace(" ", "+"), headers).status, 303)

    @covers("threats/6")
    def test_not_a_document(self) -> None:
        """A link in a frame is 403, a prefetch 503; neither sets a cookie."""
        self.serve()
        game = self.game()
        for headers, status in (({"Sec_Fetch_Dest": "iframe"}, 403), ({"Sec_Purpose": "prefetch;prerender"}, 503)):
            browser = self.new_browser()
            page = browser.get(game.url, **headers)
            self.refused(page, status)
            self.assertIsNone(browser.cookie)
        self.assertIn("retry-after", page.headers)
        self.assertEqual(
            self.new_browser().get(game.url, Sec_Fetch_Dest="document", Sec_Fetch_Site="cross-site").status, 200
        )

    def test_bad_forms(self) -> None:
        """JSON, invalid UTF-8, a doubled field, and 9 KiB are rejected as pages without effect."""
        self.serve()
        game, browser = self.game(), self.new_browser()
        form = browser.get(game.url).form("/local")
        headers = {"Cookie": str(browser.cookie)}
        self.assertEqual(self.site.post_json(form["action"], {}, headers).status, 415)
        mark = f"form={form['fields']['form']}"
        for fields, status in ((f"{mark}&name=%ff", 400), (f"{mark}&name=a&name=b", 400), ("name=" + "x" * 9000, 413)):
            answer = self.site.post_form(form["action"], fields, headers)
            self.refused(Page(answer), status)

    def test_refused_sign_ins(self) -> None:
        """A wrong name or password is 200 with the form, the typed name, and the same sentence for both."""
        self.serve()
        game, browser = self.game(), self.new_browser()
        wrong = browser.sign_in(game.url, "Anna", "wrong horse")
        unknown = browser.sign_in(game.url, "nobody", "wrong horse")
        self.assertEqual((wrong.status, unknown.status), (200, 200))
        alike = [sub(r'(name="ceremony" value=|data-options=)"[^"]*"', "", page.html) for page in (wrong, unknown)]
        self.assertEqual(alike[0].replace('Anna"', '"'), alike[1].replace('nobody"', '"'))
        self.assertIn(sentences.REFUSED[FormError.WRONG].source, wrong.text)
        self.assertEqual(wrong.form("/local")["fields"]["name"], "Anna")
        self.assertNotIn("horse", wrong.html)
        self.assertEqual(browser.post(wrong.form("/local"), {"name": "Anna", "password": "correct horse"}).status, 303)

    def test_a_busy_server(self) -> None:
        """A full password queue is 503 with the form, the typed name, and the request id for the owner."""
        self.serve()
        game, browser = self.game(), self.new_browser()
        form = browser.get(game.url).form("/local")
        turns = self.server.passwords.hasher._threads._free
        for _ in range(AT_ONCE + QUEUED):
            turns.acquire()
        page = browser.post(form, {"name": "Anna", "password": "correct horse"})
        self.assertEqual((page.status, page.form("/local")["fields"]["name"]), (503, "Anna"))
        self.assertIn(page.headers["x-request-id"], page.text)

    def test_refused_accounts(self) -> None:
        """A rejected new account shows its form with an instruction; no password is repeated."""
        self.serve()
        game, browser = self.game(), self.new_browser()
        for name, password, sentence in (
            ("anna", "a password", sentences.REFUSED[FormError.NAME_TAKEN].source),
            ("a b", "a password", sentences.REFUSED[FormError.NAME_MALFORMED].source),
            ("Bert", "shorty", sentences.REFUSED[FormError.PASSWORD_MALFORMED].source),
        ):
            page = browser.create(game.url, name, password)
            self.assertEqual(page.status, 200)
            self.assertIn(sentence, page.text)
            self.assertEqual(page.heading, "Create an account")
            self.assertEqual(page.form("/local", create="yes")["fields"]["name"], name)
            self.assertNotIn(password, page.html)

    def test_too_many_tries(self) -> None:
        """Too many tries are 429 with Retry-After and the form."""
        self.serve(passwords_per_minute=1)
        game, browser = self.game(), self.new_browser()
        browser.sign_in(game.url, password="wrong horse")
        page = browser.sign_in(game.url)
        self.assertEqual((page.status, page.headers["retry-after"]), (429, "60"))
        self.assertIn("Too many tries. Try again in 60 seconds.", page.text)
        self.assertEqual(browser.get(game.url).status, 200)


class ResultPage(BrowserCase):
    @covers("threats/30")
    def test_straight_to_the_port(self) -> None:
        """The form redirects to the result; Refresh: 2 and a link lead to the game's port, a second to the code."""
        self.serve()
        game, browser = self.game(loopback_port=51004), self.new_browser()
        answer = browser.sign_in(game.url)
        self.assertEqual(answer.status, 303)
        self.assertEqual(answer.headers["location"], f"{BASE}/auth/login/done?login_id={game.login['login_id']}")
        page = browser.get(answer.headers["location"])
        link, elsewhere = page.links
        self.assertEqual(elsewhere, answer.headers["location"])
        self.assertIn("Is the game on another device?", page.text)
        self.assertEqual(page.headers["refresh"], f"2; url={link}")
        parts = urlsplit(link)
        self.assertEqual((parts.scheme, parts.netloc, parts.path), ("http", "127.0.0.1:51004", "/gamed/return"))
        query = parse_qs(parts.query)
        self.assertEqual(query["login_id"], [game.login["login_id"]])
        self.assertEqual(game.collect(ticket=query["ticket"][0]).status, 200)
        back = browser.get(answer.headers["location"])
        self.assertEqual((back.status, back.heading), (200, "You can go back to the game"))
        self.assertEqual(back.headers["refresh"], "20")

    def test_unknown(self) -> None:
        """The result of an unknown login is not found, whatever its id is."""
        self.serve()
        for login_id in ("", "lgn_1", "lgn_%00", "x" * 300):
            page = self.new_browser().get(f"{BASE}/auth/login/done?login_id={login_id}")
            self.assertEqual((page.status, page.heading != ""), (404, True), login_id)

    def test_the_game_is_elsewhere(self) -> None:
        """The second link of the return page shows the code."""
        self.serve()
        game, browser = self.game(loopback_port=51004), self.new_browser()
        page = browser.get(browser.sign_in(game.url).headers["location"])
        shown = browser.get(page.links[1])
        self.assertEqual((shown.status, shown.heading, shown.links), (200, "Type this code into your game", []))
        self.assertEqual(game.collect(finish_code=code(shown)).status, 200)

    def test_the_code_page_moves_on(self) -> None:
        """The page with the code reloads itself until the game has signed in."""
        self.serve()
        game, browser = self.game(), self.new_browser()
        where = browser.sign_in(game.url).headers["location"]
        page = browser.get(where)
        self.assertEqual(page.headers["refresh"], "20")
        self.assertEqual(game.collect(finish_code=code(page)).status, 200)
        delivered = browser.get(where)
        self.assertEqual((delivered.heading, delivered.headers["refresh"]), ("You can go back to the game", "20"))
        [(session_id,)] = self.server.rows("SELECT session_id FROM session")
        self.server.write(lambda c: session_tables.mark_used(c, session_id, 1, self.server.now_ms()))
        collected = browser.get(where)
        self.assertEqual((collected.heading, "refresh" in collected.headers), ("You can go back to the game", False))

    def test_an_end_moves_on_no_more(self) -> None:
        """After a cancel or the deadline the next page shows the end and reloads no more."""
        self.serve()
        collect = lambda game, page: game.collect(finish_code=code(page))  # noqa: E731
        cancel = lambda game, page: game.cancel()  # noqa: E731
        for heading, steps in (
            ("The game gave up waiting", [cancel]),
            ("The game gave up waiting", [collect, cancel]),
            ("This sign-in has expired", [lambda game, page: self.server.clock.advance(600)]),
        ):
            game, browser = self.game(), self.new_browser()
            where = browser.sign_in(game.url).headers["location"]
            page = browser.get(where)
            for step in steps:
                step(game, page)
            over = browser.get(where)
            self.assertEqual((over.heading, "refresh" in over.headers), (heading, False))

    def test_waiting_for_approval_moves_on_no_more(self) -> None:
        """The page of a new player who waits for approval shows the code for the owner, and reloads no more."""
        self.serve(registration=APPROVAL)
        game, browser = self.game(), self.new_browser()
        where = browser.create(game.url, "Bert").headers["location"]
        problem = game.collect(finish_code=code(browser.get(where))).json["problem"]
        page = browser.get(where)
        self.assertEqual((page.heading, "refresh" in page.headers), ("Waiting for the owner", False))
        self.assertIn(problem["approval_code"], page.text)

    def test_the_link_again_shows_the_code(self) -> None:
        """The link, opened again, shows the finish code and redirects no more."""
        self.serve()
        game, browser = self.game(loopback_port=51004, client={"name": "MyGame"}), self.new_browser()
        browser.get(browser.sign_in(game.url).headers["location"])
        answer = browser.get(game.url)
        self.assertEqual(answer.status, 303)
        page = browser.get(answer.headers["location"])
        self.assertEqual(page.headers["refresh"], "20")
        self.assertIn("Only do this if you started the sign-in.", page.text)
        self.assertIn("<bdi>MyGame</bdi>", page.html)
        self.assertIn("asked just now", page.text)
        self.assertEqual(game.collect(finish_code=code(page)).status, 200)

    def test_without_a_port(self) -> None:
        """Without a port the page shows the code at once; "This was not me" below it ends the login."""
        self.serve()
        game, browser = self.game(), self.new_browser()
        page = browser.get(browser.sign_in(game.url).headers["location"])
        self.assertRegex(code(page), r"\A[BCDFGHJKLMNPQRSTVWXZ]{3}-[BCDFGHJKLMNPQRSTVWXZ]{3}\Z")
        denied = browser.post(page.form("/decline"))
        self.assertEqual((denied.status, denied.heading), (200, "You were not signed in"))
        self.assertEqual(game.collect(finish_code=code(page)).json["problem"]["code"], "login_denied")
        self.assertEqual(
            browser.get(f"/auth/login/done?login_id={game.login['login_id']}").heading, "You were not signed in"
        )

    @covers("threats/3")
    def test_another_browser(self) -> None:
        """Another browser gets 409 from link and result in every stage, without code, ticket and outcome."""
        self.serve()
        game, winner, other = self.game(loopback_port=51004), self.new_browser(), self.new_browser()
        other.get(game.url)
        where = winner.sign_in(game.url).headers["location"]
        for browser in (other, self.new_browser()):
            for url in (game.url, where):
                page = browser.get(url)
                self.assertEqual((page.status, OTHER_SENTENCE in page.text), (409, True))
                self.assertEqual((page.links, page.forms), (["/"], []))
        self.assertEqual(game.collect().json["stage"], "proof_required")
        game.cancel()
        self.assertEqual(other.get(where).status, 409)
        self.assertEqual((winner.get(where).status, winner.get(where).heading), (200, "The game gave up waiting"))

    def test_a_second_browser_that_comes_late(self) -> None:
        """A form of a second browser, opened before the first one finished, is 409 without effect."""
        self.serve()
        game, winner, late = self.game(), self.new_browser(), self.new_browser()
        form = late.get(game.url).form("/local")
        winner.sign_in(game.url)
        page = late.post(form, {"name": "Anna", "password": "correct horse"})
        self.assertEqual((page.status, OTHER_SENTENCE in page.text), (409, True))
        decline = late.post({**form, "action": form["action"].replace("/local", "/decline")})
        self.assertEqual(decline.status, 409)
        self.assertEqual(game.collect().json["stage"], "proof_required")

    def test_no_such_login(self) -> None:
        """An unknown or absent id is 404, two ids are 400."""
        self.serve()
        for query, status in (("?login_id=lgn_x", 404), ("", 404), ("?login_id=a&login_id=b", 400)):
            self.assertEqual(self.new_browser().get(f"/auth/login/done{query}").status, status)

    def test_done_is_a_document(self) -> None:
        """The result in a frame or as a prefetch shows nothing and records no redirect."""
        self.serve()
        game, browser = self.game(loopback_port=51004), self.new_browser()
        where = browser.sign_in(game.url).headers["location"]
        self.assertEqual(browser.get(where, Sec_Fetch_Dest="iframe").status, 403)
        self.assertEqual(browser.get(where, Sec_Purpose="prefetch").status, 503)
        self.assertIn("refresh", browser.get(where).headers)

    @covers("threats/1")
    def test_no_proof_wanted(self) -> None:
        """With return_proof off the page shows no code and no link to the port."""
        self.serve(return_proof=OFF)
        game, browser = self.game(loopback_port=51004), self.new_browser()
        self.assertEqual(game.login["return_proof"], "none")
        page = browser.get(browser.sign_in(game.url).headers["location"])
        self.assertEqual((page.heading, page.links, page.headers["refresh"]), ("Nearly there", [], "20"))
        self.assertEqual(game.collect().json["status"], "complete")


class EveryPage(BrowserCase):
    def pages(self) -> list[Answer]:
        """Yield one page of each kind."""
        self.serve()
        game, browser = self.game(), self.new_browser()
        url = game.url.removeprefix(BASE)
        first = self.site.get(url)
        cookie = {"Cookie": first.cookies[0].split(";")[0]}
        browser.cookie = cookie["Cookie"]
        form = browser.get(game.url).form("/local")
        fields = "&".join(f"{name}={value}" for name, value in form["fields"].items())
        again = self.site.post_form(form["action"], fields, cookie)
        won = browser.sign_in(game.url).headers["location"].removeprefix(BASE)
        return [first, again, self.site.get(won, cookie), self.site.get(won), self.site.get("/auth/login/none")]

    @covers("threats/6")
    def test_headers(self) -> None:
        """Every page has the strict policy with the style's hash, no opener, no-store, and no-referrer.

        Only the sign-in page has a script, that of passkeys, with its hash.
        """
        for answer in self.pages():
            [style] = findall(r"<style>(.*?)</style>", answer.body.decode(), DOTALL)
            digest = b64encode(sha256(style.encode()).digest()).decode()
            sources = f"style-src 'sha256-{digest}'; img-src 'self'"
            scripts = findall(r"<script>(.*?)</script>", answer.body.decode(), DOTALL)
            self.assertEqual(len(scripts), 1 if 'id="passkey"' in answer.body.decode() else 0)
            for script in scripts:
                sources = f"script-src 'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'; {sources}"
            policy = f"default-src 'none'; {sources}; frame-ancestors 'none'; base-uri 'none'"
            self.assertEqual(answer.headers["content-security-policy"], policy)
            self.assertEqual(answer.headers["cross-origin-opener-policy"], "same-origin")
            self.assertEqual(answer.headers["content-type"], "text/html; charset=utf-8")
            self.assertEqual(answer.headers["cache-control"], "no-store")
            self.assertEqual(answer.headers["referrer-policy"], "no-referrer")
            self.assertEqual(answer.headers["x-content-type-options"], "nosniff")
            self.assertNotRegex(answer.body.decode(), r"\sstyle=|\son[a-z]+=")

    def test_structure(self) -> None:
        """Every page has one heading, a language, a title, a viewport; every field a label, every button a type."""
        for answer in self.pages():
            html = answer.body.decode()
            self.assertEqual(html.count("<h1>"), 1)
            self.assertTrue(html.startswith('<!DOCTYPE html>\n<html lang="en" dir="ltr">'))
            self.assertIn('name="viewport" content="width=device-width, initial-scale=1"', html)
            self.assertEqual(set(findall(r'<input id="([^"]+)"', html)), set(findall(r'<label for="([^"]+)"', html)))
            self.assertEqual(html.count("<button"), html.count('type="submit"'))

    def test_errors(self) -> None:
        """Every outcome and status has a page with a heading and a sentence; the detail is text, not markup."""
        for outcome in LoginFailure:
            page = rendered(ended_page(outcome))
            self.assertIn(sentences.ENDED[outcome][0].source.replace("'", "&#39;").split("&")[0], page)
        for status in (400, 403, 404, 405, 409, 410, 413, 418, 429, 500, 503, 507):
            page = rendered(error_page(status, text("{detail}", detail="<b>{detail}</b>"), request_id=""))
            self.assertIn("&lt;b&gt;{detail}&lt;/b&gt;", page)
            self.assertIsNotNone(search(r"<h1>[A-Z].+</h1>", page))
        self.assertIn(
            "The server made a mistake.", rendered(problem_page(plain_problem("internal_error"), request_id=""))
        )

    def test_how_long_ago(self) -> None:
        """The age is in words, without a zero."""
        pages = [
            rendered(sign_in_page(asked(age_seconds=age), Registration.OPEN)) for age in (0, 59, 60, 119, 120, 3599)
        ]
        ages = [search(r"asked ([\w ]+)</small>", page)[1] for page in pages]  # type: ignore[index]
        self.assertEqual(ages, ["just now"] * 2 + ["1 min ago"] * 2 + ["2 min ago", "59 min ago"])

    def test_the_hints_are_true(self) -> None:
        """The hints for names and passwords match the rules."""
        self.assertEqual(parse_name("A.b_c-9"), "A.b_c-9")
        self.assertIn("1 to 32", "1 to 32 letters, digits, dots, underscores or hyphens.")
        self.assertIn("8 to 128", "8 to 128 characters. The server cannot show it to you again.")


def code(page: Page) -> str:
    match = search(r"\b[B-Z]{3}-[B-Z]{3}\b", page.text)
    assert match is not None, page.text
    return match[0]
