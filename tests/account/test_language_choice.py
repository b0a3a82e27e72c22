"""The choice of a language leads back to each page of the account and of links, also after a form."""

from tests.account.page_fixtures import HOME
from tests.account.test_links import LinkCase
from tests.login.browser_fixtures import BASE, Page

SAVE = f"{HOME}/saves/auto"


class AccountTests(LinkCase):
    def choice(self, page: Page) -> str | None:
        """Return where the page's link for German leads; None for a page without such links."""
        links = [link for link in page.languages if link.startswith("/auth/language/de")]
        if not links:
            self.assertEqual(page.languages, [])
            return None
        answer = self.site.get(links[0])
        self.assertEqual((answer.status, len(answer.cookies)), (303, 1), links)
        return answer.headers["location"].removeprefix(BASE)

    def test_pages(self) -> None:
        """Each page of the account leads back to itself, with the slot or version from which it goes on."""
        self.put(self.play(), "auto", b"one")
        self.browser.sign_in()
        for path in (HOME, f"{HOME}?after=auto", SAVE, f"{SAVE}?before=7"):
            page = self.browser.get(path)
            self.assertEqual((page.status, self.choice(page)), (200, path))
        self.assertEqual(self.choice(self.browser.get(f"{SAVE}/versions/7/delete")), f"{SAVE}/versions/7/delete")
        self.assertEqual(self.choice(self.browser.get(f"{HOME}?after=auto&a=//evil.example")), f"{HOME}?after=auto")

    def test_wrong_queries(self) -> None:
        """A query of another form than those of this server leads to the page without it."""
        self.browser.sign_in()
        for query in ("after=A", "after=a%26b", "after=..", "before=1", "next=//evil.example", "login_id=lgn_x"):
            self.assertEqual(self.choice(self.browser.get(f"{HOME}?{query}")), HOME, query)
        for query in ("before=0", "before=x", "before=1e3", "before=" + "9" * 19, "after=auto"):
            self.assertEqual(self.choice(self.browser.get(f"{SAVE}?{query}")), SAVE, query)

    def test_forms(self) -> None:
        """The answer to a form of the account leads to the account."""
        wrong = self.browser.sign_in(password="wrong wrong")
        self.assertIn("Wrong name or password", wrong.text)
        self.assertEqual(self.choice(wrong), HOME)
        page = self.browser.sign_in()
        refused = self.browser.post(page.form("/do/password"), {"old": "wrong", "new": "a long password"})
        self.assertIn("The old password is not right", refused.text)
        self.assertEqual(self.choice(refused), HOME)
        foreign = self.browser.post(page.form("/do/password"), Sec_Fetch_Site="cross-site")
        self.assertEqual((foreign.status, self.choice(foreign)), (403, HOME))
        self.assertEqual(self.choice(self.browser.get(f"{HOME}/nowhere")), HOME)

    def test_said_once(self) -> None:
        """A page that only says what a form has done offers no languages, as no address shows it again."""
        page = self.browser.sign_in()
        deleted = self.browser.post(page.form("/do/delete"), {"word": "delete"})
        self.assertEqual((deleted.heading, deleted.languages), ("Your account is deleted", []))

    def test_links(self) -> None:
        """The form of a reset link leads back to the link; the page after it offers no languages."""
        path = self.reset_link()
        self.assertEqual(self.choice(self.reset(path, "short")), path)
        done = self.reset(path)
        self.assertEqual((done.heading, done.languages), ("Your new password is set", []))
