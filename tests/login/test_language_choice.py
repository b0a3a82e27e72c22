"""A person chooses the language of the pages in a browser; the choice leads back to the page, and nowhere else."""

from tests.login.browser_fixtures import BASE, BrowserCase, Page

COOKIE = "__Host-language"


class ChoiceTests(BrowserCase):
    def setUp(self) -> None:
        super().setUp()
        self.serve()

    def language(self, page: Page) -> str:
        return page.html.partition('<html lang="')[2].partition('"')[0]

    def test_chosen(self) -> None:
        """The link of a page sets the cookie for a year and leads back; the cookie counts before the browser's."""
        game, site = self.game(), self.site
        page = Page(site.get(game.url.removeprefix(BASE), {"Accept-Language": "de"}))
        self.assertEqual(self.language(page), "de")
        self.assertEqual(page.headers["vary"], "Accept-Language, Cookie")
        link = next(each for each in page.languages if "/ja/" in each)
        answer = site.get(link)
        self.assertEqual((answer.status, answer.headers["location"]), (303, game.url))
        self.assertEqual(answer.headers["cache-control"], "no-store")
        chosen = f"{COOKIE}=ja; Path=/; Secure; HttpOnly; SameSite=Lax; Max-Age=31536000"
        self.assertEqual(answer.cookies, [chosen])
        fields = {"Accept-Language": "de", "Cookie": f"{COOKIE}=ja"}
        self.assertEqual(self.language(Page(site.get(game.url.removeprefix(BASE), fields))), "ja")

    def test_only_to_pages(self) -> None:
        """Whatever stands behind the language, the redirect stays on this server, on a page that GET shows."""
        for place, back in {
            "": "/", "/account": "/auth/account", "/account/saves/a%20b": "/auth/account/saves/a%20b",
            "/login/" + "A" * 22: "/auth/login/" + "A" * 22, "/invite/" + "b" * 22: "/auth/invite/" + "b" * 22,
            "/account?next=//evil.example": "/auth/account",
        }.items():  # fmt: skip
            answer = self.site.get(f"/auth/language/de{place}")
            self.assertEqual((place, answer.status, answer.headers.get("location")), (place, 303, f"{BASE}{back}"))
        for place in (
            "//evil.example",
            "/%2fevil.example",
            "/https:%2f%2fevil.example",
            "/account%0d%0aX",
            "/saves/%2f.",
        ):
            answer = self.site.get(f"/auth/language/de{place}")
            self.assertEqual((place, answer.status, answer.cookies), (place, 404, []))

    def test_unknown(self) -> None:
        """A language that the server does not have is no page, and sets no cookie."""
        for tag in ("xx", "DE", "de%3b%20Domain=evil.example", "..", "e" * 300):
            answer = self.site.get(f"/auth/language/{tag}/account")
            self.assertEqual((tag, answer.status, answer.cookies), (tag, 404, []))

    def test_other_sites(self) -> None:
        """No frame and no prefetch chooses."""
        for fields, status in (({"Sec-Fetch-Dest": "iframe"}, 403), ({"Sec-Purpose": "prefetch"}, 503)):
            answer = self.site.get("/auth/language/de/account", fields)
            self.assertEqual((answer.status, answer.cookies), (status, []))

    def test_no_way_back(self) -> None:
        """An answer to a form and a page with a query offer no languages: their links could not lead back."""
        game, browser = self.game(), self.new_browser()
        self.assertGreater(len(browser.get(game.url).languages), 2)
        self.assertEqual(browser.sign_in(game.url, "Nobody").languages, [])
        self.assertEqual(browser.get(f"{game.url}?a=b").languages, [])

    def test_problems(self) -> None:
        """A page about an error is in the person's language, too."""
        page = Page(self.site.get("/auth/login/" + "A" * 22, {"Accept-Language": "ja"}))
        self.assertEqual((page.status, self.language(page)), (404, "ja"))


class LocaleTests(BrowserCase):
    """A game says its language when it starts a sign-in (docs/protocol.md: Start)."""

    def setUp(self) -> None:
        super().setUp()
        self.serve()

    def language(self, locale: str | None, accepted: str = "", cookie: str = "") -> str:
        """Return the language of the page that a game's link opens."""
        path = self.game(locale=locale).url.removeprefix(BASE)
        page = Page(self.site.get(path, {"Accept-Language": accepted, "Cookie": cookie}))
        self.assertEqual(page.status, 200)
        return page.html.partition('<html lang="')[2].partition('"')[0]

    def test_page(self) -> None:
        """The page is in the game's language, from its heading to its buttons."""
        page = self.new_browser().get(self.game(locale="de-AT").url)
        self.assertIn('<html lang="de"', page.html)
        self.assertIn("Anmelden", page.html)

    def test_direction(self) -> None:
        """Arabic is written from right to left."""
        self.assertIn('<html lang="ar" dir="rtl"', self.new_browser().get(self.game(locale="ar").url).html)

    def test_order(self) -> None:
        """The person's choice counts first, then the game's language, then the browser's."""
        self.assertEqual(self.language("de", accepted="fr"), "de")
        self.assertEqual(self.language("de", accepted="fr", cookie=f"{COOKIE}=ja"), "ja")
        self.assertEqual(self.language("xx", accepted="fr"), "fr")

    def test_forms(self) -> None:
        """The answer to a form of the page is in the game's language, too."""
        game, browser = self.game(locale="ja"), self.new_browser()
        self.assertIn('<html lang="ja"', browser.sign_in(game.url, "Nobody").html)

    def test_end(self) -> None:
        """So are the page after a refusal, and that of a link which has ended."""
        game, browser = self.game(locale="ja"), self.new_browser()
        page = browser.post(browser.get(game.url).form("/decline"))
        self.assertIn('<html lang="ja"', page.html)
        page = browser.get(game.url)
        self.assertEqual(page.status, 410)
        self.assertIn('<html lang="ja"', page.html)

    def test_systems(self) -> None:
        """The names of languages that systems use are understood in either case, with a dash or an underscore."""
        for locale, tag in {"pt_BR": "pt-BR", "ZH-hans-cn": "zh-Hans", "zh-CN": "zh-Hans", "de_DE": "de"}.items():
            self.assertEqual((locale, self.language(locale)), (locale, tag))

    def test_ignored(self) -> None:
        """A text that names no language of the pages is ignored."""
        for locale in (None, "", "C", "POSIX", "xx-XX", "zh-TW", "de.UTF-8", "-", "<b>", "d" * 35):
            self.assertEqual((locale, self.language(locale, accepted="fr")), (locale, "fr"))

    def test_refused(self) -> None:
        """More than 35 characters, or another type than text, is 400 with the member's name."""
        for locale in ("d" * 36, 7, ["de"], {}):
            answer = self.game(locale=locale).answer
            self.assertEqual((answer.status, answer.json["code"]), (400, "invalid_request"))
            self.assertEqual(answer.json["errors"][0]["pointer"], "/locale")
