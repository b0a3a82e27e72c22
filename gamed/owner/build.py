"""Builds the owner's page that acts: its pages, its forms, and the figures of each day."""

from collections.abc import Sequence
from functools import partial

from msgspec import Struct
from twisted.internet.threads import deferToThreadPool

from gamed.account.responder import AccountResponder
from gamed.account.service import RemovalService
from gamed.context import ServiceContext
from gamed.http.access_log import Tally
from gamed.http.app import RouteGroup
from gamed.owner.act_routes import OwnerActRoutes
from gamed.owner.acts import ActStore
from gamed.owner.backups import BackupMaker, InThread, OwnerBackups
from gamed.owner.figures import DailyFigures
from gamed.owner.files import OwnerFiles
from gamed.owner.reads import OwnerReads
from gamed.owner.report import OwnerReporter
from gamed.owner.responder import OwnerResponder
from gamed.owner.service import OwnerService
from gamed.owner.site_routes import OwnerSiteRoutes
from gamed.saves.owner_page_store import OperatorSaves
from gamed.sessions.service import RevocationListener


class OwnerComponents(Struct, frozen=True, kw_only=True, eq=False):
    """The parts that the service starts and stops."""

    routes: Sequence[RouteGroup]
    backups: OwnerBackups
    reads: OwnerReads


NO_BACKUPS = BackupMaker(
    make=lambda folder: f"This server makes no backups itself. Run: gamed backup {folder}",
    progress=lambda folder: None,
)
"""For a service that was not started by a command."""


def build_figures(context: ServiceContext, tally: Tally) -> DailyFigures:
    return DailyFigures(context.databases, context.now_ms, context.databases.notifies, tally)


def build_owner(
    context: ServiceContext,
    account: AccountResponder,
    removals: RemovalService,
    revoked: RevocationListener,
    reporter: OwnerReporter,
    *,
    maker: BackupMaker = NO_BACKUPS,
    in_thread: InThread | None = None,
) -> OwnerComponents:
    """Return the page over the databases of the context.

    `maker` makes backups; `in_thread` runs what blocks, by default in the reactor's threads, and a
    backup in one of its own.
    """
    databases, settings, now_ms = context.databases, context.settings, context.now_ms
    store = ActStore(reads=databases.reads, writes=databases.auth, keys=context.keys)
    reads = OwnerReads(reads=databases.reads, keys=context.keys, now_ms=now_ms, limits=settings.game.saves)
    labels = {name: provider.label for name, provider in context.config.providers.items()}
    responder = OwnerResponder(account=account, reads=reads, labels=labels)
    service = OwnerService(
        store=store,
        saves=OperatorSaves(databases=databases),
        removals=removals,
        revoked=revoked,
        audit=context.audit,
        now_ms=now_ms,
        random=context.random,
    )
    reactor = context.reactor
    pooled: InThread = in_thread or (lambda work: deferToThreadPool(reactor, reactor.getThreadPool(), work))
    files = OwnerFiles(reactor, settings.data, settings.game.assets.keep_releases, now_ms, pooled)
    backups = OwnerBackups(reactor, databases, store, maker, now_ms, context.instance_id, in_thread)
    site = partial(OwnerSiteRoutes, responder=responder, reporter=reporter, files=files, backups=backups)
    routes = (
        site(started_ms=now_ms(), backup_seconds=context.config.backup_seconds),
        OwnerActRoutes(responder=responder, service=service, files=files, backups=backups, in_thread=pooled),
    )
    return OwnerComponents(routes=routes, backups=backups, reads=reads)
