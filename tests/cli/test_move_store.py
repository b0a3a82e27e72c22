"""`gamed move-store` moves both databases to PostgreSQL or back with every row, or leaves them as they are."""

import json
import os
import shutil
import signal
import sys
from collections.abc import Mapping
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from types import FrameType
from typing import Any, ClassVar, cast

from gamed.cli.commands import gamed
from gamed.cli.data import store_copy
from gamed.config.settings import DATABASE_NOTE, KeySource
from gamed.database import blob_rows
from gamed.database.connection import AUTH, STATE
from gamed.database.errors import MigrationError
from gamed.database.postgresql import session as postgresql_session
from gamed.database.postgresql.connecting import Connector, SessionKind
from gamed.database.postgresql.migrations import check_schema, prepare_schema
from gamed.database.postgresql.processes import join
from gamed.database.postgresql.session import PlainSession
from gamed.database.postgresql.whole_tables import PostgresqlWholeDatabase
from gamed.database.sqlite import migrations
from gamed.database.sqlite.files import connect, file_uri
from gamed.database.sqlite.offline import run_transaction
from gamed.database.sqlite.store import SqliteStore
from gamed.database.sqlite.whole_tables import SqliteWholeDatabase, tables_in
from gamed.database.table_copy import TableDigest, digest_tables
from gamed.players import keyring
from tests.cli.backup_helpers import BackupCase, command
from tests.cli.test_postgresql import SECRET, PostgresqlTestCase
from tests.database.postgresql.engines import address_of, wall_ms
from tests.sessions.fixtures import ANNA, NOW_MS
from tests.support.databases import prepare_sqlite, unlogged_commands
from tests.support.examples import examples
from tests.support.postgresql import Cluster, cluster

MOMENTS = examples(few=4, many=20)
LAST = 4
"""The last steps are tried each: a commit, and two files that are renamed."""
STEPS = {"commit", "copy_out", "execute", "_put"}
"""The methods of a session whose calls do not depend on the network; copy_out() is called again for each row."""
LOGGED = {"security_event"}
Content = Mapping[str, TableDigest]


class MoveStoreCase(BackupCase):
    """A data folder with rows in both databases, and an empty database of PostgreSQL."""

    own_files: ClassVar[dict[str, bytes]] = {}

    def setUp(self) -> None:
        self.first_files = self.own_files  # type: ignore[misc]  # not the key file's
        super().setUp()
        self.place = cluster().database()
        self.addCleanup(lambda: cluster().drop(self.place.database))
        self.configure()

    def make(self) -> None:
        prepare_sqlite(self.data)
        self.auth(
            lambda connection: keyring.check_key(
                connection, self.keys, KeySource.MASTER, NOW_MS, SqliteStore(data=self.data)
            )
        )
        self.join(ANNA)
        for slot, data in (("auto", b"one"), ("large", os.urandom(100_000)), ("auto", b"two"), ("Zoë", b"\0\xff\n")):
            self.save(slot, data)
        run_transaction(self.data / "state.db", _large_blob)
        self.auth(_login)
        for path in self.data.iterdir():
            self.own_files[path.name] = path.read_bytes()

    def configure(self, **members: str) -> None:
        settings = {"mode": "local", "master_key_env": "GAMED_TEST_KEY", **members}
        self.where.config.write_text(json.dumps(settings))

    def run_command(self, *arguments: str) -> tuple[int, str, str]:
        """Run `gamed move-store`; return the exit code, stdout and stderr."""
        options = ("--config", str(self.where.config), "--data", str(self.data))
        environ = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "GAMED_TEST_KEY": "A" * 43 + "="}
        return command(self.folder / "run", environ, *options, "move-store", *arguments)

    def moved(self, *arguments: str) -> dict[str, object]:
        """Return the result of a move that succeeds."""
        code, out, err = self.run_command(*arguments, "--json")
        self.assertEqual((code, err), (0, ""), out)
        found: dict[str, object] = json.loads(out)
        return found

    def refused(self, *arguments: str, code: int = 1) -> str:
        """Return the error of a move that changes nothing."""
        before = self.content()
        found, out, err = self.run_command(*arguments)
        self.assertEqual((found, out), (code, ""), err)
        self.assertEqual(self.content(), before)
        return err

    def there(self) -> dict[str, object]:
        return self.moved("--to", self.place.url)

    def session(self) -> PlainSession:
        """Return a new session, which ends with the test."""
        kind = SessionKind("test", (AUTH, STATE), lock_ms=20_000, idle_ms=0)
        session = PlainSession(Connector(address_of(self.place), wall_ms).open(kind))
        self.addCleanup(session.close)
        return session

    def schemas(self) -> list[str]:
        query = "SELECT nspname FROM pg_namespace WHERE nspname NOT LIKE 'pg_%' AND nspname <> 'information_schema'"
        return sorted(name for (name,) in cluster().execute(query, self.place.database) if name != "public")

    def content(self, data: Path | None = None, suffix: str = "") -> Content:
        """Return the digests of all tables of the files; none if there are none."""
        found: dict[str, TableDigest] = {}
        for name in (AUTH, STATE):
            path = (data or self.data) / f"{name}.db{suffix}"
            if path.exists():
                with closing(connect(file_uri(path, "rw"))) as connection:
                    found |= digest_tables(
                        SqliteWholeDatabase(connection=connection), tables_in(connection), lambda size: None
                    )
        return found

    def stored(self) -> Content:
        """Return the digests of all tables of the schemas."""
        found: dict[str, TableDigest] = {}
        session = self.session()
        session.rows("BEGIN")
        for name in (AUTH, STATE):
            tables = self.tables(name)
            found |= digest_tables(PostgresqlWholeDatabase(session=session, schema=name), tables, lambda size: None)
        session.close()
        return found

    def tables(self, name: str) -> object:
        with closing(connect(":memory:")) as model:
            migrations.migrate(model, migrations.schema_folder(name))
            return tables_in(model)


def _large_blob(connection: object) -> None:
    """Insert a blob of several parts, and delete the newest one, whose number is not free again."""
    data = os.urandom(600_000)
    blob_id = blob_rows.begin(connection, ANNA, len(data), NOW_MS)
    for n in range(blob_rows.count(len(data))):
        part = data[n * blob_rows.PART_BYTES : (n + 1) * blob_rows.PART_BYTES]
        blob_rows.insert(connection, blob_id, n, part)
    connection.execute("UPDATE blob SET sha256 = ? WHERE blob_id = ?", (sha256(data).digest(), blob_id))
    newest = blob_rows.begin(connection, ANNA, 1, NOW_MS)
    connection.execute("DELETE FROM blob WHERE blob_id = ?", (newest,))


def _login(connection: object) -> None:
    """Insert a login with an attempt."""
    texts = {"login_id": "lgn_1", "stage": "ready", "provider": "local", "client": "{}", "return_proof": "none"}
    texts |= {"instance_id": "", "intent": "login"}
    secrets = dict.fromkeys(("secret_index", "token_index", "address_index"), b"\x01\x00")
    numbers = dict.fromkeys(("created_ms", "expires_ms", "stage_ms", "expires_or_purge_at_ms"), -(2**63))
    values = {**texts, **secrets, **numbers}
    places = ", ".join(f":{name}" for name in values)
    connection.execute(f"INSERT INTO login ({', '.join(values)}) VALUES ({places})", values)
    query = """
        INSERT INTO authorization_attempt
            (number, state_index, attempt_id, login_id, browser_index, provider, status, iss_promised, created_ms)
        VALUES (41, ?, 'att_1', 'lgn_1', ?, 'local', 'open', 0, 0)
    """
    connection.execute(query, (b"1", b"2"))


class RoundTrip(MoveStoreCase):
    def test_there_and_back(self) -> None:
        """All rows are the same in PostgreSQL and, after the way back, in files; the sources stay under other names."""
        before = self.content()
        there = self.there()
        self.assertEqual(unlogged(self.stored()), unlogged(before))
        self.assertEqual([each["rows"] for name, each in there["tables"].items() if name == "player"], [1])
        suffix = there["previous"][0].removeprefix(str(self.data / "auth.db"))
        self.assertEqual(self.content(suffix=suffix), before)
        self.assertEqual(self.content(), {})
        self.configure(store=self.place.url)
        (self.data / DATABASE_NOTE).write_text("{}")
        back = self.moved("--to", "sqlite")
        self.assertFalse((self.data / DATABASE_NOTE).exists())
        self.assertEqual(unlogged(self.content()), unlogged(before))
        self.assertEqual(self.schemas(), back["previous"])
        for name in (AUTH, STATE):
            migrations.check_schema(self.data / f"{name}.db")

    def test_used_afterwards(self) -> None:
        """Triggers, counts and numbers go on in the new place where they ended in the old one."""
        self.there()
        session = self.session()
        [(newest,)] = session.rows("SELECT max(blob_id) FROM blob")
        self.assertEqual(blob_rows.begin(session, ANNA, 1, NOW_MS), newest + 2)
        session.rows("UPDATE login SET stage = 'failed'")
        counts = session.rows("SELECT stage, logins FROM login_count WHERE logins <> 0")
        self.assertEqual(counts, [("failed", 1)])
        columns = "state_index, attempt_id, login_id, browser_index, provider, status, iss_promised, created_ms"
        query = (
            f"INSERT INTO authorization_attempt ({columns}) SELECT '', 'a', login_id, '', '', 'open', 0, 0 FROM login"
        )
        self.assertEqual(session.rows(f"{query} RETURNING number"), [(42,)])
        session.rows("DELETE FROM blob WHERE blob_id = (SELECT max(blob_id) FROM blob)")
        self.configure(store=self.place.url)
        session.close()
        self.moved("--to", "sqlite")
        found = run_transaction(self.data / "state.db", lambda connection: blob_rows.begin(connection, ANNA, 1, NOW_MS))
        self.assertEqual(found, newest + 3)
        self.auth(lambda connection: connection.execute("DELETE FROM login"))
        rows = run_transaction(
            self.data / "auth.db", lambda connection: connection.rows("SELECT sum(logins) FROM login_count")
        )
        self.assertEqual(rows, [(0,)])

    def test_command_is_logged(self) -> None:
        """The move is in the command log of the new place, so that the service logs it."""
        self.there()
        self.assertEqual([command for command, *_ in unlogged_commands(self.session())], ["move-store"])

    def test_text(self) -> None:
        """The command says what was moved, how the previous files are called, and what to write or remove."""
        code, out, err = self.run_command("--to", self.place.url)
        self.assertEqual((code, err), (0, ""))
        self.assertRegex(out, r"^Copied \d+ rows, \d+ KiB, to postgresql:///test\d+")
        self.assertIn(f'"store": {json.dumps(self.place.url)},', out)
        self.assertIn("auth.db.moved-", out)
        self.configure(store=self.place.url)
        code, out, err = self.run_command("--to", "sqlite")
        self.assertEqual((code, err), (0, ""))
        self.assertIn(f"Remove store and store_password_env from {self.where.config}.", out)
        self.assertIn("auth_moved_", out)

    def test_quickly(self) -> None:
        """Moves within one second leave all previous databases, each under its own name."""
        previous: list[str] = []
        for _ in range(2):
            previous += cast("list[str]", self.moved("--to", self.place.url)["previous"])
            self.configure(store=self.place.url)
            previous += cast("list[str]", self.moved("--to", "sqlite")["previous"])
            self.configure()
        self.assertEqual(len(set(previous)), 8)

    def test_again(self) -> None:
        """A run after a complete move says where the databases are: the one before may not have lived to do so."""
        self.moved("--to", self.place.url)
        error = self.refused("--to", self.place.url)
        self.assertIn(f"{self.data} has no databases, and postgresql:", error)
        self.configure(store=self.place.url)
        self.moved("--to", "sqlite")
        error = self.refused("--to", "sqlite")
        self.assertIn(f"{self.data} has auth.db and state.db. If they are this server's,", error)

    def test_password(self) -> None:
        """The password comes from the variable that is named, and is not printed."""
        others = Cluster(tcp=True)
        self.addCleanup(others.close)
        place = others.database(tcp=True)
        options = ("--config", str(self.where.config), "--data", str(self.data))
        environ = {"HOME": str(self.folder), "A_PASSWORD": place.password, "PATH": os.environ["PATH"]}
        arguments = ("move-store", "--to", f"{place.url}", "--password-env", "A_PASSWORD")
        code, out, err = command(self.folder / "run", environ, *options, *arguments)
        self.assertEqual((code, err), (0, ""))
        self.assertIn('"store_password_env": "A_PASSWORD"', out)
        self.assertNotIn(place.password, out + err)


class Refused(MoveStoreCase):
    def test_filled_target(self) -> None:
        """A database that has gamed's schemas is refused, whether it has rows or not; so is a folder with files."""
        session = self.session()
        for name in (AUTH, STATE):
            prepare_schema(session, name, name, print, lambda: None, migrate=False)
        session.close()
        self.assertIn("has databases already", self.refused("--to", self.place.url))
        self.configure(store=self.place.url)
        self.assertIn("has databases already", self.refused("--to", "sqlite"))

    def test_other_tables(self) -> None:
        """A schema of another program is refused."""
        session = self.session()
        session.rows("CREATE SCHEMA auth")
        session.rows("CREATE TABLE auth.theirs (n bigint)")
        session.close()
        self.assertIn("theirs", self.refused("--to", self.place.url, code=78))

    def test_server_runs(self) -> None:
        """A server that uses either side is named; nothing is moved."""
        session = self.session()
        join(session, "a1")
        self.assertIn("Stop all of them", self.refused("--to", self.place.url))

    def test_key_file(self) -> None:
        """Databases with the key file's key need a master key first."""
        self.auth(lambda connection: connection.execute("UPDATE key_record SET source = 'file'"))
        self.assertIn("Set master_key_env", self.refused("--to", self.place.url))
        self.assertEqual(self.schemas(), [])

    def test_damaged_save(self) -> None:
        """A save whose bytes do not have their hash is found before anything is committed."""
        query = "UPDATE blob SET data = ? WHERE data IS NOT NULL"
        run_transaction(self.data / "state.db", lambda connection: connection.execute(query, (b"other",)))
        self.assertIn("damaged bytes", self.refused("--to", self.place.url))
        self.assertEqual(self.schemas(), [])

    def test_arguments(self) -> None:
        """Wrong targets and a second address are refused with the reason."""
        self.assertIn("no store", self.refused("--to", "sqlite"))
        self.assertIn("postgresql://", self.refused("--to", "mysql://here/there", code=2))
        self.configure(store=self.place.url)
        self.assertIn("another store", self.refused("--to", "postgresql://gamed@localhost/other"))

    def test_unreachable(self) -> None:
        """A server that cannot be reached is named without its password."""
        self.assertIn("postgresql:///", self.refused("--to", "postgresql://gamed@/x?host=/nowhere"))

    def test_file_is_missing(self) -> None:
        """A folder without auth.db is refused although an earlier move has left both files: nothing is renamed, whether
        the database is empty or another server's."""
        self.there()
        self.configure(store=self.place.url)
        self.moved("--to", "sqlite")
        self.configure()
        (self.data / "auth.db").unlink()
        before = self.hashes()
        self.assertIn("There is no", self.refused("--to", self.place.url))
        session = self.session()
        for name in (AUTH, STATE):
            prepare_schema(session, name, name, print, lambda: None, migrate=False)
        session.close()
        self.assertIn("There is no", self.refused("--to", self.place.url))
        self.assertEqual(self.hashes(), before)

    def test_database_ends(self) -> None:
        """A move back leaves no files if PostgreSQL ends while they are compared: a start would use them."""
        self.there()
        self.configure(store=self.place.url)
        before, compare = self.stored(), store_copy._compare_files

        def compare_and_end(*arguments: Any) -> None:
            compare(*arguments)
            cluster().end_backends(self.place.database)

        self.patch(store_copy, "_compare_files", compare_and_end)
        code, _, err = self.run_command("--to", "sqlite")
        self.assertEqual(code, 1, err)
        self.assertIn("cannot be used now", err)
        self.assertEqual([name for name in os.listdir(self.data) if name in {"auth.db", "state.db"}], [])
        self.assertEqual((self.stored(), self.schemas()), (before, ["auth", "state"]))

    def hashes(self) -> dict[str, str]:
        """Return the hashes of the databases in the folder, and of those that were moved away."""
        return {
            path.name: sha256(path.read_bytes()).hexdigest() for path in self.data.glob("*.db*") if path.stat().st_size
        }

    def test_start_in_the_old_place(self) -> None:
        """Neither side begins empty databases after they were moved away."""
        self.there()
        with self.assertRaises(MigrationError) as caught:
            migrations.check_schema(self.data / "auth.db")
        self.assertIn("auth.db.moved-", str(caught.exception))
        self.configure(store=self.place.url)
        self.moved("--to", "sqlite")
        with self.assertRaises(MigrationError):
            check_schema(self.session(), AUTH, "schema auth")
        migrations.check_schema(self.data / "auth.db")


class Served(PostgresqlTestCase):
    """Real servers before and after moves."""

    def serve_once(self) -> tuple[str, object]:
        """Start and stop a server; return the id of the store, and the players."""
        process, port = self.serve()
        store_id = self.ask(port, "GET", "/healthz")[2]["Gamed-Store"]
        players = self.json_of("players", "list")
        self.assertEqual(self.stop(process), 0, self.output())
        return store_id, players

    def use_sqlite(self) -> None:
        self.config.write_text(json.dumps({"mode": "local", "master_key_env": "GAMED_MASTER_KEY"}))

    def test_served(self) -> None:
        """A server has the same players and name wherever it was moved to, and does not start in the old place."""
        self.use_sqlite()
        process, _ = self.serve()
        code, _, err = self.gamed("players", "add", "Anna", "--password-stdin", stdin=SECRET)
        self.assertEqual((code, err), (0, ""))
        self.assertIn("Stop it first", self.gamed("move-store", "--to", self.address.url)[2])
        self.assertEqual(self.stop(process), 0, self.output())
        before = self.serve_once()
        for _ in range(2):
            self.use_sqlite()
            self.json_of("move-store", "--to", self.address.url)
            code, _, err = self.gamed("serve", "--listen", "tcp:0:interface=127.0.0.1")
            self.assertEqual(code, 78)
            self.assertIn("was moved to PostgreSQL", err)
            self.configure(self.address)
            self.assertEqual(self.serve_once(), before)
            self.json_of("move-store", "--to", "sqlite")
            code, _, err = self.gamed("serve", "--listen", "tcp:0:interface=127.0.0.1")
            self.assertEqual(code, 78)
            self.assertIn("was moved to SQLite", err)
        self.use_sqlite()
        self.assertEqual(self.serve_once(), before)

    def test_living_server(self) -> None:
        """Nothing is moved away from a server that runs with another data folder."""
        process, _ = self.serve()
        others = self.data.with_name("others")
        others.mkdir()
        code, _, err = self.gamed("--data", str(others), "move-store", "--to", "sqlite")
        self.assertEqual(code, 1)
        self.assertIn("Stop all of them", err)
        self.assertEqual(self.stop(process), 0, self.output())


class Killed(MoveStoreCase):
    """kill -9 of the command: the source is as it was, or the target has everything and the next run finishes."""

    def run_until(self, moment: int, *arguments: str, by: signal.Signals = signal.SIGKILL) -> int:
        """Run the command in a fork, which gets a signal at this step; return the step at which it ended."""
        steps = self.folder / "steps"
        steps.unlink(missing_ok=True)
        child = os.fork()
        if child == 0:
            self._count_steps(moment, steps, arguments, by)
        _, status = os.waitpid(child, 0)
        cluster().end_backends(self.place.database)  # at once, not when the server notices the end of its client
        if os.WIFSIGNALED(status):
            return moment
        self.assertEqual(os.waitstatus_to_exitcode(status), 0 if by is signal.SIGKILL else 130)
        return int(steps.read_text())

    def _count_steps(self, moment: int, steps: Path, arguments: tuple[str, ...], by: signal.Signals) -> None:
        """Run the command; its steps are the calls of its session, and the renamed files."""
        done, watched, code = 0, postgresql_session.__file__, 70

        def step() -> None:
            nonlocal done
            done += 1
            if done == moment:
                os.kill(os.getpid(), by)

        def called(frame: FrameType, event: str, _: object) -> None:
            if event == "call" and frame.f_code.co_filename == watched and frame.f_code.co_name in STEPS:
                step()

        try:
            for number in (1, 2):
                os.dup2(os.open(os.devnull, os.O_WRONLY), number)
            signal.signal(signal.SIGINT, signal.default_int_handler)  # the test's own process may have a reactor's
            sys.addaudithook(lambda event, _: step() if event == "os.rename" else None)
            sys.setprofile(called)
            gamed(["--config", str(self.where.config), "--data", str(self.data), "move-store", *arguments], obj=False)
        except SystemExit as e:
            code = int(e.code or 0)
        sys.setprofile(None)
        steps.write_text(str(done))
        os._exit(code)

    def moments(self, steps: int) -> list[int]:
        """Return steps of the whole run, and the last ones."""
        return sorted({1 + steps * n // MOMENTS for n in range(MOMENTS)} | {steps - n for n in range(LAST)})

    def test_to_postgresql(self) -> None:
        """The files are as they were until PostgreSQL has everything; then the next run renames them."""
        before = self.content()
        ends = []
        for moment in self.moments(self.run_until(0, "--to", self.place.url)):
            self.begin_again()
            self.run_until(moment, "--to", self.place.url)
            ends.append(self.content() == before)
            if "auth" not in self.schemas():
                self.assertTrue(ends[-1])
            if ends[-1] or (self.data / "state.db").exists():
                self.there()
            self.assertEqual(unlogged(self.stored()), unlogged(before))
            names = {path.name for path in self.data.glob("*.db*") if path.suffix != ".lock"}
            self.assertEqual({name[:15] for name in names}, {"auth.db.moved-2", "state.db.moved-"})
            self.assertEqual(len({name.rpartition("-")[2] for name in names}), 1)
        self.assertEqual(ends, sorted(ends, reverse=True))
        self.assertEqual((ends[0], ends[-1]), (True, False))

    def test_interrupted(self) -> None:
        """Ctrl-C leaves both sides as they were, and nothing beside them."""
        before, names = self.content(), {path.name for path in self.data.iterdir()}
        steps = self.run_until(0, "--to", self.place.url)
        self.begin_again()
        self.run_until(steps // 2, "--to", self.place.url, by=signal.SIGINT)
        self.assertEqual((self.content(), self.schemas()), (before, []))
        self.there()
        self.configure(store=self.place.url)
        stored = self.stored()
        self.run_until(steps // 4, "--to", "sqlite", by=signal.SIGINT)
        self.assertEqual((self.stored(), self.content(), self.schemas()), (stored, {}, ["auth", "state"]))
        left = {path.name for path in self.data.iterdir() if ".moved-" not in path.name}
        self.assertEqual(left - names, {"gamed.lock", "maintenance.lock"} & left)

    def begin_again(self) -> None:
        """Begin with the first content of the folder, and an empty database."""
        cluster().drop(self.place.database)
        shutil.rmtree(self.data)
        self.data.mkdir(mode=0o700)
        for name, content in self.own_files.items():
            (self.data / name).write_bytes(content)
        self.place = cluster().database()

    def test_to_sqlite(self) -> None:
        """The schemas are as they were until the folder has everything; then the next run renames them."""
        before = self.content()
        self.there()
        self.configure(store=self.place.url)
        ends = []
        for moment in self.moments(self.run_until(0, "--to", "sqlite")):
            self.go_there()
            self.run_until(moment, "--to", "sqlite")
            ends.append("auth" in self.schemas())
            if ends[-1]:
                self.assertEqual(unlogged(self.stored()), unlogged(before))
                self.moved("--to", "sqlite")
            self.assertEqual(unlogged(self.content()), unlogged(before))
            self.assertNotIn("auth", self.schemas())
            self.assertFalse((self.data / "restore.new").exists())
        self.assertEqual(ends, sorted(ends, reverse=True))
        self.assertTrue(ends[0])

    def go_there(self) -> None:
        """Move everything to an empty database, without leaving other names."""
        for schema in self.schemas():
            cluster().execute(f"DROP SCHEMA {schema} CASCADE", self.place.database)
        self.there()
        for path in self.data.glob("*.moved-*"):
            path.unlink()


def unlogged(content: Content) -> Content:
    """Return the digests without the tables in which the move itself is noted."""
    return {name: each for name, each in content.items() if name not in LOGGED}
