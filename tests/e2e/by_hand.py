"""Sign-ins through a provider step by step, by a browser without a window."""

from typing import ClassVar
from urllib.parse import urlencode, urlsplit

from gamed.dev.documents import DISCORD_AUTHORIZE
from tests.e2e.providers import DISCORD, ProviderCase
from tests.e2e.wire import Answer, ask
from tests.login.browser_fixtures import Page

LASTING = ("player", "identity", "session", "credential")


class HandCase(ProviderCase):
    stands: ClassVar = (DISCORD,)
    cookie = ""

    def visit(self, url: str, form: dict[str, str] | None = None) -> Answer:
        """Request as one browser that keeps its cookie and follows no redirect."""
        headers = {"Cookie": self.cookie} if self.cookie else {}
        path = url.removeprefix(self.service.base)
        if form is None:
            answer = self.ask("GET", path, headers=headers)
        else:
            headers |= {"Content-Type": "application/x-www-form-urlencoded", "Sec-Fetch-Site": "same-origin"}
            answer = self.ask("POST", path, body=urlencode(form).encode(), headers=headers)
        if "set-cookie" in answer.headers:
            self.cookie = answer.headers["set-cookie"].partition(";")[0]
        return answer

    def press(self, page: Page) -> Answer:
        """Press the button that leads to the provider."""
        form = page.form("/continue")
        return self.visit(form["action"], form["fields"])

    def choose(self, url: str) -> str:
        """Choose a person at the provider; return the callback's address."""
        parts = urlsplit(url)
        form = urlencode({"query": parts.query, "person": "anna", "manner": "at once"}).encode()
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        answer = ask(parts.port, "POST", DISCORD_AUTHORIZE, body=form, headers=headers)
        self.assertEqual(answer.status, 303, answer.body)
        return answer.headers["location"]

    def lasting(self) -> dict[str, int]:
        return {table: count for table, count in self.service.rows().items() if table in LASTING}
