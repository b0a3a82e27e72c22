"""These tests read the QR code of a login's link, and ask for it when the link leads nowhere.

See docs/protocol.md: Start.
"""

from re import findall

from gamed.config.model import AuthLimits
from gamed.login.routes import DRAWINGS_QUEUED, draw
from tests.login.browser_fixtures import BASE, BrowserCase
from tests.support.covers import covers
from tests.support.databases import LateThreads
from tests.support.http import Connection
from tests.support.qr import read_png, read_svg

LONGEST = f"https://{'a' * 63}.{'b' * 63}.{'c' * 63}.{'d' * 57}.org:65535/auth/login/{'A' * 22}"


class Images(BrowserCase):
    def test_the_game_gets_the_address(self) -> None:
        """The answer to a start names a PNG on the same server that decodes to the link."""
        self.serve()
        game = self.game()
        self.assertEqual(game.login["qr_url"], f"{game.url}/qr.png")
        image = self.site.get(game.login["qr_url"].removeprefix(BASE))
        self.assertEqual((image.status, image.headers["content-type"]), (200, "image/png"))
        self.assertEqual(read_png(image.body), game.url)

    def test_svg(self) -> None:
        """The SVG decodes to the same link, and has neither style, script nor reference."""
        self.serve()
        game = self.game()
        image = self.site.get(f"{game.url}/qr.svg".removeprefix(BASE))
        self.assertEqual((image.status, image.headers["content-type"]), (200, "image/svg+xml"))
        self.assertEqual(read_svg(image.body), game.url)
        self.assertEqual(findall(rb"(?i)script|style|href|url\(|<!", image.body), [])

    def test_long_names(self) -> None:
        """The longest link, of a host with 253 characters, fits."""
        self.assertEqual(read_png(draw(LONGEST, "png")), LONGEST)
        self.assertEqual(read_svg(draw(LONGEST, "svg")), LONGEST)

    @covers("threats/6")
    def test_headers(self) -> None:
        """No cache keeps the image, a page of another origin may show it, and by itself it can do nothing."""
        self.serve()
        game = self.game()
        for kind in ("svg", "png"):
            headers = self.site.get(f"{game.url}/qr.{kind}".removeprefix(BASE)).headers
            self.assertEqual(headers["cache-control"], "no-store")
            self.assertEqual(headers["referrer-policy"], "no-referrer")
            self.assertEqual(headers["x-content-type-options"], "nosniff")
            self.assertEqual(headers["cross-origin-resource-policy"], "cross-origin")
            policy = "default-src 'none'; frame-ancestors 'none'; sandbox"
            self.assertEqual(headers["content-security-policy"], policy)
            self.assertNotIn("set-cookie", headers)

    @covers("threats/7")
    def test_it_opens_nothing(self) -> None:
        """A browser that loads the image changes no row, gets no cookie, and the game still waits for a browser."""
        self.serve()
        game = self.game()
        before = self.server.rows("SELECT * FROM login")
        sent = {"Sec-Fetch-Dest": "image", "Sec-Fetch-Site": "cross-site", "Sec-Purpose": "prefetch"}
        for kind in ("svg", "png"):
            answer = self.site.get(f"{game.url}/qr.{kind}".removeprefix(BASE), sent)
            self.assertEqual((answer.status, answer.cookies), (200, []))
        self.assertEqual(self.server.rows("SELECT * FROM login"), before)
        self.assertEqual(game.collect().json["stage"], "waiting_for_browser")


class Threads(BrowserCase):
    """The thread that draws, whose work is done when a test calls `run()`."""

    drawing_threads: LateThreads

    def setUp(self) -> None:
        self.drawing_threads = LateThreads()
        self.serve()
        self.path = self.game().url.removeprefix(BASE)

    def ask(self, kind: str = "png") -> Connection:
        return self.site.send("GET", f"{self.path}/qr.{kind}")

    def test_in_a_thread(self) -> None:
        """The reactor's thread draws nothing: without the other thread there is no picture."""
        for kind, read in (("png", read_png), ("svg", read_svg)):
            call = self.ask(kind)
            self.assertEqual(call.answers, [])
            self.assertEqual(self.site.get("/auth/login/short").status, 404)  # others go on meanwhile
            self.drawing_threads.run()
            self.assertEqual(read(call.answer.body), f"{BASE}{self.path}")

    @covers("threats/7")
    def test_bounded(self) -> None:
        """One picture is drawn at a time; more than may wait are refused at once, and the next ones are drawn again."""
        calls = [self.ask() for _ in range(1 + DRAWINGS_QUEUED)]
        self.assertEqual(self.drawing_threads.waiting, 1)
        refused = self.ask().answer
        self.assertEqual((refused.status, refused.code, refused.headers["retry-after"]), (503, "busy", "1"))
        self.assertEqual(refused.headers["content-type"], "application/problem+json")
        self.drawing_threads.run()
        self.assertEqual([call.answer.status for call in calls], [200] * len(calls))
        call = self.ask()
        self.drawing_threads.run()
        self.assertEqual(call.answer.status, 200)


class Refusals(BrowserCase):
    def refused(self, url: str, status: int, code: str) -> None:
        for kind in ("svg", "png"):
            answer = self.site.get(f"{url}/qr.{kind}".removeprefix(BASE), {"Sec-Fetch-Dest": "image"})
            self.assertEqual((answer.status, answer.json["code"]), (status, code))
            self.assertEqual(answer.headers["content-type"], "application/problem+json")
            self.assertEqual(answer.headers["cache-control"], "no-store")

    def test_unknown(self) -> None:
        """A token that was never issued, and a text that is not a token, are 404."""
        self.serve()
        for token in ("A" * 22, "short", "A" * 21 + "!", "..%2f..", "A" * 2000):
            self.refused(f"/auth/login/{token}", 404, "route_not_found")

    def test_used(self) -> None:
        """Once a browser has signed in by the link, the image is 410."""
        self.serve()
        game = self.game()
        self.new_browser().sign_in(game.url, "Anna", "wrong horse")
        self.assertEqual(self.site.get(f"{game.url}/qr.png".removeprefix(BASE)).status, 200)
        self.new_browser().sign_in(game.url)
        self.refused(game.url, 410, "login_expired")

    def test_ended(self) -> None:
        """A login that was declined, cancelled or has expired is 410, also when no clean-up has run."""
        self.serve()
        declined, cancelled, expired = self.game(), self.game(), self.game()
        browser = self.new_browser()
        browser.post(browser.get(declined.url).form("/decline"))
        cancelled.cancel()
        self.refused(declined.url, 410, "login_expired")
        self.refused(cancelled.url, 410, "login_expired")
        self.server.clock.advance(600)
        self.refused(expired.url, 410, "login_expired")

    @covers("threats/32")
    def test_counted(self) -> None:
        """Images count per address, also for unknown links; a page that shows many keeps no player from a link."""
        self.serve(limits=AuthLimits(entries_per_minute=6))
        game = self.game()
        path = game.url.removeprefix(BASE)
        for number in range(6):
            link = f"{path}/qr.png" if number % 2 else f"/auth/login/{'A' * 22}/qr.svg"
            self.assertIn(self.site.get(link).status, (200, 404))
        answer = self.site.get(f"{path}/qr.png")
        self.assertEqual((answer.status, answer.json["code"]), (429, "rate_limited"))
        self.assertIn("retry-after", answer.headers)
        self.assertEqual(self.new_browser().get(game.url).status, 200)

    def test_methods(self) -> None:
        """HEAD is answered as GET without the image; any other method is 405."""
        self.serve()
        path = f"{self.game().url}/qr.png".removeprefix(BASE)
        self.assertEqual(self.site.request("HEAD", path).status, 200)
        for method in ("POST", "PUT", "DELETE"):
            self.assertEqual(self.site.request(method, path).status, 405)
