"""Migrations from one schema to the next, each one complete or not at all."""

import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from subprocess import PIPE, Popen

from twisted.trial.unittest import SynchronousTestCase

from gamed.database.errors import DatabaseCorrupt
from gamed.database.scripts import scripts_in
from gamed.database.sqlite import migrations
from gamed.database.sqlite.files import APPLICATION_ID, connect, file_uri
from gamed.database.sqlite.migrations import (
    MigrationError,
    check_schema,
    migrate,
    prepare_file,
    schema_folder,
)
from tests.support.covers import covers
from tests.support.databases import data_folder, prepare_files
from tests.support.examples import examples
from tests.support.stores import sqlite_files

MANY = "INSERT INTO a WITH RECURSIVE c(n) AS (SELECT 2 UNION ALL SELECT n + 1 FROM c LIMIT 50000) SELECT n FROM c;"
FIRST = "CREATE TABLE a (n INTEGER PRIMARY KEY) STRICT; CREATE TABLE b (n INTEGER REFERENCES a) STRICT;"


@sqlite_files("its scripts; tests.database.postgresql.test_migrations has PostgreSQL's")
class Case(SynchronousTestCase):
    def setUp(self) -> None:
        self.data = data_folder(self)
        self.schemas = data_folder(self)
        self.path = self.data / "auth.db"
        (self.schemas / "auth").mkdir()
        self.script(1, FIRST)
        self.patch(migrations, "SCHEMAS", self.schemas)

    def script(self, number: int, sql: str) -> None:
        (self.schemas / "auth" / f"{number:03}_step.sql").write_text(sql)

    def open(self, name: str = "auth.db") -> sqlite3.Connection:
        connection = connect(file_uri(self.data / name, "rw"))
        self.addCleanup(connection.close)
        return connection

    def ask(self, sql: str, name: str = "auth.db") -> list[tuple[object, ...]]:
        with closing(connect(file_uri(self.data / name, "rw"))) as connection:
            return connection.execute(sql).fetchall()

    def filled(self) -> None:
        """A file of version 1 with a row in each table."""
        prepare_file(self.path)
        self.ask("INSERT INTO a VALUES (1)")
        self.ask("INSERT INTO b VALUES (1)")


PREPARER = """
import sys
from pathlib import Path
from gamed.database.sqlite import migrations
migrations.SCHEMAS = Path(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
migrations.prepare_file(Path(sys.argv[2]), print)
"""
ROUNDS = examples(few=3, many=20)


class TwoProcesses(Case):
    """Processes that prepare one file at the same time: one does it, the others find it done."""

    def prepare_together(self) -> list[str]:
        """Let three processes prepare auth.db at once; return what each printed."""
        command = [sys.executable, "-c", PREPARER, str(self.schemas), str(self.path)]
        processes = [Popen(command, stdin=PIPE, stdout=PIPE, stderr=PIPE, text=True) for _ in range(3)]
        for process in processes:
            assert process.stdout
            self.assertEqual(process.stdout.readline(), "ready\n")
        for process in processes:
            assert process.stdin
            process.stdin.write("\n")
            process.stdin.flush()
        printed = [process.communicate() for process in processes]
        self.assertEqual([process.returncode for process in processes], [0] * 3, printed)
        return [out for out, _ in printed]

    def test_missing_file(self) -> None:
        """A missing file is created once, with every script."""
        self.script(1, FIRST + MANY)
        self.script(2, "INSERT INTO a VALUES (1);")
        for _ in range(ROUNDS):
            self.prepare_together()
            self.assertEqual([(50_001,)], self.ask("SELECT count(*) FROM a"))
            self.assertEqual([(2,)], self.ask("PRAGMA user_version"))
            for path in self.data.glob("auth.db*"):
                path.unlink()

    def test_old_file(self) -> None:
        """An old file is copied and migrated by one process."""
        self.filled()
        self.ask(MANY)
        for version in range(2, 2 + ROUNDS):
            self.script(version, f"ALTER TABLE a ADD COLUMN c{version} INTEGER; UPDATE a SET c{version} = n;")
            printed = self.prepare_together()
            self.assertEqual(sorted(len(text.splitlines()) for text in printed), [0, 0, 2])
            self.assertEqual([(50_001,)], self.ask(f"SELECT count(*) FROM a WHERE c{version} = n"))
            self.assertEqual([(version,)], self.ask("PRAGMA user_version"))
        copies = sorted(path.name for path in self.data.glob("*.v*"))
        self.assertEqual(copies, sorted(f"auth.db.v{version}" for version in range(1, 1 + ROUNDS)))


class NewFile(Case):
    def test_settings(self) -> None:
        """A new file has small pages, incremental vacuum, a write-ahead log, and says whose it is."""
        prepare_file(self.path)
        for name, value in (
            ("page_size", 4096),
            ("auto_vacuum", 2),
            ("journal_mode", "wal"),
            ("application_id", APPLICATION_ID["auth"]),
            ("user_version", 1),
        ):
            self.assertEqual([(value,)], self.ask(f"PRAGMA {name}"))

    def test_all_scripts(self) -> None:
        """A new file runs every script, in the order of their numbers, and is not copied."""
        self.script(2, "ALTER TABLE a ADD COLUMN later INTEGER;")
        self.script(10, "INSERT INTO a (n, later) VALUES (1, 2);")
        prepare_file(self.path)
        self.assertEqual([(1, 2)], self.ask("SELECT n, later FROM a"))
        self.assertEqual([(3,)], self.ask("PRAGMA user_version"))
        self.assertEqual([], list(self.data.glob("*.v*")))

    def test_interrupted_before_its_first_table(self) -> None:
        """A file whose creation was interrupted is completed."""
        self.path.touch()
        prepare_file(self.path)
        self.assertEqual([(1,)], self.ask("PRAGMA user_version"))
        self.assertEqual([(4096,)], self.ask("PRAGMA page_size"))


class NextVersion(Case):
    def test_rows_survive(self) -> None:
        """An older file is brought up to date with its rows; a second run changes nothing."""
        self.filled()
        self.script(2, "ALTER TABLE a ADD COLUMN later INTEGER NOT NULL DEFAULT 7;")
        progress: list[str] = []
        prepare_file(self.path, progress.append)
        prepare_file(self.path, progress.append)
        self.assertEqual([(1, 7)], self.ask("SELECT n, later FROM a"))
        self.assertEqual([(2,)], self.ask("PRAGMA user_version"))
        self.assertEqual(2, len(progress))
        self.assertIn(f"gamed --data {self.data} restore {self.path}.v1", progress[1])

    def test_long_work(self) -> None:
        """While a large file is copied, and while a script runs, `working` is called repeatedly."""
        self.filled()
        self.ask(MANY)
        self.script(2, "UPDATE a SET n = -n WHERE n > 1;")
        progress: list[str] = []
        prepare_file(self.path, progress.append, lambda: progress.append("working"))
        self.assertEqual(progress[0], "copying auth.db before its schema changes")
        self.assertGreater(progress.count("working"), 5)
        self.assertEqual([(50_000,)], self.ask("SELECT count(*) FROM a WHERE n < 0"))

    def test_copied_first(self) -> None:
        """Before its schema changes, the file is copied whole; the copy can be read by the older version."""
        self.filled()
        self.script(2, "DROP TABLE b;")
        prepare_file(self.path)
        self.assertEqual(["auth.db.v1"], [path.name for path in self.data.glob("*.v*")])
        self.assertEqual([(1,)], self.ask("SELECT n FROM b", "auth.db.v1"))
        self.assertEqual([(1,)], self.ask("PRAGMA user_version", "auth.db.v1"))
        self.assertEqual([(APPLICATION_ID["auth"],)], self.ask("PRAGMA application_id", "auth.db.v1"))
        self.assertEqual(0o600, (self.data / "auth.db.v1").stat().st_mode & 0o777)

    def test_broken_second_script(self) -> None:
        """A second migration that fails half-way leaves version 1 with its rows as it was; once corrected, it runs."""
        self.filled()
        self.script(2, "CREATE TABLE c (n INTEGER) STRICT; DELETE FROM b; INSERT INTO missing VALUES (1);")
        for _ in range(2):
            with self.assertRaises(MigrationError) as caught:
                prepare_file(self.path)
            self.assertIn("002_step.sql", str(caught.exception))
            self.assertEqual([(1,)], self.ask("PRAGMA user_version"))
            self.assertEqual([("a",), ("b",)], self.ask("SELECT name FROM sqlite_schema ORDER BY name"))
            self.assertEqual([(1,)], self.ask("SELECT n FROM b"))
        self.script(2, "CREATE TABLE c (n INTEGER) STRICT;")
        prepare_file(self.path)
        self.assertEqual([(2,)], self.ask("PRAGMA user_version"))

    def test_second_broken_third_untouched(self) -> None:
        """Scripts before the failing one stay done, those after it do not run."""
        self.script(2, "CREATE TABLE c (n INTEGER) STRICT;")
        self.script(3, "syntax error;")
        self.script(4, "CREATE TABLE d (n INTEGER) STRICT;")
        with self.assertRaises(MigrationError):
            prepare_file(self.path)
        self.assertEqual([(2,)], self.ask("PRAGMA user_version"))
        self.assertEqual([], self.ask("SELECT name FROM sqlite_schema WHERE name = 'd'"))

    def test_script_that_ends_its_transaction(self) -> None:
        """A script with its own COMMIT is refused: it could stop half-way."""
        connection = self.open_new()
        self.script(1, "CREATE TABLE a (n INTEGER) STRICT; COMMIT;")
        with self.assertRaises(MigrationError):
            migrate(connection, schema_folder("auth"))

    def test_rebuilt_table(self) -> None:
        """A script may rebuild a table that others refer to; references are checked at its end."""
        self.filled()
        self.script(
            2,
            "CREATE TABLE a2 (n INTEGER PRIMARY KEY) STRICT; INSERT INTO a2 SELECT n FROM a;"
            "DROP TABLE a; ALTER TABLE a2 RENAME TO a;",
        )
        prepare_file(self.path)
        self.assertEqual([(1,)], self.ask("SELECT n FROM b"))
        self.script(3, "DELETE FROM a;")
        with self.assertRaises(MigrationError):
            prepare_file(self.path)
        self.assertEqual([(1,)], self.ask("SELECT n FROM a"))
        self.assertEqual([(2,)], self.ask("PRAGMA user_version"))

    def open_new(self) -> sqlite3.Connection:
        connection = connect(file_uri(self.data / "new.db", "rwc"))
        self.addCleanup(connection.close)
        return connection


class Refused(Case):
    def test_newer(self) -> None:
        """A file of a newer version is refused and stays as it is."""
        self.filled()
        self.ask("PRAGMA user_version = 9")
        with self.assertRaises(MigrationError) as caught:
            prepare_file(self.path)
        self.assertIn("newer", str(caught.exception))
        self.assertEqual([(9,)], self.ask("PRAGMA user_version"))
        self.assertEqual([(1,)], self.ask("SELECT n FROM b"))

    def test_of_another_program(self) -> None:
        """A database of another program is not touched."""
        with closing(connect(file_uri(self.path, "rwc"))) as connection:
            connection.execute("CREATE TABLE theirs (n INTEGER)")
        before = self.path.read_bytes()
        with self.assertRaises(MigrationError):
            prepare_file(self.path)
        self.assertEqual(before, self.path.read_bytes())

    def test_no_database(self) -> None:
        """Bytes that are no database are DatabaseCorrupt, and stay."""
        self.path.write_bytes(b"something else" * 1000)
        with self.assertRaises(DatabaseCorrupt):
            prepare_file(self.path)
        self.assertEqual(b"something else" * 1000, self.path.read_bytes())


class Checked(Case):
    def setUp(self) -> None:
        super().setUp()
        trigger = "CREATE TRIGGER d AFTER INSERT ON a BEGIN DELETE FROM b; END;"
        self.script(2, f"CREATE TABLE e (n INTEGER); CREATE INDEX c ON b (n); {trigger}")
        prepare_file(self.path)

    def test_as_its_scripts_make_it(self) -> None:
        """Other comments, blanks or quotes in a script, rows and statistics of SQLite are no difference."""
        self.ask("INSERT INTO a VALUES (1)")
        self.ask("ANALYZE")
        self.script(1, FIRST.replace("(n INTEGER PRIMARY KEY)", '(  -- why\n    "n" INTEGER PRIMARY KEY\n)'))
        check_schema(self.path)

    def test_litestream(self) -> None:
        """The two tables that Litestream makes in each database that it copies are no difference."""
        self.ask("CREATE TABLE _litestream_seq (id INTEGER PRIMARY KEY, seq INTEGER)")
        self.ask("CREATE TABLE _litestream_lock (id INTEGER)")
        check_schema(self.path)

    def test_of_an_older_version(self) -> None:
        """A file that has not seen the last script is compared with what the scripts before make."""
        self.script(3, "DROP TABLE b;")
        check_schema(self.path)

    def test_altered(self) -> None:
        """A file that a script has altered is like a new one; one that only has the script's number is refused."""
        self.script(
            3,
            "ALTER TABLE a ADD COLUMN m INTEGER NOT NULL DEFAULT 0;  -- how many; why\n"
            "UPDATE a SET m = n + 1;\nCREATE INDEX g ON a (m) WHERE m > 1;  -- an index",
        )
        self.ask("INSERT INTO a VALUES (1)")
        prepare_file(self.path)
        check_schema(self.path)
        self.assertEqual(self.ask("SELECT n, m FROM a"), [(1, 2)])
        migrated = self.ask("SELECT type, name, sql FROM sqlite_schema ORDER BY name")
        self.path.unlink()
        prepare_file(self.path)
        check_schema(self.path)
        self.assertEqual(self.ask("SELECT type, name, sql FROM sqlite_schema ORDER BY name"), migrated)
        self.script(3, "ALTER TABLE a ADD COLUMN m INTEGER;")
        self.path.unlink()
        (self.schemas / "auth" / "003_step.sql").rename(self.data / "later.sql")
        prepare_file(self.path)
        self.ask("PRAGMA user_version = 3")
        (self.data / "later.sql").rename(self.schemas / "auth" / "003_step.sql")
        with self.assertRaises(MigrationError) as caught:
            check_schema(self.path)
        self.assertIn("its table a is missing or differs", str(caught.exception))

    def test_not_ours(self) -> None:
        """A file of another program, and the other database, are refused by their identity."""
        self.ask("PRAGMA application_id = 1")
        with self.assertRaises(MigrationError) as caught:
            check_schema(self.path)
        self.assertIn("is not gamed's auth.db", str(caught.exception))

    def test_other(self) -> None:
        """A table, index or trigger that is missing, added or other than the script's is named and refused."""
        for what, sql in {
            "table f": "CREATE TABLE f (n INTEGER)",
            "table a": "ALTER TABLE a ADD COLUMN m INTEGER",
            "index c": "DROP INDEX c",
            "index h": "CREATE INDEX h ON a (n)",
            "table e": "DROP TABLE e",
            "trigger d": "DROP TRIGGER d",
        }.items():
            self.path.unlink()
            prepare_file(self.path)
            self.ask(sql)
            with self.assertRaises(MigrationError) as caught:
                check_schema(self.path)
            self.assertIn(f"its {what} is missing or differs", str(caught.exception))

    def test_left_to_others(self) -> None:
        """Missing, empty, newer and damaged files, and folders, are refused elsewhere or not at all."""
        self.ask("PRAGMA user_version = 9")
        check_schema(self.path)
        for content in (b"", b"no database" * 1000):
            self.path.write_bytes(content)
            check_schema(self.path)
        check_schema(self.data)
        check_schema(self.data / "nowhere.db")


@covers("1/12")
@sqlite_files("its scripts; tests.database.postgresql.test_migrations has PostgreSQL's")
class OurSchemas(SynchronousTestCase):
    def test_exchanged(self) -> None:
        """auth.db put in state.db's place is refused, not filled with the other's tables."""
        data = data_folder(self)
        prepare_files(data)
        (data / "auth.db").replace(data / "state.db")
        with self.assertRaises(MigrationError):
            prepare_files(data)

    def test_every_table_is_strict(self) -> None:
        """Every table of both files is STRICT, and no name is used in both: the read queue has both files open."""
        data = data_folder(self)
        prepare_files(data)
        names: list[str] = []
        for name in ("auth", "state"):
            with closing(connect(file_uri(data / f"{name}.db", "ro"))) as connection:
                rows = connection.execute("PRAGMA table_list").fetchall()
            ours = {row[1]: row[5] for row in rows if not row[1].startswith("sqlite_")}
            self.assertEqual({1}, set(ours.values()), ours)
            names += ours
        self.assertEqual(len(names), len(set(names)))

    def test_numbered_without_gaps(self) -> None:
        """Scripts count up from 001, since the file's version is how many of them it has seen."""
        for name in ("auth", "state"):
            numbers = [int(script.name[:3]) for script in scripts_in(Path(schema_folder(name)))]
            self.assertEqual(list(range(1, len(numbers) + 1)), numbers)
            self.assertTrue(numbers)
