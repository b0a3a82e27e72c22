"""GET and HEAD under /game/ (docs/protocol.md: Saves, Conditions and ranges)."""

from functools import partial
from hashlib import sha256
from itertools import product
from typing import IO

from twisted.internet.defer import Deferred

from gamed.config.game import SaveLimits
from gamed.players.tables import set_display_name
from gamed.timestamps import http_date
from tests.saves.helpers import ABSENT, BIG, SaveCase, digest_of, tag
from tests.sessions.fixtures import ANNA, BERT, NOW_MS
from tests.support.covers import covers
from tests.support.stores import literal

ONE, TWO = b"0123456789", b"abcdefghij"
FIXED = {"date", "x-request-id", "content-length"}


class OneSaveTest(SaveCase):
    """A current version: head, bytes, conditions, ranges; small ones from memory, larger ones from a file."""

    def setUp(self) -> None:
        super().setUp()
        self.data = {"small": ONE, "big": BIG}
        for slot, data in self.data.items():
            self.put(slot, data, {"Content-Type": "text/plain;v=1", "Save-Meta": '{"a":1}', **ABSENT})

    @covers("threats/31", "threats/43")
    def test_head_and_bytes(self) -> None:
        """All header fields (docs/protocol.md: Saves), and the bytes as they were sent."""
        for slot, data in self.data.items():
            answer = self.get(slot)
            self.assertEqual((answer.status, answer.body), (200, data))
            shown = {name: value for name, value in answer.headers.items() if name not in FIXED}
            self.assertEqual(
                shown,
                {
                    "etag": tag(1, data),
                    "save-version": tag(1, data).strip('"'),
                    "save-meta": '{"a":1}',
                    "content-type": "text/plain;v=1",
                    "last-modified": http_date(NOW_MS),
                    "repr-digest": digest_of(data),
                    "accept-ranges": "bytes",
                    "cache-control": "private, no-cache, no-transform",
                    "vary": "Authorization",
                    "content-disposition": "attachment",
                    "content-security-policy": "sandbox",
                    "x-content-type-options": "nosniff",
                },
            )

    def test_no_meta(self) -> None:
        """Without Save-Meta there is no such field; without a type the bytes are just bytes."""
        self.put("plain", ONE)
        headers = self.get("plain").headers
        self.assertNotIn("save-meta", headers)
        self.assertEqual(headers["content-type"], "application/octet-stream")

    def test_head_parity(self) -> None:
        """HEAD answers as GET does, without the bytes; it ignores Range."""
        for slot, headers in product(self.data, ({}, {"If-None-Match": "*"}, {"If-Match": '"x"'})):
            get, head = self.get(slot, headers), self.ask("HEAD", f"/game/saves/{slot}", headers)
            self.assertEqual((head.status, head.body), (get.status, b""))
            differing = {"date", "x-request-id"} | ({"content-length"} if get.status == 412 else set())
            same = [{k: v for k, v in answer.headers.items() if k not in differing} for answer in (get, head)]
            self.assertEqual(*same)
        for wanted in ("bytes=0-1", "bytes=99999999-"):
            head = self.ask("HEAD", "/game/saves/big", {"Range": wanted})
            self.assertEqual((head.status, head.headers["content-length"]), (200, str(len(BIG))))

    def test_head_of_nothing(self) -> None:
        """HEAD of a slot that is not there."""
        self.assertEqual(self.ask("HEAD", "/game/saves/none").status, 404)

    def test_not_modified(self) -> None:
        """A client that has the bytes gets 304 with the header fields that a cache needs."""
        for slot, data in self.data.items():
            for headers in (
                {"If-None-Match": tag(1, data)},
                {"If-None-Match": f'"x", W/{tag(1, data)}'},
                {"If-None-Match": "*"},
                {"If-Modified-Since": http_date(NOW_MS)},
                {"If-None-Match": tag(1, data), "Range": "bytes=0-1"},
            ):
                answer = self.get(slot, headers)
                self.assertEqual((answer.status, answer.body), (304, b""), headers)
                self.assertEqual(answer.headers["etag"], tag(1, data))
                self.assertEqual(answer.headers["vary"], "Authorization")
                self.assertNotIn("content-length", answer.headers)

    def test_modified(self) -> None:
        """A client that has another version gets 200."""
        for headers in (
            {"If-None-Match": '"1-x"'},
            {"If-Modified-Since": http_date(NOW_MS - 1000)},
            {"If-None-Match": '"1-x"', "If-Modified-Since": http_date(NOW_MS)},
            {"If-Match": tag(1, ONE)},
            {"If-Unmodified-Since": http_date(NOW_MS)},
        ):
            self.assertEqual(self.get("small", headers).status, 200, headers)

    def test_failed(self) -> None:
        """If-Match with another tag gets 412 with the sides, without an ETag field."""
        for headers, code, base in (
            ({"If-Match": '"1-x"'}, "version_conflict", None),
            ({"If-Match": f"W/{tag(1, ONE)}"}, "weak_validator", 1),
            ({"If-Unmodified-Since": http_date(NOW_MS - 1000)}, "version_conflict", None),
        ):
            answer = self.assert_problem(self.get("small", headers), 412, code)
            self.assertEqual((answer.json["current"]["version"], answer.json["yours"]), (1, None))
            self.assertEqual(answer.json["base"] and answer.json["base"]["version"], base)
            self.assertNotIn("etag", answer.headers)

    def test_malformed_conditions(self) -> None:
        """Tags without quotes are refused."""
        for name in ("If-Match", "If-None-Match"):
            self.assert_problem(self.get("small", {name: "1-x"}), 400, "bad_precondition", "double quotes")
        self.assert_problem(self.ask("GET", "/game/saves", {"If-None-Match": "x"}), 400, "bad_precondition")

    def test_ranges(self) -> None:
        """206: one range in each form."""
        for slot, data in self.data.items():
            size = len(data)
            for wanted, first, last in (
                ("bytes=2-4", 2, 4),
                ("bytes=7-", 7, size - 1),
                ("bytes=-3", size - 3, size - 1),
            ):
                answer = self.get(slot, {"Range": wanted})
                self.assertEqual((answer.status, answer.body), (206, data[first : last + 1]))
                self.assertEqual(answer.headers["content-range"], f"bytes {first}-{last}/{size}")
                self.assertEqual(answer.headers["content-length"], str(last - first + 1))
                self.assertEqual(answer.headers["repr-digest"], digest_of(data))
                self.assertEqual(answer.headers["etag"], tag(1, data))

    def test_ignored_ranges(self) -> None:
        """200: several ranges, other units, what does not parse, and an If-Range that does not hold."""
        for headers in (
            {"Range": "bytes=0-1,3-4"},
            {"Range": "lines=0-1"},
            {"Range": "bytes=4-2"},
            {"Range": "bytes=0-1", "If-Range": '"1-x"'},
            {"Range": "bytes=0-1", "If-Range": f"W/{tag(1, ONE)}"},
            {"Range": "bytes=99-", "If-Range": '"1-x"'},
            {"Range": "bytes=0-1", "If-Range": http_date(NOW_MS - 1000)},
        ):
            answer = self.get("small", headers)
            self.assertEqual((answer.status, answer.body), (200, ONE), headers)
            self.assertNotIn("content-range", answer.headers)

    def test_if_range(self) -> None:
        """206 while If-Range names exactly what is current."""
        for value in (tag(1, ONE), http_date(NOW_MS)):
            self.assertEqual(self.get("small", {"Range": "bytes=0-1", "If-Range": value}).status, 206)

    def test_if_range_by_a_doubtful_date(self) -> None:
        """Two versions of one second have one date: a download by date restarts, by tag it is resumed."""
        second = self.put("small", TWO, {"If-Match": "*"}).headers["etag"]
        by_date = self.get("small", {"Range": "bytes=0-1", "If-Range": http_date(NOW_MS)})
        self.assertEqual((by_date.status, by_date.body), (200, TWO))
        self.assertEqual(self.get("small", {"Range": "bytes=0-1", "If-Range": second}).status, 206)

    def test_unsatisfiable(self) -> None:
        """A 416 has the size."""
        for slot, data in self.data.items():
            answer = self.assert_problem(self.get(slot, {"Range": f"bytes={len(data)}-"}), 416, "range_not_satisfiable")
            self.assertEqual(answer.headers["content-range"], f"bytes */{len(data)}")
            self.assertIn(str(len(data)), answer.json["detail"])

    def test_nothing_there(self) -> None:
        """404 for a slot that never was, whatever the conditions."""
        for headers in ({}, {"If-Match": "*"}, {"If-None-Match": "*"}):
            self.assert_problem(self.get("none", headers), 404, "save_not_found", "/game/saves")
        self.assert_problem(self.ask("GET", "/game/saves/none/versions"), 404, "save_not_found")


class DamageTest(SaveCase):
    """Damaged bytes are never sent."""

    def test_newest_good(self) -> None:
        """500 names the newest version whose bytes are good; for small saves and large ones."""
        for slot, data in (("small", ONE), ("big", BIG)):
            for n in range(3):
                self.put(slot, data + b"%d" % n, {"If-Match": "*"} if n else ABSENT)
            self.damage(slot, 3)
            self.damage(slot, 2)
            answer = self.assert_problem(self.get(slot), 500, "corrupt_blob", "Version 1", "PUT")
            self.assertEqual((answer.json["slot"], answer.json["version"]), (slot, 3))
            self.assertEqual(answer.json["newest_good"]["etag"], tag(1, data + b"0"))
            self.assertEqual(self.get(slot, {"If-None-Match": tag(3, data + b"2")}).status, 304)

    def test_rows(self) -> None:
        """A row with a value that was never written is store_unavailable, not a defect of the server."""
        for slot, damage in {
            "meta": "meta = '{\"a\"~1}'",
            "time": f"created_ms = {1 << 62}",
        }.items():
            self.put(slot, ONE, {"Save-Meta": '{"a":1}'})
            query = f"UPDATE save_version SET {damage} WHERE slot = '{slot}'"
            self.in_state(lambda connection, query=query: connection.execute(query).rowcount)
            for path in (f"/{slot}/versions", ""):
                answer = self.assert_problem(self.ask("GET", f"/game/saves{path}"), 503, "store_unavailable")
                self.assertNotIn("JSON", answer.json["detail"])

    def test_none_good(self) -> None:
        """The response says if no older version is intact."""
        self.put("auto", ONE)
        self.damage("auto", 1)
        self.assertIsNone(
            self.assert_problem(self.get("auto"), 500, "corrupt_blob", "No older version").json["newest_good"]
        )

    def test_repaired(self) -> None:
        """Storing the same bytes again repairs the save, and every version that shares them."""
        for slot, data in (("small", ONE), ("big", BIG)):
            self.put(slot, data)
            self.put(f"{slot}-2", data)
            self.damage(slot, 1)
            self.assert_problem(self.get(slot), 500, "corrupt_blob")
            again = self.put(slot, data)
            self.assertEqual((again.status, again.json["version"]), (200, 1))
            for name in (slot, f"{slot}-2"):
                self.assertEqual(self.get(name).body, data)
        self.stores.blobs.delete_expired()

    def test_replaced_by_another_player(self) -> None:
        """A read whose blob is deleted meanwhile never gets the bytes of another player's new blob."""
        self.put("auto", BIG, ABSENT)
        fetch, bert = self.stores.blobs.fetch, self.sign_in(BERT)

        def late(blob_id: int) -> Deferred[IO[bytes]]:
            self.stores.blobs.fetch = fetch  # type: ignore[method-assign]
            erased = self.ask("DELETE", "/game/", {"If-Match": self.ask("GET", "/game/").headers["etag"]})
            stored = self.browser.request("PUT", "/game/saves/auto", {**bert, **ABSENT}, BIG[::-1])
            self.assertEqual((erased.status, stored.status), (204, 201))
            return fetch(blob_id)

        self.stores.blobs.fetch = late  # type: ignore[method-assign]
        self.assert_problem(self.get("auto"), 404, "save_not_found")


class ListTest(SaveCase):
    """GET /game/ and GET /game/saves."""

    def cursor(self) -> str:
        cursor: str = self.ask("GET", "/game/").json["cursor"]
        return cursor

    def test_player_without_saves(self) -> None:
        """A player without saves has an empty list and a cursor from which all changes follow."""
        listing = self.ask("GET", "/game/saves")
        self.assertEqual((listing.status, listing.json["saves"]), (200, []))
        cursor = listing.json["cursor"]
        self.assertEqual((cursor, listing.headers["etag"]), (self.cursor(), f'"{cursor}"'))
        self.put("auto", ONE)
        since = self.ask("GET", f"/game/saves?since={cursor}").json
        self.assertEqual(([save["slot"] for save in since["saves"]], "reset" in since), (["auto"], False))

    def test_epochs(self) -> None:
        """The first write draws an epoch, for each player another; it stays while nothing is erased."""
        epochs = [self.cursor().partition(".")[0]]
        for player_id in (ANNA, BERT):
            self.bearer = self.sign_in(player_id)
            self.put("auto", ONE)
            epochs.append(self.cursor().partition(".")[0])
            self.put("another", ONE)
            self.assertEqual(self.cursor(), f"{epochs[-1]}.2")
        self.assertEqual(len(set(epochs)), 3)

    def test_erased_first_saves(self) -> None:
        """After an erase of a player's first saves a list since the empty cursor has `reset`."""
        cursor = self.ask("GET", "/game/saves").json["cursor"]
        self.put("auto", ONE)
        erased = self.ask("DELETE", "/game/", {"If-Match": self.ask("GET", "/game/").headers["etag"]})
        self.assertEqual(erased.status, 204)
        since = self.ask("GET", f"/game/saves?since={cursor}").json
        self.assertEqual((since["saves"], since.get("reset")), ([], True))

    def test_overview(self) -> None:
        """Player, time, usage and limits."""
        self.writes_per_minute = 60
        self.browser = self.browser_for(self.limits)
        self.put("a", ONE)
        self.put("b", ONE)
        self.put("b", ONE + ONE, {"If-Match": "*"})
        self.put("b", TWO, ABSENT)
        answer = self.ask("GET", "/game/")
        body = answer.json
        self.assertEqual(answer.headers["etag"], f'"{body["cursor"]}"')
        self.assertEqual(answer.headers["cache-control"], "private, no-cache, no-transform")
        self.assertRegex(body["cursor"], f"^{body['epoch']}[0-9a-f]{{6}}[.]4$")
        self.assertEqual(
            {name: body[name] for name in ("player", "time", "usage", "limits")},
            {
                "player": {"id": ANNA, "owner": False, "name": None},
                "time": "2027-01-15T08:00:00.000Z",
                "usage": {"slots": 2, "bytes": 30, "history_bytes": 20 + 2 * 512},
                "limits": {
                    "save_bytes": 16777216,
                    "slots": 256,
                    "deleted_slots": 1000,
                    "bytes": 268435456,
                    "history_bytes": 536870912,
                    "meta_bytes": 2048,
                    "commit_writes": 64,
                    "writes_per_minute": 60,
                    "wait_seconds": 25,
                    "keep_versions": 10,
                    "keep_days": 30,
                },
            },
        )
        self.assertEqual(set(body), {"player", "time", "epoch", "cursor", "usage", "limits"})

    def test_display_name(self) -> None:
        """The overview has the display name; one that cannot be decrypted is shown as none."""
        sealer = self.server.issuer.keys.sealer
        change = partial(set_display_name, sealer=sealer, player_id=ANNA, name="Anna \u5b89")
        self.successResultOf(self.stores.auth.submit(change))
        self.assertEqual(self.ask("GET", "/game/").json["player"], {"id": ANNA, "owner": False, "name": "Anna \u5b89"})
        damage = f"UPDATE player SET sealed_display_name = {literal(bytes(1))}"
        self.successResultOf(self.stores.auth.submit(lambda connection: connection.execute(damage).rowcount))
        self.assertIsNone(self.ask("GET", "/game/").json["player"]["name"])

    def test_list(self) -> None:
        """The list has each current save by name with its conflict copies, and no deleted ones."""
        self.put("b", ONE, {"Save-Meta": '{"n":1}'})
        self.put("a", TWO)
        self.put("c", TWO)
        self.put("b", TWO, ABSENT)
        self.delete("c", {"If-Match": "*"})
        saves = self.ask("GET", "/game/saves").json["saves"]
        shown = [(save["slot"], save["etag"], save["meta"], save["conflicts"]) for save in saves]
        self.assertEqual(shown, [("a", tag(1, TWO), None, []), ("b", tag(1, ONE), {"n": 1}, [2])])
        members = {
            "slot",
            "version",
            "etag",
            "size",
            "sha256",
            "content_type",
            "modified",
            "meta",
            "device",
            "conflicts",
        }
        self.assertEqual(set(saves[0]), members | {"conflicts"})

    def test_since(self) -> None:
        """Only what changed, deletions too; nothing new is an empty list at the same cursor."""
        self.put("a", ONE)
        self.put("b", ONE)
        cursor = self.cursor()
        nothing = self.ask("GET", f"/game/saves?since={cursor}").json
        self.assertEqual(nothing, {"cursor": cursor, "saves": []})
        self.put("b", TWO, {"If-Match": "*"})
        self.delete("a", {"If-Match": "*"})
        changes = self.ask("GET", f"/game/saves?since={cursor}").json["saves"]
        self.assertEqual(changes[0], {"slot": "a", "deleted": "2027-01-15T08:00:00.000Z", "version": 2})
        self.assertEqual((changes[1]["slot"], changes[1]["etag"], changes[1]["conflicts"]), ("b", tag(2, TWO), []))
        self.put("a", TWO, {"If-Match": tag(1, ONE)})
        [again] = self.ask("GET", f"/game/saves?since={cursor}").json["saves"][:1]
        self.assertEqual(again["version"], 2)

    def test_reset(self) -> None:
        """A cursor of another epoch, or one that is ahead, gets everything with `reset`."""
        self.put("a", ONE)
        epoch = self.cursor().split(".")[0]
        for cursor in ("elsewhere.7", f"{epoch}.999"):
            body = self.ask("GET", f"/game/saves?since={cursor}").json
            self.assertEqual((body["reset"], [save["slot"] for save in body["saves"]]), (True, ["a"]))

    def test_bad_since(self) -> None:
        """A malformed cursor and two cursors are rejected."""
        for query in ("since=", "since=x", "since=a.b", "since=a.1.2", "since=%00.1", "since=a.1&since=a.1"):
            self.assert_problem(self.ask("GET", f"/game/saves?{query}"), 400, "bad_request")

    def test_unchanged(self) -> None:
        """A client that has the current cursor gets 304, until a save changes."""
        self.put("a", ONE)
        known = {"If-None-Match": f'"{self.cursor()}"'}
        for path in ("/game/saves", f"/game/saves?since={self.cursor()}"):
            answer = self.ask("GET", path, known)
            self.assertEqual((answer.status, answer.body, answer.headers["etag"]), (304, b"", known["If-None-Match"]))
        self.put("a", TWO, ABSENT)
        self.assertEqual(self.ask("GET", "/game/saves", known).status, 200)

    def test_every_change_moves_the_cursor(self) -> None:
        """Writes, new metadata, conflict copies and deletions move it; what stores nothing does not."""
        steps = [
            (lambda: self.put("a", ONE), True),
            (lambda: self.put("a", ONE), False),
            (lambda: self.put("a", ONE, {"Save-Meta": "{}", "If-Match": "*"}), True),
            (lambda: self.put("a", TWO, ABSENT), True),
            (lambda: self.put("a", TWO, ABSENT), False),
            (lambda: self.put("a", TWO), False),
            (lambda: self.delete("a", {"If-Match": '"1-x"'}), False),
            (lambda: self.delete("a", {"If-Match": "*"}), True),
            (lambda: self.delete("a", {"If-Match": "*"}), False),
        ]
        for number, (step, moves) in enumerate(steps):
            before = self.cursor()
            step()
            self.assertEqual(self.cursor() != before, moves, number)

    def test_versions(self) -> None:
        """The versions are listed newest first, each with kind, parent and expiry."""
        self.browser = self.browser_for(SaveLimits(keep_versions=2))
        for n in range(4):
            self.put("a", b"%d" % n, {"If-Match": "*"} if n else ABSENT)
        self.put("a", TWO, ABSENT)
        answer = self.ask("GET", "/game/saves/a/versions")
        self.assertEqual((answer.json["slot"], answer.headers["vary"]), ("a", "Authorization"))
        shown = [(v["version"], v["kind"], v["parent"], v["expires"]) for v in answer.json["versions"]]
        later = "2027-02-14T08:00:00.000Z"
        self.assertEqual(
            shown,
            [
                (5, "conflict", None, later),
                (4, "write", 3, None),
                (3, "write", 2, None),
                (2, "write", 1, later),
                (1, "write", None, later),
            ],
        )
        self.assertEqual(answer.json["versions"][1]["sha256"], sha256(b"3").hexdigest())
