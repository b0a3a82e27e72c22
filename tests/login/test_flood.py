"""Fifty thousand sign-ins are begun from as many addresses: the file stays small, and others sign in (PROTOCOL 3.9).

With few examples everything is a tenth of that: the starts, the limits, the size allowed.
"""

from pathlib import Path
from sqlite3 import Connection

from msgspec.structs import replace

from gamed.config.model import AuthLimits
from gamed.crypto import Index
from gamed.database.connection import AUTH, DatabaseFile, connect, prepare
from gamed.database.migrations import prepare_files
from gamed.login import store as login_store
from gamed.login.collect import Complete
from gamed.login.policy import LoginQuota, address_indexes
from gamed.login.transaction import ClientInfo
from gamed.rate_limit import RateLimited
from tests.login.examples import Counting, a_login, keys
from tests.login.fixtures import HandoffCase
from tests.support.databases import data_folder
from tests.support.examples import examples

SCALE = examples(few=10, many=1)
STARTS = 50_000 // SCALE
SPACING_MS = 6 * SCALE
BATCH = 125
BYTES = 20_000_000 // SCALE
LIMITS = replace(AuthLimits(), live_logins=AuthLimits().live_logins // SCALE)


class Flood:
    """Starts as the lane makes them, without the wire in front: each from an address of its own."""

    def __init__(self, connection: Connection, words: ClientInfo) -> None:
        self.words = words
        self.connection, self.indexer, self.random = connection, keys().indexer, Counting()
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


class FileTests(HandoffCase):
    def test_the_file_stays_small(self) -> None:
        """So many wait, some outcomes are remembered, and from there on nothing grows."""
        self.flood(ClientInfo("MyGame", "1.4.2", "windows", "ANNA-PC"))

    def test_whatever_the_devices_say(self) -> None:
        """The longest words there can be do not make the file larger than allowed, either."""
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
        """In the middle of it a player starts, opens the link, signs in and collects; a greedy address may not."""
        desk = self.desk(limits=replace(AuthLimits(), live_logins=50, starts_per_minute=2))
        addresses = iter(f"10.1.{number >> 8}.{number & 255}" for number in range(1000))

        def flood() -> None:
            for _ in range(45):
                desk.start(address=next(addresses))

        flood()
        for _ in range(3):
            started = desk.start()
            flood()
            desk.enter(started)
            desk.sign_in(started)
            flood()
            flood()
            self.assertIsInstance(desk.collect(started, code=desk.code(started)), Complete)
            desk.clock.advance(60)
        for _ in range(2):
            desk.start(address="10.1.0.0")
        with self.assertRaises(RateLimited):
            desk.start(address="10.1.0.0")
        self.assertLessEqual(len(desk.rows("SELECT 1 FROM login WHERE stage = 'pending'")), 50)


def size(folder: Path) -> int:
    """Bytes of auth.db."""
    return (folder / "auth.db").stat().st_size
