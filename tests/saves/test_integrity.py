"""`gamed check data` finds wrong rows in state.db, and --fix repairs them without deleting a version."""

from twisted.trial.unittest import SynchronousTestCase

from gamed.config.game import SaveLimits
from gamed.saves import cleanup, integrity
from gamed.saves import tables as save_tables
from gamed.saves.write_rules import UNCONDITIONAL, Condition, ConditionKind
from tests.saves.state_machine import PLAYER, StoredSlot, count_errors

PRESENT, ABSENT = Condition(ConditionKind.PRESENT), Condition(ConditionKind.ABSENT)
LATER_MS = 1_900_000_000_000


class CheckingTest(SynchronousTestCase):
    def setUp(self) -> None:
        self.stored = stored = StoredSlot()
        self.addCleanup(stored.close)
        stored.put(UNCONDITIONAL, b"one")
        stored.put(PRESENT, b"two")
        stored.put(ABSENT, b"refused")
        stored.put(UNCONDITIONAL, b"gone", slot="old")
        stored.delete(PRESENT, slot="old")

    def found(self) -> list[str]:
        return [
            line.split(":")[0]
            for check in integrity.CHECKS
            for line in integrity.find_errors(self.stored.connection, check)
        ]

    def broken(self, *statements: str) -> list[str]:
        """Return the errors found after the damage; after the repair there are none."""
        for statement in statements:
            self.assertGreater(self.stored.connection.execute(statement).rowcount, 0)
        found = self.found()
        integrity.repair(self.stored.connection, "new")
        self.assertEqual((self.found(), count_errors(self.stored.connection)), ([], []))
        return found

    def test_well(self) -> None:
        """Without errors nothing is repaired."""
        self.assertEqual((self.found(), integrity.repair(self.stored.connection, "new")), ([], 0))

    def test_lost_slots(self) -> None:
        """A slot without a row gets its current version back, a deleted one can be restored, and clients see it."""
        cursor = save_tables.find_player(self.stored.connection, PLAYER).cursor
        self.assertIn("a version of a slot that is not listed", self.broken("DELETE FROM save"))
        changed = save_tables.changed_slots(self.stored.connection, PLAYER, cursor.seq, 10)
        self.assertEqual({entry.slot for _, entry in changed}, {"auto", "old"})
        auto, old = (save_tables.slot_state(self.stored.connection, PLAYER, slot) for slot in ("auto", "old"))
        self.assertEqual((auto.current.version, auto.last_version, old.current, old.tombstone.parent), (2, 3, None, 1))
        self.stored.connection.execute("UPDATE save SET prune_at_ms = 0")
        cleanup.prune_histories(self.stored.connection, SaveLimits(), auto.current.created_ms)
        self.assertEqual(len(self.stored.history()) + len(self.stored.history("old")), 5)

    def test_lost_slot_of_copies(self) -> None:
        """If only refused bytes are left, they are kept as long as other conflict copies."""
        self.broken(
            "DELETE FROM save WHERE slot = 'auto'", "DELETE FROM save_version WHERE slot = 'auto' AND version < 3"
        )
        state = save_tables.slot_state(self.stored.connection, PLAYER, "auto")
        self.assertEqual((state.current, state.last_version), (None, 3))
        self.assertEqual([version.version for version in self.stored.history()], [3])

    def test_lost_player_row(self) -> None:
        """A player without a row in player_saves keeps all saves, and gets a new epoch."""
        found = self.broken("DELETE FROM player_saves")
        self.assertIn("saves of a player without a row in player_saves", found)
        saves = save_tables.find_player(self.stored.connection, PLAYER)
        self.assertEqual((saves.usage.slots, saves.usage.bytes), (1, 3))
        self.assertNotEqual(saves.cursor.epoch, "epoch1")
        self.stored.put(PRESENT, b"three")
        self.assertEqual(count_errors(self.stored.connection), [])

    def test_wrong_counts(self) -> None:
        """Each wrong counter is repaired alone."""
        for what, statement in (
            ("a save whose last version number is too low", "UPDATE save SET last_version = 1"),
            ("an old version without the time it was replaced", "UPDATE save_version SET retired_ms = NULL"),
            ("bytes with a wrong count of references", "UPDATE blob SET refs = refs + 1"),
            ("a player's usage that is counted wrong", "UPDATE player_saves SET slots = 7, kept_bytes = 0"),
            ("a change later than the last one of its player", "UPDATE save SET seq = 1000 WHERE slot = 'old'"),
        ):
            with self.subTest(what):
                self.assertEqual(set(self.broken(statement)), {what})
