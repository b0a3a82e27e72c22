"""W1 to W7 of PROTOCOL 4.1 as tables, and what a DELETE comes to."""

from itertools import product

from msgspec.structs import replace
from twisted.trial.unittest import SynchronousTestCase

from gamed.http_rules.tags import EntityTag
from gamed.saves.condition import UNCONDITIONAL, Condition, Wants
from gamed.saves.rules import WRITES, Earlier, Removal, Rule, SlotView, Verdict, judge_delete, judge_write
from gamed.saves.version import Body, Kind, Version

OLD, NOW, NEW = (Body(bytes([n]) * 32, 10, "text/plain") for n in (1, 2, 3))


def version(number: int, body: Body | None, kind: Kind = Kind.WRITE, parent: Version | None = None) -> Version:
    tag = parent.tag if parent else None
    return Version("auto", number, parent and parent.version, tag, kind, number, body, 0)


FIRST = version(1, OLD)
HEAD = version(2, NOW, parent=FIRST)
TOMBSTONE = version(3, None, Kind.DELETE, parent=HEAD)
UNSEEN = SlotView()
LIVE = SlotView(2, head=HEAD)
DELETED = SlotView(3, tombstone=TOMBSTONE)

HEAD_TAG = Condition(Wants.THIS, EntityTag(HEAD.tag))
OLD_TAG = Condition(Wants.THIS, EntityTag(FIRST.tag))
WEAK_TAG = Condition(Wants.THIS, EntityTag(HEAD.tag, weak=True))
PRESENT, ABSENT = Condition(Wants.PRESENT), Condition(Wants.ABSENT)
EVERY = (UNCONDITIONAL, HEAD_TAG, OLD_TAG, WEAK_TAG, PRESENT, ABSENT)

# slot, condition, the rule for bytes that the slot does not hold and history does not know
TABLE = [
    (UNSEEN, UNCONDITIONAL, Rule.W2_FIRST),
    (UNSEEN, ABSENT, Rule.W4_WRITTEN),
    (UNSEEN, HEAD_TAG, Rule.W7_NEVER_SEEN),
    (UNSEEN, WEAK_TAG, Rule.W7_NEVER_SEEN),
    (UNSEEN, PRESENT, Rule.W7_NEVER_SEEN),
    (LIVE, UNCONDITIONAL, Rule.W3_UNCONDITIONAL),
    (LIVE, HEAD_TAG, Rule.W4_WRITTEN),
    (LIVE, PRESENT, Rule.W4_WRITTEN),
    (LIVE, OLD_TAG, Rule.W6_CONFLICT),
    (LIVE, WEAK_TAG, Rule.W6_CONFLICT),
    (LIVE, ABSENT, Rule.W6_CONFLICT),
    (DELETED, UNCONDITIONAL, Rule.W3_UNCONDITIONAL),
    (DELETED, ABSENT, Rule.W4_WRITTEN),
    (DELETED, HEAD_TAG, Rule.W6_CONFLICT),
    (DELETED, OLD_TAG, Rule.W6_CONFLICT),
    (DELETED, WEAK_TAG, Rule.W6_CONFLICT),
    (DELETED, PRESENT, Rule.W6_CONFLICT),
]

REMOVALS = [
    (UNSEEN, UNCONDITIONAL, Removal.NEVER_SEEN),
    (UNSEEN, HEAD_TAG, Removal.NEVER_SEEN),
    (UNSEEN, PRESENT, Removal.NEVER_SEEN),
    (LIVE, UNCONDITIONAL, Removal.UNCONDITIONAL),
    (LIVE, HEAD_TAG, Removal.DELETES),
    (LIVE, PRESENT, Removal.DELETES),
    (LIVE, OLD_TAG, Removal.CONFLICT),
    (LIVE, WEAK_TAG, Removal.CONFLICT),
    (DELETED, UNCONDITIONAL, Removal.ALREADY_DELETED),
    (DELETED, HEAD_TAG, Removal.ALREADY_DONE),
    (DELETED, PRESENT, Removal.ALREADY_DONE),
    (DELETED, OLD_TAG, Removal.ALREADY_DELETED),
    (DELETED, WEAK_TAG, Removal.ALREADY_DELETED),
    (SlotView(3), HEAD_TAG, Removal.ALREADY_DELETED),  # the tombstone is no longer kept
]


class WriteTest(SynchronousTestCase):
    def test_new_bytes(self) -> None:
        """Bytes that are new everywhere are judged by the condition alone."""
        self.assertEqual({(view, condition) for view, condition, _ in TABLE} ^ set(self.reasonable()), set())
        for view, condition, rule in TABLE:
            self.assertEqual(judge_write(view, condition, NEW, Earlier()), Verdict(rule), (view.last, condition))

    def reasonable(self) -> set[tuple[SlotView, Condition]]:
        """All pairs; on a slot never seen one tag is as unknown as another."""
        return set(product((UNSEEN, LIVE, DELETED), EVERY)) - {(UNSEEN, OLD_TAG)}

    def test_same_bytes(self) -> None:
        """W1: what the slot already holds is success under every condition, even a false one."""
        for condition in EVERY:
            self.assertEqual(judge_write(LIVE, condition, NOW, Earlier()), Verdict(Rule.W1_ALREADY_THERE), condition)

    def test_same_bytes_other_meta(self) -> None:
        """W1: another Save-Meta on the same bytes is a new version where the condition holds, else nothing."""
        body = replace(NOW, meta="{}")
        for condition in EVERY:
            rule = Rule.W1_RELABELLED if condition in (HEAD_TAG, PRESENT) else Rule.W1_ALREADY_THERE
            self.assertIs(judge_write(LIVE, condition, body, Earlier()).rule, rule, condition)

    def test_same_bytes_other_type(self) -> None:
        """The same bytes under another type are another save."""
        body = replace(NOW, ctype="application/json")
        self.assertIs(judge_write(LIVE, HEAD_TAG, body, Earlier()).rule, Rule.W4_WRITTEN)
        self.assertIs(judge_write(LIVE, OLD_TAG, body, Earlier()).rule, Rule.W6_CONFLICT)

    def test_superseded(self) -> None:
        """W5: a write that took place and was replaced since is told so, and nothing is stored twice."""
        for view, condition in product((LIVE, DELETED), (OLD_TAG, WEAK_TAG, ABSENT, HEAD_TAG)):
            if condition.holds(view.head):
                continue
            verdict = judge_write(view, condition, NEW, Earlier(written=FIRST, copied=HEAD))
            self.assertEqual(verdict, Verdict(Rule.W5_SUPERSEDED, FIRST), (view.last, condition))

    def test_star_supersedes_nothing(self) -> None:
        """`If-Match: *` names no version, so nothing in history can have come of it."""
        verdict = judge_write(DELETED, PRESENT, NEW, Earlier(written=FIRST))
        self.assertEqual(verdict, Verdict(Rule.W6_CONFLICT))

    def test_refused_again(self) -> None:
        """W6 repeated finds its own copy."""
        verdict = judge_write(LIVE, OLD_TAG, NEW, Earlier(copied=FIRST))
        self.assertEqual(verdict, Verdict(Rule.W6_CONFLICT, FIRST))
        self.assertFalse(verdict.keeps_copy)
        self.assertTrue(judge_write(LIVE, OLD_TAG, NEW, Earlier()).keeps_copy)

    def test_who_writes(self) -> None:
        """Only W1 with new metadata, W2 and W4 change what is current."""
        self.assertEqual(WRITES, {Rule.W1_RELABELLED, Rule.W2_FIRST, Rule.W4_WRITTEN})


class DeleteTest(SynchronousTestCase):
    def test_table(self) -> None:
        """What is not there is judged before the condition; a repeated DELETE finds its own effect."""
        for view, condition, removal in REMOVALS:
            self.assertIs(judge_delete(view, condition), removal, (view.last, condition))
