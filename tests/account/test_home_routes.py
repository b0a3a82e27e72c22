"""The server's address shows a page to a browser, and to a program that there is nothing."""

from functools import partial

from twisted.trial.unittest import SynchronousTestCase

from gamed.account.home_routes import HomeRoutes, render_for_any
from gamed.crypto import Indexer
from gamed.http.background import ShieldedTasks
from gamed.login.csrf import BrowserGuard
from gamed.login.responder import PageResponder
from gamed.pages.languages import Languages
from gamed.pages.render import PageRenderer
from tests.support.http import START_MS, Answer, Browser

CHROMIUM = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8"
HOME = ("/", "/auth/")


class HomeTests(SynchronousTestCase):
    def setUp(self) -> None:
        guard = BrowserGuard(indexer=Indexer(b"k" * 32), random=bytes, secure=True)
        parts = (lambda: START_MS, ShieldedTasks(), PageRenderer(), Languages())
        pages = PageResponder(guard, lambda: "https://game.example", "Anna's <server>", *parts)
        self.browser = Browser([HomeRoutes(pages=pages)], render_unknown=partial(render_for_any, pages))

    def get(self, path: str, accept: str | None) -> Answer:
        return self.browser.request("GET", path, {} if accept is None else {"Accept": accept})

    def test_browser(self) -> None:
        """A browser gets a page with the server's name, its address and a link to the player's account."""
        for path in HOME:
            answer = self.get(path, CHROMIUM)
            self.assertEqual((answer.status, answer.headers["content-type"]), (200, "text/html; charset=utf-8"))
            for part in (b"Anna&#39;s &lt;server&gt;", b"https://game.example</p>", b'href="/auth/account"'):
                self.assertIn(part, answer.body)
            self.assertEqual(answer.headers["vary"], "Accept, Accept-Language, Cookie")
            self.assertEqual(answer.headers["cache-control"], "no-store")
            self.assertIn("default-src 'none'", answer.headers["content-security-policy"])

    def test_program(self) -> None:
        """A program gets the problem that it got before there was a page."""
        for path in HOME:
            for accept in (None, "*/*", "application/json", "text/*", "text/html;q=0, application/json"):
                self.assertEqual((self.get(path, accept).status, self.get(path, accept).code), (404, "route_not_found"))

    def test_other_methods(self) -> None:
        """Other methods are refused with a problem that a program can read."""
        for path in HOME:
            for method in ("POST", "PUT", "DELETE"):
                answer = self.browser.request(method, path, {"Accept": CHROMIUM})
                self.assertEqual((answer.code, answer.headers["allow"]), ("method_not_allowed", "GET"))

    def test_unknown(self) -> None:
        """A browser gets a page with the server's name and a way on where there is nothing, a program a problem."""
        for path in ("/auth", "/foo", "/index.html", "//", "/auth//", "/auth/foo", "/%3Cb%3E", "/foo?x=1"):
            page = self.get(path, CHROMIUM)
            self.assertEqual((page.status, page.headers["content-type"]), (404, "text/html; charset=utf-8"), path)
            for part in (b"Anna&#39;s &lt;server&gt;", b"There is no page at this address.", b'href="/"'):
                self.assertIn(part, page.body)
            self.assertEqual(page.headers["vary"], "Accept, Accept-Language, Cookie")
            self.assertEqual(page.headers["cache-control"], "no-store")
            self.assertIn("default-src 'none'", page.headers["content-security-policy"])
            for accept in (None, "*/*", "application/json", "text/html;q=0"):
                self.assertEqual((self.get(path, accept).status, self.get(path, accept).code), (404, "route_not_found"))
            for method in ("POST", "HEAD", "OPTIONS"):
                answer = self.browser.request(method, path, {"Accept": CHROMIUM})
                self.assertEqual(answer.headers["content-type"], "application/problem+json", (method, path))

    def test_wrong_address(self) -> None:
        """A browser that came by another name reads the right address, at every path; a program gets a problem."""
        for path in ("/", "/auth/", "/foo"):
            headers = {"Accept": CHROMIUM, "Host": "other.example"}
            page = self.browser.request("GET", path, headers)
            self.assertEqual((page.status, page.headers["content-type"]), (421, "text/html; charset=utf-8"), path)
            self.assertIn(b"Its address is <bdi>https://game.example</bdi>", page.body)
            self.assertIn(b'href="https://game.example/"', page.body)
            problem = self.browser.request("GET", path, {"Host": "other.example"})
            self.assertEqual((problem.status, problem.code), (421, "misdirected_request"))

    def test_unreadable(self) -> None:
        """An address that cannot be read has a page for a browser, too."""
        page = self.browser.request("GET", "/%zz", {"Accept": CHROMIUM})
        self.assertEqual((page.status, b"This address cannot be read." in page.body), (400, True))
