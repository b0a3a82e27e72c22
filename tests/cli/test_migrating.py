"""`gamed serve --migrate` of a later version brings a PostgreSQL store to its schemas, with all that the store has."""

from pathlib import Path

from gamed.database.connection import AUTH, STATE
from gamed.database.postgresql.migrations import schema_folder, scripts_in
from tests.cli.process import GAMED, free_port
from tests.cli.test_postgresql import SECRET, PostgresqlTestCase
from tests.support import forks
from tests.support.covers import covers
from tests.support.versions import make_later_version

ADDED = {AUTH: "player", STATE: "save"}
"""A table of each schema, which gets a column."""
SERVED = (200, b"level 3")


class MigrationTests(PostgresqlTestCase):
    """A server of this version has made an account and a save."""

    def setUp(self) -> None:
        super().setUp()
        self.version = self.folder / "later"
        (self.folder / "game.json").write_text('{"writes_per_minute": 0}')  # counted over all starts of the server
        self.added: list[Path] = []
        self.numbers = {database: len(scripts_in(schema_folder(database))) for database in (AUTH, STATE)}
        process, port = self.serve()
        self.json_of("players", "add", "Anna", "--password-stdin", stdin=SECRET)
        self.token = self.json_of("players", "token", "Anna")["access_token"]
        self.assertEqual(self.ask(port, "PUT", "/game/saves/a", self.token, b"level 3", If_None_Match="*")[0], 201)
        self.assertEqual(self.stop(process), 0, self.output())

    def later(self, *databases: str, oldest: bool) -> None:
        """Use a version with one script more for each of these schemas; `oldest`: this version works with them."""
        if not self.version.exists():
            make_later_version(self.version, {})
        for script in self.added:
            script.unlink()
        self.added = []
        for database in databases:
            number = self.numbers[database]
            head = f"-- oldest: {number}\n" if oldest else ""
            path = self.version / "gamed/database/postgresql/schema" / database / f"{number + 1:03}_later.sql"
            path.write_text(f"{head}ALTER TABLE {ADDED[database]} ADD COLUMN later bigint NOT NULL DEFAULT 7;\n")
            self.added.append(path)
        self.environ["PYTHONPATH"] = str(self.version)

    def migrated(self) -> dict[str, int]:
        """Return how many further scripts each schema has run."""
        rows = {name: self.rows(f"SELECT max(number) FROM {name}.schema_version") for name in (AUTH, STATE)}
        return {name: number - self.numbers[name] for name, [(number,)] in rows.items()}

    def refused(self, *options: str) -> str:
        code, out, err = self.gamed("serve", f"--listen=tcp:{free_port()}:interface=127.0.0.1", *options)
        self.assertEqual((code, "Traceback" in err), (78, False), out + err)
        return err

    def serves_all(self, *options: str) -> None:
        """Check that a server of the later version starts with these options, and has the account and the save."""
        process, port = self.serve(*options)
        self.assertEqual(self.ask(port, "GET", "/game/saves/a", self.token)[:2], SERVED)
        self.assertEqual([each["name"] for each in self.json_of("players", "list")], ["Anna"])
        self.assertEqual(self.ask(port, "PUT", "/game/saves/b", self.token, b"x", If_None_Match="*")[0], 201)
        self.assertEqual(self.ask(port, "DELETE", "/game/saves/b", self.token, If_Match="*")[0], 204)
        self.assertEqual(self.stop(process), 0, self.output())

    def starts_earlier(self) -> tuple[forks.Process, int]:
        """Start a server of this version, on another machine."""
        path, data = self.environ.pop("PYTHONPATH"), self.data
        try:
            self.data = self.folder / "elsewhere"
            return self.serve()
        finally:
            self.environ["PYTHONPATH"], self.data = path, data

    def test_alone(self) -> None:
        """With nobody connected --migrate runs scripts of both kinds, of both schemas or one, once; without the option
        nothing is changed."""
        self.fork_with(str(self.version))  # the other tests start processes of their own
        for databases in ((AUTH, STATE), (AUTH,), (STATE,)):
            for oldest in (False, True):
                self.later(*databases, oldest=oldest)
                self.assertIn("gamed serve --migrate", self.refused())
                self.assertEqual(self.migrated(), {AUTH: 0, STATE: 0})
                for options in (("--migrate",), ("--migrate",), ()):
                    self.serves_all(*options)
                    self.assertEqual(self.migrated(), {name: int(name in databases) for name in (AUTH, STATE)})
                self.assertEqual(self.output().count("changes its schema"), 0)
                self.go_back()

    def go_back(self) -> None:
        """Bring the store back to this version."""
        del self.environ["PYTHONPATH"]
        for name, table in ADDED.items():
            self.rows(f"ALTER TABLE {name}.{table} DROP COLUMN IF EXISTS later")
            self.rows(f"DELETE FROM {name}.schema_version WHERE number > {self.numbers[name]}")

    def test_workers(self) -> None:
        """The parent of several workers migrates before it starts them."""
        self.later(AUTH, STATE, oldest=False)
        self.serves_all("--migrate", "--workers", "2")
        self.assertEqual(self.migrated(), {AUTH: 1, STATE: 1})

    def test_shared_folder(self) -> None:
        """The first server that shares a folder migrates."""
        self.later(AUTH, STATE, oldest=False)
        self.serves_all("--migrate", "--share")
        self.assertEqual(self.migrated(), {AUTH: 1, STATE: 1})

    def test_beside_another_server(self) -> None:
        """Beside a server that does not work with the new schema nothing is changed, and that server goes on; once it
        has stopped, the same command migrates."""
        for database in (AUTH, STATE):
            self.later(database, oldest=False)
            other, port = self.starts_earlier()
            err = self.refused("--migrate")
            self.assertIn("Stop all of them, on every machine", err)
            self.assertIn(f"schema {database} of ", err)
            self.assertEqual(self.migrated(), {AUTH: 0, STATE: 0})
            self.assertEqual(self.ask(port, "GET", "/game/saves/a", self.token)[:2], SERVED)
            self.assertEqual(self.stop(other), 0, self.output())
            self.serves_all("--migrate")
            self.assertEqual(self.migrated(), {name: int(name == database) for name in (AUTH, STATE)})
            self.go_back()

    def test_beside_a_server_that_may_stay(self) -> None:
        """Beside a server that works with the new schema both are migrated, and both servers have everything."""
        self.later(AUTH, STATE, oldest=True)
        other, port = self.starts_earlier()
        self.serves_all("--migrate")
        self.assertEqual(self.migrated(), {AUTH: 1, STATE: 1})
        self.assertEqual(self.ask(port, "GET", "/game/saves/a", self.token)[:2], SERVED)
        self.assertEqual(self.ask(port, "PUT", "/game/saves/c", self.token, b"y", If_None_Match="*")[0], 201)
        self.assertEqual(self.stop(other), 0, self.output())

    def test_machines_at_the_same_moment(self) -> None:
        """Two machines that start with --migrate at the same time both serve afterwards; the scripts ran once."""
        self.later(AUTH, STATE, oldest=False)
        ports = [free_port(), free_port()]
        started = [
            self.start(*GAMED, "--config", str(self.config), "--data", str(self.folder / str(port)), *serve)
            for port in ports
            for serve in [("serve", "--migrate", f"--listen=tcp:{port}:interface=127.0.0.1")]
        ]
        for port, process in zip(ports, started, strict=True):
            self.await_answer(port, process)
            self.assertEqual(self.ask(port, "GET", "/game/saves/a", self.token)[:2], SERVED)
        self.assertEqual(self.migrated(), {AUTH: 1, STATE: 1})
        self.assertEqual([self.stop(process) for process in started], [0, 0])

    @covers("threats/70")
    def test_copies(self) -> None:
        """Neither schema is changed if one of them was restored without gamed: the version before can serve it then."""
        self.later(AUTH, STATE, oldest=False)
        for database in (AUTH, STATE):
            self.rows(
                f"UPDATE {database}.database_identity SET xid = xid"
            )  # by another transaction, as pg_restore does
            self.assertIn(
                f"The schema {database} is a copy, which was restored without gamed.", self.refused("--migrate")
            )
            self.assertEqual(self.migrated(), {AUTH: 0, STATE: 0})
            path = self.environ.pop("PYTHONPATH")
            code, out, err = self.gamed("restored")
            self.assertEqual(code, 0, out + err)
            self.environ["PYTHONPATH"] = path
        process, _ = self.serve("--migrate")
        self.assertEqual(self.migrated(), {AUTH: 1, STATE: 1})
        self.assertEqual(self.stop(process), 0, self.output())

    def test_restored_backup(self) -> None:
        """A backup of the version before is brought to the later one by the restore, and so is a store by `gamed
        restored`."""
        where = self.folder / "kept"
        where.mkdir(mode=0o700)
        made = self.json_of("backup", str(where))["backup"]
        self.later(AUTH, STATE, oldest=False)
        code, out, err = self.gamed("restore", made)
        self.assertEqual(code, 0, out + err)
        self.assertEqual(self.migrated(), {AUTH: 1, STATE: 1})
        self.go_back()
        self.later(AUTH, STATE, oldest=False)
        code, out, err = self.gamed("restored")
        self.assertEqual(code, 0, out + err)
        self.assertEqual(self.migrated(), {AUTH: 1, STATE: 1})
        process, _ = self.serve()
        self.assertEqual([each["name"] for each in self.json_of("players", "list")], ["Anna"])
        self.assertEqual(self.stop(process), 0, self.output())
