"""These tests send `GET /auth/{provider}/callback` over HTTP: statuses, pages, headers, effects.

See docs/internals/rules.md: Callbacks.
"""

from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from msgspec.structs import replace

from gamed.dev import documents
from gamed.dev.grants import ResponseMode
from gamed.dev.provider import SLOW_SECONDS
from gamed.login import sentences
from gamed.login.policy import NO_LIMITS
from gamed.providers.client import TIMEOUT_SECONDS
from tests.login.browser_fake_provider import DISCORD, ProviderCase
from tests.login.browser_fixtures import BASE, Game, Page, PageBrowser
from tests.login.test_browser_routes import OTHER_SENTENCE, code
from tests.support.covers import covers
from tests.support.http import Connection
from tests.support.provider import BASE as FAR


class CallbackRouteCase(ProviderCase):
    def setUp(self) -> None:
        self.serve_oauth()
        self.begin("discord")

    def begin(self, provider: str, person: str = "anna", manner: ResponseMode = ResponseMode.AT_ONCE) -> None:
        """Sign in at the provider; keep the address of the callback."""
        self.player: Game = self.game(provider=provider)
        self.browser: PageBrowser = self.new_browser()
        self.back = self.at_provider(self.go_on(self.browser, self.player.url), person, manner)
        self.query = dict(parse_qsl(urlsplit(self.back).query))

    def callback(self, browser: PageBrowser | None = None, provider: str = "discord", **query: str) -> Page:
        """Send the callback with other parameters; an empty one is left out."""
        parameters = {name: value for name, value in {**self.query, **query}.items() if value}
        return (browser or self.browser).get(f"/auth/{provider}/callback?{urlencode(parameters)}")

    def waiting(self, url: str) -> Connection:
        """Send the browser's request, which may be answered later."""
        return self.site.send("GET", url.removeprefix(BASE), {"Cookie": str(self.browser.cookie)})

    def refused(self, page: Page, status: int, sentence: str) -> None:
        self.assertEqual((page.status, sentence in page.text), (status, True), page.text)
        self.assertEqual(page.headers["content-type"], "text/html; charset=utf-8")
        self.assertNotIn("location", page.headers)

    def finishes(self) -> None:
        """Finish the sign-in with the right browser and game."""
        page = self.browser.get(self.browser.get(self.back).headers["location"])
        self.assertEqual(self.player.collect(finish_code=code(page)).json["status"], "complete")


@covers("4/11", "7/8")
class NoEffect(CallbackRouteCase):
    def test_malformed(self) -> None:
        """Check 1 rejects a doubled parameter, both or neither of code and error, invalid UTF-8, and a long query."""
        query = urlencode(self.query)
        for raw in ("", "code=c&" + query, query + "&error=e", "state=" + self.query["state"], query + "&iss=a&iss=b"):
            self.refused(self.browser.get(f"/auth/discord/callback?{raw}"), 400, sentences.CALLBACK_MALFORMED.source)
        for raw in ("x=%ff&" + query, query + "&x=" + "x" * 4096):
            self.refused(self.browser.get(f"/auth/discord/callback?{raw}"), 400, sentences.CALLBACK_MALFORMED.source)
        self.finishes()

    def test_code_outside_its_grammar(self) -> None:
        """Check 1 rejects characters that no provider issues; nothing is sent and the state stays unused."""
        for value in ("\0", "4/0\n", "\x7f", "ä", "\U0001f600"):
            self.refused(self.callback(code=value), 400, sentences.CALLBACK_MALFORMED.source)
        for error in ('"', "\\", "access_denied\r\n", "ä"):
            self.refused(self.callback(code="", error=error), 400, sentences.CALLBACK_MALFORMED.source)
        self.assertEqual(self.fake.requests(documents.DISCORD_TOKEN), [])
        self.finishes()

    def test_too_many(self) -> None:
        """A callback over the limit is a page with 429 and Retry-After, without effect: a reload finishes it."""
        limits = replace(NO_LIMITS, callbacks_per_minute=2)
        self.serve_oauth(limits=limits)
        self.begin("discord")
        for _ in range(2):
            self.refused(self.callback(state="x"), 400, sentences.CALLBACK_UNKNOWN.source)
        for page in (self.browser.get(self.back), self.browser.get("/auth/nobody/callback?x")):
            self.refused(page, 429, "Try again in 30 seconds.")
            self.assertEqual(page.headers["retry-after"], "30")
        self.assertEqual(self.fake.requests(documents.DISCORD_TOKEN), [])
        self.pass_time(30)
        self.finishes()

    def test_no_such_provider(self) -> None:
        """Check 2 gives a page for any provider name; a longer path is a page, too."""
        for name in ("nobody", "login", "config", "session", "Discord", "%2e%2e", "a b".replace(" ", "%20")):
            page = self.callback(provider=name)
            self.assertEqual((page.status, page.headers["content-type"]), (404, "text/html; charset=utf-8"), name)
        self.refused(self.callback(provider="nobody"), 404, sentences.CALLBACK_UNKNOWN_PROVIDER.source)
        for path in ("/auth/discord/callback/", "/auth/discord/callback/x", "/auth//callback", "/auth/callback"):
            self.assertEqual(self.browser.get(path).status, 404)
        self.finishes()

    def test_unknown_state(self) -> None:
        """Check 3 rejects an unknown state."""
        for state in ("", "x", self.query["state"].lower(), self.query["state"] + " "):
            self.refused(self.callback(state=state), 400, sentences.CALLBACK_UNKNOWN.source)
        self.finishes()

    @covers("threats/4")
    def test_another_browser(self) -> None:
        """Check 4 rejects no cookie, a new one and a forged one; state and code stay unused."""
        other, forged = self.new_browser(), self.new_browser()
        forged.cookie = "__Host-gl=" + "A" * 43
        for browser in (other, forged, self.new_browser()):
            self.refused(self.callback(browser), 403, "Open the link again from the game.")
            self.assertIsNone(other.cookie)
        self.assertEqual(self.fake.requests(documents.DISCORD_TOKEN), [])
        self.finishes()

    def test_not_a_page(self) -> None:
        """A prefetch, a frame, HEAD and POST use up nothing."""
        path = self.back.removeprefix(BASE)
        self.assertEqual(self.browser.get(path, Sec_Purpose="prefetch;prerender").status, 503)
        for place in ("iframe", "image", "empty"):
            self.assertEqual(self.browser.get(path, Sec_Fetch_Dest=place).status, 403)
        for method in ("HEAD", "POST", "PUT", "OPTIONS"):
            answer = self.site.request(method, path, {"Cookie": str(self.browser.cookie)})
            self.assertEqual((answer.status, answer.headers["allow"]), (405, "GET"), method)
        self.finishes()


class Invalidated(CallbackRouteCase):
    @covers("threats/13")
    def test_wrong_path(self) -> None:
        """Check 5 rejects the other provider's path; the link, opened again, still works."""
        self.refused(self.callback(provider="google", iss=FAR), 400, sentences.CALLBACK_INVALID.source)
        self.refused(self.callback(), 410, sentences.CALLBACK_INVALID.source)
        [line] = self.server.security
        self.assertTrue(line.startswith("callback_rejected provider=google check=other_provider "), line)
        self.assertNotIn(self.query["state"], line)
        self.assertEqual([sent.path for sent in self.fake.sent if "oken" in sent.path], [])
        self.back = self.at_provider(self.go_on(self.browser, self.player.url))
        self.finishes()

    @covers("threats/13")
    def test_wrong_issuer(self) -> None:
        """Check 6 rejects another issuer, an extra slash, and a missing `iss` that the metadata promised."""
        for iss in ("https://evil.example", FAR + "/", ""):
            self.server.security.clear()
            self.begin("google")
            self.refused(self.callback(provider="google", iss=iss), 400, sentences.CALLBACK_INVALID.source)
            [line] = self.server.security
            self.assertIn("callback_rejected provider=google check=other_issuer", line)
            self.back = self.at_provider(self.go_on(self.browser, self.player.url))
            self.finishes()


@covers("4/5", "4/6", "7/8")
class SecondCallback(CallbackRouteCase):
    def test_over(self) -> None:
        """Check 7 is 410 with the outcome."""
        self.player.cancel()
        page = self.browser.get(self.back)
        self.assertEqual((page.status, page.heading), (410, "The game gave up waiting"))

    def test_twice(self) -> None:
        """A second callback is 409 with Refresh to the result and a button, without code and state."""
        self.browser.get(self.back)
        page = self.browser.get(self.back)
        done = f"{BASE}/auth/login/done?login_id={self.player.login['login_id']}"
        self.assertEqual((page.status, page.headers["refresh"], page.links), (409, f"0; url={done}", [done]))
        for secret in (self.query["code"], self.query["state"]):
            self.assertNotIn(secret, page.html + repr(page.headers))
        self.assertEqual(len(self.fake.requests(documents.DISCORD_TOKEN)), 1)
        self.assertEqual(self.player.collect(finish_code=code(self.browser.get(done))).json["status"], "complete")

    def test_twice_at_once(self) -> None:
        """A second callback waits for the first exchange; both lead to the same page."""
        self.begin("discord", "bo", ResponseMode.SLOW)
        first, second = self.waiting(self.back), self.waiting(self.back)
        self.assertEqual((first.answers, second.answers), ([], []))
        self.pass_time(SLOW_SECONDS)
        self.assertEqual((first.answer.status, second.answer.status), (303, 409))
        self.assertIn(first.answer.headers["location"], second.answer.headers["refresh"])

    def test_two_browsers(self) -> None:
        """Give the second of two browsers with attempts an error, without code or outcome."""
        late = self.new_browser()
        other = self.at_provider(self.go_on(late, self.player.url), "bo")
        self.finishes()
        page = late.get(other)
        self.assertEqual((page.status, OTHER_SENTENCE in page.text), (409, True))
        self.assertNotIn("refresh", page.headers)
        self.assertEqual(late.get(self.player.url).status, 409)


class Disconnects(CallbackRouteCase):
    def test_the_browser_leaves(self) -> None:
        """The browser disconnects at any point: the exchange ends, and the browser finds its code when it returns."""
        self.begin("discord", "anna", ResponseMode.SLOW)
        connection = self.waiting(self.back)
        self.assertEqual(self.player.collect().json["stage"], "exchanging")
        connection.leave()
        self.pass_time(SLOW_SECONDS)
        self.assertEqual(self.player.collect().json["stage"], "proof_required")
        page = self.browser.get(self.browser.get(self.player.url).headers["location"])
        self.assertEqual(self.player.collect(finish_code=code(page)).json["status"], "complete")

    def test_during_the_decision(self) -> None:
        """The browser disconnects before check 8 is written: the callback still counts, and its code is sent once."""
        self.server.databases.auth.pause()
        connection = self.waiting(self.back)
        connection.leave()
        self.assertEqual(self.player.collect().json["stage"], "at_provider")
        self.server.databases.auth.resume()
        self.assertEqual(self.player.collect().json["stage"], "proof_required")
        self.assertEqual(len(self.fake.requests(documents.DISCORD_TOKEN)), 1)
        page = self.browser.get(self.browser.get(self.player.url).headers["location"])
        self.assertEqual(self.player.collect(finish_code=code(page)).json["status"], "complete")

    def test_at_done(self) -> None:
        """The browser disconnects at the result: the next visit redirects to the port, or shows the code."""
        for seen in (False, True):
            game, browser = self.game(provider="discord", loopback_port=51004), self.new_browser()
            done = browser.get(self.at_provider(browser.get(game.url))).headers["location"]
            self.server.databases.auth.pause()
            connection = self.site.send("GET", done.removeprefix(BASE), browser.headers())
            if seen:
                self.server.databases.auth.resume()
                self.assertEqual(connection.answer.status, 200)
            connection.leave()
            if not seen:
                self.server.databases.auth.resume()
            self.assertEqual(game.collect().json["stage"], "proof_required")
            page = browser.get(done)
            self.assertEqual(bool(page.links), not seen)
            if page.links:
                proof = {"ticket": dict(parse_qsl(urlsplit(page.links[0]).query))["ticket"]}
            else:
                proof = {"finish_code": code(page)}
            self.assertEqual(game.collect(**proof).json["status"], "complete")

    def test_a_provider_that_never_answers(self) -> None:
        """A provider that never answers fails after 10 s with an outcome, a page and a log line."""
        self.begin("discord", "anna", ResponseMode.SLOW)
        connection = self.waiting(self.back)
        self.server.clock.advance(TIMEOUT_SECONDS - 0.1)
        self.assertEqual(connection.answers, [])
        self.server.clock.advance(0.1)
        self.assertEqual(self.player.collect().json["problem"]["code"], "provider_unavailable")
        self.assertEqual(connection.answer.status, 303)
        self.assertIn("within 10 s", self.server.log.lines[0])


@covers("4/5", "4/6")
class Headers(CallbackRouteCase):
    @covers("threats/14")
    def test_of_the_redirect(self) -> None:
        """The redirect is 303 with no-store and no-referrer, without code and state."""
        page = self.browser.get(self.back)
        self.assertEqual((page.status, page.html), (303, ""))
        self.assertEqual((page.headers["cache-control"], page.headers["referrer-policy"]), ("no-store", "no-referrer"))
        self.assertEqual(set(dict(parse_qsl(urlsplit(page.headers["location"]).query))), {"login_id"})

    @covers("threats/23")
    def test_words_of_the_provider(self) -> None:
        """Markup in a parameter never appears in a page."""
        for name in ("error", "error_description", "state", "iss", "scope"):
            page = self.browser.get(f"/auth/discord/callback?{name}={quote('<script>alert(1)</script>')}&code=c")
            self.assertNotIn("alert", page.html)
        page = self.callback(code="", error="<script>alert(1)</script>", error_description="<b>alert</b>")
        page = self.browser.get(page.headers["location"])
        self.assertNotIn("alert", page.html)
        self.assertNotIn("alert", " ".join(self.server.log.lines))


class LocalMode(ProviderCase):
    def test_no_callback(self) -> None:
        """Local mode has no callback."""
        self.serve()
        page = self.new_browser().get("/auth/discord/callback?state=s&code=c")
        self.assertEqual((page.status, sentences.CALLBACK_UNKNOWN_PROVIDER.source in page.text), (404, True))

    def test_no_way_on(self) -> None:
        """Local mode has no redirect to a provider; trying it ends nothing."""
        self.serve()
        game, browser = self.game(), self.new_browser()
        form = browser.get(game.url).form("/local")
        self.assertEqual(browser.post({**form, "action": form["action"].replace("/local", "/continue")}).status, 404)
        self.assertEqual(browser.sign_in(game.url).status, 303)

    def test_one_provider(self) -> None:
        """A provider that is not configured is not enabled."""
        self.serve_oauth(DISCORD)
        self.assertEqual(self.new_browser().get("/auth/google/callback?state=s&code=c").status, 404)
