"""A commit changes several slots or none (docs/protocol.md: Commits)."""

import json
from typing import Any

from gamed.config.game import SaveLimits
from gamed.saves.limits import VERSION_BYTES
from gamed.saves.uploads import COMMIT_BYTES
from tests.saves.commit_helpers import JSON, CommitCase, delete, digest, write
from tests.saves.helpers import ABSENT, BIG, tag
from tests.support.http import Answer

ONE, TWO, THREE, FOUR = b"one", b"two", b"three", b"four"


class CommitTest(CommitCase):
    def test_all_at_once(self) -> None:
        """Writes and deletes take effect together; the answer has each slot in the commit's order, as it is now."""
        self.put("old", ONE, ABSENT)
        self.put("gone", TWO, ABSENT)
        self.stage(THREE, BIG)
        answer = self.commit(
            write("old", THREE, tag(1, ONE), content_type="text/plain", meta={"title": "Drei é"}),
            delete("gone", tag(1, TWO)),
            write("new", BIG),
        )
        self.assertEqual((answer.status, answer.headers["cache-control"]), (200, "private, no-cache, no-transform"))
        old, gone, new = answer.json["saves"]
        self.assertEqual(gone, {"slot": "gone", "deleted": gone["deleted"], "version": 2})
        self.assertRegex(gone["deleted"], r"^\d{4}-.*\.\d{3}Z$")
        self.assertEqual([new["slot"], new["version"], new["sha256"], new["size"]], ["new", 1, digest(BIG), len(BIG)])
        self.assertEqual(
            [old["content_type"], old["meta"], old["etag"]], ["text/plain", {"title": "Drei é"}, tag(2, THREE)]
        )
        self.assertEqual(self.get("old").headers["save-meta"], '{"title":"Drei \\u00e9"}')
        self.assertEqual((self.get("new").body, self.get("gone").status), (BIG, 410))
        overview = self.ask("GET", "/game/").json
        self.assertEqual((overview["cursor"], overview["usage"]["slots"]), (answer.json["cursor"], 2))
        self.assertEqual([{**save, "conflicts": []} for save in (new, old)], self.listed())
        self.assert_counts_agree()

    def test_repeated(self) -> None:
        """The same commit again is 200 with the same answer, and changes nothing, also long after."""
        self.put("gone", TWO, ABSENT)
        writes = write("a", ONE, meta={"n": 1}), write("b", BIG), delete("gone", tag(1, TWO))
        first = self.commit_staged(*writes, bodies=(ONE, BIG))
        self.assertEqual(first.status, 200)
        version_rows = self.version_rows()
        self.server.now_ms += 1000
        again = self.commit(*writes)
        self.assertEqual((again.status, again.json), (200, first.json))
        self.assertEqual(self.version_rows(), version_rows)
        self.assert_counts_agree()

    def test_the_same_bytes_in_many_slots(self) -> None:
        """Bytes are staged once and stored once."""
        answer = self.commit_staged(*(write(f"s{n}", ONE) for n in range(64)), bodies=(ONE,))
        self.assertEqual([save["version"] for save in answer.json["saves"]], [1] * 64)
        self.assertEqual(self.in_state(lambda c: c.execute("SELECT refs FROM blob").fetchall()), [(64,)])
        self.assert_counts_agree()

    def test_bytes_of_a_save(self) -> None:
        """Bytes of any save of the player need not be staged, so a commit can copy or move saves."""
        self.put("auto", BIG, ABSENT)
        answer = self.commit(write("copy", BIG), delete("auto", tag(1, BIG)))
        self.assertEqual(answer.status, 200)
        self.assertEqual(self.get("copy").body, BIG)
        self.assert_counts_agree()

    def test_bytes_of_a_displaced_version(self) -> None:
        """A commit can name the bytes of an old version that its other entries displace from the history."""
        for slot in "cd":
            for data in (slot.encode() * 3, b"22", b"33"):
                self.put(slot, data + slot.encode(), ABSENT if len(data) == 3 else {"If-Match": "*"})
        for slot in "ab":
            self.put(slot, b"second", ABSENT)
        self.server.now_ms += 1000
        self.browser = self.browser_for(SaveLimits(history_bytes=17 + 4 * VERSION_BYTES))
        refused = write("a", b"copy", tag(7, b"")), write("b", b"cccc", tag(7, b""))
        [_, conflict] = self.commit_staged(*refused, bodies=(b"copy",)).json["conflicts"]
        self.assertEqual(self.ask("GET", conflict["yours"]["href"]).body, b"cccc")
        self.assertEqual([len(self.versions(slot)) for slot in "abcd"], [2, 2, 2, 2])
        self.assert_counts_agree()
        writes = write("a", b"following", "*"), write("b", b"copy", "*")
        self.server.now_ms += 1000
        self.assertEqual(self.commit_staged(*writes, bodies=(b"following",)).status, 200)
        self.assertEqual((self.get("a").body, self.get("b").body), (b"following", b"copy"))
        self.assertEqual([version["version"] for version in self.versions("a")], [3, 1])
        self.assert_counts_agree()

    def test_missing_bytes(self) -> None:
        """Missing bytes are listed and nothing is changed; once they are staged, the same commit succeeds."""
        self.put("auto", ONE, ABSENT)
        writes = write("auto", TWO, tag(1, ONE)), write("b", THREE), write("c", THREE), write("d", FOUR)
        self.stage(FOUR)
        before = self.version_rows()
        answer = self.assert_problem(self.commit(*writes), 409, "blob_missing", "Nothing was changed")
        self.assertEqual(answer.json["missing"], sorted([digest(TWO), digest(THREE)]))
        self.assertEqual(self.version_rows(), before)
        self.assertEqual(self.commit_staged(*writes, bodies=(TWO, THREE)).status, 200)

    def test_waiting_client(self) -> None:
        """A waiting client receives all changes in one response."""
        self.put("auto", ONE, ABSENT)
        cursor = self.ask("GET", "/game/").json["cursor"]
        waiting = self.browser.send("GET", f"/game/saves?since={cursor}", {**self.bearer, "Prefer": "wait=25"})
        self.stage(TWO, THREE)
        self.assertEqual(waiting.answers, [])
        answer = self.commit(delete("auto"), write("b", TWO), write("c", THREE))
        self.assertEqual([save["slot"] for save in waiting.answer.json["saves"]], ["auto", "b", "c"])
        self.assertEqual(waiting.answer.json["cursor"], answer.json["cursor"])


class RefusedTest(CommitCase):
    def refuse(self, answer: Answer, code: str, *slots: tuple[str, str]) -> list[dict[str, Any]]:
        """Assert a conflict in these slots with their codes; return the conflicts."""
        self.assert_problem(answer, 412, code, f"{len(slots)} do not fit")
        conflicts: list[dict[str, Any]] = answer.json["conflicts"]
        self.assertEqual([(each["slot"], each["code"]) for each in conflicts], list(slots))
        self.assertNotIn("etag", answer.headers)
        return conflicts

    def test_one_does_not_fit(self) -> None:
        """Apply no entry if one conflicts; keep its bytes as a conflict copy, and the others staged."""
        self.put("a", ONE, ABSENT)
        self.put("a", TWO, {"If-Match": "*"})
        answer = self.commit_staged(write("b", FOUR), write("a", THREE, tag(1, ONE)), bodies=(THREE, FOUR))
        [conflict] = self.refuse(answer, "version_conflict", ("a", "version_conflict"))
        self.assertEqual([conflict[name]["version"] for name in ("base", "current", "yours")], [1, 2, 3])
        self.assertEqual(self.ask("GET", conflict["yours"]["href"]).body, THREE)
        self.assertEqual(
            [(save["slot"], save["version"], save["conflicts"]) for save in self.listed()], [("a", 2, [3])]
        )
        self.assertEqual(self.head_blob(FOUR).status, 200)
        [again] = self.refuse(
            self.commit(write("b", FOUR), write("a", THREE, tag(1, ONE))), "version_conflict", ("a", "version_conflict")
        )
        self.assertEqual(again, conflict)
        self.assertEqual(self.commit(write("b", FOUR), write("a", THREE, tag(2, TWO))).status, 200)
        self.assert_counts_agree()

    def test_every_reason(self) -> None:
        """Each conflict has the code and the sides of its own PUT or DELETE."""
        for slot in ("newer", "weak", "deleted", "late", "removed"):
            self.put(slot, ONE, ABSENT)
        for slot in ("newer", "late"):
            self.put(slot, TWO, {"If-Match": tag(1, ONE)})
        self.put("late", THREE, {"If-Match": tag(2, TWO)})
        self.delete("deleted", {"If-Match": "*"})
        self.delete("removed", {"If-Match": "*"})
        self.stage(TWO, FOUR)
        answer = self.commit(
            write("newer", FOUR, tag(1, ONE)),
            write("weak", FOUR, f"W/{tag(1, ONE)}"),
            write("deleted", FOUR, tag(1, ONE)),
            write("late", TWO, tag(1, ONE)),
            write("never", FOUR, tag(1, ONE)),
            delete("weak2", tag(1, ONE)),
            delete("removed", tag(7, ONE)),
            delete("newer2", tag(1, ONE)),
            write("fits", FOUR),
        )
        newer, weak, deleted, late, never, *deletes = self.refuse(
            answer,
            "version_conflict",
            ("newer", "version_conflict"),
            ("weak", "weak_validator"),
            ("deleted", "deleted"),
            ("late", "superseded"),
            ("never", "version_conflict"),
            ("weak2", "version_conflict"),
            ("removed", "deleted"),
            ("newer2", "version_conflict"),
        )
        self.assertEqual([each["yours"]["version"] for each in (newer, weak, deleted, late)], [3, 2, 3, 2])
        self.assertEqual([never["base"], never["current"], never["yours"]], [None] * 3)
        self.assertEqual([each["yours"] for each in deletes], [None] * 3)
        self.assertEqual(self.get("fits").status, 404)
        self.assert_counts_agree()

    def test_one_common_code(self) -> None:
        """If all conflicts have the same code, the response has it, too."""
        self.put("a", ONE, ABSENT)
        self.delete("a", {"If-Match": "*"})
        self.stage(TWO)
        self.refuse(self.commit(write("a", TWO, tag(1, ONE)), write("b", TWO)), "deleted", ("a", "deleted"))

    def test_delete_of_a_newer_one(self) -> None:
        """A delete that names an older version is refused like its DELETE, with what is current."""
        self.put("a", ONE, ABSENT)
        self.put("a", TWO, {"If-Match": "*"})
        [conflict] = self.refuse(self.commit(delete("a", tag(1, ONE))), "version_conflict", ("a", "version_conflict"))
        self.assertEqual([conflict["base"]["version"], conflict["current"]["version"], conflict["yours"]], [1, 2, None])

    def test_staged_again_by_a_conflict(self) -> None:
        """The bytes of a rejected commit stay staged for another day."""
        self.put("a", ONE, ABSENT)
        self.stage(TWO, THREE)
        self.server.now_ms += 60_000
        self.assert_problem(self.commit(write("a", TWO, tag(7, ONE)), write("b", THREE)), 412, "version_conflict")
        times = self.in_state(lambda c: c.execute("SELECT DISTINCT created_ms FROM blob WHERE size > 3").fetchall())
        self.assertEqual(times, [(self.server.now_ms,)])

    def test_full_history(self) -> None:
        """Refused bytes that do not fit are reported as dropped, also if a later copy replaced them."""
        self.browser = self.browser_for(SaveLimits(history_bytes=5 + VERSION_BYTES))
        for slot in ("a", "b"):
            self.put(slot, ONE, ABSENT)
        answer = self.commit_staged(write("a", FOUR, tag(7, ONE)), write("b", THREE, tag(7, ONE)), bodies=(THREE, FOUR))
        first, last = self.refuse(answer, "version_conflict", ("a", "version_conflict"), ("b", "version_conflict"))
        self.assertEqual((first["yours"], first["yours_dropped"]), (None, "history_bytes"))
        self.assertEqual((last["yours"]["version"], "yours_dropped" in last), (2, False))
        self.assertEqual(self.head_blob(FOUR).status, 200)
        self.assert_counts_agree()

    def test_two_devices(self) -> None:
        """Let one of two concurrent commits to the same slots succeed; keep all bytes of the other."""
        for slot in "abc":
            self.put(slot, slot.encode(), ABSENT)
        bodies = [[f"{device}{slot}".encode() for slot in "abc"] for device in (1, 2)]
        self.stage(*bodies[0], *bodies[1])
        self.stores.state.pause()
        calls = [
            self.browser.send("POST", "/game/commit", {**self.bearer, **JSON}, json.dumps({"writes": writes}).encode())
            for writes in (
                [write(slot, data, tag(1, slot.encode())) for slot, data in zip("abc", device, strict=True)]
                for device in bodies
            )
        ]
        self.stores.state.resume()
        won, lost = [call.answer for call in calls]
        self.assertEqual([save["sha256"] for save in won.json["saves"]], [digest(data) for data in bodies[0]])
        conflicts = self.refuse(lost, "version_conflict", *((slot, "version_conflict") for slot in "abc"))
        self.assertEqual([self.ask("GET", each["yours"]["href"]).body for each in conflicts], bodies[1])
        self.assertEqual([self.get(slot).body for slot in "abc"], bodies[0])
        self.assert_counts_agree()


class QuotaTest(CommitCase):
    limits = SaveLimits(save_bytes=10, bytes=20, slots=2)

    def test_quota_of_the_whole_commit(self) -> None:
        """Deletes of a commit make space for its writes in any order; a commit over the quota changes nothing."""
        self.put("a", b"a" * 10, ABSENT)
        self.put("b", b"b" * 10, ABSENT)
        self.stage(b"c" * 10, b"d")
        for writes in ([write("c", b"c" * 10), delete("a")], [write("a", b"c" * 10), delete("c")]):
            self.assertEqual(self.commit(*writes).status, 200)
        before = self.version_rows()
        answer = self.assert_problem(
            self.commit(write("d", b"d"), write("a", b"d", "*")), 413, "too_many_slots", "delete one"
        )
        self.assertEqual((answer.json["limit"], answer.json["usage"]), (2, 2))
        self.browser = self.browser_for(SaveLimits(save_bytes=10, bytes=20, slots=3))
        self.assert_problem(self.commit(write("d", b"d")), 413, "quota_exceeded", "21 bytes")
        self.assertEqual(self.version_rows(), before)
        self.assertEqual(self.commit(write("d", b"d"), write("a", b"d", "*")).status, 200)
        self.assert_counts_agree()

    def test_lowered(self) -> None:
        """Over quota since the owner lowered it: a commit that makes saves no larger is allowed."""
        self.put("a", b"a" * 10, ABSENT)
        self.put("b", b"b" * 10, ABSENT)
        self.stage(b"c" * 9)
        self.browser = self.browser_for(SaveLimits(save_bytes=9, bytes=9, slots=1))
        self.assertEqual(self.commit(write("a", b"c" * 9, "*"), delete("b")).status, 200)
        self.assert_problem(self.commit(write("a", b"a" * 10, "*")), 413, "save_too_large", "9 bytes at most")


class FormTest(CommitCase):
    """Bodies that are not a commit (docs/protocol.md: Commits)."""

    limits = SaveLimits(commit_writes=3, meta_bytes=20)

    def wrong(self, body: object, *pointers: str) -> None:
        sent = body if isinstance(body, bytes) else json.dumps(body).encode()
        answer = self.assert_problem(self.ask("POST", "/game/commit", JSON, sent), 400, "invalid_request")
        self.assertEqual([error["pointer"] for error in answer.json["errors"]], list(pointers))
        self.assertTrue(all(len(error["detail"]) > 8 for error in answer.json["errors"]))

    def test_bodies(self) -> None:
        """A body with a wrong form is rejected with a pointer to the error."""
        self.wrong(b"{", "")
        self.wrong([], "")
        self.wrong({}, "/writes")
        self.wrong({"writes": {}}, "/writes")
        self.wrong({"writes": []}, "/writes")
        self.wrong({"writes": [write(f"s{n}", ONE) for n in range(4)]}, "/writes")
        self.wrong({"writes": [write("a", ONE), 5]}, "/writes/1")
        self.wrong({"writes": [write("a", ONE, meta=[])]}, "/writes/0/meta")
        self.wrong({"writes": [{"sha256": digest(ONE)}]}, "/writes/0")
        self.wrong(b'{"writes":[],"writes":[]}', "")

    def test_entries(self) -> None:
        """All errors of all entries are reported together."""
        without = {"slot": "a", "sha256": digest(ONE)}
        for entry, *pointers in (
            (without, ""),
            ({**without, "if_match": "*", "if_none_match": "*"}, "/if_none_match"),
            ({**without, "if_match": "1-abc"}, "/if_match"),
            ({**without, "if_match": '"a","b"'}, "/if_match"),
            ({**without, "if_none_match": '"a"'}, "/if_none_match"),
            (write("NUL", ONE), "/slot"),
            (write("a\x00", ONE), "/slot"),
            (write("a\n", ONE), "/slot"),
            (write("\x7f", ONE), "/slot"),
            (delete("auto\x85"), "/slot"),
            ({"slot": "a", "if_match": "*"}, "/sha256"),
            ({**write("a", ONE), "sha256": "abc"}, "/sha256"),
            (write("a", ONE, content_type="nonsense"), "/content_type"),
            (write("a", ONE, meta={"title": "x" * 20}), "/meta"),
            (write("a", ONE, meta={"n": 2**64}), "/meta"),
            ({**delete("a"), "sha256": digest(ONE), "meta": {}}, "/sha256", "/meta"),
            ({"slot": "a", "delete": True, "if_none_match": "*"}, "/if_none_match"),
            ({"slot": "a", "delete": True}, ""),
            (
                {"slot": "Ä", "sha256": "x", "content_type": "", "meta": {"n": "é" * 20}},
                "/slot",
                "",
                "/sha256",
                "/content_type",
                "/meta",
            ),
        ):
            self.wrong({"writes": [write("fine", ONE), entry]}, *(f"/writes/1{pointer}" for pointer in pointers))

    def test_a_slot_twice(self) -> None:
        """A commit with two entries for a slot is rejected, because their order would matter."""
        self.wrong({"writes": [write("a", ONE), write("b", ONE), delete("a")]}, "/writes/2/slot")

    def test_unknown_members(self) -> None:
        """Unknown members are ignored; null is the same as absent."""
        self.stage(ONE)
        entry = {**write("a", ONE), "if_match": None, "meta": None, "note": "x", "delete": False}
        self.assertEqual(self.commit(entry, hint=1).status, 200)

    def test_bodies_of_another_kind(self) -> None:
        """Type, size and coding are checked from the head, after the token."""
        self.assert_problem(self.ask("POST", "/game/commit", {}, b"{}"), 415, "unsupported_media_type")
        self.assert_problem(self.ask("POST", "/game/commit", JSON, b" " * (COMMIT_BYTES + 1)), 413, "body_too_large")
        self.wrong(b" " * COMMIT_BYTES, "")
        self.free = 0
        self.assert_problem(self.ask("POST", "/game/commit", JSON, b"{}"), 507, "storage_full")
        self.bearer = {"Authorization": "Basic nobody:nothing"}
        self.assert_problem(self.ask("POST", "/game/commit", {}, b"x"), 401, "token_missing")

    def test_other_methods(self) -> None:
        """A commit is posted."""
        for method in ("GET", "PUT", "DELETE"):
            self.assert_problem(self.ask(method, "/game/commit"), 405, "method_not_allowed")
        self.assertEqual(self.ask("OPTIONS", "/game/commit").headers["allow"], "OPTIONS, POST")
