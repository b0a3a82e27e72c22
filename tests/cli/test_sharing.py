"""Several servers share one data folder: `gamed serve --share`."""

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from http.client import HTTPMessage
from shutil import copytree
from subprocess import Popen
from urllib.request import urlopen

from gamed.database.connection import AUTH, STATE
from gamed.database.sqlite.files import connect, file_uri
from tests.cli.process import CommandTestCase, free_port, get
from tests.support.postgresql import cluster
from tests.support.stores import POSTGRESQL, address_of, sqlite_files, store_of


class SharingTests(CommandTestCase):
    def share(self) -> tuple["Popen[str]", int]:
        return self.serve("--share")

    def test_two_servers(self) -> None:
        """Two servers serve one folder, and each sees what the other wrote; one serves on when the other has ended."""
        first, port = self.share()
        second, other = self.share()
        self.assertEqual(self.gamed("players", "add", "Anna", "--password-stdin", stdin="correct horse\n")[0], 0)
        token = json.loads(self.gamed("players", "token", "Anna", "--json")[1])["access_token"]
        self.assertEqual({get(each, "/game/saves", token)[0] for each in (port, other)}, {200})
        self.assertEqual(self.stop(first), 0)
        self.assertEqual(get(other, "/game/saves", token)[0], 200)
        self.assertEqual(self.stop(second), 0)

    def test_doctor(self) -> None:
        """`gamed doctor --public` finds this folder's data behind an address, whichever of its servers responds."""
        ports = [self.share()[1] for _ in range(2)]
        answers = [self.headers_of(port) for port in ports]
        self.assertEqual(len({each["Gamed-Store"] for each in answers}), 1)
        self.assertEqual(len({each["Gamed-Instance"] for each in answers}), 2)
        for port in ports:
            _, out, err = self.gamed("doctor", "--public", f"http://127.0.0.1:{port}", "--json")
            [found] = [each for each in json.loads(out)["findings"] if each["check"] == "instance"]
            self.assertEqual(found["level"], "ok", (found, err))

    @sqlite_files("a copy of its files; copied databases of PostgreSQL are in tests.cli.test_postgresql_backup")
    def test_a_copied_folder(self) -> None:
        """A server of a copied data folder has the same store; `gamed doctor` reports that it is not this one's."""
        first, _ = self.share()
        self.assertEqual(self.stop(first), 0)
        copied = self.data.with_name("copied")
        copytree(self.data, copied)
        _, port = self.share()
        store = self.headers_of(port)["Gamed-Store"]
        own, self.data = self.data, copied
        _, other = self.share()
        self.data = own
        self.assertEqual(self.headers_of(other)["Gamed-Store"], store)
        _, out, _ = self.gamed("doctor", "--public", f"http://127.0.0.1:{other}", "--json")
        [found] = [each for each in json.loads(out)["findings"] if each["check"] == "instance"]
        self.assertEqual(
            (found["level"], "a copy of this server's databases" in found["text"]), ("problem", True), found
        )

    def test_the_store_stays(self) -> None:
        """Restarts and a lost `state` do not change the store."""
        stores = set()
        for _ in range(2):
            process, port = self.share()
            stores.add(self.headers_of(port)["Gamed-Store"])
            self.assertEqual(self.stop(process), 0)
            self.lose_state()
        self.assertEqual(len(stores), 1)

    def lose_state(self) -> None:
        if POSTGRESQL:
            cluster().execute("DROP SCHEMA state CASCADE", address_of(self.data).database)
        else:
            (self.data / "state.db").unlink()

    def headers_of(self, port: int) -> HTTPMessage:
        with urlopen(f"http://127.0.0.1:{port}/healthz") as answer:
            return answer.headers

    def test_at_the_same_moment(self) -> None:
        """Servers that start together on a new folder all serve it: the first one makes its files."""
        with ThreadPoolExecutor(3) as pool:
            started = [each.result() for each in [pool.submit(self.share) for _ in range(3)]]
        self.assertEqual({get(port, "/healthz") for _, port in started}, {(200, b"ok")})

    def test_beside_one_that_does_not(self) -> None:
        """A server without --share is refused beside one with it, and the reverse; so are commands that need all."""
        first, _ = self.share()
        alone = f"tcp:{free_port()}:interface=127.0.0.1"
        code, _, err = self.gamed("serve", "--listen", alone)
        self.assertEqual(code, 1, err)
        self.assertIn(f"Another gamed already serves {self.data} (process {first.pid}). Stop that one first, ", err)
        code, _, err = self.gamed("check", "data", "--fix")
        self.assertEqual((code, err), (1, f"gamed: A gamed serves {self.data} (process {first.pid}). Stop it first.\n"))
        self.assertEqual(self.stop(first), 0)
        second, _ = self.serve()
        code, _, err = self.gamed("serve", "--share", "--listen", alone)
        self.assertEqual(code, 1, err)
        self.assertIn(f"(process {second.pid}). Stop that one first, start all with --share, ", err)

    def change_version(self, database: str) -> None:
        """Let the schema be that of another version."""
        if POSTGRESQL:
            place = address_of(self.data).database
            newest = f"(SELECT max(number) FROM {database}.schema_version)"
            sql = f"UPDATE {database}.schema_version SET number = 99, oldest = 99 WHERE number = {newest}"
            cluster().execute(sql, place)
            self.addCleanup(cluster().execute, f"DROP SCHEMA {database} CASCADE", place)  # no other test gets it
            return
        with closing(connect(file_uri(self.data / f"{database}.db", "rw"))) as connection:
            connection.execute("PRAGMA user_version = 0")

    def test_another_schema(self) -> None:
        """A server of another version that would change the schema is refused beside one that serves."""
        self.share()
        for database in (STATE, AUTH):
            self.change_version(database)
            code, _, err = self.gamed("serve", "--share", "--listen", f"tcp:{free_port()}:interface=127.0.0.1")
            self.assertEqual(code, 1, err)
            where = store_of(self.data).describe(database)
            self.assertIn(f"{where} has the schema of another version. Other servers use it.", err)

    def test_health(self) -> None:
        """`gamed health` asks a server that still serves, whichever of them has ended."""
        first, _ = self.share()
        second, _ = self.share()
        self.assertEqual(self.gamed("health"), (0, "ok\n", ""))
        self.assertEqual(self.stop(second), 0)
        self.assertEqual(self.gamed("health"), (0, "ok\n", ""))
        self.assertEqual(self.stop(first), 0)
        self.assertEqual(self.gamed("health")[0], 1)

    @sqlite_files("from a key file to a master key; PostgreSQL needs a master key")
    def test_a_changed_key(self) -> None:
        """A key change needs the folder alone: a server that would change the key is refused beside another."""
        self.share()
        self.environ["GAMED_KEY"] = "A" * 43 + "="
        content = self.config.read_text("utf-8").replace('"mode"', '"master_key_env": "GAMED_KEY", "mode"')
        self.config.write_text(content, "utf-8")
        code, _, err = self.gamed("serve", "--share", "--listen", f"tcp:{free_port()}:interface=127.0.0.1")
        self.assertEqual(code, 1, err)
        self.assertIn("Other servers use it. Stop them first", err)
