"""A browser is redirected to a provider, at once or after a page with a button (docs/internals/threats.md: Signing in).

A provider that cannot be used ends the login, so that the game is notified; but only when the browser would have been
redirected: at the button, which every browser has that may also decline, or where the page is skipped.
"""

from hmac import compare_digest

from msgspec import Struct

from gamed.crypto import Index
from gamed.login.attempt import AttemptSecrets
from gamed.login.browser import BrowserLoginService, RedirectToResult, SignInPrompt, require_own
from gamed.login.errors import LinkClosed
from gamed.login.keys import LOCAL, LoginLookup
from gamed.login.local import FormRejected, PasswordAuthenticator, SignInForm, SignInRejected
from gamed.login.policy import LoginContext, ProviderAccess, address_indexes
from gamed.login.store import LoginStore
from gamed.login.transaction import UNDECIDED, LoginIntent, LoginTransaction
from gamed.outcomes import LoginFailure
from gamed.providers.base import ProviderFailure
from gamed.structs import Component, redacts

NOT_CONFIGURED = "authentication.json does not have this provider any more"


@redacts("url")
class RedirectToProvider(Struct, frozen=True):
    """A redirect to the provider's authorization endpoint."""

    url: str


def may_skip_consent_page(login: LoginTransaction, address: Index, fetch_site: str | None) -> bool:
    """Return whether a game on this very machine opened the link, as far as the server can see.

    Every other browser, above all one that was sent the link, is first shown which device asks. `address` is the index
    of the browser's network, `fetch_site` its Sec-Fetch-Site.
    """
    return (
        login.loopback_port is not None
        and login.intent is LoginIntent.LOGIN
        and compare_digest(login.address_index, address)
        and fetch_site in (None, "none")
    )


class AuthorizeService(Component, frozen=True, kw_only=True):
    """The service that opens a login's link; in local mode every login stays on the sign-in page."""

    context: LoginContext
    browsers: BrowserLoginService
    store: LoginStore
    access: ProviderAccess
    passwords: PasswordAuthenticator

    async def open_link(
        self, visit: SignInForm, fetch_site: str | None
    ) -> SignInPrompt | RedirectToResult | RedirectToProvider:
        """Open the link; `fetch_site` is the browser's Sec-Fetch-Site.

        Raise RateLimited, UnknownLoginLink, LoginEnded or WrongBrowser.
        """
        await self._count(b"entry", visit.address)  # also an unknown one, so that tokens cannot be guessed quickly
        page = await self.browsers.open(visit.token, visit.browser)
        if isinstance(page, RedirectToResult):
            return page
        login = page.login
        if login.provider not in (self.access.providers or {LOCAL}):  # the configuration has changed since the start
            return await self._fail(login, visit, LoginFailure.PROVIDER_UNAVAILABLE, NOT_CONFIGURED)
        address, _ = address_indexes(self.context.keys.indexer, visit.address)
        if login.provider != LOCAL and may_skip_consent_page(login, address, fetch_site):
            return await self.redirect(login, visit)
        return await self._with_requester(page, visit)

    async def continue_(self, form: SignInForm) -> RedirectToResult | RedirectToProvider | FormRejected:
        """Continue to the provider; to adopt a local account, first check its name and password.

        Raise what open_link() raises.
        """
        await self._count(b"departure", form.address)
        page = await self.browsers.get(form.token, form.browser)
        if isinstance(page, SignInPrompt):
            if page.login.provider not in self.access.providers:
                return await self._fail(page.login, form, LoginFailure.PROVIDER_UNAVAILABLE, NOT_CONFIGURED)
            page = await self._with_requester(page, form)
        if isinstance(page, RedirectToResult):
            return page
        if page.login.intent is not LoginIntent.ADOPT:
            return await self.redirect(page.login, form)
        try:
            account = await self.passwords.authenticate(form)
        except SignInRejected as e:
            return FormRejected(page.login, e.error, e.retry_after)
        return await self.redirect(page.login, form, account.player_id)

    async def check_link(self, token: str, address: str) -> None:
        """Check that any browser could still open the link, which changes nothing.

        Any page can show the picture of any link, so that these are counted apart: links can be opened on.
        Raise RateLimited, UnknownLoginLink or LinkClosed.
        """
        await self._count(b"picture", address)
        login = await self.browsers.find(LoginLookup.token(self.context.keys.indexer, token))
        if login.stage not in UNDECIDED:
            raise LinkClosed

    async def _count(self, purpose: bytes, address: str) -> None:
        per_minute = self.context.policy.limits.entries_per_minute
        await self.store.count_request(purpose, address, per_minute, self.context.now_ms())

    async def _with_requester(self, page: SignInPrompt, visit: SignInForm) -> SignInPrompt | RedirectToResult:
        """Add the name of the player who asked for a link."""
        if page.login.intent is not LoginIntent.LINK:
            return page
        session_id = page.login.requesting_session_id or ""
        requester = await self.store.session_owner_name(session_id, self.context.now_ms())
        if requester is None:
            cause = "the requesting session has ended"
            return await self._fail(page.login, visit, LoginFailure.SESSION_REVOKED, cause)
        return SignInPrompt(page.login, requester)

    async def redirect(
        self, login: LoginTransaction, visit: SignInForm, player_id: str | None = None
    ) -> RedirectToResult | RedirectToProvider:
        """Write an attempt, once the authorization URL is known, and redirect the browser."""
        context, provider = self.context, self.access.providers[login.provider]
        secrets = AttemptSecrets.generate(context.random, provider.uses_nonce)
        try:
            provider.require_available()
            uri = self.access.redirect_uri(provider.name)
            target = await provider.authorization_url(secrets.authorization_request(uri, ask_again=login.asks_again))
        except ProviderFailure as e:
            return await self._fail(login, visit, e.outcome, str(e))
        now_ms = context.now_ms()
        attempt = secrets.attempt(
            context.keys,
            context.random,
            login,
            visit.browser,
            iss_promised=target.iss_promised,
            player_id=player_id,
            now_ms=now_ms,
        )
        key = LoginLookup("login_id", login.login_id)
        begun = await self.store.begin_attempt(attempt, key, lambda current: current.opened(now_ms))
        after = self.browsers.notify(begun).after
        if after.stage in UNDECIDED:
            return RedirectToProvider(target.url)
        require_own(after, visit.browser)
        return RedirectToResult(after.login_id)

    async def _fail(
        self, login: LoginTransaction, visit: SignInForm, outcome: LoginFailure, cause: str
    ) -> RedirectToResult:
        """End the login, and log the cause for the operator."""
        self.access.sign_in_failed(login.provider, outcome, cause, visit.request_id)
        return await self.browsers.fail(LoginLookup("login_id", login.login_id), visit.browser, outcome)
