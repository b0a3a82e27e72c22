"""Transactions that ask PostgreSQL about its server, and search the schemas for damage."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from gamed.database.connection import Connection
from gamed.database.store import DamageCheck, ServerFacts

RESTORE = "Restore the database from a backup."
TABLES = """
    SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = :database AND c.relkind = 'r' ORDER BY c.relname
"""
INDEXES = """
    SELECT CAST(i.indexrelid AS bigint), c.relname, CASE WHEN i.indisvalid THEN 1 ELSE 0 END
    FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = :database ORDER BY c.relname
"""
REFERENCES = """
    SELECT c.relname, k.conname, t.relname, a.attname, b.attname
    FROM pg_constraint k JOIN pg_namespace n ON n.oid = k.connamespace
    JOIN pg_class c ON c.oid = k.conrelid JOIN pg_class t ON t.oid = k.confrelid
    CROSS JOIN LATERAL unnest(k.conkey, k.confkey) WITH ORDINALITY AS u (own, other, place)
    JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = u.own
    JOIN pg_attribute b ON b.attrelid = k.confrelid AND b.attnum = u.other
    WHERE n.nspname = :database AND k.contype = 'f' ORDER BY c.relname, k.conname, u.place
"""
AMCHECK = """
    SELECT n.nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
    JOIN pg_proc p ON p.pronamespace = n.oid AND p.proname = 'bt_index_check' AND p.pronargs = 2
    WHERE e.extname = 'amcheck' AND has_function_privilege(p.oid, 'EXECUTE')
"""
SIZE = """
    SELECT CAST(coalesce(sum(pg_total_relation_size(c.oid)), 0) AS bigint)
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = :database AND c.relkind = 'r'
"""
FACTS = """
    SELECT current_setting('server_version'),
        CASE WHEN (SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()) THEN 1 ELSE 0 END,
        (SELECT CAST(sum(numbackends) AS bigint) FROM pg_stat_database),
        CAST(current_setting('max_connections') AS bigint)
            - CAST(current_setting('superuser_reserved_connections') AS bigint),
        (SELECT count(*) FROM pg_stat_replication),
        CASE WHEN current_setting('synchronous_standby_names') = '' THEN 0 ELSE 1 END,
        current_setting('data_checksums'), current_setting('autovacuum'),
        CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint)
"""


def damage_checks(connection: Connection, database: str, name: str) -> Sequence[DamageCheck]:
    """Return a check of each table, of each reference, and of each index; errors begin with this `name`."""
    values = {"database": database}
    tables = [f"{database}.{table}" for (table,) in connection.rows(TABLES, values)]
    invalid = partial(find_invalid_indexes, database=database, name=name)
    return [
        *(DamageCheck(table, partial(_read_table, table=table), RESTORE) for table in tables),
        *_reference_checks(connection, database, name),
        DamageCheck("indexes", invalid, RESTORE),
        *_index_checks(connection, database),
    ]


def _reference_checks(connection: Connection, database: str, name: str) -> Iterator[DamageCheck]:
    columns: dict[tuple[str, str, str], list[tuple[str, str]]] = {}
    for table, constraint, target, own, other in connection.rows(REFERENCES, {"database": database}):
        columns.setdefault((table, constraint, target), []).append((own, other))
    for (table, constraint, target), pairs in columns.items():
        find = partial(_find_dangling, name=name, tables=(database, table, target), columns=pairs)
        yield DamageCheck(constraint, find, RESTORE)


def _index_checks(connection: Connection, database: str) -> Iterator[DamageCheck]:
    """Yield the checks that need the extension amcheck."""
    for (schema,) in connection.rows(AMCHECK):
        for number, index, valid in connection.rows(INDEXES, {"database": database}):
            if valid:
                check = partial(_check_index, schema=schema, number=number)
                yield DamageCheck(f"index {index}", check, f"Run: REINDEX INDEX {database}.{index}")


def find_invalid_indexes(connection: Connection, database: str, name: str) -> list[str]:
    """Return a line for each index that PostgreSQL does not use, or does not keep right."""
    rows = connection.rows(INDEXES, {"database": database})
    return [
        f"{name}: the index {index} is not valid. Run: REINDEX INDEX {database}.{index}"
        for _, index, valid in rows
        if not valid
    ]


def size_of(connection: Connection, database: str) -> int:
    """Return the bytes of all tables of a schema, with their indexes."""
    [(size,)] = connection.rows(SIZE, {"database": database})
    return int(size)


def read_facts(connection: Connection, now_ms: Callable[[], int]) -> ServerFacts:
    """Return what the server reports about itself, and the difference between its clock and `now_ms`."""
    before = now_ms()
    [row] = connection.rows(FACTS)
    after = now_ms()
    version, encrypted, connections, most, standbys, synchronous, checksums, autovacuum, server_ms = row
    return ServerFacts(
        version=str(version).partition(" ")[0],
        encrypted=bool(encrypted),
        connections=connections,
        max_connections=most,
        standbys=standbys,
        synchronous=bool(synchronous),
        checksums=checksums == "on",
        autovacuum=autovacuum == "on",
        skew_ms=max(0, before - server_ms, server_ms - after),
    )


def _read_table(connection: Connection, table: str) -> list[str]:
    """Read every row of a table, not of an index; its large values are read where their hashes are checked."""
    connection.rows(f"SELECT count(a) FROM {table} AS a")
    return []


def _find_dangling(
    connection: Connection, name: str, tables: tuple[str, str, str], columns: Sequence[tuple[str, str]]
) -> list[str]:
    database, table, target = tables
    present = " AND ".join(f"a.{own} IS NOT NULL" for own, _ in columns)
    equal = " AND ".join(f"b.{other} = a.{own}" for own, other in columns)
    [(count,)] = connection.rows(
        f"SELECT count(*) FROM {database}.{table} a"
        f" WHERE {present} AND NOT EXISTS (SELECT 1 FROM {database}.{target} b WHERE {equal})"
    )
    return [f"{name}: {count} rows of {table} refer to missing rows of {target}"] if count else []


def _check_index(connection: Connection, schema: str, number: int) -> list[str]:
    """Compare an index with its table."""
    connection.rows(f"SELECT CAST({schema}.bt_index_check(CAST(? AS oid), true) AS text)", (number,))
    return []
