"""The pages show the owner's colour and picture, and allow nothing more for it (docs/owners/configuration.md: Look)."""

from base64 import b64encode
from hashlib import sha256
from re import findall

from gamed.config.model import Look, Mark
from gamed.login.pages.layout import PAGE_HEADERS, STYLE, look_style
from tests.config.test_look import PNG, SHAPES
from tests.login.browser_fixtures import BrowserCase


class LookTests(BrowserCase):
    def sources(self, html: str) -> str:
        """Return the source of each style sheet on a page."""
        sheets = [sheet.encode() for sheet in findall("(?s)<style>(.*?)</style>", html)]
        return " ".join(f"'sha256-{b64encode(sha256(sheet).digest()).decode()}'" for sheet in sheets)

    def test_both(self) -> None:
        """Every page has the picture and both style sheets; its policy allows these and no other."""
        self.look = Look("#22aa77", Mark("image/svg+xml", SHAPES))
        self.serve()
        game, browser = self.game(), self.new_browser()
        pages = [browser.get(game.url), browser.get(f"{game.url}/create"), browser.get(f"/auth/login/{'A' * 22}")]
        pages += [browser.get(browser.sign_in(game.url).headers["location"])]
        for page in pages:
            self.assertIn('src="/auth/mark"', page.html)
            expected = f"default-src 'none'; style-src {self.sources(page.html)}; img-src 'self'"
            expected += "; frame-ancestors 'none'; base-uri 'none'"
            self.assertEqual(page.headers["content-security-policy"], expected)
            self.assertIn("--accent: #22aa77; --press: #22aa77; --on-accent: #000000;", page.html)

    def test_colour_alone(self) -> None:
        """Without a picture no page may load one."""
        self.look = Look("#1f3fbf")
        self.serve()
        page = self.new_browser().get(self.game().url)
        self.assertNotIn("img", page.tags)
        self.assertNotIn("img-src", page.headers["content-security-policy"])
        self.assertIn("--on-accent: #ffffff;", page.html)

    def test_picture_alone(self) -> None:
        """Without a colour there is one style sheet."""
        self.look = Look(mark=Mark("image/png", PNG))
        self.serve()
        page = self.new_browser().get(self.game().url)
        self.assertEqual(findall("(?s)<style>(.*?)</style>", page.html), [STYLE])
        self.assertIn("img-src 'self'", page.headers["content-security-policy"])

    def test_neither(self) -> None:
        """Without a look the policy is the plain one, and the address of the picture is 404."""
        self.serve()
        page = self.new_browser().get(self.game().url)
        policy = PAGE_HEADERS["Content-Security-Policy"]
        self.assertEqual(page.headers["content-security-policy"], policy)
        answer = self.site.get("/auth/mark")
        self.assertEqual((answer.status, answer.json["code"]), (404, "route_not_found"))

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
        """The style sheet holds nothing that the template would escape, so its hash matches."""
        self.assertEqual(findall("[<>&]", look_style(Look("#22aa77"))), [])
