"""A server with `"checkpoints": "external"` leaves the write-ahead logs to another program, such as Litestream."""

from contextlib import closing
from pathlib import Path

from gamed.database.sqlite.files import connect, file_uri
from tests.cli.process import CommandTestCase
from tests.support.stores import sqlite_files

CONFIG = '{"mode": "local", "checkpoints": "external"}'
TABLES = "CREATE TABLE _litestream_seq (id INTEGER PRIMARY KEY, n INTEGER); CREATE TABLE _litestream_lock (id INTEGER)"
"""The tables that Litestream makes in each database that it copies."""


@sqlite_files("its write-ahead log; PostgreSQL's server has its own")
class ExternalCheckpointsTests(CommandTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.config.write_text(CONFIG)
        self.config.chmod(0o600)
        self.data.mkdir(mode=0o700)
        self.auth = self.data / "auth.db"

    def log_of(self, database: Path) -> Path:
        return database.with_name(f"{database.name}-wal")

    def test_log_is_left(self) -> None:
        """After the end of the server the log has what it wrote, for the program that has the database open."""
        process, _ = self.serve()
        with closing(connect(file_uri(self.auth, "rw"))) as other:
            other.executescript(TABLES)
            other.execute("SELECT count(*) FROM player").fetchall()
            self.assertEqual(self.gamed("players", "add", "anna", "--password-stdin", stdin="correct horse\n")[0], 0)
            process.terminate()
            self.assertEqual(process.wait(60), 0)
            self.assertGreater(self.log_of(self.auth).stat().st_size, 4096)

    def test_tables_of_the_other_program(self) -> None:
        """The server starts with the tables of Litestream in both databases, and all data are found intact."""
        process, _ = self.serve()
        process.terminate()
        process.wait(60)
        for name in ("auth.db", "state.db"):
            with closing(connect(file_uri(self.data / name, "rw"))) as other:
                other.executescript(TABLES)
        self.serve()
        self.assertEqual(self.gamed("check", "data")[0], 0)
        self.assertIn("\nok       checkpoints: ", self.gamed("doctor")[1])
