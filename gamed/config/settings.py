"""Everything the service is built from: filled by the porch, consumed by `gamed.service.build_service`."""

from enum import StrEnum
from pathlib import Path

from msgspec import Struct, field

from gamed.config.game import GameSettings
from gamed.config.model import Config
from gamed.crypto import Secret
from gamed.structs import redacts

DEFAULT_LISTEN = "tcp:8080:interface=127.0.0.1"


class KeySource(StrEnum):
    """Where the key of `auth.db` came from."""

    MASTER = "master"
    """The variable that `master_key_env` names, its _FILE, or a credential."""
    FILE = "file"
    """The key file beside `auth.db`: local mode without `master_key_env`."""


class LogFormat(StrEnum):
    """What a line of the log looks like."""

    TEXT = "text"
    JSON = "json"
    JOURNAL = "journal"


@redacts("master_key")
class Settings(Struct, frozen=True):
    """Checked and locked: the key fits `auth.db`, the data folder exists and is ours alone."""

    config: Config
    config_path: Path
    data: Path
    listen: tuple[str, ...]
    """Endpoint strings, at least one; the first TCP one gives the base when there is no `public_url`."""
    private_listen: bool
    """The owner says that non-loopback ports are reached from this machine only."""
    master_key: Secret
    """32 bytes, whatever the source; for `Keys.of`."""
    key_source: KeySource
    game: GameSettings = field(default_factory=GameSettings)
    log_format: LogFormat = LogFormat.TEXT
    admin: str | None = None
    """The endpoint string of `/metrics` and `/readyz`; None: there is none."""
