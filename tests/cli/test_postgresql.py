"""`gamed serve` and the commands with the databases on a real PostgreSQL server."""

import json
from base64 import b64encode
from collections.abc import Mapping
from http.client import HTTPConnection
from typing import Any

from tests.cli.process import WAIT_SECONDS, CommandTestCase, get
from tests.support.postgresql import Address, cluster

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
