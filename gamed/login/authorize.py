"""Which browser may go to the provider without a page in between (PROTOCOL 3.2); pure.

The limits of a browser's visits to a login, per client address (PROTOCOL 3.9).

Sending a browser to a provider, at once or after a page and a button (PROTOCOL 3.2).

A provider that cannot be used ends the login, so that its game is told at once; but only where the browser would have
been sent: at the button, which every browser has that could also decline, or on the way past the page.
"""

from collections.abc import Callable, Mapping
from hmac import compare_digest
from typing import Protocol

from msgspec import Struct

from gamed.config import model
from gamed.crypto import Index, Indexer, Keys, Random
from gamed.login.attempt import AttemptSecrets, redirect_uri
from gamed.login.browser import BrowserLoginService, RedirectToResult, SignInPrompt, require_winner
from gamed.login.errors import CallbacksLimited
from gamed.login.interfaces import AttemptStore, SignInFailureLog
from gamed.login.keys import LOCAL, LoginLookup
from gamed.login.local import FormRejected, Limits, PasswordAuthenticator, SignInForm, SignInRejected
from gamed.login.policy import address_indexes, per_address
from gamed.login.transaction import UNDECIDED, LoginIntent, LoginTransaction
from gamed.outcomes import LoginFailure
from gamed.providers.base import IdentityProvider, ProviderFailure
from gamed.rate_limit import RateLimit, RateLimited
from gamed.structs import Component, redacts
from gamed.timestamps import Now


def may_skip_consent_page(login: LoginTransaction, address: Index, fetch_site: str | None) -> bool:
    """A game on this very machine opened the link itself, as far as anyone can tell.

    Everyone else, above all who was sent the link, is first shown who asks. `address` is the index of the browser's
    prefix, `fetch_site` its Sec-Fetch-Site.
    """
    return (
        login.loopback_port is not None
        and login.intent is LoginIntent.LOGIN
        and compare_digest(login.address_index, address)
        and fetch_site in (None, "none")
    )


class VisitRateLimit(Component, frozen=True):
    """The buckets for opened links, departures to a provider and callbacks: one sign-in takes one of each."""

    _limits: Limits
    _indexer: Indexer
    _now_ms: Now
    _configured: model.AuthLimits

    async def opened(self, address: str) -> None:
        """Count an opened link, also an unknown one, so that tokens cannot be guessed quickly; raise RateLimited."""
        await self._count(b"entry", address, self._configured.entries_per_minute)

    async def pressed(self, address: str) -> None:
        """Count a departure to a provider; raise RateLimited."""
        await self._count(b"departure", address, self._configured.entries_per_minute)

    async def returned(self, address: str) -> None:
        """Count a callback, also a malformed one; raise CallbacksLimited."""
        try:
            await self._count(b"callback", address, self._configured.callbacks_per_minute)
        except RateLimited as e:
            raise CallbacksLimited(1000 * e.retry_after) from None

    async def _count(self, what: bytes, address: str, per_minute: int) -> None:
        buckets = per_address(self._indexer, what, address, RateLimit.per_minute(per_minute))
        if buckets:
            await self._limits.take(buckets, self._now_ms())


GONE = "authentication.json does not have this provider any more"


@redacts("url")
class RedirectToProvider(Struct, frozen=True):
    """Go to the provider."""

    url: str


class SessionOwnerQuery(Protocol):
    async def asker(self, session_id: str, now_ms: int) -> str | None:
        """What to call the player whose session asked for a link; None once it has ended."""


class AuthorizeService(Component, frozen=True):
    """`providers` is empty in local mode, where every login stays on the sign-in page."""

    _browsers: BrowserLoginService
    _attempts: AttemptStore
    _providers: Mapping[str, IdentityProvider]
    _check: PasswordAuthenticator
    _askers: SessionOwnerQuery
    _journal: SignInFailureLog
    _keys: Keys
    _random: Random
    _now_ms: Now
    _base: Callable[[], str]
    _entrance: VisitRateLimit

    async def enter(
        self, visit: SignInForm, fetch_site: str | None
    ) -> SignInPrompt | RedirectToResult | RedirectToProvider:
        """The link was opened; `fetch_site` is the browser's Sec-Fetch-Site.

        RateLimited, LinkUnknown, LoginOver, OtherBrowser.
        """
        await self._entrance.opened(visit.address)
        standing = await self._browsers.enter(visit.token, visit.browser)
        if isinstance(standing, RedirectToResult):
            return standing
        login = standing.login
        if login.provider not in (self._providers or {LOCAL}):  # mode or providers were changed meanwhile
            return await self._refused(login, visit, LoginFailure.PROVIDER_UNAVAILABLE, GONE)
        address, _ = address_indexes(self._keys.indexer, visit.address)
        if login.provider != LOCAL and may_skip_consent_page(login, address, fetch_site):
            return await self._depart(login, visit)
        return await self._introduced(standing, visit)

    async def go(self, form: SignInForm) -> RedirectToResult | RedirectToProvider | FormRejected:
        """The button was pressed; to adopt an account, below its name and password. Raises what enter() does."""
        await self._entrance.pressed(form.address)
        standing = await self._browsers.look(form.token, form.browser)
        if isinstance(standing, SignInPrompt) and standing.login.provider not in self._providers:
            return await self._refused(standing.login, form, LoginFailure.PROVIDER_UNAVAILABLE, GONE)
        if isinstance(standing, SignInPrompt):
            standing = await self._introduced(standing, form)
        if isinstance(standing, RedirectToResult):
            return standing
        if standing.login.intent is not LoginIntent.ADOPT:
            return await self._depart(standing.login, form)
        try:
            player_id = await self._check.known(form)
        except SignInRejected as e:
            return FormRejected(standing.login, e.refusal, e.retry_after)
        return await self._depart(standing.login, form, player_id)

    async def _introduced(self, ask: SignInPrompt, visit: SignInForm) -> SignInPrompt | RedirectToResult:
        """The player whom a link is for has a name on the page."""
        if ask.login.intent is not LoginIntent.LINK:
            return ask
        asker = await self._askers.asker(ask.login.requesting_session_id or "", self._now_ms())
        if asker is None:
            return await self._refused(
                ask.login, visit, LoginFailure.SESSION_REVOKED, "the session that asked has ended"
            )
        return SignInPrompt(ask.login, asker)

    async def _depart(
        self, login: LoginTransaction, visit: SignInForm, player_id: str | None = None
    ) -> RedirectToResult | RedirectToProvider:
        """An attempt is written only once it is known where it leads."""
        provider = self._providers[login.provider]
        drawn = AttemptSecrets.fresh(self._random, provider.uses_nonce)
        try:
            provider.require_available()
            where = await provider.authorization_url(drawn.journey(redirect_uri(self._base(), provider.name)))
        except ProviderFailure as e:
            return await self._refused(login, visit, e.outcome, str(e))
        now_ms = self._now_ms()
        attempt = drawn.attempt(
            self._keys,
            self._random,
            login,
            visit.browser,
            iss_promised=where.iss_promised,
            player_id=player_id,
            now_ms=now_ms,
        )
        begun = await self._attempts.begin(
            attempt, LoginLookup.id(login.login_id), lambda current: current.opened(now_ms)
        )
        after = self._browsers.told(begun).after
        if after.stage in UNDECIDED:
            return RedirectToProvider(where.url)
        require_winner(after, visit.browser)
        return RedirectToResult(after.login_id)

    async def _refused(
        self, login: LoginTransaction, visit: SignInForm, outcome: LoginFailure, cause: str
    ) -> RedirectToResult:
        """The game, its browser and the owner are told; `cause` is for the owner."""
        self._journal.sign_in_failed(login.provider, outcome, cause, visit.request_id)
        return await self._browsers.refuse(visit.token, visit.browser, outcome)
