"""The wiring of `--admin`: a port for this machine only, with `/metrics` and `/readyz`.

The wiring: the one module that sees every room. It builds, and decides nothing.
"""

from collections.abc import Callable, Coroutine, Sequence
from secrets import token_bytes
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from twisted.application.service import IService, MultiService
from twisted.internet.defer import Deferred, gatherResults
from twisted.logger import Logger

from gamed.audit import AuditLog
from gamed.clock import now_ms
from gamed.components import Delivering, Keeping, People, SignIn
from gamed.config.model import Config
from gamed.config.settings import LogFormat, Settings
from gamed.crypto import Keys
from gamed.database.databases import Databases
from gamed.database.periodic import PeriodicTask
from gamed.event_log import EventLog
from gamed.http.access_log import NAMESPACE, AccessLog
from gamed.http.app import RouteGroup
from gamed.http.background import ShieldedTasks
from gamed.http.client_address import HttpSettings
from gamed.http.health_routes import AdminRoutes, PublicRoutes
from gamed.http.server import build_server
from gamed.login.keys import LOCAL
from gamed.login.policy import LoginPolicy
from gamed.long_poll import LongPollRegistry
from gamed.ops.listeners import ListenerService
from gamed.ops.logging import RAW, TwistedAuditLog
from gamed.ops.systemd import SystemdNotifier, SystemdSupervisor
from gamed.rate_limit import RateLimit
from gamed.sessions.credentials import CredentialIssuer, SessionPolicy
from gamed.sessions.routes import SessionRoutes
from gamed.sessions.service import FirstUses, SessionService
from gamed.sessions.store import SqliteSessionStore

if TYPE_CHECKING:
    from gamed.ops.metrics import Counters, Gauges

CONNECTIONS = 16


class AdminServer:
    """Open from the start until everything else is closed."""

    def __init__(self, reactor: Any, endpoint: str, counters: "Counters", gauges: "Gauges", stores: Databases) -> None:
        from gamed.ops.metrics import CONTENT_TYPE, Metrics  # late: only --admin needs prometheus_client

        self._stores = stores
        self._stopping = False
        routes = AdminRoutes(Metrics(counters, gauges), CONTENT_TYPE, self)
        policy = HttpSettings("localhost", connections=CONNECTIONS)
        self._site = build_server(
            [routes], policy, reactor, access_log=NullAccessLog(), now_ms=now_ms, random=token_bytes
        )
        self._listening = ListenerService(reactor, (endpoint,), self._site)

    @property
    def port(self) -> int:
        return self._listening.port

    def open(self) -> None:
        """CannotListenError when it cannot."""
        self._listening.startService()

    def stopping(self) -> None:
        """The service is not ready any more, and says so."""
        self._stopping = True

    async def problems(self) -> Sequence[str]:
        """gamed.http.health_routes.Readiness."""
        if self._stopping:
            return ["the service is stopping"]
        return await self._stores.unresponsive()

    def close(self) -> Deferred[None]:
        """Fires when its connections are closed."""
        self._listening.stopService()
        return self._site.shut_down()


class NullAccessLog:
    """Whoever asks every few seconds would fill the log."""

    def log(self, **values: Any) -> None: ...


CLEANUP_SECONDS = 60
FIRST_USES_SECONDS = 10
"""Between two attempts to write first uses of credentials that could not be written at once."""
RECOVERY_SECONDS = 5
"""Between two attempts to end the sign-ins that the last process left unfinished."""
LEAVE_SECONDS = 3
"""How long connections have, once the service stops, to take their answers, and work whose client has left to end.

A provider may take longer: its sign-in is interrupted, as the next start tells the game.
"""
_log = EventLog(Logger())


class GamedService(MultiService):
    """The service from its ports down to its files; children open and close with it."""

    def __init__(self, reactor: Any, settings: Settings, manager: SystemdNotifier) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._reactor = reactor
        self._settings = settings
        self._config = settings.config
        self._keys = Keys.of(settings.master_key, token_bytes)
        self._stores = Databases.open(reactor, settings.data, now_ms, settings.game.staged_seconds * 1000)
        self._supervision = SystemdSupervisor(reactor, manager, self._stores)
        self._waiters = LongPollRegistry(reactor)
        self._keeping = Keeping(reactor, settings, self._stores, now_ms)
        self._delivering = Delivering(reactor, settings, now_ms)
        self._counters = _new_counters(settings)
        self._audit = _new_audit_log(self._counters)
        self._people = People(self._config, self._keys, self._stores, self._audit, self._keeping.waits, now_ms)
        self._detached = ShieldedTasks()
        self._terms = _terms(self._config)
        self._first_uses = FirstUses()
        self._sessions = self._keep_sessions()
        self._sign_in = SignIn(
            reactor,
            config=self._config,
            terms=self._terms,
            keys=self._keys,
            stores=self._stores,
            sessions=self._sessions,
            first_uses=self._first_uses,
            waiters=self._waiters,
            detached=self._detached,
            audit=self._audit,
            counters=self._counters,
            base=self.base,
            now_ms=now_ms,
        )
        count = None if self._counters is None else self._counters.record_request
        style = settings.log_format
        self._log = AccessLog(_log_lines(style), reactor, now_ms, style, count=count)
        policy = _http_policy(settings)
        self._site = build_server(
            self._rooms(), policy, reactor, access_log=self._log, now_ms=now_ms, random=token_bytes
        )
        self._listening = ListenerService(reactor, settings.listen, self._site)
        self._listening.setServiceParent(self)  # type: ignore[no-untyped-call]
        self._admin = self._make_admin(settings.admin)
        self._recovering = PeriodicTask(reactor, RECOVERY_SECONDS, lambda: Deferred.fromCoroutine(self._recover()))
        self._sweeps = [
            PeriodicTask(
                reactor, FIRST_USES_SECONDS, lambda: Deferred.fromCoroutine(self._sessions.write_first_uses())
            ),
        ]
        self._sweeps += [
            _every_minute(reactor, sweep)
            for sweep in (
                self._sign_in.sweep,
                self._sessions.sweep,
                self._keeping.sweep,
                self._people.sweep,
                self._delivering.sweep,
            )
        ]

    def base(self) -> str:
        """Every URL begins with this (PROTOCOL 1); without `public_url` it is known once the port is bound."""
        return self._config.public_url or f"http://127.0.0.1:{self._listening.port}"

    def startService(self) -> None:
        if self._admin is not None:
            self._admin.open()
        self._delivering.open()
        super().startService()  # type: ignore[no-untyped-call]
        self._recovering.start(now=True)
        for sweep in self._sweeps:
            sweep.start(now=True)
        _log.info("service_started", url=self.base())
        announcing = Deferred.fromCoroutine(self._sign_in.announce())
        announcing.addErrback(lambda reason: _log.failure("orphan_check_failed", reason))
        self._supervision.started(self.base())

    def stopService(self) -> Deferred[None]:
        """Answer what is under way, write what was accepted, close."""
        return Deferred.fromCoroutine(self._stop())

    async def _recover(self) -> None:
        await self._sign_in.recover()
        self._recovering.stop()

    async def _stop(self) -> None:
        self._supervision.stopping()
        self._recovering.stop()
        if self._admin is not None:
            self._admin.stopping()
        await MultiService.stopService(self)
        for sweep in self._sweeps:
            sweep.stop()
        leaving = self._given_time(self._site.shut_down())
        self._waiters.close()  # after the site knows: these answers are the last of their connections
        self._keeping.close()
        await gatherResults([leaving, self._given_time(self._detached.wait())])
        self._detached.abandon()
        if self._admin is not None:
            await self._given_time(self._admin.close())
        await self._sessions.close()
        await self._people.close()
        self._delivering.close()
        await self._stores.close()
        self._log.flush()
        self._supervision.stopped()

    def _given_time(self, ending: Deferred[None]) -> Deferred[None]:
        return ending.addTimeout(LEAVE_SECONDS, self._reactor).addErrback(lambda _: None)

    def _keep_sessions(self) -> SessionService:
        issuer = CredentialIssuer(self._keys, self._terms.session, token_bytes)
        refreshes = RateLimit.per_minute(self._config.limits.refreshes_per_minute)
        stored = SqliteSessionStore(self._stores.reads, self._stores.auth, issuer, refreshes)
        return SessionService(stored, self._keeping.waits, now_ms, self._audit, self._first_uses)

    def _make_admin(self, endpoint: str | None) -> "AdminServer | None":
        if endpoint is None or self._counters is None:
            return None
        from gamed.ops.metrics import Gauges

        gauges = Gauges(
            self._stores.queues,
            {"login": lambda: len(self._waiters), "saves": lambda: self._keeping.waiting},
            self._stores.wal_bytes,
            lambda: self._keeping.exporting,
            lambda: self._site.connections,
            self._site.refused,
        )
        return AdminServer(self._reactor, endpoint, self._counters, gauges, self._stores)

    def _rooms(self) -> Sequence[RouteGroup]:
        policy = PublicRoutes(
            self._config.mode.value,
            self._terms.providers,
            token_bytes(4).hex(),
            self._stores,
        )
        sessions = SessionRoutes(self._sessions, self._detached)
        saves = self._keeping.rooms(self._keys.indexer, self._sessions, self._detached)
        people = self._people.room(self._sessions, self._detached)
        assets = self._delivering.room(self._sessions)
        return policy, *self._sign_in.rooms(), sessions, people, *saves, assets


def build_service(reactor: Any, settings: Settings, manager: SystemdNotifier | None = None) -> IService:
    """The whole service; opens ports, files and threads only when it is started."""
    service: IService = GamedService(reactor, settings, manager or SystemdNotifier())
    return service


def _new_counters(settings: Settings) -> "Counters | None":
    """Return the counters of `/metrics`, or None without `--admin`: then nothing is counted."""
    if settings.admin is None:
        return None
    from gamed.ops.metrics import Counters

    return Counters([*settings.config.providers, LOCAL])


def _new_audit_log(counters: "Counters | None") -> AuditLog:
    if counters is None:
        return TwistedAuditLog()
    from gamed.ops.metrics import CountingAuditLog

    return CountingAuditLog(TwistedAuditLog(), counters)


def _terms(config: Config) -> LoginPolicy:
    times = config.session
    return LoginPolicy(
        config.mode,
        SessionPolicy(times.access_seconds, times.refresh_seconds, times.max_lifetime_seconds),
        tuple(config.providers),
        times.device_transaction_seconds,
        config.login.return_proof,
        config.login.registration,
        config.limits,
    )


def _http_policy(settings: Settings) -> HttpSettings:
    config = settings.config
    host = urlsplit(config.public_url).hostname if config.public_url else None
    return HttpSettings(
        host or "127.0.0.1",
        config.trusted_proxies,
        frozenset(config.cors_origins),
        config.limits.connections,
        upload_seconds=settings.game.saves.upload_seconds,
    )


def _every_minute(reactor: Any, sweep: Callable[[], Coroutine[Deferred[Any], Any, object]]) -> PeriodicTask:
    """A ticker of its own for each room: where one cannot sweep, the others still do."""
    return PeriodicTask(reactor, CLEANUP_SECONDS, lambda: Deferred.fromCoroutine(sweep()))


def _log_lines(style: LogFormat) -> Callable[[str], None]:
    """Return how to write lines of requests to the service's log; Twisted's own format shows them as one entry."""
    logger = Logger(NAMESPACE)
    if style is LogFormat.TEXT:
        events = EventLog(logger)
        return lambda lines: events.info("http_requests", count=lines.count("\n"), below=lines.rstrip("\n"))
    return lambda lines: logger.info("{lines}", **{RAW: lines})
