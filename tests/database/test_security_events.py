"""The table of security events is small under any load, and keeps what an operator may ask for."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeVar

from twisted.trial.unittest import SynchronousTestCase

from gamed.audit import FIELDS, SecurityEvent
from gamed.database.connection import AUTH, Connection
from gamed.database.event_counts import MERGE_MS, VALUE_CHARACTERS, EventCount, EventKey
from gamed.database.security_events import (
    CLEANUP_ROWS,
    KEPT_MS,
    add_command,
    any_unlogged,
    delete_old,
    delete_player,
    list_activity,
    list_events,
    mark_logged,
    page_of_events,
    page_of_kinds,
    write_events,
)
from tests.support.covers import covers
from tests.support.databases import data_folder, prepare_files
from tests.support.stores import sqlite_files, store_of

T = TypeVar("T")
NOON_MS = 1_800_000_000_000 - 1_800_000_000_000 % MERGE_MS
ANNA, BERT = "ply_anna", "ply_bert"


def event(name: SecurityEvent, at_ms: int = NOON_MS, **values: str) -> EventCount:
    return EventCount(EventKey.of(name, values, at_ms), at_ms, at_ms, 1)


def refused(at_ms: int = NOON_MS, player: str = ANNA, outcome: str = "wrong_password") -> EventCount:
    return event(SecurityEvent.SIGN_IN_REFUSED, at_ms, player=player, provider="local", outcome=outcome, request="5f")


class TableTests(SynchronousTestCase):
    def setUp(self) -> None:
        data = data_folder(self)
        prepare_files(data)
        self.store = store_of(data)
        self.addCleanup(self.store.close)

    def run_it(self, work: Callable[[Connection], T]) -> T:
        return self.store.run_transaction(AUTH, work)

    def write(self, events: Iterable[EventCount], now_ms: int = NOON_MS, **limits: int) -> None:
        self.run_it(lambda connection: write_events(connection, tuple(events), now_ms, **limits))

    def listed(self, since_ms: int = 0, player_id: str | None = None, rows: int = 100) -> list[EventCount]:
        return self.run_it(lambda connection: list_events(connection, since_ms, player_id, rows))

    def test_kinds_in_slices(self) -> None:
        """A search for kinds of events finds each once, in order, by slices of rows; only those that fit are read."""
        kinds = (SecurityEvent.SIGNED_OUT, SecurityEvent.SIGN_IN, SecurityEvent.SIGN_IN)
        at_once = 3  # some events share an instant
        self.write(
            event(kinds[number % 3], NOON_MS + number // at_once, player=f"ply_{number}") for number in range(60)
        )
        expected = [
            each
            for each in self.run_it(lambda c: page_of_events(c, 0, None, 100))
            if each[1].key.event == SecurityEvent.SIGNED_OUT.value
        ]
        self.assertEqual(len(expected), 20)
        for searched in (1, 7, 60, 100):
            found, place, slices = [], None, 0
            while True:
                search = partial(page_of_kinds, since_ms=0, before=place, rows=100, kinds=["signed_out"])
                fitting, place = self.run_it(partial(search, searched=searched))
                self.assertLessEqual(len(fitting), searched)
                found += fitting
                slices += 1
                if place is None:
                    break
            self.assertEqual(found, expected, searched)
            self.assertEqual(slices, 60 // searched + 1, searched)
        few, _ = self.run_it(lambda c: page_of_kinds(c, 0, None, rows=4, kinds=["signed_out"], searched=60))
        self.assertEqual(few, expected[:4])

    @covers("threats/48")
    def test_repeats_are_one_row(self) -> None:
        """Count equal events of one hour in one row, with the first and the last instant."""
        self.write(refused(NOON_MS + second) for second in range(500))
        self.write([refused(NOON_MS + 700)])
        [row] = self.listed()
        self.assertEqual((row.first_ms, row.last_ms, row.times), (NOON_MS, NOON_MS + 700, 501))

    def test_what_differs_is_apart(self) -> None:
        """Keep another player, outcome or hour in a row of its own, the latest first."""
        later = NOON_MS + MERGE_MS
        nobody = [refused(player="", outcome=outcome) for outcome in ("wrong_password", "too_many_passwords")]
        self.write([refused(player=""), *nobody, refused(), refused(player=BERT), refused(later, player="")])
        rows = self.listed()
        self.assertEqual(sorted(row.times for row in rows), [1, 1, 1, 1, 2])
        self.assertEqual(rows[0].last_ms, later)
        self.assertEqual([row.key.player_id for row in self.listed(player_id=BERT)], [BERT])
        self.assertEqual(self.listed(since_ms=later + 1), [])

    def test_refused_sign_ins_of_a_day(self) -> None:
        """Strangers cause refused sign-ins of a player, who has one row for those of a day; it is the latest."""
        day = 24 * MERGE_MS
        midnight = NOON_MS - NOON_MS % day
        self.write([refused(midnight), refused(midnight + day - 1), refused(midnight + day)])
        signed_out = event(SecurityEvent.SIGNED_OUT, midnight + day - MERGE_MS - 1, player=ANNA, scope="all")
        self.write([signed_out])
        self.assertEqual([(row.first_ms, row.times) for row in self.listed()][:2], [(midnight + day, 1), (midnight, 2)])
        latest = self.run_it(lambda connection: list_activity(connection, ANNA, 2))
        self.assertEqual([row.key.event for row in latest], ["sign_in_refused"] * 2)

    def test_values(self) -> None:
        """Store neither request nor session, and no value of unlimited length."""
        long = "x" * 5000
        self.write([event(SecurityEvent.SIGN_IN, player=ANNA, session="ses_1", provider=long, created="no")])
        [row] = self.listed()
        self.assertEqual(row.values, {"provider": "x" * VALUE_CHARACTERS, "created": "no"})

    @covers("threats/48")
    def test_no_addresses(self) -> None:
        """Store only values that FIELDS lists: an address that a caller passes by mistake is left out."""
        key = EventKey.of(SecurityEvent.SIGNED_OUT, {"player": ANNA, "scope": "all", "address": "203.0.113.9"}, NOON_MS)
        self.assertEqual(key.detail, '{"scope": "all"}')
        self.assertFalse([name for names in FIELDS.values() for name in names if "address" in name or name == "ip"])

    def test_late_events_of_an_erased_player(self) -> None:
        """Leave out what another process still had about a player who was erased; commands and other players stay."""
        self.write([refused(), event(SecurityEvent.ERASED, player=ANNA)])
        command = event(SecurityEvent.COMMAND, player=ANNA, command="players erase", by="uid:0")
        self.write([refused(NOON_MS + 1), refused(player=BERT), refused(player=""), command])
        kept = {(row.key.player_id, row.key.event) for row in self.listed()}
        self.assertEqual(
            kept,
            {(ANNA, "erased"), (ANNA, "command"), (BERT, "sign_in_refused"), ("", "sign_in_refused")},
        )

    def test_bounded(self) -> None:
        """Keep the newest rows only, however many different events are written."""
        for turn in range(5):
            self.write((refused(player=f"ply_{turn}_{n}") for n in range(40)), rows=100)
            count = self.run_it(lambda c: c.execute("SELECT count(*) FROM security_event").fetchone()[0])
            self.assertLessEqual(count, 100)
        self.assertEqual({row.key.player_id.split("_")[1] for row in self.listed(rows=1000)}, {"2", "3", "4"})

    def test_events_to_keep(self) -> None:
        """New players push out no warning and no command, until there are three times as many newer rows."""
        warning = event(SecurityEvent.REFRESH_REUSED, player=ANNA, session="ses_1")
        command = event(SecurityEvent.COMMAND, player=ANNA, command="players block", by="uid:0")
        self.write([refused(), warning, command, event(SecurityEvent.OWNER_NOTIFIED, about="disk", state="sent")])
        for turn in range(1, 10):
            self.write((refused(player=f"ply_{turn}_{n}") for n in range(36)), rows=100)
            names = [row.key.event for row in self.listed(rows=1000) if row.key.player_id in ("", ANNA)]
            left = {1: 4, 2: 4, 9: 0}.get(turn, 3)
            self.assertEqual(len(names), left, turn)
            if left == 3:
                self.assertEqual(set(names), {"refresh_reused", "command", "owner_notified"})

    def test_old_rows(self) -> None:
        """Delete rows of more than 90 days, at most a thousand in one transaction."""
        self.write(refused(player=f"ply_{n}") for n in range(CLEANUP_ROWS + 10))
        after = NOON_MS + KEPT_MS
        self.assertEqual(self.run_it(lambda connection: delete_old(connection, after)), 0)
        deleted = [self.run_it(lambda connection: delete_old(connection, after + 1)) for _ in range(3)]
        self.assertEqual(deleted, [CLEANUP_ROWS, 10, 0])

    def test_a_player_is_erased(self) -> None:
        """Delete a player's events in short steps; keep the commands, and the events of other players."""
        self.write([refused(), refused(player=BERT), refused(outcome="other")])
        self.write([event(SecurityEvent.COMMAND, player=ANNA, command="players erase", by="uid:0")])
        steps = [self.run_it(lambda connection: delete_player(connection, ANNA, 1)) for _ in range(3)]
        self.assertEqual(steps, [1, 1, 0])
        left = {(row.key.event, row.key.player_id) for row in self.listed()}
        self.assertEqual(left, {("command", ANNA), ("sign_in_refused", BERT)})

    def block(self, at_ms: int = NOON_MS) -> None:
        self.run_it(lambda connection: add_command(connection, "players block", ANNA, "uid:0", at_ms))

    def marked(self) -> list[int]:
        """Mark the commands that wait; return when they ran."""
        return [each.first_ms for each in self.run_it(mark_logged)]

    def test_repeated_command(self) -> None:
        """Count a command that is repeated in one hour in one row, and return each of them for the log, once."""
        for second in range(3):
            self.block(NOON_MS + second)
        once = [EventCount(self.listed()[0].key, NOON_MS, NOON_MS + 2, 3)]
        self.assertEqual(self.listed(), once)
        self.assertEqual((self.marked(), self.marked()), ([NOON_MS, NOON_MS + 1, NOON_MS + 2], []))
        self.assertEqual(self.listed(), once)
        self.block(NOON_MS + 3)
        self.assertEqual((self.marked(), [each.times for each in self.listed(player_id=ANNA)]), ([NOON_MS + 3], [4]))
        self.assertEqual(self.run_it(lambda c: c.rows("SELECT count(*) FROM security_event")), [(1,)])

    def test_logged_before(self) -> None:
        """Events of the server itself do not wait to be logged."""
        self.write([refused(), event(SecurityEvent.ERASED, player=ANNA)])
        self.assertFalse(self.run_it(any_unlogged))
        self.assertEqual(self.marked(), [])

    def test_waiting_commands_stay(self) -> None:
        """Keep a command until it is logged, however old it is and however many events were written since."""
        self.block()
        later = NOON_MS + KEPT_MS + 1
        self.write((refused(later, player=f"ply_{n}") for n in range(10)), later, rows=5)
        self.assertEqual(self.marked(), [NOON_MS])
        self.assertEqual(self.run_it(lambda connection: delete_old(connection, later)), 1)

    @sqlite_files("its query plans")
    def test_plans(self) -> None:
        """Find rows by an index in every statement that a running service uses."""

        def plans(connection: Connection) -> list[str]:
            steps: list[str] = []
            statements: list[str] = []
            connection.set_trace_callback(statements.append)
            list_events(connection, 0, None, 10)
            list_events(connection, 0, ANNA, 10)
            list_activity(connection, ANNA, 10)
            delete_old(connection, NOON_MS)
            delete_player(connection, ANNA, 10)
            connection.set_trace_callback(None)
            for sql in statements:
                steps += [step for *_, step in connection.execute(f"EXPLAIN QUERY PLAN {sql}")]
            return steps

        found = self.run_it(plans)
        self.assertGreater(len(found), 5)
        self.assertEqual([step for step in found if step.startswith("SCAN")], [])
