"""`gamed serve` and the commands with the databases on a real PostgreSQL server."""

import json
import time
from base64 import b64encode
from collections.abc import Mapping
from http.client import HTTPConnection
from typing import Any

from tests.cli.process import GAMED, WAIT_SECONDS, CommandTestCase, free_port, get
from tests.support.postgresql import PASSWORD, Address, Cluster, cluster

KEY = b64encode(bytes(range(32))).decode()
SECRET = "correct horse battery"


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
        names = {name for (name,) in self.rows("SELECT nspname FROM pg_namespace WHERE nspname IN ('auth', 'state')")}
        self.assertEqual(names, {"auth", "state"})
        self.assertEqual({path.name for path in self.data.iterdir()} & {"auth.db", "state.db", "auth.key"}, set())

    def test_second_start(self) -> None:
        """Keep everything over a restart, and have the same store id."""
        ids = []
        for _ in range(2):
            process, port = self.serve()
            ids.append(self.ask(port, "GET", "/healthz")[2]["Gamed-Store"])
            self.assertEqual(self.stop(process), 0, self.output())
        self.assertEqual(ids[0], ids[1])
        self.assertTrue(ids[0])


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

    def test_another_schema(self) -> None:
        """A schema of a newer gamed, and one that was changed by hand, are refused."""
        process, _ = self.serve()
        self.stop(process)
        self.rows("UPDATE auth.schema_version SET number = 99, oldest = 99")
        self.assertIn("is newer than this gamed", self.refused())
        self.rows("UPDATE auth.schema_version SET number = 1, oldest = 1")
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

    def await_output(self, text: str) -> None:
        deadline = time.monotonic() + WAIT_SECONDS
        while text not in self.output():
            self.assertLess(time.monotonic(), deadline, self.output())
            time.sleep(0.05)
