"""What a malicious player could still let grow, or let others wait for, within the limits (PROTOCOL 4.3, 4.4, 7)."""

from typing import Any

from msgspec.structs import replace
from twisted.internet.defer import ensureDeferred

from gamed.database.connection import Connection
from gamed.saves.blob_tables import SEARCHED_VERSIONS
from gamed.saves.erase_store import EraseStore
from gamed.saves.limits import LIST_RATE, LISTED_FREELY, VERSION_BYTES, SaveLimits
from gamed.saves.retention import DAY_MS
from gamed.saves.write_store import PRUNED_SLOTS
from tests.saves.commit_helpers import write
from tests.saves.helpers import ABSENT, tag
from tests.saves.test_bounds import ANY, BoundCase
from tests.sessions.fixtures import ANNA, BERT, Counting

LARGE = 20_000
"""Bytes of a body that is not in its row of `blob`."""


class AttackCase(BoundCase):
    def count(self, query: str) -> int:
        """Return the only value of a query."""
        return int(self.in_state(lambda connection: connection.execute(query).fetchone())[0])


class StagedBytesTest(AttackCase):
    limits = SaveLimits(bytes=4 * LARGE, history_bytes=2 * LARGE + 100 * VERSION_BYTES)

    def stored(self) -> int:
        self.clean_up()
        return self.count("SELECT coalesce(sum(size), 0) FROM blob")

    def most(self) -> int:
        """Return the bytes that may be stored: saves, history, and twice what may be staged."""
        return 3 * self.limits.bytes + self.limits.history_bytes

    def test_bytes_of_saves(self) -> None:
        """Bytes of saves that are staged, too, and then replaced, do not stay beyond what may be staged."""
        for number in range(30):
            data = bytes([number + 1]) * LARGE
            self.put("auto", data, ANY if number else ABSENT)
            self.put_blob(data)
        self.assertLessEqual(self.stored(), self.most())

    def test_bytes_of_refused_commits(self) -> None:
        """Bytes of saves that a refused commit names do not stay beyond that, either."""
        for number in range(30):
            data = bytes([number + 1]) * LARGE
            self.put("auto", data, ANY if number else ABSENT)
            self.assertEqual(self.commit(write("other", data, tag(7, b"?"))).status, 412)
        self.assertLessEqual(self.stored(), self.most())

    def test_staged_again(self) -> None:
        """Bytes that are staged can be staged again while no others can."""
        bodies = [bytes([number]) * LARGE for number in range(1, 6)]
        self.stage(*bodies[:4])
        self.assert_problem(self.put_blob(bodies[4]), 413, "quota_exceeded")
        self.stage(*bodies[:4])


class SearchTest(AttackCase):
    writes_per_minute = 60

    def test_rate(self) -> None:
        """Questions whether bytes are there have a rate: as many at once as a commit has entries."""
        for number in range(64):
            self.assertEqual(self.head_blob(b"%d" % number).status, 404)
        self.assertEqual(self.head_blob(b"another").status, 429)
        self.assertEqual(self.put_blob(b"another").status, 201)
        self.server.now_ms += 1000
        self.assertEqual(self.head_blob(b"another").status, 200)

    def test_long_history(self) -> None:
        """In a long history the small bytes of current saves are found, and those of some old versions."""
        self.put("auto", b"old", ABSENT)
        self.put("auto", b"now", ANY)
        self.in_state(_add_versions)
        self.assertEqual([self.head_blob(data).status for data in (b"now", b"old")], [200, 404])
        self.assertEqual(self.commit(write("copy", b"now")).status, 200)


def _add_versions(connection: Connection) -> None:
    """Insert versions of another slot, which is searched first."""
    query = "INSERT INTO save_version (player_id, slot, version, kind, size, created_ms) VALUES (?, ?, ?, ?, ?, ?)"
    for number in range(SEARCHED_VERSIONS):
        connection.execute(query, (ANNA, "a", number + 1, "delete", 0, 1))


class RateTest(AttackCase):
    writes_per_minute = 60

    def test_refused_commits(self) -> None:
        """A refused commit counts as its entries, too: each of them was decided."""
        self.put("auto", b"one", ABSENT)
        self.stage(b"two")
        self.server.now_ms += 60_000
        entries = [write(f"s{number}", b"two", tag(7, b"?")) for number in range(64)]
        self.assertEqual(self.commit(*entries).status, 412)
        self.server.now_ms += 30_000
        self.assert_problem(self.put("auto", b"three", ANY), 429, "rate_limited")
        self.server.now_ms += 6_000
        self.assertEqual(self.put("auto", b"three", ANY).status, 200)

    def test_short_pages(self) -> None:
        """Pages of as many entries as are free count towards no rate, however long the whole list is."""
        self.writes_per_minute = 0
        self.browser = self.browser_for(self.limits)
        self.fill(LISTED_FREELY + 8)
        for _ in range(LIST_RATE.burst + 1):
            for query in ("", "since=0.0&"):
                answer = self.ask("GET", f"/game/saves?{query}limit={LISTED_FREELY}")
                self.assertEqual((answer.status, answer.json["more"]), (200, True))
