"""The rules W1 to W7 of docs/internals/rules.md, and those of DELETE, agree with tables."""

from itertools import product

from msgspec.structs import replace
from twisted.trial.unittest import SynchronousTestCase

from gamed.http.conditional import EntityTag
from gamed.saves.model import SaveContent, SlotState, Version, VersionKind
from gamed.saves.write_rules import (
    UNCONDITIONAL,
    WRITES,
    Condition,
    ConditionKind,
    DeleteDecision,
    MatchingVersions,
    WriteDecision,
    WriteRule,
    decide_delete,
    decide_write,
)

OLD, NOW, NEW = (SaveContent(bytes([n]) * 32, 10, "text/plain") for n in (1, 2, 3))


def version(
    number: int, body: SaveContent | None, kind: VersionKind = VersionKind.WRITE, parent: Version | None = None
) -> Version:
    tag = parent.tag if parent else None
    return Version(
        slot="auto",
        version=number,
        parent=parent and parent.version,
        parent_tag=tag,
        kind=kind,
        blob_id=number,
        content=body,
        created_ms=0,
    )


FIRST = version(1, OLD)
HEAD = version(2, NOW, parent=FIRST)
TOMBSTONE = version(3, None, VersionKind.DELETE, parent=HEAD)
UNSEEN = SlotState()
LIVE = SlotState(2, current=HEAD)
DELETED = SlotState(3, tombstone=TOMBSTONE)

HEAD_TAG = Condition(ConditionKind.THIS, EntityTag(HEAD.tag))
OLD_TAG = Condition(ConditionKind.THIS, EntityTag(FIRST.tag))
WEAK_TAG = Condition(ConditionKind.THIS, EntityTag(HEAD.tag, weak=True))
PRESENT, ABSENT = Condition(ConditionKind.PRESENT), Condition(ConditionKind.ABSENT)
EVERY = (UNCONDITIONAL, HEAD_TAG, OLD_TAG, WEAK_TAG, PRESENT, ABSENT)

# slot, condition, the rule for bytes that the slot does not hold and history does not know
TABLE = [
    (UNSEEN, UNCONDITIONAL, WriteRule.W2_FIRST),
    (UNSEEN, ABSENT, WriteRule.W4_WRITTEN),
    (UNSEEN, HEAD_TAG, WriteRule.W7_NEVER_USED),
    (UNSEEN, WEAK_TAG, WriteRule.W7_NEVER_USED),
    (UNSEEN, PRESENT, WriteRule.W7_NEVER_USED),
    (LIVE, UNCONDITIONAL, WriteRule.W3_UNCONDITIONAL),
    (LIVE, HEAD_TAG, WriteRule.W4_WRITTEN),
    (LIVE, PRESENT, WriteRule.W4_WRITTEN),
    (LIVE, OLD_TAG, WriteRule.W6_CONFLICT),
    (LIVE, WEAK_TAG, WriteRule.W6_CONFLICT),
    (LIVE, ABSENT, WriteRule.W6_CONFLICT),
    (DELETED, UNCONDITIONAL, WriteRule.W3_UNCONDITIONAL),
    (DELETED, ABSENT, WriteRule.W4_WRITTEN),
    (DELETED, HEAD_TAG, WriteRule.W6_CONFLICT),
    (DELETED, OLD_TAG, WriteRule.W6_CONFLICT),
    (DELETED, WEAK_TAG, WriteRule.W6_CONFLICT),
    (DELETED, PRESENT, WriteRule.W6_CONFLICT),
]

REMOVALS = [
    (UNSEEN, UNCONDITIONAL, DeleteDecision.NEVER_USED),
    (UNSEEN, HEAD_TAG, DeleteDecision.NEVER_USED),
    (UNSEEN, PRESENT, DeleteDecision.NEVER_USED),
    (LIVE, UNCONDITIONAL, DeleteDecision.UNCONDITIONAL),
    (LIVE, HEAD_TAG, DeleteDecision.DELETES),
    (LIVE, PRESENT, DeleteDecision.DELETES),
    (LIVE, OLD_TAG, DeleteDecision.CONFLICT),
    (LIVE, WEAK_TAG, DeleteDecision.CONFLICT),
    (DELETED, UNCONDITIONAL, DeleteDecision.ALREADY_DELETED),
    (DELETED, HEAD_TAG, DeleteDecision.ALREADY_DONE),
    (DELETED, PRESENT, DeleteDecision.ALREADY_DONE),
    (DELETED, OLD_TAG, DeleteDecision.ALREADY_DELETED),
    (DELETED, WEAK_TAG, DeleteDecision.ALREADY_DELETED),
    (SlotState(3), HEAD_TAG, DeleteDecision.ALREADY_DELETED),  # the tombstone is no longer kept
]


class WriteTest(SynchronousTestCase):
    def test_new_bytes(self) -> None:
        """For new bytes the condition alone decides."""
        self.assertEqual({(state, condition) for state, condition, _ in TABLE} ^ set(self.reasonable()), set())
        for state, condition, rule in TABLE:
            self.assertEqual(
                decide_write(state, condition, NEW, MatchingVersions()),
                WriteDecision(rule),
                (state.last_version, condition),
            )

    def reasonable(self) -> set[tuple[SlotState, Condition]]:
        """All pairs; on a slot never seen one tag is as unknown as another."""
        return set(product((UNSEEN, LIVE, DELETED), EVERY)) - {(UNSEEN, OLD_TAG)}

    def test_same_bytes(self) -> None:
        """W1: what the slot already holds is success under every condition, even a false one."""
        for condition in EVERY:
            self.assertEqual(
                decide_write(LIVE, condition, NOW, MatchingVersions()),
                WriteDecision(WriteRule.W1_ALREADY_THERE),
                condition,
            )

    def test_same_bytes_other_meta(self) -> None:
        """W1: another Save-Meta on the same bytes is a new version where the condition holds, else nothing."""
        body = replace(NOW, meta="{}")
        for condition in EVERY:
            rule = WriteRule.W1_RELABELLED if condition in (HEAD_TAG, PRESENT) else WriteRule.W1_ALREADY_THERE
            self.assertIs(decide_write(LIVE, condition, body, MatchingVersions()).rule, rule, condition)

    def test_same_bytes_other_type(self) -> None:
        """The same bytes under another type are another save."""
        body = replace(NOW, content_type="application/json")
        self.assertIs(decide_write(LIVE, HEAD_TAG, body, MatchingVersions()).rule, WriteRule.W4_WRITTEN)
        self.assertIs(decide_write(LIVE, OLD_TAG, body, MatchingVersions()).rule, WriteRule.W6_CONFLICT)

    def test_superseded(self) -> None:
        """W5: a repeated write whose version was replaced is superseded, and nothing is stored twice."""
        for state, condition in product((LIVE, DELETED), (OLD_TAG, WEAK_TAG, ABSENT, HEAD_TAG)):
            if condition.holds(state.current):
                continue
            decision = decide_write(state, condition, NEW, MatchingVersions(written=FIRST, copied=HEAD))
            self.assertEqual(decision, WriteDecision(WriteRule.W5_SUPERSEDED, FIRST), (state.last_version, condition))

    def test_star_supersedes_nothing(self) -> None:
        """`If-Match: *` names no version, so nothing in history can have come of it."""
        decision = decide_write(DELETED, PRESENT, NEW, MatchingVersions(written=FIRST))
        self.assertEqual(decision, WriteDecision(WriteRule.W6_CONFLICT))

    def test_refused_again(self) -> None:
        """W6 repeated finds its own copy."""
        decision = decide_write(LIVE, OLD_TAG, NEW, MatchingVersions(copied=FIRST))
        self.assertEqual(decision, WriteDecision(WriteRule.W6_CONFLICT, FIRST))
        self.assertFalse(decision.stores_copy)
        self.assertTrue(decide_write(LIVE, OLD_TAG, NEW, MatchingVersions()).stores_copy)

    def test_rules_that_write(self) -> None:
        """Only W1 with new metadata, W2 and W4 change what is current."""
        self.assertEqual(WRITES, {WriteRule.W1_RELABELLED, WriteRule.W2_FIRST, WriteRule.W4_WRITTEN})


class DeleteTest(SynchronousTestCase):
    def test_table(self) -> None:
        """An empty slot is decided before the condition; a repeated DELETE recognises its own effect."""
        for state, condition, decision in REMOVALS:
            self.assertIs(decide_delete(state, condition), decision, (state.last_version, condition))
