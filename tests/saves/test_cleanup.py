"""The cleanup deletes what has expired, in small transactions and with exact counters.

See docs/internals/storage.md: What is deleted, and when.
"""

from functools import partial

from msgspec.structs import replace
from twisted.internet.defer import ensureDeferred

from gamed.config.game import SaveLimits
from gamed.database.connection import Connection
from gamed.database.databases import Databases
from gamed.database.sqlite.engine import FREE_PAGES
from gamed.saves import erase_store
from gamed.saves.cleanup import CleanupTask, prune_histories
from gamed.saves.limits import VERSION_BYTES
from gamed.saves.retention import DAY_MS, HOUR_MS
from tests.saves.helpers import ABSENT, BIG, SaveCase, tag
from tests.sessions.fixtures import ANNA
from tests.support.databases import file_databases
from tests.support.stores import sqlite_files


class SweepCase(SaveCase):
    def setUp(self) -> None:
        super().setUp()
        self.changed: list[str] = []

    def clean_up(self, limits: SaveLimits | None = None) -> None:
        task = CleanupTask(
            self.stores,
            limits or self.limits,
            lambda: self.server.now_ms,
            lambda size: b"\xfe" * size,
            self.changed.append,
        )
        self.successResultOf(ensureDeferred(task.clean_up()))
        self.assert_counts_agree()

    def later(self, ms: int) -> None:
        """Advance the clock and sign in again."""
        self.server.now_ms += ms
        self.bearer = self.sign_in(ANNA)

    def numbers(self, slot: str = "auto") -> list[int]:
        return [version["version"] for version in self.versions(slot)]

    def slots(self) -> int:
        return self.in_state(lambda connection: connection.execute("SELECT count(*) FROM save").fetchone()[0])

    def blobs(self) -> int:
        return int(self.in_state(lambda c: c.execute("SELECT count(*) FROM blob").fetchone())[0])

    def expiries(self) -> dict[int, str | None]:
        return {version["version"]: version["expires"] for version in self.versions("auto")}


class PruneTest(SweepCase):
    def save_often(self, count: int, minutes: int = 5) -> None:
        for number in range(count):
            self.put("auto", f"{self.server.now_ms}-{number}".encode(), {"If-Match": "*"} if number else ABSENT)
            self.later(minutes * 60_000)

    def test_autosaves(self) -> None:
        """Keep ten of saves every five minutes and one for each earlier hour; delete unused bytes at once."""
        self.save_often(48)
        self.clean_up()
        numbers = self.numbers()
        self.assertEqual(numbers[:10], list(range(48, 38, -1)))
        self.assertEqual(len(numbers), 10 + 4)
        self.assertEqual(self.blobs(), len(numbers))
        self.later(30 * DAY_MS)
        self.clean_up()
        self.assertEqual(self.numbers(), list(range(48, 38, -1)))
        self.clean_up()
        self.assertEqual(self.changed, [])

    def test_small_bytes_with_their_version(self) -> None:
        """The transaction that deletes a version deletes its small bytes, which no other version has."""
        self.save_often(13, minutes=1)
        self.later(DAY_MS)
        self.in_state(partial(prune_histories, limits=self.limits, now_ms=self.server.now_ms))
        self.assertEqual((len(self.numbers()), self.blobs()), (11, 11))
        self.assert_counts_agree()

    def test_only_what_is_due(self) -> None:
        """A short history is never checked, a longer one only when a version can have expired."""
        self.put("few", b"x", ABSENT)
        self.put("few", b"y", {"If-Match": "*"})
        self.save_often(11, minutes=1)
        self.clean_up()
        due = self.in_state(lambda c: c.execute("SELECT slot, prune_at_ms FROM save ORDER BY slot").fetchall())
        first_retired = self.server.now_ms - 10 * 60_000
        self.assertEqual(due, [("auto", first_retired + 24 * HOUR_MS), ("few", None)])

    def test_expired_copy(self) -> None:
        """After thirty days a conflict copy is deleted and clients are notified; its number is not reused."""
        self.put("auto", b"one", ABSENT)
        self.put("auto", b"two", {"If-Match": '"9-0000000000000000"'})
        cursor = self.ask("GET", "/game/saves").json["cursor"]
        self.later(30 * DAY_MS - 1)
        self.clean_up()
        self.assertEqual(self.numbers(), [2, 1])
        self.later(1)
        self.clean_up()
        self.assertEqual((self.numbers(), self.changed), ([1], [ANNA]))
        [save] = self.ask("GET", f"/game/saves?since={cursor}").json["saves"]
        self.assertEqual(save["conflicts"], [])
        self.assertEqual(self.put("auto", b"three", {"If-Match": "*"}).json["version"], 3)

    def test_deleted_for_good(self) -> None:
        """Thirty days after the delete a save is beyond recovery; the slot looks unused, and its numbers count on."""
        self.put("auto", b"one", ABSENT)
        self.delete("auto", {"If-Match": "*"})
        self.assertEqual(len(set(self.expiries().values())), 1)
        self.later(30 * DAY_MS)
        self.clean_up()
        self.assertEqual((self.blobs(), self.slots()), (0, 0))
        self.assert_problem(self.get("auto"), 404, "save_not_found")
        self.assert_problem(self.ask("GET", "/game/saves/auto/versions"), 404, "save_not_found")
        self.assertEqual(self.put("auto", b"two", ABSENT).json["version"], 3)
        self.assert_counts_agree()

    def test_lost_current_version(self) -> None:
        """A slot whose current version is lost is not taken for a deleted one: the rest of its history stays."""
        self.save_often(3)
        self.in_state(lambda c: c.execute("DELETE FROM save_version WHERE version = 3").rowcount)
        self.in_state(lambda c: c.execute("UPDATE save SET prune_at_ms = 0").rowcount)
        self.in_state(partial(prune_histories, limits=self.limits, now_ms=self.server.now_ms + 90 * DAY_MS))
        self.assertEqual(self.numbers(), [2, 1])

    def test_expires_is_kept(self) -> None:
        """Each version is deleted when the list says that it expires."""
        self.save_often(13)
        self.put("auto", b"no", {"If-Match": '"3-0000000000000000"'})
        self.clean_up()
        listed = self.expiries()
        self.later(30 * DAY_MS)
        self.clean_up()
        self.assertEqual(self.numbers(), [number for number in listed if listed[number] is None])

    def test_lowered_limits(self) -> None:
        """New limits apply to unchanged histories; the current version always stays."""
        for number in range(5):
            self.put("auto", bytes([number + 1]) * 10, {"If-Match": "*"} if number else ABSENT)
        self.clean_up()
        lower = replace(self.limits, keep_versions=2, keep_hours=0, keep_days=0, bytes=1, save_bytes=1)
        self.clean_up(lower)
        self.assertEqual(self.numbers(), [5, 4])
        self.clean_up(replace(lower, history_bytes=0))
        self.assertEqual(self.numbers(), [5, 4])
        self.assertEqual(self.get("auto").status, 200)


class FullHistoryTest(SweepCase):
    """R5: `history_bytes`."""

    limits = SaveLimits(history_bytes=3 * (10 + VERSION_BYTES), keep_versions=100)

    def test_oldest_first(self) -> None:
        """A write pushes out what retired first, of any slot; never the current version, nor the one before it."""
        for slot in ("a", "b"):
            for number in range(3):
                self.put(slot, f"{slot}{number}".ljust(10).encode(), {"If-Match": "*"} if number else ABSENT)
                self.later(1000)
        self.assertEqual((self.numbers("a"), self.numbers("b")), ([3, 2], [3, 2, 1]))
        self.put("a", b"more".ljust(10), {"If-Match": "*"})
        self.assertEqual((self.numbers("a"), self.numbers("b")), ([4, 3], [3, 2, 1]))
        self.assert_counts_agree()
        self.put("c", b"x" * 10, ABSENT)
        self.put("c", b"y" * 40, {"If-Match": "*"})
        self.put("c", b"z", {"If-Match": "*"})
        self.assertEqual((self.numbers("a"), self.numbers("b"), self.numbers("c")), ([4, 3], [3, 2], [3, 2]))
        self.assert_counts_agree()

    def test_copy_replaces_history(self) -> None:
        """Refused bytes replace older history; those that do not fit at all are reported as dropped."""
        for number in range(4):
            self.put("auto", str(number).ljust(10).encode(), {"If-Match": "*"} if number else ABSENT)
        answer = self.put("auto", b"x" * 20, {"If-Match": '"1-0000000000000000"'})
        self.assertEqual(answer.json["yours"]["version"], 5)
        self.assertEqual(self.numbers(), [5, 4, 3])
        answer = self.put("auto", b"y" * 1100, {"If-Match": '"1-0000000000000000"'})
        self.assertEqual((answer.json["yours"], answer.json["yours_dropped"]), (None, "history_bytes"))
        self.assert_counts_agree()

    def test_a_copy_of_a_copy(self) -> None:
        """Refused bytes that push out the very version they build on show no base: it cannot be read any more."""
        self.put("auto", b"x" * 10, ABSENT)
        self.put("auto", b"y" * 600, {"If-Match": '"9-0000000000000000"'})
        answer = self.put("auto", b"z" * 600, {"If-Match": tag(2, b"y" * 600)})
        self.assertEqual((answer.json["base"], answer.json["yours"]["version"]), (None, 3))
        self.assertEqual(self.numbers(), [3, 1])
        self.assert_counts_agree()

    def test_clock_set_back(self) -> None:
        """A version that was just stored is not deleted first, even if a wrong clock makes it the oldest."""
        for number in range(5):
            self.put("auto", str(number).ljust(10).encode(), {"If-Match": "*"} if number else ABSENT)
        self.later(-HOUR_MS)
        answer = self.put("auto", b"x" * 10, {"If-Match": '"1-0000000000000000"'})
        self.assertEqual(self.get(f"auto/versions/{answer.json['yours']['version']}").body, b"x" * 10)
        self.put("other", b"y" * 10, ABSENT)
        self.delete("other", {"If-Match": "*"})
        restored = self.ask("POST", "/game/saves/other/versions/1/restore", ABSENT)
        self.assertEqual((restored.status, self.get("other").body), (200, b"y" * 10))
        self.assert_counts_agree()

    def test_many_at_once(self) -> None:
        """One write deletes only some versions; the cleanup deletes the rest."""
        self.browser = self.browser_for(SaveLimits(keep_versions=100))
        for number in range(40):
            self.put("auto", str(number).ljust(10).encode(), {"If-Match": "*"} if number else ABSENT)
        self.browser = self.browser_for(self.limits)
        self.put("auto", b"last", {"If-Match": "*"})
        self.assertGreater(len(self.numbers()), 30)
        self.clean_up()
        self.assertEqual(self.numbers(), [41, 40, 39, 38])


class EraseTest(SweepCase):
    def begin(self, connection: Connection) -> None:
        erase_store.begin_erase(connection, ANNA, "new", self.server.now_ms)

    def step(self, connection: Connection) -> bool | None:
        return erase_store.erase_step(connection, ANNA, "last", lambda: self.server.now_ms)

    def test_interrupted(self) -> None:
        """An erase counts from its beginning, blocks writes meanwhile, and is completed by the cleanup."""
        self.put("auto", b"one", ABSENT)
        self.put("big", BIG, ABSENT)
        cursor = self.ask("GET", "/game/saves").json["cursor"]
        self.in_state(self.begin)
        self.assertEqual(self.ask("GET", "/game/saves").json["saves"], [])
        self.assertEqual(self.ask("GET", "/game/").json["usage"], {"slots": 0, "bytes": 0, "history_bytes": 0})
        for answer in (
            self.put("auto", b"two", {"If-Match": tag(1, b"one")}),
            self.delete("auto", {"If-Match": "*"}),
            self.ask("POST", "/game/saves/auto/versions/1/restore", {"If-Match": "*"}),
            self.ask("DELETE", "/game/saves/auto/versions/1"),
        ):
            self.assert_problem(answer, 410, "erased", "Read the list")
        self.clean_up()
        self.server.now_ms += 1  # a write that begins in the same millisecond may have begun before the erase
        self.assertEqual((self.changed, self.blobs()), ([ANNA], 0))
        self.assertIs(self.ask("GET", f"/game/saves?since={cursor}").json["reset"], True)
        self.assert_problem(self.get("auto"), 404, "save_not_found")
        self.assertEqual(self.put("auto", b"two", ABSENT).json["version"], 1)
        self.assert_counts_agree()

    def test_first_save_under_way(self) -> None:
        """An erase of a player without saves rejects a first save that began before it."""
        upload = self.browser.connect()
        head = f"PUT /game/saves/a HTTP/1.1\r\nHost: game.example\r\nAuthorization: {self.bearer['Authorization']}\r\n"
        upload.send(f"{head}Content-Length: 5\r\n\r\n123".encode())
        self.in_state(self.begin)
        self.clean_up()
        self.assert_problem(upload.send(b"45").answer, 410, "erased")

    def test_two_at_it(self) -> None:
        """A second completion of an erase, by a command beside the cleanup, deletes no newer saves."""
        self.put("auto", b"one", ABSENT)
        self.in_state(self.begin)
        self.clean_up()
        self.server.now_ms += 1  # the session is known by the epoch of before the erase
        self.put("auto", b"two", ABSENT)
        self.assertIsNone(self.in_state(self.step))
        self.assertEqual(self.get("auto").body, b"two")
        self.assert_counts_agree()

    def test_many_slots(self) -> None:
        """However many slots there were, each step takes a few."""
        for number in range(5):
            self.put(f"s{number}", b"one", ABSENT)
        self.patch(erase_store, "ERASE_SLOTS", 2)
        self.in_state(self.begin)
        steps = 0
        while self.in_state(self.step):
            steps += 1
        self.assertEqual(steps, 1 + 2)
        self.assertEqual(self.in_state(lambda c: c.execute("SELECT count(*) FROM save").fetchall()), [(0,)])

    def test_others_stay(self) -> None:
        """Other players' saves are unchanged."""
        self.put("auto", b"one", ABSENT)
        self.in_state(self.begin)
        anna, self.bearer = self.bearer, self.sign_in("ply_" + "B" * 22)
        self.put("auto", b"one", ABSENT)
        self.clean_up()
        self.assertEqual(self.get("auto").body, b"one")
        self.bearer = anna
        self.assert_problem(self.get("auto"), 404, "save_not_found")


@sqlite_files("autovacuum gives the space of PostgreSQL back")
class VacuumTest(SweepCase):
    def make_stores(self) -> Databases:
        return file_databases(self, now_ms=lambda: self.server.now_ms)

    def test_space_returns(self) -> None:
        """Pages that many deletes left go back to the disk, all but what the next writes will need."""
        for number in range(12):
            self.put("auto", bytes([number + 1]) * 4_000_000, {"If-Match": "*"} if number else ABSENT)
        [(before,)] = self.in_state(lambda c: c.execute("PRAGMA page_count").fetchall())
        self.later(DAY_MS)
        lower = replace(self.limits, keep_versions=2, keep_hours=0, keep_days=0)
        self.clean_up()
        self.clean_up(lower)
        [(after,)] = self.in_state(lambda c: c.execute("PRAGMA page_count").fetchall())
        [(free,)] = self.in_state(lambda c: c.execute("PRAGMA freelist_count").fetchall())
        self.assertEqual(self.numbers(), [12, 11])
        self.assertLessEqual(free, FREE_PAGES)
        self.assertLess(after, before - 2000)
        self.assertEqual(self.in_state(lambda c: c.execute("PRAGMA integrity_check").fetchall()), [("ok",)])
