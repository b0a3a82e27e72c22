"""The wiring of the handoff: what stands between a game that starts a login and its credentials.

The wiring of saves: what stands between a request for a save and the bytes in state.db.

The wiring of assets: what stands between a request under /assets/ and the files in the data folder.

The wiring of players' own accounts, of their departure, and of what the owner's log says about them.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from secrets import token_bytes
from shutil import disk_usage
from typing import TYPE_CHECKING, Any, Final, TypeVar

from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger
from twisted.python.threadpool import ThreadPool

from gamed.assets.cache import ObjectCache, ReleaseCache
from gamed.assets.routes import AssetRoutes
from gamed.assets.service import AssetService
from gamed.assets.store import FOLDER, AssetStore
from gamed.audit import AuditLog
from gamed.config.game import AssetAccess
from gamed.config.model import Config, Mode, Provider
from gamed.config.settings import Settings
from gamed.crypto import Indexer, Keys
from gamed.database.databases import Databases
from gamed.database.errors import DatabaseError
from gamed.event_log import EventLog
from gamed.http.app import RouteGroup
from gamed.http.background import ShieldedTasks
from gamed.http.client_address import spare_files
from gamed.login.attempt import redirect_uri
from gamed.login.authorize import AuthorizeService, VisitRateLimit
from gamed.login.browser import BrowserLoginService, LoginLifecycle, ResultService
from gamed.login.browser_routes import BrowserRoutes, CallbackRoutes, DoneRoutes, PageResponder
from gamed.login.callback import CallbackService
from gamed.login.collect import CollectService
from gamed.login.csrf import BrowserGuard
from gamed.login.local import LocalLoginService, PasswordAuthenticator
from gamed.login.policy import LoginPolicy
from gamed.login.routes import LoginRoutes
from gamed.login.start import StartService
from gamed.login.store import StoredAccounts, StoredAttempts, StoredIdentities, StoredLimits, StoredLogins
from gamed.long_poll import LongPollRegistry
from gamed.ops.logging import LoggedSignInFailures
from gamed.players.command_log import CommandLogForwarder
from gamed.players.names import SignInMethods
from gamed.players.passwords import AsyncPasswordHasher
from gamed.players.routes import PlayerRoutes
from gamed.players.service import AccountService, RemovalService, Waits
from gamed.players.store import SqlitePlayerStore
from gamed.providers.base import IdentityProvider
from gamed.providers.discovery import realm_indexes
from gamed.saves.batch import CommitService
from gamed.saves.batch_routes import CommitRoutes, ExportRoutes
from gamed.saves.change_waits import ChangeWaiters
from gamed.saves.cleanup import CleanupTask
from gamed.saves.erase import EraseService
from gamed.saves.erase_store import SqliteEraseStore
from gamed.saves.export import ExportService
from gamed.saves.export_store import SqliteExport
from gamed.saves.limits import DiskReservations, WriteRateLimiter
from gamed.saves.routes import SaveRoutes
from gamed.saves.service import SaveService
from gamed.saves.store import DatabaseChangeSource, SqliteSaveStore
from gamed.saves.uploads import SaveBodyPolicy, UploadAdmission
from gamed.sessions.service import FirstUses, SessionService
from gamed.timestamps import Now

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
        terms: LoginPolicy,
        keys: Keys,
        stores: Databases,
        sessions: SessionService,
        first_uses: FirstUses,
        waiters: LongPollRegistry,
        detached: ShieldedTasks,
        audit: AuditLog,
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
        self._entrance = VisitRateLimit(self._limits, keys.indexer, now_ms, terms.limits)
        self._passwords = AsyncPasswordHasher(reactor)
        self._audit = audit
        self._browsers = BrowserLoginService(self._logins, waiters, keys.indexer, now_ms, audit)
        self._handoff = LoginLifecycle(self._logins, waiters, now_ms)
        self._journal = LoggedSignInFailures(counters)
        configured = config.providers if config.mode is Mode.OAUTH else {}
        self._realms = realm_indexes(keys.indexer, configured.values())
        self._providers = _build_providers(reactor, configured, config.public_url or "", now_ms, counters)

    def rooms(self) -> Sequence[RouteGroup]:
        room = PageResponder(
            BrowserGuard(self._keys.indexer, token_bytes, (self._config.public_url or "").startswith("https:")),
            self._base,
            self._config.server_name,
            self._now_ms,
            self._detached,
        )
        done = DoneRoutes(ResultService(self._browsers, self._keys), room)
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
        starting = StartService(
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
        collecting = CollectService(
            self._logins, self._waiters, self._keys, token_bytes, self._now_ms, self._terms, self._audit
        )
        indexer, base = self._keys.indexer, self._base
        return LoginRoutes(starting, self._handoff, collecting, indexer, base, self._now_ms, self._detached)

    def _links(self, room: PageResponder) -> BrowserRoutes:
        registration = self._config.login.registration
        tries = self._terms.limits.passwords_per_minute
        check = PasswordAuthenticator(
            self._accounts, self._passwords, self._limits, self._keys.indexer, self._now_ms, tries, self._audit
        )
        local = LocalLoginService(self._browsers, check, self._keys, token_bytes, self._now_ms, registration)
        departing = AuthorizeService(
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

    def _returning(self) -> CallbackService:
        return CallbackService(
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
    from gamed.providers.client import uncounted
    from gamed.providers.registry import build_providers
    from gamed.providers.transport import build_agent

    called = uncounted if counters is None else counters.record_provider_call
    return build_providers(configured, public_url, build_agent(reactor), reactor, now_ms, called=called)


class Keeping:
    """Everything about saves; `waits` also hears of sessions that end."""

    def __init__(self, reactor: Any, settings: Settings, stores: Databases, now_ms: Now) -> None:
        self._reactor = reactor
        self._settings = settings
        self._stores = stores
        self._now_ms = now_ms
        self._limits = settings.game.saves
        self._waiters = LongPollRegistry(reactor)
        self.waits = ChangeWaiters(self._waiters, DatabaseChangeSource(stores))
        self._exports: ExportService | None = None
        self._sweeper = CleanupTask(stores, self._limits, now_ms, token_bytes, self.waits.changed)

    def rooms(self, indexer: Indexer, sessions: SessionService, detached: ShieldedTasks) -> Sequence[RouteGroup]:
        limits, folder = self._limits, self._settings.data / "tmp"
        announced = DiskReservations(self._free_bytes, limits.min_free_bytes)
        store = SqliteSaveStore(self._stores, indexer, limits)
        saves = SaveService(store, sessions, limits, self._now_ms, token_bytes, self.waits, WriteRateLimiter.of(limits))
        intake = UploadAdmission(limits, folder, announced, self._disk)
        commits = CommitService(
            saves,
            store,
            limits,
            self._settings.game.staged_seconds,
            self._now_ms,
            token_bytes,
            self.waits,
            WriteRateLimiter.of_staging(limits),
        )
        shelves = SqliteEraseStore(self._stores, token_bytes)
        erasure = EraseService(saves, shelves, self._now_ms, token_bytes, self.waits)
        self._exports = ExportService(saves, partial(SqliteExport, self._stores, folder), announced)
        return (
            SaveRoutes(saves, detached, SaveBodyPolicy(saves, limits, intake), erasure),
            CommitRoutes(commits, limits, detached, intake),
            ExportRoutes(self._exports, detached, self._reactor),
        )

    def _free_bytes(self) -> int:
        return disk_usage(self._settings.data).free

    def _disk(self, work: Callable[[], None]) -> Deferred[None]:
        return deferToThreadPool(self._reactor, self._reactor.getThreadPool(), work)

    @property
    def waiting(self) -> int:
        """Requests that wait for changes."""
        return len(self._waiters)

    @property
    def exporting(self) -> int:
        """Exports that are made or sent."""
        return 0 if self._exports is None else self._exports.running

    async def sweep(self) -> None:
        await self._sweeper.sweep()

    def close(self) -> None:
        """Whoever waits is answered; exports end."""
        self._waiters.close()
        if self._exports is not None:
            self._exports.close()


T = TypeVar("T")
THREADS: Final = 4
"""A disk that is slow to read keeps these busy, and nobody who saves."""


class Delivering:
    """Everything about assets."""

    def __init__(self, reactor: Any, settings: Settings, now_ms: Now) -> None:
        self._reactor = reactor
        self._pool = ThreadPool(0, THREADS, "assets")
        self._settings = settings
        files = spare_files(settings.config.limits.connections)
        store = AssetStore(settings.data / FOLDER)
        self._objects = ObjectCache(store, self._run, reactor.seconds, files)
        self._reader = AssetService(ReleaseCache(store, self._run, reactor.seconds), self._objects, now_ms())

    def room(self, sessions: SessionService) -> AssetRoutes:
        players = self._settings.game.assets.access is AssetAccess.PLAYERS
        return AssetRoutes(self._reader, sessions if players else None)

    def open(self) -> None:
        """Not before the service has become a daemon: threads stay behind in a fork."""
        self._pool.start()

    async def sweep(self) -> None:
        self._objects.sweep()

    def close(self) -> None:
        self._objects.close()
        if self._pool.started:
            self._pool.stop()

    def _run(self, work: Callable[[], T]) -> Deferred[T]:
        return deferToThreadPool(self._reactor, self._pool, work)


class People:
    """The room of PROTOCOL 3.8, and what the service does for players beside requests."""

    def __init__(  # noqa: PLR0917
        self, config: Config, keys: Keys, stores: Databases, audit: AuditLog, waits: Waits, now_ms: Now
    ) -> None:
        players = SqlitePlayerStore(stores.reads, stores.auth)
        realms = realm_indexes(keys.indexer, config.providers.values())
        ways = SignInMethods(config.mode is Mode.LOCAL, realms)
        self._teller = CommandLogForwarder(players, audit)
        self._departures = RemovalService(players, SqliteEraseStore(stores, token_bytes), now_ms, audit)
        self._account = AccountService(players, self._departures, waits, ways, now_ms, audit)

    def room(self, sessions: SessionService, detached: ShieldedTasks) -> PlayerRoutes:
        return PlayerRoutes(sessions, self._account, detached)

    async def sweep(self) -> None:
        """Log what commands did, which needs auth.db alone, then finish what was begun; StoreError puts that off."""
        await self._teller.tell()
        await self._departures.resume()

    async def close(self) -> None:
        """The last words before the stores close; what they cannot take now is told at the next start."""
        try:
            await self._teller.tell()
        except DatabaseError:
            return
