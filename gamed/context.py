"""The settings, keys, databases, clock and random source of one service, which the builders of all features share."""

from secrets import token_bytes
from typing import Any

from msgspec import Struct, field

from gamed.audit import AuditLog
from gamed.config.model import Config
from gamed.config.settings import Settings
from gamed.crypto import Keys, Random
from gamed.database.databases import Databases
from gamed.http.background import ShieldedTasks
from gamed.timestamps import Now


class ServiceContext(Struct, frozen=True, kw_only=True):
    """The objects that all features share."""

    reactor: Any
    settings: Settings
    keys: Keys
    databases: Databases
    audit: AuditLog
    now_ms: Now
    random: Random = token_bytes
    instance_id: str = ""
    """Eight hex digits that are new at each start."""
    tasks: ShieldedTasks = field(default_factory=ShieldedTasks)

    @property
    def config(self) -> Config:
        return self.settings.config
