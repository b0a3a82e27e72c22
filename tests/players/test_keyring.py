"""The key of auth.db is checked and changed in real files, also when the process is killed (SPEC 2.2)."""

import sys
from contextlib import closing
from pathlib import Path
from signal import SIGKILL
from subprocess import run
from typing import TypeVar

from hypothesis import given
from hypothesis.strategies import sampled_from, sets, text
from twisted.trial.unittest import SynchronousTestCase

from gamed.account import link_tables
from gamed.account.link_model import NewLink
from gamed.config.settings import KeySource
from gamed.crypto import DecryptionFailed, Keys, Purpose, Secret
from gamed.database.connection import AUTH, Connection, Transaction
from gamed.database.sqlite.store import SqliteStore
from gamed.players import keyring
from gamed.players import tables as player_tables
from gamed.players.keyring import KeyMismatch, RekeyRefused
from gamed.players.names import fold, name_index, parse_name
from gamed.sessions.credentials import CredentialIssuer
from tests.sessions.fixtures import ANNA, BERT, NOW_MS, POLICY, Counting, sign_in
from tests.support.covers import covers
from tests.support.databases import data_folder, prepare_files
from tests.support.stores import POSTGRESQL, dump, open_database, store_of

T = TypeVar("T")
FILE_KEY, MASTER_KEY, OTHER_KEY = (Secret(bytes([number]) * 32) for number in (1, 2, 3))
OLD, NEW, OTHER = (Keys.of(key, Counting()) for key in (FILE_KEY, MASTER_KEY, OTHER_KEY))
FILE, MASTER = KeySource.FILE, KeySource.MASTER
STORE = SqliteStore(data=Path())
"""A store that messages about keys name; nothing opens it."""
KILL = "os.kill(os.getpid(), signal.SIGKILL)"


def populate(connection: Connection) -> None:
    """Insert two local players, a display name, a note, a session, a limit and two links, with the old keys."""
    keyring.check_key(connection, OLD, FILE, NOW_MS, STORE)
    for player_id, name in ((ANNA, "Anna"), (BERT, "Bert")):
        player_tables.add_local_player(
            connection, OLD, player_id=player_id, name=name, password="phc " + name, now_ms=5
        )
    note = OLD.sealer.seal(Purpose.NOTE, BERT, b"my brother")
    connection.execute("UPDATE player SET sealed_note = :note WHERE player_id = :id", {"note": note, "id": BERT})
    player_tables.set_display_name(connection, OLD.sealer, ANNA, "Anna M")
    sign_in(connection, CredentialIssuer(keys=OLD, policy=POLICY, random=Counting()), NOW_MS)
    connection.execute("INSERT INTO limit_bucket VALUES (?, 1)", (b"1",))
    link_tables.insert_invite(connection, OLD, "inv_1", NewLink.generate(Counting(), NOW_MS, 60), "Carl")
    link_tables.insert_reset_link(connection, OLD.indexer, BERT, NewLink.generate(Counting(), NOW_MS, 60))


def rekey(connection: Connection) -> int:
    return keyring.rekey(connection, OLD, NEW, NOW_MS + 1)


class FileCase(SynchronousTestCase):
    """A data folder with both files."""

    def setUp(self) -> None:
        self.data = data_folder(self)
        prepare_files(self.data)
        self.store = store_of(self.data)
        self.addCleanup(self.store.close)

    def run_transaction(self, unit: Transaction[T]) -> T:
        return self.store.run_transaction(AUTH, unit)

    def contents(self) -> dict[str, object]:
        """Return the content of every file of the folder, and the rows; a closed SQLite database has no WAL."""
        found: dict[str, object] = {path.name: path.read_bytes() for path in self.data.iterdir() if path.is_file()}
        return {**found, "rows": self.store.run_read(AUTH, dump) if POSTGRESQL else ""}

    def assert_untouched_by(self, error: type[Exception], unit: object) -> str:
        before = self.contents()
        raised = self.assertRaises(error, self.run_transaction, unit)
        self.assertEqual(self.contents(), before)
        return str(raised)


@covers("threats/52")
class CheckTests(FileCase):
    """The check at every start."""

    def check(self, keys: Keys, source: KeySource) -> None:
        self.run_transaction(lambda connection: keyring.check_key(connection, keys, source, NOW_MS, self.store))

    def test_first_start(self) -> None:
        """The first start stores check value, fingerprint and source; nothing that helps to guess the key."""
        self.assertIsNone(self.run_transaction(keyring.read_key_record))
        self.check(OLD, FILE)
        ring = self.run_transaction(keyring.read_key_record)
        self.assertEqual(ring, keyring.KeyRecord(OLD.check, OLD.fingerprint, FILE))
        for written in self.contents().values():
            key = FILE_KEY.reveal()
            self.assertNotIn(key if isinstance(written, bytes) else key.hex().upper(), written)

    @covers("2.2/7")
    def test_same_key(self) -> None:
        """Later starts with the same key pass and write nothing."""
        self.check(OLD, FILE)
        before = self.contents()
        self.check(Keys.of(FILE_KEY, Counting()), FILE)
        self.assertEqual(self.contents(), before)
        record = self.run_transaction(keyring.read_key_record)
        assert record is not None
        self.assertEqual(record.check_value, OLD.check)

    def test_same_key_from_elsewhere(self) -> None:
        """The bytes of the key file, supplied as master key, are the same key, and the source is recorded."""
        self.check(OLD, FILE)
        self.check(OLD, MASTER)
        ring = self.run_transaction(keyring.read_key_record)
        assert ring is not None
        self.assertIs(ring.source, MASTER)

    @covers("2.2/7", "2.2/14")
    def test_wrong_key(self) -> None:
        """Another key is rejected with both fingerprints and advice; no file changes by a byte."""
        cases = [
            (MASTER, MASTER, "Supply the master key it was written with"),
            (MASTER, FILE, "set master_key_env"),
            (FILE, FILE, "Put back the key file"),
            (FILE, MASTER, "Put back the key file"),
        ]
        for written, supplied, advice in cases:
            self.run_transaction(lambda connection: connection.execute("DELETE FROM key_record").close())
            self.check(OLD, written)
            words = self.assert_untouched_by(
                KeyMismatch,
                lambda connection, supplied=supplied: keyring.check_key(
                    connection, OTHER, supplied, NOW_MS, self.store
                ),
            )
            for part in (advice, OLD.fingerprint, OTHER.fingerprint):
                self.assertIn(part, words)

    @covers("2.2/14")
    def test_lost_key(self) -> None:
        """The message also says what to do if the key is lost (SPEC 2.2/13)."""
        self.check(OLD, MASTER)
        words = self.assert_untouched_by(
            KeyMismatch, lambda connection: keyring.check_key(connection, OTHER, MASTER, NOW_MS, self.store)
        )
        self.assertIn(f": {self.store.set_aside(AUTH)} and start again", words)


class RekeyTests(FileCase):
    """The change from the key file to a master key."""

    def setUp(self) -> None:
        super().setUp()
        self.run_transaction(populate)

    def count(self, table: str) -> int:
        return int(
            self.run_transaction(lambda connection: connection.execute(f"SELECT count(*) FROM {table}").fetchone())[0]
        )

    def assert_old(self) -> None:
        """Assert that names and sessions are unchanged."""
        for name in ("Anna", "bert"):
            self.run_transaction(lambda connection, name=name: player_tables.find_named(connection, OLD, name))
        tables = ("session", "credential", "limit_bucket", "invite", "reset_link")
        self.assertEqual([self.count(table) for table in tables], [1, 2, 1, 1, 1])
        record = self.run_transaction(keyring.read_key_record)
        assert record is not None
        self.assertEqual(record.check_value, OLD.check)

    def assert_new(self) -> None:
        """Assert that all rows are readable with the new key."""
        named = self.run_transaction(lambda connection: player_tables.list_players(connection, NEW.sealer))
        names = [(each.player.player_id, each.name, each.display_name) for each in named]
        self.assertEqual(names, [(ANNA, "Anna", "Anna M"), (BERT, "Bert", None)])
        account = self.run_transaction(
            lambda connection: player_tables.find_account(connection, name_index(NEW.indexer, "anna"))
        )
        self.assertEqual(account, player_tables.LocalAccount(ANNA, "phc Anna", "active"))
        self.assertIsNone(
            self.run_transaction(
                lambda connection: player_tables.find_account(connection, name_index(OLD.indexer, "anna"))
            )
        )
        credentials = ("session", "credential")
        for table in (*credentials, "login", "authorization_attempt", "limit_bucket", "invite", "reset_link"):
            self.assertEqual(self.count(table), 0)
        ring = self.run_transaction(keyring.read_key_record)
        self.assertEqual(ring, keyring.KeyRecord(NEW.check, NEW.fingerprint, MASTER))

    def test_kept(self) -> None:
        """Accounts, names and notes are retained, and accounts counted; sessions, logins, limits, links are deleted."""
        self.assertEqual(self.run_transaction(rekey), 2)
        self.assert_new()
        query = "SELECT sealed_note FROM player WHERE player_id = :id"
        [note] = self.run_transaction(lambda connection: connection.execute(query, {"id": BERT}).fetchone())
        self.assertEqual(NEW.sealer.unseal(Purpose.NOTE, BERT, note), b"my brother")
        self.assertRaises(DecryptionFailed, OLD.sealer.unseal, Purpose.NOTE, BERT, note)

    def test_start_after_it(self) -> None:
        """The next start accepts the new key and rejects the old one."""
        self.run_transaction(rekey)
        self.run_transaction(lambda connection: keyring.check_key(connection, NEW, MASTER, NOW_MS, self.store))
        self.assert_untouched_by(
            KeyMismatch, lambda connection: keyring.check_key(connection, OLD, FILE, NOW_MS, self.store)
        )

    def test_again(self) -> None:
        """A repetition, after a process that died before it moved the key file, counts and changes nothing."""
        self.run_transaction(rekey)
        before = self.contents()
        self.assertEqual(self.run_transaction(rekey), 2)
        self.assertEqual(self.contents(), before)

    def test_wrong_old_key(self) -> None:
        """A key file that auth.db was not written with changes nothing."""
        self.assert_untouched_by(KeyMismatch, lambda connection: keyring.rekey(connection, OTHER, NEW, NOW_MS))
        self.assert_old()

    def test_provider_identities(self) -> None:
        """An auth.db with provider identities is rejected: another key could not find them."""
        row = "INSERT INTO identity VALUES (?, ?, 'discord', ?, 1, 1)"
        self.run_transaction(lambda c: c.execute(row, (b"1", ANNA, b"2")).close())
        self.assert_untouched_by(RekeyRefused, rekey)
        self.assert_old()

    def test_error_half_way(self) -> None:
        """A name that cannot be unsealed raises an error, and nothing changes."""
        self.run_transaction(
            lambda c: c.execute(
                "UPDATE local_account SET sealed_name = ? WHERE password = 'phc Bert'", (b"0",)
            ).close(),
        )
        self.assert_untouched_by(DecryptionFailed, rekey)

    def test_killed_before_commit(self) -> None:
        """After kill -9 inside the transaction the file is unchanged, and the next start completes the change."""
        self.die(f"store.run_transaction('auth', lambda connection: (tests.rekey(connection), {KILL}))")
        self.assert_old()
        self.assertEqual(self.run_transaction(rekey), 2)
        self.assert_new()

    def test_killed_after_commit(self) -> None:
        """After kill -9 right after the commit the change is complete."""
        self.die(f"store.run_transaction('auth', tests.rekey) == 2 and {KILL}")
        self.assert_new()

    def die(self, statement: str) -> None:
        """Run the statement in a process of its own that kills itself."""
        lines = (
            "import os, pathlib, signal, sys",
            "from tests.players import test_keyring as tests",
            "from tests.support.stores import store_of",
            "store = store_of(pathlib.Path(sys.argv[1]))",
            statement,
        )
        root = Path(__file__).parents[2]
        ended = run([sys.executable, "-c", "\n".join(lines), self.data], cwd=root, check=False, timeout=300)
        self.assertEqual(ended.returncode, -SIGKILL)


class NamesTests(SynchronousTestCase):
    """Random accounts."""

    @given(sets(text(sampled_from("abAÉßñЖ9._-"), min_size=1, max_size=32), max_size=12))
    def test_all_kept(self, wanted: set[str]) -> None:
        """Every name finds the same player before and after."""
        with closing(open_database(AUTH)) as connection:
            self.rekey_all(connection, wanted)

    def rekey_all(self, connection: Connection, wanted: set[str]) -> None:
        kept: dict[str, str] = {}
        keyring.check_key(connection, OLD, FILE, NOW_MS, STORE)
        for number, text_ in enumerate(sorted(wanted)):
            name = parse_name(text_)
            if fold(name) not in kept:
                kept[fold(name)] = f"ply_{number}"
                player_tables.add_local_player(
                    connection, OLD, player_id=f"ply_{number}", name=name, password="phc", now_ms=NOW_MS
                )
        self.assertEqual(rekey(connection), len(kept))
        for folded, player_id in kept.items():
            account = player_tables.find_account(connection, name_index(NEW.indexer, folded))
            self.assertEqual(account and account.player_id, player_id)
