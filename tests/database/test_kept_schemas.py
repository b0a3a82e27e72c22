"""Every schema that was in use can be brought to the present one, and is then like a new one, with all its rows."""

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
from msgspec.structs import astuple
from twisted.trial.unittest import SynchronousTestCase

from gamed.config.model import PostgresqlAddress
from gamed.database.backup_format import DUMP
from gamed.database.connection import AUTH, STATE, Connection
from gamed.database.postgresql import dump
from gamed.database.postgresql import migrations as postgresql
from gamed.database.security_events import any_unlogged, list_events, mark_logged
from gamed.database.sqlite import migrations
from gamed.database.sqlite.files import connect, file_uri
from gamed.database.sqlite.migrations import check_schema, prepare_file, version_of
from tests.database.kept_stores import KeptStore, backup_in, kept_stores
from tests.database.make_store import HASHES, frozen, present_name, scripts
from tests.database.postgresql.schemas import EmptyCase
from tests.support.databases import data_folder

COMPUTED = {"player_saves": {"kept_bytes"}, "command_log": {"number"}}
"""The columns, by table, whose values a later script has changed."""
COMMANDS = [
    ("players block", "ply_anna", "uid:0", 7_200_001),
    ("assets publish", None, "uid:0/sudo:1000", 7_200_002),
    ("players block", "ply_anna", "uid:0", 7_200_003),
]
"""Commands of one hour that wait to be logged, with player, user and time."""
Rows = dict[str, list[dict[str, Any]]]


class ScriptTests(SynchronousTestCase):
    def test_unchanged(self) -> None:
        """A script that has made a store is never changed: a store of today would be refused tomorrow."""
        now = scripts()
        changed = sorted(name for name, found in frozen().items() if now.get(name) != found)
        self.assertEqual(
            changed, [], "these scripts have made stores that are in use. Undo the change, and add a script"
        )

    def test_kept(self) -> None:
        """A store of the present schemas is kept for the tests of later ones, with the hash of each script."""
        advice = "run: .venv/bin/python -m tests.database.make_store"
        self.assertIn(present_name(), [each.name for each in kept_stores()], advice)
        self.assertEqual(scripts(), frozen(), f"{HASHES} differs; {advice}")


class SqliteTests(SynchronousTestCase):
    def test_upgraded(self) -> None:
        """The files of each number get the schema of new files, with every row; what they were is beside them."""
        for kept in kept_stores():
            folder = data_folder(self)
            kept.unpack(folder)
            for name in (AUTH, STATE):
                self.upgrade(kept, folder / "data" / f"{name}.db")

    def upgrade(self, kept: KeptStore, path: Path) -> None:
        name, before = path.stem, self.rows(path)
        check_schema(path)
        prepare_file(path)
        check_schema(path)
        new = data_folder(self) / path.name
        prepare_file(new)
        self.assertEqual(self.objects(path), self.objects(new))
        with closing(connect(file_uri(path, "ro"))) as connection:
            self.assertEqual(connection.execute("PRAGMA foreign_key_check").fetchall(), [])
            self.assertEqual(version_of(connection), len(migrations.scripts_in(migrations.schema_folder(name))))
        require_rows(self, before, self.rows(path))
        older = kept.numbers[name] < len(migrations.scripts_in(migrations.schema_folder(name)))
        copies = [path.with_name(f"{path.name}.v{kept.numbers[name]}")] * older
        self.assertEqual([*path.parent.glob(f"{path.name}.v*")], copies)
        for copy in copies:
            self.assertEqual(self.rows(copy), before)

    def objects(self, path: Path) -> set[tuple[Any, ...]]:
        """Return all tables, indexes and triggers, and the columns of the tables."""
        with closing(connect(file_uri(path, "ro"))) as connection:
            found = set(connection.execute("SELECT type, name FROM sqlite_schema").fetchall())
            for kind, table in list(found):
                if kind == "table":
                    columns = connection.execute(f"PRAGMA table_info({table})").fetchall()
                    found |= {(table, *column[1:]) for column in columns}
        return found

    def test_waiting_commands(self) -> None:
        """Commands of schema 1 that wait are logged once after the upgrade; no event is lost or counted twice."""
        for kept in kept_stores():
            if kept.numbers[AUTH] == 1:
                folder = data_folder(self)
                kept.unpack(folder)
                path = folder / "data" / "auth.db"
                with closing(connect(file_uri(path, "rw"))) as connection:
                    before = add_commands(connection)
                prepare_file(path)
                with closing(connect(file_uri(path, "rw"))) as connection:
                    require_commands(self, connection, *before)

    def rows(self, path: Path) -> Rows:
        with closing(connect(file_uri(path, "ro"))) as connection:
            return rows_of(connection, "SELECT name FROM sqlite_schema WHERE type = 'table'")


class PostgresqlTests(EmptyCase):
    def test_upgraded(self) -> None:
        """The schemas of each number get what new ones have, with every row."""
        for kept in kept_stores():
            folder = data_folder(self)
            self.load(kept, folder)
            for name in (AUTH, STATE):
                before = self.rows(name)
                postgresql.check_schema(self.session, name, name)
                postgresql.prepare_schema(self.session, name, name, lambda text: None, lambda: None, migrate=True)
                postgresql.check_schema(self.session, name, name)
                require_rows(self, before, self.rows(name))
            upgraded = [postgresql.contents_of(self.session, name) for name in (AUTH, STATE)]
            for name in (AUTH, STATE):
                self.session.rows(f"DROP SCHEMA {name} CASCADE")
                postgresql.prepare_schema(self.session, name, name, lambda text: None, lambda: None, migrate=False)
            self.assertEqual(upgraded, [postgresql.contents_of(self.session, name) for name in (AUTH, STATE)])
            for name in (AUTH, STATE):
                self.session.rows(f"DROP SCHEMA {name} CASCADE")

    def load(self, kept: KeptStore, folder: Path) -> None:
        kept.unpack(folder)
        dump.load(PostgresqlAddress(self.place.keywords), backup_in(folder, "postgresql") / DUMP, 0, [])

    def test_waiting_commands(self) -> None:
        """Commands of schema 1 that wait are logged once after the upgrade; no event is lost or counted twice."""
        for kept in kept_stores():
            if kept.numbers[AUTH] == 1:
                self.load(kept, data_folder(self))
                self.session.rows("SET search_path = auth")
                before = add_commands(self.session)
                postgresql.prepare_schema(self.session, AUTH, AUTH, lambda text: None, lambda: None, migrate=True)
                self.session.rows("SET search_path = auth")
                require_commands(self, self.session, *before)
                for name in (AUTH, STATE):
                    self.session.rows(f"DROP SCHEMA {name} CASCADE")

    def rows(self, name: str) -> Rows:
        tables = f"SELECT tablename FROM pg_tables WHERE schemaname = '{name}' AND tablename <> 'schema_version'"
        with psycopg.connect(self.place.conninfo) as connection:
            connection.execute(f"SET search_path = {name}".encode())
            return rows_of(connection, tables)


def rows_of(connection: Any, tables: str) -> Rows:
    """Return all rows of the tables that a query names."""
    found: Rows = {}
    for (table,) in connection.execute(tables).fetchall():
        cursor = connection.execute(f"SELECT * FROM {table}")
        names = [column[0] for column in cursor.description]
        found[table] = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    return found


def require_rows(test: SynchronousTestCase, before: Rows, after: Rows) -> None:
    """Check that each table still has its rows, with the values of the columns that it had."""
    test.assertGreater(sum(map(len, before.values())), 20)
    if "command_log" in before and "command_log" not in after:
        after = with_command_log(after)
    for table, rows in before.items():
        changed = COMPUTED.get(table, set())
        columns = [name for row in rows[:1] for name in row if name not in changed]
        found = [[row[name] for name in columns] for row in after[table]]
        test.assertEqual(sorted(found, key=repr), sorted(([row[name] for name in columns] for row in rows), key=repr))


def with_command_log(rows: Rows) -> Rows:
    """Return rows of auth with a table that its script 002 has dissolved: the commands that wait to be logged."""
    events = rows["security_event"]
    waiting = [(json.loads(row["detail"]), row) for row in events if row["logged"] == 0]
    commands = [
        {
            "command": values["command"],
            "player_id": row["player_id"] or None,
            "ran_by": values["by"],
            "done_ms": row["first_ms"],
        }
        for values, row in waiting
    ]
    return {**rows, "security_event": [row for row in events if row["times"]], "command_log": commands}


def add_commands(connection: Connection) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """Write COMMANDS as the gamed of schema 1 did, to both tables.

    Return all commands that wait, the oldest first, and all events, the latest first.
    """
    for command, player_id, ran_by, done_ms in COMMANDS:
        row = {"command": command, "player_id": player_id, "ran_by": ran_by, "done_ms": done_ms}
        connection.rows(
            "INSERT INTO command_log (command, player_id, ran_by, done_ms)"
            " VALUES (:command, :player_id, :ran_by, :done_ms)",
            row,
        )
        detail = json.dumps({"command": command, "by": ran_by})
        connection.rows(
            "INSERT INTO security_event (hour, event, player_id, detail, first_ms, last_ms, times)"
            " VALUES (2, 'command', :player_id, :detail, :done_ms, :done_ms, 1)"
            " ON CONFLICT (player_id, hour, event, detail)"
            " DO UPDATE SET times = security_event.times + 1, last_ms = excluded.last_ms",
            {"player_id": player_id or "", "detail": detail, "done_ms": done_ms},
        )
    waiting = connection.rows("SELECT command, player_id, ran_by, done_ms FROM command_log ORDER BY number")
    columns = "hour, event, player_id, detail, first_ms, last_ms, times"
    return waiting, connection.rows(f"SELECT {columns} FROM security_event ORDER BY last_ms DESC, number DESC")


def require_commands(
    test: SynchronousTestCase, connection: Connection, waiting: list[tuple[Any, ...]], events: list[tuple[Any, ...]]
) -> None:
    """Check that what waits is logged once, in its order, and that the events are the same before and after that."""
    test.assertEqual((waiting[-3:], max(times for *_, times in events)), (COMMANDS, 2))
    test.assertEqual(listed(connection), events)
    test.assertTrue(any_unlogged(connection))
    logged = [
        (each.values["command"], each.key.player_id or None, each.values["by"], each.first_ms)
        for each in mark_logged(connection)
    ]
    test.assertEqual(logged, waiting)
    test.assertFalse(any_unlogged(connection))
    test.assertEqual(mark_logged(connection), [])
    test.assertEqual(listed(connection), events)


def listed(connection: Connection) -> list[tuple[Any, ...]]:
    found = list_events(connection, 0)
    return [(*astuple(each.key), each.first_ms, each.last_ms, each.times) for each in found]
