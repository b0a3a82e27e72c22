"""A schema is recognized at each start, so that a dump that was restored without gamed is noticed.

Each schema has a row that is right only where PostgreSQL itself wrote it: a dump that is restored has the row of its
origin, but another transaction wrote it, into another table. Copies of the whole server have the right row; the
heartbeat finds those that are older than the original.
"""

from typing import Final

from msgspec import Struct, structs

from gamed.database.connection import AUTH, Connection
from gamed.database.errors import DatabaseBusy, DatabaseRestored, new_error

XIDS: Final = 2**32
"""A row has only the lower 32 bits of the number of the transaction that wrote it."""


class _Origin(Struct, frozen=True):
    """The identity of the table that has the row."""

    system_identifier: int
    """The number of the server and its standbys; 0 if this user may not read it."""
    database_oid: int
    table_oid: int
    server_major: int


def refuse_copy(connection: Connection, database: str) -> None:
    """Raise DatabaseRestored if a schema is a copy of the one that gamed served; recognize a new one.

    Call this in a transaction that may write.
    """
    if not check_origin(connection, database):
        write_identity(connection, database)


def check_origin(connection: Connection, database: str) -> bool:
    """Raise DatabaseRestored if a schema is a copy; return whether it is known by its present server."""
    if (noted := _read_identity(connection, database)) is None:
        return False
    found = _find_origin(connection, database)
    if (noted.database_oid, noted.table_oid) != (found.database_oid, found.table_oid):
        raise DatabaseRestored(f"The schema {database} is a copy, which was restored without gamed.")
    if found.system_identifier in (noted.system_identifier, 0) or noted.system_identifier == 0:
        return True
    if found.server_major == noted.server_major:
        raise DatabaseRestored(f"The schema {database} is a copy, which was restored on another server.")
    return False  # pg_upgrade keeps all but the server's identifier


def write_identity(connection: Connection, database: str) -> None:
    """Declare this schema the one to be served; raise DatabaseBusy in a savepoint, whose number is another one."""
    origin = _find_origin(connection, database)
    connection.execute(f"DELETE FROM {database}.database_identity")
    query = f"""
        INSERT INTO {database}.database_identity
            (one, system_identifier, database_oid, table_oid, server_major, xid)
        VALUES (1, :system_identifier, :database_oid, :table_oid, :server_major,
            CAST(CAST(pg_current_xact_id() AS text) AS bigint) % {XIDS})
        RETURNING CASE WHEN xid = CAST(CAST(xmin AS text) AS bigint) THEN 1 ELSE 0 END
    """
    [(is_right,)] = connection.execute(query, structs.asdict(origin)).fetchall()
    if not is_right:
        raise new_error(DatabaseBusy)


def read_place(connection: Connection) -> str | None:
    """Return a text that names this database and no other one, also after pg_dump; None before the first start."""
    store_id, origin = read_store_id(connection), _find_origin(connection, AUTH)
    return None if store_id is None else f"{store_id} {' '.join(map(str, structs.astuple(origin)[:-1]))}"


def read_store_id(connection: Connection) -> str | None:
    """Return the id that the store was given with its first key, and has in every copy; None before that."""
    row = connection.execute("SELECT store_id FROM auth.key_record").fetchone()
    return None if row is None else str(row[0])


def _read_identity(connection: Connection, database: str) -> _Origin | None:
    """Return the noted origin, with the oid 0 if the row was copied; None if there is no row."""
    query = f"""
        SELECT system_identifier, database_oid,
            CASE WHEN xid = CAST(CAST(xmin AS text) AS bigint) THEN table_oid ELSE 0 END, server_major
        FROM {database}.database_identity
    """
    row = connection.execute(query).fetchone()
    return None if row is None else _Origin(*row)


def _find_origin(connection: Connection, database: str) -> _Origin:
    query = "SELECT CASE WHEN has_function_privilege('pg_control_system()', 'EXECUTE') THEN 1 ELSE 0 END"
    [(may_read,)] = connection.execute(query).fetchall()
    identifier = "(SELECT system_identifier FROM pg_control_system())" if may_read else "CAST(0 AS bigint)"
    query = f"""
        SELECT {identifier}, CAST(d.oid AS bigint),
            CAST(CAST('{database}.database_identity' AS regclass) AS bigint),
            CAST(current_setting('server_version_num') AS bigint) / 10000
        FROM pg_database d WHERE d.datname = current_database()
    """
    return _Origin(*connection.execute(query).fetchone())
