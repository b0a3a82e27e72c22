"""A malicious player within the limits lets nothing grow without end, and lets no other player wait.

See docs/protocol.md: Limits; docs/owners/configuration.md: Saves and assets.
"""

from collections.abc import Callable, Sequence
from functools import partial
from hashlib import sha256
from typing import Any, TypeVar

from msgspec.structs import replace
from twisted.internet.defer import ensureDeferred

from gamed.config.game import SaveLimits
from gamed.database.connection import Connection, Parameters, StatementResult
from gamed.database.databases import Databases
from gamed.http.conditional import EntityTag
from gamed.saves import tables as save_tables
from gamed.saves.batch_store import commit_changes
from gamed.saves.blob_tables import SEARCHED_VERSIONS, find_blobs
from gamed.saves.commands import Change, CommitCommand, CommitConflict, Committed, StagedContent, WriteContext
from gamed.saves.erase_store import EraseStore
from gamed.saves.limits import LIST_RATE, LISTED_FREELY, VERSION_BYTES
from gamed.saves.prune_store import PRUNED_SLOTS
from gamed.saves.retention import DAY_MS
from gamed.saves.write_rules import Condition, ConditionKind
from tests.saves.commit_helpers import write
from tests.saves.helpers import ABSENT, tag
from tests.saves.test_bounds import ANY, BoundCase
from tests.sessions.fixtures import ANNA, BERT, Counting
from tests.support.databases import file_databases
from tests.support.stores import sqlite_files

T = TypeVar("T")
LARGE = 20_000
"""Bytes of a body that is not in its row of `blob`."""


class ExecutedStatements:
    """A connection that notes the statements that it executes."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.texts: list[str] = []

    def execute(self, sql: str, parameters: Parameters = (), /) -> StatementResult:
        self.texts.append(sql)
        return self.connection.execute(sql, parameters)

    def rows(self, sql: str, parameters: Parameters = (), /) -> list[Any]:
        self.texts.append(sql)
        return self.connection.rows(sql, parameters)

    def found_in(self, database: str, error: BaseException) -> BaseException:
        return self.connection.found_in(database, error)


def _noted(connection: Connection, read: Callable[[Connection], T]) -> tuple[T, int]:
    """Return what a transaction reads, and how many statements it sends."""
    noted = ExecutedStatements(connection)
    return read(noted), len(noted.texts)


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


def _add_deleted(connection: Connection, names: Sequence[str], copies: Sequence[str]) -> None:
    """Insert deleted slots, the first of which have conflict copies of later."""
    slot = "INSERT INTO save (player_id, slot, last_version, seq, deleted_ms) VALUES (?, ?, 2, ?, ?)"
    copy = "INSERT INTO save_version (player_id, slot, version, kind, size, created_ms) VALUES (?, ?, ?, ?, ?, ?)"
    for number, name in enumerate(names):
        connection.execute(slot, (ANNA, name, number + 1, number + 1))
    for name in copies:
        connection.execute(copy, (ANNA, name, 2, "conflict", 0, 2000))


class ExpiryTest(AttackCase):
    limits = SaveLimits(deleted_slots=1)

    def test_current_cursor(self) -> None:
        """A slot that expires together with its conflict copy resets no client that knows of the delete."""
        self.put("auto", b"one", ABSENT)
        self.assertEqual(self.put("auto", b"offline", {"If-Match": tag(7, b"?")}).status, 412)
        self.put("other", b"two", ABSENT)
        self.delete("auto", ANY)
        cursor = self.ask("GET", "/game/saves").json["cursor"]
        self.later(31 * DAY_MS)
        self.clean_up()
        self.assertEqual(self.slots(), 1)
        answer = self.ask("GET", f"/game/saves?since={cursor}").json
        self.assertEqual((answer["saves"], "reset" in answer), ([], False))

    def test_numbers_after_a_merge(self) -> None:
        """A player who gets another one's saves begins above the numbers of those that had expired there."""
        for name in ("a", "b", "c"):
            self.put(name, name.encode(), ABSENT)
            self.delete(name, ANY)
            self.later(DAY_MS)
        self.assertEqual(self.slots(), 1)
        erase_store = EraseStore(databases=self.stores, random=Counting(), now_ms=lambda: self.server.now_ms)
        self.successResultOf(ensureDeferred(erase_store.merge(ANNA, BERT, self.server.now_ms)))
        self.bearer = self.sign_in(BERT)
        self.browser = self.browser_for(SaveLimits())
        self.assertEqual(self.put("a", b"Bert's", ABSENT).json["version"], 5)
        self.assert_counts_agree()

    def test_many_later_copies(self) -> None:
        """The search for slots to expire sends a few statements, however many slots have a later conflict copy."""
        names = [f"s{number:03d}" for number in range(200)]
        self.in_state(partial(_add_deleted, names=names, copies=names[:150]))
        find = partial(save_tables.deleted_before, player_id=ANNA, before_ms=1000, spared={"s151"}, limit=3)
        found, statements = self.in_state(lambda connection: _noted(connection, find))
        self.assertEqual((found, statements), (["s150", "s152", "s153"], 4))
        self.assertEqual(len(self.in_state(partial(find, limit=99))), 49)

    def test_shared_bytes(self) -> None:
        """Expiring slots take no bytes that others use, and leave none that are not used."""
        shared, own = b"s" * LARGE, b"o" * LARGE
        for number, data in enumerate((shared, b"small", own, shared, b"small")):
            self.put("a", data, ANY if number else ABSENT)
        self.stage(b"small")
        self.put("keep", shared, ABSENT)
        self.delete("a", ANY)
        self.later(DAY_MS)
        self.stage(b"small")
        self.assertEqual(self.put("b", b"two", ABSENT).status, 201)
        self.clean_up()
        self.assertEqual(self.ask("GET", "/game/saves/a/versions").status, 404)
        self.assertEqual(self.get("keep").body, shared)
        sizes = self.in_state(lambda c: c.execute("SELECT size FROM blob ORDER BY size").fetchall())
        self.assertEqual(sizes, [(3,), (5,), (LARGE,)])
        self.assert_counts_agree()


def count_searches(connection: Connection, limits: SaveLimits, command: CommitCommand) -> int:
    """Run a commit; return how often it searched for the oldest versions."""
    noted = ExecutedStatements(connection)
    outcome = commit_changes(noted, limits, command)
    assert isinstance(outcome, Committed | CommitConflict) and outcome.changed
    return sum("GROUP BY slot" in text for text in noted.texts)


class FullHistoryTest(AttackCase):
    limits = SaveLimits(keep_versions=1000)

    def shrink(self, history_bytes: int) -> SaveLimits:
        """Lower the limit, as its owner may."""
        limits = replace(self.limits, history_bytes=history_bytes)
        self.browser = self.browser_for(limits)
        return limits

    def test_without_a_time(self) -> None:
        """A damaged version without the time of its end does not prevent a save in a full history."""
        for name in ("a", "b"):
            for number in range(4):
                self.put(name, b"%d" % number, ANY if number else ABSENT)
        self.in_state(_forget_time)
        self.shrink(2 * VERSION_BYTES)
        self.assertEqual(self.put("a", b"next", ANY).status, 200)
        self.assertEqual([len(self.versions(name)) for name in ("a", "b")], [2, 2])

    def test_many_slots(self) -> None:
        """In a history of many slots only cleanup searches for the oldest versions: a write does not wait for that."""
        for number in range(3):
            for slot in range(PRUNED_SLOTS + 1):
                self.put(f"s{slot:02d}", b"%d" % number, ANY if number else ABSENT)
                self.server.now_ms += 1
        refused = self.put("s00", b"offline", {"If-Match": tag(999, b"?")})
        self.shrink((PRUNED_SLOTS + 9) * (1 + VERSION_BYTES))
        before = self.ask("GET", "/game/saves").json["cursor"]
        self.assertEqual(self.put("s07", b"last", ANY).status, 200)
        self.assertEqual(self.rows_of_versions(), 3 * (PRUNED_SLOTS + 1) + 2)
        self.clean_up(replace(self.limits, history_bytes=(PRUNED_SLOTS + 9) * (1 + VERSION_BYTES)))
        self.assertEqual(self.rows_of_versions(), 2 * (PRUNED_SLOTS + 1) + 7)
        kept = [slot for slot in range(PRUNED_SLOTS + 1) if len(self.versions(f"s{slot:02d}")) > 2]
        self.assertEqual(kept, [0, 7, *range(PRUNED_SLOTS - 4, PRUNED_SLOTS + 1)])
        self.assertEqual(self.ask("GET", refused.json["yours"]["href"]).body, b"offline")
        self.assertEqual([save["slot"] for save in self.changes(before)], ["s07"])

    def many_versions(self, history_bytes: int) -> SaveLimits:
        """Write three versions of many slots, then lower the limit, with saves of 3,000 bytes."""
        self.limits = replace(self.limits, save_bytes=3000)
        for number in range(3):
            for slot in range(PRUNED_SLOTS + 1):
                self.put(f"s{slot:02d}", b"%d" % number, ANY if number else ABSENT)
                self.server.now_ms += 1
        return self.shrink(history_bytes)

    def test_far_too_large(self) -> None:
        """A history of many slots that has a save too many is pruned by the next write, and by the next commit."""
        most = 2 * (PRUNED_SLOTS + 1) * (1 + VERSION_BYTES)
        self.many_versions(most)
        for number in range(30):
            self.put("s00", bytes([number]) * 3000, ANY)
            self.server.now_ms += 1
            self.assertLessEqual(self.usage()["history_bytes"], most + 2 * 3000 + VERSION_BYTES)
        self.stage(b"y" * 3000, b"z" * 3000)
        for data in (b"y", b"z", b"y", b"z"):
            entries = [write(f"s{slot:02d}", data * 3000, "*") for slot in range(8)]
            self.assertEqual(self.commit(*entries).status, 200)
        self.assertLessEqual(self.usage()["history_bytes"], most + 3000)
        self.assert_counts_agree()

    def test_searches_of_a_commit(self) -> None:
        """A commit searches for the oldest versions at most twice, whether its entries succeed or are refused."""
        most = 2 * (PRUNED_SLOTS + 1) * (1 + VERSION_BYTES)
        limits = self.many_versions(most)
        bodies = [bytes([number]) * 3000 for number in range(1, 5)]
        self.stage(*bodies)
        blobs = self.in_state(lambda c: find_blobs(c, ANNA, [sha256(data).digest() for data in bodies]))
        for condition in (Condition(ConditionKind.THIS, EntityTag(tag(999, b"?"))), Condition(ConditionKind.PRESENT)):
            contents = [StagedContent(digest, "application/octet-stream") for digest in blobs]
            changes = tuple(Change(f"s{slot:02d}", condition, contents[slot % len(contents)]) for slot in range(20))
            epoch = self.in_state(lambda c: save_tables.find_player(c, ANNA).cursor.epoch)
            command = CommitCommand(WriteContext(ANNA, epoch), changes, self.server.now_ms, "epoch1", blobs)
            searches = self.in_state(partial(count_searches, limits=limits, command=command))
            self.assertIn(searches, (1, 2), condition)

    def test_copies_of_many_slots(self) -> None:
        """Cleanup deletes conflict copies from a full history, and the lists of clients show that."""
        for slot in range(PRUNED_SLOTS + 1):
            self.put(f"s{slot:02d}", b"one", ABSENT)
            self.put(f"s{slot:02d}", b"offline", {"If-Match": tag(999, b"?")})
        before = self.ask("GET", "/game/saves").json["cursor"]
        limits = self.shrink(0)
        self.put("s00", b"two", ANY)
        self.clean_up(limits)
        self.assertEqual(self.rows_of_versions(), PRUNED_SLOTS + 2)
        self.assertEqual([save["conflicts"] for save in self.changes(before)], [[]] * (PRUNED_SLOTS + 1))
        self.assertEqual(self.changed[:1], [ANNA])

    def changes(self, cursor: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.ask("GET", f"/game/saves?since={cursor}").json["saves"]
        return found


@sqlite_files("PostgreSQL keeps a long Save-Meta compressed beside its table; bench/worst_day.py measures both")
class DiskTest(AttackCase):
    limits = SaveLimits(keep_versions=1000, conflict_copies=100)

    def make_stores(self) -> Databases:
        return file_databases(self, now_ms=lambda: self.server.now_ms)

    def size(self) -> int:
        """Return the bytes of state.db."""
        [(pages,)] = self.in_state(lambda c: c.execute("PRAGMA page_count").fetchall())
        return int(pages) * 4096

    def assert_counted(self, **fields: str) -> None:
        """Assert that 300 versions of all kinds, in names as long as possible, take at most twice what they count."""
        before, counted = self.size(), self.usage()["history_bytes"]
        for number in range(300):
            slot = f"{number % 6}{'s' * 63}"
            headers = {name.replace("_", "-"): text for name, text in fields.items()}
            condition = (
                {"If-Match": f'"{"t" * 64}"'} if number % 12 > 5 and number > 30 else ANY if number > 5 else ABSENT
            )
            self.put(slot, b"%d" % number, {**headers, **condition})
        stored, counts = self.size() - before, self.usage()["history_bytes"] - counted
        self.assertLessEqual(stored, 2 * counts, (stored / counts, fields))

    def test_at_most_twice(self) -> None:
        """The rows and pages of any version take at most twice the bytes that it counts."""
        for meta in (0, 255, 300, 700, 1100, 1999, 2040):
            with self.subTest(meta=meta):
                fields = {"Save_Meta": '{"m":"' + "m" * meta + '"}'} if meta else {}
                self.assert_counted(**fields)
                self.assert_counted(Content_Type=f"a/{'x' * 253}", **fields)

    def test_as_checked(self) -> None:
        """Transactions count what `check data` counts."""
        for meta in (249, 250, 1991, 1992, 2040):
            for content_type in ("a/b", "application/octet-stream"):
                headers = {"Save-Meta": '{"m":"' + "m" * meta + '"}', "Content-Type": content_type}
                self.put("auto", f"{meta}{content_type}".encode(), headers | (ANY if self.slots() else ABSENT))
        self.assert_counts_agree()
        self.delete("auto", ANY)
        self.assert_counts_agree()


def _forget_time(connection: Connection) -> None:
    connection.execute("UPDATE save_version SET retired_ms = NULL WHERE version = 1 AND slot = 'a'")
