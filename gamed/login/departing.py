"""Sending a browser to a provider, at once or after a page and a button (PROTOCOL 3.2).

A provider that cannot be used ends the login, so that its game is told at once; but only where the browser would have
been sent: at the button, which every browser has that could also decline, or on the way past the page.
"""

from collections.abc import Callable, Mapping
from typing import Protocol

from msgspec import Struct

from gamed.crypto import Keys, Random
from gamed.identity.provider import IdentityProvider, ProviderFailure
from gamed.instants import Now
from gamed.login.account_check import AccountCheck, Form, TurnedAway
from gamed.login.attempt import Drawn, redirect_uri
from gamed.login.attempts import Attempts, Journal
from gamed.login.browser import Ask, BrowserSide, SeeDone, require_winner
from gamed.login.crowd import address_indexes
from gamed.login.entrance import Entrance
from gamed.login.entry import LOCAL, Key
from gamed.login.local import Refused
from gamed.login.outcome import Outcome
from gamed.login.straight import goes_straight
from gamed.login.transaction import UNDECIDED, Intent, LoginTransaction
from gamed.structs import Part, hides

GONE = "authentication.json does not have this provider any more"


@hides("url")
class Depart(Struct, frozen=True):
    """Go to the provider."""

    url: str


class Askers(Protocol):
    async def asker(self, session_id: str, now_ms: int) -> str | None:
        """What to call the player whose session asked for a link; None once it has ended."""


class Departing(Part, frozen=True):
    """`providers` is empty in local mode, where every login stays on the sign-in page."""

    _browsers: BrowserSide
    _attempts: Attempts
    _providers: Mapping[str, IdentityProvider]
    _check: AccountCheck
    _askers: Askers
    _journal: Journal
    _keys: Keys
    _random: Random
    _now_ms: Now
    _base: Callable[[], str]
    _entrance: Entrance

    async def enter(self, visit: Form, fetch_site: str | None) -> Ask | SeeDone | Depart:
        """The link was opened; `fetch_site` is the browser's Sec-Fetch-Site.

        RateLimited, LinkUnknown, LoginOver, OtherBrowser.
        """
        await self._entrance.opened(visit.address)
        standing = await self._browsers.enter(visit.token, visit.browser)
        if isinstance(standing, SeeDone):
            return standing
        login = standing.login
        if login.provider not in (self._providers or {LOCAL}):  # mode or providers were changed meanwhile
            return await self._refused(login, visit, Outcome.PROVIDER_UNAVAILABLE, GONE)
        address, _ = address_indexes(self._keys.indexer, visit.address)
        if login.provider != LOCAL and goes_straight(login, address, fetch_site):
            return await self._depart(login, visit)
        return await self._introduced(standing, visit)

    async def go(self, form: Form) -> SeeDone | Depart | Refused:
        """The button was pressed; to adopt an account, below its name and password. Raises what enter() does."""
        await self._entrance.pressed(form.address)
        standing = await self._browsers.look(form.token, form.browser)
        if isinstance(standing, Ask) and standing.login.provider not in self._providers:
            return await self._refused(standing.login, form, Outcome.PROVIDER_UNAVAILABLE, GONE)
        if isinstance(standing, Ask):
            standing = await self._introduced(standing, form)
        if isinstance(standing, SeeDone):
            return standing
        if standing.login.intent is not Intent.ADOPT:
            return await self._depart(standing.login, form)
        try:
            player_id = await self._check.known(form)
        except TurnedAway as e:
            return Refused(standing.login, e.refusal, e.retry_after)
        return await self._depart(standing.login, form, player_id)

    async def _introduced(self, ask: Ask, visit: Form) -> Ask | SeeDone:
        """The player whom a link is for has a name on the page."""
        if ask.login.intent is not Intent.LINK:
            return ask
        asker = await self._askers.asker(ask.login.requesting_session_id or "", self._now_ms())
        if asker is None:
            return await self._refused(ask.login, visit, Outcome.SESSION_REVOKED, "the session that asked has ended")
        return Ask(ask.login, asker)

    async def _depart(self, login: LoginTransaction, visit: Form, player_id: str | None = None) -> SeeDone | Depart:
        """An attempt is written only once it is known where it leads."""
        provider = self._providers[login.provider]
        drawn = Drawn.fresh(self._random, provider.uses_nonce)
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
        begun = await self._attempts.begin(attempt, Key.id(login.login_id), lambda current: current.opened(now_ms))
        after = self._browsers.told(begun).after
        if after.stage in UNDECIDED:
            return Depart(where.url)
        require_winner(after, visit.browser)
        return SeeDone(after.login_id)

    async def _refused(self, login: LoginTransaction, visit: Form, outcome: Outcome, cause: str) -> SeeDone:
        """The game, its browser and the owner are told; `cause` is for the owner."""
        self._journal.sign_in_failed(login.provider, outcome, cause, visit.request_id)
        return await self._browsers.refuse(visit.token, visit.browser, outcome)
