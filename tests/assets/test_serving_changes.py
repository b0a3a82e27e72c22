"""Channels are moved, releases deleted and files damaged while they are served (docs/protocol.md: Assets)."""

import os
from collections.abc import Callable
from typing import TypeVar

from twisted.internet.defer import Deferred

from gamed.assets.cache import CACHED_RELEASES, RELEASE_TTL_SECONDS
from gamed.timestamps import http_date
from tests.assets.serving_fixtures import NOW_MS, ServingCase
from tests.support.covers import covers

T = TypeVar("T")
OLD, NEW = b"the old bytes", b"the new ones"
LARGE = b"large " * 50_000


class MovingTests(ServingCase):
    def test_seen_within_a_second(self) -> None:
        """A channel that is set, created or deleted is seen within a second at every address."""
        old = self.folder.publish("stable", {"a": OLD})
        self.assertEqual(self.get("/assets/stable/a").body, OLD)
        new = self.folder.publish("stable", {"a": NEW})
        self.folder.point("beta", old)
        self.clock.advance(1)
        for path in ("", "/a"):
            self.assertEqual(self.get(f"/assets/stable{path}").headers["asset-release"], new)
        self.assertEqual(self.get("/assets/stable/a").body, NEW)
        self.assertEqual(
            {name: shown["release"] for name, shown in self.listed().items()}, {"beta": old, "stable": new}
        )
        (self.folder.path / "channels" / "beta.json").unlink()
        self.clock.advance(1)
        self.assertEqual(list(self.listed()), ["stable"])
        self.refused(self.get("/assets/beta/a"), 404, "channel_not_found")

    def listed(self) -> dict[str, dict[str, str]]:
        found: dict[str, dict[str, str]] = self.get("/assets/").json["channels"]
        return found

    def test_not_read_for_each_request(self) -> None:
        """The folder is read once in half a second, however many requests arrive."""
        self.folder.publish("stable", {"a": OLD})
        self.get("/assets/stable/a")
        before = self.away
        for _ in range(20):
            self.get("/assets/stable/a")
            self.get("/assets/")
        self.assertEqual(self.away, before)

    away = 0

    def run_in_thread(self, work: Callable[[], T]) -> Deferred[T]:
        self.away += 1
        return super().run_in_thread(work)

    def test_old_release_stays(self) -> None:
        """The old release stays the same at its own id."""
        old = self.folder.publish("stable", {"a": OLD})
        whole = self.get(f"/assets/{old}/a")
        self.folder.publish("stable", {"a": NEW})
        self.clock.advance(1)
        again = self.get(f"/assets/{old}/a")
        self.assertEqual((again.status, again.body), (200, OLD))
        self.assertEqual(again.headers["etag"], whole.headers["etag"])
        self.assertEqual(self.get(f"/assets/{old}").status, 200)

    def test_back_is_a_change(self) -> None:
        """After a rollback a revalidation by date gets the new content."""
        old = self.folder.publish("stable", {"a": OLD}, at_ms=NOW_MS - 60_000)
        new = self.folder.release({"a": NEW}, at_ms=NOW_MS - 30_000)
        self.folder.point("stable", new, NOW_MS - 30_000)
        date = self.get("/assets/stable/a").headers["last-modified"]
        self.assertEqual(self.get("/assets/stable/a", {"If-Modified-Since": date}).status, 304)
        self.folder.point("stable", old, NOW_MS)
        self.clock.advance(1)
        for path in ("", "/a"):
            answer = self.get(f"/assets/stable{path}", {"If-Modified-Since": date})
            self.assertEqual((answer.status, answer.headers["last-modified"]), (200, http_date(NOW_MS)))
        self.assertEqual(self.get("/assets/stable/a").body, OLD)

    def test_same_bytes_again(self) -> None:
        """A file that both releases have is 304 by its tag."""
        self.folder.publish("stable", {"a": OLD, "b": OLD})
        tag = self.get("/assets/stable/a").headers["etag"]
        self.folder.publish("stable", {"a": OLD, "b": NEW})
        self.clock.advance(1)
        self.assertEqual(self.get("/assets/stable/a", {"If-None-Match": tag}).status, 304)
        self.assertEqual(self.get("/assets/stable/b", {"If-None-Match": tag}).status, 200)

    @covers("threats/56")
    def test_resumed_across_a_move(self) -> None:
        """A download that is resumed by tag gets the rest of the same bytes, or all of the new ones."""
        old = self.folder.publish("stable", {"a": LARGE})
        tag = self.get("/assets/stable/a").headers["etag"]
        self.folder.publish("stable", {"a": LARGE[::-1]})
        self.clock.advance(1)
        wanted = {"Range": "bytes=1000-", "If-Range": tag}
        moved, pinned = self.get("/assets/stable/a", wanted), self.get(f"/assets/{old}/a", wanted)
        self.assertEqual((moved.status, moved.body), (200, LARGE[::-1]))
        self.assertEqual((pinned.status, pinned.body), (206, LARGE[1000:]))


class GoneTests(ServingCase):
    def test_deleted_release(self) -> None:
        """A deleted release is 404 after a minute, and at once if one of its files is missing."""
        gone = self.folder.release({"a": OLD, "b": NEW})
        self.assertEqual(self.get(f"/assets/{gone}/a").body, OLD)
        (self.folder.path / "releases" / f"{gone}.json").unlink()
        self.folder.object_path(NEW).unlink()
        self.refused(self.get(f"/assets/{gone}/b"), 404, "release_not_found")
        self.clock.advance(RELEASE_TTL_SECONDS + 1)
        self.folder.object_path(OLD).unlink()
        self.refused(self.get(f"/assets/{gone}"), 404, "release_not_found")
        self.refused(self.get(f"/assets/objects/{self.folder.object_path(OLD).name}"), 404, "file_not_found")

    def test_deleted_release_of_channel(self) -> None:
        """A release that a channel pointed at is 404 when it is deleted, also if no channel is requested since."""
        gone = self.folder.publish("stable", {"a": OLD})
        self.assertEqual(self.get("/assets/stable/a").body, OLD)
        self.clock.advance(RELEASE_TTL_SECONDS + 1)
        self.assertEqual(self.get(f"/assets/{gone}/a").body, OLD)
        self.folder.publish("stable", {"a": OLD, "b": NEW})
        (self.folder.path / "releases" / f"{gone}.json").unlink()
        self.clock.advance(1)
        for path in ("", "/a"):
            self.refused(self.get(f"/assets/{gone}{path}"), 404, "release_not_found")

    def test_many_releases(self) -> None:
        """A few releases are cached; all on disk are served."""
        names = [self.folder.release({"a": OLD}, note=str(n)) for n in range(3 * CACHED_RELEASES)]
        for name in [*names, *names]:
            self.assertEqual(self.get(f"/assets/{name}/a").body, OLD)
        self.assertEqual(len(self.library._releases), CACHED_RELEASES)

    def test_unknown_names_are_not_remembered(self) -> None:
        """Requests for unknown names leave nothing in memory."""
        self.folder.publish("stable", {"a": OLD})
        for n in range(200):
            self.get(f"/assets/r{n:016x}")
            self.get(f"/assets/c{n}")
            self.get(f"/assets/objects/{n:064x}")
        self.assertEqual((len(self.library._releases), len(self.objects._small), len(self.objects._large)), (0, 0, 0))


@covers("threats/56")
class DamagedTests(ServingCase):
    """Damaged files, which are 500 while everything else is served."""

    def setUp(self) -> None:
        super().setUp()
        self.release = self.folder.publish("stable", {"small": OLD, "large": LARGE, "good": NEW})

    def refuses(self, path: str, code: str = "internal_error") -> None:
        for method in ("GET", "HEAD"):
            for name in ("stable", self.release):
                answer = self.ask(method, f"/assets/{name}/{path}")
                self.assertEqual(answer.status, 500)
        self.refused(self.get(f"/assets/stable/{path}"), 500, code)
        self.assertIn("gamed assets verify", self.browser.events[-1])
        self.assertEqual(self.get("/assets/stable/good").body, NEW)

    def test_truncated(self) -> None:
        """A file that is too short is noticed before the head is sent."""
        for path, data in (("small", OLD), ("large", LARGE)):
            os.truncate(self.folder.object_path(data), len(data) - 1)
            self.refuses(path)
        self.assertEqual(self.get("/assets/stable").status, 200)

    def test_truncated_while_it_is_known(self) -> None:
        """A file that is cut off while it is open is noticed, too."""
        self.assertEqual(self.get("/assets/stable/large").body, LARGE)
        os.truncate(self.folder.object_path(LARGE), 100_000)
        self.refuses("large")

    def test_longer(self) -> None:
        for path, data in (("small", OLD), ("large", LARGE)):
            with self.folder.object_path(data).open("ab") as file:
                file.write(b"more")
            self.refuses(path)

    def test_other_bytes(self) -> None:
        """Small files are hashed before they are served; the client and `gamed assets verify` hash large ones."""
        self.folder.object_path(OLD).write_bytes(OLD[::-1])
        self.refuses("small")

    def test_missing(self) -> None:
        for path, data in (("small", OLD), ("large", LARGE)):
            self.folder.object_path(data).unlink()
            self.refuses(path)

    def test_repaired(self) -> None:
        """A repaired file is served at once."""
        self.folder.object_path(LARGE).unlink()
        self.refuses("large")
        self.folder.object(LARGE)
        self.assertEqual(self.get("/assets/stable/large").body, LARGE)

    def test_replaced(self) -> None:
        """A file that replaces a damaged one is read instead of the open one."""
        path = self.folder.object_path(LARGE)
        path.write_bytes(LARGE[::-1])
        self.assertEqual(self.get("/assets/stable/large").body, LARGE[::-1])
        self.folder.object(LARGE)
        self.assertEqual(self.get("/assets/stable/large").body, LARGE)

    def test_manifest(self) -> None:
        """A channel with a damaged manifest is not listed; the other channels are."""
        other = self.folder.publish("beta", {"b": NEW})
        self.folder.put(f"releases/{self.release}.json", b'{"format":1}')
        self.browser = self.new_browser()
        self.refuses_name("stable")
        self.refused(self.get(f"/assets/{self.release}"), 500, "internal_error")
        self.assertEqual(list(self.get("/assets/").json["channels"]), ["beta"])
        self.assertEqual(self.get("/assets/beta").headers["asset-release"], other)

    def refuses_name(self, name: str) -> None:
        self.refused(self.get(f"/assets/{name}"), 500, "internal_error")
        self.refused(self.get(f"/assets/{name}/good"), 500, "internal_error")
        self.assertTrue([event for event in self.browser.events if f"channel_unavailable channel={name} " in event])

    def test_pointer(self) -> None:
        """A channel with a damaged pointer is 500; once repaired it is served within a second."""
        for text in (b"", b"{", b"[]", self.pointer("r0123456789abcdef")):
            self.folder.put("channels/stable.json", text)
            self.browser = self.new_browser()
            self.refuses_name("stable")
            self.assertEqual(self.get("/assets/").json, {"channels": {}})
            self.folder.point("stable", self.release)
            self.clock.advance(1)
            self.assertEqual(self.get("/assets/stable/good").body, NEW)

    def pointer(self, release: str) -> bytes:
        self.folder.point("other", release)
        path = self.folder.path / "channels" / "other.json"
        text = path.read_bytes()
        path.unlink()
        return text

    def test_unreadable(self) -> None:
        """While the folder cannot be read, the last snapshot is served."""
        self.assertEqual(self.get("/assets/stable/good").body, NEW)
        channels = self.folder.path / "channels"
        channels.rename(channels.with_name("away"))
        channels.write_bytes(b"")
        self.clock.advance(1)
        self.assertEqual(self.get("/assets/stable/good").body, NEW)
        self.browser = self.new_browser()
        self.refused(self.get("/assets/stable/good"), 500, "internal_error")
        self.refused(self.get("/assets/"), 500, "internal_error")
