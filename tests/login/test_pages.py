"""The pages as browsers see them (PROTOCOL 3.2 and 3.4)."""

from base64 import b64encode
from hashlib import sha256
from re import DOTALL, findall, search
from urllib.parse import parse_qs, urlsplit

from gamed.login.pages import texts
from gamed.login.pages.forms import started
from gamed.login.pages.layout import ServerName
from gamed.login.pages.results import ended_page, error_page
from gamed.outcomes import LoginFailure
from gamed.players.names import parse_name
from gamed.players.passwords import AT_ONCE, QUEUED
from gamed.sessions import tables as session_tables
from tests.login.browser_fixtures import BASE, Page, WebCase
from tests.login.fixtures import APPROVAL, CLOSED, OFF, PASSWORD
from tests.support.covers import covers
from tests.support.http import Answer

OTHER_SENTENCE = "Another browser finished this sign-in. If that was not you, cancel in the game."
EVIL = "<script>alert(1)</script>\u202egnp.exe\u2066"


class Link(WebCase):
    def test_the_page(self) -> None:
        """Server, host, the device's words marked as reported, how long ago, both forms, and the way to say no."""
        self.serve()
        game = self.game(client={"name": "MyGame", "version": "1.4.2", "device_name": "ANNA-PC", "platform": "windows"})
        self.desk.clock.advance(125)
        page = self.surfer().get(game.url)
        self.assertEqual((page.status, page.heading), (200, "Sign in"))
        for words in ("Anna's Arena", "game.example", "Reported by the device", "Started 2 minutes ago"):
            self.assertIn(words, page.text)
        for words in ("MyGame", "1.4.2", "ANNA-PC", "windows"):
            self.assertIn(f"<bdi>{words}</bdi>", page.html)
        self.assertEqual([form["action"].rpartition("/")[2] for form in page.forms], ["local", "local", "decline"])
        for field in ('autocomplete="username"', 'autocomplete="current-password"', 'autocomplete="new-password"'):
            self.assertIn(field, page.html)
        self.assertIn("This was not me", page.text)

    @covers("threats/7")
    def test_opening_it_changes_nothing(self) -> None:
        """However often: no row is written, and the game is told nothing."""
        self.serve()
        game = self.game()
        before = self.desk.rows("SELECT * FROM login")
        for browser in (self.surfer(), self.surfer()):
            browser.get(game.url)
            browser.get(game.url)
        self.assertEqual(self.desk.rows("SELECT * FROM login"), before)

    def test_registration(self) -> None:
        """Closed: no form to make an account. Approval: it says what will happen."""
        for registration, forms, words in ((CLOSED, 1, ""), (APPROVAL, 2, texts.CREATE_APPROVAL)):
            self.serve(registration=registration)
            page = self.surfer().get(self.game().url)
            self.assertEqual(len([form for form in page.forms if form["action"].endswith("/local")]), forms)
            self.assertIn(words, page.text)

    def test_registration_closed_meanwhile(self) -> None:
        """A form from before the owner closed the door is refused in words, and not shown once more."""
        self.serve(registration=CLOSED)
        game, browser = self.game(), self.surfer()
        page = browser.post(browser.get(game.url).form("/local"), {"create": "yes", "name": "bo", "password": PASSWORD})
        self.assertIn(texts.REFUSED_CLOSED, page.text)
        self.assertEqual([form["fields"].get("create") for form in page.forms], [None, None])

    @covers("threats/8")
    def test_words_of_the_device_stay_words(self) -> None:
        """Markup and direction marks neither run nor reorder the page; without words the page says so."""
        self.serve()
        page = self.surfer().get(self.game(client={"name": EVIL}).url)
        self.assertIn("<bdi>&lt;script&gt;alert(1)&lt;/script&gt;gnp.exe</bdi>", page.html)
        self.assertNotIn("script", page.tags)
        self.assertIn(texts.DEVICE_SILENT, self.surfer().get(self.game().url).text)

    def test_without_a_name(self) -> None:
        """A server without a name is its host."""
        self.server_name = None
        self.serve()
        self.assertIn("sign in on game.example", self.surfer().get(self.game().url).text)

    def test_unknown_and_malformed(self) -> None:
        """A token nobody has is 404 as a page, and so is anything that cannot be one."""
        self.serve()
        for path in ("/auth/login/" + "A" * 22, "/auth/login/short", "/auth/login/" + "A" * 21 + "!", "/auth/login/"):
            page = self.surfer().get(path)
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
        """410 and one sentence for every way a login can end."""
        self.serve()
        denied, cancelled, expired = self.game(), self.game(), self.game()
        browser = self.surfer()
        browser.post(browser.get(denied.url).form("/decline"))
        cancelled.cancel()
        self.assertEqual(self.surfer().get(denied.url).heading, texts.ENDED[LoginFailure.LOGIN_DENIED][0])
        self.assertEqual(browser.get(cancelled.url).heading, texts.ENDED[LoginFailure.LOGIN_CANCELLED][0])
        self.desk.clock.advance(600)
        page = browser.get(expired.url)
        self.assertEqual((page.status, page.heading), (410, texts.ENDED[LoginFailure.LOGIN_EXPIRED][0]))


class Cookie(WebCase):
    def test_on_https(self) -> None:
        """__Host-gl, 256 bits, Secure, HttpOnly, SameSite=Lax, Path=/; set once per browser."""
        self.serve()
        url = self.game().url.removeprefix(BASE)
        answer = self.site.get(url)
        self.assertRegex(answer.cookies[0], r"\A__Host-gl=[A-Za-z0-9_-]{43}; Path=/; Secure; HttpOnly; SameSite=Lax\Z")
        again = self.site.get(url, {"Cookie": answer.cookies[0].split(";")[0]})
        self.assertEqual(again.cookies, [])

    def test_on_loopback(self) -> None:
        """`gl` without Secure."""
        self.base = "http://127.0.0.1:8080"
        self.serve()
        answer = self.site.get(self.game().url.removeprefix(self.base))
        self.assertRegex(answer.cookies[0], r"\Agl=[A-Za-z0-9_-]{43}; Path=/; HttpOnly; SameSite=Lax\Z")

    def test_a_foreign_value_is_replaced(self) -> None:
        """What we would not have set is no cookie of ours."""
        self.serve()
        url = self.game().url.removeprefix(BASE)
        for value in ("", "short", "A" * 44, "A" * 42 + "!"):
            self.assertEqual(len(self.site.get(url, {"Cookie": f"__Host-gl={value}"}).cookies), 1, value)

    def test_the_store_has_no_cookie(self) -> None:
        """Only its HMAC, and only once the browser has won."""
        self.serve()
        game, browser = self.game(), self.surfer()
        browser.get(game.url)
        self.assertEqual(self.desk.rows("SELECT browser_index FROM login"), [(None,)])
        browser.sign_in(game.url)
        [(index,)] = self.desk.rows("SELECT browser_index FROM login")
        value = str(browser.cookie).partition("=")[2]
        self.assertEqual((len(index), value.encode() in index), (32, False))


class Forms(WebCase):
    def refused(self, page: Page, status: int = 403) -> None:
        self.assertEqual((page.status, page.headers["content-type"]), (status, "text/html; charset=utf-8"))
        self.assertEqual(self.desk.rows("SELECT DISTINCT stage FROM login"), [("pending",)])

    @covers("threats/5")
    def test_a_form_needs_its_cookie(self) -> None:
        """Without one, with another browser's, or with another login's field: 403, no effect."""
        self.serve()
        game, other, browser = self.game(), self.game(), self.surfer()
        typed = {"name": "Anna", "password": "correct horse"}
        for action in ("/local", "/decline"):
            form = browser.get(game.url).form(action)
            self.refused(self.surfer().post(form, typed))
            stranger = self.surfer()
            stranger.get(game.url)
            self.refused(stranger.post(form, typed))
            foreign = browser.get(other.url).form(action)
            self.refused(browser.post({**form, "fields": foreign["fields"]}, typed))
            self.refused(browser.post({**form, "fields": {}}, typed))

    @covers("threats/5")
    def test_a_form_from_another_site(self) -> None:
        """From another site, or inside another page: 403, no effect; a browser that says nothing of it is old."""
        self.serve()
        game, browser = self.game(), self.surfer()
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
        """A link opened inside another page is 403, a guess of the browser 503, neither sets a cookie."""
        self.serve()
        game = self.game()
        for headers, status in (({"Sec_Fetch_Dest": "iframe"}, 403), ({"Sec_Purpose": "prefetch;prerender"}, 503)):
            browser = self.surfer()
            page = browser.get(game.url, **headers)
            self.refused(page, status)
            self.assertIsNone(browser.cookie)
        self.assertIn("retry-after", page.headers)
        self.assertEqual(
            self.surfer().get(game.url, Sec_Fetch_Dest="document", Sec_Fetch_Site="cross-site").status, 200
        )

    def test_bad_forms(self) -> None:
        """JSON, broken UTF-8, a doubled field, 9 KiB: refused as pages, no effect."""
        self.serve()
        game, browser = self.game(), self.surfer()
        form = browser.get(game.url).form("/local")
        headers = {"Cookie": str(browser.cookie)}
        self.assertEqual(self.site.post_json(form["action"], {}, headers).status, 415)
        mark = f"form={form['fields']['form']}"
        for fields, status in ((f"{mark}&name=%ff", 400), (f"{mark}&name=a&name=b", 400), ("name=" + "x" * 9000, 413)):
            answer = self.site.post_form(form["action"], fields, headers)
            self.refused(Page(answer), status)

    def test_refused_sign_ins(self) -> None:
        """200, the form again with the name typed, one sentence, the same for unknown name and wrong password."""
        self.serve()
        game, browser = self.game(), self.surfer()
        wrong = browser.sign_in(game.url, "Anna", "wrong horse")
        unknown = browser.sign_in(game.url, "nobody", "wrong horse")
        self.assertEqual((wrong.status, unknown.status), (200, 200))
        self.assertEqual(wrong.html.replace('Anna"', '"'), unknown.html.replace('nobody"', '"'))
        self.assertIn(texts.REFUSED_WRONG, wrong.text)
        self.assertEqual(wrong.form("/local")["fields"]["name"], "Anna")
        self.assertNotIn("horse", wrong.html)
        self.assertEqual(browser.post(wrong.form("/local"), {"name": "Anna", "password": "correct horse"}).status, 303)

    def test_a_busy_server(self) -> None:
        """503, the form again with the name typed, and the id by which the owner finds the request in the log."""
        self.serve()
        game, browser = self.game(), self.surfer()
        form = browser.get(game.url).form("/local")
        turns = self.desk.passwords._hasher._free
        for _ in range(AT_ONCE + QUEUED):
            turns.acquire()
        page = browser.post(form, {"name": "Anna", "password": "correct horse"})
        self.assertEqual((page.status, page.form("/local")["fields"]["name"]), (503, "Anna"))
        self.assertIn(page.headers["x-request-id"], page.text)

    def test_refused_accounts(self) -> None:
        """The folded form comes back open, with what to do; no password is repeated."""
        self.serve()
        game, browser = self.game(), self.surfer()
        for name, password, sentence in (
            ("anna", "a password", texts.REFUSED_TAKEN),
            ("a b", "a password", texts.REFUSED_NAME),
            ("Bert", "shorty", texts.REFUSED_PASSWORD),
        ):
            page = browser.create(game.url, name, password)
            self.assertEqual(page.status, 200)
            self.assertIn(sentence, page.text)
            self.assertIn('<details open="open">', page.html)
            self.assertEqual(page.form("/local", create="yes")["fields"]["name"], name)
            self.assertNotIn(password, page.html)

    def test_too_many_tries(self) -> None:
        """429 with Retry-After, and still a page with the form."""
        self.serve(passwords_per_minute=1)
        game, browser = self.game(), self.surfer()
        browser.sign_in(game.url, password="wrong horse")
        page = browser.sign_in(game.url)
        self.assertEqual((page.status, page.headers["retry-after"]), (429, "60"))
        self.assertIn(texts.REFUSED_LIMIT.format(wait="60 seconds"), page.text)
        self.assertEqual(browser.get(game.url).status, 200)


class Done(WebCase):
    @covers("threats/30")
    def test_straight_to_the_port(self) -> None:
        """303 to done; there Refresh: 2 and a link, both to the game's port, and a second link to the code."""
        self.serve()
        game, browser = self.game(loopback_port=51004), self.surfer()
        answer = browser.sign_in(game.url)
        self.assertEqual(answer.status, 303)
        self.assertEqual(answer.headers["location"], f"{BASE}/auth/login/done?login_id={game.login['login_id']}")
        page = browser.get(answer.headers["location"])
        link, elsewhere = page.links
        self.assertEqual(elsewhere, answer.headers["location"])
        self.assertIn(texts.RETURN_ELSEWHERE, page.text)
        self.assertEqual(page.headers["refresh"], f"2; url={link}")
        parts = urlsplit(link)
        self.assertEqual((parts.scheme, parts.netloc, parts.path), ("http", "127.0.0.1:51004", "/gamed/return"))
        query = parse_qs(parts.query)
        self.assertEqual(query["login_id"], [game.login["login_id"]])
        self.assertEqual(game.collect(ticket=query["ticket"][0]).status, 200)
        back = browser.get(answer.headers["location"])
        self.assertEqual((back.status, back.heading), (200, "You can go back to the game"))
        self.assertEqual(back.headers["refresh"], "20")

    def test_the_game_is_elsewhere(self) -> None:
        """The second link of the page that leads to the port shows the code instead."""
        self.serve()
        game, browser = self.game(loopback_port=51004), self.surfer()
        page = browser.get(browser.sign_in(game.url).headers["location"])
        shown = browser.get(page.links[1])
        self.assertEqual((shown.status, shown.heading, shown.links), (200, texts.CODE_TITLE, []))
        self.assertEqual(game.collect(finish_code=code(shown)).status, 200)

    def test_the_code_page_moves_on(self) -> None:
        """While the code is good its page asks again by itself, and so does the next until the game has signed in."""
        self.serve()
        game, browser = self.game(), self.surfer()
        where = browser.sign_in(game.url).headers["location"]
        page = browser.get(where)
        self.assertEqual(page.headers["refresh"], "20")
        self.assertEqual(game.collect(finish_code=code(page)).status, 200)
        delivered = browser.get(where)
        self.assertEqual((delivered.heading, delivered.headers["refresh"]), (texts.BACK_TITLE, "20"))
        [(session_id,)] = self.desk.rows("SELECT session_id FROM session")
        self.desk.write(lambda c: session_tables.mark_used(c, session_id, 1, self.desk.now_ms()))
        collected = browser.get(where)
        self.assertEqual((collected.heading, "refresh" in collected.headers), (texts.BACK_TITLE, False))

    def test_an_end_moves_on_no_more(self) -> None:
        """Cancelled before or after the collect, or expired: the next page says so and stays."""
        self.serve()
        collect = lambda game, page: game.collect(finish_code=code(page))  # noqa: E731
        cancel = lambda game, page: game.cancel()  # noqa: E731
        for heading, steps in (
            ("The game gave up waiting", [cancel]),
            ("The game gave up waiting", [collect, cancel]),
            ("This took too long", [lambda game, page: self.desk.clock.advance(600)]),
        ):
            game, browser = self.game(), self.surfer()
            where = browser.sign_in(game.url).headers["location"]
            page = browser.get(where)
            for step in steps:
                step(game, page)
            over = browser.get(where)
            self.assertEqual((over.heading, "refresh" in over.headers), (heading, False))

    def test_waiting_for_approval_moves_on_no_more(self) -> None:
        """The page of a newcomer who has to be approved shows the code for the owner, and stays."""
        self.serve(registration=APPROVAL)
        game, browser = self.game(), self.surfer()
        where = browser.create(game.url, "Bert").headers["location"]
        problem = game.collect(finish_code=code(browser.get(where))).json["problem"]
        page = browser.get(where)
        self.assertEqual((page.heading, "refresh" in page.headers), ("Waiting for the owner", False))
        self.assertIn(problem["approval_code"], page.text)

    def test_the_link_again_shows_the_code(self) -> None:
        """Nothing listens on the port: the link opened again leads to the finish code and no longer to the port."""
        self.serve()
        game, browser = self.game(loopback_port=51004, client={"name": "MyGame"}), self.surfer()
        browser.get(browser.sign_in(game.url).headers["location"])
        answer = browser.get(game.url)
        self.assertEqual(answer.status, 303)
        page = browser.get(answer.headers["location"])
        self.assertEqual(page.headers["refresh"], "20")
        self.assertIn(texts.CODE_LEAD, page.text)
        self.assertIn("<bdi>MyGame</bdi>", page.html)
        self.assertIn("Started just now", page.text)
        self.assertEqual(game.collect(finish_code=code(page)).status, 200)

    def test_without_a_port(self) -> None:
        """The code at once; "This was not me" under it ends the login."""
        self.serve()
        game, browser = self.game(), self.surfer()
        page = browser.get(browser.sign_in(game.url).headers["location"])
        self.assertRegex(code(page), r"\A[BCDFGHJKLMNPQRSTVWXZ]{3}-[BCDFGHJKLMNPQRSTVWXZ]{3}\Z")
        denied = browser.post(page.form("/decline"))
        self.assertEqual((denied.status, denied.heading), (200, texts.DENIED_TITLE))
        self.assertEqual(game.collect(finish_code=code(page)).json["problem"]["code"], "login_denied")
        self.assertEqual(
            browser.get(f"/auth/login/done?login_id={game.login['login_id']}").heading, "Nobody was signed in"
        )

    @covers("threats/3")
    def test_another_browser(self) -> None:
        """409 and its sentence, from the link and from done, whatever the stage; no code, no ticket, no outcome."""
        self.serve()
        game, winner, other = self.game(loopback_port=51004), self.surfer(), self.surfer()
        other.get(game.url)
        where = winner.sign_in(game.url).headers["location"]
        for browser in (other, self.surfer()):
            for url in (game.url, where):
                page = browser.get(url)
                self.assertEqual((page.status, OTHER_SENTENCE in page.text), (409, True))
                self.assertEqual((page.links, page.forms), ([], []))
        self.assertEqual(game.collect().json["stage"], "proof_required")
        game.cancel()
        self.assertEqual(other.get(where).status, 409)
        self.assertEqual((winner.get(where).status, winner.get(where).heading), (200, "The game gave up waiting"))

    def test_a_second_browser_that_comes_late(self) -> None:
        """Its form, opened before the other won, is answered 409 and gives its game nothing."""
        self.serve()
        game, winner, late = self.game(), self.surfer(), self.surfer()
        form = late.get(game.url).form("/local")
        winner.sign_in(game.url)
        page = late.post(form, {"name": "Anna", "password": "correct horse"})
        self.assertEqual((page.status, OTHER_SENTENCE in page.text), (409, True))
        decline = late.post({**form, "action": form["action"].replace("/local", "/decline")})
        self.assertEqual(decline.status, 409)
        self.assertEqual(game.collect().json["stage"], "proof_required")

    def test_no_such_login(self) -> None:
        """404 for an id nobody has, none at all; 400 for two."""
        self.serve()
        for query, status in (("?login_id=lgn_x", 404), ("", 404), ("?login_id=a&login_id=b", 400)):
            self.assertEqual(self.surfer().get(f"/auth/login/done{query}").status, status)

    def test_done_is_a_document(self) -> None:
        """Inside another page or prefetched it shows and spends nothing."""
        self.serve()
        game, browser = self.game(loopback_port=51004), self.surfer()
        where = browser.sign_in(game.url).headers["location"]
        self.assertEqual(browser.get(where, Sec_Fetch_Dest="iframe").status, 403)
        self.assertEqual(browser.get(where, Sec_Purpose="prefetch").status, 503)
        self.assertIn("refresh", browser.get(where).headers)

    @covers("threats/1")
    def test_no_proof_wanted(self) -> None:
        """Where return_proof is off, the page shows no code and no way to the port."""
        self.serve(return_proof=OFF)
        game, browser = self.game(loopback_port=51004), self.surfer()
        self.assertEqual(game.login["return_proof"], "none")
        page = browser.get(browser.sign_in(game.url).headers["location"])
        self.assertEqual((page.heading, page.links, page.headers["refresh"]), (texts.WAITING_TITLE, [], "20"))
        self.assertEqual(game.collect().json["status"], "complete")


class EveryPage(WebCase):
    def pages(self) -> list[Answer]:
        """One of each kind."""
        self.serve()
        game, browser = self.game(), self.surfer()
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
        """The strict policy with the style's own hash, no opener, no store, no referrer; no script anywhere."""
        for answer in self.pages():
            [style] = findall(r"<style>(.*?)</style>", answer.body.decode(), DOTALL)
            digest = b64encode(sha256(style.encode()).digest()).decode()
            policy = f"default-src 'none'; style-src 'sha256-{digest}'; frame-ancestors 'none'; base-uri 'none'"
            self.assertEqual(answer.headers["content-security-policy"], policy)
            self.assertEqual(answer.headers["cross-origin-opener-policy"], "same-origin")
            self.assertEqual(answer.headers["content-type"], "text/html; charset=utf-8")
            self.assertEqual(answer.headers["cache-control"], "no-store")
            self.assertEqual(answer.headers["referrer-policy"], "no-referrer")
            self.assertEqual(answer.headers["x-content-type-options"], "nosniff")
            self.assertNotIn("script", Page(answer).tags)
            self.assertNotRegex(answer.body.decode(), r"\sstyle=|\son[a-z]+=")

    def test_structure(self) -> None:
        """One heading, a language, a title, a viewport; every field has a label, every button a type."""
        for answer in self.pages():
            html = answer.body.decode()
            self.assertEqual(html.count("<h1>"), 1)
            self.assertTrue(html.startswith('<!DOCTYPE html>\n<html lang="en">'))
            self.assertIn('name="viewport" content="width=device-width, initial-scale=1"', html)
            self.assertEqual(set(findall(r'<input id="([^"]+)"', html)), set(findall(r'<label for="([^"]+)"', html)))
            self.assertEqual(html.count("<button"), html.count('type="submit"'))

    def test_errors(self) -> None:
        """Every outcome and every status has a page with a heading and a sentence; detail is text, not markup."""
        for outcome in LoginFailure:
            html = ended_page(outcome, ServerName(None, "game.example")).decode()
            self.assertIn(texts.ENDED[outcome][0].replace("'", "&#39;").split("&")[0], html)
        for status in (400, 403, 404, 405, 409, 410, 413, 418, 429, 500, 503, 507):
            html = error_page(status, "x", "<b>{detail}</b>", request_id="").decode()
            self.assertIn("&lt;b&gt;{detail}&lt;/b&gt;", html)
            self.assertIsNotNone(search(r"<h1>[A-Z][^<]+</h1>", html))
        self.assertIn(texts.ERROR_LEAD_OTHER, error_page(500, "x", "", request_id="").decode())

    def test_how_long_ago(self) -> None:
        """In words, without a zero or a plural of one."""
        told = [started(seconds) for seconds in (0, 59, 60, 119, 120, 3599)]
        self.assertEqual([word.removeprefix("Started ") for word in told[:2]], ["just now"] * 2)
        self.assertEqual([word.removeprefix("Started ") for word in told[2:4]], ["1 minute ago"] * 2)
        self.assertEqual([word.removeprefix("Started ") for word in told[4:]], ["2 minutes ago", "59 minutes ago"])

    def test_the_hints_are_true(self) -> None:
        """What the page says of names is what the rule takes."""
        self.assertEqual(parse_name("A.b_c-9"), "A.b_c-9")
        self.assertIn("1 to 32", texts.NAME_HINT)
        self.assertIn("8 to 128", texts.PASSWORD_HINT)


def code(page: Page) -> str:
    match = search(r"\b[B-Z]{3}-[B-Z]{3}\b", page.text)
    assert match is not None, page.text
    return match[0]
