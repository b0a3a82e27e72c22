"""The scripts of PostgreSQL's schemas: each one runs once and completely, and is SQLite's twin."""

import sqlite3
from contextlib import closing
from threading import Thread
from typing import Any

from gamed.database.connection import AUTH, STATE
from gamed.database.errors import DatabaseUnavailable, MigrationError
from gamed.database.postgresql import migrations
from gamed.database.postgresql.migrations import (
    SchemaVersion,
    check_schema,
    prepare_schema,
    require_schema,
    statements,
    version_of,
)
from gamed.database.postgresql.processes import alone, join
from gamed.database.sqlite import migrations as sqlite_migrations
from tests.database.postgresql.schemas import EmptyCase
from tests.database.test_statements import complete, is_statement, package, texts
from tests.support.databases import data_folder
from tests.support.postgresql import cluster

FIRST = """
CREATE TABLE a (n bigint PRIMARY KEY);  -- a comment; and more
CREATE TABLE b (n bigint REFERENCES a);
CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1;
    RETURN NULL;
END $$;
CREATE INDEX c ON b (n);
CREATE TRIGGER d AFTER INSERT ON a FOR EACH ROW EXECUTE FUNCTION f();
"""
WHERE = "schema auth of postgresql://here/gamed"


OWN = {"database_identity", "deleted_blob", "heartbeat", "schema_version"}
"""Tables that only PostgreSQL has, and a view that stands for a table of SQLite."""


class Case(EmptyCase):
    def use_scripts(self) -> None:
        self.schemas = data_folder(self)
        (self.schemas / AUTH).mkdir()
        self.script(1, FIRST)
        self.patch(migrations, "SCHEMAS", self.schemas)

    def script(self, number: int, sql: str) -> None:
        (self.schemas / AUTH / f"{number:03}_step.sql").write_text(sql)

    def prepare(self, session: Any = None, *, database: str = AUTH, migrate: bool = True) -> None:
        prepare_schema(session or self.session, database, WHERE, self.progress.append, lambda: None, migrate=migrate)

    def version(self) -> int:
        return version_of(self.session, AUTH).number

    def refused(self, **options: Any) -> str:
        with self.assertRaises(MigrationError) as caught:
            self.prepare(**options)
        return str(caught.exception)


class OwnScripts(Case):
    def setUp(self) -> None:
        super().setUp()
        self.use_scripts()

    def filled(self) -> None:
        self.prepare()
        self.session.rows("INSERT INTO auth.a VALUES (1)")
        self.session.rows("INSERT INTO auth.b VALUES (1)")

    def test_created(self) -> None:
        """A missing schema is created with every script, without the option for migrations."""
        self.script(2, "ALTER TABLE a ADD COLUMN later bigint NOT NULL DEFAULT 7;")
        self.prepare(migrate=False)
        self.assertEqual(version_of(self.session, AUTH), SchemaVersion(2, 2))
        self.assertEqual(self.session.rows("SELECT later FROM auth.a"), [])
        self.assertEqual(self.progress, [])

    def test_made_for_us(self) -> None:
        """An empty schema that an administrator made is used."""
        self.session.rows("CREATE SCHEMA auth")
        self.prepare()
        self.assertEqual(self.version(), 1)

    def test_rows_survive(self) -> None:
        """An older schema is brought up to date with its rows; a second run changes nothing."""
        self.filled()
        self.script(2, "ALTER TABLE a ADD COLUMN later bigint NOT NULL DEFAULT 7;")
        self.prepare()
        self.prepare()
        self.assertEqual(self.session.rows("SELECT n, later FROM auth.a"), [(1, 7)])
        self.assertEqual(len(self.progress), 1)

    def test_not_asked_to_migrate(self) -> None:
        """Without the option an older schema is refused, by commands too, and stays as it is."""
        self.filled()
        self.script(2, "DROP TABLE b;")
        self.assertIn("gamed serve --migrate", self.refused(migrate=False))
        with self.assertRaises(MigrationError):
            require_schema(self.session, AUTH, WHERE)
        self.assertEqual(self.session.rows("SELECT n FROM auth.b"), [(1,)])

    def test_broken_script(self) -> None:
        """A script that fails half-way leaves the version before with its rows; once corrected, it runs."""
        self.filled()
        self.script(2, "CREATE TABLE c2 (n bigint);\nDELETE FROM b;\nINSERT INTO missing VALUES (1);")
        self.assertIn("002_step.sql", self.refused())
        self.assertEqual(self.version(), 1)
        self.assertEqual(self.session.rows("SELECT n FROM auth.b"), [(1,)])
        self.script(2, "CREATE TABLE c2 (n bigint);")
        self.prepare()
        self.assertEqual(self.version(), 2)

    def test_earlier_scripts_stay(self) -> None:
        """Scripts before the failing one stay done, those after it do not run."""
        self.prepare()
        self.script(2, "CREATE TABLE c2 (n bigint);")
        self.script(3, "syntax error;")
        self.script(4, "CREATE TABLE d2 (n bigint);")
        self.refused()
        self.assertEqual(self.version(), 2)

    def test_script_that_ends_its_transaction(self) -> None:
        """A script with its own COMMIT is refused: it could stop half-way."""
        self.script(1, "CREATE TABLE a (n bigint);\nCOMMIT;")
        self.assertIn("001_step.sql", self.refused())
        self.assertEqual(version_of(self.session, AUTH).number, 0)

    def test_newer(self) -> None:
        """A schema of a newer version is refused, unless that version names this one as able to work with it."""
        self.script(2, "-- oldest: 1\nALTER TABLE a ADD COLUMN later bigint;")
        self.prepare()
        (self.schemas / AUTH / "002_step.sql").unlink()
        self.prepare(migrate=False)
        check_schema(self.session, AUTH, WHERE)
        require_schema(self.session, AUTH, WHERE)
        self.script(2, "-- oldest: 1\nALTER TABLE a ADD COLUMN later bigint;")
        self.script(3, "ALTER TABLE a DROP COLUMN later;")
        self.prepare()
        for number in (2, 3):
            (self.schemas / AUTH / f"{number:03}_step.sql").unlink()
        self.assertIn("newer", self.refused())
        with self.assertRaises(MigrationError):
            require_schema(self.session, AUTH, WHERE)

    def test_used_by_others(self) -> None:
        """A script is not run beside servers that do not work with it, and is run beside those that do."""
        self.filled()
        other = self.connect()
        join(other, "a1")
        self.script(2, "DROP TABLE b;")
        self.assertIn("Stop all of them", self.refused())
        self.script(2, "-- oldest: 1\nALTER TABLE a ADD COLUMN later bigint;")
        self.prepare()
        self.script(3, "-- oldest: 3\nDROP TABLE b;")
        self.assertIn("Stop all of them", self.refused())
        other.close()
        with alone(self.connect()):
            self.prepare()
        self.assertEqual(self.version(), 3)

    def test_of_another_program(self) -> None:
        """A schema of another program is not touched."""
        self.session.rows("CREATE SCHEMA auth")
        self.session.rows("CREATE TABLE auth.theirs (n bigint)")
        self.assertIn("theirs", self.refused())
        self.assertEqual(self.session.rows("SELECT n FROM auth.theirs"), [])

    def test_none(self) -> None:
        """A schema that does not exist is unavailable to commands, and is no reason to refuse a start."""
        check_schema(self.session, AUTH, WHERE)
        with self.assertRaises(DatabaseUnavailable):
            require_schema(self.session, AUTH, WHERE)

    def test_moved(self) -> None:
        """A schema that was moved away is not begun anew by a start that still expects it."""
        self.session.rows("CREATE SCHEMA auth_moved_20261123t060000z")
        self.session.rows("CREATE SCHEMA auth_moved_20261123t070000z")
        with self.assertRaises(MigrationError) as caught:
            check_schema(self.session, AUTH, WHERE)
        self.assertIn("is auth_moved_20261123t070000z now", str(caught.exception))

    def test_not_allowed(self) -> None:
        """A user who may not create schemas is named the permission that is missing."""
        cluster().execute(f"ALTER DATABASE {self.place.database} OWNER TO postgres")
        self.assertIn("GRANT CREATE ON DATABASE", self.refused())

    def test_locked(self) -> None:
        """A migration does not wait long for another transaction; it tries again until that has ended."""
        self.filled()
        self.script(2, "ALTER TABLE a ADD COLUMN later bigint;")
        self.patch(migrations, "LOCK_MS", 50)
        self.patch(migrations, "RETRY_SECONDS", 0.05)
        other = self.connect()
        other.rows("BEGIN")
        other.rows("SELECT n FROM auth.a")
        waits = iter(range(100))
        working = lambda: other.rollback() if next(waits) == 5 else None  # noqa: E731
        prepare_schema(self.session, AUTH, WHERE, self.progress.append, working, migrate=True)
        self.assertEqual(self.version(), 2)
        self.assertIn(f"{WHERE} is in use; the change of its schema is tried again", self.progress)

    def test_locked_for_long(self) -> None:
        """A migration gives up after many attempts, with nothing changed."""
        self.filled()
        self.script(2, "ALTER TABLE a ADD COLUMN later bigint;")
        for name, value in (("LOCK_MS", 20), ("RETRY_SECONDS", 0.0), ("LOCK_TRIES", 3)):
            self.patch(migrations, name, value)
        other = self.connect()
        other.rows("BEGIN")
        other.rows("SELECT n FROM auth.a")
        self.assertIn("in use", self.refused())
        self.assertEqual(self.version(), 1)

    def test_several_processes(self) -> None:
        """Several processes may prepare a schema at the same time: one does it, and the others find it done."""
        self.script(2, "CREATE TABLE g (n bigint);\nINSERT INTO a VALUES (1);")
        errors: list[BaseException] = []

        def run(session: Any) -> None:
            try:
                self.prepare(session)
            except BaseException as e:
                errors.append(e)

        threads = [Thread(target=run, args=(self.connect(),)) for _ in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(errors, [])
        self.assertEqual(self.session.rows("SELECT n FROM auth.a"), [(1,)])

    def test_check(self) -> None:
        """A table, column, index, trigger, function or constraint that is missing or other is named and refused."""
        self.script(1, FIRST + "CREATE TABLE e (n bigint);\n")
        for what, sql in {
            "table e": "DROP TABLE auth.e",
            "column a.n": "ALTER TABLE auth.a ALTER COLUMN n TYPE integer",
            "index c": "DROP INDEX auth.c",
            "trigger a.d": "ALTER TABLE auth.a DISABLE TRIGGER d",
            "function f": "CREATE OR REPLACE FUNCTION auth.f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN END'",
            "constraint b.b_n_fkey": "ALTER TABLE auth.b DROP CONSTRAINT b_n_fkey",
        }.items():
            self.session.rows("DROP SCHEMA IF EXISTS auth CASCADE")
            self.prepare()
            check_schema(self.session, AUTH, WHERE)
            self.session.rows(sql)
            with self.assertRaises(MigrationError) as caught:
                check_schema(self.session, AUTH, WHERE)
            self.assertIn("is missing or differs", str(caught.exception))
            self.assertIn(what, str(caught.exception))

    def test_checked_script(self) -> None:
        """A script that is not the one that made the schema is refused; comments and blanks are no difference."""
        self.prepare()
        self.session.rows("CREATE INDEX of_an_administrator ON auth.b (n)")
        self.script(1, FIRST.replace("(n bigint PRIMARY", "(  n  bigint PRIMARY").replace("and more", "why"))
        check_schema(self.session, AUTH, WHERE)
        self.script(1, FIRST + "CREATE TABLE e (n bigint);\n")
        with self.assertRaises(MigrationError) as caught:
            check_schema(self.session, AUTH, WHERE)
        self.assertIn("its script 001_step.sql", str(caught.exception))

    def test_statements(self) -> None:
        """A script is cut into its statements, not within a function."""
        found = statements(FIRST)
        self.assertEqual([text.split()[1] for text in found], ["TABLE", "TABLE", "FUNCTION", "INDEX", "TRIGGER"])
        self.assertNotIn("comment", found[0])


class BothEngines(Case):
    def test_same_scripts(self) -> None:
        """Both engines have scripts of the same numbers and names."""
        for database in (AUTH, STATE):
            ours, others = (
                [script.name for script in module.scripts_in(module.schema_folder(database))]
                for module in (migrations, sqlite_migrations)
            )
            self.assertEqual(ours, others)

    def test_same_columns(self) -> None:
        """Both engines have the same tables with the same columns, and the same indexes."""
        for database in (AUTH, STATE):
            self.prepare(database=database)
            query = """
                SELECT table_name, column_name, data_type, CASE is_nullable WHEN 'NO' THEN 1 ELSE 0 END
                FROM information_schema.columns WHERE table_schema = :database
            """
            rows = self.session.rows(query, {"database": database})
            ours = {tuple(row) for row in rows if row[0] not in OWN}
            with closing(sqlite3.connect(":memory:")) as model:
                folder = sqlite_migrations.schema_folder(database)
                for script in sqlite_migrations.scripts_in(folder):
                    model.executescript(script.read_text("utf-8"))
                others = set(self.columns(model))
                indexes = {name for (name,) in model.execute("SELECT name FROM sqlite_schema WHERE type = 'index'")}
            self.assertEqual(ours, {row for row in others if row[0] not in OWN})
            query = "SELECT indexname FROM pg_indexes WHERE schemaname = :database"
            found = {name for (name,) in self.session.rows(query, {"database": database})}
            self.assertEqual({name for name in indexes if not name.startswith("sqlite_")} - found, set())

    def columns(self, model: sqlite3.Connection) -> list[tuple[str, str, str, int]]:
        kinds = {"INTEGER": "bigint", "TEXT": "text", "BLOB": "bytea"}
        found = []
        for (table,) in model.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall():
            for _, name, kind, not_null, _, key in model.execute(f"PRAGMA table_info({table})"):
                found.append((table, name, kinds[kind], int(bool(not_null or key))))
        return found

    def test_all_text_by_its_bytes(self) -> None:
        """Every column with text is compared by its bytes, and every column with a save's bytes is not compressed."""
        for database in (AUTH, STATE):
            self.prepare(database=database)
            query = """
                SELECT count(*) FROM information_schema.columns
                WHERE table_schema = :database AND table_name <> 'schema_version' AND data_type = 'text'
                  AND collation_name IS DISTINCT FROM 'C'
            """
            self.assertEqual(self.session.rows(query, {"database": database}), [(0,)])
        found = migrations.contents_of(self.session, STATE)
        self.assertEqual((found["column blob.data"], found["column blob_part.data"]), ("bytea e", "bytea NOT NULL e"))

    def test_references_have_indexes(self) -> None:
        """An index begins with the columns of each reference, so that a deleted row needs no scan."""
        query = """
            SELECT k.conname FROM pg_constraint k JOIN pg_namespace n ON n.oid = k.connamespace
            WHERE n.nspname IN ('auth', 'state') AND k.contype = 'f' AND NOT EXISTS (
                SELECT 1 FROM pg_index i WHERE i.indrelid = k.conrelid AND i.indkey[0] = k.conkey[1]
                  AND i.indpred IS NULL)
        """
        for database in (AUTH, STATE):
            self.prepare(database=database)
        self.assertEqual(self.session.rows(query), [])

    def test_all_statements(self) -> None:
        """PostgreSQL prepares every statement of the package, with the schemas of both databases."""
        for database in (AUTH, STATE):
            self.prepare(database=database)
        prepared = 0
        for module, source in package().items():
            for place, text in texts(module, source):
                if is_statement(text):
                    self.session.rows(f"PREPARE one AS {complete(place, text)}")
                    self.session.rows("DEALLOCATE one")
                    prepared += 1
        self.assertGreater(prepared, 200)
