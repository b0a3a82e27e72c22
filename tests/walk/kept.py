"""Stores of earlier releases, which come to a machine of the walk with their players."""

import shutil
import sqlite3
import time
from contextlib import closing
from pathlib import Path

from gamed.config.model import PostgresqlAddress
from gamed.database.backup_format import DUMP
from gamed.database.connection import AUTH, STATE
from gamed.database.postgresql import dump
from tests.database.kept_stores import KeptStore, backup_in
from tests.support.postgresql import cluster
from tests.walk.checks import DeviceSession, Player, expect
from tests.walk.machine import Machine

HOUR_MS = 3600 * 1000
DAY_MS = 24 * HOUR_MS
STATES = {"Zoë": "blocked"}
TIMES = ("_ms", "expiry_day")
"""How the columns with times end; `expiry_day` counts days, all others milliseconds."""


def bring(machine: Machine, kept: KeptStore, folder: Path) -> list[Player]:
    """Put a kept store in the place of the present one, while no server runs; return the players that have names."""
    unpacked = folder / kept.name
    found = kept.unpack(unpacked)
    shutil.rmtree(machine.data)
    machine.data.mkdir(mode=0o700)
    machine.config.with_name("game.json").write_bytes((unpacked / "game.json").read_bytes())
    if machine.address is None:
        for name in ("auth.db", "state.db"):
            (machine.data / name).write_bytes((unpacked / "data" / name).read_bytes())
    else:
        for name in (AUTH, STATE):
            cluster().execute(f"DROP SCHEMA IF EXISTS {name} CASCADE", machine.address.database)
        dumped = backup_in(unpacked, "postgresql") / DUMP
        dump.load(PostgresqlAddress(machine.address.keywords), dumped, 0, [])
    _move_to_now(machine, found["made_ms"])
    machine.own(machine.data)
    return [
        Player(
            name, token["id"], dict(found["saves"].get(name, {})), [DeviceSession.of(token)], STATES.get(name, "active")
        )
        for name, token in found["players"].items()
    ]


def nameless_players(machine: Machine) -> list[Player]:
    """Return the two players of a kept store that have neither an account of this server nor saves."""
    found = [Player("nameless", each["id"]) for each in machine.json("players", "list") if each["name"] is None]
    expect("the number of players without a name", 2, len(found))
    return found


def _move_to_now(machine: Machine, made_ms: int) -> None:
    """Make each time in `auth` one of a store that was made an hour ago: its access tokens are valid for a day."""
    by_ms = time.time_ns() // 1_000_000 - HOUR_MS - made_ms
    for table, column in _columns(machine):
        by = -(-by_ms // DAY_MS) if column == "expiry_day" else by_ms  # no earlier than the time in milliseconds
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
