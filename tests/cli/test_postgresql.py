"""`gamed serve` and the commands with the databases on a real PostgreSQL server."""

import json
import re
import time
from base64 import b64encode
from collections.abc import Callable, Mapping
from http.client import HTTPConnection
from typing import Any

import psycopg

from gamed.cli.service.prepare import STORE_SECONDS
from gamed.config.settings import DATABASE_NOTE
from gamed.database.backup_format import stamp
from gamed.database.postgresql.processes import IN_USE, STORE
from tests.cli.process import (
    GAMED,
    ROOT,
    TWISTD,
    WAIT_SECONDS,
    CommandTestCase,
    end_daemon,
    free_port,
    get,
    without_root_warning,
)
from tests.cli.test_clock import SHIFTED
from tests.support import forks
from tests.support.postgresql import PASSWORD, Address, Cluster, cluster

KEY = b64encode(bytes(range(32))).decode()
SECRET = "correct horse battery"
SCHEMAS = "SELECT nspname FROM pg_namespace WHERE nspname IN ('auth', 'state')"


class PostgresqlTestCase(CommandTestCase):
    """Each test has an empty database, and a configuration that names it."""

    def setUp(self) -> None:
        super().setUp()
        self.address = cluster().database()
        self.addCleanup(cluster().drop, self.address.database)
        self.environ = {"GAMED_MASTER_KEY": KEY}
        self.configure(self.address)

    def configure(self, address: Address, **more: object) -> None:
        members = {"mode": "local", "master_key_env": "GAMED_MASTER_KEY", "store": address.url, **more}
        self.config.write_text(json.dumps(members))

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return cluster().execute(sql, self.address.database)

    def until(self, happened: Callable[[], bool]) -> None:
        deadline = time.monotonic() + WAIT_SECONDS
        while not happened():
            self.assertLess(time.monotonic(), deadline, self.output())
            time.sleep(0.05)

    def ask(
        self, port: int, method: str, path: str, token: str = "", body: bytes | None = None, **headers: str
    ) -> tuple[int, bytes, Mapping[str, str]]:
        connection = HTTPConnection("127.0.0.1", port, timeout=WAIT_SECONDS)
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        if token:
            fields["Authorization"] = f"Bearer {token}"
        connection.request(method, path, body, fields)
        answer = connection.getresponse()
        found = answer.status, answer.read(), dict(answer.getheaders())
        connection.close()
        return found

    def json_of(self, *arguments: str, stdin: str = "") -> Any:
        code, out, err = self.gamed(*arguments, "--json", stdin=stdin)
        self.assertEqual((code, err), (0, ""), (arguments, out))
        return json.loads(out)


class ServingTests(PostgresqlTestCase):
    def test_first_start(self) -> None:
        """Make both schemas in an empty database, show the address without the user, and stop cleanly."""
        process, port = self.serve()
        self.assertEqual(get(port, "/auth/config"), (200, b'{"mode":"local","providers":[]}'))
        self.assertEqual(self.stop(process), 0, self.output())
        self.assertIn(f"store postgresql:///{self.address.database}?host={self.address.host}", self.output())
        self.assertNotIn("Traceback", self.output())
        names = {name for (name,) in self.rows(SCHEMAS)}
        self.assertEqual(names, {"auth", "state"})
        self.assertEqual({path.name for path in self.data.iterdir()} & {"auth.db", "state.db", "auth.key"}, set())

    def test_second_start(self) -> None:
        """Keep everything over a restart, and have the same store id; --migrate has nothing to do."""
        ids = []
        for options in ((), ("--migrate",)):
            process, port = self.serve(*options)
            ids.append(self.ask(port, "GET", "/healthz")[2]["Gamed-Store"])
            self.assertEqual(self.stop(process), 0, self.output())
        self.assertEqual(ids[0], ids[1])
        self.assertTrue(ids[0])

    def test_lost_saves(self) -> None:
        """A start that makes the schema `state` again says so."""
        for lost in (False, True):
            process, _ = self.serve()
            self.assertEqual(self.stop(process), 0)
            self.assertEqual("There was no schema state of postgresql:" in self.output(), lost)
            self.rows("DROP SCHEMA state CASCADE")

    def test_admin(self) -> None:
        """Metrics and the owner's page have PostgreSQL's version and the sizes of both schemas."""
        admin = free_port()
        process, _ = self.serve("--admin", f"tcp:{admin}:interface=127.0.0.1")
        self.assertEqual(get(admin, "/readyz"), (200, b"ok"))
        metrics, page = (get(admin, path)[1].decode() for path in ("/metrics", "/"))
        self.assertRegex(metrics, r'gamed_build_info\{postgresql="[0-9.]+",')
        self.assertRegex(page, r"PostgreSQL</dt><dd>[0-9.]+<")
        for name in ("schema auth", "schema state"):
            self.assertRegex(page, f"<dt lang=.en.>{name}</dt><dd>[0-9]+ KiB")
        self.assertEqual(self.stop(process), 0, self.output())


class EmptyTests(PostgresqlTestCase):
    """A database that no server has used yet."""

    def test_commands(self) -> None:
        """Commands make nothing there, name the missing schema, and say how to begin."""
        for command in (("players", "list"), ("players", "token", "anna"), ("saves", "stats"), ("events",)):
            code, out, err = self.gamed(*command)
            self.assertEqual((code, out), (1, ""), command)
            self.assertRegex(err, f"^gamed: There is no schema (auth|state) of .*{self.address.database}")
            self.assertIn("start the service once: gamed serve", err)
        self.assertEqual(self.rows(SCHEMAS), [])

    def test_doctor(self) -> None:
        """The doctor compares the key with nothing, and names what is missing."""
        self.data.mkdir(mode=0o700)
        found = {each["check"]: each for each in json.loads(self.gamed("doctor", "--json")[1])["findings"]}
        missing = [found[name]["level"] for name in ("schema auth", "schema state", "key")]
        self.assertEqual(missing, ["skipped"] * 3)
        self.assertIn("there is no schema auth yet", found["key"]["text"])

    def test_doctor_beside_another_program(self) -> None:
        """The doctor names a schema of another program, and its other findings are there."""
        self.data.mkdir(mode=0o700)
        self.rows("CREATE SCHEMA auth")
        self.rows("CREATE TABLE auth.theirs ()")
        code, out, _ = self.gamed("doctor", "--json")
        self.assertEqual(code, 1, out)
        found = {each["check"]: each for each in json.loads(out)["findings"]}
        levels = [found[name]["level"] for name in ("configuration", "disk", "schema auth", "key")]
        self.assertEqual(levels, ["ok", "ok", "problem", "skipped"])
        self.assertIn("has the table theirs, but is not gamed's", found["schema auth"]["text"])


class RefusedTestCase(PostgresqlTestCase):
    """Each refused start ends with 78, in one sentence that names the reason, and without the password."""

    def refused(self) -> str:
        code, out, err = self.gamed("serve", f"--listen=tcp:{free_port()}:interface=127.0.0.1")
        self.assertEqual((code, "Traceback" in err), (78, False), out + err)
        self.assertNotIn(PASSWORD, out + err)
        return err


class RefusalTests(RefusedTestCase):
    def test_missing_database(self) -> None:
        """A database that does not exist is named."""
        self.configure(cluster().address("nowhere"))
        self.assertIn('database "nowhere" does not exist', self.refused())

    def test_unknown_user(self) -> None:
        """A role that does not exist is named."""
        self.configure(cluster().address(self.address.database, user="stranger"))
        self.assertIn('role "stranger" does not exist', self.refused())

    def test_missing_privilege(self) -> None:
        """The error for a user who may not create schemas names what the administrator has to grant."""
        cluster().execute(f"ALTER DATABASE {self.address.database} OWNER TO postgres")
        self.assertIn("GRANT CREATE ON DATABASE", self.refused())

    def test_other_tables(self) -> None:
        """A schema of another program stays as it is."""
        self.rows("CREATE SCHEMA auth CREATE TABLE customer (n int)")
        self.rows("GRANT ALL ON SCHEMA auth TO gamed")
        self.assertIn("has the table customer, but is not gamed's", self.refused())
        self.assertEqual(self.rows("SELECT count(*) FROM auth.customer"), [(0,)])

    def test_another_key(self) -> None:
        """A store that is written with another master key is refused, and the commands refuse it, too."""
        process, _ = self.serve()
        self.stop(process)
        self.environ["GAMED_MASTER_KEY"] = b64encode(bytes(range(1, 33))).decode()
        self.assertIn("written with another key", self.refused())
        code, _, err = self.gamed("players", "list")
        self.assertEqual(code, 78)
        self.assertIn("written with another key", err)

    def test_lost_key(self) -> None:
        """The advice for a lost key is right: with the schema renamed, a server with a new key begins anew."""
        process, _ = self.serve()
        self.stop(process)
        self.environ["GAMED_MASTER_KEY"] = b64encode(bytes(range(1, 33))).decode()
        err = self.refused()
        self.assertIn(f"gamed: schema auth of postgresql:///{self.address.database}", err)
        self.assertNotIn("auth.db", err)
        [statement] = re.findall(r"rename that schema \((.+?)\) and start again", err)
        self.rows(statement)
        process, _ = self.serve()
        self.assertEqual(self.stop(process), 0, self.output())
        self.assertEqual(self.rows("SELECT count(*) FROM auth_aside.key_record"), [(1,)])

    def test_empty_database(self) -> None:
        """Where the folder shows that the server had another database, an empty one is refused; `auth` alone may be
        missing, as after a lost key."""
        process, _ = self.serve()
        note = self.data / DATABASE_NOTE
        self.until(note.exists)
        self.stop(process)
        noted = note.read_bytes()
        empty = cluster().database()
        self.addCleanup(cluster().drop, empty.database)
        self.configure(empty)
        err = self.refused()
        self.assertIn(f"{note} shows that this server has used a database", err)
        self.assertEqual(cluster().execute(SCHEMAS, empty.database), [])
        self.assertEqual(note.read_bytes(), noted)
        self.configure(self.address)
        self.rows("ALTER SCHEMA auth RENAME TO auth_aside")
        process, _ = self.serve()
        self.assertEqual(self.stop(process), 0, self.output())

    def test_another_schema(self) -> None:
        """A schema of a newer gamed, and one that was changed by hand, are refused."""
        process, _ = self.serve()
        self.stop(process)
        self.rows(
            "INSERT INTO auth.schema_version SELECT 99, 99, script, contents FROM auth.schema_version"
            " ORDER BY number DESC LIMIT 1"
        )
        self.assertIn("is newer than this gamed", self.refused())
        self.rows("DELETE FROM auth.schema_version WHERE number = 99")
        self.rows("ALTER TABLE state.save DROP COLUMN deleted_ms")
        self.assertIn("its column save.deleted_ms is missing or differs", self.refused())

    def test_files_instead(self) -> None:
        """An empty store is refused while the data folder has the files of this server."""
        members = json.loads(self.config.read_text())
        self.config.write_text(json.dumps({"mode": "local", "master_key_env": "GAMED_MASTER_KEY"}))
        process, _ = self.serve()
        self.stop(process)
        self.config.write_text(json.dumps(members))
        self.assertIn("gamed move-store", self.refused())
        code, _, err = self.gamed("players", "list")
        self.assertEqual(code, 1)
        self.assertIn("gamed move-store", err)
        self.assertEqual(self.rows("SELECT 1 FROM pg_namespace WHERE nspname = 'auth'"), [])
        self.data.rename(self.folder / "one")
        self.data.mkdir(0o700)
        (self.folder / "one").rename(self.data / "one")
        self.assertIn(f"but {self.data / 'one'} has a server", self.refused())
        self.assertEqual(self.rows("SELECT 1 FROM pg_namespace WHERE nspname = 'auth'"), [])


class ServerTests(RefusedTestCase):
    """The server is one of this test's own, which it stops and starts."""

    def setUp(self) -> None:
        CommandTestCase.setUp(self)
        self.cluster = Cluster(tcp=True)
        self.addCleanup(self.cluster.close)
        self.address = self.cluster.database(tcp=True)
        self.environ = {"GAMED_MASTER_KEY": KEY, "STORE_PASSWORD": PASSWORD}
        self.configure(self.address, store_password_env="STORE_PASSWORD")

    def test_password(self) -> None:
        """A wrong or missing password is refused at once; a right one is accepted."""
        process, _ = self.serve()
        self.assertEqual(self.stop(process), 0)
        self.assertNotIn(PASSWORD, self.output())
        self.environ["STORE_PASSWORD"] = "wrong"
        self.assertIn("password authentication failed", self.refused())
        self.configure(self.address)
        self.assertIn("no password supplied", self.refused())

    def test_late_server(self) -> None:
        """A start waits for a server that is not up yet; a command reports it at once, with 1."""
        self.cluster.stop()
        port = free_port()
        process = self.start(*GAMED, *self.places, "serve", f"--listen=tcp:{port}:interface=127.0.0.1")
        self.await_output("waiting for the database")
        code, _, err = self.gamed("saves", "stats")
        self.assertEqual((code, "Connection refused" in err), (1, True), err)
        self.cluster.start()
        self.await_answer(port, process)
        self.assertEqual(self.stop(process), 0)


class ClockTests(PostgresqlTestCase):
    """The clock of gamed's machine is wrong, as one without a clock chip is before NTP has set it."""

    def setUp(self) -> None:
        super().setUp()
        (self.folder / "sitecustomize.py").write_text(SHIFTED)
        self.mark = self.folder / "clock"
        self.environ |= {"PYTHONPATH": f"{self.folder}:{ROOT}", "CLOCK_SET": str(self.mark)}
        self.mark.write_text("-86400")
        self.port = free_port()
        self.command = ("serve", f"--listen=tcp:{self.port}:interface=127.0.0.1")

    def test_set_meanwhile(self) -> None:
        """A start waits until the clock is set, and then serves."""
        process = self.start(*GAMED, *self.places, *self.command)
        self.await_output("The clocks of gamed and PostgreSQL differ by 86400 seconds")
        self.assertIn("waiting for the database", self.output())
        part = self.folder / "part"
        part.write_text("0")
        part.replace(self.mark)
        self.await_answer(self.port, process)
        self.assertEqual(self.stop(process), 0)

    def test_not_set(self) -> None:
        """A start whose clock stays wrong ends with 1 after half a minute: systemd starts it again."""
        began = time.monotonic()
        code, out, err = self.gamed(*self.command)
        self.assertEqual((code, "Traceback" in err), (1, False), out + err)
        self.assertIn("Set both by the same time server", err)
        self.assertGreater(time.monotonic() - began, STORE_SECONDS)


class MachinesTests(PostgresqlTestCase):
    """Each machine has a data folder of its own; all use one database."""

    def start_machine(self, name: str, *options: str) -> tuple[forks.Process, int]:
        self.data = self.folder / name
        return self.serve(*options)

    def test_two_machines(self) -> None:
        """Two servers with folders of their own are one: an account made at one plays at both."""
        (first, port), (second, other) = (self.start_machine(name) for name in ("here", "there"))
        self.json_of("players", "add", "Anna", "--password-stdin", stdin=SECRET)
        token = self.json_of("players", "token", "Anna")["access_token"]
        self.assertEqual(self.ask(port, "PUT", "/game/saves/world", token, b"one", If_None_Match="*")[0], 201)
        self.assertEqual(self.ask(other, "GET", "/game/saves/world", token)[:2], (200, b"one"))
        stores = [self.ask(each, "GET", "/healthz")[2]["Gamed-Store"] for each in (port, other)]
        self.assertEqual(len(set(stores)), 1)
        self.json_of("players", "block", "Anna")
        self.assertEqual([get(each, "/game/saves", token)[0] for each in (port, other)], [403, 403])
        self.assertEqual([self.stop(each) for each in (first, second)], [0, 0])

    def test_at_the_same_moment(self) -> None:
        """Two machines that start an empty store at the same time agree on one key record."""
        ports = [free_port(), free_port()]
        started = [
            self.start(*GAMED, "--config", str(self.config), "--data", str(self.folder / str(port)), "serve", listen)
            for port in ports
            for listen in [f"--listen=tcp:{port}:interface=127.0.0.1"]
        ]
        for port, process in zip(ports, started, strict=True):
            self.await_answer(port, process)
        self.assertEqual(self.rows("SELECT count(*) FROM auth.key_record"), [(1,)])
        self.assertEqual([self.stop(process) for process in started], [0, 0])

    def test_repairs_need_all_machines_stopped(self) -> None:
        """`check data --fix` is refused while a server of another machine uses the database."""
        process, _ = self.start_machine("here")
        self.data = self.folder / "there"
        self.data.mkdir()
        code, _, err = self.gamed("check", "data", "--fix")
        self.assertEqual((code, "on every machine" in err), (1, True), err)
        self.stop(process)
        self.rows("INSERT INTO state.player_saves (player_id, epoch, seq, slots) VALUES ('ply_A', 'e', 1, 7)")
        self.assertEqual(self.json_of("check", "data", "--fix"), {"errors": [], "repaired": 1})

    def test_a_start_beside_such_a_command(self) -> None:
        """A start waits for the end of a command that needs the database alone."""
        self.stop(self.serve()[0])
        with psycopg.connect(self.address.conninfo, autocommit=True) as other:
            other.execute(f"SELECT pg_advisory_lock({STORE}, {IN_USE})")
            port = free_port()
            process = self.start(*GAMED, *self.places, "serve", f"--listen=tcp:{port}:interface=127.0.0.1")
            self.await_output("A command of gamed works on the databases")
        self.await_answer(port, process)
        self.assertEqual(self.stop(process), 0)

    def test_workers(self) -> None:
        """Several workers of one machine share its folder and the database."""
        process, port = self.serve("--workers", "2")
        self.json_of("players", "add", "Anna", "--password-stdin", stdin=SECRET)
        token = self.json_of("players", "token", "Anna")["access_token"]
        for number in range(8):
            self.assertEqual(self.ask(port, "PUT", f"/game/saves/{number}", token, b"x", If_None_Match="*")[0], 201)
        self.assertEqual(self.stop(process), 0, self.output())

    def test_daemon(self) -> None:
        """`twistd gamed serve` forks after the databases were prepared, and has connections of its own."""
        port = free_port()
        arguments = ("gamed", "serve", *self.places, f"--listen=tcp:{port}:interface=127.0.0.1")
        code, _, err = self.run_command(*arguments, of=TWISTD)
        self.assertEqual((code, without_root_warning(err)), (0, ""))
        pid = int((self.folder / "twistd.pid").read_text())
        self.addCleanup(end_daemon, pid)
        self.await_answer(port)
        self.assertEqual(self.gamed("health"), (0, "ok\n", ""))

    def test_move(self) -> None:
        """`move-data` moves the configuration and the folder; the databases stay where they are."""
        process, _ = self.serve()
        self.json_of("players", "add", "Anna", "--password-stdin", stdin=SECRET)
        self.stop(process)
        folder = self.folder / "new"
        self.json_of("move-data", str(folder))
        self.config, self.data = folder / "authentication.json", folder / "data"
        process, _ = self.serve()
        self.assertEqual(len(self.json_of("players", "list")), 1)
        self.stop(process)


class AnotherStoreTests(PostgresqlTestCase):
    """A second server of a data folder, whose configuration names another store than that of the first."""

    def refused_beside(self, *configured: Address | None) -> None:
        """Check that each of these stores is refused beside a server; None stands for SQLite's files."""
        process, _ = self.serve("--share")
        for address in configured:
            self.use(address)
            code, _, err = self.gamed("serve", "--share", f"--listen=tcp:{free_port()}:interface=127.0.0.1")
            self.assertEqual(code, 1, err)
            self.assertIn(f"Other servers of {self.data} use another store than ", err)
        self.stop(process)

    def use(self, address: Address | None) -> None:
        if address is None:
            self.config.write_text(json.dumps({"mode": "local", "master_key_env": "GAMED_MASTER_KEY"}))
        else:
            self.configure(address)

    def served(self) -> Address:
        """Return the address of a database that a server of another folder has used."""
        address, own = cluster().database(), self.data
        self.addCleanup(cluster().drop, address.database)
        self.use(address)
        self.data = self.folder / "elsewhere"
        self.stop(self.serve()[0])
        self.data = own
        return address

    def test_beside_postgresql(self) -> None:
        """An empty database, a used one, and SQLite's files are refused; a restart of all servers may change it."""
        empty, used = cluster().database(), self.served()
        self.addCleanup(cluster().drop, empty.database)
        self.use(self.address)
        self.refused_beside(empty, used, None)
        self.use(used)
        first, second = self.serve("--share")[0], self.serve("--share")[0]
        self.assertEqual([self.stop(each) for each in (first, second)], [0, 0])

    def test_beside_files(self) -> None:
        """A database of PostgreSQL is refused beside a server of SQLite's files."""
        used = self.served()
        self.use(None)
        self.refused_beside(used)


class StateTests(PostgresqlTestCase):
    def test_damaged(self) -> None:
        """A damaged page stops all writes of saves; the log names what to copy before a repair, the server's files."""
        process, port = self.serve()
        self.json_of("players", "add", "Anna", "--password-stdin", stdin=SECRET)
        token = self.json_of("players", "token", "Anna")["access_token"]
        raised = "RAISE EXCEPTION 'invalid page in block 7' USING ERRCODE = 'data_corrupted'"
        self.rows(f"CREATE FUNCTION read_page() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {raised}; END $$")
        self.rows("CREATE TRIGGER read_page BEFORE INSERT ON state.save_version EXECUTE FUNCTION read_page()")
        for _ in range(2):
            status, body, _ = self.ask(port, "PUT", "/game/saves/world", token, b"one", If_None_Match="*")
            self.assertEqual((status, json.loads(body)["code"]), (503, "store_unavailable"))
        self.assertEqual(self.stop(process), 0)
        [line] = [line for line in self.output().splitlines() if "database_damaged" in line]
        self.assertIn("copy the files of the database server as they are", line)
        self.assertNotIn("data folder", line)

    def test_dropped(self) -> None:
        """Dropping `state` deletes the saves alone: a running server signs in as before, and the next start makes it.

        Meanwhile `/game/` answers 503 with the code store_unavailable.
        """
        process, port = self.serve("--admin", f"tcp:{(admin := free_port())}:interface=127.0.0.1")
        self.json_of("players", "add", "Anna", "--password-stdin", stdin=SECRET)
        token = self.json_of("players", "token", "Anna")["access_token"]
        self.assertEqual(self.ask(port, "PUT", "/game/saves/world", token, b"one", If_None_Match="*")[0], 201)
        self.rows("DROP SCHEMA state CASCADE")
        status, body, _ = self.ask(port, "GET", "/game/saves", token)
        self.assertEqual((status, json.loads(body)["code"]), (503, "store_unavailable"))
        self.assertIn("The server cannot open the database this is kept in.", json.loads(body)["detail"])
        self.assertEqual(get(port, "/auth/sessions", token)[0], 200)
        self.json_of("players", "token", "Anna")
        status, body = get(admin, "/readyz")
        self.assertEqual((status, b"schema state does not answer" in body, b"auth" in body), (503, True, False), body)
        self.assertEqual(self.stop(process), 0)

        process, port = self.serve()
        self.assertEqual(get(port, "/game/saves", token)[0], 200)
        self.assertEqual(self.stop(process), 0)

    def test_not_allowed(self) -> None:
        """A `state` that the user may not use prevents no start: players can sign in."""
        self.stop(self.serve()[0])
        self.rows("ALTER SCHEMA state OWNER TO postgres")
        code, _, err = self.gamed("saves", "stats")
        self.assertEqual((code, "permission denied for schema state" in err), (78, True), err)
        port = free_port()
        process = self.start(*GAMED, *self.places, "serve", f"--listen=tcp:{port}:interface=127.0.0.1")
        self.await_output("service_started")
        self.json_of("players", "add", "Anna", "--password-stdin", stdin=SECRET)
        token = self.json_of("players", "token", "Anna")["access_token"]
        self.assertEqual([get(port, path, token)[0] for path in ("/auth/sessions", "/game/saves")], [200, 503])
        self.assertEqual(self.stop(process), 0)
        self.assertIn("database_unavailable database=state", self.output())


class CheckTests(PostgresqlTestCase):
    """`check data` and `doctor` on a database with one player and two saves, without a server."""

    def setUp(self) -> None:
        super().setUp()
        process, port = self.serve()
        self.json_of("players", "add", "Anna", "--password-stdin", stdin=SECRET)
        token = self.json_of("players", "token", "Anna")["access_token"]
        for name, body in (("small", b"one"), ("large", b"x" * 300_000)):
            self.assertEqual(self.ask(port, "PUT", f"/game/saves/{name}", token, body, If_None_Match="*")[0], 201)
        self.stop(process)

    def errors(self) -> list[str]:
        code, out, err = self.gamed("check", "data", "--json")
        found: list[str] = json.loads(out)["errors"]
        self.assertEqual(code, int(bool(found)), err)
        return found

    def test_without_errors(self) -> None:
        """Without errors the exit code is 0; the text names what indexes need: amcheck."""
        self.assertEqual(self.errors(), [])
        code, out, err = self.gamed("check", "data")
        self.assertEqual((code, err), (0, ""))
        self.assertRegex(out, "^no errors\nThe contents of indexes were not checked: .*amcheck")

    def test_indexes(self) -> None:
        """With amcheck, and the permission to use it, indexes are checked, too."""
        self.rows("CREATE EXTENSION amcheck")
        self.assertIn("amcheck", self.gamed("check", "data")[1])
        self.rows("GRANT EXECUTE ON FUNCTION bt_index_check(regclass, boolean) TO gamed")
        self.assertEqual(self.gamed("check", "data"), (0, "no errors\n", ""))
        # Another order under an index, as after an update of the C library.
        self.rows("DROP INDEX IF EXISTS state.of_sizes")
        self.rows("CREATE FUNCTION state.turned(n bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS 'SELECT n'")
        self.rows("CREATE INDEX of_sizes ON state.save_version (state.turned(size))")
        self.rows(
            "CREATE OR REPLACE FUNCTION state.turned(n bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS 'SELECT -n'"
        )
        [error] = self.errors()
        self.assertRegex(error, "^schema state: index of_sizes: heap tuple .* Run: REINDEX INDEX state.of_sizes$")

    def test_references(self) -> None:
        """Rows that refer to missing rows are counted, by their table."""
        self.rows("ALTER TABLE auth.session DISABLE TRIGGER ALL")
        self.rows("UPDATE auth.session SET player_id = 'ply_gone'")
        self.rows("ALTER TABLE auth.session ENABLE TRIGGER ALL")
        self.assertEqual(self.errors(), ["schema auth: 1 rows of session refer to missing rows of player"])

    def test_damaged_bytes(self) -> None:
        """Changed bytes of a small and of a large save are found by their hashes."""
        self.rows("UPDATE state.blob SET data = 'two' WHERE data IS NOT NULL")
        self.rows("UPDATE state.blob_part SET data = set_byte(data, 9, 9) WHERE n = 1")
        self.assertEqual(sorted(error.split()[-2] for error in self.errors()), ["large", "small"])

    def test_wrong_counts(self) -> None:
        """Wrong counts are found, and repaired with --fix."""
        self.rows("UPDATE state.player_saves SET kept_bytes = 99")
        self.rows("UPDATE state.blob SET refs = 7")
        self.assertEqual(len(self.errors()), 3)
        self.assertEqual(self.json_of("check", "data", "--fix"), {"errors": [], "repaired": 3})

    def test_doctor(self) -> None:
        """`doctor` names the server's version, its promises, its connections and its standbys."""
        code, out, err = self.gamed("doctor", "--json")
        found = {each["check"]: each for each in json.loads(out)["findings"]}
        self.assertEqual((code, err), (0, ""), out)
        self.assertRegex(found["store"]["text"], "^PostgreSQL [0-9.]+ answers; fsync, .* are on")
        self.assertRegex(found["connections"]["text"], "^[0-9]+ of [0-9]+ connections")
        self.assertEqual({found[name]["level"] for name in ("schema auth", "schema state", "key")}, {"ok"})
        self.assertEqual(found["key"]["text"], "the master key fits schema auth")
        self.rows("UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'auth.session_player'::regclass")
        code, out, _ = self.gamed("doctor", "--json")
        found = {each["check"]: each for each in json.loads(out)["findings"]}
        self.assertEqual((code, found["schema auth"]["level"]), (1, "problem"))
        self.assertIn("session_player is not valid", found["schema auth"]["text"])
        cluster().execute(f"ALTER DATABASE {self.address.database} RENAME TO {self.address.database}_away")
        code, out, _ = self.gamed("doctor", "--json")
        cluster().execute(f"ALTER DATABASE {self.address.database}_away RENAME TO {self.address.database}")
        found = {each["check"]: each for each in json.loads(out)["findings"]}
        self.assertEqual((code, found["store"]["level"]), (1, "problem"))
        self.assertIn("does not exist", found["store"]["text"])
        self.assertEqual(found["key"]["level"], "skipped")

    def test_old_copies(self) -> None:
        """Schemas that restores and moves left are named after thirty days, with the statement that drops them."""
        now = int(time.time() * 1000)
        old, new = (stamp(now - days * 86_400_000).lower() for days in (31, 29))
        left = [f"auth_before_restore_{old}", f"auth_moved_{old}", f"state_before_restore_{old}"]
        for each in (*left, f"auth_before_restore_{new}", "auth_planted", "state_moved_1"):
            self.rows(f"CREATE SCHEMA {each}")
        _, out, err = self.gamed("doctor", "--json")
        [found] = [each for each in json.loads(out)["findings"] if each["check"] == "copies"]
        self.assertEqual((found["level"], err), ("warning", ""))
        self.assertTrue(found["text"].endswith(f"older than 30 days: {', '.join(left)}"), found)
        self.assertIn(f"DROP SCHEMA {', '.join(left)} CASCADE", found["advice"])
        self.rows(f"DROP SCHEMA {', '.join(left)} CASCADE")
        _, out, _ = self.gamed("doctor", "--json")
        self.assertNotIn("copies", {each["check"] for each in json.loads(out)["findings"]})

    def findings(self) -> dict[str, dict[str, str]]:
        """Return what the doctor finds, by the name of the check; its exit code is not 0."""
        code, out, err = self.gamed("doctor", "--json")
        self.assertNotEqual(code, 0, err)
        return {each["check"]: each for each in json.loads(out)["findings"]}

    def test_doctor_without_privileges(self) -> None:
        """`doctor` names the schema that the user in `store` may not read, and that its owner is to be checked."""
        self.rows("ALTER SCHEMA state OWNER TO postgres")
        found = self.findings()["schema state"]
        self.assertEqual(found["level"], "problem")
        self.assertIn("Check that the user in store owns the schema state", found["advice"])

    def test_public_doctor_without_the_database(self) -> None:
        """`doctor --public` reports the address although the database in `store` cannot be read."""
        _, port = self.serve()
        self.configure(cluster().address("nowhere"))
        _, out, err = self.gamed("doctor", "--public", f"http://127.0.0.1:{port}", "--json")
        found = {each["check"]: each for each in json.loads(out)["findings"]}
        self.assertEqual([found[name]["level"] for name in ("address", "instance")], ["ok", "skipped"], err)

    def test_doctor_with_a_wrong_store(self) -> None:
        """`doctor` says nothing about databases if `store` is one of the errors in the configuration."""
        members = json.loads(self.config.read_text())
        self.config.write_text(json.dumps({**members, "store": "postgresql://somebody:secret@db.lan/gamed"}))
        found = self.findings()
        self.assertEqual(found["configuration"]["level"], "problem")
        self.assertEqual({name for name in found if "schema" in name or ".db" in name}, set())
        self.assertNotIn("secret", str(found))
