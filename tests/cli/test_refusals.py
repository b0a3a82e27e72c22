import json
import os
import socket
import sqlite3
import stat
from base64 import b64encode
from contextlib import closing
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from gamed.cli.errors import exit_on_error
from gamed.cli.keys import database_errors
from gamed.cli.process import refuse_foreign_folder
from gamed.database.connection import AUTH, STATE
from gamed.database.errors import DatabaseBusy, DatabaseCorrupt, DatabaseUnavailable, DiskFull, MigrationError
from gamed.database.sqlite.store import SqliteStore
from tests.cli.process import TWISTD, CommandTestCase, free_port
from tests.config.fixtures import ENVIRON, KEY_TEXT, LOCAL, OAUTH, changed
from tests.support.covers import covers
from tests.support.stores import POSTGRESQL, dump, sqlite_files, store_of

OTHER_KEY = b64encode(bytes(range(32))).decode()


class RefusalTestCase(CommandTestCase):
    def refused(self, *options: str, expected: int = 78) -> str:
        """Return the refusal of `gamed serve`: on stderr alone, without traceback or usage text."""
        answer = self.gamed("serve", *(options or (f"--listen=tcp:{free_port()}:interface=127.0.0.1",)))
        return self.complaint(answer, expected)

    def complaint(self, answer: tuple[int, str, str], expected: int = 78) -> str:
        code, out, err = answer
        self.assertEqual((code, out), (expected, ""), err)
        for word in ("Traceback", "Usage", "Options", KEY_TEXT, OTHER_KEY, "hush"):
            self.assertNotIn(word, err)
        return err

    def stores(self) -> dict[str, bytes]:
        """Return the bytes of auth.db and state.db, or the rows of both schemas."""
        if POSTGRESQL:
            with closing(store_of(self.data)) as store:
                return {store.name(each): store.run_read(each, dump).encode() for each in (AUTH, STATE)}
        return {path.name: path.read_bytes() for path in self.data.glob("*.db")}


class ConfigurationTests(RefusalTestCase):
    @covers("7/2", "7/4")
    def test_problems(self) -> None:
        """Every problem on a line of its own, with file, line and column; nothing is made (SPEC 7)."""
        self.config.write_text('{\n  "mode": "oauth",\n  "public_url": "http://x.example",\n  "sesion": {}\n}')
        err = self.refused()
        lines = err.splitlines()
        self.assertEqual(len(lines), 4, err)
        self.assertTrue(lines[-2].startswith(f"{self.config}:3:17: public_url: must begin with https://"), err)
        self.assertEqual(lines[-1], f"{self.config}:4:3: sesion: no such member here; did you mean session?")
        self.assertFalse(self.data.exists())

    def test_the_same_from_twistd(self) -> None:
        """twistd, daemon or not, gives the same answer before it forks."""
        self.config.write_text(json.dumps(changed(LOCAL, session__access_ttl="soon")))
        expected = f'{self.config}:1:45: session.access_ttl: expected a duration such as "15m"\n'
        for flags in ((), ("--nodaemon", "--pidfile=")):
            err = self.complaint(self.run_command(*flags, "gamed", "serve", *self.places, of=TWISTD))
            self.assertEqual(err, expected)
        self.assertEqual(self.gamed("check", "config"), (78, "", expected))

    @covers("7/3")
    def test_missing_variables(self) -> None:
        """oauth mode without its variables refuses to start and names them all (SPEC 5/14, 7)."""
        self.write_config(OAUTH)
        self.environ.clear()
        err = self.refused()
        for name in ENVIRON:
            self.assertIn(f"{name} is not set", err)

    def test_lost_configuration(self) -> None:
        """A used data folder without its configuration: no server opens in local mode by accident, nothing is made."""
        process, _ = self.serve()
        self.stop(process)
        self.config.unlink()
        stores, files = self.stores(), self.files()
        err = self.refused()
        self.assertIn(
            f"{self.config} is missing, but {self.data / ('database.note' if POSTGRESQL else 'auth.db')}", err
        )
        self.assertEqual((self.stores(), self.files()), (stores, files))

    @sqlite_files("the schemas of its files; tests.cli.test_postgresql has PostgreSQL's")
    def test_other_schema(self) -> None:
        """A store whose tables an earlier checkout made is refused before either store is changed."""
        process, _ = self.serve()
        self.stop(process)
        whole = self.stores()
        for name, sql in (
            ("state.db", "DROP INDEX save_prune_at"),
            ("auth.db", "DROP TABLE security_event"),
            ("auth.db", "ALTER TABLE session DROP COLUMN revoked_ms"),
            ("auth.db", "DROP TABLE key_record"),
        ):
            with closing(sqlite3.connect(self.data / name, isolation_level=None)) as connection:
                connection.execute(sql)
            before, names = self.stores(), sorted(self.data.iterdir())
            self.assertIn(f"{name} was made by another version of gamed", self.refused())
            self.assertEqual((self.stores(), sorted(self.data.iterdir())), (before, names))
            for path, content in whole.items():
                (self.data / path).write_bytes(content)

    def test_configuration_cannot_be_made(self) -> None:
        """On a first run where the file cannot be written, --config is the advice, and nothing is left behind."""
        self.config = Path("/proc/gamed/authentication.json")
        before = self.files()
        self.assertIn("Name another place for the configuration with --config FILE", self.refused())
        self.assertEqual(self.files(), before, "neither the data folder nor its lock")

    def test_options(self) -> None:
        """A wrong option is one sentence: from twistd with 78, lest systemd try again; from gamed with 2."""
        for wrong in (["--bogus"], ["--config"], ["extra"]):
            err = self.complaint(self.run_command("--nodaemon", "gamed", "serve", *wrong, of=TWISTD))
            self.assertTrue(err.startswith("gamed: "), err)
        for wrong in ([], ["bogus"]):
            err = self.complaint(self.run_command("--nodaemon", "gamed", *wrong, of=TWISTD))
            self.assertTrue(err.startswith("gamed: "), err)
        code, out, err = self.gamed("serve", "--bogus")
        self.assertEqual((code, out), (2, ""))


class ListeningTests(RefusalTestCase):
    def test_taken_port(self) -> None:
        """A port that is taken is one sentence, before anything is made; exit code 1, so that the unit tries again."""
        before = self.files()
        with closing(socket.create_server(("127.0.0.1", 0))) as server:
            err = self.refused(f"--listen=tcp:{server.getsockname()[1]}:interface=127.0.0.1", expected=1)
        self.assertIn("the port is taken by another program", err)
        self.assertEqual(self.files(), before)

    def test_taken_port_of_a_second_listener(self) -> None:
        """Refuse to start if the port of the second listener is taken."""
        with closing(socket.create_server(("127.0.0.1", 0))) as server:
            first, second = free_port(), server.getsockname()[1]
            listen = [f"--listen=tcp:{port}:interface=127.0.0.1" for port in (first, second)]
            self.assertIn(f"tcp:{second}", self.refused(*listen, expected=1))

    def test_taken_socket(self) -> None:
        """A unix socket that another program listens on may be free later, too: exit code 1."""
        self.write_config(changed(LOCAL, public_url="http://localhost:8080"))
        path = self.folder / "gamed.sock"
        with closing(socket.socket(socket.AF_UNIX)) as server:
            server.bind(str(path))
            server.listen()
            self.assertIn("another program listens there", self.refused(f"--listen=unix:{path}", expected=1))

    def test_held_folder(self) -> None:
        """A data folder that another gamed serves is free once that one has stopped: exit code 1."""
        self.serve()
        self.assertIn("Another gamed already serves", self.refused(expected=1))

    def test_one_listener_twice(self) -> None:
        """The same --listen twice is a slip in the command: the refusal names it, and no other program."""
        before = self.files()
        listen = f"--listen=tcp:{free_port()}:interface=127.0.0.1"
        err = self.refused(listen, listen)
        self.assertIn(f"{listen.replace('=', ' ', 1)} is given twice.", err)
        self.assertNotIn("another program", err)
        self.assertEqual(self.files(), before)

    @covers("threats/64")
    def test_exposed_plain_port(self) -> None:
        """A port others reach, without encryption, is refused; --private-listen or its variable allow it."""
        port = free_port()
        self.assertIn("without encryption", self.refused(f"--listen=tcp:{port}"))
        for options, environ in ((["--private-listen"], {}), ([], {"GAMED_PRIVATE_LISTEN": "1"})):
            self.environ |= environ
            process, _ = self.serve("--listen=tcp:0", *options)
            self.stop(process)

    def test_exposed_behind_https(self) -> None:
        """With an https address, a proxy is in front: the port may be anywhere."""
        self.write_config(changed(LOCAL, public_url="https://play.example.org"))
        process, _ = self.serve("--listen=tcp:0")
        self.stop(process)

    def test_no_address(self) -> None:
        """Local mode on a unix socket alone needs public_url, and then `gamed health` finds it there."""
        path = self.folder / "gamed.sock"
        self.assertIn("Set public_url", self.refused(f"--listen=unix:{path}"))
        self.write_config(changed(LOCAL, public_url="http://localhost:8080"))
        process, _ = self.serve(f"--listen=unix:{path}")
        self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o660)
        with closing(socket.socket(socket.AF_UNIX)) as client:
            client.connect(str(path))
        self.stop(process)

    def test_malformed(self) -> None:
        """Refuse a malformed endpoint with an example of a valid one."""
        self.assertIn("Expected 8080, 127.0.0.1:8080", self.refused("--listen=:8080"))


@covers("threats/52")
class KeyTests(RefusalTestCase):
    @covers("2.2/7")
    def test_wrong_master_key(self) -> None:
        """A wrong master key is refused with what to do, and neither store changes (SPEC 2.2)."""
        self.write_config(changed(LOCAL, master_key_env="GAMED_MASTER_KEY"))
        self.environ = {"GAMED_MASTER_KEY": KEY_TEXT}
        process, _ = self.serve()
        self.stop(process)
        self.assertFalse((self.data / "auth.key").exists())
        before = self.stores()
        names = {store_of(self.data).name(database) for database in (AUTH, STATE)}
        self.assertEqual(set(before), names)

        self.environ = {"GAMED_MASTER_KEY": OTHER_KEY}
        err = self.refused()
        with closing(store_of(self.data)) as store:
            self.assertIn(f"{store.describe(AUTH)} is written with another key", err)
            self.assertIn(f": {store.set_aside(AUTH)} and start again", err)
        self.assertIn("than the one in GAMED_MASTER_KEY (", err)
        self.assertEqual(len(err.splitlines()), 1)
        self.assertEqual(self.complaint(self.gamed("players", "list")), err)
        self.assertEqual(self.stores(), before)
        self.assertFalse((self.data / "auth.key").exists())

    @sqlite_files("a key file; PostgreSQL needs a master key")
    def test_lost_master_key(self) -> None:
        """A start without the master key is refused with what to do, and makes no key file."""
        self.write_config(changed(LOCAL, master_key_env="GAMED_MASTER_KEY"))
        self.environ = {"GAMED_MASTER_KEY": KEY_TEXT}
        process, _ = self.serve()
        self.stop(process)
        before = self.stores()
        self.write_config(LOCAL)
        self.assertIn("Set master_key_env", self.refused())
        self.assertEqual(self.stores(), before)
        self.assertFalse((self.data / "auth.key").exists())

    def test_wrong_key_after_a_kill(self) -> None:
        """Not even what a killed server left to be written is touched by a start with a wrong key."""
        self.write_config(changed(LOCAL, master_key_env="GAMED_MASTER_KEY"))
        self.environ = {"GAMED_MASTER_KEY": KEY_TEXT}
        process, _ = self.serve()
        self.gamed("players", "add", "anna", "--password-stdin", stdin="correct horse\n")
        process.kill()
        process.wait()
        before = self.stores()
        self.environ = {"GAMED_MASTER_KEY": OTHER_KEY}
        self.refused()
        self.assertEqual(self.stores(), before)
        self.environ = {"GAMED_MASTER_KEY": KEY_TEXT}
        self.assertIn("anna", self.gamed("players", "list")[1])

    @sqlite_files("a key file; PostgreSQL needs a master key")
    def test_lost_key_file(self) -> None:
        """auth.db without its key file, or with another's, is refused; no new key is made."""
        process, _ = self.serve()
        self.stop(process)
        before, key = self.stores(), (self.data / "auth.key").read_text()
        (self.data / "auth.key").unlink()
        self.assertIn("auth.key is missing", self.refused())
        self.assertFalse((self.data / "auth.key").exists())
        (self.data / "auth.key").write_text(OTHER_KEY)
        err = self.refused()
        self.assertIn(f"than the one in the key file {self.data / 'auth.key'} (", err)
        self.assertIn("Put back the key file", err)
        (self.data / "auth.key").write_text("nonsense!")
        self.assertIn("auth.key cannot be used", self.refused())
        self.assertEqual(self.stores(), before)
        (self.data / "auth.key").write_text(key)
        process, _ = self.serve()
        self.stop(process)

    @sqlite_files("a file of another program; tests.cli.test_postgresql has another program's schema")
    def test_foreign_file(self) -> None:
        """An auth.db that is no database, or another program's, is refused and stays as it is."""
        self.write_config(LOCAL)
        self.data.mkdir()
        (self.data / "auth.db").write_bytes(b"not a database, but long enough to look at" * 100)
        self.assertIn("auth.db", self.refused())
        self.assertEqual(len(self.stores()["auth.db"]), 4200)

    def test_locked_folder(self) -> None:
        """A data folder that cannot be written is refused with --data as advice."""
        self.write_config(LOCAL)
        (self.folder / "file").touch()
        self.data = self.folder / "file" / "data"
        self.assertIn("--data DIR", self.refused())

    def test_another_user_s_folder(self) -> None:
        """Root serves no other user's folder, and makes nothing in it; in their own, everybody may."""
        self.data.mkdir()
        if os.geteuid() != 0:
            self.assertIsNone(refuse_foreign_folder(self.data))
            return
        os.chown(self.data, 54321, 54321)
        before = self.files()
        self.assertIn("belongs to #54321", self.refused())
        self.assertEqual(self.files(), before)


class StoreTests(SynchronousTestCase):
    def test_how_it_ends(self) -> None:
        """Exit with 1 for a held file or a full disk: systemd tries again; with 78 for damage or another schema."""
        for error, code in ((DatabaseBusy, 1), (DiskFull, 1), (DatabaseUnavailable, 78), (DatabaseCorrupt, 78)):
            with (
                self.assertRaises(SystemExit) as ended,
                exit_on_error(),
                database_errors(SqliteStore(data=Path()), "auth"),
            ):
                raise error("This is why.")
            self.assertEqual(ended.exception.code, code, error)
            with self.assertRaises(SystemExit) as ended, exit_on_error():
                raise error("This is why.")
            self.assertEqual(ended.exception.code, code, error)
        with self.assertRaises(SystemExit) as ended, exit_on_error():
            raise MigrationError("This is why.")
        self.assertEqual(ended.exception.code, 78)
