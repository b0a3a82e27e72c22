"""Builds what watches the server and sends messages to its owner."""

from hashlib import sha256
from platform import node
from shutil import disk_usage

from msgspec import Struct

from gamed.audit import AuditLog
from gamed.context import ServiceContext
from gamed.notify.notice_rules import NoticeSettings
from gamed.notify.service import OwnerNotifier, Surroundings
from gamed.notify.store import NoticeStore
from gamed.notify.watch import DiskWatch


class NotifyComponents(Struct, frozen=True, eq=False):
    """The two tasks: each process watches its disk, and one of them sends."""

    disk: DiskWatch
    notifier: OwnerNotifier


def build_notify(context: ServiceContext, log: AuditLog) -> NotifyComponents:
    """Return the tasks; without `notify` in the configuration the modules of the client are not imported."""
    config, databases, data = context.config, context.databases, context.settings.data
    # Servers share SQLite's databases only on one machine.
    machine = "" if config.store is None else sha256(f"{node()}:{data}".encode()).hexdigest()[:8]
    bound = context.settings.game.saves.min_free_bytes
    names = config.notify is not None and config.notify.names
    store = NoticeStore(reads=databases.reads, writes=databases.auth, keys=context.keys, names=names)
    disk = DiskWatch(
        lambda: disk_usage(data).free,
        bound,
        machine,
        lambda: store.was_full(machine, context.now_ms()),
        context.audit,
        context.reactor,
    )
    webhook = None
    if config.notify is not None:
        from gamed.notify.client import WebhookClient

        webhook = WebhookClient(config.notify, context.reactor, context.now_ms)
    surroundings = Surroundings(
        notifies=databases.notifies,
        damaged=databases.damaged,
        audit=context.audit,
        log=log,
        now_ms=context.now_ms,
        seconds=context.reactor.seconds,
    )
    settings = NoticeSettings(
        config.backup_seconds,
        bound,
        {name: provider.label for name, provider in config.providers.items()},
        config.server_name or "",
        databases.titles,
        machine,
    )
    return NotifyComponents(disk, OwnerNotifier(surroundings, store, disk, settings, webhook))
