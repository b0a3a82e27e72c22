"""One player's saves are merged into those of another player.

See docs/owners/players.md: Erasing; docs/protocol.md: Saves.
"""

from collections.abc import Iterator
from functools import partial

from twisted.internet.defer import ensureDeferred

from gamed.config.game import SaveLimits
from gamed.database.connection import Connection
from gamed.saves import cleanup, erase_store, integrity, merge_store, tables
from gamed.saves.erase_store import EraseStore, MergeStep, merge_saves
from gamed.saves.merge_store import Merge
from tests.saves.helpers import ABSENT, SaveCase, tag
from tests.saves.state_machine import count_errors
from tests.sessions.fixtures import ANNA, BERT, Counting
from tests.support.stores import sqlite_files


class HandingOverTest(SaveCase):
    def setUp(self) -> None:
        super().setUp()
        self.put("auto", b"Anna's")
        self.bearer = self.sign_in(BERT)
        self.put("own", b"Bert's")
        self.in_state(lambda connection: erase_store.begin_erase(connection, BERT, "erased", self.server.now_ms))

    def test_not_into_an_erase(self) -> None:
        """No saves are merged into saves that are being erased."""
        merge = Merge(ANNA, BERT, ("one", "two"), self.server.now_ms)
        self.assertIs(self.in_state(partial(merge_saves, merge=merge)), MergeStep.HEIR_ERASING)
        owners = self.in_state(lambda c: c.execute("SELECT player_id FROM save_version WHERE slot = 'auto'").fetchall())
        self.assertEqual(owners, [(ANNA,)])

    def test_after_it(self) -> None:
        """A merge first completes the other player's own erase."""
        erase_store = EraseStore(databases=self.stores, random=Counting(), now_ms=lambda: self.server.now_ms)
        self.successResultOf(ensureDeferred(erase_store.merge(ANNA, BERT, self.server.now_ms)))
        self.assertEqual([save["slot"] for save in self.ask("GET", "/game/saves").json["saves"]], ["auto"])
        self.assertEqual(self.get("auto").body, b"Anna's")
        self.assert_counts_agree()


class GivenTest(SaveCase):
    """The saves of both players after a merge."""

    def give(self) -> None:
        """Merge Anna's saves into Bert's; later requests are Bert's."""
        erase_store = EraseStore(databases=self.stores, random=Counting(), now_ms=lambda: self.server.now_ms)
        self.successResultOf(ensureDeferred(erase_store.merge(ANNA, BERT, self.server.now_ms)))
        self.bearer = self.sign_in(BERT)
        self.assert_counts_agree()

    def usage(self) -> list[int]:
        return list(self.ask("GET", "/game/").json["usage"].values())

    def test_into_no_saves(self) -> None:
        """A player without saves gets everything, with history and deleted slots."""
        self.put("auto", b"one", ABSENT)
        self.put("auto", b"second", {"If-Match": "*"})
        self.put("gone", b"three", ABSENT)
        self.delete("gone", {"If-Match": "*"})
        self.give()
        self.assertEqual(self.usage(), [1, 6, 8 + 3 * 512])
        self.assertEqual([version["version"] for version in self.versions("auto")], [2, 1])
        self.assertEqual(self.ask("POST", "/game/saves/gone/versions/1/restore", ABSENT).json["version"], 3)
        self.assertEqual(self.put("auto", b"third", {"If-Match": tag(2, b"second")}).json["version"], 3)
        self.assert_counts_agree()

    def test_without_saves(self) -> None:
        """Merging a player without saves changes nothing."""
        self.give()
        self.assertEqual(self.usage(), [0, 0, 0])

    def test_slots_of_both(self) -> None:
        """In a slot of both players the merged version becomes a conflict copy, unless it is equal or deleted."""
        mine, theirs = (b"x", b"y", b"z"), (b"x", b"other", b"w")
        for slot, data in zip("abc", mine, strict=True):
            self.put(slot, data, ABSENT)
        self.delete("c", {"If-Match": "*"})
        self.bearer = self.sign_in(BERT)
        for slot, data in zip("abc", theirs, strict=True):
            self.put(slot, data, ABSENT)
        self.give()
        saves = self.ask("GET", "/game/saves").json["saves"]
        self.assertEqual(
            [(save["etag"], save["conflicts"]) for save in saves],
            [
                (tag(1, b"x"), []),
                (tag(1, b"other"), [2]),
                (tag(1, b"w"), []),
            ],
        )
        self.assertEqual(self.ask("GET", "/game/saves/b/versions/2").body, b"y")
        self.bearer = self.sign_in(ANNA)
        self.assertEqual(self.usage(), [0, 0, 0])


class SteppedTest(SaveCase):
    """A merge in steps so small that each kind of row takes several."""

    def setUp(self) -> None:
        super().setUp()
        for name in ("MOVED_SLOTS", "MOVED_COPIES", "MOVED_DELETED", "MOVED_VERSIONS"):
            self.patch(merge_store, name, 4)

    def fill(self) -> None:
        """Give Anna four slots of her own, five of both, five deleted ones, and a long history with conflict copies."""
        self.bearer = self.sign_in(BERT)
        for number in range(5):
            self.put(f"both{number}", b"Bert's %d" % number, ABSENT)
        self.bearer = self.sign_in(ANNA)
        for number in range(5):
            self.put(f"both{number}", b"Anna's %d" % number, ABSENT)
            self.put(f"gone{number}", b"gone %d" % number, ABSENT)
            self.delete(f"gone{number}", {"If-Match": "*"})
        for number in range(4):
            self.put(f"own{number}", b"first", ABSENT)
        for number in range(9):
            self.put("own0", b"%d" % number, {"If-Match": "*"})
            self.put("own1", b"refused %d" % number, {"If-Match": tag(1, b"?")}) if number < 3 else None
        for slot in ("own2", "own3", "own2"):  # the same bytes in several versions
            self.put(slot, b"L" * 20_000, {"If-Match": "*"})
            self.put(slot, b"last", {"If-Match": "*"})
        self.put("own2", b"L" * 20_000, {"If-Match": "*"})
        self.bearer = self.sign_in(BERT)

    def steps(self) -> Iterator[MergeStep]:
        merge = Merge(ANNA, BERT, ("given", "first"), self.server.now_ms)
        step = MergeStep.MORE
        while step is not MergeStep.DONE:
            step = self.in_state(partial(merge_saves, merge=merge))
            yield step

    def finish(self) -> None:
        store = EraseStore(databases=self.stores, random=Counting(), now_ms=lambda: self.server.now_ms)
        self.successResultOf(ensureDeferred(store.merge(ANNA, BERT, self.server.now_ms)))

    def listed(self) -> dict[str, list[int]]:
        """Return Bert's slots with their conflict copies."""
        return {save["slot"]: save["conflicts"] for save in self.ask("GET", "/game/saves").json["saves"]}

    def test_old_or_new(self) -> None:
        """After each step the rows agree, and Bert has all of Anna's own saves, or none; nothing is there twice."""
        self.fill()
        both, own = {f"both{number}" for number in range(5)}, {f"own{number}" for number in range(4)}
        seen, steps = [], 0
        versions = len(self.version_rows())
        for step in self.steps():
            steps += 1
            if step is MergeStep.DONE:
                break
            # a slot that stays until its versions have moved is neither current nor deleted
            shells = {f"deleted: ('own{number}',)" for number in range(4)}
            shells |= {f"deleted: ('gone{number}',)" for number in range(5)}
            # and the bytes of several versions belong to the heir with the first one that has moved
            shared = {f"bytes of a version: {row}" for row in (("own2", 2), ("own2", 4), ("own3", 2))}
            self.assertLessEqual(set(self.in_state(count_errors)), shells | shared)
            for check in integrity.CHECKS:
                self.assertEqual(self.in_state(partial(integrity.find_errors, check=check)), [])
            seen.append(set(self.listed()))
            self.assertIn(seen[-1], (both, both | own))
            self.assertEqual(len(self.version_rows()), versions, "each version is there once")
        self.assertEqual(seen[0], both | own, "the first step gives all saves that a game may have committed together")
        self.assertGreater(steps, 8)
        self.finish()
        self.assert_counts_agree()
        self.assertEqual([row for row in self.version_rows() if row[0] == ANNA], [])
        self.assertEqual([version["version"] for version in self.versions("own0")], list(range(10, 0, -1)))
        self.assertEqual(len(self.listed()["own1"]), 3)
        self.assertEqual({len(self.listed()[slot]) for slot in both}, {1})
        self.assertEqual(self.get("own2").body, b"L" * 20_000)
        for number in range(5):
            answer = self.ask("POST", f"/game/saves/gone{number}/versions/1/restore", ABSENT)
            self.assertEqual(answer.json["version"], 3)
        self.assert_counts_agree()

    def test_rows_of_a_step(self) -> None:
        """No step changes more than a few rows for each one that it may move."""
        self.fill()
        merge = Merge(ANNA, BERT, ("given", "first"), self.server.now_ms)

        def changes(connection: Connection) -> tuple[MergeStep, int]:
            before = connection.total_changes  # type: ignore[attr-defined]
            return merge_saves(connection, merge), connection.total_changes - before  # type: ignore[attr-defined]

        step = MergeStep.MORE
        while step is not MergeStep.DONE:
            step, count = self.in_state(changes)
            self.assertLessEqual(count, 4 * 8 + 8)

    def test_changes_of_each_step(self) -> None:
        """A client that asks for changes after each step gets them in pages of any size, and then has everything."""
        self.fill()
        known = self.ask("GET", "/game/saves").json
        saves = {save["slot"]: save for save in known["saves"]}
        for _ in self.steps():
            more = True
            while more:
                known = self.ask("GET", f"/game/saves?since={known['cursor']}&limit=2").json
                self.assertNotIn("reset", known)
                for save in known["saves"]:
                    saves[save["slot"]] = save
                more = known.get("more", False)
        self.finish()
        kept = {slot: save for slot, save in saves.items() if "deleted" not in save}
        self.assertEqual(kept, {save["slot"]: save for save in self.ask("GET", "/game/saves").json["saves"]})

    def test_late_request(self) -> None:
        """A write that began before the merge does not write to what is left of the player after its first step."""
        self.fill()
        epoch = self.in_state(lambda connection: tables.find_player(connection, ANNA)).cursor.epoch
        next(self.steps())
        summary = self.in_state(lambda connection: tables.find_player(connection, ANNA))
        self.assertTrue(summary.erased_since(epoch))

    def test_erase_meanwhile(self) -> None:
        """If the heir erases all saves between two steps, the old versions of what had arrived are erased, too.

        Slots of the same names that are written since have histories of their own.
        """
        self.fill()
        next(self.steps())
        etag = self.ask("GET", "/game/").headers["etag"]
        self.assertEqual(self.ask("DELETE", "/game/", {"If-Match": etag}).status, 204)
        for slot, writes in (("own1", 2), ("own2", 3)):  # fewer versions than it had, and more
            for number in range(writes):
                self.put(slot, b"anew %d" % number, {"If-Match": "*"} if number else ABSENT)
        self.finish()
        self.assert_counts_agree()
        rows = [row[:3] for row in self.version_rows()]
        self.assertEqual([row for row in rows if row[0] == ANNA], [])
        anew = [("own1", 1), ("own1", 2), ("own2", 1), ("own2", 2), ("own2", 3)]
        self.assertEqual([row[1:] for row in rows if row[1] in {"own0", "own1", "own2"}], anew)

    def test_write_meanwhile(self) -> None:
        """Between two steps the heir writes to slots that have arrived, deletes one, and takes names that have not."""
        self.fill()
        next(self.steps())
        self.assertEqual(self.put("own0", b"mine", {"If-Match": "*"}).json["version"], 11)
        self.delete("own1", {"If-Match": "*"})
        self.put("gone1", b"taken", ABSENT)
        self.finish()
        self.assert_counts_agree()
        self.assertEqual([version["version"] for version in self.versions("own0")], list(range(11, 0, -1)))
        self.assertEqual((self.get("own0").body, self.get("gone1").body), (b"mine", b"taken"))
        self.assertEqual(self.get("own1").status, 410)
        self.assertEqual([row for row in self.version_rows() if row[0] == ANNA], [])

    def test_new_limits_meanwhile(self) -> None:
        """A new rule of what is kept is not applied to slots whose versions are still on their way."""
        self.fill()
        next(self.steps())
        limits = SaveLimits(keep_versions=20)
        while self.in_state(partial(cleanup.schedule_histories, limits=limits, now_ms=self.server.now_ms)):
            pass
        prune = partial(cleanup.prune_histories, limits=limits, now_ms=self.server.now_ms)
        while self.in_state(prune).slots:
            pass
        self.finish()
        self.assertEqual(len(self.versions("own0")), 10)
        self.assert_counts_agree()

    @sqlite_files("the steps of its virtual machine")
    def test_long_history(self) -> None:
        """A step that moves versions costs the database at most a tenth more with ten times as many of them."""
        short, long = self.longest_step(20), self.longest_step(200)
        self.assertGreater(short, 100)
        self.assertLess(long, 1.1 * short)

    def longest_step(self, count: int) -> int:
        """Give Anna so many versions; return how many instructions of SQLite a step of their merge takes at most."""
        self.bearer = self.sign_in(ANNA)
        for number in range(count):
            self.put(f"auto{count}", b"%d" % number, {"If-Match": "*"} if number else ABSENT)
        counted = [0]

        def step() -> int:
            counted[-1] += 1
            return 0

        self.in_state(lambda connection: connection.set_progress_handler(step, 1))  # type: ignore[attr-defined]
        for _ in self.steps():
            counted.append(0)
        self.in_state(lambda connection: connection.set_progress_handler(None, 0))  # type: ignore[attr-defined]
        self.finish()
        return max(counted)
