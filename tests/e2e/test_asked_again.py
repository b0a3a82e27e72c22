"""A provider with an open session asks again before the account's page opens (OpenID Connect Core 3.1.2.1)."""

from collections.abc import Callable
from typing import ClassVar

from playwright.sync_api import Page

from gamed.database.connection import AUTH
from tests.e2e.chromium import Window
from tests.e2e.providers import KEYCLOAK, ProviderCase
from tests.support.stores import store_of


def signing_in(window: Window, account: str, *, consenting: bool) -> Callable[[], object]:
    """Type a name and a password at the provider, and consent if it was not done before."""

    def steps() -> None:
        window.step(lambda page: page.get_by_placeholder("Enter any login").fill(account))
        window.step(lambda page: page.get_by_placeholder("and password").fill("any"))
        window.press("Sign-in")
        if consenting:
            window.press("Continue")

    return steps


def leave_without_max_age(page: Page) -> None:
    """Go to the provider without the parameter, as anyone at the browser can."""
    field = page.locator("input[name=form]").first.get_attribute("value") or ""
    headers = {"Origin": page.url.partition("/auth/")[0]}
    posted = {"form": field, "provider": KEYCLOAK.name}
    away = page.context.request.post(f"{page.url}/sign-in", form=posted, headers=headers, max_redirects=0)
    location = away.headers["location"]
    if "max_age=0&" not in location:
        raise AssertionError("the address does not ask for it")
    page.goto(location.replace("max_age=0&", ""))


class AskedAgainTests(ProviderCase):
    stands: ClassVar = (KEYCLOAK,)

    def setUp(self) -> None:
        super().setUp()
        self.visitor = self.window()
        self.signed_in(KEYCLOAK, self.visitor, signing_in(self.visitor, "marvin", consenting=True))

    def begin(self) -> None:
        self.visitor.open(f"{self.service.base}/auth/account")
        self.visitor.press("Continue with Keycloak")

    def test_asked(self) -> None:
        """The provider asks for the password again, and then the page opens."""
        self.begin()
        self.assertNotIn(self.service.base, self.visitor.url)
        signing_in(self.visitor, "marvin", consenting=False)()
        self.visitor.wait_for("Sign out everywhere else")
        self.assertEqual(self.verified(), [(1,)])

    def verified(self) -> list[tuple[int]]:
        """Return whether the provider has proved that it asked, for each browser that is signed in."""
        store = store_of(self.service.data)
        try:
            return store.run_read(AUTH, lambda connection: connection.rows("SELECT verified FROM browser_session"))
        finally:
            store.close()

    def test_not_asked(self) -> None:
        """A browser that leaves out what asks is not signed in, though the provider says who it is."""
        self.visitor.open(f"{self.service.base}/auth/account")
        self.visitor.step(leave_without_max_age)
        self.visitor.wait_for("The provider's answer was wrong")
        self.assertNotIn("ga", self.visitor.cookies)
        self.assertIn("auth_time does not show that the provider asked the player again", self.service.text())
