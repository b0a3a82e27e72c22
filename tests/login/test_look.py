"""The pages show the owner's colour and picture, and allow nothing more for it (docs/owners/configuration.md: Look)."""

from base64 import b64encode
from hashlib import sha256
from re import findall

from gamed.config.look import check_svg
from gamed.config.model import Look, Mark
from gamed.pages.render import PageRenderer
from tests.config.test_look import PNG, SHAPES
from tests.login.browser_fixtures import BrowserCase


class LookTests(BrowserCase):
    def sources(self, html: str, name: str = "style") -> str:
        """Return the source of each style sheet, or each script, on a page."""
        parts = [part.encode() for part in findall(f"(?s)<{name}>(.*?)</{name}>", html)]
        return " ".join(f"'sha256-{b64encode(sha256(part).digest()).decode()}'" for part in parts)

    def policy(self, html: str) -> str:
        scripts = self.sources(html, "script")
        return (
            f"default-src 'none'; {f'script-src {scripts}; ' if scripts else ''}style-src {self.sources(html)}"
            "; img-src 'self'; frame-ancestors 'none'; base-uri 'none'"
        )

    def test_both(self) -> None:
        """Every page has the picture and the colour; its policy allows this style sheet and no other."""
        self.look = Look("#22aa77", Mark("image/svg+xml", SHAPES))
        self.serve()
        game, browser = self.game(), self.new_browser()
        pages = [browser.get(game.url), browser.get(f"{game.url}/create"), browser.get(f"/auth/login/{'A' * 22}")]
        pages += [browser.get(browser.sign_in(game.url).headers["location"])]
        for page in pages:
            self.assertIn('src="/auth/mark"', page.html)
            self.assertEqual(page.headers["content-security-policy"], self.policy(page.html))
            self.assertIn("--accent: #22aa77; --press: #22aa77; --on-accent: #000000;", page.html)

    def test_colour_alone(self) -> None:
        """Without a picture the page shows the first letter of the server's name."""
        self.look = Look("#1f3fbf")
        self.serve()
        page = self.new_browser().get(self.game().url)
        self.assertNotIn("img", page.tags)
        self.assertIn('<span class="mark" aria-hidden="true">A</span>', page.html)
        self.assertIn("--on-accent: #ffffff;", page.html)

    def test_picture_alone(self) -> None:
        """Without a colour the style sheet is the plain one."""
        self.look = Look(mark=Mark("image/png", PNG))
        self.serve()
        page = self.new_browser().get(f"/auth/login/{'A' * 22}")
        self.assertEqual(page.headers["content-security-policy"], PageRenderer().headers["Content-Security-Policy"])

    def test_neither(self) -> None:
        """Without a picture its address has the built-in one, which browsers show beside the title."""
        self.serve()
        page = self.new_browser().get(self.game().url)
        self.assertEqual(page.headers["content-security-policy"], self.policy(page.html))
        self.assertIn('<link rel="icon" href="/auth/mark">', page.html)
        answer = self.site.get("/auth/mark")
        self.assertEqual((answer.status, answer.headers["content-type"]), (200, "image/svg+xml"))
        check_svg(answer.body)

    def test_the_picture(self) -> None:
        """The picture has a fixed type, other sites cannot embed it, and by itself it can do nothing."""
        for kind, content in (("image/svg+xml", SHAPES), ("image/png", PNG)):
            self.look = Look(mark=Mark(kind, content))
            self.serve()
            answer = self.site.get("/auth/mark")
            self.assertEqual((answer.status, answer.body), (200, content))
            self.assertEqual(answer.headers["content-type"], kind)
            self.assertEqual(answer.headers["x-content-type-options"], "nosniff")
            self.assertEqual(answer.headers["cross-origin-resource-policy"], "same-origin")
            policy = "default-src 'none'; frame-ancestors 'none'; sandbox"
            self.assertEqual(answer.headers["content-security-policy"], policy)

    def test_the_sheet_is_not_escaped(self) -> None:
        """The style sheet holds nothing that ends its element."""
        for look in (None, Look("#22aa77")):
            self.assertEqual(findall("[<&]", PageRenderer(look).style), [])
