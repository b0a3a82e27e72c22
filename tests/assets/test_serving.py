"""GET and HEAD under /assets/ (docs/protocol.md: Assets, Conditions and ranges)."""

from base64 import b64encode
from hashlib import sha256
from itertools import product

from gamed.assets.routes import INLINE_BYTES
from gamed.http.streaming import CHUNK_BYTES
from gamed.timestamps import http_date
from tests.assets.serving_fixtures import NOW_MS, OPENED_MS, ServingCase
from tests.support.covers import covers
from tests.support.http import Answer, request_bytes

SMALL, LARGE = b"0123456789", bytes(range(251)) * 1200
"""Sizes that are cached in memory and as open files."""
FILES = {"data/small.txt": SMALL, "data/large.pck": LARGE, "empty": b""}
EVERY = {
    "date",
    "x-request-id",
    "x-content-type-options",
    "content-length",
    "gamed-protocol",
    "content-range",
}
MOVING, LASTING = "public, no-cache", "public, max-age=31536000, immutable"
LATER_MS = NOW_MS + 5000


def hexed(data: bytes) -> str:
    return sha256(data).hexdigest()


@covers("4/15", "4/17")
class FilesTests(ServingCase):
    """A channel with a release that is older than its pointer."""

    def setUp(self) -> None:
        super().setUp()
        self.release = self.folder.release(FILES, note="1.4.2", types={"data/small.txt": "text/plain;charset=utf-8"})
        self.folder.point("stable", self.release, LATER_MS)
        self.manifest = (self.folder.path / "releases" / f"{self.release}.json").read_bytes()
        self.addresses: dict[str, bytes] = {"/assets/stable": self.manifest, f"/assets/{self.release}": self.manifest}
        for path, data in FILES.items():
            self.addresses |= {f"/assets/{name}/{path}": data for name in ("stable", self.release)}
            self.addresses[f"/assets/objects/{hexed(data)}"] = data

    def shown(self, answer: Answer) -> dict[str, str]:
        return {name: value for name, value in answer.headers.items() if name not in EVERY}

    def fields(self, data: bytes, control: str, **more: str) -> dict[str, str]:
        return {
            "cache-control": control,
            "etag": f'"{hexed(data)}"',
            "repr-digest": f"sha-256=:{b64encode(sha256(data).digest()).decode()}:",
            "accept-ranges": "bytes",
            "content-security-policy": "sandbox",
            "content-type": "application/octet-stream",
            **{name.replace("_", "-"): value for name, value in more.items()},
        }

    def test_channels(self) -> None:
        """The channel list has release, date and note, and no-cache."""
        answer = self.get("/assets/")
        published = "2027-01-15T08:00:00.000Z"
        shown = {"stable": {"release": self.release, "published": published, "note": "1.4.2"}}
        self.assertEqual((answer.status, answer.json), (200, {"channels": shown}))
        expected = self.fields(answer.body, MOVING, content_type="application/json")
        self.assertEqual({**self.shown(answer), "last-modified": "-"}, {**expected, "last-modified": "-"})
        changed_ms = (self.folder.path / "channels").stat().st_mtime_ns // 1_000_000
        self.assertEqual(answer.headers["last-modified"], http_date(changed_ms))
        self.assertEqual(answer.headers["gamed-protocol"], "1.0")

    @covers("threats/42")
    def test_manifests(self) -> None:
        """A manifest has its exact bytes; below a release it is immutable, below a channel it has Asset-Release."""
        whole = self.fields(self.manifest, "", content_type="application/json", etag=f'"{self.release}"')
        channel, pinned = self.get("/assets/stable"), self.get(f"/assets/{self.release}")
        self.assertEqual((channel.body, pinned.body), (self.manifest, self.manifest))
        at = {"asset-release": self.release, "last-modified": http_date(LATER_MS), "cache-control": MOVING}
        self.assertEqual(self.shown(channel), whole | at)
        self.assertEqual(self.shown(pinned), whole | {"last-modified": http_date(NOW_MS), "cache-control": LASTING})

    @covers("threats/42")
    def test_files(self) -> None:
        """A file has the same bytes by channel, release and hash, each with its cache lifetime."""
        for path, data in FILES.items():
            kind = "text/plain;charset=utf-8" if path == "data/small.txt" else "application/octet-stream"
            channel, pinned = self.get(f"/assets/stable/{path}"), self.get(f"/assets/{self.release}/{path}")
            stored = self.get(f"/assets/objects/{hexed(data)}")
            for answer in (channel, pinned, stored):
                self.assertEqual((answer.status, answer.body), (200, data))
            at = {"asset_release": self.release, "last_modified": http_date(LATER_MS)}
            self.assertEqual(self.shown(channel), self.fields(data, MOVING, content_type=kind, **at))
            dated = http_date(NOW_MS)
            self.assertEqual(self.shown(pinned), self.fields(data, LASTING, content_type=kind, last_modified=dated))
            since = self.folder.object_path(data).stat().st_mtime_ns // 1_000_000
            self.assertEqual(self.shown(stored), self.fields(data, LASTING, last_modified=http_date(since)))

    def test_head_parity(self) -> None:
        """HEAD has the status and header fields of GET, no content, and ignores Range."""
        for address, headers in product(
            ["/assets/", *self.addresses, "/assets/none", "/assets/stable/none"],
            ({}, {"If-None-Match": "*"}, {"If-Match": '"x"'}),
        ):
            get, head = self.get(address, headers), self.head(address, headers)
            self.assertEqual((head.status, head.body), (get.status, b""))
            differing = {"x-request-id"} | ({"content-length"} if get.status >= 400 else set())
            same = [{k: v for k, v in answer.headers.items() if k not in differing} for answer in (get, head)]
            self.assertEqual(*same)
        for address, data in self.addresses.items():
            for wanted in ("bytes=0-1", "bytes=99999999-"):
                head = self.head(address, {"Range": wanted})
                self.assertEqual((head.status, head.headers["content-length"]), (200, str(len(data))), address)

    def test_not_modified(self) -> None:
        """A client that has the bytes gets 304 with the header fields that a cache needs."""
        for address in self.addresses:
            whole = self.get(address)
            tag, date = whole.headers["etag"], whole.headers["last-modified"]
            for headers in (
                {"If-None-Match": tag},
                {"If-None-Match": f'"x", W/{tag}'},
                {"If-None-Match": "*"},
                {"If-Modified-Since": date},
                {"If-None-Match": tag, "Range": "bytes=0-1"},
                {"If-None-Match": tag, "If-Modified-Since": http_date(0)},
            ):
                answer = self.get(address, headers)
                self.assertEqual((answer.status, answer.body), (304, b""), (address, headers))
                self.assertNotIn("content-length", answer.headers)
                self.assertNotIn("gamed-protocol", answer.headers)
                kept = {k: v for k, v in self.shown(whole).items() if k != "content-type"}
                self.assertEqual(self.shown(answer), kept)
            for headers in ({"If-None-Match": '"x"'}, {"If-None-Match": '"x"', "If-Modified-Since": date}):
                self.assertEqual(self.get(address, headers).status, 200, (address, headers))

    def test_failed(self) -> None:
        """If-Match with another tag is 412; tags are compared strongly."""
        for address in self.addresses:
            tag = self.get(address).headers["etag"]
            for headers in (
                {"If-Match": '"x"'},
                {"If-Match": f"W/{tag}"},
                {"If-Unmodified-Since": http_date(0)},
                {"If-Match": '"x"', "If-None-Match": tag},
            ):
                self.refused(self.get(address, headers), 412, "version_conflict")
            for good in ({"If-Match": f'"x", {tag}'}, {"If-Match": "*"}, {"If-Unmodified-Since": http_date(2**42)}):
                self.assertEqual(self.get(address, good).status, 200)

    def test_unreadable_tags(self) -> None:
        """Malformed tags are 400; malformed dates are ignored."""
        for address in ("/assets/", *self.addresses, "/assets/none"):
            for headers in ({"If-None-Match": "abc"}, {"If-Match": '"a" "b"'}, {"If-Match": ""}):
                self.refused(self.get(address, headers), 400, "bad_precondition")
        self.assertEqual(self.get("/assets/stable", {"If-Modified-Since": "yesterday"}).status, 200)

    def test_ranges(self) -> None:
        """A range of any representation is 206."""
        for address, data in self.addresses.items():
            size = len(data)
            for wanted, first, last in (
                ("bytes=0-0", 0, 0),
                ("bytes=2-", 2, size - 1),
                ("bytes=-3", size - 3, size - 1),
                (f"bytes=-{size + 9}", 0, size - 1),
                (f"bytes=1-{2**70}", 1, size - 1),
                (f"bytes={size - 1}-{size + 5}", size - 1, size - 1),
            ):
                if not data:
                    continue
                answer = self.get(address, {"Range": wanted})
                self.assertEqual((answer.status, answer.body), (206, data[first : last + 1]), (address, wanted))
                self.assertEqual(answer.headers["content-range"], f"bytes {first}-{last}/{size}")
                self.assertEqual(self.shown(answer), self.shown(self.get(address)))

    def test_ignored_ranges(self) -> None:
        """Several ranges, other units and malformed ranges are ignored."""
        for address, data in self.addresses.items():
            for wanted in (
                "bytes=0-1,3-4",
                "lines=0-1",
                "bytes=3-1",
                "bytes=-",
                "bytes=a-b",
                "bytes 0-1",
                "bytes=0-1,",
            ):
                answer = self.get(address, {"Range": wanted})
                self.assertEqual((answer.status, answer.body), (200, data), (address, wanted))
                self.assertNotIn("content-range", answer.headers)

    def test_unsatisfiable(self) -> None:
        """An unsatisfiable range is 416 with the size, also for an empty file."""
        for address, data in self.addresses.items():
            for wanted in (f"bytes={len(data)}-", "bytes=-0", f"bytes={2**64}-"):
                answer = self.get(address, {"Range": wanted})
                self.refused(answer, 416, "range_not_satisfiable")
                self.assertEqual(answer.headers["content-range"], f"bytes */{len(data)}")
        self.assertEqual(self.get("/assets/stable/empty", {"Range": "bytes=0-"}).status, 416)

    def test_if_range(self) -> None:
        """If-Range with another tag sends everything."""
        for address, data in self.addresses.items():
            if not data:
                continue
            tag = self.get(address).headers["etag"]
            for condition, status in ((tag, 206), (f"W/{tag}", 200), ('"x"', 200), ("nonsense", 200)):
                answer = self.get(address, {"Range": "bytes=1-2", "If-Range": condition})
                self.assertEqual(answer.status, status, (address, condition))
                self.assertEqual(answer.body, data[1:3] if status == 206 else data)

    def test_if_range_by_date(self) -> None:
        """If-Range with a date works below a release, never below a channel."""
        for address, data in self.addresses.items():
            if not data:
                continue
            date = self.get(address).headers["last-modified"]
            status = 200 if "/stable" in address else 206
            self.assertEqual(self.get(address, {"Range": "bytes=0-1", "If-Range": date}).status, status, address)
            earlier = {"Range": "bytes=0-1", "If-Range": http_date(0)}
            self.assertEqual(self.get(address, earlier).status, 200)

    def test_templates(self) -> None:
        """The access log has route templates instead of paths."""
        for address in ("/assets/", *self.addresses, "/assets/none/at/all"):
            self.get(address)
        templates = {"/assets/", "/assets/{name}", "/assets/{name}/{path}", "/assets/objects/{sha256}"}
        self.assertEqual({line["template"] for line in self.browser.log.lines}, templates)
        sizes = [line["size"] for line in self.browser.log.lines if line["template"] == "/assets/objects/{sha256}"]
        self.assertEqual(sizes, [len(data) for data in FILES.values()])

    def test_other_methods(self) -> None:
        """Other methods are 405 with Allow."""
        for address in ("/assets/", *self.addresses):
            for method in ("PUT", "POST", "DELETE", "PATCH", "BREW"):
                answer = self.ask(method, address)
                self.refused(answer, 405, "method_not_allowed")
                self.assertEqual(answer.headers["allow"], "GET, HEAD, OPTIONS")


class ManyFilesTests(ServingCase):
    def test_a_long_manifest(self) -> None:
        """Large files are streamed, completely and in part."""
        name = self.folder.release({f"data/level-{n:04}.pck": SMALL for n in range(2000)})
        text = (self.folder.path / "releases" / f"{name}.json").read_bytes()
        self.assertGreater(len(text), 2 * INLINE_BYTES)
        pieces: list[int] = []
        connection = self.browser.connect()
        write = connection.transport.write
        connection.transport.write = lambda data: pieces.append(len(data)) or write(data)
        connection.send(request_bytes("GET", f"/assets/{name}"))
        self.assertEqual(connection.answer.body, text)
        self.assertLessEqual(max(pieces), CHUNK_BYTES + 1024)  # the first has the head, too
        part = self.get(f"/assets/{name}", {"Range": f"bytes=10-{10 + INLINE_BYTES}"})
        self.assertEqual((part.status, part.body), (206, text[10 : 11 + INLINE_BYTES]))


class NothingTests(ServingCase):
    def test_no_folder(self) -> None:
        """Without any channel the list is empty, with the start of the service as its date."""
        answer = self.get("/assets/")
        self.assertEqual((answer.status, answer.json), (200, {"channels": {}}))
        self.assertEqual(answer.headers["last-modified"], http_date(OPENED_MS))
        self.refused(self.get("/assets/stable"), 404, "channel_not_found")
        self.refused(self.get("/assets/stable/a"), 404, "channel_not_found")
        self.refused(self.get("/assets/r0123456789abcdef"), 404, "release_not_found")
        self.refused(self.get("/assets/r0123456789abcdef/a"), 404, "release_not_found")
        self.refused(self.get(f"/assets/objects/{hexed(b'')}"), 404, "file_not_found")
        self.assertFalse(self.folder.path.exists())

    def test_not_there(self) -> None:
        """A 404 says whether the channel, the release or the file is missing."""
        release = self.folder.publish("stable", FILES)
        for path, code in (
            ("none", "channel_not_found"),
            ("none/data/small.txt", "channel_not_found"),
            ("Stable", "channel_not_found"),
            ("objects", "channel_not_found"),
            ("r0123456789abcdef", "release_not_found"),
            ("r0123456789abcdef/data/small.txt", "release_not_found"),
            (release.upper(), "channel_not_found"),
            (f"{release}0", "channel_not_found"),
            ("stable/data", "file_not_found"),
            ("stable/Data/small.txt", "file_not_found"),
            (f"{release}/data/none", "file_not_found"),
            (f"objects/{hexed(b'other')}", "file_not_found"),
            (f"objects/{hexed(SMALL).upper()}", "file_not_found"),
            (f"objects/{hexed(SMALL)[:63]}", "file_not_found"),
            (f"objects/{hexed(SMALL)}0", "file_not_found"),
            (f"objects/{hexed(SMALL)}/a", "channel_not_found"),
            ("stable/", "route_not_found"),
            ("stable/data/small.txt/", "route_not_found"),
        ):
            answer = self.get(f"/assets/{path}")
            self.refused(answer, 404, code)
            self.assertGreater(len(answer.json["detail"]), 15)
        self.refused(self.get("/assets"), 404, "route_not_found")
