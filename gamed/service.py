"""The service builds everything from its settings, starts it and stops it; it decides nothing."""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from secrets import token_bytes
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from twisted.application.service import IService, MultiService
from twisted.internet.defer import Deferred, gatherResults
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger

from gamed.account.build import build_account
from gamed.account.home_routes import render_for_any
from gamed.assets.build import AssetComponents
from gamed.audit import AuditLog
from gamed.clock import now_ms
from gamed.config.settings import LogFormat, Settings
from gamed.context import ServiceContext
from gamed.crypto import Keys
from gamed.database.databases import Databases
from gamed.database.periodic import PeriodicTask
from gamed.event_log import EventLog
from gamed.http.access_log import NAMESPACE, AccessLog, EndedRequest
from gamed.http.app import RouteGroup
from gamed.http.health_routes import AdminRoutes, PublicRoutes
from gamed.http.server import HttpServer, build_server
from gamed.http.settings import HttpSettings
from gamed.login.build import build_login, build_pages, build_providers
from gamed.login.keys import LOCAL
from gamed.login.look_routes import LookRoutes
from gamed.login.policy import ProviderAccess
from gamed.login.responder import PageResponder
from gamed.notify.build import build_notify
from gamed.open_files import is_limited, most_connections
from gamed.ops.late_modules import LateModules
from gamed.ops.listeners import ListenerService
from gamed.ops.logging import RAW, LoggedSignInFailures, TwistedAuditLog
from gamed.ops.stored_events import StoringAuditLog
from gamed.ops.systemd import SystemdNotifier, SystemdSupervisor
from gamed.owner.backups import BackupMaker
from gamed.owner.build import NO_BACKUPS, build_figures, build_owner
from gamed.owner.figures import FIGURES_SECONDS
from gamed.owner.report import MachineReport, OwnerReporter, read_machine, versions
from gamed.saves.build import build_saves, build_waits
from gamed.sessions.build import build_sessions
from gamed.sessions.recent import RecentTokens
from gamed.sessions.routes import SessionRoutes
from gamed.sessions.service import FirstUses
from gamed.stores import open_store
from gamed.tickets.build import build_tickets

if TYPE_CHECKING:
    from gamed.ops.metrics import Counters, Metrics

ADMIN_CONNECTIONS = 16
EVENTS_SECONDS = 5
"""The pause between two transactions that store security events: what a killed process loses."""
FIRST_USES_SECONDS = 10
"""The pause between two attempts to write first uses of credentials that could not be written at once."""
RECOVERY_SECONDS = 5
"""The pause between two attempts to end the exchanges that ended processes left, until the first one succeeds."""
SHUTDOWN_SECONDS, SHARED_SHUTDOWN_SECONDS = 3, 10
"""The time that open connections have to read their responses, and that requests of disconnected clients have to end.

The second is for a server with --share: another one answers new clients meanwhile. A request to a provider may take
longer: its login is interrupted, and another process, or the next start, ends it.
"""
_log = EventLog(Logger())


class GamedService(MultiService):
    """The whole service, from its listeners to its databases."""

    def __init__(
        self,
        reactor: Any,
        settings: Settings,
        manager: SystemdNotifier,
        give_up: Callable[[], None],
        maker: BackupMaker = NO_BACKUPS,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        instance_id = token_bytes(4).hex()
        staged_ms = settings.game.staged_seconds * 1000
        self._store = open_store(settings.config, settings.data)
        backend = self._store.backend(reactor, instance_id, give_up)
        databases = Databases.open(reactor, backend, settings.data, now_ms, staged_ms)
        self._counters = counters = _new_counters(settings)
        audit = _new_audit_log(counters)
        self._events = StoringAuditLog(audit, databases.auth, now_ms)
        self._context = context = ServiceContext(
            reactor=reactor,
            settings=settings,
            keys=Keys.of(settings.master_key, token_bytes),
            databases=databases,
            audit=self._events,
            now_ms=now_ms,
            instance_id=instance_id,
        )
        self._supervisor = SystemdSupervisor(reactor, manager, databases)
        first_uses, waits, recent = FirstUses(), build_waits(context), RecentTokens()
        revoked = recent.forgetting(waits.changes.notify)
        self._sessions = build_sessions(context, revoked, first_uses, recent)
        self._saves = build_saves(context, self._sessions, waits)
        report = None if counters is None else counters.record_provider_call
        failures = LoggedSignInFailures(counters)
        self._access = ProviderAccess(
            providers=build_providers(context, report),
            public_url=settings.config.public_url or settings.own_url,
            port=lambda: self._listeners.port,
            sign_in_failed=failures.sign_in_failed,
        )
        self._login = build_login(context, self._sessions, revoked, self._access, first_uses)
        self._pages = build_pages(context, self._access)
        self._account = build_account(context, revoked)
        self._assets = AssetComponents(context, self._sessions)
        self._tickets = build_tickets(context, self._sessions, self._access.base_url)
        self._notify = build_notify(context, audit)
        self._reporter = OwnerReporter(
            databases, context.keys, now_ms, self._look_at_machine, reactor, versions(self._store)
        )
        self._maker = maker
        self._access_log = _new_access_log(context, counters)
        self._figures = build_figures(context, self._access_log.tally)
        self._server = build_server(
            self._routes(),
            _http_settings(settings),
            reactor,
            access_log=self._access_log,
            now_ms=now_ms,
            random=token_bytes,
            render_unknown=partial(render_for_any, self._pages),
        )
        self._listeners = ListenerService(reactor, settings.listen, self._server, shared=settings.share)
        self._listeners.setServiceParent(self)  # type: ignore[no-untyped-call]
        self._admin = self._build_admin()
        self._recovery = self._periodic(RECOVERY_SECONDS, self._recover, "recover_logins_at_start")
        self._periodic_tasks = self._build_periodic_tasks()
        self._late_modules = LateModules(
            reactor,
            settings.config.mode,
            self._pages.renderer,
            lambda: self._server.connections > 0,
            self._login.passkeys.ways.any_ways,
        )

    def startService(self) -> None:
        self._context.databases.register_process()
        # Begins this run (gamed/saves/build.py) before a change does, so that workers that start together are one run
        # of a player's 16. If state.db cannot be written now, the first change begins it.
        self._context.databases.state.submit(lambda connection: None, keys=()).addErrback(lambda reason: None)
        if self._admin is not None:
            self._admin.open()
        self._assets.open()
        super().startService()  # type: ignore[no-untyped-call]
        self._recovery.start(now=True)
        for task in self._periodic_tasks:
            task.start(now=True)
        _log.info("service_started", url=self._access.base_url())
        wanted = self._context.config.limits.connections
        if is_limited(most := most_connections(wanted), wanted):
            _log.warn("connections_limited", connections=most, wanted=wanted)
        logging = Deferred.fromCoroutine(self._login.log_providers())
        logging.addErrback(lambda reason: _log.failure("orphan_check_failed", reason))
        self._supervisor.started(self._access.base_url())
        self._late_modules.start()

    def stopService(self) -> Deferred[None]:
        """Answer the requests that have begun, write what was accepted, and close everything."""
        return Deferred.fromCoroutine(self._stop())

    async def _recover(self) -> None:
        await self._login.recover()
        self._recovery.stop()

    async def _stop(self) -> None:
        _log.info("service_stopping")
        self._supervisor.stopping()
        self._late_modules.stop()
        self._recovery.stop()
        if self._admin is not None:
            self._admin.stopping()
        await MultiService.stopService(self)
        for task in self._periodic_tasks:
            task.stop()
        connections = self._within_shutdown_time(self._server.shut_down())
        self._login.waiters.close()  # after the server: these are the last responses of their connections
        self._saves.close()
        await gatherResults([connections, self._within_shutdown_time(self._context.tasks.drain())])
        self._context.tasks.give_up()
        if self._admin is not None:
            await self._within_shutdown_time(self._admin.close())
        await self._sessions.close()
        await self._account.close()
        self._assets.close()
        await self._figures.close()
        await self._events.close()
        await self._context.databases.close()
        self._access_log.flush()
        _log.info("service_stopped")
        self._supervisor.stopped()

    def _within_shutdown_time(self, work: Deferred[None]) -> Deferred[None]:
        seconds = SHARED_SHUTDOWN_SECONDS if self._context.settings.share else SHUTDOWN_SECONDS
        return work.addTimeout(seconds, self._context.reactor).addErrback(lambda _: None)

    def _routes(self) -> Sequence[RouteGroup]:
        context, settings = self._context, self._context.settings
        labels = {name: provider.label for name, provider in context.config.providers.items()}
        responder = self._account.responder(self._login, self._sessions, self._saves, self._pages)
        owner = build_owner(
            context,
            responder,
            self._account.removals,
            self._account.revoked,
            self._reporter,
            maker=self._maker,
        )
        return (
            PublicRoutes(
                mode=settings.config.mode.value,
                labels=labels,
                instance=context.instance_id,
                store=settings.store_id,
                databases=context.databases,
            ),
            *self._login.routes(self._pages),
            SessionRoutes(sessions=self._sessions, detached=context.tasks),
            self._tickets,
            *self._account.routes(responder, self._login),
            *owner.routes,
            *self._saves.routes,
            self._assets.routes,
        )

    def _build_admin(self) -> "AdminServer | None":
        context = self._context
        if context.settings.admin is None or self._counters is None:
            return None
        from gamed.ops.metrics import Gauges, Metrics  # prometheus_client is imported only with --admin

        gauges = Gauges(
            context.databases.queues,
            {"login": lambda: len(self._login.waiters), "saves": lambda: len(self._saves.waits.registry)},
            context.databases.wal_bytes,
            lambda: self._saves.archives.running,
            lambda: self._server.connections,
            self._server.refused,
        )
        metrics = Metrics(self._counters, gauges, {self._store.engine.lower(): self._store.version})
        return AdminServer(
            context.reactor,
            context.settings.admin,
            metrics,
            context.databases,
            self._reporter,
            self._pages,
            self._login.labels,
        )

    def _look_at_machine(self) -> Deferred[MachineReport]:
        """Check the files of this machine in a thread, as a disk may block."""
        reactor, settings = self._context.reactor, self._context.settings
        return deferToThreadPool(reactor, reactor.getThreadPool(), read_machine, settings, self._store, now_ms())

    def _build_periodic_tasks(self) -> list[PeriodicTask]:
        """Return one task for each component, so that a component that fails does not stop the others.

        Of several processes on these databases one deletes what has expired; each does what concerns its own memory.
        """
        cleanups = (
            ("login", self._login.clean_up),
            ("sessions", self._sessions.clean_up),
            ("saves", self._saves.cleanup.clean_up),
            ("players", self._account.clean_up),
            ("events", self._events.clean_up),
        )
        seconds = self._context.settings.intervals.cleanup_seconds
        return [
            self._periodic(FIRST_USES_SECONDS, self._sessions.write_first_uses, "write_first_uses"),
            self._periodic(EVENTS_SECONDS, self._events.flush, "write_events"),
            self._periodic(seconds, self._login.recover, "recover_logins"),
            self._periodic(seconds, self._assets.clean_up, "clean_up_assets"),
            self._periodic(seconds, self._notify.disk.look, "watch_disk"),
            self._periodic(seconds, self._notify.notifier.run, "notify_owner"),
            self._periodic(FIGURES_SECONDS, self._figures.write, "write_figures"),
            *(
                self._periodic(seconds, partial(self._in_one_process, clean_up), f"clean_up_{name}")
                for name, clean_up in cleanups
            ),
        ]

    async def _in_one_process(self, work: Callable[[], Coroutine[Deferred[Any], Any, object]]) -> None:
        if await self._context.databases.tends():
            await work()

    def _periodic(
        self, seconds: float, work: Callable[[], Coroutine[Deferred[Any], Any, object]], name: str
    ) -> PeriodicTask:
        return PeriodicTask(self._context.reactor, seconds, work, name)


class AdminServer:
    """The server of `--admin` for this machine only: the owner's page, `/metrics` and `/readyz`.

    It closes after all else. Over TCP it answers to loopback names alone, so that no page elsewhere reads it by a name
    that leads to this machine. A browser cannot open a unix socket, so any name is right there.
    """

    def __init__(  # noqa: PLR0917
        self,
        reactor: Any,
        endpoint: str,
        metrics: "Metrics",
        databases: Databases,
        reporter: OwnerReporter,
        pages: PageResponder,
        labels: Mapping[str, str],
    ) -> None:
        """Use `pages` for the look and the languages; `labels` are the providers' names for people."""
        from gamed.ops.metrics import CONTENT_TYPE
        from gamed.owner.routes import OwnerRoutes

        self._databases = databases
        self._stopping = False
        self._server: HttpServer = build_server(
            [
                AdminRoutes(source=metrics, content_type=CONTENT_TYPE, readiness=self),
                OwnerRoutes(reporter=reporter, readiness=self, pages=pages, labels=labels),
                LookRoutes(mark=pages.mark),
            ],
            HttpSettings(None if endpoint.startswith("unix:") else "localhost", connections=ADMIN_CONNECTIONS),
            reactor,
            access_log=NullAccessLog(),
            now_ms=now_ms,
            random=token_bytes,
        )
        self._listener = ListenerService(reactor, (endpoint,), self._server)

    def open(self) -> None:
        """Listen; raise CannotListenError."""
        self._listener.startService()

    def stopping(self) -> None:
        """Report the service as not ready from now on."""
        self._stopping = True

    async def problems(self) -> Sequence[str]:
        """Return the reasons why the service is not ready, one line each; see gamed.http.health_routes.Readiness."""
        if self._stopping:
            return ["the service is stopping"]
        return await self._databases.unresponsive()

    def close(self) -> Deferred[None]:
        """Stop listening; fire when all connections are closed."""
        self._listener.stopService()
        return self._server.shut_down()


class NullAccessLog:
    """An access log that discards its entries: a monitor that sends requests every few seconds would fill the log."""

    def log(self, request: EndedRequest) -> None: ...


def build_service(
    reactor: Any,
    settings: Settings,
    manager: SystemdNotifier | None = None,
    give_up: Callable[[], None] | None = None,
    maker: BackupMaker = NO_BACKUPS,
) -> IService:
    """Return the whole service; it opens ports and starts threads only when it is started.

    `give_up` is called instead of reactor.stop() when only an operator can help; `maker` makes the backups of
    the owner's page.
    """
    service: IService = GamedService(reactor, settings, manager or SystemdNotifier(), give_up or reactor.stop, maker)
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


def _new_access_log(context: ServiceContext, counters: "Counters | None") -> AccessLog:
    """Return the access log; Twisted's own format shows the lines of several requests as one event."""
    logger, style = Logger(NAMESPACE), context.settings.log_format
    events = EventLog(logger)

    def write_event(lines: str) -> None:
        events.info("http_requests", count=lines.count("\n"), below=lines.rstrip("\n"))

    def write_lines(lines: str) -> None:
        logger.info("{lines}", **{RAW: lines})

    count = None if counters is None else counters.record_request
    write = write_event if style is LogFormat.TEXT else write_lines
    return AccessLog(write, context.reactor, context.now_ms, style, count=count)


def _http_settings(settings: Settings) -> HttpSettings:
    config = settings.config
    url = config.public_url or settings.own_url
    host = urlsplit(url).hostname if url else None
    return HttpSettings(
        host or "127.0.0.1",
        config.trusted_proxies,
        frozenset(config.cors_origins),
        config.limits.connections,
        upload_seconds=settings.game.saves.upload_seconds,
        drains=settings.share,
    )
