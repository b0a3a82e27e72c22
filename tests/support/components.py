"""The context of a service, for tests that build one feature of it as the service does."""

from pathlib import Path
from typing import Any

from gamed.audit import AuditLog
from gamed.config.game import GameSettings
from gamed.config.model import Config
from gamed.config.settings import KeySource, Settings
from gamed.context import ServiceContext
from gamed.crypto import Keys, Secret
from gamed.database.databases import Databases
from gamed.timestamps import Now

DEFAULTS = Config()


def service_context(
    keys: Keys,
    databases: Databases,
    audit: AuditLog,
    now_ms: Now,
    *,
    config: Config = DEFAULTS,
    game: GameSettings | None = None,
    data: Path = Path(),
    **others: Any,
) -> ServiceContext:
    """Return the context of a service, by default in local mode with the defaults of all settings, without a reactor.

    `others` are further fields of the context.
    """
    listen, no_key = ("tcp:0:interface=127.0.0.1",), Secret(b"")
    settings = Settings(config, Path(), data, listen, False, no_key, KeySource.MASTER, game or GameSettings())
    values = {"reactor": None, **others}
    return ServiceContext(settings=settings, keys=keys, databases=databases, audit=audit, now_ms=now_ms, **values)
