"""PUT and DELETE of /game/saves/{slot}: every rule and every code (docs/protocol.md: Conditions and ranges)."""

from hashlib import sha256

from gamed.config.game import SaveLimits
from gamed.database.connection import Connection
from gamed.players import tables as player_tables
from gamed.saves import tables as save_tables
from gamed.saves.blob_tables import ROW_BYTES
from gamed.saves.limits import INLINE_BYTES, VERSION_BYTES
from tests.saves.helpers import ABSENT, BIG, SaveCase, digest_of, tag
from tests.sessions.fixtures import ANNA, BERT, DAY_MS, NOW_MS
from tests.support.covers import covers
from tests.support.stores import contents, sqlite_files

ONE, TWO, THREE = b"one", b"twotwo", b"threethree"


class WriteTest(SaveCase):
    """Successful writes and their responses."""

    def test_first(self) -> None:
        """W2: without a condition a slot that never existed is made; the answer is the SaveInfo and its etag."""
        answer = self.put("auto", ONE, {"Content-Type": "text/plain", "Save-Meta": '{"title":"Chapter 3"}'})
        self.assertEqual(answer.status, 201)
        self.assertEqual(
            answer.json,
            {
                "slot": "auto",
                "version": 1,
                "etag": tag(1, ONE),
                "size": 3,
                "sha256": sha256(ONE).hexdigest(),
                "content_type": "text/plain",
                "modified": "2027-01-15T08:00:00.000Z",
                "meta": {"title": "Chapter 3"},
                "device": None,
            },
        )
        self.assertEqual(answer.headers["etag"], tag(1, ONE))
        self.assertEqual(answer.headers["save-version"], tag(1, ONE).strip('"'))
        self.assertEqual(answer.headers["content-type"], "application/json")
        self.assertEqual(answer.headers["gamed-protocol"], "1.0")
        self.assertEqual(answer.headers["cache-control"], "private, no-cache, no-transform")
        self.assertEqual(answer.headers["vary"], "Authorization")

    def test_bytes_come_back(self) -> None:
        """Small bodies, and larger ones by way of files, are read back as they were sent."""
        for slot, data in (("small", ONE), ("big", BIG)):
            self.assertEqual(self.put(slot, data, ABSENT).status, 201)
            self.assertEqual(self.get(slot).body, data)
        self.assert_counts_agree()

    def test_where_the_bytes_are(self) -> None:
        """Few bytes lie in their blob's own row and more in parts, whichever way they came; both are read back."""
        sizes = 1, ROW_BYTES, ROW_BYTES + 1, INLINE_BYTES, INLINE_BYTES + 1
        for size in sizes:
            data = bytes(size - 1) + b"x"
            self.assertEqual(self.put(f"of-{size}", data, ABSENT).status, 201)
            for headers in ({}, {"If-None-Match": '"another"'}, {"Range": "bytes=0-"}):
                self.assertEqual(self.ask("GET", f"/game/saves/of-{size}", headers).body, data)
        query = (
            "SELECT size, data IS NOT NULL, (SELECT count(*) FROM blob_part p WHERE p.blob_id = b.blob_id) FROM blob b"
        )
        found = self.in_state(lambda connection: connection.execute(f"{query} ORDER BY size").fetchall())
        self.assertEqual(found, list(zip(sizes, (1, 1, 0, 0, 0), (0, 0, 1, 1, 2), strict=True)))
        self.assert_counts_agree()

    def test_chunked(self) -> None:
        """A body without a length is taken in chunks."""
        chunked = b"3\r\none\r\n0\r\n\r\n"
        answer = self.put("auto", chunked, {"Transfer-Encoding": "chunked"})
        self.assertEqual((answer.status, self.get("auto").body), (201, ONE))

    def test_replace(self) -> None:
        """W4: the version that was read is replaced; the one before stays in history."""
        first = self.put("auto", ONE, ABSENT)
        second = self.put("auto", TWO, {"If-Match": first.headers["etag"]})
        self.assertEqual((second.status, second.json["version"]), (200, 2))
        third = self.put("auto", THREE, {"If-Match": "*"})
        self.assertEqual((third.status, third.json["version"]), (200, 3))
        self.assertEqual(self.get("auto").body, THREE)
        parents = [(version["version"], version["kind"], version["parent"]) for version in self.versions("auto")]
        self.assertEqual(parents, [(3, "write", 2), (2, "write", 1), (1, "write", None)])
        self.assert_counts_agree()

    def test_unconditional(self) -> None:
        """W3: a request without a condition cannot replace or bring back a save."""
        self.put("auto", ONE)
        self.assert_problem(self.put("auto", TWO), 428, "precondition_required", "If-Match", tag(1, ONE))
        self.delete("auto", {"If-Match": "*"})
        self.assert_problem(self.put("auto", TWO), 428, "precondition_required", "If-None-Match: *")
        self.assertEqual([row[3] for row in self.version_rows()], ["write", "delete"])

    def test_already_there(self) -> None:
        """W1: the same bytes and type are there already, whatever the condition says; nothing is stored."""
        self.put("auto", ONE)
        before = self.in_state(contents)
        for headers in ({}, ABSENT, {"If-Match": '"7-0123456789abcdef"'}, {"If-Match": "*"}, {"If-Match": 'W/"x"'}):
            answer = self.put("auto", ONE, headers)
            self.assertEqual((answer.status, answer.json["etag"]), (200, tag(1, ONE)), headers)
        self.assertEqual(self.in_state(contents), before)

    def test_other_meta(self) -> None:
        """W1: another Save-Meta makes a version that shares the bytes, where the condition holds."""
        self.put("auto", ONE)
        version_rows = self.put("auto", ONE, {"Save-Meta": '{"a":1}', "If-Match": '"7-0123456789abcdef"'})
        self.assertEqual((version_rows.status, version_rows.json["version"], version_rows.json["meta"]), (200, 1, None))
        changed = self.put("auto", ONE, {"Save-Meta": '{"a":1}', "If-Match": tag(1, ONE)})
        self.assertEqual((changed.status, changed.json["version"], changed.json["meta"]), (200, 2, {"a": 1}))
        blobs = self.in_state(lambda connection: connection.execute("SELECT refs FROM blob").fetchall())
        self.assertEqual(blobs, [(2,)])
        self.assert_counts_agree()

    def test_lost_answer(self) -> None:
        """A request repeated after its answer got lost is success again, also when it made or deleted the slot."""
        for _ in range(3):
            self.assertIn(self.put("auto", ONE, ABSENT).status, (200, 201))
        for _ in range(3):
            self.assertEqual(self.put("auto", TWO, {"If-Match": tag(1, ONE)}).status, 200)
        for _ in range(3):
            self.assertEqual(self.delete("auto", {"If-Match": tag(2, TWO)}).status, 204)
        self.assertEqual(len(self.version_rows()), 3)

    def test_same_bytes_are_stored_once(self) -> None:
        """Slots with the same large bytes share them; another player's are apart."""
        for slot in ("a", "b"):
            self.put(slot, BIG)
        self.bearer = self.sign_in(BERT)
        self.put("a", BIG)
        rows = self.in_state(lambda connection: connection.execute("SELECT player_id, refs FROM blob").fetchall())
        self.assertEqual(sorted(rows), [(ANNA, 2), (BERT, 1)])
        self.assert_counts_agree()

    def test_small_bytes_are_stored_once_in_a_slot(self) -> None:
        """Versions of one slot with the same small bytes share them, also a conflict copy; each slot has its own."""
        for slot in ("a", "b"):
            self.put(slot, ONE, ABSENT)
        self.put("a", TWO, {"If-Match": tag(1, ONE)})
        self.put("a", ONE, {"If-Match": tag(2, TWO)})
        self.assertEqual(self.put("a", TWO, {"If-Match": tag(1, TWO)}).status, 412)
        rows = self.in_state(lambda c: c.execute("SELECT sha256, refs FROM blob ORDER BY blob_id").fetchall())
        self.assertEqual(rows, [(sha256(ONE).digest(), 2), (sha256(ONE).digest(), 1), (sha256(TWO).digest(), 2)])
        self.assert_counts_agree()

    @sqlite_files("the steps of its virtual machine")
    def test_long_history(self) -> None:
        """A write after 200 versions costs the database at most a tenth more than one after 20."""
        short, long = self.steps_after(20), self.steps_after(200)
        self.assertGreater(short, 100)
        self.assertLess(long, 1.1 * short)

    def steps_after(self, count: int) -> int:
        """Write until the slot has this many versions; return how many instructions of SQLite one more takes."""
        for number in range(len(self.version_rows()), count):
            self.put("auto", str(number).encode(), {"If-Match": "*"} if number else ABSENT)
        steps = 0

        def step() -> int:
            nonlocal steps
            steps += 1
            return 0

        self.in_state(lambda connection: connection.set_progress_handler(step, 1))
        self.put("auto", b"the last of %d" % count, {"If-Match": "*"})
        self.in_state(lambda connection: connection.set_progress_handler(None, 0))
        return steps

    @covers("threats/45")
    def test_players_are_apart(self) -> None:
        """A slot of another player is not there."""
        self.put("auto", ONE)
        self.bearer = self.sign_in(BERT)
        self.assert_problem(self.get("auto"), 404, "save_not_found")
        self.assertEqual(self.put("auto", TWO, ABSENT).status, 201)


@covers("threats/46")
class ConflictTest(SaveCase):
    """A 412 keeps the refused bytes and shows the sides."""

    def setUp(self) -> None:
        super().setUp()
        self.put("auto", ONE, ABSENT)
        self.put("auto", TWO, {"If-Match": tag(1, ONE)})

    def test_conflict(self) -> None:
        """W6: the bytes are kept as a copy beside the current version; all three sides are shown."""
        answer = self.put("auto", THREE, {"If-Match": tag(1, ONE)})
        self.assert_problem(answer, 412, "version_conflict", "version 3")
        self.assertNotIn("etag", answer.headers)
        problem = answer.json
        self.assertEqual(problem["slot"], "auto")
        self.assertEqual([problem[side]["version"] for side in ("base", "current", "yours")], [1, 2, 3])
        self.assertEqual(problem["yours"]["etag"], tag(3, THREE))
        self.assertEqual(problem["yours"]["href"], "/game/saves/auto/versions/3")
        self.assertNotIn("yours_dropped", problem)
        self.assertEqual(self.get("auto").body, TWO)
        kinds = [(version["kind"], version["parent"]) for version in self.versions("auto")]
        self.assertEqual(kinds, [("conflict", 1), ("write", 1), ("write", None)])
        self.assert_counts_agree()

    def test_conflict_repeated(self) -> None:
        """W6 repeated keeps one copy per base and bytes."""
        for _ in range(2):
            self.assertEqual(self.put("auto", THREE, {"If-Match": tag(1, ONE)}).json["yours"]["version"], 3)
        self.assertEqual(self.put("auto", THREE, ABSENT).json["yours"]["version"], 4)
        self.assertEqual(len(self.version_rows()), 4)
        self.assert_counts_agree()

    def test_large_conflict(self) -> None:
        """W6 for a body that came by way of a file."""
        answer = self.put("auto", BIG, {"If-Match": tag(1, ONE)})
        self.assertEqual(self.assert_problem(answer, 412, "version_conflict").json["yours"]["size"], len(BIG))
        self.assert_counts_agree()

    def test_newest_five_copies(self) -> None:
        """W6: of the copies of one slot the newest five stay."""
        for n in range(7):
            self.put("auto", b"copy %d" % n, ABSENT)
        copies = [version["version"] for version in self.versions("auto") if version["kind"] == "conflict"]
        self.assertEqual(copies, [9, 8, 7, 6, 5])
        self.assertEqual(self.ask("GET", "/game/saves").json["saves"][0]["conflicts"], [5, 6, 7, 8, 9])
        self.assert_counts_agree()

    def test_superseded(self) -> None:
        """W5: bytes that were stored in time and replaced since are not stored again."""
        answer = self.put("auto", ONE, ABSENT)
        self.assert_problem(answer, 412, "superseded", "current version")
        self.assertEqual((answer.json["yours"]["version"], answer.json["current"]["version"]), (1, 2))
        self.assertEqual(len(self.version_rows()), 2)

    def test_deleted_since(self) -> None:
        """W6 on a tombstone: the bytes are kept, and nothing is current."""
        self.delete("auto", {"If-Match": "*"})
        answer = self.put("auto", THREE, {"If-Match": tag(2, TWO)})
        self.assert_problem(answer, 412, "deleted", "If-None-Match: *")
        self.assertEqual((answer.json["base"]["version"], answer.json["current"]), (2, None))
        self.assertEqual(answer.json["yours"]["version"], 4)
        self.assertEqual(
            self.assert_problem(self.put("auto", b"x", {"If-Match": "*"}), 412, "deleted").json["base"], None
        )
        self.assert_counts_agree()

    def test_never_seen(self) -> None:
        """W7: a version of a slot that was never here; nothing is stored, all sides are null."""
        for headers in ({"If-Match": tag(1, ONE)}, {"If-Match": "*"}):
            answer = self.put("other", THREE, headers)
            self.assert_problem(answer, 412, "version_conflict", "If-None-Match: *")
            self.assertEqual([answer.json[side] for side in ("base", "current", "yours")], [None] * 3)
        self.assertEqual(len(self.version_rows()), 2)
        self.assert_problem(self.get("other"), 404, "save_not_found")

    def test_weak(self) -> None:
        """A weak tag never matches, and the answer says why; the bytes are kept."""
        answer = self.put("auto", THREE, {"If-Match": f"W/{tag(2, TWO)}"})
        self.assert_problem(answer, 412, "weak_validator", "without W/")
        self.assertEqual(answer.json["yours"]["version"], 3)
        self.assert_problem(
            self.put("other", THREE, {"If-Match": 'W/"1-x"'}), 412, "weak_validator", "Nothing was stored"
        )

    def test_unknown_base(self) -> None:
        """A tag with a right number and wrong bytes is no version of ours."""
        answer = self.put("auto", THREE, {"If-Match": '"1-0123456789abcdef"'})
        self.assertIsNone(self.assert_problem(answer, 412, "version_conflict").json["base"])
        self.assertEqual(self.versions("auto")[0]["parent"], None)

    def test_full_history(self) -> None:
        """Refused bytes that do not fit into the history are reported as dropped."""
        self.browser = self.browser_for(SaveLimits(history_bytes=len(ONE) + 2 + VERSION_BYTES))
        for data in (THREE, BIG):
            answer = self.put("auto", data, {"If-Match": tag(1, ONE)})
            self.assert_problem(answer, 412, "version_conflict", "no room")
            self.assertEqual((answer.json["yours"], answer.json["yours_dropped"]), (None, "history_bytes"))
        self.assertEqual(len(self.version_rows()), 2)
        blobs = self.in_state(lambda connection: connection.execute("SELECT count(*) FROM blob").fetchall())
        self.assertEqual(blobs, [(2,)])


class DeleteTest(SaveCase):
    """A DELETE needs the current tag and can be undone."""

    def test_delete(self) -> None:
        """The slot is empty, its history is kept, its versions go on counting."""
        self.put("auto", ONE)
        answer = self.delete("auto", {"If-Match": tag(1, ONE)})
        self.assertEqual((answer.status, answer.body), (204, b""))
        gone = self.assert_problem(self.get("auto"), 410, "deleted", "/game/saves/auto/versions")
        self.assertEqual((gone.json["last"]["version"], gone.json["last"]["etag"]), (1, tag(1, ONE)))
        [tombstone, first] = self.versions("auto")
        self.assertEqual((tombstone["kind"], tombstone["parent"], tombstone["etag"]), ("delete", 1, None))
        self.assertEqual((first["version"], first["sha256"]), (1, sha256(ONE).hexdigest()))
        again = self.put("auto", ONE, ABSENT)
        self.assertEqual((again.status, again.json["version"]), (201, 3))
        self.assert_counts_agree()

    def test_refusals(self) -> None:
        """A DELETE of an unused slot, of another version, without condition, or with a weak tag is rejected."""
        self.assert_problem(self.delete("auto", {"If-Match": "*"}), 404, "save_not_found")
        self.assert_problem(self.delete("auto"), 404, "save_not_found")
        self.put("auto", ONE)
        self.assert_problem(self.delete("auto"), 428, "precondition_required", "If-Match")
        conflict = self.assert_problem(self.delete("auto", {"If-Match": tag(7, TWO)}), 412, "version_conflict", "etag")
        self.assertEqual((conflict.json["current"]["version"], conflict.json["yours"]), (1, None))
        self.assertNotIn("etag", conflict.headers)
        self.assert_problem(self.delete("auto", {"If-Match": f"W/{tag(1, ONE)}"}), 412, "weak_validator")
        self.assertEqual(self.delete("auto", {"If-Match": "*"}).status, 204)
        self.assert_problem(self.delete("auto", {"If-Match": tag(7, TWO)}), 410, "deleted")
        self.assert_problem(self.delete("auto"), 410, "deleted")
        self.assert_problem(self.delete("auto", ABSENT), 400, "bad_precondition", "If-Match")
        self.assert_counts_agree()


class SyntaxTest(SaveCase):
    """Malformed requests are rejected and store nothing."""

    limits = SaveLimits(save_bytes=1000, slots=2, bytes=1500)

    def setUp(self) -> None:
        super().setUp()
        self.addCleanup(self.assert_nothing_stored)

    def assert_nothing_stored(self) -> None:
        self.assertEqual([row for row in self.version_rows() if row[1] == "auto"], [])

    def test_heads(self) -> None:
        """Each malformed field has its code and says what to send instead."""
        for headers, code, words in (
            ({"If-Match": "9-9f86d081884c7d65"}, "bad_precondition", "double quotes"),
            ({"If-Match": "*", "If-None-Match": "*"}, "bad_precondition", "not both"),
            ({"If-None-Match": '"1-x"'}, "bad_precondition", "If-None-Match: *"),
            ({"If-Match": '"1-x", "2-y"'}, "bad_precondition", "one entity-tag"),
            ({"Save-Meta": "[1]"}, "bad_meta", "JSON object"),
            ({"Save-Meta": '{"a":"é"}'}, "bad_meta", "\\uXXXX"),
            ({"Save-Meta": '{"a":"' + "x" * 2048 + '"}'}, "bad_meta", "at most 2048"),
            ({"Content-Range": "bytes 0-2/3"}, "bad_range_put", "without Content-Range"),
            ({"Content-Digest": "sha-256=abc"}, "digest_mismatch", "sha-256=:"),
            ({"Content-Digest": digest_of(TWO)}, "digest_mismatch", "Send it again"),
            ({"Content-Type": "nonsense"}, "bad_request", "media type"),
        ):
            self.assert_problem(self.put("auto", ONE, headers), 400, code, words)

    @covers("threats/41")
    def test_slots(self) -> None:
        """An invalid name is rejected on every route, before the token is checked."""
        self.bearer = {}
        controls = ("%00", "a%00", "%0A", "a%0Ab", "auto%0a", "a%0D%0Ab", "%1b", "%7F", "%C2%80", "%C2%9f")
        for slot in ("Auto", "a" * 65, ".a", "a.", "nul", "com1.sav", "a%20b", "%C3%A4", *controls):
            for method, path in (
                ("GET", slot),
                ("PUT", slot),
                ("DELETE", slot),
                ("GET", f"{slot}/versions"),
                ("GET", f"{slot}/versions/1"),
                ("DELETE", f"{slot}/versions/1"),
                ("POST", f"{slot}/versions/1/restore"),
            ):
                answer = self.ask(method, f"/game/saves/{path}")
                self.assertEqual((answer.status, answer.json["code"]), (400, "invalid_slot"), (method, path))
            self.assertEqual(self.ask("HEAD", f"/game/saves/{slot}").status, 400)
            self.assertEqual(self.ask("POST", f"/game/saves/{slot}").code, "method_not_allowed")
        self.assertNotIn("%", str(self.browser.log.lines))

    def test_control_characters_elsewhere(self) -> None:
        """Escaped control characters anywhere but in a slot's name, and an escaped slash in it, are no route's."""
        for path in (
            "saves/a%2Fb",
            "saves/auto/versions/1%00",
            "saves/%00/versions/%00",
            "saves%00",
            "saves/a/versions%0a",
        ):
            self.assert_problem(self.ask("GET", f"/game/{path}"), 404, "route_not_found")

    def test_sizes(self) -> None:
        """Too large by its declared length, too large in chunks, without any length."""
        for headers, body in (({}, b"x" * 1001), ({"Transfer-Encoding": "chunked"}, b"3e9\r\n" + b"x" * 1001)):
            answer = self.put("auto", body, headers)
            self.assert_problem(answer, 413, "save_too_large", "1000")
            self.assertEqual(answer.json["limit"], 1000)
            self.assertGreater(answer.json["usage"], 1000)
        bare = self.browser.connect().send(
            f"PUT /game/saves/auto HTTP/1.1\r\nHost: game.example\r\nAuthorization: "
            f"{self.bearer['Authorization']}\r\n\r\n".encode()
        )
        self.assert_problem(bare.answer, 411, "length_required", "Content-Length")

    def test_coding(self) -> None:
        """A body with a content coding is rejected."""
        for coding in ("gzip", "identity"):
            answer = self.put("auto", ONE, {"Content-Encoding": coding})
            self.assert_problem(answer, 415, "content_encoding", "without Content-Encoding")

    def test_blank(self) -> None:
        """An empty or all-zero body is rejected."""
        for data, word in ((b"", "empty"), (bytes(999), "zero")):
            self.assert_problem(self.put("auto", data, ABSENT), 422, "blank_save", word, "DELETE")
        self.browser = self.browser_for(SaveLimits(allow_blank_saves=True))
        self.assertEqual(self.put("empty", b"").status, 201)
        self.assertEqual(self.get("empty").body, b"")
        self.assert_problem(self.get("empty", {"Range": "bytes=0-"}), 416, "range_not_satisfiable")

    def test_quota(self) -> None:
        """All saves together, and their number, are limited; a save may always shrink."""
        self.put("a", b"x" * 1000)
        answer = self.assert_problem(self.put("auto", b"x" * 501, ABSENT), 413, "quota_exceeded", "delete one first")
        self.assertEqual((answer.json["limit"], answer.json["usage"]), (1500, 1000))
        self.put("b", b"x")
        answer = self.assert_problem(self.put("auto", ONE, ABSENT), 413, "too_many_slots", "delete one first")
        self.assertEqual((answer.json["limit"], answer.json["usage"]), (2, 2))
        self.browser = self.browser_for(SaveLimits(bytes=10, slots=1))
        self.assertEqual(self.put("a", b"y" * 999, {"If-Match": "*"}).status, 200)
        self.assert_problem(self.put("a", b"y" * 1000, {"If-Match": "*"}), 413, "quota_exceeded")
        self.assert_counts_agree()

    def test_disk(self) -> None:
        """While the disk is nearly full nothing is written, and reading goes on."""
        self.put("a", ONE)
        self.free = self.limits.min_free_bytes + 2
        answer = self.assert_problem(self.put("auto", ONE), 507, "storage_full", "owner")
        self.assertEqual(answer.headers["retry-after"], "300")
        self.assertEqual(self.get("a").body, ONE)
        self.assertEqual(self.put("a", b"x", {"If-Match": "*"}).status, 200)

    def test_methods(self) -> None:
        """Other methods, and routes that are not there."""
        for path, allowed in (
            ("/game/", "DELETE, GET, HEAD"),
            ("/game/export", "GET, HEAD"),
            ("/game/saves", "GET, HEAD"),
            ("/game/saves/auto", "DELETE, GET, HEAD, PUT"),
            ("/game/saves/auto/versions", "GET, HEAD"),
        ):
            for method in ("POST", "PATCH", "TRACE", "put"):
                answer = self.ask(method, path)
                self.assert_problem(answer, 405, "method_not_allowed")
                self.assertEqual(answer.headers["allow"].replace(", OPTIONS", ""), allowed)
        for path in ("/game", "/game/saves/", "/game/saves/auto/", "/game//saves", "/game/saves/a/b", "/game/x"):
            self.assert_problem(self.ask("GET", path), 404, "route_not_found")


class OrderTest(SaveCase):
    """The order of checks of the protocol (docs/protocol.md: Saves); a rejection comes before the body is read."""

    limits = SaveLimits(save_bytes=10)

    def test_first_failure_wins(self) -> None:
        """Every step refused beside all later ones."""
        late = {"Content-Encoding": "gzip", "Content-Digest": digest_of(TWO), **ABSENT}
        self.put("auto", ONE)
        self.free = 0
        big = b"\0" * 11
        self.assert_problem(self.put("NUL", big, late), 400, "invalid_slot")
        good, self.bearer = self.bearer, {"Authorization": "Bearer gat_nonsense"}
        self.assert_problem(self.put("auto", big, late), 401, "token_invalid")
        self.bearer = good
        self.assert_problem(self.put("auto", big, late), 413, "save_too_large")
        self.assert_problem(self.put("auto", b"\0", late), 415, "content_encoding")
        del late["Content-Encoding"]
        self.assert_problem(self.put("auto", b"\0", late), 507, "storage_full")
        self.free = 2**40
        self.assert_problem(self.put("auto", b"\0", late), 400, "digest_mismatch")
        del late["Content-Digest"]
        self.assert_problem(self.put("auto", b"\0", late), 422, "blank_save")
        self.browser = self.browser_for(SaveLimits(bytes=1))
        self.assert_problem(self.put("auto", TWO, late), 412, "version_conflict")
        self.assert_problem(self.put("auto", TWO, {"If-Match": "*"}), 413, "quota_exceeded")

    def test_before_the_body(self) -> None:
        """Only an accepted head is answered with 100 Continue."""
        head = "PUT /game/saves/auto HTTP/1.1\r\nHost: game.example\r\nExpect: 100-continue\r\n"
        for fields, status, continued in (
            ("Content-Length: 3\r\n", 401, 0),
            (f"Authorization: {self.bearer['Authorization']}\r\nContent-Length: 11\r\n", 413, 0),
            (f"Authorization: {self.bearer['Authorization']}\r\nContent-Length: 3\r\n", 201, 1),
        ):
            connection = self.browser.connect().send(f"{head}{fields}\r\n".encode())
            self.assertEqual(connection.interim, continued)
            if continued:
                connection.send(ONE)
            self.assertEqual(connection.answer.status, status)


class TokenTest(SaveCase):
    """Requests without permission."""

    def test_every_route(self) -> None:
        """Each route asks for a live access token of a player who may play."""
        missing = {"Authorization": ""}
        foreign = {"Authorization": f"Bearer {'x' * 53}"}
        for method, path in (
            ("GET", "/game/"),
            ("GET", "/game/saves"),
            ("GET", "/game/saves/auto"),
            ("HEAD", "/game/saves/auto"),
            ("PUT", "/game/saves/auto"),
            ("DELETE", "/game/saves/auto"),
            ("GET", "/game/saves/auto/versions"),
        ):
            for headers, code in ((missing, "token_missing"), (foreign, "token_invalid")):
                answer = self.browser.request(method, path, {**headers, "If-Match": "*"})
                self.assertEqual(answer.status, 401)
                self.assertIn('Bearer realm="gamed"', answer.headers["www-authenticate"])
                if method != "HEAD":
                    self.assertEqual(answer.json["code"], code)

    def test_expired(self) -> None:
        """An expired token is refused; one that was good when the upload began lets it finish."""
        connection = self.browser.connect().send(
            f"PUT /game/saves/auto HTTP/1.1\r\nHost: game.example\r\nAuthorization: {self.bearer['Authorization']}\r\n"
            "Content-Length: 3\r\n\r\non".encode()
        )
        self.server.now_ms = NOW_MS + DAY_MS
        self.assert_problem(self.put("late", ONE), 401, "token_expired")
        self.assertEqual(connection.send(b"e").answer.status, 201)

    def test_blocked(self) -> None:
        """A blocked player reads and writes nothing."""
        self.successResultOf(
            self.stores.auth.submit(lambda connection: player_tables.set_state(connection, ANNA, "blocked"))
        )
        self.assert_problem(self.put("auto", ONE), 403, "player_blocked")
        self.assert_problem(self.get("auto"), 403, "player_blocked")

    def test_first_use(self) -> None:
        """The first use of a token is written down before the request has its effect."""
        used = "SELECT used FROM session"
        self.assertEqual(self.successResultOf(self.server.rows(used)), [(0,)])
        self.stores.auth.pause()
        call = self.browser.send("PUT", "/game/saves/auto", self.bearer, ONE)
        self.assertEqual((call.answers, self.version_rows()), ([], []))
        self.stores.auth.resume()
        self.assertEqual(call.answer.status, 201)
        self.assertEqual(self.successResultOf(self.server.rows(used)), [(1,)])

    def test_erased_meanwhile(self) -> None:
        """An upload that began before the player's saves were erased changes nothing."""

        def erase(connection: Connection) -> None:
            connection.execute("DELETE FROM save_version")
            connection.execute("DELETE FROM save")
            values = (self.server.now_ms,)
            connection.execute("UPDATE player_saves SET epoch = 'after', erased_ms = ?", values)

        self.put("auto", ONE)
        head = f"Host: game.example\r\nAuthorization: {self.bearer['Authorization']}\r\nContent-Length: 6\r\n\r\ntwo"
        connection = self.browser.connect().send(f"PUT /game/saves/auto HTTP/1.1\r\n{head}".encode())
        self.server.now_ms += 1
        self.in_state(erase)
        self.assert_problem(connection.send(b"two").answer, 410, "erased", "nothing was changed")
        self.assertEqual(self.version_rows(), [])
        self.assertEqual(self.in_state(lambda c: save_tables.find_player(c, ANNA).cursor.epoch), "after")
        self.assertEqual(self.put("auto", TWO).status, 201)
