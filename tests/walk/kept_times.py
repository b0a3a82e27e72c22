"""The times in a kept store: they are moved to now, so that its sessions are valid in later years, too."""

import sqlite3
import time
from contextlib import closing

from gamed.database.connection import AUTH
from tests.support.postgresql import cluster
from tests.walk.machine import Machine

DAY_MS = 24 * 3600 * 1000
TIMES = ("_ms", "expiry_day")
"""How the columns with times end; `expiry_day` counts days, all others milliseconds."""


def move_to_now(machine: Machine, made_ms: int) -> None:
    """Add the whole days since a store was kept to each time in its `auth`; no server uses it."""
    days = (time.time_ns() // 1_000_000 - made_ms) // DAY_MS
    for table, column in _columns(machine):
        by = days if column == "expiry_day" else days * DAY_MS
        _execute(machine, f"UPDATE {table} SET {column} = {column} + {by}")


def _columns(machine: Machine) -> list[tuple[str, str]]:
    """Return each table of `auth` with the name of each column that has a time."""
    if machine.address is not None:
        sql = f"SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = '{AUTH}'"
        found = [(f"{AUTH}.{table}", column) for table, column in _execute(machine, sql)]
    else:
        sql = "SELECT m.name, c.name FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'table'"
        found = [(str(table), str(column)) for table, column in _execute(machine, sql)]
    return [(table, column) for table, column in found if column.endswith(TIMES)]


def _execute(machine: Machine, sql: str) -> list[tuple[object, ...]]:
    if machine.address is not None:
        return cluster().execute(sql, machine.address.database)
    with closing(sqlite3.connect(machine.data / "auth.db", isolation_level=None)) as connection:
        return connection.execute(sql).fetchall()
