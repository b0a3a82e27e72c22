"""`DELETE /game/` erases all saves of a player (docs/protocol.md: Saves)."""

from typing import Any

from gamed.config.game import SaveLimits
from gamed.saves import erase_store
from tests.saves.helpers import ABSENT, BIG, PRESENT, tag
from tests.saves.test_uploads import TornCase
from tests.sessions.fixtures import ANNA, BERT
from tests.support.http import Answer, Connection

PATH = "/game/"


class EraseCase(TornCase):
    def setUp(self) -> None:
        super().setUp()
        self.put("auto", b"one")
        self.put("auto", b"two", PRESENT)
        self.put("big", BIG)
        self.put("old", b"gone")
        self.delete("old", PRESENT)

    def etag(self) -> dict[str, str]:
        """Return the condition of a client that has just read the cursor."""
        return {"If-Match": self.ask("GET", PATH).headers["etag"]}

    def erase(self, headers: dict[str, str] | None = None) -> Answer:
        return self.ask("DELETE", PATH, headers)

    def assert_gone(self) -> None:
        self.assertEqual((self.version_rows(), self.blobs(), self.ask("GET", "/game/saves").json["saves"]), ([], 0, []))
        self.assertEqual(self.ask("GET", PATH).json["usage"], {"slots": 0, "bytes": 0, "history_bytes": 0})
        self.assert_problem(self.get("auto"), 404, "save_not_found")
        self.assert_counts_agree()


class EraseTest(EraseCase):
    def test_all_saves(self) -> None:
        """Saves, history, conflict copies and their bytes; a new epoch, and everything can begin anew."""
        self.put("auto", b"refused", ABSENT)
        before = self.ask("GET", PATH).json
        answer = self.erase(self.etag())
        self.assertEqual((answer.status, answer.body), (204, b""))
        self.assert_gone()
        self.assertNotEqual(self.ask("GET", PATH).json["epoch"], before["epoch"])
        listing = self.ask("GET", f"/game/saves?since={before['cursor']}").json
        self.assertEqual((listing["saves"], listing["reset"]), ([], True))
        self.assertEqual(self.put("auto", b"anew").json["version"], 1)
        self.assert_counts_agree()

    def test_only_as_seen(self) -> None:
        """Only a client that knows the current cursor may erase; otherwise nothing is changed."""
        old = self.etag()
        self.put("auto", b"three", PRESENT)
        version_rows = self.version_rows()
        self.assert_problem(self.erase(), 428, "precondition_required", "all your saves", "GET /game/")
        self.assert_problem(self.erase(old), 412, "version_conflict", "GET /game/ again")
        self.assert_problem(self.erase({"If-Match": f"W/{self.etag()['If-Match']}"}), 412, "weak_validator")
        self.assertEqual(self.erase(old).json["cursor"], self.ask("GET", PATH).json["cursor"])
        for wrong in ({"If-Match": "abc"}, {"If-None-Match": "*"}, {"If-Match": '"a", "b"'}):
            self.assert_problem(self.erase(wrong), 400, "bad_precondition")
        self.assert_problem(self.browser.request("DELETE", PATH, PRESENT), 401, "token_missing")
        self.assertEqual(self.version_rows(), version_rows)
        self.assertEqual(self.erase(PRESENT).status, 204)

    def test_repeated(self) -> None:
        """A repeated erase succeeds, until the player saves again."""
        seen = self.etag()
        for _ in range(3):
            self.assertEqual(self.erase(seen).status, 204)
        epoch = self.ask("GET", PATH).json["epoch"]
        self.assertEqual(self.erase(seen).status, 204)
        self.assertEqual(self.ask("GET", PATH).json["epoch"], epoch)
        self.assert_problem(self.erase({"If-Match": f"W/{seen['If-Match']}"}), 412, "weak_validator")
        self.put("auto", b"anew")
        self.assert_problem(self.erase(seen), 412, "version_conflict")
        self.delete("auto", PRESENT)
        self.assert_problem(self.erase(seen), 412, "version_conflict")
        self.assertEqual(len(self.version_rows()), 2)

    def test_completes_an_interrupted_erase(self) -> None:
        """A repeated erase completes one that was interrupted by the end of the server."""
        seen = self.etag()
        self.in_state(lambda connection: erase_store.begin_erase(connection, ANNA, "half", self.server.now_ms))
        self.assert_problem(self.put("auto", b"two", PRESENT), 410, "erased")
        self.assertEqual(self.erase(seen).status, 204)
        self.assert_gone()
        self.assertEqual(self.put("auto", b"anew").status, 201)

    def test_without_saves(self) -> None:
        """An erase without saves succeeds."""
        self.bearer = self.sign_in(BERT)
        self.assertEqual(self.erase(self.etag()).status, 204)
        self.assertEqual(self.put("auto", b"first").status, 201)

    def test_others_stay(self) -> None:
        """Another player's saves stay."""
        anna, self.bearer = self.bearer, self.sign_in(BERT)
        self.put("auto", b"Bert's")
        bert, self.bearer = self.bearer, anna
        self.assertEqual(self.erase(PRESENT).status, 204)
        self.bearer = bert
        self.assertEqual(self.get("auto").body, b"Bert's")

    def test_counts_as_a_change(self) -> None:
        """An erase counts towards the write rate."""
        self.writes_per_minute = 2
        self.browser = self.browser_for(SaveLimits())
        self.put("auto", b"x", {"If-Match": tag(2, b"two")})
        self.assert_problem(self.erase(PRESENT), 429, "rate_limited")

    def test_full_disk(self) -> None:
        """An erase works on a full disk."""
        self.free = 0
        self.assertEqual(self.erase(PRESENT).status, 204)


class MeanwhileTest(EraseCase):
    """Requests that are under way during an erase."""

    def test_uploads(self) -> None:
        """An upload that began before the erase stores nothing; one that began after it does."""
        for size in (1000, len(BIG)):
            uploads = [self.begin(size).send(b"x" * (size // 2)), self.begin(size)]
            self.server.now_ms += 1
            self.assertEqual(self.erase(PRESENT).status, 204)
            for upload, rest in zip(uploads, (size - size // 2, size), strict=True):
                self.assert_problem(upload.send(b"x" * rest).answer, 410, "erased", "Read the list")
            self.assert_gone()
            self.assertEqual(self.spools(), 0)
        self.assertEqual(self.put("auto", BIG).status, 201)

    def test_large_upload_between_its_steps(self) -> None:
        """Appended bytes that no version uses yet are deleted, too."""
        queue = self.stores.state
        queue.pause()
        upload = self.browser.send("PUT", "/game/saves/new", {**self.bearer, **ABSENT}, BIG + b"!")
        erase = self.browser.send("DELETE", PATH, {**self.bearer, **PRESENT})
        queue.resume()
        self.assertEqual(erase.answer.status, 204)
        self.assert_problem(upload.answer, 410, "erased")
        self.assert_gone()

    def test_waiters(self) -> None:
        """A waiting client is answered with `reset`."""
        cursor = self.ask("GET", "/game/saves").json["cursor"]
        waiting = self.ask_waiting(cursor)
        self.assertEqual(waiting.answers, [])
        self.assertEqual(self.erase(PRESENT).status, 204)
        self.assertEqual((waiting.answer.json["saves"], waiting.answer.json["reset"]), ([], True))

    def test_waiters_need_not_wait_for_the_bytes(self) -> None:
        """Waiting clients are answered when the erase begins, before all rows are deleted."""
        waiting = self.ask_waiting(self.ask("GET", "/game/saves").json["cursor"])
        self.stores.blobs.queue.pause()
        erase = self.browser.send("DELETE", PATH, {**self.bearer, **PRESENT})
        self.assertEqual((erase.answers, waiting.answer.json["saves"]), ([], []))
        self.stores.blobs.queue.resume()
        self.assertEqual(erase.answer.status, 204)

    def ask_waiting(self, cursor: str) -> Connection:
        headers = {**self.bearer, "Prefer": "wait=25"}
        return self.browser.send("GET", f"/game/saves?since={cursor}", headers)

    def test_export_that_is_being_made(self) -> None:
        """An export during an erase ends with `erased` and leaves no file."""
        self.stores.blobs.queue.pause()
        export = self.browser.send("GET", "/game/export", self.bearer)
        erase = self.browser.send("DELETE", PATH, {**self.bearer, **PRESENT})
        self.stores.blobs.queue.resume()
        self.assertEqual(erase.answer.status, 204)
        self.assert_problem(export.answer, 410, "erased")
        self.assert_gone()
        self.assertEqual((self.spools(), self.reservations.bytes), (0, 0))

    def test_export_then_save_anew(self) -> None:
        """An export never holds what was saved after an erase that it did not see."""
        self.stores.blobs.queue.pause()
        export = self.browser.send("GET", "/game/export", self.bearer)
        erase = self.browser.send("DELETE", PATH, {**self.bearer, **PRESENT})
        self.in_state(lambda connection: finished(connection, self.server.now_ms))
        self.put("auto", b"anew")
        self.stores.blobs.queue.resume()
        self.assertEqual((erase.answer.status, export.answer.status), (204, 410))
        self.assertEqual(self.get("auto").body, b"anew")

    def test_disconnect(self) -> None:
        """The erase is completed though its client disconnects."""
        self.stores.state.pause()
        call = self.browser.send("DELETE", PATH, {**self.bearer, **PRESENT})
        call.leave()
        waiting = self.tasks.drain()
        self.stores.state.resume()
        self.successResultOf(waiting)
        self.assert_gone()


def finished(connection: Any, now_ms: int) -> None:
    while erase_store.erase_step(connection, ANNA, "last", lambda: now_ms):
        pass
