"""`GET /game/export` returns all saves of a player as one zip (docs/protocol.md: Saves)."""

import json
from errno import ENOSPC
from hashlib import sha256
from io import BytesIO
from struct import unpack
from typing import Any
from zipfile import ZipFile

from gamed.database.errors import DiskFull
from gamed.saves import batch_routes, export_store
from tests.saves.helpers import ABSENT, BIG, MIB, PRESENT, digest_of
from tests.saves.test_uploads import TornCase
from tests.sessions.fixtures import ANNA, BERT
from tests.support.databases import LateThreads
from tests.support.http import Answer, Connection
from tests.support.stores import sqlite_files

PATH = "/game/export"


class ExportCase(TornCase):
    def setUp(self) -> None:
        super().setUp()
        self.put("auto", b"one")
        self.put("auto", b"two", {**PRESENT, "Save-Meta": '{"title":"Caf\\u00e9"}'})
        self.put("big", BIG)
        self.put("old", b"gone")
        self.delete("old", PRESENT)

    def export(self, headers: dict[str, str] | None = None, method: str = "GET") -> Answer:
        return self.ask(method, PATH, headers)

    def begin_export(self, bearer: dict[str, str] | None = None) -> Connection:
        return self.browser.send("GET", PATH, bearer or self.bearer)

    def opened(self, answer: Answer) -> tuple[dict[str, Any], dict[str, bytes]]:
        """The manifest, and the other files."""
        self.assertEqual(answer.status, 200, answer.body[:500])
        with ZipFile(BytesIO(answer.body)) as archive:
            self.assertIsNone(archive.testzip())
            files = {name: archive.read(name) for name in archive.namelist()}
        return json.loads(files.pop("manifest.json")), files


class ContentTest(ExportCase):
    def test_everything(self) -> None:
        """Every version is there, deletes by name only, under a manifest that says what each one is."""
        self.put("auto", b"refused", ABSENT)
        cursor = self.ask("GET", "/game/").json["cursor"]
        manifest, files = self.opened(answer := self.export())
        small = {"saves/auto/1": b"one", "saves/auto/2": b"two", "saves/auto/3": b"refused"}
        self.assertEqual(files, {**small, "saves/big/1": BIG, "saves/old/1": b"gone"})
        head = {name: manifest[name] for name in ("format", "player", "cursor", "damaged")}
        self.assertEqual(head, {"format": 1, "player": ANNA, "cursor": cursor, "damaged": 0})
        rows = [(row["slot"], row["version"], row["kind"], row["current"], row["file"]) for row in manifest["versions"]]
        self.assertEqual(
            rows,
            [
                ("auto", 1, "write", False, "saves/auto/1"),
                ("auto", 2, "write", True, "saves/auto/2"),
                ("auto", 3, "conflict", False, "saves/auto/3"),
                ("big", 1, "write", True, "saves/big/1"),
                ("old", 1, "write", False, "saves/old/1"),
                ("old", 2, "delete", False, None),
            ],
        )
        listed = self.versions("auto")[1]
        listed.pop("expires")
        self.assertEqual(manifest["versions"][1], {**listed, "current": True, "file": "saves/auto/2", "damaged": False})
        self.assertEqual(answer.headers["content-type"], "application/zip")
        self.assertEqual(answer.headers["repr-digest"], digest_of(answer.body))
        self.assertIn("attachment", answer.headers["content-disposition"])
        self.assertEqual(answer.headers["cache-control"], "private, no-cache, no-transform")

    def test_times(self) -> None:
        """An entry's time is that of its version in UTC; one that a ZIP cannot write down is moved into its range."""
        times = {1: 0, 2: 1_800_000_000_000, 3: 2**43, 4: 253_402_300_799_000}
        for body in (b"three", b"four"):
            self.put("auto", body, PRESENT)
        for version, ms in times.items():
            query = f"UPDATE save_version SET created_ms = {ms} WHERE slot = 'auto' AND version = {version}"
            self.in_state(lambda c, query=query: c.execute(query).rowcount)
        with ZipFile(BytesIO(self.export().body)) as archive:
            found = [archive.getinfo(f"saves/auto/{version}").date_time for version in times]
            self.assertEqual([found[0], found[1]], [(1980, 1, 1, 0, 0, 0), (2027, 1, 15, 8, 0, 0)])
            self.assertEqual([found[2][0], found[3][0]], [2107, 2107])
            self.assertEqual(archive.getinfo("manifest.json").date_time, found[3])
            self.assertEqual({info.external_attr >> 16 for info in archive.infolist()}, {0o100600})

    def test_sizes_come_first(self) -> None:
        """Each entry's size and CRC stand in front of its bytes, for programs that read a ZIP as it arrives."""
        whole = self.export().body
        with ZipFile(BytesIO(whole)) as archive:
            for info in archive.infolist():
                head = whole[info.header_offset :][:26]
                self.assertEqual(unpack("<3L", head[14:]), (info.CRC, info.file_size, info.file_size))
                self.assertEqual(info.flag_bits & 8, 0)

    @sqlite_files("how many files are in the ZIP; test_many_small takes several steps")
    def test_more_than_16_bits_count(self) -> None:
        """More than 65,535 versions make a ZIP64 file."""
        self.patch(export_store, "STEP_VERSIONS", 10_000)
        query = """
            WITH RECURSIVE n(n) AS (SELECT 4 UNION ALL SELECT n + 1 FROM n WHERE n < 66000)
            INSERT INTO save_version (player_id, slot, version, kind, blob_id, sha256, size, ctype, created_ms)
            SELECT player_id, slot, n, kind, blob_id, sha256, size, ctype, created_ms FROM save_version, n
            WHERE slot = 'auto' AND version = 1
        """
        self.in_state(lambda c: c.execute(query).rowcount)
        with ZipFile(BytesIO(self.export().body)) as archive:
            self.assertEqual((len(archive.namelist()), archive.read("saves/auto/66000")), (66_002, b"one"))

    def test_nothing_kept(self) -> None:
        """A player without saves gets an empty manifest."""
        self.bearer = self.sign_in(BERT)
        manifest, files = self.opened(self.export())
        self.assertEqual((manifest["player"], manifest["versions"], files), (BERT, [], {}))

    def test_only_ones_own(self) -> None:
        """Export no bytes of another player."""
        self.bearer = self.sign_in(BERT)
        self.put("auto", b"of Bert")
        self.assertEqual(self.opened(self.export())[1], {"saves/auto/1": b"of Bert"})

    def test_many_small(self) -> None:
        """More versions than one step copies, in order and whole."""
        for number in range(export_store.STEP_VERSIONS + 10):
            self.put(f"s{number:03}", str(number + 1).encode(), ABSENT)
        manifest, files = self.opened(self.export())
        names = [(row["slot"], row["version"]) for row in manifest["versions"]]
        self.assertEqual((len(files), names), (export_store.STEP_VERSIONS + 14, sorted(names)))

    def test_damaged(self) -> None:
        """Damaged bytes are left out and marked in the manifest; the tag differs."""
        before = self.export().headers["etag"]
        for slot in ("auto", "big"):
            self.damage(slot, 1)
        manifest, files = self.opened(answer := self.export())
        self.assertEqual(files, {"saves/auto/2": b"two", "saves/old/1": b"gone"})
        damaged = [(row["slot"], row["version"], row["file"]) for row in manifest["versions"] if row["damaged"]]
        self.assertEqual((damaged, manifest["damaged"]), ([("auto", 1, None), ("big", 1, None)], 2))
        self.assertNotEqual(answer.headers["etag"], before)

    def test_lost_parts(self) -> None:
        """Bytes that are gone from the file are damaged too."""
        self.in_state(lambda c: c.execute("DELETE FROM blob_part WHERE n = 1").rowcount)
        self.assertEqual(self.opened(self.export())[0]["damaged"], 1)

    def test_changed_meanwhile(self) -> None:
        """The export has all versions up to its cursor, and perhaps later ones."""
        cursor = self.ask("GET", "/game/").json["cursor"]
        queue = self.stores.blobs.queue
        queue.pause()
        call = self.begin_export()
        self.put("auto", b"three", PRESENT)
        self.put("zzz", b"new")
        queue.resume()
        manifest, files = self.opened(call.answer)
        self.assertEqual(manifest["cursor"], cursor)
        self.assertLessEqual({"saves/auto/1", "saves/auto/2", "saves/big/1", "saves/old/1"}, set(files))
        changed = self.ask("GET", f"/game/saves?since={cursor}").json["saves"]
        self.assertEqual([save["slot"] for save in changed], ["auto", "zzz"])


class ConditionTest(ExportCase):
    def test_same_again(self) -> None:
        """While nothing changes it is the same file, by its tag and to the byte, whenever it is asked for."""
        first = self.export()
        self.server.now_ms += 60_000
        second = self.export()
        self.assertEqual((first.body, first.headers["etag"]), (second.body, second.headers["etag"]))
        self.assertEqual(self.export({"If-None-Match": first.headers["etag"]}).status, 304)
        self.assertEqual(self.export({"If-Match": first.headers["etag"]}).status, 200)
        head = self.export(method="HEAD")
        same = ("etag", "content-length", "content-type", "repr-digest", "accept-ranges")
        self.assertEqual([head.headers[name] for name in same], [first.headers[name] for name in same])
        self.assertEqual((head.status, head.body), (200, b""))

    def test_ranges(self) -> None:
        """An interrupted download is resumed with Range."""
        whole = self.export()
        size, etag = len(whole.body), whole.headers["etag"]
        for wanted, first, last in (
            ("bytes=5-9", 5, 9),
            (f"bytes={size - 4}-", size - 4, size - 1),
            ("bytes=-3", size - 3, size - 1),
        ):
            part = self.export({"Range": wanted, "If-Range": etag})
            self.assertEqual((part.status, part.body), (206, whole.body[first : last + 1]))
            self.assertEqual(part.headers["content-range"], f"bytes {first}-{last}/{size}")
        self.assertEqual(self.export({"Range": "bytes=0-1,5-6"}).status, 200)
        assert_problem = self.assert_problem(
            self.export({"Range": f"bytes={size}-"}), 416, "range_not_satisfiable", str(size)
        )
        self.assertEqual(assert_problem.headers["content-range"], f"bytes */{size}")

    def test_changed_between(self) -> None:
        """Once a save has changed, a range is no part of what the client has: it gets all of it."""
        etag = self.export().headers["etag"]
        self.put("auto", b"three", PRESENT)
        again = self.export({"Range": "bytes=5-9", "If-Range": etag})
        self.assertEqual((again.status, again.headers["etag"] == etag), (200, False))
        self.assertEqual(self.export({"If-None-Match": etag}).status, 200)
        self.assert_problem(self.export({"If-Match": etag}), 412, "version_conflict", "Export them anew")

    def test_pruned_between(self) -> None:
        """A version that was pruned changes no cursor, but the file and so its tag."""
        etag, cursor = self.export().headers["etag"], self.ask("GET", "/game/").json["cursor"]
        self.in_state(lambda c: c.execute("DELETE FROM save_version WHERE slot = 'auto' AND version = 1").rowcount)
        self.assertEqual(self.ask("GET", "/game/").json["cursor"], cursor)
        self.assertEqual(self.export({"Range": "bytes=5-9", "If-Range": etag}).status, 200)

    def test_dates(self) -> None:
        """No date distinguishes two exports, so conditions by date are ignored."""
        far = {
            "If-Modified-Since": "Fri, 01 Jan 2100 00:00:00 GMT",
            "If-Unmodified-Since": "Thu, 01 Jan 1970 00:00:00 GMT",
        }
        answer = self.export(far)
        self.assertEqual((answer.status, "last-modified" in answer.headers), (200, False))
        ranged = {"Range": "bytes=5-9", "If-Range": "Thu, 01 Jan 1970 00:00:00 GMT"}
        self.assertEqual(self.export(ranged).status, 200)

    def test_refused(self) -> None:
        """A bad token, another method and malformed tags are rejected."""
        self.assert_problem(self.browser.get(PATH), 401, "token_missing")
        self.assertEqual(self.ask("POST", PATH).status, 405)
        self.assertEqual(self.ask("GET", f"{PATH}/").status, 404)
        self.assert_problem(self.export({"If-None-Match": "abc"}), 400, "bad_precondition", "double quotes")


class PlaceTest(ExportCase):
    """At most two at once, of different players."""

    def test_second_of_a_player(self) -> None:
        """A player has one export at a time, so that another player finds the second place."""
        self.stores.blobs.queue.pause()
        mine, others = self.begin_export(), self.sign_in(BERT)
        for method in ("GET", "HEAD"):
            second = self.export(method=method)
            self.assertEqual((second.status, second.headers["retry-after"]), (503, "30"))
        self.assert_problem(self.export(), 503, "busy", "Your last export is still under way")
        other = self.begin_export(others)
        self.stores.blobs.queue.resume()
        self.assertEqual((mine.answer.status, other.answer.status, self.export().status), (200, 200, 200))

    def test_third(self) -> None:
        """A third export is rejected with Retry-After; it succeeds after one has ended."""
        self.stores.blobs.queue.pause()
        calls = [self.begin_export(), self.begin_export(self.sign_in(BERT))]
        mine, self.bearer = self.bearer, self.sign_in("ply_" + "C" * 22)
        for method in ("GET", "HEAD"):
            third = self.export(method=method)
            self.assertEqual((third.status, third.headers["retry-after"]), (503, "30"))
        self.assert_problem(self.export(), 503, "busy", "under way")
        self.bearer = mine
        self.stores.blobs.queue.resume()
        self.assertEqual([call.answer.status for call in calls], [200, 200])
        self.assertEqual((self.export().status, self.spools(), self.reservations.bytes), (200, 0, 0))

    def test_disconnect(self) -> None:
        """The export of a client that disconnects ends without a file and without a logged error."""
        self.stores.blobs.queue.pause()
        calls = [self.begin_export(), self.begin_export(self.sign_in(BERT))]
        for call in calls:
            self.browser.watched(call.leave)
        waiting = self.tasks.drain()
        self.browser.watched(self.stores.blobs.queue.resume)
        self.successResultOf(waiting)
        self.assertEqual((self.spools(), self.reservations.bytes, self.export().status), (0, 0, 200))
        self.assertEqual(self.browser.events, [])

    def test_next_after_each_response(self) -> None:
        """After every kind of response another export may begin."""
        for _ in range(3):
            self.assertEqual(self.export({"Range": "bytes=9999999-"}).status, 416)
            self.assertEqual(self.export({"If-Match": '"0"'}).status, 412)
        self.assertEqual((self.export().status, self.spools(), self.reservations.bytes), (200, 0, 0))

    def test_drip(self) -> None:
        """A client that reads slowly, but is never idle, cannot keep an export for ever."""
        self.put("other", BIG)
        self.patch(batch_routes, "SEND_SECONDS", 100)
        call = self.read_slowly(PATH)
        for _ in range(2):
            self.clock.advance(45)
            self.assertEqual((call.closed, self.spools()), (False, 1))
            call.channel.flow.resumeProducing()
        self.clock.advance(20)
        self.assertEqual((call.closed, self.spools(), self.reservations.bytes), (True, 0, 0))
        self.assertLess(len(call.raw), 2 * len(BIG))

    def test_shutdown(self) -> None:
        """At shutdown the running export is answered and no other begins."""
        self.stores.blobs.queue.pause()
        call = self.begin_export()
        self.exports.close()
        self.stores.blobs.queue.resume()
        self.assert_problem(call.answer, 503, "shutting_down")
        self.assert_problem(self.export(), 503, "busy")
        self.assertEqual((self.spools(), self.reservations.bytes), (0, 0))

    def test_disk(self) -> None:
        """An export and the uploads must fit on the disk together."""
        self.free = 256 * MIB + len(BIG)
        answer = self.assert_problem(self.export(), 507, "storage_full", "owner")
        self.assertEqual(answer.headers["retry-after"], "300")
        self.free += 1000 + self.ask("GET", "/game/").json["usage"]["history_bytes"]
        self.stores.blobs.queue.pause()
        call = self.begin_export()
        self.assert_problem(self.put("other", b"x" * 1000), 507, "storage_full")
        self.stores.blobs.queue.resume()
        self.assertEqual((call.answer.status, self.put("other", b"x" * 1000).status), (200, 201))

    def test_full_meanwhile(self) -> None:
        """A disk that fills up while the zip is written: 507, and nothing is left."""

        class Full(BytesIO):
            def write(self, data: Any) -> int:
                raise OSError(ENOSPC, "No space left on device")

        archive = self.exports._begin(ANNA, self.cursor())
        archive._out = Full()
        self.failureResultOf(archive.step(), DiskFull)
        archive.close()
        self.folder.rmdir()
        self.assert_problem(self.export(), 507, "storage_full", "cannot be written")
        self.folder.mkdir()
        self.assertEqual((self.export().status, self.spools(), self.reservations.bytes), (200, 0, 0))

    def test_full_until_it_is_closed(self) -> None:
        """A file whose last bytes do not fit on the disk is closed without an error."""
        archive = self.exports._begin(ANNA, self.cursor())
        archive._out = open("/dev/full", "w+b")  # noqa: SIM115  close() closes it
        self.failureResultOf(archive.step(), DiskFull)
        archive.close()
        self.assertTrue(archive._out.closed)

    def test_closed_in_the_thread(self) -> None:
        """The files of an export that is cut off are closed in the thread of the steps, as that writes to the disk."""
        archive = self.exports._begin(ANNA, self.cursor())
        self.assertTrue(self.successResultOf(archive.step()))
        pool = self.stores.threads[3].pool
        self.patch(pool, "threadpool", late := LateThreads())
        archive.close()
        self.assertFalse(archive._out.closed)
        late.run()
        self.assertTrue(archive._out.closed)

    def test_read_in_threads(self) -> None:
        """The reactor does not wait for the disk; a descriptor is closed only when no thread reads it."""
        self.late = []
        export = self.begin_export()
        self.assertEqual((len(self.late), export.answers), (1, []))
        self.run_late()
        self.opened(export.answer)
        left = self.begin_export()
        self.assertEqual(len(self.late), 1)
        left.leave()
        self.assertEqual(self.spools(), 1)
        self.run_late()
        self.assertEqual(self.spools(), 0)

    def test_sent_and_closed_in_the_thread(self) -> None:
        """The end of sending, which closes the file, does not free the blocks of a large archive in the reactor."""
        archive = self.exports._begin(ANNA, self.cursor())
        while self.successResultOf(archive.step()):
            pass
        file = archive.take_file()
        file.seek(0)
        whole = file.read()
        self.assertEqual((len(whole), sha256(whole).digest()), (archive.size, archive.sha256))
        file.close()
        self.assertFalse(archive._out.closed)
        archive.close()
        self.assertTrue(archive._out.closed)

    def cursor(self) -> Any:
        return self.in_state(lambda c: export_store.tables.find_player(c, ANNA)).cursor
