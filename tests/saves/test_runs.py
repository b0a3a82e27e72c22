"""A database that goes back in time: the cursors of clients that know later changes (docs/protocol.md: Saves)."""

from collections.abc import Mapping
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from gamed.database.connection import Connection
from gamed.saves.model import (
    EMPTY_CURSOR,
    RUN_BASE,
    RUNS_KEPT,
    RUNS_LENGTH,
    Cursor,
    SavesSummary,
    new_epoch,
    new_run,
    parse_cursor,
    run_at,
)
from tests.saves.helpers import ABSENT, SaveCase
from tests.sessions.fixtures import Counting
from tests.support.covers import covers
from tests.support.examples import examples

TABLES = ("player_saves", "save", "blob", "save_version", "server_run")
ANY = {"If-Match": "*"}
Rows = Mapping[str, list[tuple[Any, ...]]]


class RunCase(SaveCase):
    """Tests that copy the tables of the saves, and put them back later."""

    def snapshot(self) -> Rows:
        def read(connection: Connection) -> Rows:
            return {table: connection.execute(f"SELECT * FROM {table}").fetchall() for table in TABLES}

        return self.in_state(read)

    def go_back(self, rows: Rows) -> None:
        """Start a server on the tables as they were."""

        def write(connection: Connection) -> None:
            for table in TABLES[::-1]:
                connection.execute(f"DELETE FROM {table}")
            for table, values in rows.items():
                for row in values:
                    connection.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)

        self.in_state(write)
        self.restart()

    def restart(self) -> None:
        self.browser = self.browser_for(self.limits)

    @property
    def cursor(self) -> str:
        return str(self.ask("GET", "/game/").json["cursor"])

    def changes(self, since: str) -> dict[str, Any]:
        found: dict[str, Any] = self.ask("GET", f"/game/saves?since={since}").json
        return found

    def write(self, *slots: str) -> None:
        """Write each of these slots, whatever it has."""
        for slot in slots:
            headers = ANY if self.get(slot).status == 200 else ABSENT
            self.assertIn(self.put(slot, self.random(8), headers).status, (200, 201))

    def assert_reset(self, since: str, *slots: str) -> None:
        """Assert that a client with this cursor begins again, and that no slot counts as expired."""
        found = self.changes(since)
        self.assertEqual(
            ({save["slot"] for save in found["saves"]}, {*found} - {"cursor", "saves"}), ({*slots}, {"reset"})
        )

    def assert_continues(self, since: str, *slots: str) -> None:
        """Assert that a client with this cursor gets the changes of these slots, and nothing else."""
        found = self.changes(since)
        self.assertEqual(({save["slot"] for save in found["saves"]}, set(found)), ({*slots}, {"cursor", "saves"}))


class GoneBackTests(RunCase):
    @covers("threats/72")
    def test_taken_again(self) -> None:
        """A client whose acknowledged write is gone begins again, also after others took the numbers of its changes."""
        self.write("auto")
        kept = self.snapshot()
        self.write("auto", "auto")
        known = self.cursor
        self.go_back(kept)
        self.write("other", "other", "other", "other")
        self.assert_reset(known, "auto", "other")
        self.assert_continues(self.cursor)

    def test_same_number(self) -> None:
        """The cursor of the very number that another run has used since, too."""
        self.write("auto")
        kept = self.snapshot()
        self.write("auto")
        known = self.cursor
        self.go_back(kept)
        self.write("auto")
        self.assertEqual(known.partition(".")[2], self.cursor.partition(".")[2])
        self.assert_reset(known, "auto")

    def test_before(self) -> None:
        """A client that knows only what is in the copy goes on, and so does one that knows the changes since."""
        self.write("auto")
        known, kept = self.cursor, self.snapshot()
        self.write("auto")
        self.go_back(kept)
        self.write("other")
        later = self.cursor
        self.write("third")
        self.assert_continues(known, "other", "third")
        self.assert_continues(later, "third")

    def test_twice(self) -> None:
        """Two runs that began at the same change are different ones."""
        self.write("auto")
        kept = self.snapshot()
        self.go_back(kept)
        self.write("auto", "auto")
        known = self.cursor
        self.go_back(kept)
        self.write("other", "other", "other")
        self.assert_reset(known, "auto", "other")

    def test_between_pages(self) -> None:
        """A client that has read a page of a whole list begins again: a slot that went back is on no later page."""
        self.write("early", "second", "third")
        kept = self.snapshot()
        self.write("early")
        page = self.ask("GET", "/game/saves?limit=1").json
        self.assertEqual([save["slot"] for save in page["saves"]], ["second"])
        self.go_back(kept)
        self.write("third", "third")
        self.assert_reset(page["cursor"], "early", "second", "third")

    def test_waits(self) -> None:
        """A long poll with such a cursor is answered at once."""
        self.write("auto")
        kept = self.snapshot()
        self.write("auto")
        known = self.cursor
        self.go_back(kept)
        self.write("auto")
        answer = self.ask("GET", f"/game/saves?since={known}", {"Prefer": "wait=25"})
        self.assertTrue(answer.json["reset"])


class RestartTests(RunCase):
    def test_restart(self) -> None:
        """A cursor outlives any number of runs; no overwritten or deleted change makes a client begin again."""
        self.write("auto")
        first = self.cursor
        for _ in range(RUNS_KEPT + 4):
            self.restart()
            self.write("auto", "other")
            self.delete("other", ANY)
            known = self.cursor
            self.restart()
            self.assertEqual(self.cursor, known)
            self.assert_continues(known)
        self.assert_continues(first, "auto", "other")
        self.assertEqual(self.in_state(self.runs_in), [RUNS_LENGTH])

    @staticmethod
    def runs_in(connection: Connection) -> list[int]:
        """Return the length of the text in which the runs of each player are."""
        return [len(runs) for (runs,) in connection.execute("SELECT runs FROM player_saves")]

    def test_cursor_of_before(self) -> None:
        """A cursor of an earlier release, which names no run, goes on; the next one names the run."""
        self.write("auto")
        known = parse_cursor(self.cursor)
        self.assertNotEqual(known.run, "")
        old = str(Cursor(known.epoch, known.seq))
        self.assert_continues(old)
        self.assertEqual(self.changes(old)["cursor"], str(known))
        self.write("other")
        self.assert_continues(old, "other")

    def test_store_of_before(self) -> None:
        """In a store of an earlier release the runs of its changes are unknown, so that every cursor goes on."""
        self.write("auto", "auto")
        known = self.cursor
        self.in_state(lambda connection: connection.execute("UPDATE player_saves SET runs = ''").rowcount)
        self.assert_continues(known)
        self.assertEqual(parse_cursor(self.cursor).run, "")
        self.restart()
        self.write("other")
        self.assert_continues(known, "other")

    def test_erased(self) -> None:
        """After an erase a client begins again, and its new cursor goes on."""
        self.write("auto")
        known = self.cursor
        etag = self.ask("GET", "/game/").headers["etag"]
        self.assertEqual(self.ask("DELETE", "/game/", {"If-Match": etag}).status, 204)
        self.assert_reset(known)
        after = self.cursor
        self.write("new")
        self.assert_continues(after, "new")


class CursorTests(SynchronousTestCase):
    @settings(max_examples=examples(50, 500))
    @given(
        st.binary(min_size=6, max_size=6),
        st.binary(min_size=3, max_size=3),
        st.booleans(),
        *[st.integers(0, 10**12)] * 2,
    )
    def test_text(self, epoch: bytes, run: bytes, named: bool, seq: int, begun: int) -> None:
        """Every cursor that the server gives is read as it was, and has the form of the protocol."""
        random = iter((epoch, run)).__next__
        given = Cursor(new_epoch(lambda size: random()), seq, begun, new_run(lambda size: random()) if named else "")
        read = parse_cursor(str(given))
        self.assertEqual(read, given if begun > seq else Cursor(given.epoch, seq, run=given.run))

    def test_run_at(self) -> None:
        """The run of a change is the latest one that began before it; before the oldest one none is known."""
        runs = f"cccccc{RUN_BASE + 9}bbbbbb{RUN_BASE + 7}aaaaaa{RUN_BASE + 2}"
        found = [run_at(runs, seq) for seq in range(12)]
        self.assertEqual(found, [""] * 3 + ["aaaaaa"] * 5 + ["bbbbbb"] * 2 + ["cccccc"] * 2)

    def test_nothing_saved(self) -> None:
        """A player who never saved has no run, and every client knows all of that."""
        self.assertTrue(SavesSummary().covers(EMPTY_CURSOR))
        self.assertEqual(str(SavesSummary().cursor), "0.0")

    def test_different(self) -> None:
        """Each run has an id of its own."""
        random = Counting()
        self.assertNotEqual(new_run(random), new_run(random))
