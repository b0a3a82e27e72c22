"""A person chooses the language of the pages in a browser; the choice leads back to the page, and nowhere else."""

from gamed.login.places import CARRIED, place_of
from tests.login.browser_fixtures import BASE, BrowserCase, Page

COOKIE = "__Host-language"
LOGIN = "lgn_" + "A" * 22


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
            "": "/", "/account": "/auth/account", "/account/saves/a-b": "/auth/account/saves/a-b",
            "/login/" + "A" * 22: "/auth/login/" + "A" * 22, "/invite/" + "b" * 22: "/auth/invite/" + "b" * 22,
            "/account?next=//evil.example": "/auth/account",
            "/account/after/auto": "/auth/account?after=auto",
            "/account/saves/after/before/7": "/auth/account/saves/after?before=7",
            "/account/saves/a/versions/7/delete": "/auth/account/saves/a/versions/7/delete",
            f"/login/done/login_id/{LOGIN}": f"/auth/login/done?login_id={LOGIN}",
            f"/account/done/login_id/{LOGIN}?login_id=other": f"/auth/account/done?login_id={LOGIN}",
        }.items():  # fmt: skip
            answer = self.site.get(f"/auth/language/de{place}")
            self.assertEqual((place, answer.status, answer.headers.get("location")), (place, 303, f"{BASE}{back}"))
        for place in (
            "//evil.example",
            "/%2fevil.example",
            "/https:%2f%2fevil.example",
            "/account%0d%0aX",
            "/saves/%2f.",
            "/account/saves/a%20b",
            "/account/after/A",
            "/account/after/a%26b=c",
            "/account/after/a/b",
            "/account/before/7",
            "/account/saves/a/before/x",
            "/account/saves/a/versions/7",
            "/account/do/delete",
            "/account/login_id/" + LOGIN,
            "/login/done",
            "/login/done/login_id/lgn_x",
            "/login/done/login_id/" + LOGIN + "%26a",
            "/google/callback",
            "/" + "account/" * 400,
        ):
            answer = self.site.get(f"/auth/language/de{place}")
            self.assertEqual((place, answer.status, answer.cookies), (place, 404, []))

    def test_slots_named_as_members(self) -> None:
        """A save may have the name of a member of a query; its pages lead back to themselves."""
        pages = [
            f"/account/saves/{slot}{page}"
            for slot in CARRIED
            for page in ("", "/delete", "/keep", "/versions/1/delete")
        ]
        for page in (*pages, "/owner/saves/ply_1/after", "/owner/saves/ply_1/before"):
            self.assertEqual(place_of(f"/auth{page}"), page)
            answer = self.site.get(f"/auth/language/de{page}")
            self.assertEqual((answer.status, answer.headers["location"]), (303, f"{BASE}/auth{page}"))
        for page, query in (
            ("/account/saves/after", "before=7"),
            ("/owner/saves/ply_1/after", "before=7"),
            ("/owner/saves/ply_1", "after=before"),
        ):
            place = place_of(f"/auth{page}", query.encode()) or ""
            answer = self.site.get(f"/auth/language/de{place}")
            self.assertEqual(answer.headers["location"], f"{BASE}/auth{page}?{query}")
        self.assertEqual(place_of("/auth/account/saves", b"after=delete"), "/account")  # there is no such page

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

    def choice(self, page: Page) -> str | None:
        """Return where the page's link for German leads; None without links. The link itself must lead somewhere."""
        links = [link for link in page.languages if "/de" in link]
        if not links:
            self.assertEqual(page.languages, [])
            return None
        answer = self.site.get(links[0])
        self.assertEqual(answer.status, 303, links)
        return answer.headers["location"].removeprefix(BASE)

    def test_answers_to_forms(self) -> None:
        """The answer to a form leads to the page that has the form."""
        game, browser = self.game(), self.new_browser()
        path = game.url.removeprefix(BASE)
        self.assertEqual(self.choice(browser.sign_in(game.url, "Nobody")), path)
        self.assertEqual(self.choice(browser.create(game.url, "")), f"{path}/create")
        form = browser.get(game.url).form("/local")
        foreign = browser.post(form, Sec_Fetch_Site="cross-site")
        self.assertEqual((foreign.status, self.choice(foreign)), (403, path))

    def test_queries(self) -> None:
        """A page with a query leads back with the members that name it, and without others."""
        game, browser = self.game(), self.new_browser()
        self.assertEqual(self.choice(browser.get(f"{game.url}?a=b&login_id={LOGIN}")), game.url.removeprefix(BASE))
        done = browser.sign_in(game.url).headers["location"]
        code = browser.get(done)
        self.assertEqual(code.status, 200)
        self.assertEqual(self.choice(code), done.removeprefix(BASE))
        self.assertEqual(self.language(browser.get(done, Accept_Language="de")), "de")
        odd = browser.get(f"/auth/login/done?login_id={LOGIN}&next=//evil.example")
        self.assertEqual((odd.status, self.choice(odd)), (404, f"/auth/login/done?login_id={LOGIN}"))
        for wrong in ("x", "", f"{LOGIN}%26a=b", "%00", "%ff", LOGIN + "&login_id=" + LOGIN):
            page = browser.get(f"/auth/login/done?login_id={wrong}")
            self.assertIn(page.status, (400, 404), wrong)
            self.assertIn(self.choice(page), (None, f"/auth/login/done?login_id={LOGIN}"), wrong)

    def test_no_way_back(self) -> None:
        """A page that GET does not show again offers no languages: the return to a game, and a declined sign-in."""
        game, browser = self.game(loopback_port=51004), self.new_browser()
        self.assertEqual(browser.get(browser.sign_in(game.url).headers["location"]).languages, [])
        game = self.game()
        self.assertEqual(browser.post(browser.get(game.url).form("/decline")).languages, [])
        self.assertEqual(browser.get("/auth/local/callback?code=a&state=b").languages, [])

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
