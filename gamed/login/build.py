"""Builds logins, from the game's request to the collected credentials, and their routes."""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct
from twisted.internet.task import deferLater
from twisted.logger import Logger

from gamed.bounded_threads import BoundedThreads
from gamed.config.model import Config, Mode
from gamed.context import ServiceContext
from gamed.crypto import Index, Indexer
from gamed.database.changes import ExternalChangeNotifier, Topic
from gamed.event_log import EventLog
from gamed.http.app import RouteGroup
from gamed.login.authorize import AuthorizeService
from gamed.login.browser import BrowserLoginService, LoginLifecycle, ResultService
from gamed.login.browser_routes import BrowserRoutes, CallbackRoutes, ResultRoutes
from gamed.login.callback import CallbackService
from gamed.login.collect import CollectService
from gamed.login.csrf import BrowserGuard
from gamed.login.local import LocalLoginService, PasswordAuthenticator
from gamed.login.look_routes import LanguageRoutes, LookRoutes
from gamed.login.newcomer import NewcomerService
from gamed.login.passkeys import PasskeyAuthenticator
from gamed.login.policy import LoginContext, LoginPolicy, ProviderAccess
from gamed.login.recovery import RecoveryAuthenticator
from gamed.login.responder import PageResponder
from gamed.login.routes import LoginRoutes, QrRoutes, drawing_threads
from gamed.login.start import StartService
from gamed.login.store import FindEnded, LoginStore, advanced_logins
from gamed.long_poll import LongPollRegistry
from gamed.pages.languages import Languages
from gamed.pages.render import PageRenderer
from gamed.passkeys.ceremony import PasskeySite
from gamed.passkeys.ways_store import WaysStore
from gamed.players.names import SignInMethods
from gamed.players.passwords import AsyncPasswordHasher
from gamed.providers.base import IdentityProvider
from gamed.providers.discovery import identity_namespace, namespace_indexes
from gamed.sessions.credentials import SessionPolicy
from gamed.sessions.service import FirstUses, RevocationListener, SessionService
from gamed.structs import Late

if TYPE_CHECKING:
    from gamed.passkeys.recovery import RecoveryService
    from gamed.passkeys.service import PasskeyService

_log = EventLog(Logger())


def login_policy(config: Config) -> LoginPolicy:
    """Return the part of the configuration that logins depend on."""
    return LoginPolicy(
        config.mode,
        SessionPolicy.of(config.session),
        tuple(config.providers),
        config.session.device_transaction_seconds,
        config.login.return_proof,
        config.login.registration,
        config.limits,
        config.login.app_links,
        config.cors_origins,
    )


class LoginComponents(Struct, kw_only=True, eq=False):
    """Logins, from the game's request to the collected credentials (docs/protocol.md: Signing in)."""

    context: LoginContext
    store: LoginStore
    access: ProviderAccess
    waiters: LongPollRegistry
    starts: StartService
    lifecycle: LoginLifecycle
    collects: CollectService
    browsers: BrowserLoginService
    passwords: PasswordAuthenticator
    passkeys: PasskeyAuthenticator
    recovery: RecoveryAuthenticator
    authorize: AuthorizeService
    callbacks: CallbackService
    results: ResultService
    local: LocalLoginService
    """Used in local mode only."""
    namespaces: Collection[Index]
    drawing: BoundedThreads
    """Draws QR codes."""
    _recovering: bool = False

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels of the configured providers by their names."""
        return {name: provider.label for name, provider in self.access.providers.items()}

    def routes(self, pages: PageResponder) -> Sequence[RouteGroup]:
        """Return the routes for games, for the pages of a login, and for callbacks."""
        policy = self.context.policy
        newcomers = NewcomerService(context=self.context, browsers=self.browsers, store=self.store)
        local = self.local if policy.mode is Mode.LOCAL else None
        return (
            LoginRoutes(
                context=self.context,
                starts=self.starts,
                lifecycle=self.lifecycle,
                collects=self.collects,
                base_url=pages.base_url,
                tasks=pages.tasks,
            ),
            BrowserRoutes(
                browsers=self.browsers,
                authorize=self.authorize,
                local=local,
                passkeys=self.passkeys,
                recovery=self.recovery,
                labels=self.labels,
                registration=policy.registration,
                newcomers=newcomers,
                pages=pages,
            ),
            QrRoutes(authorize=self.authorize, base_url=pages.base_url, tasks=pages.tasks, drawing=self.drawing),
            CallbackRoutes(callbacks=self.callbacks, pages=pages),
            ResultRoutes(
                results=self.results, labels=self.labels, newcomers=newcomers, passkeys=self.passkeys, pages=pages
            ),
            LanguageRoutes(pages=pages),
            LookRoutes(mark=pages.mark),
        )

    async def log_providers(self) -> None:
        """Log the redirect URIs to register, and how many accounts no configured provider can sign in any more."""
        for name in self.access.providers:
            _log.info("redirect_uri", provider=name, uri=self.access.redirect_uri(name))
        orphaned = await self.store.orphaned_identities(self.namespaces) if self.access.providers else 0
        if orphaned:
            _log.warn(
                "orphaned_identities",
                count=orphaned,
                detail="These accounts cannot sign in: their provider is not configured or has another issuer now",
            )

    async def recover(self) -> None:
        """End the exchanges of processes that have ended; the service calls this before the first request, too."""
        first, self._recovering = not self._recovering, True
        await self.lifecycle.recover(first=first)

    async def clean_up(self) -> None:
        """End and delete expired logins, and delete rate limits that limit no client."""
        await self.lifecycle.expire()
        await self.store.delete_idle_buckets(self.context.now_ms())


def enabled_methods(config: Config, indexer: Indexer) -> SignInMethods:
    """Return the sign-in methods that the configuration enables."""
    names = {name: identity_namespace(each).namespace_index(indexer) for name, each in config.providers.items()}
    namespaces = namespace_indexes(indexer, config.providers.values())
    return SignInMethods(config.mode is Mode.LOCAL, namespaces, names)


def build_login(
    service: ServiceContext,
    sessions: SessionService,
    revoked: RevocationListener,
    access: ProviderAccess,
    first_uses: FirstUses,
    *,
    hasher: AsyncPasswordHasher | None = None,
    drawing: BoundedThreads | None = None,
    find_ended: FindEnded | None = None,
) -> LoginComponents:
    """Return logins over the databases of the service.

    `hasher` and `drawing` use the reactor's threads by default; `find_ended` finds ended processes, by default in the
    databases.
    """
    config, keys, databases, now_ms = service.config, service.keys, service.databases, service.now_ms
    context = LoginContext(
        keys=keys,
        random=service.random,
        now_ms=now_ms,
        policy=login_policy(config),
        audit=service.audit,
        instance_id=service.instance_id,
    )
    waiters = LongPollRegistry(service.reactor)
    ExternalChangeNotifier(databases.changes, databases.reads, waiters, {Topic.LOGINS: advanced_logins})
    store = LoginStore(reads=databases.reads, writes=databases.auth, keys=keys, first_used=first_uses)
    browsers = BrowserLoginService(context=context, store=store, waiters=waiters)
    passwords = PasswordAuthenticator(
        context=context, store=store, hasher=hasher or AsyncPasswordHasher(service.reactor)
    )
    site = PasskeySite.of(config.public_url)
    ways = WaysStore(reads=databases.reads, keys=keys, site=site, has_codes=config.mode is Mode.LOCAL)
    return LoginComponents(
        context=context,
        store=store,
        access=access,
        waiters=waiters,
        starts=StartService(context=context, store=store, access=access, sessions=sessions, waiters=waiters),
        lifecycle=LoginLifecycle(
            store=store, waiters=waiters, now_ms=now_ms, ended=find_ended or databases.ended_processes
        ),
        collects=CollectService(context=context, store=store, waiters=waiters, revoked=revoked),
        browsers=browsers,
        passwords=passwords,
        passkeys=PasskeyAuthenticator(context=context, store=store, ways=ways, service=late_passkeys(service, revoked)),
        recovery=RecoveryAuthenticator(passwords=passwords, codes=late_recovery(service, revoked)),
        authorize=AuthorizeService(context=context, browsers=browsers, store=store, access=access, passwords=passwords),
        callbacks=CallbackService(context=context, browsers=browsers, store=store, access=access, waiters=waiters),
        results=ResultService(context=context, store=store, browsers=browsers),
        local=LocalLoginService(context=context, browsers=browsers, passwords=passwords),
        namespaces=namespace_indexes(keys.indexer, config.providers.values()),
        drawing=drawing or drawing_threads(service.reactor),
    )


def late_passkeys(service: ServiceContext, revoked: RevocationListener) -> Late["PasskeyService"]:
    def build() -> "PasskeyService":
        from gamed.passkeys.build import build_passkeys

        return build_passkeys(service, enabled_methods(service.config, service.keys.indexer), revoked)

    return Late(build)


def late_recovery(service: ServiceContext, revoked: RevocationListener) -> Late["RecoveryService"]:
    def build() -> "RecoveryService":
        from gamed.passkeys.build import build_recovery

        return build_recovery(service, revoked, on=service.config.mode is Mode.LOCAL)

    return Late(build)


def build_pages(service: ServiceContext, access: ProviderAccess) -> PageResponder:
    """Return what all browser routes share."""
    config = service.config
    guard = BrowserGuard(
        indexer=service.keys.indexer, random=service.random, secure=(config.public_url or "").startswith("https:")
    )
    return PageResponder(
        guard,
        access.base_url,
        config.server_name,
        service.now_ms,
        service.tasks,
        PageRenderer(config.look),
        Languages(service.settings.catalogues, None if config.look is None else config.look.language),
        config.look,
        service.settings.intervals,
        partial(deferLater, service.reactor, 0, lambda: None),
    )


def build_providers(
    context: ServiceContext, report: Callable[[str, str, float], None] | None
) -> dict[str, IdentityProvider]:
    """Return the clients of the configured providers; without any, the modules that they need are not imported.

    `report` is called after each request to a provider.
    """
    configured = context.config.providers
    if context.config.mode is not Mode.OAUTH or not configured:
        return {}
    from gamed.providers import oidc
    from gamed.providers.transport import build_agent

    return oidc.build_providers(
        configured,
        context.config.public_url or "",
        build_agent(context.reactor),
        context.reactor,
        context.now_ms,
        report=report,
    )
