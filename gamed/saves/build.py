"""Builds saves, commits and exports, and their routes."""

from collections.abc import Callable, Sequence
from functools import partial
from shutil import disk_usage
from typing import Any, TypeVar

from msgspec import Struct
from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThreadPool

from gamed.context import ServiceContext
from gamed.http.app import RouteGroup
from gamed.http.spool import SpoolThreads
from gamed.long_poll import LongPollRegistry
from gamed.open_files import spare_files
from gamed.saves import tables
from gamed.saves.batch import CommitService
from gamed.saves.batch_routes import CommitRoutes, ExportRoutes
from gamed.saves.change_waits import ChangeWaiters
from gamed.saves.cleanup import CleanupTask
from gamed.saves.erase import EraseService
from gamed.saves.erase_store import EraseStore
from gamed.saves.export import ExportService
from gamed.saves.export_store import ExportArchive
from gamed.saves.limits import DiskReservations, SaveRateLimiter
from gamed.saves.model import new_run
from gamed.saves.reads import LargeReads
from gamed.saves.routes import SaveRoutes
from gamed.saves.service import SaveEnvironment, SaveService
from gamed.saves.store import SaveStore
from gamed.saves.uploads import SaveBodyPolicy, UploadAdmission
from gamed.sessions.service import SessionService

T = TypeVar("T")


class SaveWaits(Struct, frozen=True, eq=False):
    """The requests that wait for changes; the end of a session notifies them, so they are built before sessions."""

    registry: LongPollRegistry
    changes: ChangeWaiters


def build_waits(context: ServiceContext) -> SaveWaits:
    registry = LongPollRegistry(context.reactor)
    return SaveWaits(registry, ChangeWaiters(registry, context.databases))


class SaveComponents(Struct, frozen=True, kw_only=True, eq=False):
    """Saves, commits and exports; `routes` are those of games, `exports` also has a button on a player's page."""

    saves: SaveService
    archives: ExportService
    exports: ExportRoutes
    save_routes: SaveRoutes
    commit_routes: CommitRoutes
    reservations: DiskReservations
    cleanup: CleanupTask
    waits: SaveWaits

    @property
    def routes(self) -> Sequence[RouteGroup]:
        return self.exports, self.save_routes, self.commit_routes

    def close(self) -> None:
        """Answer all waiting requests, and end the exports."""
        self.waits.registry.close()
        self.archives.close()


def build_saves(
    context: ServiceContext,
    sessions: SessionService,
    waits: SaveWaits,
    *,
    in_thread: SpoolThreads | None = None,
    usage_of_disk: Callable[[], tuple[int, int, int]] | None = None,
) -> SaveComponents:
    """Return saves over the databases of the context.

    `in_thread` runs the disk work of large bodies, by default in the reactor's threads; `usage_of_disk` returns its
    total, used and free bytes, by default of the disk of the data folder.
    """
    databases, game, tasks, now_ms = context.databases, context.settings.game, context.tasks, context.now_ms
    limits, data = game.saves, context.settings.data
    databases.state.begin_with(lambda connection: tables.begin_run(connection, new_run(context.random)))
    folder = data / "tmp"
    disk = DiskReservations(usage_of_disk or partial(disk_usage, data), limits.min_free_bytes)
    environment = SaveEnvironment(limits, now_ms, context.random, waits.changes)
    store = SaveStore(databases=databases, keys=context.keys, limits=limits, lists=SaveRateLimiter.of_lists())
    threads = in_thread or partial(_in_thread, context.reactor)
    # A quarter of the spare descriptors: published files take half of them, bodies that arrive need the rest.
    most_copies = max(1, spare_files(context.config.limits.connections) // 2)
    reads = LargeReads(databases.blobs, disk, threads, context.reactor, most_copies)
    saves = SaveService(
        store=store, sessions=sessions, environment=environment, rate=SaveRateLimiter.of(limits), reads=reads
    )
    uploads = UploadAdmission(limits=limits, folder=folder, reservations=disk, disk=threads)
    commits = CommitService(
        saves=saves,
        store=store,
        environment=environment,
        staged_seconds=game.staged_seconds,
        staging_rate=SaveRateLimiter.of_staging(limits),
        search_rate=SaveRateLimiter.of_staging(limits),
    )
    removal = EraseStore(databases=databases, random=context.random, now_ms=context.now_ms)
    erase = EraseService(saves=saves, store=removal, environment=environment)
    archives = ExportService(saves, partial(ExportArchive, databases, folder), disk, threads)
    return SaveComponents(
        saves=saves,
        archives=archives,
        exports=ExportRoutes(exports=archives, tasks=tasks, clock=context.reactor),
        save_routes=SaveRoutes(
            saves=saves,
            tasks=tasks,
            write_policy=SaveBodyPolicy(saves=saves, limits=limits, admission=uploads),
            erase=erase,
        ),
        commit_routes=CommitRoutes(commits=commits, limits=limits, tasks=tasks, admission=uploads),
        reservations=disk,
        cleanup=CleanupTask(databases, limits, now_ms, context.random, waits.changes.notify),
        waits=waits,
    )


def _in_thread(reactor: Any, work: Callable[[], T]) -> Deferred[T]:
    return deferToThreadPool(reactor, reactor.getThreadPool(), work)
