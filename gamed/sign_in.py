"""The wiring of the handoff: what stands between a game that starts a login and its credentials."""

from collections.abc import Callable, Mapping, Sequence
from secrets import token_bytes
from typing import TYPE_CHECKING, Any

from twisted.logger import Logger

from gamed.audit import Audit
from gamed.config.model import Config, Mode, Provider
from gamed.crypto import Keys
from gamed.event_log import EventLog
from gamed.http.app import RouteGroup
from gamed.identity.passwords import Passwords
from gamed.identity.provider import IdentityProvider
from gamed.identity.realm import realm_indexes
from gamed.instants import Now
from gamed.login.account_check import AccountCheck
from gamed.login.attempt import redirect_uri
from gamed.login.browser import BrowserSide
from gamed.login.collecting import Collecting
from gamed.login.departing import Departing
from gamed.login.done import DoneSide
from gamed.login.entrance import Entrance
from gamed.login.handoff import Handoff
from gamed.login.local import LocalSignIn
from gamed.login.returning import Returning
from gamed.login.starting import Starting
from gamed.login.terms import LoginTerms
from gamed.ops.journal import Journal
from gamed.ops.waiters import Waiters
from gamed.sessions.first_uses import FirstUses
from gamed.sessions.keeper import Sessions
from gamed.storage.auth.stored_logins import (
    StoredAccounts,
    StoredAttempts,
    StoredIdentities,
    StoredLimits,
    StoredLogins,
)
from gamed.storage.stores import Stores
from gamed.web.browser import BrowserRoutes
from gamed.web.browser_guard import Guard
from gamed.web.callback import CallbackRoutes
from gamed.web.detached import Detached
from gamed.web.done import DoneRoutes
from gamed.web.login import LoginRoutes
from gamed.web.page_room import PageRoom

if TYPE_CHECKING:
    from gamed.ops.metrics import Counters

_log = EventLog(Logger())


class SignIn:
    """The rooms of PROTOCOL 3.1 to 3.6, and what the service does for them beside requests."""

    def __init__(
        self,
        reactor: Any,
        *,
        config: Config,
        terms: LoginTerms,
        keys: Keys,
        stores: Stores,
        sessions: Sessions,
        first_uses: FirstUses,
        waiters: Waiters,
        detached: Detached,
        audit: Audit,
        counters: "Counters | None",
        base: Callable[[], str],
        now_ms: Now,
    ) -> None:
        self._config = config
        self._terms = terms
        self._keys = keys
        self._base = base
        self._now_ms = now_ms
        self._started_ms: int | None = None
        """When recover() was called first: before the first request."""
        self._waiters = waiters
        self._detached = detached
        self._sessions = sessions
        self._logins = StoredLogins(stores.reads, stores.auth, keys, first_uses)
        self._attempts = StoredAttempts(stores.auth)
        self._accounts = StoredAccounts(stores.reads, keys)
        self._identities = StoredIdentities(stores.reads)
        self._limits = StoredLimits(stores.auth)
        self._entrance = Entrance(self._limits, keys.indexer, now_ms, terms.limits)
        self._passwords = Passwords(reactor)
        self._audit = audit
        self._browsers = BrowserSide(self._logins, waiters, keys.indexer, now_ms, audit)
        self._handoff = Handoff(self._logins, waiters, now_ms)
        self._journal = Journal(counters)
        configured = config.providers if config.mode is Mode.OAUTH else {}
        self._realms = realm_indexes(keys.indexer, configured.values())
        self._providers = _build_providers(reactor, configured, config.public_url or "", now_ms, counters)

    def rooms(self) -> Sequence[RouteGroup]:
        room = PageRoom(
            Guard(self._keys.indexer, token_bytes, (self._config.public_url or "").startswith("https:")),
            self._base,
            self._config.server_name,
            self._now_ms,
            self._detached,
        )
        done = DoneRoutes(DoneSide(self._browsers, self._keys), room)
        return self._games(), self._links(room), CallbackRoutes(self._returning(), room), done

    async def announce(self) -> None:
        """What the owner has to register, and whom no provider can sign in any more."""
        for name in self._providers:
            _log.info("redirect_uri", provider=name, uri=redirect_uri(self._base(), name))
        left = await self._identities.left_behind(self._realms) if self._providers else 0
        if left:
            _log.warn(
                "orphaned_identities",
                count=left,
                detail="These accounts cannot sign in: their provider is not configured or has another issuer now",
            )

    async def recover(self) -> None:
        """End the sign-ins that the last process left unfinished; called again until it succeeds."""
        started_ms, self._started_ms = self._started_ms, self._started_ms or self._now_ms()
        await self._handoff.recover(started_ms)

    async def sweep(self) -> None:
        await self._handoff.sweep()
        await self._limits.sweep(self._now_ms())

    def _games(self) -> LoginRoutes:
        starting = Starting(
            self._logins,
            self._sessions,
            self._accounts,
            self._providers,
            self._keys.indexer,
            token_bytes,
            self._now_ms,
            self._terms,
            self._waiters,
            self._limits,
        )
        collecting = Collecting(
            self._logins, self._waiters, self._keys, token_bytes, self._now_ms, self._terms, self._audit
        )
        indexer, base = self._keys.indexer, self._base
        return LoginRoutes(starting, self._handoff, collecting, indexer, base, self._now_ms, self._detached)

    def _links(self, room: PageRoom) -> BrowserRoutes:
        registration = self._config.login.registration
        tries = self._terms.limits.passwords_per_minute
        check = AccountCheck(
            self._accounts, self._passwords, self._limits, self._keys.indexer, self._now_ms, tries, self._audit
        )
        local = LocalSignIn(self._browsers, check, self._keys, token_bytes, self._now_ms, registration)
        departing = Departing(
            self._browsers,
            self._attempts,
            self._providers,
            check,
            self._accounts,
            self._journal,
            self._keys,
            token_bytes,
            self._now_ms,
            self._base,
            self._entrance,
        )
        labels = {name: provider.label for name, provider in self._providers.items()}
        in_local_mode = self._config.mode is Mode.LOCAL
        return BrowserRoutes(self._browsers, departing, local if in_local_mode else None, labels, registration, room)

    def _returning(self) -> Returning:
        return Returning(
            self._browsers,
            self._attempts,
            self._providers,
            self._journal,
            self._keys,
            token_bytes,
            self._now_ms,
            self._base,
            self._entrance,
        )


def _build_providers(
    reactor: Any, configured: Mapping[str, Provider], public_url: str, now_ms: Now, counters: "Counters | None"
) -> dict[str, IdentityProvider]:
    """Where there are none, what speaks to them is not even loaded; where there are, it is, before the first player."""
    if not configured:
        return {}
    from gamed.identity.providers import build_providers
    from gamed.identity.watched import uncounted
    from gamed.identity.wire import build_agent

    called = uncounted if counters is None else counters.record_provider_call
    return build_providers(configured, public_url, build_agent(reactor), reactor, now_ms, called=called)
