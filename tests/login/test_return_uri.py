"""A login returns to an app only by an address that the owner allows (docs/protocol.md: Start; RFC 8252 7.1, 8.1)."""

from urllib.parse import parse_qs, urlsplit

from twisted.trial.unittest import SynchronousTestCase

from gamed.config.model import Mode
from gamed.login.browser import ReturnToGame, ShowFinishCode, SignInPrompt
from gamed.login.collect import Complete
from gamed.login.errors import InvalidProof
from gamed.login.return_rules import MAX_URI, ReturnUriInvalid, check_return_uri
from gamed.sessions import tables as session_tables
from tests.login.browser_fixtures import BASE, BrowserCase
from tests.login.examples import OTHER
from tests.login.fake_provider import FakeProvider
from tests.login.fixtures import OFF, LoginCase
from tests.login.test_browser_routes import code
from tests.support.covers import covers

SCHEME, SITE, PORT = "com.example.game:", "https://app.example.org", "https://apps.example.net:8443"
APP_LINKS = (SCHEME, SITE, PORT)
URI = "com.example.game:/signin"
ALLOWED = (
    URI,
    "com.example.game:/",
    "com.example.game://signin",
    "com.example.game://signin/back?from=gamed",
    "com.example.game:///signin",
    "com.example.game:/a;b=c,d:e@f!$&()*+",
    f"com.example.game:/{'a' * (MAX_URI - len('com.example.game:/'))}",
    SITE,
    f"{SITE}/",
    f"{SITE}/x?from=%C3%A9",
    f"{SITE}?from=x",
    "https://APP.Example.org:443/x",
    f"{PORT}/x",
)
FOREIGN = (
    "com.example.other:/signin",
    "com.example:/signin",
    "com.example.game.more:/signin",
    "xcom.example.game:/signin",
    "game:/signin",
    "http://app.example.org/x",
    "http://127.0.0.1:51004/gamed/return",
    "http://com.example.game/",
    "ftp://app.example.org/x",
    "ws://app.example.org/x",
    "file:///etc/passwd",
    "javascript:/signin",
    "javascript://com.example.game/%0aalert(1)",
    "data:/text/html,x",
    "vbscript:/x",
    "blob:/x",
    "about:/blank",
    "intent://signin",
    f"{BASE}/auth/login/done",
    f"{BASE}/x",
    "https://app.example.org.evil.example/x",
    "https://evil.app.example.org/x",
    "https://app.example.org:8443/x",
    "https://apps.example.net/x",
    "https://xn--bcher-kva.example/x",
    "https://127.0.0.1/x",
    "https://[::1]/x",
)
"""Addresses that no member of the list allows."""
MALFORMED = (
    "",
    ":",
    "/signin",
    "//app.example.org/x",
    "com.example.game",
    "com.example.game:",
    "com.example.game:signin",
    "com.example.game:?x",
    "COM.example.game:/signin",
    "Https://app.example.org/x",
    " com.example.game:/signin",
    "com.example.game:/signin\n",
    "com.example.game:/sign in",
    "com.example.game:/sign\tin",
    "com.example.game:/signin\r\nSet-Cookie: gl=x",
    "com.example.game:/signin\0",
    "com.example.game:/sign\u00efn",
    "com.example.game:/\u202enigis",
    "c\u043em.example.game:/signin",
    "com.example.game:/x'",
    'com.example.game:/x"',
    "com.example.game:/<script>",
    "com.example.game:/x\\y",
    "com.example.game:/{x}|^`",
    "com.example.game:/%",
    "com.example.game:/%4",
    "com.example.game:/%zz",
    "com.example.game:/signin#",
    "com.example.game:/signin#ticket",
    "com.example.game:#/signin",
    "com.example.game://anna@signin",
    "com.example.game://anna:secret@signin/x",
    "com.example.game://@signin",
    "com.example.game://signin:80/x",
    "com.example.game://[::1]/x",
    "javascript:alert(1)",
    "data:text/html,x",
    "https:app.example.org/x",
    "https:/app.example.org/x",
    "https://",
    "https:///x",
    "https:///app.example.org/x",
    "https://anna@app.example.org/x",
    "https://app.example.org@evil.example/x",
    "https://evil.example\\@app.example.org/x",
    "https://evil.example#@app.example.org/x",
    "https://app.example.org#",
    "https://app.example.org%2eevil.example/x",
    "https://app.example.org./x",
    "https://app.example.org:/x",
    "https://app.example.org:0/x",
    "https://app.example.org:443:443/x",
    "https://app.example.org:65536/x",
    "https://app\u3002example.org/x",
    "https://xn--app.example.org/x",
    "https://[/x",
    "https://]/x",
    "https://0x7f.1/x",
    "com.example.game:/x?login_id=lgn_1",
    "com.example.game:/x?a=b&ticket=c",
    "com.example.game:/x?a=b?c&%74icket",
    f"{SITE}/x?log%69n_id=lgn_1",
    f"{SITE}/x?ticket",
    f"com.example.game:/{'a' * (MAX_URI - len('com.example.game:/') + 1)}",
    "a" * 4000,
)


class RuleTests(SynchronousTestCase):
    def test_allowed(self) -> None:
        """A listed scheme with any path, and any path on a listed origin, are accepted, up to 512 characters."""
        self.assertEqual(max(map(len, ALLOWED)), 512)
        for uri in ALLOWED:
            check_return_uri(uri, APP_LINKS)

    @covers("threats/66")
    def test_not_listed(self) -> None:
        """An address outside the list is rejected: other schemes, http, the server's own pages, similar hosts."""
        for uri in FOREIGN:
            error = self.assertRaises(ReturnUriInvalid, check_return_uri, uri, APP_LINKS)
            self.assertIn("login.app_links", str(error), uri)

    def test_malformed(self) -> None:
        """An address with a fragment, a user, an odd character or no path is rejected, though its app is listed."""
        for uri in MALFORMED:
            with self.assertRaises(ReturnUriInvalid, msg=uri):
                check_return_uri(uri, APP_LINKS)

    def test_words(self) -> None:
        """The text of an error says which rule the address breaks."""
        for uri, expected in (
            ("com.example.game:/sign in", "characters of ASCII"),
            ("com.example.game:/signin#x", "without a fragment"),
            (f"{SITE}/x#", "without a fragment"),
            ("com.example.game://anna@signin", "without a user"),
            ("https://anna:secret@app.example.org/x", "without a user"),
            ("com.example.game:signin", 'such as "https://app.example.org/signin"'),
            ("https://app_example/x", 'such as "https://app.example.org/signin"'),
            ("com.example.game:/x?ticket=1", "without login_id and ticket"),
        ):
            error = self.assertRaises(ReturnUriInvalid, check_return_uri, uri, APP_LINKS)
            self.assertIn(expected, str(error), uri)

    def test_nothing_is_listed(self) -> None:
        """Without a list no address is accepted."""
        for uri in (*ALLOWED, *FOREIGN, *MALFORMED):
            with self.assertRaises(ReturnUriInvalid, msg=uri):
                check_return_uri(uri, ())


class StartTests(BrowserCase):
    def test_members(self) -> None:
        """The response is that of any start, with `app_or_code`."""
        self.serve(app_links=APP_LINKS)
        for uri in ALLOWED:
            game = self.game(return_uri=uri)
            self.assertEqual((game.answer.status, game.login["return_proof"]), (201, "app_or_code"))
            self.assertNotIn(uri, game.answer.body.decode())

    @covers("threats/66")
    def test_refused(self) -> None:
        """Each hostile address is 400 with the member's pointer; the answer repeats nothing of it, no login starts."""
        self.serve(app_links=APP_LINKS)
        for uri in (*FOREIGN, *MALFORMED, 5, ["com.example.game:/x"], {"uri": URI}, True):
            answer = self.game(return_uri=uri).answer
            self.assertEqual((answer.status, answer.code), (400, "invalid_request"), uri)
            self.assertEqual([error["pointer"] for error in answer.json["errors"]], ["/return_uri"])
            self.assertNotIn("evil", answer.body.decode())
        self.assertEqual(self.server.rows("SELECT 1 FROM login"), [])

    def test_not_beside_a_port(self) -> None:
        """An address beside `loopback_port` is 400; null is like an absent member."""
        self.serve(app_links=APP_LINKS)
        answer = self.game(return_uri=URI, loopback_port=51004).answer
        self.assertEqual((answer.status, answer.code), (400, "invalid_request"))
        self.assertEqual([error["pointer"] for error in answer.json["errors"]], ["/return_uri"])
        self.assertEqual(self.game(return_uri=None, loopback_port=51004).login["return_proof"], "loopback_or_code")
        self.assertEqual(self.game(return_uri=URI, loopback_port=None).login["return_proof"], "app_or_code")


class PageTests(BrowserCase):
    def returned(self, uri: str, **terms: object) -> tuple:
        """Sign in up to the page with the button; return game, browser, page and the page's address."""
        self.serve(app_links=APP_LINKS, **terms)
        game, browser = self.game(return_uri=uri), self.new_browser()
        where = browser.sign_in(game.url).headers["location"]
        return game, browser, browser.get(where), where

    def test_scheme(self) -> None:
        """Button and Refresh lead to the app with login_id and ticket, which the game collects with."""
        game, browser, page, where = self.returned(URI)
        app, elsewhere = page.links
        self.assertEqual((page.heading, page.headers["refresh"]), ("Go back to the game", f"2; url={app}"))
        self.assertEqual(elsewhere, where)
        self.assertTrue(app.startswith(f"{URI}?"))
        query = parse_qs(urlsplit(app).query)
        self.assertEqual((query.keys(), query["login_id"]), ({"login_id", "ticket"}, [game.login["login_id"]]))
        self.assertEqual(game.collect(ticket=query["ticket"][0]).json["status"], "complete")
        self.assertEqual(browser.get(where).heading, "You can go back to the game")

    def test_https(self) -> None:
        """An https address has the button alone: without a tap a phone opens it in the browser."""
        game, _, page, _ = self.returned(f"{SITE}/x")
        self.assertTrue(page.links[0].startswith(f"{SITE}/x?login_id={game.login['login_id']}&ticket="))
        self.assertNotIn("refresh", page.headers)

    def test_query(self) -> None:
        """The members follow a query that the address has, and its markup is escaped."""
        game, _, page, _ = self.returned("com.example.game:/x?from=gamed&lt=1")
        login_id = game.login["login_id"]
        self.assertTrue(page.links[0].startswith(f"com.example.game:/x?from=gamed&lt=1&login_id={login_id}&ticket="))
        self.assertIn("gamed&amp;lt=1&amp;login_id=", page.html)

    def test_code_instead(self) -> None:
        """The page leads to the code as well; it appears, too, when the page or the link is opened again."""
        game, browser, page, where = self.returned(URI)
        for url in (page.links[1], where):
            shown = browser.get(url)
            self.assertEqual((shown.heading, shown.links), ("Type this code into your game", []))
        self.assertEqual(browser.get(game.url).headers["location"], where)
        self.assertEqual(game.collect(finish_code=code(shown)).json["status"], "complete")

    def test_another_browser(self) -> None:
        """Only the browser that signed in gets the address; any other gets 409, and takes nothing from it."""
        self.serve(app_links=APP_LINKS)
        game, browser, other = self.game(return_uri=URI), self.new_browser(), self.new_browser()
        other.get(game.url)
        where = browser.sign_in(game.url).headers["location"]
        for page in (other.get(where), self.new_browser().get(where)):
            self.assertEqual((page.status, page.links, "refresh" in page.headers), (409, ["/"], False))
        self.assertTrue(browser.get(where).links[0].startswith(URI))

    def test_no_proof_wanted(self) -> None:
        """With return_proof off the page leads nowhere, and the game collects without a ticket."""
        game, _, page, _ = self.returned(URI, return_proof=OFF)
        self.assertEqual((game.login["return_proof"], page.heading, page.links), ("none", "Nearly there", []))
        self.assertEqual(game.collect().json["status"], "complete")


class FlowTests(LoginCase):
    @covers("threats/66")
    def test_page_first(self) -> None:
        """A login of an app shows the page that names the device, even to a browser at the starter's address."""
        server = self.oauth_server(fake := FakeProvider(), app_links=APP_LINKS)
        started = server.start(return_uri=URI)
        for site in (None, "none", "same-origin", "cross-site"):
            self.assertIsInstance(server.open_link(started, site=site), SignInPrompt)
        self.assertEqual(fake.requests, [])

    @covers("threats/66")
    def test_own_ticket(self) -> None:
        """The ticket of one login is wrong for another, and costs no try."""
        server = self.local_server(app_links=APP_LINKS)
        mine, theirs = server.start(return_uri=URI), server.start(return_uri=URI)
        server.sign_in(mine)
        server.sign_in(theirs, OTHER)
        with self.assertRaises(InvalidProof):
            server.collect(theirs, ticket=server.ticket(mine))
        self.assertEqual(server.login(theirs).wrong_codes, 0)

    def test_once(self) -> None:
        """The browser is sent to the app once; opened again, link and page show the code."""
        server = self.local_server(app_links=APP_LINKS)
        started = server.start(return_uri=URI)
        server.sign_in(started)
        self.assertIsInstance(server.result(started), ReturnToGame)
        self.assertIsInstance(server.result(started), ShowFinishCode)

    def test_erased(self) -> None:
        """The address is deleted when the login ends: when the game cancels, or uses its credentials."""
        server = self.local_server(app_links=APP_LINKS)
        cancelled, used = server.start(return_uri=URI), server.start(return_uri=URI)
        self.assertEqual(server.rows("SELECT return_uri FROM login"), [(URI,), (URI,)])
        server.cancel(cancelled)
        server.sign_in(used)
        session_id = server.collect(used, ticket=server.ticket(used)).login.session_id
        server.write(lambda c: session_tables.mark_used(c, session_id, 1, server.now_ms()))
        self.assertEqual(server.rows("SELECT return_uri FROM login"), [(None,), (None,)])

    def test_with_a_provider(self) -> None:
        """A sign-in at a provider ends at the app; the ticket gives the credentials."""
        server = self.oauth_server(FakeProvider(), app_links=APP_LINKS)
        started = server.signed_in(return_uri=URI)
        self.assertEqual(server.context.policy.mode, Mode.OAUTH)
        self.assertIsInstance(server.collect(started, ticket=server.ticket(started)), Complete)
