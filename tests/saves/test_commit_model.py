"""A commit against the PUTs and DELETEs that it stands for, over the same rows (docs/protocol.md: Commits)."""

from collections.abc import Sequence
from contextlib import closing
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace
from twisted.trial.unittest import SynchronousTestCase

from gamed.config.game import SaveLimits
from gamed.database.connection import Connection
from gamed.http.conditional import EntityTag
from gamed.saves import batch_store, write_store
from gamed.saves import tables as save_tables
from gamed.saves.commands import (
    BlobsMissing,
    BytesMissing,
    Change,
    CommitCommand,
    CommitConflict,
    Committed,
    DeleteResult,
    StageCommand,
    StagedContent,
    WriteResult,
    succeeds,
)
from gamed.saves.errors import SaveError
from gamed.saves.limits import VERSION_BYTES
from gamed.saves.model import Version
from gamed.saves.write_rules import Condition, ConditionKind, DeleteDecision, WriteDecision, decide_delete
from tests.saves.state_machine import PLAYER, ROOMY, StoredSlot, body_of, count_errors
from tests.support.examples import examples, histories
from tests.support.stores import sqlite_files

SLOTS = "abc"
BODIES = (b"one", b"two", b"three")
TIGHT = SaveLimits(slots=2, bytes=8, history_bytes=9 + 2 * VERSION_BYTES, conflict_copies=2)
NEVER = "9-0000000000000000"


class Wish(Struct, frozen=True):
    """One entry; `base` selects a tag of the slot's history; 8 is an unknown tag, 9 `If-Match: *`, None absence."""

    slot: str
    base: int | None
    data: bytes | None
    meta: str | None = None
    weak: bool = False

    def condition(self, history: Sequence[Version]) -> Condition:
        if self.base is None:
            return Condition(ConditionKind.ABSENT) if self.data is not None else Condition(ConditionKind.PRESENT)
        if self.base == 9:
            return Condition(ConditionKind.PRESENT)
        tags = [version.tag for version in history if version.content] or [NEVER]
        tag = NEVER if self.base == 8 else tags[self.base % len(tags)]
        return Condition(ConditionKind.THIS, EntityTag(tag, self.weak))


bases = st.one_of(st.just(0), st.none(), st.integers(0, 9))
wishes = st.builds(
    Wish,
    st.sampled_from(SLOTS),
    bases,
    st.sampled_from([*BODIES, *BODIES, None]),
    st.sampled_from([None, None, '{"a":1}']),
    st.integers(0, 15).map(lambda n: n == 0),
)
commits = st.lists(wishes, min_size=1, max_size=3, unique_by=lambda wish: wish.slot)


class CommitWorld(StoredSlot):
    """The slot changed by commits of staged bytes."""

    def commit(self, changes: Sequence[Change]) -> Committed | CommitConflict | SaveError:
        now_ms = next(self._now_ms)
        checked = {}
        for data in BODIES:
            staged = batch_store.stage_bytes(
                self.connection, ROOMY, StageCommand(self.entry(), body_of(data), now_ms, 0, data)
            )
            assert isinstance(staged, batch_store.Staged)
            checked[body_of(data).sha256] = staged.blob_id
        command = CommitCommand(self.entry(), changes, now_ms, "epoch1", checked)
        outcome = batch_store.commit_changes(self.connection, self.limits, command)
        assert not isinstance(outcome, BlobsMissing)
        return outcome


class Twins:
    """The same changes made by PUT and DELETE and by commits."""

    def __init__(self, limits: SaveLimits) -> None:
        self.plain, self.committed = StoredSlot(limits), CommitWorld(limits)

    def close(self) -> None:
        self.plain.close()
        self.committed.close()

    def change(self, wish: Wish) -> Change:
        condition = wish.condition(self.plain.history(wish.slot))
        if wish.data is None:
            return Change(wish.slot, condition)
        body = body_of(wish.data, wish.meta)
        return Change(wish.slot, condition, StagedContent(body.sha256, body.content_type, wish.meta))

    def alone(self, wish: Wish) -> WriteResult | DeleteResult | SaveError:
        """Make the change by PUT or DELETE."""
        condition = self.change(wish).condition
        if wish.data is None:
            return self.plain.delete(condition, wish.slot)
        written = self.plain.put(condition, wish.data, wish.meta, wish.slot)
        assert not isinstance(written, BytesMissing)
        return written

    def fits(self, wish: Wish) -> bool:
        """Decide by the rules alone."""
        condition, state = self.change(wish).condition, save_tables.slot_state(self.plain.connection, PLAYER, wish.slot)
        if wish.data is None:
            decision: WriteDecision | DeleteDecision = decide_delete(state, condition)
        else:
            command = self.plain.command(condition, wish.data, wish.meta, wish.slot)
            decision = write_store.decide(self.plain.connection, command, state)
        return succeeds(decision)

    def agree(self) -> None:
        assert rows(self.plain.connection) == rows(self.committed.connection)
        assert count_errors(self.committed.connection) == []


def rows(connection: Connection) -> list[list[tuple[Any, ...]]]:
    """Return all rows without instants and blob numbers."""
    queries = (
        "SELECT slot, version, parent, parent_tag, kind, sha256, meta, retired_ms IS NOT NULL FROM save_version "
        "ORDER BY slot, version",
        "SELECT slot, current_version, last_version, seq, deleted_ms IS NOT NULL FROM save ORDER BY 1",
        "SELECT seq, slots, live_bytes, kept_bytes FROM player_saves",
    )
    return [connection.execute(query).fetchall() for query in queries]


def one_by_one(asked: Sequence[Wish], limits: SaveLimits) -> None:
    """A commit of one entry leaves and answers what its PUT or DELETE does."""
    with closing(Twins(limits)) as twins:
        _one_by_one(twins, asked)


def _one_by_one(twins: Twins, asked: Sequence[Wish]) -> None:
    for wish in asked:
        change = twins.change(wish)
        alone, together = twins.alone(wish), twins.committed.commit([change])
        if isinstance(alone, SaveError):
            assert type(together) is type(alone)
            assert isinstance(together, SaveError)
            assert dict(together.members) == dict(alone.members)
        elif succeeds(alone.decision):
            assert isinstance(together, Committed)
            [now] = together.slots
            current = alone.current if isinstance(alone, WriteResult) else None
            assert (now.content if isinstance(now, Version) else None) == (current and current.content)
        else:
            assert isinstance(together, CommitConflict)
            [(rejected, outcome)] = together.outcomes
            assert rejected == change
            assert plain(outcome) == plain(alone)
        twins.agree()


def all_or_none(asked: Sequence[Sequence[Wish]]) -> None:
    """A commit is all of its PUTs and DELETEs in order, or of none: then only what was refused leaves its copies."""
    with closing(Twins(ROOMY)) as twins:
        _all_or_none(twins, asked)


def _all_or_none(twins: Twins, asked: Sequence[Sequence[Wish]]) -> None:
    for wanted in asked:
        changes = [twins.change(wish) for wish in wanted]
        unfit = [wish for wish in wanted if not twins.fits(wish)]
        together = twins.committed.commit(changes)
        for wish in unfit or wanted:
            twins.alone(wish)
        assert isinstance(together, CommitConflict if unfit else Committed)
        if isinstance(together, CommitConflict):
            assert [change.slot for change, _ in together.outcomes] == [wish.slot for wish in unfit]
        else:
            before = rows(twins.committed.connection)
            again = twins.committed.commit(changes)
            assert isinstance(again, Committed)
            assert (again.cursor, again.slots) == (together.cursor, together.slots)
            assert rows(twins.committed.connection) == before, "a repeat changed something"
        twins.agree()


def plain(outcome: WriteResult | DeleteResult) -> WriteResult | DeleteResult:
    """Return the result without blob numbers and instants."""
    sides = ("current", "base", "yours") if isinstance(outcome, WriteResult) else ("current", "base", "last")
    bare = {name: _bare(getattr(outcome, name)) for name in sides}
    if isinstance(outcome, WriteResult):
        return replace(outcome, decision=replace(outcome.decision, yours=_bare(outcome.decision.yours)), **bare)
    return replace(outcome, **bare)


def _bare(version: Version | None) -> Version | None:
    return version and replace(version, blob_id=None, created_ms=0, retired_ms=None)


def quietly(examples: int, phases: Sequence[Phase] = tuple(Phase)) -> settings:
    return settings(
        max_examples=examples,
        deadline=None,
        phases=phases,
        suppress_health_check=list(HealthCheck),
    )


class CommitModelTest(SynchronousTestCase):
    def test_one_entry(self) -> None:
        """A commit of one entry has the effect of its PUT or DELETE, also with a full history."""
        for limits in (ROOMY, TIGHT):
            quietly(histories(few=60, many=1000))(given(st.lists(wishes, max_size=12), st.just(limits))(one_by_one))()

    def test_several(self) -> None:
        """All or none, refused bytes kept, and a repeat changes nothing."""
        quietly(histories(few=80, many=1000))(given(st.lists(commits, max_size=8))(all_or_none))()

    @sqlite_files("it tests the model, not the store")
    def test_planted_defects(self) -> None:
        """The model finds a commit that applies conflicting entries, keeps no copies, or omits a rule."""

        def keep_nothing(*_: object) -> None: ...

        for name, defect in (
            ("succeeds", lambda decision: True),
            ("_keep_refused", keep_nothing),
            (
                "decide_delete",
                lambda state, condition: DeleteDecision.DELETES if state.current else DeleteDecision.NEVER_USED,
            ),
        ):
            self.patch(batch_store, name, defect)
            with self.assertRaises(AssertionError, msg=name):
                quietly(examples(few=200, many=2000), [Phase.generate])(
                    given(st.lists(commits, max_size=8))(all_or_none)
                )()
