"""A server in oauth mode in memory, with the development provider as Discord and Google."""

from typing import Any

from msgspec.structs import replace
from treq.testing import RequestTraversalAgent

from gamed.config.model import Mode, Provider
from gamed.config.providers import PRESETS
from gamed.crypto import Secret
from gamed.dev import documents
from gamed.dev.grants import ResponseMode
from gamed.providers.oidc import build_providers
from tests.login.browser_fixtures import BrowserCase, Page, PageBrowser
from tests.login.fixtures import TERMS, LoginServer
from tests.support.provider import (
    BASE,
    DISCORD_CLIENT,
    DISCORD_SECRET,
    GAME,
    GOOGLE_CLIENT,
    GOOGLE_SECRET,
    WatchedProvider,
    development_provider,
)

DISCORD = Provider(
    name="discord",
    preset=PRESETS["discord"],
    client_id=DISCORD_CLIENT.client_id,
    client_secret=Secret(DISCORD_SECRET.encode()),
    label="Discord",
    scopes=("identify",),
    authorization_endpoint=BASE + documents.DISCORD_AUTHORIZE,
    token_endpoint=BASE + documents.DISCORD_TOKEN,
    userinfo_endpoint=BASE + documents.DISCORD_USER,
    subject_field="id",
)
GOOGLE = Provider(
    name="google",
    preset=PRESETS["google"],
    client_id=GOOGLE_CLIENT.client_id,
    client_secret=Secret(GOOGLE_SECRET.encode()),
    label="Google",
    scopes=("openid",),
    issuer=BASE,
)


class ProviderCase(BrowserCase):
    """A test with a provider, `self.fake`."""

    fake: WatchedProvider

    def serve_oauth(
        self,
        *providers: Provider,
        kind: type[WatchedProvider] = WatchedProvider,
        passwords_per_minute: int = 0,
        **terms: Any,
    ) -> None:
        """Configure these providers, by default both."""
        configured = {each.name: each for each in providers or (DISCORD, GOOGLE)}
        terms_of_all = replace(TERMS, mode=Mode.OAUTH, **terms)
        self.server = LoginServer(self, terms_of_all, passwords_per_minute, configured=configured)
        self.fake = development_provider(self.server.clock, kind)
        self.wire = RequestTraversalAgent(self.fake.app.resource())
        made = build_providers(configured, GAME, self.wire, self.server.clock, self.server.now_ms)
        self.server.providers.update(made)
        self.open_site()

    def pass_time(self, seconds: float) -> None:
        """Advance the clock and deliver what the provider has answered."""
        self.server.clock.advance(seconds)
        self.wire.flush()

    def at_provider(self, page: Page, person: str = "anna", manner: ResponseMode = ResponseMode.AT_ONCE) -> str:
        """Follow the redirect to the provider and choose a person; return the address of the callback."""
        self.assertEqual(page.status, 303, page.text)
        return self.fake.sign_in(page.headers["location"], person, manner)

    def go_on(self, browser: PageBrowser, url: str) -> Page:
        """Open the page and press its first button."""
        return browser.post(browser.get(url).form("/continue"))

    def signed_in(self, browser: PageBrowser, url: str, person: str = "anna") -> Page:
        """Sign in up to the result page."""
        back = browser.get(self.at_provider(self.go_on(browser, url), person))
        self.assertEqual(back.status, 303, back.text)
        return browser.get(back.headers["location"])
