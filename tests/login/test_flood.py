"""These tests start fifty thousand logins from as many addresses: the file stays small, others sign in.

With few examples all figures are a tenth: the starts, the limits, the size allowed.

See docs/owners/configuration.md: Limits.
"""

from pathlib import Path

from msgspec.structs import replace

from gamed.config.model import AuthLimits
from gamed.crypto import Index
from gamed.database.connection import AUTH, Connection
from gamed.database.sqlite.files import DatabaseFile, connect, prepare
from gamed.login import store as login_store
from gamed.login.collect import Complete
from gamed.login.policy import LoginQuota, address_indexes
from gamed.login.transaction import ClientInfo
from gamed.rate_limit import RateLimited
from tests.login.examples import CountingRandom, a_login, keys
from tests.login.fixtures import LoginCase
from tests.support.databases import data_folder, prepare_files
from tests.support.examples import examples
from tests.support.stores import sqlite_files

SCALE = examples(few=10, many=1)
STARTS = 50_000 // SCALE
SPACING_MS = 6 * SCALE
BATCH = 125
BYTES = 20_000_000 // SCALE
LIMITS = replace(AuthLimits(), live_logins=AuthLimits().live_logins // SCALE)


class Flood:
    """Starts as the write queue runs them, without HTTP, each from another address."""

    def __init__(self, connection: Connection, words: ClientInfo) -> None:
        self.words = words
        self.connection, self.indexer, self.random = connection, keys().indexer, CountingRandom()
        self.now_ms, self.made = a_login().created_ms, 0

    def start(self) -> None:
        self.made += 1
        self.now_ms += SPACING_MS
        address = f"10.{self.made >> 16}.{self.made >> 8 & 255}.{self.made & 255}"
        narrow, wide = address_indexes(self.indexer, address)
        login = replace(
            a_login(),
            login_id=f"lgn_{self.random(16).hex()[10:]}",
            secret_index=narrow,
            token_index=Index(narrow[::-1]),
            client=self.words,
            address_index=narrow,
            wide_index=wide,
            created_ms=self.now_ms,
            expires_ms=self.now_ms + 600_000,
            stage_ms=self.now_ms,
        )
        login_store.start_login(self.connection, login, LoginQuota.of(LIMITS, self.indexer, address))

    def run(self, count: int) -> None:
        for _ in range(count // BATCH):
            self.connection.execute("BEGIN IMMEDIATE")
            for _ in range(BATCH):
                self.start()
            self.connection.execute("COMMIT")


class FileTests(LoginCase):
    @sqlite_files("the size of a file, and PRAGMAs")
    def test_the_file_stays_small(self) -> None:
        """Waiting and ended logins are limited, so the file stops growing."""
        self.flood(ClientInfo("MyGame", "1.4.2", "windows", "ANNA-PC"))

    @sqlite_files("the size of a file, and PRAGMAs")
    def test_whatever_the_devices_say(self) -> None:
        """The longest client descriptions do not exceed the allowed size either."""
        self.flood(ClientInfo(*(letter * 64 for letter in "\U00010400\U00010401\U00010402\U00010403")))

    def flood(self, words: ClientInfo) -> None:
        self.patch(login_store, "MAX_ENDED_LOGINS", login_store.MAX_ENDED_LOGINS // SCALE)
        folder = data_folder(self)
        prepare_files(folder)
        connection = connect(DatabaseFile.at(folder, AUTH).uri)
        self.addCleanup(connection.close)
        prepare(connection)
        connection.execute("PRAGMA synchronous = OFF")  # nothing is tried here that a disk would have to keep
        flood = Flood(connection, words)
        flood.run(STARTS)
        counted = dict(connection.execute("SELECT stage, logins FROM login_count WHERE logins > 0").fetchall())
        self.assertEqual(counted, {"pending": LIMITS.live_logins, "expired": login_store.MAX_ENDED_LOGINS})
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        self.assertLess(size(folder), BYTES)

    def test_others_sign_in(self) -> None:
        """During the flood a player starts, opens the link, signs in and collects; a greedy address is limited."""
        server = self.local_server(limits=replace(AuthLimits(), live_logins=50, starts_per_minute=2))
        addresses = iter(f"10.1.{number >> 8}.{number & 255}" for number in range(1000))

        def flood() -> None:
            for _ in range(45):
                server.clock.advance(0.001)  # those of one millisecond would be discarded in any order
                server.start(address=next(addresses))

        flood()
        for _ in range(3):
            started = server.start()
            flood()
            server.open_link(started)
            server.sign_in(started)
            flood()
            flood()
            self.assertIsInstance(server.collect(started, code=server.code(started)), Complete)
            server.clock.advance(60)
        for _ in range(2):
            server.start(address="10.1.0.0")
        with self.assertRaises(RateLimited):
            server.start(address="10.1.0.0")
        self.assertLessEqual(len(server.rows("SELECT 1 FROM login WHERE stage = 'pending'")), 50)


def size(folder: Path) -> int:
    """Return the bytes of auth.db."""
    return (folder / "auth.db").stat().st_size
