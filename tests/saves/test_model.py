"""Several devices on one slot, with answers that get lost and requests that arrive twice.

Each device lives by the rule for clients: it names what it knows, repeats a request until it is answered, and goes on
from what the answer shows.

See docs/protocol.md: Conditions and ranges.
"""

from collections.abc import Sequence

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from msgspec import Struct, field
from msgspec.structs import replace
from twisted.trial.unittest import SynchronousTestCase

from gamed.http.conditional import EntityTag
from gamed.saves import write_store
from gamed.saves.commands import DeleteResult, WriteResult
from gamed.saves.model import SaveContent, SlotState, VersionKind
from gamed.saves.write_rules import (
    UNCONDITIONAL,
    WRITES,
    Condition,
    ConditionKind,
    DeleteDecision,
    MatchingVersions,
    WriteDecision,
    WriteRule,
    decide_write,
)
from tests.saves import state_machine
from tests.saves.state_machine import ModelSlot, StoredSlot, count_errors, names
from tests.support.examples import examples, histories
from tests.support.stores import sqlite_files

DEVICES = 3
KEPT = {
    WriteRule.W1_ALREADY_THERE,
    WriteRule.W1_RELABELLED,
    WriteRule.W2_FIRST,
    WriteRule.W4_WRITTEN,
    WriteRule.W5_SUPERSEDED,
    WriteRule.W6_CONFLICT,
}
devices = st.integers(0, DEVICES - 1)
bodies = st.sampled_from([b"one", b"two", b"three", b"four", b"five"])
metas = st.sampled_from([None, None, '{"a":1}'])


class Ask(Struct, frozen=True):
    """A request; `data` is None for a DELETE and for a restore."""

    device: int
    condition: Condition
    data: bytes | None
    meta: str | None = None
    restores: int | None = None
    """The version that is to be made current again."""


class Device(Struct):
    """A device and the tag that it knows, None for an empty slot."""

    base: str | None = None
    waiting: Ask | None = None

    def condition(self) -> Condition:
        return Condition(ConditionKind.THIS, EntityTag(self.base)) if self.base else Condition(ConditionKind.ABSENT)


class Ledger(Struct):
    """The device that made each current version or tombstone."""

    author: dict[int, int] = field(default_factory=dict)

    def others_since(self, device: int, base: str | None) -> bool:
        known = int(base.partition("-")[0]) if base else 0
        return any(by != device for number, by in self.author.items() if number > known)


class Devices(RuleBasedStateMachine):
    asks = Bundle("asks")

    def __init__(self) -> None:
        super().__init__()
        self.stored, self.listed = StoredSlot(), ModelSlot()
        self.devices = [Device() for _ in range(DEVICES)]
        self.ledger = Ledger()
        self.safe: set[bytes] = set()
        """Bytes that the server has acknowledged to a device."""
        self.applied: set[Ask] = set()
        """Requests that made a version, whether their answers arrived or not."""

    def teardown(self) -> None:
        self.stored.close()

    @rule(target=asks, device=devices, data=bodies, meta=metas, blind=st.integers(0, 9))
    def save(self, device: int, data: bytes, meta: str | None, blind: int) -> Ask:
        """A device wants to save; one that still waits for an answer repeats itself. Some know no conditions."""
        me = self.devices[device]
        condition = UNCONDITIONAL if blind == 0 else me.condition()
        me.waiting = me.waiting or Ask(device, condition, data, meta)
        return me.waiting

    @precondition(lambda self: self.listed.versions)
    @rule(target=asks, device=devices)
    def remove(self, device: int) -> Ask:
        me = self.devices[device]
        condition = Condition(ConditionKind.PRESENT) if me.base is None else me.condition()
        me.waiting = me.waiting or Ask(device, condition, None)
        return me.waiting

    @precondition(lambda self: self.listed.versions)
    @rule(target=asks, device=devices, choice=st.integers(0, 99))
    def bring_back(self, device: int, choice: int) -> Ask:
        """A device wants an old version back, or a copy adopted, or a deleted save undeleted."""
        me, whole = self.devices[device], [version for version in self.listed.versions if version.content]
        number = whole[choice % len(whole)].version
        me.waiting = me.waiting or Ask(device, me.condition(), None, restores=number)
        return me.waiting

    @rule(device=devices, lost=st.booleans())
    def carry(self, device: int, lost: bool) -> None:
        """The request arrives; its answer may get lost."""
        ask = self.devices[device].waiting
        if ask is not None:
            answer = self.happen(ask, ask.device)
            if not lost:
                self.hear(self.devices[device], ask, answer)

    @rule(ask=asks)
    def arrive_late(self, ask: Ask) -> None:
        """Any earlier request arrives once more, and its response is lost."""
        self.happen(ask, by=-1)

    def happen(self, ask: Ask, by: int) -> WriteResult | DeleteResult:
        before = self.listed.head
        if ask.restores is not None:
            answer: WriteResult | DeleteResult = self.restore(ask, ask.restores)
        else:
            answer = self.put(ask) if ask.data is not None else self.delete(ask)
        after = self.listed.head
        if before is not None and after != before and ask.condition.kind is not ConditionKind.PRESENT:
            assert names(ask.condition, before), "an update was lost"
        if after != before:
            self.ledger.author[len(self.listed.versions)] = by
        return answer

    def put(self, ask: Ask) -> WriteResult:
        assert ask.data is not None
        expected = self.listed.put(ask.condition, ask.data, ask.meta)
        answer = self.stored.put(ask.condition, ask.data, ask.meta)
        assert isinstance(answer, WriteResult)
        tags = answer.current and answer.current.tag, answer.yours and answer.yours.tag
        assert (answer.decision.rule, *tags) == expected
        if answer.decision.rule in KEPT:
            self.safe.add(ask.data)
        if answer.decision.rule in WRITES:
            self.applied.add(ask)
        return answer

    def restore(self, ask: Ask, number: int) -> WriteResult:
        expected, before = self.listed.restore(number, ask.condition), len(self.stored.history())
        answer = self.stored.restore(number, ask.condition)
        assert isinstance(answer, WriteResult)
        assert (answer.decision.rule, answer.current and answer.current.tag) == expected
        if answer.decision.rule in WRITES:
            self.applied.add(ask)
        else:
            assert len(self.stored.history()) == before, "a restore that was refused left something"
        return answer

    def delete(self, ask: Ask) -> DeleteResult:
        answer = self.stored.delete(ask.condition)
        assert isinstance(answer, DeleteResult)
        assert answer.decision is self.listed.delete(ask.condition)
        return answer

    def hear(self, me: Device, ask: Ask, answer: WriteResult | DeleteResult) -> None:
        me.waiting = None
        if isinstance(answer, WriteResult):
            if answer.decision.rule in (WriteRule.W6_CONFLICT, WriteRule.W7_NEVER_USED):
                assert self.listed.versions, "a slot that was never seen conflicts with nothing"
                assert answer.yours is not None, "refused bytes were dropped"
                assert ask not in self.applied, "a write that took place was called a conflict"
                assert self.ledger.others_since(ask.device, ask.condition.base), "a false conflict"
            if answer.decision.rule is WriteRule.W5_SUPERSEDED and answer.current is not None:
                assert ask.restores or self.stored.bytes_of(answer.current) != ask.data, (
                    "what is current was called superseded"
                )
            if answer.decision.rule in WRITES | {WriteRule.W1_ALREADY_THERE}:
                assert answer.current is not None
                assert ask.restores is not None or self.stored.bytes_of(answer.current) == ask.data
            me.base = answer.current.tag if answer.current else None
        else:
            if answer.decision in (DeleteDecision.CONFLICT, DeleteDecision.ALREADY_DELETED):
                assert self.ledger.others_since(ask.device, ask.condition.base), "a false conflict"
            head = self.listed.head if answer.decision is DeleteDecision.CONFLICT else None
            me.base = head.tag if head else None

    @invariant()
    def no_bytes_are_lost(self) -> None:
        kept_bytes = {self.stored.bytes_of(version) for version in self.stored.history() if version.content}
        assert self.safe <= kept_bytes

    @invariant()
    def no_version_is_doubled(self) -> None:
        """On top of one version the same bytes are written once, and refused once."""
        for kind in (VersionKind.WRITE, VersionKind.RESTORE, VersionKind.CONFLICT):
            seen = [
                (version.parent_tag, version.content)
                for version in self.stored.history()
                if version.kind is kind and (version.parent_tag or kind is VersionKind.CONFLICT)
            ]
            assert len(seen) == len(set(seen))

    @invariant()
    def all_counts_agree(self) -> None:
        assert count_errors(self.stored.connection) == []

    @invariant()
    def numbers_are_never_reused(self) -> None:
        numbers = [version.version for version in reversed(self.stored.history())]
        assert numbers == list(range(1, len(numbers) + 1))


def run(examples: int, phases: Sequence[Phase] = tuple(Phase)) -> None:
    quiet = settings(
        max_examples=examples,
        stateful_step_count=50,
        deadline=None,
        phases=phases,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(Devices, settings=quiet)


def without_w1(state: SlotState, condition: Condition, body: SaveContent, earlier: MatchingVersions) -> WriteDecision:
    nowhere = replace(body, content_type="another/type")
    return decide_write(state, condition, nowhere, earlier)


def without_w5(state: SlotState, condition: Condition, body: SaveContent, earlier: MatchingVersions) -> WriteDecision:
    return decide_write(state, condition, body, MatchingVersions(copied=earlier.copied))


def forgetting_copies(
    state: SlotState, condition: Condition, body: SaveContent, earlier: MatchingVersions
) -> WriteDecision:
    return decide_write(state, condition, body, MatchingVersions(written=earlier.written))


def ignoring_conditions(
    state: SlotState, condition: Condition, body: SaveContent, earlier: MatchingVersions
) -> WriteDecision:
    return WriteDecision(WriteRule.W4_WRITTEN)


def dropping_conflicts(
    state: SlotState, condition: Condition, body: SaveContent, earlier: MatchingVersions
) -> WriteDecision:
    decision = decide_write(state, condition, body, earlier)
    return WriteDecision(WriteRule.W7_NEVER_USED) if decision.rule is WriteRule.W6_CONFLICT else decision


class ModelTest(SynchronousTestCase):
    def test_devices(self) -> None:
        """No update or bytes are lost, no version is doubled and no conflict is false, though requests get lost."""
        run(histories(few=100, many=1000))

    @sqlite_files("it tests the model, not the store")
    def test_planted_defects(self) -> None:
        """The model notices when any one of the rules is gone."""
        for defect in (without_w1, without_w5, forgetting_copies, ignoring_conditions, dropping_conflicts):
            self.patch(state_machine, "decide_write", defect)
            self.patch(write_store, "decide_write", defect)
            with self.assertRaises(AssertionError, msg=defect.__name__):
                run(examples(few=400, many=2000), [Phase.generate])
