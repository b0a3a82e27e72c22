"""Erasing and merging players survives kill -9 at every step, and a merge moves everything.

See docs/owners/players.md: Erasing.
"""

import sys
from collections import Counter
from collections.abc import Callable
from hashlib import sha256
from itertools import pairwise
from typing import Any

from twisted.internet.defer import ensureDeferred
from twisted.trial.unittest import SynchronousTestCase

from gamed.account import store as player_store
from gamed.account.build import build_account
from gamed.account.service import Removal, RemovalService
from gamed.config.game import SaveLimits
from gamed.crypto import Index
from gamed.database.connection import AUTH, STATE, Connection
from gamed.database.databases import Databases
from gamed.players import tables as player_tables
from gamed.players.errors import PlayerUnknown
from gamed.saves import tables as save_tables
from gamed.saves import version_tables, write_store
from gamed.saves.commands import DeleteCommand, WriteCommand, WriteContext, WriteResult
from gamed.saves.model import VersionKind
from gamed.saves.write_rules import Condition, ConditionKind
from gamed.sessions.credentials import MAX_SESSIONS, TICK_MS, CredentialIssuer, Refreshed
from gamed.sessions.store import refresh
from tests.account.killed_command import KEYS
from tests.cli.process import ROOT, environment
from tests.saves.state_machine import body_of, count_errors
from tests.sessions.fixtures import ANNA, BERT, NOW_MS, POLICY, Counting, sign_in
from tests.sessions.server import SessionServer
from tests.support import forks
from tests.support.databases import data_folder, file_databases, prepare_files
from tests.support.stores import store_of

LIMITS = SaveLimits()
ABSENT = Condition(ConditionKind.ABSENT)
DISCORD, GOOGLE, ANNAS, BERTS = (Index(bytes([number]) * 32) for number in range(1, 5))
STEPS = range(1, 20)
"""More transactions than any removal here has."""


def save(connection: Connection, player_id: str, slot: str, data: bytes) -> None:
    """Insert the next version of a slot."""
    view, epoch = (
        save_tables.slot_state(connection, player_id, slot),
        save_tables.find_player(connection, player_id).cursor.epoch,
    )
    condition = ABSENT if view.current is None else Condition(ConditionKind.THIS, view.current.entity_tag)
    order = WriteCommand(
        WriteContext(player_id, epoch), slot, condition, body_of(data), NOW_MS, f"e{player_id[4]}", data
    )
    assert isinstance(write_store.write_save(connection, LIMITS, order), WriteResult)


class FolderCase(SynchronousTestCase):
    """Both databases of a server with Anna and Bert, without a service."""

    def setUp(self) -> None:
        self.begin()

    def begin(self) -> None:
        self.data = data_folder(self)
        prepare_files(self.data)
        self.store = store_of(self.data)
        self.addCleanup(self.store.close)
        self.store.run_transaction(AUTH, self.people)
        self.store.run_transaction(STATE, self.saves)

    def people(self, connection: Connection) -> None:
        keys, issuer = KEYS, CredentialIssuer(keys=KEYS, policy=POLICY, random=Counting())
        for player_id in (ANNA, BERT):
            player_tables.create_player(connection, player_id, NOW_MS)
            sign_in(connection, issuer, NOW_MS, player_id=player_id)
        player_tables.create_account(connection, keys, player_id=ANNA, name="Anna", password="phc", now_ms=NOW_MS)
        for index, provider, realm, player_id in (
            (ANNAS, "discord", DISCORD, ANNA),
            (BERTS, "google", GOOGLE, BERT),
            (Index(bytes(32)), "google", GOOGLE, ANNA),
        ):
            player_tables.insert_identity(
                connection, index=index, namespace=realm, player_id=player_id, provider=provider, now_ms=NOW_MS
            )

    def saves(self, connection: Connection) -> None:
        for data in (b"one", b"two"):
            save(connection, ANNA, "auto", data)
        save(connection, ANNA, "both", b"anna's")
        save(connection, ANNA, "same", b"equal")
        for slot, data in (("both", b"bert's"), ("same", b"equal"), ("own", b"two")):
            save(connection, BERT, slot, data)

    def rows(self, database: str, query: str) -> list[tuple[Any, ...]]:
        return self.at(database, lambda connection: connection.execute(query).fetchall())

    def of(self, player_id: str) -> dict[str, int]:
        """Return the number of the player's rows in each table."""
        found = {}
        for database, tables in (
            (AUTH, ("player", "identity", "local_account", "session")),
            (STATE, ("save", "save_version", "blob")),
        ):
            for table in tables:
                where = "" if table != "blob" else " AND refs > 0"
                [(found[table],)] = self.rows(
                    database, f"SELECT count(*) FROM {table} WHERE player_id = '{player_id}'{where}"
                )
        return found

    def assert_sound(self) -> None:
        self.assertEqual(self.at(STATE, count_errors), [])

    def at(self, database: str, unit: Callable[[Connection], Any]) -> Any:
        return self.store.run_read(database, unit)

    def dies(self, what: str, after: int) -> bool:
        """Return whether the removal was killed after so many transactions."""
        command = [sys.executable, "-m", "tests.account.killed_command", str(self.data), what, str(after)]
        done = forks.run(command, cwd=ROOT, env=environment({}), timeout=120)
        self.assertIn(done.returncode, (0, -9), done.stderr)
        return done.returncode == -9

    def resume(self) -> Databases:
        """Resume removals as the service does at its start."""
        databases = file_databases(self, data=self.data)
        self.successResultOf(ensureDeferred(self.removals(databases).resume()))
        return databases

    def removals(self, databases: Databases) -> RemovalService:
        server = SessionServer(databases)
        return build_account(server.context, server.revoked.append).removals


class EraseTests(FolderCase):
    def test_killed_between_the_steps(self) -> None:
        """After kill -9 at any transaction no token is valid, and the next start erases the rest."""
        for after in STEPS:
            self.begin()
            cut = self.dies("erase", after)
            state = self.rows(AUTH, f"SELECT state FROM player WHERE player_id = '{ANNA}'")
            if after > 1:  # the first only asks whether state.db can be written
                self.assertIn(state, ([("erasing",)], []))
                self.assertEqual(
                    self.rows(AUTH, f"SELECT 1 FROM session WHERE player_id = '{ANNA}' AND revoked_ms IS NULL"), []
                )
                self.resume()
                self.assertEqual(set(self.of(ANNA).values()), {0}, after)
            self.assertEqual(self.of(BERT), {**self.of(BERT), "player": 1, "identity": 1, "save": 3})
            self.assert_sound()
            if not cut:
                break
        self.assertIn(after, range(4, max(STEPS)), "killed at every step, and then not any more")
        self.assertEqual(self.rows(STATE, f"SELECT count(*) FROM blob WHERE player_id = '{ANNA}'"), [(0,)])

    def test_many_rows(self) -> None:
        """A player with more tokens than one transaction deletes is deleted in several."""

        def insert_sessions(connection: Connection) -> None:
            issuer = CredentialIssuer(keys=KEYS, policy=POLICY, random=lambda size: next(numbers).to_bytes(size, "big"))
            numbers = iter(range(10**6, 10**7))
            for _ in range(MAX_SESSIONS - 1):
                _, pair = sign_in(connection, issuer, NOW_MS)
                for _ in range(7):
                    exchanged = refresh(connection, issuer, pair.refresh, NOW_MS)
                    assert isinstance(exchanged, Refreshed)
                    pair = exchanged.pair

        self.store.run_transaction(AUTH, insert_sessions)
        self.store.run_transaction(AUTH, lambda connection: player_store.mark_removed(connection, ANNA, NOW_MS))
        transactions = 1
        while self.store.run_transaction(AUTH, lambda c: player_store.delete_player_rows(c, Removal(ANNA))):
            transactions += 1
        self.assertEqual(transactions, 4)
        self.assertEqual(self.of(ANNA)["player"], 0)
        self.assertEqual(self.of(BERT)["session"], 1)

    def test_credentials_of_many_generations(self) -> None:
        """All credentials of a session are deleted, also those of one instant, and renewed access tokens."""
        issuer = CredentialIssuer(keys=KEYS, policy=POLICY, random=lambda size: next(numbers).to_bytes(size, "big"))
        numbers = iter(range(10**6, 10**7))

        def rotate(connection: Connection) -> None:
            _, pair = sign_in(connection, issuer, NOW_MS)
            of_one_tick = [NOW_MS + number * 65536 * TICK_MS for number in range(9)]
            for now_ms in (*[NOW_MS] * 9, *of_one_tick, *range(NOW_MS, NOW_MS + 600)):
                presented = pair.refresh
                for at_ms in (now_ms, now_ms + 900_000):  # the second one gets a renewed access token
                    answer = refresh(connection, issuer, presented, at_ms)
                    assert isinstance(answer, Refreshed), answer
                    pair = answer.pair

        self.store.run_transaction(AUTH, rotate)
        count = "SELECT count(*) FROM credential c JOIN session s USING (session_id) WHERE player_id = "
        self.assertGreater(self.rows(AUTH, f"{count}'{ANNA}'"), [(1800,)])
        self.store.run_transaction(AUTH, lambda connection: player_store.mark_removed(connection, ANNA, NOW_MS))
        transactions = 1
        while self.store.run_transaction(AUTH, lambda c: player_store.delete_player_rows(c, Removal(ANNA))):
            transactions += 1
        self.assertEqual(transactions, 4)
        self.assertEqual(self.rows(AUTH, f"{count}'{BERT}'"), [(2,)])
        self.assertEqual(self.rows(AUTH, "SELECT count(*) FROM credential"), [(2,)])


class MergeTests(FolderCase):
    def merge(self) -> player_store.MergeResult:
        merged: player_store.MergeResult = self.store.run_transaction(
            AUTH, lambda connection: player_store.merge_players(connection, KEYS, ANNA, BERT, NOW_MS)
        )
        return merged

    def assert_merged(self) -> None:
        """Assert that Bert has everything, once."""
        self.assertEqual(set(self.of(ANNA).values()), {0})
        found = {
            slot: (version.tag, [copy.kind for copy in self.at(STATE, lambda c, s=slot: self.copies(c, s))])
            for slot in ("auto", "both", "own", "same")
            for version in [self.at(STATE, lambda c, s=slot: save_tables.slot_state(c, BERT, s).current)]
        }
        self.assertEqual(
            found,
            {
                "auto": (tag(2, b"two"), []),
                "both": (tag(1, b"bert's"), [VersionKind.CONFLICT]),
                "own": (tag(1, b"two"), []),
                "same": (tag(1, b"equal"), []),
            },
        )
        self.assertEqual(len(self.at(STATE, lambda c: version_tables.list_versions(c, BERT, "auto"))), 2)
        self.assertEqual(self.rows(AUTH, "SELECT * FROM player_merge"), [])
        self.assert_sound()

    def copies(self, connection: Connection, slot: str) -> list[Any]:
        return [
            each for each in version_tables.list_versions(connection, BERT, slot) if each.kind is VersionKind.CONFLICT
        ]

    def test_everything_follows(self) -> None:
        """The heir gets saves with their history, and sign-in methods of other providers; the old sessions end."""
        merged = self.merge()
        self.assertEqual((sorted(merged.moved), merged.left), (["discord", "local"], ("google",)))
        self.resume()
        self.assert_merged()
        self.assertEqual(
            self.at(
                AUTH,
                lambda c: (player_tables.identity_owner(c, ANNAS), player_tables.identity_owner(c, Index(bytes(32)))),
            ),
            (BERT, None),
        )
        named = self.at(AUTH, lambda c: player_tables.find_named(c, KEYS, "anna"))
        self.assertEqual((named.player.player_id, named.name), (BERT, "Anna"))
        copy = self.at(STATE, lambda c: self.copies(c, "both"))[0]
        self.assertEqual(copy.content.sha256, sha256(b"anna's").digest())

    def test_killed_between_the_steps(self) -> None:
        """After kill -9 at any transaction the next start completes the merge, with nothing lost and nothing twice."""
        for after in STEPS:
            self.begin()
            cut = self.dies("merge", after)
            self.resume()
            self.assert_merged()
            if not cut:
                break
        self.assertIn(after, range(4, max(STEPS)), "killed at every step, and then not any more")

    def test_killed_between_small_steps(self) -> None:
        """After kill -9 at any step the heir has all or none of the saves, and each version is there once."""
        for after in STEPS:
            self.begin()
            self.store.run_transaction(STATE, self.more_saves)
            before = self.rows(STATE, f"SELECT slot, sha256 FROM save_version WHERE player_id = '{ANNA}' ORDER BY 1, 2")
            cut = self.dies("steps", after)
            slots = {slot for (slot,) in self.rows(STATE, f"SELECT slot FROM save WHERE player_id = '{BERT}'")}
            self.assertIn(slots & {"auto", "long"}, (set(), {"auto", "long"}))
            if cut:
                found = self.rows(STATE, "SELECT slot, sha256 FROM save_version ORDER BY 1, 2")
                self.assertTrue(Counter(before) <= Counter(found), "no version is lost before the end")
            self.resume()
            self.assert_merged()
            numbers = "SELECT version FROM save_version WHERE slot = 'long' ORDER BY version"
            self.assertEqual(self.rows(STATE, numbers), [(number,) for number in range(1, 6)])
            if not cut:
                break
        self.assertIn(after, range(12, max(STEPS)), "killed at every step, and then not any more")

    def more_saves(self, connection: Connection) -> None:
        for number in range(5):
            save(connection, ANNA, "long", b"%d" % number)

    def test_of_a_lost_auth_db(self) -> None:
        """A player whom only state.db knows, as after the loss of auth.db, is merged, too."""
        self.at_auth("DELETE FROM player")
        self.store.run_transaction(AUTH, lambda connection: player_tables.create_player(connection, BERT, NOW_MS))
        self.assertEqual(self.merge(), player_store.MergeResult((), ()))
        self.resume()
        self.assert_merged()

    def test_owner(self) -> None:
        """The heir of the owner becomes the owner."""
        self.store.run_transaction(AUTH, lambda connection: player_tables.set_owner(connection, ANNA))
        self.merge()
        self.assertEqual(self.at(AUTH, player_tables.find_owner), BERT)

    def test_display_name(self) -> None:
        """An heir without a display name gets the player's; an heir who has one keeps it."""
        for heirs, left in ((None, "Anna"), ("Bert", "Bert")):
            self.begin()
            for player_id, name in ((ANNA, "Anna"), (BERT, heirs)):
                self.store.run_transaction(
                    AUTH,
                    lambda c, who=player_id, name=name: player_tables.set_display_name(c, KEYS.sealer, who, name),
                )
            self.merge()
            self.assertEqual(self.at(AUTH, lambda c: player_tables.find_named(c, KEYS, BERT)).display_name, left)

    def test_no_heir(self) -> None:
        """Without an heir nothing changes."""
        for heir in ("ply_nobody", ANNA):
            self.store.run_transaction(AUTH, lambda connection: player_store.mark_removed(connection, ANNA, NOW_MS))
            self.assertRaises(
                PlayerUnknown,
                self.store.run_transaction,
                AUTH,
                lambda connection, heir=heir: player_store.merge_players(connection, KEYS, BERT, heir, NOW_MS),
            )
        self.assertEqual(self.rows(AUTH, "SELECT * FROM player_merge"), [])

    def test_heir_erased_meanwhile(self) -> None:
        """If the heir is erased before the saves are moved, the rows of both players are deleted."""
        self.merge()
        self.store.run_transaction(AUTH, lambda connection: player_store.mark_removed(connection, BERT, NOW_MS))
        self.resume()
        self.assertEqual((set(self.of(ANNA).values()), set(self.of(BERT).values())), ({0}, {0}))

    def test_order(self) -> None:
        """A merge into a player comes before that player's own, also in one millisecond or after a clock set back."""
        ids = [f"ply_{letter * 22}" for letter in "ZYXW"]
        for later_ms in (0, -5, 5):
            self.begin()

            def chain(connection: Connection, later_ms: int = later_ms) -> list[Removal]:
                for player_id in ids:
                    player_tables.create_player(connection, player_id, NOW_MS)
                for number, pair in enumerate(pairwise(ids)):
                    player_store.merge_players(connection, KEYS, *pair, NOW_MS + number * later_ms)
                player_store.mark_removed(connection, BERT, NOW_MS)
                return player_store.unfinished_removals(connection)

            expected = [*(Removal(*pair) for pair in pairwise(ids)), Removal(BERT)]
            self.assertEqual(self.store.run_transaction(AUTH, chain), expected, later_ms)

    def test_erase_after_chain(self) -> None:
        """An erasure ends the merges before it, also those that lead to it through another player."""
        third = "ply_" + "Z" * 22

        def chain(connection: Connection) -> None:
            player_tables.create_player(connection, third, NOW_MS)
            player_store.merge_players(connection, KEYS, ANNA, third, NOW_MS)
            player_store.merge_players(connection, KEYS, third, BERT, NOW_MS)

        self.store.run_transaction(AUTH, chain)
        databases = file_databases(self, data=self.data)
        removals = self.removals(databases)
        self.assertTrue(self.successResultOf(ensureDeferred(removals.erase(BERT))))
        for player_id in (ANNA, third, BERT):
            self.assertEqual(set(self.of(player_id).values()), {0}, player_id)

    def test_deleted_slots(self) -> None:
        """A deleted slot stays deleted for the heir, and a copy is added where the heir's own slot is deleted."""

        def delete(connection: Connection, player_id: str, slot: str) -> None:
            head = save_tables.slot_state(connection, player_id, slot).current
            assert head is not None
            epoch = save_tables.find_player(connection, player_id).cursor.epoch
            order = DeleteCommand(
                WriteContext(player_id, epoch), slot, Condition(ConditionKind.THIS, head.entity_tag), NOW_MS
            )
            write_store.delete_save(connection, LIMITS, order)

        self.store.run_transaction(STATE, lambda connection: delete(connection, ANNA, "auto"))
        self.store.run_transaction(STATE, lambda connection: delete(connection, BERT, "both"))
        self.merge()
        self.resume()
        self.assert_sound()
        views = self.at(STATE, lambda c: [save_tables.slot_state(c, BERT, slot) for slot in ("auto", "both")])
        self.assertEqual([view.current for view in views], [None, None])
        self.assertEqual(len(self.at(STATE, lambda c: self.copies(c, "both"))), 1)

    def at_auth(self, sql: str) -> None:
        self.store.run_transaction(AUTH, lambda connection: connection.execute(sql).close())


def tag(version: int, data: bytes) -> str:
    return f"{version}-{sha256(data).hexdigest()[:16]}"
