"""Whatever a player adds is bounded in rows and bytes, and each list in what one request reads.

See docs/protocol.md: Limits; docs/owners/configuration.md: Saves and assets.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.defer import Deferred

from gamed.config.game import SaveLimits
from gamed.saves import tables as save_tables
from gamed.saves.limits import LISTED_FREELY, STAGED_COMMITS
from gamed.saves.retention import DAY_MS, HOUR_MS
from tests.saves.commit_helpers import CommitCase, delete, write
from tests.saves.helpers import ABSENT, tag
from tests.saves.test_cleanup import SweepCase
from tests.sessions.fixtures import ANNA, BERT
from tests.support.examples import histories

T = TypeVar("T")
ANY = {"If-Match": "*"}
META = {"Save-Meta": '{"title":"' + "x" * 2000 + '"}'}


class BoundCase(SweepCase, CommitCase):
    def fill(self, count: int, first: int = 0) -> None:
        """Write `count` slots, by commits."""
        names = [f"s{number:04d}" for number in range(first, first + count)]
        for begin in range(0, count, 64):
            answer = self.commit_staged(*(write(name, b"one") for name in names[begin : begin + 64]), bodies=(b"one",))
            self.assertEqual(answer.status, 200, answer.body)

    def usage(self) -> dict[str, int]:
        found: dict[str, int] = self.ask("GET", "/game/").json["usage"]
        return found

    def rows_of_versions(self) -> int:
        return len(self.version_rows())


class DeletedHistoryTest(BoundCase):
    def test_like_a_living_one(self) -> None:
        """A deleted slot is thinned like a living one, and all of it can be restored until the tombstone expires."""
        for number in range(48):
            self.put("auto", f"{number}".encode(), ANY if number else ABSENT)
            self.later(5 * 60_000)
        self.delete("auto", ANY)
        self.clean_up()
        kinds = [version["kind"] for version in self.versions("auto")]
        self.assertEqual((kinds[0], len(kinds)), ("delete", 1 + 10 + 4))
        self.later(30 * DAY_MS - 1)
        self.clean_up()
        self.assertEqual(self.numbers(), list(range(49, 38, -1)))
        self.later(1)
        self.clean_up()
        self.assertEqual((self.rows_of_versions(), self.slots(), self.usage()["history_bytes"]), (0, 0, 0))

    def test_written_and_deleted_in_turns(self) -> None:
        """A slot keeps one tombstone of many deletes, and is thinned while it looks deleted, too."""
        for number in range(100):
            self.put("auto", f"{number}".encode(), ABSENT)
            self.delete("auto", ANY)
            self.later(60_000)
            self.clean_up()
        kinds = [version["kind"] for version in self.versions("auto")]
        self.assertEqual((kinds[0], kinds.count("delete"), len(kinds)), ("delete", 1, 1 + 10 + 2))
        self.assertEqual(self.get("auto").json["last"]["version"], 199)

    def test_each_row_counts(self) -> None:
        """A version in the history counts its bytes, its meta and 512 bytes; a tombstone 512."""
        self.put("auto", b"one", {**ABSENT, **META})
        self.assertEqual(self.usage(), {"slots": 1, "bytes": 3, "history_bytes": 0})
        self.delete("auto", ANY)
        counted = 3 + len(META["Save-Meta"]) + 2 * 512
        self.assertEqual(self.usage(), {"slots": 0, "bytes": 0, "history_bytes": counted})
        self.assert_counts_agree()


class DeletedSlotsTest(BoundCase):
    limits = SaveLimits(deleted_slots=3, slots=4)

    def drop(self, *names: str) -> None:
        for name in names:
            self.put(name, name.encode(), ABSENT)
            self.delete(name, ANY)
            self.server.now_ms += 1000

    def names(self) -> Sequence[str]:
        """Return the names of all slots, the deleted ones included."""
        return [entry.slot for entry in self.in_state(lambda c: save_tables.slots_by_name(c, ANNA, "", 99))]

    def test_oldest_expires(self) -> None:
        """A new slot expires the one that was deleted first, with its history; a slot that is written again expires
        none."""
        self.drop("a", "b", "c")
        self.later(DAY_MS)
        self.assertEqual(self.put("d", b"four", ABSENT).status, 201)
        self.assertEqual(self.names(), ["b", "c", "d"])
        self.assertEqual(self.put("b", b"again", ABSENT).status, 201)
        self.assertEqual(self.names(), ["b", "c", "d"])
        self.assert_problem(self.ask("GET", "/game/saves/a/versions"), 404, "save_not_found")
        self.assert_counts_agree()

    def test_a_day_at_least(self) -> None:
        """Nothing that was deleted less than 24 hours ago expires: a new slot is refused, and nothing is lost."""
        self.drop("a", "b", "c")
        self.server.now_ms += DAY_MS - 3001
        self.bearer = self.sign_in(ANNA)
        answer = self.assert_problem(self.put("d", b"four", ABSENT), 413, "quota_exceeded", "24 hours")
        self.assertEqual((answer.json["limit"], answer.json["usage"]), (3, 3))
        self.stage(b"four")
        self.assert_problem(self.commit(write("d", b"four")), 413, "quota_exceeded")
        self.assertEqual(self.names(), ["a", "b", "c"])
        self.assertEqual(self.put("c", b"again", ABSENT).status, 201)
        self.assertEqual(self.put("d", b"four", ABSENT).status, 201)
        self.later(1)
        self.delete("c", ANY)
        self.assertEqual(self.put("e", b"five", ABSENT).status, 201)
        self.assertEqual(self.names(), ["b", "c", "d", "e"])
        self.assert_counts_agree()

    def test_refused_bytes_stay(self) -> None:
        """A slot with a conflict copy of the last 24 hours does not expire early: nobody has chosen yet."""
        self.drop("a", "b", "c")
        self.later(DAY_MS)
        refused = self.put("a", b"offline", {"If-Match": tag(9, b"?")})
        self.assert_problem(refused, 412, "deleted")
        self.assertEqual(self.put("d", b"four", ABSENT).status, 201)
        self.assertEqual(self.names(), ["a", "c", "d"])
        self.assertEqual(self.ask("GET", refused.json["yours"]["href"]).body, b"offline")

    def test_commit(self) -> None:
        """A commit expires as many slots as it needs, and none that it names."""
        self.drop("a", "b", "c")
        self.later(DAY_MS)
        self.stage(b"x")
        answer = self.commit(write("a", b"x"), write("d", b"x"))
        self.assertEqual((answer.status, self.names()), (200, ["a", "c", "d"]))
        self.assertEqual([save["version"] for save in answer.json["saves"]], [3, 3])
        self.assert_counts_agree()

    def test_deleted_and_written_by_commits(self) -> None:
        """The deletes of a commit count before its new slots, as if they were requests of their own."""
        names = [f"s{number}" for number in range(20)]
        self.stage(b"x")
        self.commit(*(write(name, b"x") for name in names[:4]))
        for first in range(0, 10, 2):
            self.later(DAY_MS)
            self.stage(b"x")
            gone, new = names[first : first + 2], names[first + 4 : first + 6]
            answer = self.commit(*map(delete, gone), *(write(name, b"x") for name in new))
            self.assertEqual(answer.status, 200, answer.body)
            self.assertLessEqual(self.slots(), 3 + 4)
        refused = self.commit(*map(delete, names[10:14]), *(write(name, b"x") for name in names[16:20]))
        self.assert_problem(refused, 413, "quota_exceeded", "24 hours")
        self.assertEqual(self.usage()["slots"], 4)
        self.assert_counts_agree()

    def test_never_more_rows(self) -> None:
        """Living and deleted slots together are never more than both limits."""
        for day in range(6):
            for number in range(4):
                self.put(f"s{day}{number}", b"one", ABSENT)
            for number in range(4):
                self.delete(f"s{day}{number}", ANY)
            self.assertLessEqual(self.slots(), 3 + 4)
            self.later(DAY_MS)
        self.assert_counts_agree()


class ExpiredSlotTest(BoundCase):
    def expire(self) -> str:
        """Let a slot with three versions expire; return the cursor from before its last change."""
        for data in (b"1", b"2", b"3"):
            self.put("gone", data, {"If-Match": "*"} if data != b"1" else ABSENT)
        self.put("stays", b"one", ABSENT)
        cursor: str = self.ask("GET", "/game/saves").json["cursor"]
        self.delete("gone", ANY)
        self.later(30 * DAY_MS)
        self.clean_up()
        self.assertEqual(self.slots(), 1)
        return cursor

    def test_old_cursor(self) -> None:
        """A client that may have missed the delete gets everything with `reset`; one that has seen it does not."""
        cursor = self.expire()
        listed = self.ask("GET", f"/game/saves?since={cursor}").json
        self.assertEqual(([save["slot"] for save in listed["saves"]], listed["reset"]), (["stays"], True))
        again = self.ask("GET", f"/game/saves?since={listed['cursor']}").json
        self.assertEqual((again["saves"], "reset" in again), ([], False))
        first = self.ask("GET", "/game/saves?since=0.0").json
        self.assertEqual(([save["slot"] for save in first["saves"]], first["reset"]), (["stays"], True))
        self.assertEqual([page.get("expired") for page in (listed, again, first)], [True, None, True])

    def test_other_resets(self) -> None:
        """A list that is whole for another reason, or was not asked for by a cursor, says nothing of expired slots."""
        cursor = self.expire()
        epoch, seq = self.ask("GET", "/game/").json["cursor"].split(".")
        for since in ("other.1", f"{epoch}.{int(seq) + 1}", f"{epoch}-{int(seq) + 1}.1"):
            listed = self.ask("GET", f"/game/saves?since={since}").json
            self.assertEqual((listed["reset"], "expired" in listed), (True, False), since)
        self.assertNotIn("expired", self.ask("GET", "/game/saves").json)
        self.assertEqual(self.ask("DELETE", "/game/", {"If-Match": "*"}).status, 204)
        for since in ("0.0", cursor):
            listed = self.ask("GET", f"/game/saves?since={since}").json
            self.assertEqual((listed["reset"], "expired" in listed), (True, False), since)

    def test_pages(self) -> None:
        """Only the first page of the whole list has `reset` and `expired`."""
        cursor = self.expire()
        for number in range(5):
            self.put(f"s{number}", b"one", ABSENT)
        first = self.ask("GET", f"/game/saves?since={cursor}&limit=4").json
        self.assertEqual([first.get(name) for name in ("reset", "expired", "more")], [True] * 3)
        second = self.ask("GET", f"/game/saves?since={first['cursor']}&limit=4").json
        self.assertEqual((len(second["saves"]), set(second)), (2, {"cursor", "saves"}))

    def test_numbers_go_on(self) -> None:
        """A new save begins above all version numbers of slots that expired, so that no etag comes twice."""
        self.expire()
        for slot in ("gone", "other"):
            self.assertEqual(self.put(slot, b"1", ABSENT).json["version"], 5)
        self.assert_problem(self.put("gone", b"2", {"If-Match": tag(1, b"1")}), 412, "version_conflict")
        self.assertEqual(self.put("stays", b"two", ANY).json["version"], 2)

    def test_old_etag(self) -> None:
        """A write with an etag of an expired save is refused, and the client keeps its bytes."""
        self.expire()
        self.assert_problem(self.put("gone", b"offline", {"If-Match": tag(3, b"3")}), 412, "version_conflict")
        self.assertEqual(self.put("gone", b"offline", ABSENT).status, 201)


class DamagedSlotTest(BoundCase):
    def test_not_deleted(self) -> None:
        """A save whose current version is lost is in no list: a client would delete its own copy of a deleted one."""
        for slot in ("a", "b", "c"):
            self.put(slot, b"one", ABSENT)
        cursor = self.ask("GET", "/game/").json["cursor"]
        for slot in ("a", "b", "c"):
            self.put(slot, b"two", ANY)
        lost = "DELETE FROM save_version WHERE slot = 'a' AND version = 2"
        self.assertEqual(self.in_state(lambda connection: connection.execute(lost).rowcount), 1)
        for path in ("/game/saves?limit=9", f"/game/saves?since={cursor}", "/game/saves?since=0.0"):
            self.assertEqual([save["slot"] for save in self.ask("GET", path).json["saves"]], ["b", "c"], path)
        page = self.ask("GET", f"/game/saves?since={cursor}&limit=1").json
        self.assertEqual((page["saves"], page["more"]), ([], True))
        rest = self.ask("GET", f"/game/saves?since={page['cursor']}&limit=2").json
        self.assertEqual([save["slot"] for save in rest["saves"]], ["b", "c"])

    def test_not_expired(self) -> None:
        """Beside a damaged save a list never says that slots which it lacks were deleted."""
        self.put("damaged", b"one", ABSENT)
        self.put("gone", b"one", ABSENT)
        cursor = self.ask("GET", "/game/").json["cursor"]
        self.delete("gone", ANY)
        self.later(30 * DAY_MS)
        self.clean_up()
        for expired in (True, None):
            listed = self.ask("GET", f"/game/saves?since={cursor}").json
            self.assertEqual((listed["reset"], listed.get("expired")), (True, expired))
            self.in_state(lambda c: c.execute("DELETE FROM save_version WHERE slot = 'damaged'").rowcount)


class PageTest(BoundCase):
    limits = SaveLimits(slots=1000)

    def pages(self, path: str, limit: int = 100) -> list[dict[str, Any]]:
        """Return the pages from `path` on, each asked for by the cursor of the one before, as clients do."""
        found = [self.ask("GET", path).json]
        while found[-1].get("more"):
            self.assertLess(len(found), 50)
            self.server.now_ms += 500
            found.append(self.ask("GET", f"/game/saves?since={found[-1]['cursor']}&limit={limit}").json)
        return found

    def names_of(self, pages: Sequence[dict[str, Any]]) -> list[str]:
        return [save["slot"] for page in pages for save in page["saves"]]

    def test_changes(self) -> None:
        """Changes come in pages, the earliest first; the cursor of each page leads to the next."""
        self.put("first", b"one", ABSENT)
        cursor = self.ask("GET", "/game/").json["cursor"]
        self.fill(300)
        self.delete("s0007", ANY)
        pages = self.pages(f"/game/saves?since={cursor}")
        self.assertEqual([len(page["saves"]) for page in pages], [256, 44])
        self.assertEqual(sorted(self.names_of(pages)), [f"s{number:04d}" for number in range(300)])
        self.assertEqual(pages[1]["saves"][-1]["slot"], "s0299")
        self.assertIn("deleted", next(save for save in pages[1]["saves"] if save["slot"] == "s0007"))
        self.assertEqual(pages[1]["cursor"], self.ask("GET", "/game/").json["cursor"])

    def test_everything(self) -> None:
        """The list of everything is whole and by name up to 256 slots; a longer one has pages, too."""
        self.fill(256)
        listed = self.ask("GET", "/game/saves").json
        self.assertEqual((len(listed["saves"]), "more" in listed), (256, False))
        self.fill(50, first=256)
        pages = self.pages("/game/saves?limit=100")
        self.assertEqual([len(page["saves"]) for page in pages], [100, 100, 100, 6])
        self.assertEqual(self.names_of(pages), [f"s{number:04d}" for number in range(306)])
        self.assertNotEqual(pages[0]["cursor"], pages[1]["cursor"])

    def test_everything_beside_expired_slots(self) -> None:
        """A client that reads the pages of old slots is not taken for one that missed what expired meanwhile."""
        self.fill(20)
        for number in range(20, 30):
            self.put(f"s{number:04d}", b"x", ABSENT)
            self.delete(f"s{number:04d}", ANY)
        self.later(30 * DAY_MS)
        self.clean_up()
        pages = self.pages("/game/saves?limit=7")
        self.assertEqual((self.names_of(pages), len(pages)), ([f"s{number:04d}" for number in range(20)], 2))
        self.assertFalse(any(page.get("reset") for page in pages))
        pages = self.pages("/game/saves?since=old.1&limit=7")
        self.assertEqual(([page.get("reset") for page in pages], len(self.names_of(pages))), ([True, None], 20))

    def test_expired_between_pages(self) -> None:
        """A slot that expires between two pages, and was on the first, makes the list begin again."""
        self.fill(20)
        first = self.ask("GET", "/game/saves?limit=7").json
        self.delete("s0003", ANY)
        self.later(30 * DAY_MS)
        self.clean_up()
        second = self.ask("GET", f"/game/saves?since={first['cursor']}").json
        self.assertEqual((second["reset"], len(second["saves"])), (True, 19))

    def test_changes_with_one_number(self) -> None:
        """Slots whose changes have one number, as earlier releases left them, are on one page, whatever its limit."""
        self.fill(6)
        whole = self.names_of(self.pages("/game/saves"))
        for first, last in ((2, 3), (1, 4), (1, 6), (5, 6)):
            query = f"UPDATE save SET seq = {last} WHERE seq BETWEEN {first} AND {last}"
            self.in_state(lambda connection, query=query: connection.execute(query).rowcount)
            for limit in range(1, 8):
                for path in ("/game/saves?", "/game/saves?since=0.0&"):
                    pages = self.pages(f"{path}limit={limit}", limit)
                    self.assertEqual(sorted(self.names_of(pages)), whole, (first, last, limit))

    def test_page_does_not_wait(self) -> None:
        """A page is answered at once, also with `Prefer: wait`."""
        self.fill(20)
        cursor = self.ask("GET", "/game/saves?limit=7").json["cursor"]
        answer = self.ask("GET", f"/game/saves?since={cursor}&limit=7", {"Prefer": "wait=25"})
        self.assertEqual((len(answer.json["saves"]), answer.json["more"]), (7, True))

    def test_history(self) -> None:
        """A history comes in pages, newest first, and each version expires when the whole history says."""
        for number in range(30):
            self.put("auto", f"{number}".encode(), ANY if number else ABSENT)
        whole = self.ask("GET", "/game/saves/auto/versions").json
        self.assertEqual((len(whole["versions"]), "more" in whole), (30, False))
        found, before = [], 31
        while before:
            page = self.ask("GET", f"/game/saves/auto/versions?before={before}&limit=8").json
            found += page["versions"]
            before = page["versions"][-1]["version"] if page.get("more") else 0
        self.assertEqual(found, whole["versions"])

    def test_long_history(self) -> None:
        """Without a query the newest hundred are listed."""
        for number in range(120):
            self.put("auto", f"{number}".encode(), ANY if number else ABSENT)
        listed = self.ask("GET", "/game/saves/auto/versions").json
        self.assertEqual((self.numbers(), listed["more"]), (list(range(120, 20, -1)), True))
        self.assertEqual(self.ask("GET", "/game/saves/auto/versions?before=1").json["versions"], [])

    def test_malformed(self) -> None:
        """A limit or number that is not one is refused."""
        self.put("auto", b"one", ABSENT)
        for path, values in (
            ("/game/saves?limit=", ("", "0", "257", "-1", "1e2", "\u0661", "9" * 100)),
            ("/game/saves/auto/versions?limit=", ("", "0", "101", "x")),
            ("/game/saves/auto/versions?before=", ("", "0", "-1", "x", "9" * 100)),
        ):
            for value in values:
                self.assert_problem(self.ask("GET", path + value), 400, "bad_request")

    def test_rate(self) -> None:
        """Long lists have a rate of each player; short ones and waits have none."""
        self.fill(LISTED_FREELY + 1)
        cursor = self.ask("GET", "/game/").json["cursor"]
        for _ in range(40):
            self.assertEqual(self.ask("GET", "/game/saves").status, 200)
        for path in ("/game/saves", "/game/saves?since=0.0"):
            answer = self.assert_problem(self.ask("GET", path), 429, "rate_limited")
            self.assertEqual(answer.headers["retry-after"], "1")
        self.assertEqual(self.ask("GET", f"/game/saves?since={cursor}").status, 200)
        self.server.now_ms += 500
        self.assertEqual(self.ask("GET", "/game/saves").status, 200)
        self.bearer = self.sign_in(BERT)
        self.assertEqual(self.ask("GET", "/game/saves").status, 200)


class FullHistoryTest(BoundCase):
    limits = SaveLimits(history_bytes=5000)

    def test_each_change_has_a_number(self) -> None:
        """A write that deletes conflict copies of several slots gives each slot, as its own, another number."""
        for number in range(4):
            self.put(f"s{number}", b"one", ABSENT)
            self.put(f"s{number}", b"offline", {"If-Match": tag(9, b"?")})
        self.put("big", b"x" * 4000, ABSENT)
        self.put("big", b"y", ANY)
        self.assertEqual([save.get("conflicts") for save in self.listed()], [[]] * 5)
        numbers = self.in_state(lambda c: c.execute("SELECT seq FROM save").fetchall())
        self.assertEqual(len(set(numbers)), 5)


class CommitRateTest(BoundCase):
    writes_per_minute = 60

    def test_entries_count(self) -> None:
        """A commit counts as its entries, so that a full one is followed by a wait for all of them."""
        self.stage(b"x")
        self.assertEqual(self.commit(*(write(f"s{n}", b"x") for n in range(64))).status, 200)
        answer = self.assert_problem(self.put("auto", b"one", ABSENT), 429, "rate_limited")
        self.assertEqual(answer.headers["retry-after"], "35")
        self.server.now_ms += 35_000
        self.assertEqual(self.put("auto", b"one", ABSENT).status, 201)
        self.assert_problem(self.put("auto", b"two", ANY), 429, "rate_limited")

    def test_small_commits(self) -> None:
        """Commits of two entries use the rate of two writes."""
        self.stage(b"x", b"y")
        for number in range(15):
            entries = (write(name, b"xy"[number % 2 :][:1], "*" if number else None) for name in ("a", "b"))
            self.assertEqual(self.commit(*entries).status, 200, number)
        self.assert_problem(self.commit(write("a", b"y", "*")), 429, "rate_limited")


class StagedTest(BoundCase):
    limits = SaveLimits(commit_writes=2)

    def test_bodies(self) -> None:
        """Staged bodies are bounded in number, however small; a commit makes room."""
        bodies = [f"{number}".encode() for number in range(2 * STAGED_COMMITS)]
        self.stage(*bodies)
        self.assert_problem(self.put_blob(b"more"), 413, "quota_exceeded", "32 bodies")
        self.assertEqual(self.put_blob(bodies[0]).status, 201)
        self.assertEqual(self.commit(write("a", bodies[0])).status, 200)
        self.assertEqual(self.put_blob(b"more").status, 201)


class LongCommitTest(BoundCase):
    def setUp(self) -> None:
        self.in_threads = 0
        super().setUp()

    def disk(self, work: Callable[[], T]) -> Deferred[T]:
        self.in_threads += 1
        return super().disk(work)

    def test_parsed_in_a_thread(self) -> None:
        """A long commit is parsed outside the reactor's thread, and so is a malformed one; a short one is not."""
        meta = {f"k{number}": number for number in range(180)}
        self.stage(b"x")
        self.assertEqual(self.commit(write("short", b"x", meta=meta)).status, 200)
        self.assertEqual(self.in_threads, 0)
        self.assertEqual(self.commit(*(write(f"s{n}", b"x", meta=meta) for n in range(64))).status, 200)
        self.assert_problem(self.commit(*({"slot": "?" * 300} for _ in range(64))), 400, "invalid_request")
        self.assertEqual((self.in_threads, self.reservations.bytes), (2, 0))
        self.assertEqual(self.commit(write("short", b"x", "*")).status, 200)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["put", "put", "put", "delete", "conflict", "commit"]),
        st.integers(0, 7),
        st.sampled_from([0, 1000, HOUR_MS // 2, 5 * HOUR_MS, DAY_MS, 9 * DAY_MS]),
    ),
    max_size=60,
)


class RowsTest(BoundCase):
    """A model of rows and bytes: after any days, what is stored is within the bounds that the limits allow."""

    limits = SaveLimits(slots=3, deleted_slots=2, keep_versions=2, keep_hours=3, keep_days=4, conflict_copies=2)

    @settings(max_examples=histories(25, 300))
    @given(STEPS)
    def test_any_days(self, steps: Sequence[tuple[str, int, int]]) -> None:
        """Slots, versions of each slot, tombstones and counted bytes stay within their bounds at each step."""
        self.setUp()
        for number, (kind, slot, wait_ms) in enumerate(steps):
            name, data = f"s{slot}", f"{number}".encode()
            if kind == "put" and self.put(name, data, ABSENT).status == 412:
                self.put(name, data, ANY)
            elif kind == "delete":
                self.delete(name, ANY)
            elif kind == "conflict":
                self.put(name, data, {"If-Match": tag(99, b"?")})
            elif kind == "commit":
                self.stage(data)
                self.commit(write(name, data), write(f"s{slot ^ 1}", data))
                self.commit(delete(name, "*"))
            self.later(wait_ms)
            self.clean_up()
            self.check()

    def check(self) -> None:
        limits = self.limits
        slots = self.in_state(lambda c: save_tables.slots_by_name(c, ANNA, "", 99))
        self.assertLessEqual(len(slots), limits.slots + limits.deleted_slots)
        self.assertLessEqual(sum(entry.current is not None for entry in slots), limits.slots)
        rows = self.version_rows()
        for entry in slots:
            kinds = [kind for _, slot, _, kind, _ in rows if slot == entry.slot]
            self.assertLessEqual(kinds.count("delete"), 1)
            self.assertLessEqual(kinds.count("conflict"), limits.conflict_copies)
            self.assertLessEqual(len(kinds), 1 + 2 + 2 + (3 + 1) + (4 + 1))
        self.assertLessEqual(len(rows) * 512, self.usage()["history_bytes"] + 512 * limits.slots)
