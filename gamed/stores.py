"""Choice of the Store that the configuration names."""

from pathlib import Path

from gamed.clock import now_ms
from gamed.config.model import Checkpoints, Config
from gamed.database.sqlite.store import SqliteStore
from gamed.database.store import Store


def open_store(config: Config, data: Path) -> Store:
    """Return the store of this configuration; open nothing."""
    if config.store is None:
        return SqliteStore(data=data, external_checkpoints=config.checkpoints is Checkpoints.EXTERNAL)
    from gamed.database.postgresql.store import PostgresqlStore  # late: it imports psycopg

    return PostgresqlStore(config.store, data, now_ms)
