"""The context of components, for tests of one component of the service."""

from pathlib import Path

from gamed.audit import AuditLog
from gamed.components import ServiceContext
from gamed.config.model import Config
from gamed.config.settings import KeySource, Settings
from gamed.crypto import Keys, Secret
from gamed.database.databases import Databases
from gamed.timestamps import Now


def service_context(keys: Keys, databases: Databases, audit: AuditLog, now_ms: Now) -> ServiceContext:
    """Return the context of a service in local mode with the defaults of all settings, without a reactor."""
    listen, no_key = ("tcp:0:interface=127.0.0.1",), Secret(b"")
    settings = Settings(Config(), Path(), Path(), listen, False, no_key, KeySource.MASTER)
    return ServiceContext(reactor=None, settings=settings, keys=keys, databases=databases, audit=audit, now_ms=now_ms)
