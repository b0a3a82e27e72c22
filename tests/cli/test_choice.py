"""Which key is chosen, tried on real files without a process."""

import os
import sqlite3
from base64 import b64encode
from contextlib import closing
from errno import EIO

from twisted.trial.unittest import SynchronousTestCase

from gamed.cli import keys
from gamed.cli.errors import SetupError
from gamed.cli.keys import KeyChoice
from gamed.config.settings import KeySource
from gamed.crypto import Secret
from gamed.database.sqlite.store import SqliteStore
from tests.cli.process import folder_of
from tests.support.databases import prepare_files
from tests.support.stores import sqlite_files

FIRST, SECOND = Secret(bytes(range(32))), Secret(bytes(range(32, 64)))


def random(size: int) -> bytes:
    return b"\x07" * size


def now_ms() -> int:
    return 1_000_000


@sqlite_files("the key file beside its files; PostgreSQL needs a master key")
class ChoiceTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.data = folder_of(self)
        self.store = SqliteStore(data=self.data)

    def start(self, master: Secret | None) -> KeySource:
        """Choose the key and open the databases in the order of a server's start."""
        choice = self.choose(master)
        prepare_files(self.data)
        keys.settle(self.store, self.data, choice, random, now_ms)
        return choice.source

    def choose(self, master: Secret | None) -> KeyChoice:
        return keys.choose(self.store, self.data, master, random)

    def file_key(self, key: Secret) -> None:
        (self.data / "auth.key").write_bytes(b64encode(key.reveal()) + b"\n")

    def names(self) -> set[str]:
        return {path.name for path in self.data.iterdir() if path.name.startswith("auth.key")}

    def test_choosing_writes_nothing(self) -> None:
        """Until the choice is settled there is no file, neither store nor key."""
        self.choose(None)
        self.choose(FIRST)
        self.assertEqual(list(self.data.iterdir()), [])

    def test_key_file(self) -> None:
        """Without a master key a key file is made once, 0600, and used from then on."""
        self.assertIs(self.start(None), KeySource.FILE)
        path = self.data / "auth.key"
        self.assertEqual(path.read_bytes(), b64encode(random(32)) + b"\n")
        self.assertEqual(path.stat().st_mode & 0o777, 0o600)
        self.assertIs(self.start(None), KeySource.FILE)

    def test_every_retired_key_is_kept(self) -> None:
        """A key file that retires takes no other's place: backups of auth.db may need either."""
        (self.data / "auth.key.retired").write_text("an earlier one")
        self.file_key(SECOND)
        self.assertIs(self.start(FIRST), KeySource.MASTER)
        self.assertEqual(self.names(), {"auth.key.retired", "auth.key.retired.2"})
        self.assertEqual((self.data / "auth.key.retired").read_text(), "an earlier one")

    def test_made_key_survives_a_cut(self) -> None:
        """A start cut off after the key was written, before any store was, is taken up with that key."""
        keys.write(self.data, FIRST)
        self.assertIs(self.start(None), KeySource.FILE)
        self.assertTrue(self.choose(None).key.matches(FIRST))

    def test_cut_while_the_key_is_made(self) -> None:
        """A key that is not whole on the disk is no key file: the next start makes another."""

        def cut(descriptor: int) -> None:
            raise OSError(EIO, "Input/output error")

        with_disk = self.patch(os, "fsync", cut)
        self.assertRaises(SetupError, keys.write, self.data, FIRST)
        with_disk.restore()
        self.assertIsNone(keys.read(self.data))
        self.assertIs(self.start(None), KeySource.FILE)
        self.assertEqual(self.names(), {"auth.key"})

    def test_cut_between_store_and_file(self) -> None:
        """auth.db written with the master key, the key file not yet renamed: the next start renames it."""
        self.start(FIRST)
        self.file_key(SECOND)
        self.assertIs(self.start(FIRST), KeySource.MASTER)
        self.assertEqual(self.names(), {"auth.key.retired"})

    def test_cut_while_the_store_is_made(self) -> None:
        """The transaction that made auth.db was cut off in its middle: it is taken back, and the start goes on."""
        half, place = folder_of(self) / "auth.db", self.data / "auth.db"
        with closing(sqlite3.connect(half, isolation_level=None)) as connection:
            connection.execute("PRAGMA cache_size = 1")
            connection.execute("CREATE TABLE made (x)")
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("DROP TABLE made")
            connection.execute("CREATE TABLE half_made AS SELECT randomblob(200000)")
            for name in ("auth.db", "auth.db-journal"):
                (self.data / name).write_bytes(half.with_name(name).read_bytes())
        with closing(sqlite3.connect(f"{place.as_uri()}?mode=ro", uri=True)) as connection:
            self.assertRaises(sqlite3.OperationalError, connection.execute, "SELECT * FROM made")
        self.choose(None)
        with closing(sqlite3.connect(place)) as connection:
            self.assertEqual(connection.execute("SELECT name FROM sqlite_schema").fetchall(), [("made",)])

    def test_to_a_master_key(self) -> None:
        """auth.db that is still the key file's is carried over to the master key; back is refused."""
        self.start(None)
        self.assertIs(self.start(FIRST), KeySource.MASTER)
        self.assertEqual(self.names(), {"auth.key.retired"})
        self.assertIn("Set master_key_env", str(self.assertRaises(SetupError, self.start, None)))
        self.assertIn("another key", str(self.assertRaises(SetupError, self.start, SECOND)))

    def test_the_file_s_own_key_as_master_key(self) -> None:
        """The key file's content put into the variable is the same key: nothing is lost, the file retires."""
        self.start(None)
        self.assertIs(self.start(Secret(random(32))), KeySource.MASTER)
        self.assertEqual(self.names(), {"auth.key.retired"})
        self.assertIs(self.start(Secret(random(32))), KeySource.MASTER)

    def test_unfit_key_file(self) -> None:
        """Strict Base64 of 32 bytes and one line end; all else is refused, and not repeated."""
        for content in (b"", b"\n", b"x" * 44, b64encode(bytes(31)), b64encode(bytes(32)) + b"\n\n", b"\xff" * 44):
            (self.data / "auth.key").write_bytes(content)
            error = str(self.assertRaises(SetupError, self.choose, None))
            self.assertIn("cannot be used", error)
            self.assertNotIn("xxx", error)

    def test_open_key_file(self) -> None:
        """A key file that others can read is closed to them."""
        self.file_key(FIRST)
        (self.data / "auth.key").chmod(0o644)
        self.choose(None)
        self.assertEqual((self.data / "auth.key").stat().st_mode & 0o777, 0o600)
