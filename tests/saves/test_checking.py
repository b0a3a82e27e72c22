"""What `gamed check data` finds in the rows of state.db, and what --fix makes of it: nothing that is kept goes."""

from twisted.trial.unittest import SynchronousTestCase

from gamed.saves import cleanup, integrity
from gamed.saves import tables as save_tables
from gamed.saves.limits import SaveLimits
from gamed.saves.write_rules import UNCONDITIONAL, Condition, ConditionKind
from tests.saves.state_machine import PLAYER, StoredWorld, flaws

PRESENT, ABSENT = Condition(ConditionKind.PRESENT), Condition(ConditionKind.ABSENT)
LATER_MS = 1_900_000_000_000


class CheckingTest(SynchronousTestCase):
    def setUp(self) -> None:
        self.world = world = StoredWorld()
        world.put(UNCONDITIONAL, b"one")
        world.put(PRESENT, b"two")
        world.put(ABSENT, b"refused")
        world.put(UNCONDITIONAL, b"gone", slot="old")
        world.delete(PRESENT, slot="old")

    def found(self) -> list[str]:
        return [
            line.split(":")[0]
            for check in integrity.CHECKS
            for line in integrity.find_errors(self.world.connection, check)
        ]

    def broken(self, *statements: str) -> list[str]:
        """What is found after the damage; then it is mended, and nothing is found any more."""
        for statement in statements:
            self.assertGreater(self.world.connection.execute(statement).rowcount, 0)
        found = self.found()
        integrity.repair(self.world.connection)
        self.assertEqual((self.found(), flaws(self.world.connection)), ([], []))
        return found

    def test_well(self) -> None:
        """Nothing is found, and nothing mended."""
        self.assertEqual((self.found(), integrity.repair(self.world.connection)), ([], 0))

    def test_lost_slots(self) -> None:
        """A slot that is not listed holds again what it held; a deleted one can be brought back. Devices hear of it."""
        cursor = save_tables.find_player(self.world.connection, PLAYER).cursor
        self.assertIn("a version of a slot that is not listed", self.broken("DELETE FROM save"))
        entries = {each.slot: each for each in save_tables.changed_slots(self.world.connection, PLAYER, cursor.seq)}
        self.assertEqual(set(entries), {"auto", "old"})
        auto, old = (save_tables.slot_state(self.world.connection, PLAYER, slot) for slot in ("auto", "old"))
        self.assertEqual((auto.current.version, auto.last_version, old.current, old.tombstone.parent), (2, 3, None, 1))
        self.world.connection.execute("UPDATE save SET prune_at_ms = 0")
        cleanup.prune_histories(self.world.connection, SaveLimits(), auto.current.created_ms)
        self.assertEqual(len(self.world.history()) + len(self.world.history("old")), 5)

    def test_lost_slot_of_copies(self) -> None:
        """Where only refused bytes are left, they stay as long as any."""
        self.broken(
            "DELETE FROM save WHERE slot = 'auto'", "DELETE FROM save_version WHERE slot = 'auto' AND version < 3"
        )
        state = save_tables.slot_state(self.world.connection, PLAYER, "auto")
        self.assertEqual((state.current, state.last_version), (None, 3))
        self.assertEqual([version.version for version in self.world.history()], [3])

    def test_lost_shelf(self) -> None:
        """A player without a row in player_saves keeps all saves, and gets a new epoch."""
        found = self.broken("DELETE FROM player_saves")
        self.assertIn("saves of a player without a row in player_saves", found)
        saves = save_tables.find_player(self.world.connection, PLAYER)
        self.assertEqual((saves.usage.slots, saves.usage.bytes), (1, 3))
        self.assertNotEqual(saves.cursor.epoch, "epoch1")
        self.world.put(PRESENT, b"three")
        self.assertEqual(flaws(self.world.connection), [])

    def test_wrong_counts(self) -> None:
        """Each count on its own."""
        for what, statement in (
            ("a save whose last version number is too low", "UPDATE save SET last_version = 1"),
            ("an old version without the time it was replaced", "UPDATE save_version SET retired_ms = NULL"),
            ("bytes with a wrong count of references", "UPDATE blob SET refs = refs + 1"),
            ("a player's usage that is counted wrong", "UPDATE player_saves SET slots = 7, kept_bytes = 0"),
            ("a change later than the last one of its player", "UPDATE save SET seq = 1000 WHERE slot = 'old'"),
        ):
            with self.subTest(what):
                self.assertEqual(set(self.broken(statement)), {what})
