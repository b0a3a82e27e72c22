"""The components of the service: each builds what one part of the API needs, and decides nothing itself."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from secrets import token_bytes
from shutil import disk_usage
from typing import TYPE_CHECKING, Any, Final, TypeVar

from msgspec import Struct, field
from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger
from twisted.python.threadpool import ThreadPool

from gamed.account.browser import AccountPage, AccountSignIn
from gamed.account.browser_routes import AccountRoutes, AccountServices
from gamed.account.browser_store import AccountPageStore
from gamed.account.guard import AccountGuard
from gamed.account.home_routes import HomeRoutes
from gamed.account.links import InviteService, ResetService
from gamed.account.links_routes import LinkRoutes
from gamed.account.links_store import LinkStore
from gamed.account.pages.account import SignInChoice
from gamed.account.routes import PlayerRoutes
from gamed.account.service import AccountService, RemovalService
from gamed.account.store import PlayerStore
from gamed.assets.cache import ObjectCache, ReleaseCache
from gamed.assets.routes import AssetRoutes
from gamed.assets.service import AssetService
from gamed.assets.store import FOLDER, AssetStore
from gamed.audit import AuditLog
from gamed.config.game import AssetAccess
from gamed.config.model import Config, Mode, Provider
from gamed.config.settings import Settings
from gamed.crypto import Keys
from gamed.database.changes import ExternalChangeNotifier, Topic
from gamed.database.databases import Databases
from gamed.database.errors import DatabaseError
from gamed.event_log import EventLog
from gamed.http.app import RouteGroup
from gamed.http.background import ShieldedTasks
from gamed.login.authorize import AuthorizeService
from gamed.login.browser import BrowserLoginService, LoginLifecycle, ResultService
from gamed.login.browser_routes import BrowserRoutes, CallbackRoutes, LookRoutes, PageResponder, ResultRoutes
from gamed.login.callback import CallbackService
from gamed.login.collect import CollectService
from gamed.login.csrf import BrowserGuard
from gamed.login.local import LocalLoginService, PasswordAuthenticator
from gamed.login.newcomer import NewcomerService
from gamed.login.policy import LoginContext, LoginPolicy, ProviderAccess
from gamed.login.routes import LoginRoutes, QrRoutes
from gamed.login.start import StartService
from gamed.login.store import LoginStore, advanced_logins
from gamed.long_poll import LongPollRegistry
from gamed.open_files import spare_files
from gamed.ops.logging import LoggedSignInFailures
from gamed.players.command_log import CommandLogForwarder
from gamed.players.names import SignInMethods
from gamed.players.passwords import AsyncPasswordHasher
from gamed.providers.base import IdentityProvider
from gamed.providers.discovery import identity_namespace, namespace_indexes
from gamed.saves.batch import CommitService
from gamed.saves.batch_routes import CommitRoutes, ExportRoutes
from gamed.saves.change_waits import ChangeWaiters
from gamed.saves.cleanup import CleanupTask
from gamed.saves.erase import EraseService
from gamed.saves.erase_store import EraseStore
from gamed.saves.export import ExportService
from gamed.saves.export_store import ExportArchive
from gamed.saves.limits import DiskReservations, PlayerRateLimiter
from gamed.saves.routes import SaveRoutes
from gamed.saves.service import SaveEnvironment, SaveService
from gamed.saves.store import SaveStore
from gamed.saves.uploads import SaveBodyPolicy, UploadAdmission
from gamed.sessions.credentials import SessionPolicy
from gamed.sessions.service import FirstUses, RevocationListener, SessionService
from gamed.timestamps import Now

if TYPE_CHECKING:
    from gamed.ops.metrics import Counters

T = TypeVar("T")
ASSET_THREADS: Final = 4
"""The assets have threads of their own, so that a slow disk under them does not delay a save."""
_log = EventLog(Logger())


class ServiceContext(Struct, frozen=True, kw_only=True):
    """The objects that all components share."""

    reactor: Any
    settings: Settings
    keys: Keys
    databases: Databases
    audit: AuditLog
    now_ms: Now
    counters: "Counters | None" = None
    """The counters of `/metrics`; None without `--admin`."""
    instance_id: str = ""
    """Eight hex digits that are new at each start."""
    tasks: ShieldedTasks = field(default_factory=ShieldedTasks)

    @property
    def config(self) -> Config:
        return self.settings.config


def login_policy(config: Config) -> LoginPolicy:
    """Return the part of the configuration that logins depend on."""
    session = config.session
    return LoginPolicy(
        config.mode,
        SessionPolicy(session.access_seconds, session.refresh_seconds, session.max_lifetime_seconds),
        tuple(config.providers),
        session.device_transaction_seconds,
        config.login.return_proof,
        config.login.registration,
        config.limits,
        config.login.app_links,
    )


class LoginComponents:
    """Logins, from the game's request to the collected credentials (PROTOCOL 3.1 to 3.6)."""

    def __init__(
        self, context: ServiceContext, sessions: SessionService, first_uses: FirstUses, base_url: Callable[[], str]
    ) -> None:
        config, keys, databases = context.config, context.keys, context.databases
        self._service = context
        self._context = LoginContext(
            keys, token_bytes, context.now_ms, login_policy(config), context.audit, context.instance_id
        )
        self._sessions = sessions
        self._recovering = False
        self._waiters = LongPollRegistry(context.reactor)
        ExternalChangeNotifier(databases.changes, databases.reads, self._waiters, {Topic.LOGINS: advanced_logins})
        self._store = LoginStore(databases.reads, databases.auth, keys, first_uses)
        self._browsers = BrowserLoginService(self._context, self._store, self._waiters)
        self._lifecycle = LoginLifecycle(self._store, self._waiters, context.now_ms, databases.ended_processes)
        configured = config.providers if config.mode is Mode.OAUTH else {}
        self._realms = namespace_indexes(keys.indexer, configured.values())
        providers = _build_providers(context, configured)
        self._access = ProviderAccess(providers, base_url, LoggedSignInFailures(context.counters).sign_in_failed)

    def routes(self, revoked: RevocationListener) -> Sequence[RouteGroup]:
        """Return the routes for games, for the pages of a login, and for callbacks."""
        context, config, tasks = self._context, self._service.config, self._service.tasks
        store, browsers, access = self._store, self._browsers, self._access
        start = StartService(context, store, access, self._sessions, self._waiters)
        collect = CollectService(context, store, self._waiters, revoked)
        authorize, pages = self._authorize, self._pages
        local = LocalLoginService(context, browsers, self._passwords) if config.mode is Mode.LOCAL else None
        newcomers = NewcomerService(context, browsers, store)
        return (
            LoginRoutes(context, start, self._lifecycle, collect, access.base_url, tasks),
            BrowserRoutes(browsers, authorize, local, self._labels, config.login.registration, newcomers, pages),
            QrRoutes(authorize, access.base_url, tasks),
            CallbackRoutes(CallbackService(context, browsers, store, access, self._waiters), pages),
            ResultRoutes(ResultService(context, store, browsers), self._labels, newcomers, pages),
            HomeRoutes(pages),
            LookRoutes(None if config.look is None else config.look.mark),
        )

    def account_routes(
        self, account: AccountService, revoked: RevocationListener, saves: SaveService, exports: ExportRoutes
    ) -> AccountRoutes:
        """Return the routes of the player's own page."""
        context, store = self._context, self._account_store
        services = AccountServices(
            self._account_sign_in,
            AccountPage(context, store, self._sessions, account, saves, self._passwords, revoked),
            self._sessions,
            account,
            saves,
            exports,
        )
        return AccountRoutes(services, AccountGuard(self._pages.guard), SignInChoice(self._labels), self._pages)

    def link_routes(self, revoked: RevocationListener) -> LinkRoutes:
        """Return the routes of invites and reset links."""
        context, databases = self._context, self._service.databases
        store = LinkStore(databases.reads, databases.auth, context.keys)
        invites = InviteService(context, store, self._store, self._passwords, self._account_sign_in)
        resets = ResetService(context, store, self._store, self._passwords, revoked)
        return LinkRoutes(invites, resets, AccountGuard(self._pages.guard), self._labels, self._pages)

    @cached_property
    def _account_store(self) -> AccountPageStore:
        databases = self._service.databases
        return AccountPageStore(databases.reads, databases.auth, self._context.keys)

    @cached_property
    def _account_sign_in(self) -> AccountSignIn:
        login = self._context, self._store, self._account_store, self._authorize, self._passwords, self._waiters
        return AccountSignIn(*login)

    @cached_property
    def _hasher(self) -> AsyncPasswordHasher:
        return AsyncPasswordHasher(self._service.reactor)

    @cached_property
    def _passwords(self) -> PasswordAuthenticator:
        return PasswordAuthenticator(self._context, self._store, self._hasher)

    @cached_property
    def _authorize(self) -> AuthorizeService:
        return AuthorizeService(self._context, self._browsers, self._store, self._access, self._passwords)

    @cached_property
    def _labels(self) -> Mapping[str, str]:
        return {name: provider.label for name, provider in self._access.providers.items()}

    @cached_property
    def _pages(self) -> PageResponder:
        context, config = self._context, self._service.config
        guard = BrowserGuard(context.keys.indexer, token_bytes, (config.public_url or "").startswith("https:"))
        return PageResponder(
            guard, self._access.base_url, config.server_name, context.now_ms, self._service.tasks, config.look
        )

    async def log_providers(self) -> None:
        """Log the redirect URIs to register, and how many accounts no configured provider can sign in any more."""
        for name in self._access.providers:
            _log.info("redirect_uri", provider=name, uri=self._access.redirect_uri(name))
        orphaned = await self._store.orphaned_identities(self._realms) if self._access.providers else 0
        if orphaned:
            _log.warn(
                "orphaned_identities",
                count=orphaned,
                detail="These accounts cannot sign in: their provider is not configured or has another issuer now",
            )

    async def recover(self) -> None:
        """End the exchanges of processes that have ended; the service calls this before the first request, too."""
        first, self._recovering = not self._recovering, True
        await self._lifecycle.recover(first=first)

    async def clean_up(self) -> None:
        """End and delete expired logins, and delete rate limits that limit no client."""
        await self._lifecycle.expire()
        await self._store.delete_idle_buckets(self._context.now_ms())

    @property
    def waiting(self) -> int:
        """Return the number of requests that wait for a login."""
        return len(self._waiters)

    def close(self) -> None:
        """Answer all waiting requests."""
        self._waiters.close()


def _build_providers(context: ServiceContext, configured: Mapping[str, Provider]) -> dict[str, IdentityProvider]:
    """Return the clients of the configured providers; without any, the modules that they need are not imported."""
    if not configured:
        return {}
    from gamed.providers.oidc import build_providers
    from gamed.providers.transport import build_agent

    reactor, counters = context.reactor, context.counters
    return build_providers(
        configured,
        context.config.public_url or "",
        build_agent(reactor),
        reactor,
        context.now_ms,
        report=None if counters is None else counters.record_provider_call,
    )


class BuiltSaves(Struct, frozen=True, eq=False):
    """The service of saves, the route of exports, and the other routes."""

    saves: SaveService
    exports: ExportRoutes
    others: Sequence[RouteGroup]


class SaveComponents:
    """Saves, commits and exports (PROTOCOL 4); `change_waiters` are also notified when a session ends."""

    def __init__(self, context: ServiceContext) -> None:
        self._context = context
        self._limits = context.settings.game.saves
        self._waiters = LongPollRegistry(context.reactor)
        self.change_waiters = ChangeWaiters(self._waiters, context.databases)
        self._exports: ExportService | None = None
        self._cleanup = CleanupTask(
            context.databases, self._limits, context.now_ms, token_bytes, self.change_waiters.notify
        )

    def build(self, sessions: SessionService) -> "BuiltSaves":
        """Return the routes for saves, commits and exports, and what the player's own page uses of them."""
        context, limits = self._context, self._limits
        databases, tasks = context.databases, context.tasks
        folder = context.settings.data / "tmp"
        disk = DiskReservations(lambda: disk_usage(context.settings.data).free, limits.min_free_bytes)
        store = SaveStore(databases, context.keys, limits, PlayerRateLimiter.of_lists())
        environment = SaveEnvironment(limits, context.now_ms, token_bytes, self.change_waiters)
        saves = SaveService(store, sessions, environment, PlayerRateLimiter.of(limits))
        uploads = UploadAdmission(limits, folder, disk, self._in_thread)
        rates = PlayerRateLimiter.of_staging(limits), PlayerRateLimiter.of_staging(limits)
        commits = CommitService(saves, store, environment, context.settings.game.staged_seconds, *rates)
        erase = EraseService(saves, EraseStore(databases, token_bytes), environment)
        self._exports = ExportService(saves, partial(ExportArchive, databases, folder), disk)
        export_routes = ExportRoutes(self._exports, tasks, context.reactor)
        save_routes = SaveRoutes(saves, tasks, SaveBodyPolicy(saves, limits, uploads), erase)
        return BuiltSaves(saves, export_routes, (save_routes, CommitRoutes(commits, limits, tasks, uploads)))

    @property
    def waiting(self) -> int:
        """Return the number of requests that wait for changes."""
        return len(self._waiters)

    @property
    def exporting(self) -> int:
        """Return the number of exports that are written or sent."""
        return 0 if self._exports is None else self._exports.running

    async def clean_up(self) -> None:
        """Prune histories, and delete blobs that no version uses."""
        await self._cleanup.clean_up()

    def close(self) -> None:
        """Answer all waiting requests, and end the exports."""
        self._waiters.close()
        if self._exports is not None:
            self._exports.close()

    def _in_thread(self, work: Callable[[], T]) -> Deferred[T]:
        reactor = self._context.reactor
        return deferToThreadPool(reactor, reactor.getThreadPool(), work)


class AssetComponents:
    """The released assets under /assets/ (PROTOCOL 5)."""

    def __init__(self, context: ServiceContext) -> None:
        reactor, settings = context.reactor, context.settings
        self._pool = ThreadPool(0, ASSET_THREADS, "assets")
        run = partial(deferToThreadPool, reactor, self._pool)
        self._players_only = settings.game.assets.access is AssetAccess.PLAYERS
        store = AssetStore(settings.data / FOLDER)
        files = spare_files(settings.config.limits.connections)
        self._objects = ObjectCache(store, run, reactor.seconds, files)
        releases = ReleaseCache(store, run, reactor.seconds)
        self._assets = AssetService(releases, self._objects, context.now_ms())

    def routes(self, sessions: SessionService) -> AssetRoutes:
        return AssetRoutes(self._assets, sessions if self._players_only else None)

    def open(self) -> None:
        """Start the threads, after the service became a daemon: a fork does not copy threads."""
        self._pool.start()

    async def clean_up(self) -> None:
        """Close cached files that no request has used for a while."""
        self._objects.discard_expired()

    def close(self) -> None:
        self._objects.close()
        if self._pool.started:
            self._pool.stop()


ERASING_COMMANDS = frozenset({"players erase", "players merge"})
"""The commands after which the write-ahead logs may hold what was erased."""


class PlayerComponents:
    """Players' own accounts (PROTOCOL 3.8), their removal, and the log entries of operators' commands."""

    def __init__(self, context: ServiceContext, revoked: RevocationListener) -> None:
        config, databases = context.config, context.databases
        players = PlayerStore(databases.reads, databases.auth, context.keys)
        names = {
            name: identity_namespace(each).namespace_index(context.keys.indexer)
            for name, each in config.providers.items()
        }
        methods = SignInMethods(config.mode is Mode.LOCAL, frozenset(names.values()), names)
        self._context = context
        self._commands = CommandLogForwarder(databases.reads, databases.auth, context.audit)
        self._removals = RemovalService(players, EraseStore(databases, token_bytes), context.now_ms, context.audit)
        self.account = AccountService(players, self._removals, revoked, methods, context.now_ms, context.audit)

    def routes(self, sessions: SessionService) -> PlayerRoutes:
        return PlayerRoutes(sessions, self.account, self._context.tasks)

    async def clean_up(self) -> None:
        """Log the commands of operators, which needs auth.db alone, then finish removals; raise DatabaseError."""
        commands = await self._commands.forward()
        await self._removals.resume()
        if not ERASING_COMMANDS.isdisjoint(commands):  # it has ended, or resume() has ended its work
            self._context.databases.clear_logs()

    async def close(self) -> None:
        """Log the commands of operators before the databases close; the next start logs those that fail now."""
        with suppress(DatabaseError):
            await self._commands.forward()
