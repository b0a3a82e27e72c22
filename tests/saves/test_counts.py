"""Usage, references and change numbers are counted along; here they are counted again.

See docs/protocol.md: Saves, Limits.
"""

from contextlib import closing

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from gamed.config.game import SaveLimits
from gamed.http.conditional import EntityTag
from gamed.saves import tables as save_tables
from gamed.saves.commands import DeleteResult, WriteResult
from gamed.saves.errors import QuotaExceeded, SaveError, TooManySlots
from gamed.saves.limits import VERSION_BYTES
from gamed.saves.prune_store import PRUNE_VERSIONS
from gamed.saves.write_rules import UNCONDITIONAL, WRITES, Condition, ConditionKind, DeleteDecision
from tests.saves.state_machine import PLAYER, StoredSlot, count_errors

TIGHT = SaveLimits(slots=3, bytes=30, history_bytes=40 + 4 * VERSION_BYTES, deleted_slots=1, conflict_copies=2)
SLOTS = ("a", "b", "c", "d")
conditions = st.sampled_from([ConditionKind.ANYTHING, ConditionKind.PRESENT, ConditionKind.ABSENT, ConditionKind.THIS])
writes = st.tuples(
    st.sampled_from(SLOTS), conditions, st.binary(min_size=1, max_size=20), st.sampled_from([None, "{}"]), st.booleans()
)
deletes = st.tuples(st.sampled_from(SLOTS), conditions, st.none(), st.none(), st.booleans())


class CountTest(SynchronousTestCase):
    @given(st.lists(st.one_of(writes, writes, writes, deletes), max_size=30))
    def test_any_history(self, steps: list[tuple[str, ConditionKind, bytes | None, str | None, bool]]) -> None:
        """After any steps all counts agree, no limit is broken, and each slot's last change has a number of its own."""
        with closing(StoredSlot(TIGHT)) as stored:
            self.check(stored, steps)

    def check(self, stored: StoredSlot, steps: list[tuple[str, ConditionKind, bytes | None, str | None, bool]]) -> None:
        for slot, wants, data, meta, current in steps:
            seq = save_tables.find_player(stored.connection, PLAYER).cursor.seq
            before = len(stored.connection.execute("SELECT 1 FROM save_version").fetchall())
            condition = self.condition(stored, slot, wants, current)
            answer = stored.delete(condition, slot) if data is None else stored.put(condition, data, meta, slot)
            summary = save_tables.find_player(stored.connection, PLAYER)
            self.assertEqual(count_errors(stored.connection), [])
            self.assertLessEqual(summary.usage.slots, TIGHT.slots)
            self.assertLessEqual(summary.usage.bytes, TIGHT.bytes)
            changed = len(stored.connection.execute("SELECT 1 FROM save_version").fetchall()) != before
            if self.made_something(answer):
                self.assertIn(summary.cursor.seq - seq, range(1, 2 + PRUNE_VERSIONS))
                numbers = stored.connection.execute("SELECT seq FROM save").fetchall()
                self.assertEqual(len(set(numbers)), len(numbers))
            else:
                self.assertEqual((summary.cursor.seq, changed), (seq, False))

    def condition(self, stored: StoredSlot, slot: str, wants: ConditionKind, current: bool) -> Condition:
        if wants is ConditionKind.ANYTHING:
            return UNCONDITIONAL
        if wants is not ConditionKind.THIS:
            return Condition(wants)
        history = [version for version in stored.history(slot) if version.content]
        tag = history[0 if current else -1].tag if history else "1-0123456789abcdef"
        return Condition(wants, EntityTag(tag))

    def made_something(self, answer: object) -> bool:
        if isinstance(answer, DeleteResult):
            return answer.decision is DeleteDecision.DELETES
        if isinstance(answer, SaveError):
            self.assertIsInstance(answer, QuotaExceeded | TooManySlots)
            return False
        assert isinstance(answer, WriteResult)
        return answer.decision.rule in WRITES or (answer.decision.stores_copy and not answer.dropped)
