"""The command line fills these settings, and `gamed.service.build_service` builds the service from them."""

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

from msgspec import Struct, field

from gamed.config.game import GameSettings
from gamed.config.model import Config
from gamed.crypto import Secret
from gamed.structs import redacts

DEFAULT_LISTEN = "tcp:8080:interface=127.0.0.1"
KEY_FILE = "auth.key"
"""The name of the key file, which is beside `auth.db`."""
DATABASE_NOTE = "database.note"
"""The name of the file in the data folder with what a process last knew of the databases on a PostgreSQL server."""


class KeySource(StrEnum):
    """The source of the key of `auth.db`."""

    MASTER = "master"
    """The variable that `master_key_env` names, its _FILE, or a credential."""
    FILE = "file"
    """The key file beside `auth.db`: local mode without `master_key_env`."""


class LogFormat(StrEnum):
    """The format of the log's lines."""

    TEXT = "text"
    JSON = "json"
    JOURNAL = "journal"


class Intervals(Struct, frozen=True):
    """Times of the running service that neither an option nor the configuration sets; tests build shorter ones."""

    cleanup_seconds: int = 60
    """Between two deletions of what has expired, and between two reads of what commands have done."""
    page_refresh_seconds: int = 20
    """Between two loads of a page that waits for the game. Each load loses the keyboard's focus and the selection, and
    a screen reader starts again, so the interval lets a player read the page to its end."""
    page_return_seconds: int = 2
    """From the page that leads to the game until its redirect. With 0 or 1 the Back button skips the page in some
    browsers, and players cannot read it."""


@redacts("master_key")
class Settings(Struct, frozen=True):
    """Validated settings: the key belongs to `auth.db`, and this process has the lock of the data folder."""

    config: Config
    config_path: Path
    data: Path
    listen: tuple[str, ...]
    """Endpoint strings, at least one."""
    private_listen: bool
    """The operator declares that non-loopback ports are reachable from this machine only."""
    master_key: Secret
    """32 bytes for `Keys.of`, from any source."""
    key_source: KeySource
    game: GameSettings = field(default_factory=GameSettings)
    catalogues: Mapping[str, bytes] = {}
    """The owner's texts of pages, as they were read, by the names of their files."""
    own_url: str | None = None
    """The base URL without `public_url`; None is 127.0.0.1 with the port that the kernel chooses."""
    log_format: LogFormat = LogFormat.TEXT
    admin: str | None = None
    """The endpoint string of `/metrics` and `/readyz`; None disables both."""
    store_id: str = ""
    """The id of `auth.db`, which all processes that serve it report."""
    share: bool = False
    """Other processes may serve the same data, on the same sockets."""
    intervals: Intervals = Intervals()
