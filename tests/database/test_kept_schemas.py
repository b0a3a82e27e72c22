"""Every schema that was in use can be brought to the present one, and is then like a new one, with all its rows."""

from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
from twisted.trial.unittest import SynchronousTestCase

from gamed.config.model import PostgresqlAddress
from gamed.database.backup_format import DUMP
from gamed.database.connection import AUTH, STATE
from gamed.database.postgresql import dump
from gamed.database.postgresql import migrations as postgresql
from gamed.database.sqlite import migrations
from gamed.database.sqlite.files import connect, file_uri
from gamed.database.sqlite.migrations import check_schema, prepare_file, version_of
from tests.database.kept_stores import KeptStore, backup_in, kept_stores
from tests.database.make_store import HASHES, frozen, present_name, scripts
from tests.database.postgresql.schemas import EmptyCase
from tests.support.databases import data_folder

COMPUTED = {"player_saves": {"kept_bytes"}}
"""The columns, by table, whose values a later script has changed."""
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

    def rows(self, path: Path) -> Rows:
        with closing(connect(file_uri(path, "ro"))) as connection:
            return rows_of(connection, "SELECT name FROM sqlite_schema WHERE type = 'table'")


class PostgresqlTests(EmptyCase):
    def test_upgraded(self) -> None:
        """The schemas of each number get what new ones have, with every row."""
        for kept in kept_stores():
            folder = data_folder(self)
            kept.unpack(folder)
            dump.load(PostgresqlAddress(self.place.keywords), backup_in(folder, "postgresql") / DUMP, 0, [])
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
    for table, rows in before.items():
        changed = COMPUTED.get(table, set())
        columns = [name for row in rows[:1] for name in row if name not in changed]
        found = [[row[name] for name in columns] for row in after[table]]
        test.assertEqual(sorted(found, key=repr), sorted(([row[name] for name in columns] for row in rows), key=repr))
