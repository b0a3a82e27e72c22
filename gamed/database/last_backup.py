"""The table `last_backup` has one row: when this auth.db was last copied, and how large the backup is."""

from msgspec import Struct

from gamed.database.connection import Connection


class LastBackup(Struct, frozen=True):
    """The last backup; the instant in epoch milliseconds."""

    made_ms: int
    bytes: int


def read_last_backup(connection: Connection) -> LastBackup | None:
    row = connection.execute("SELECT made_ms, bytes FROM last_backup").fetchone()
    return None if row is None else LastBackup(*row)


def write_last_backup(connection: Connection, backup: LastBackup) -> None:
    query = """
        INSERT INTO last_backup (one, made_ms, bytes) VALUES (1, :made_ms, :bytes)
        ON CONFLICT (one) DO UPDATE SET made_ms = excluded.made_ms, bytes = excluded.bytes
    """
    connection.execute(query, {"made_ms": backup.made_ms, "bytes": backup.bytes})
