"""The server in oauth mode, with the development provider in memory as its Discord and its Google."""

from typing import Any

from treq.testing import RequestTraversalAgent

from gamed.config.model import Mode, Provider, ProviderProtocol
from gamed.crypto import Secret
from gamed.dev import documents
from gamed.dev.grants import ResponseMode
from gamed.providers.discovery import namespace_indexes
from gamed.providers.registry import build_providers
from tests.login.browser_fixtures import Page, Surfer, WebCase
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
    protocol=ProviderProtocol.OAUTH2,
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
    protocol=ProviderProtocol.OIDC,
    client_id=GOOGLE_CLIENT.client_id,
    client_secret=Secret(GOOGLE_SECRET.encode()),
    label="Google",
    scopes=("openid",),
    issuer=BASE,
)


class FarCase(WebCase):
    """`self.far` is the provider."""

    far: WatchedProvider

    def serve_oauth(self, *providers: Provider, kind: type[WatchedProvider] = WatchedProvider, **terms: Any) -> None:
        """With these providers, or both."""
        configured = {each.name: each for each in providers or (DISCORD, GOOGLE)}
        self.prepare(mode=Mode.OAUTH, **terms)
        self.far = development_provider(self.desk.clock, kind)
        self.wire = RequestTraversalAgent(self.far.app.resource())
        made = build_providers(configured, GAME, self.wire, self.desk.clock, self.desk.now_ms)
        self.desk.providers.update(made)
        self.realms = namespace_indexes(self.desk.keys.indexer, configured.values())
        self.open_rooms()

    def pass_time(self, seconds: float) -> None:
        """What the provider answers meanwhile arrives."""
        self.desk.clock.advance(seconds)
        self.wire.flush()

    def at_provider(self, page: Page, person: str = "anna", manner: ResponseMode = ResponseMode.AT_ONCE) -> str:
        """The browser follows to the provider, where somebody is chosen; the callback's address."""
        self.assertEqual(page.status, 303, page.text)
        return self.far.sign_in(page.headers["location"], person, manner)

    def go_on(self, browser: Surfer, url: str) -> Page:
        """The page, and its first button."""
        return browser.post(browser.get(url).form("/continue"))

    def signed_in(self, browser: Surfer, url: str, person: str = "anna") -> Page:
        """As far as done."""
        back = browser.get(self.at_provider(self.go_on(browser, url), person))
        self.assertEqual(back.status, 303, back.text)
        return browser.get(back.headers["location"])
