"""The caches are bounded, share reads, and keep descriptors open for threads (docs/protocol.md: Assets)."""

import os
from collections.abc import Callable
from resource import RLIMIT_NOFILE, getrlimit, setrlimit
from typing import TypeVar

from twisted.internet.defer import CancelledError, Deferred

from gamed.assets.cache import CACHE_BYTES, IDLE_FILES, OVERHEAD_BYTES, RELEASE_TTL_SECONDS, SMALL_BYTES, StoredObject
from tests.assets.serving_fixtures import ServingCase, at_once

T = TypeVar("T")
LARGE = b"large " * 50_000


class LimitTests(ServingCase):
    """The limits and lifetimes of cached bytes and open files."""

    most_open = 3

    def files(self, count: int) -> dict[str, bytes]:
        return {str(n): b"%d " % n * SMALL_BYTES for n in range(count)}

    def test_open_files(self) -> None:
        """At the limit of open files the least recently used one is closed."""
        files = self.files(10)
        self.folder.publish("stable", files)
        for _ in range(2):
            for path, data in files.items():
                self.assertEqual(self.get(f"/assets/stable/{path}").body, data)
                self.assertLessEqual(len(self.objects.open), 3)
        self.clock.advance(RELEASE_TTL_SECONDS + 1)
        self.objects.discard_expired()
        self.assertEqual(self.objects.open, set())

    def test_idle_files(self) -> None:
        """Only a few idle files stay open."""
        self.most_open = 10 * IDLE_FILES
        self.browser = self.new_browser()
        files = self.files(IDLE_FILES + 5)
        self.folder.publish("stable", files)
        for path in files:
            self.get(f"/assets/stable/{path}", {"Range": "bytes=0-9"})
        self.assertEqual(len(self.objects.open), IDLE_FILES)

    def test_files_after_use(self) -> None:
        """Files that were in use at once are closed as their uses end, but for the few that were used last."""
        self.most_open = 10 * IDLE_FILES
        self.browser = self.new_browser()
        names = [self.folder.object_path(data).name for data in self.files(IDLE_FILES + 5).values()]
        self.folder.publish("stable", self.files(IDLE_FILES + 5))
        held = [self.successResultOf(self.deferred(name)) for name in names]
        for stored in held:
            stored.close()
        self.assertEqual(len(self.objects.open), IDLE_FILES)

    def test_none_left(self) -> None:
        """A request is 503 while all files that may be open are being sent."""
        files = self.files(4)
        self.folder.publish("stable", files)
        names = [self.folder.object_path(data).name for data in files.values()]
        held = [self.successResultOf(self.deferred(name)) for name in names[:3]]
        answer = self.get("/assets/stable/3")
        self.refused(answer, 503, "busy")
        self.assertEqual(answer.headers["retry-after"], "1")
        held.pop().close()
        self.assertEqual(self.get("/assets/stable/3").body, files["3"])
        for stored in held:
            stored.close()

    def test_no_descriptors(self) -> None:
        """A request is 503 if the process cannot open files; cached files are served."""
        files = self.files(2)
        release = self.folder.publish("stable", files)
        self.assertEqual(self.get("/assets/stable/0").body, files["0"])
        soft, hard = getrlimit(RLIMIT_NOFILE)
        setrlimit(RLIMIT_NOFILE, (3, hard))
        try:
            self.clock.advance(1)
            answers = [self.get(f"/assets/{path}") for path in ("stable/1", f"{release}/1", "r0123456789abcdef")]
            known = self.get("/assets/stable/0")
        finally:
            setrlimit(RLIMIT_NOFILE, (soft, hard))
        for answer in answers:
            self.refused(answer, 503, "busy")
        self.assertEqual(known.body, files["0"])
        self.assertEqual(self.get("/assets/stable/1").body, files["1"])

    def deferred(self, name: str) -> Deferred[StoredObject]:
        return Deferred.fromCoroutine(self.objects.get(name))

    def test_small_ones(self) -> None:
        """Small objects are cached up to a limit; the least recently used one is discarded first."""
        files = {str(n): b"%08d" % n * (SMALL_BYTES // 8) for n in range(CACHE_BYTES // SMALL_BYTES + 20)}
        self.folder.publish("stable", files)
        for path, data in files.items():
            self.assertEqual(self.get(f"/assets/stable/{path}").body, data)
            self.get("/assets/stable/0")
        kept = self.objects._small
        self.assertLessEqual(len(kept) * (SMALL_BYTES + OVERHEAD_BYTES), CACHE_BYTES)
        self.assertIn(self.folder.object_path(files["0"]).name, kept)
        self.assertNotIn(self.folder.object_path(files["1"]).name, kept)
        self.clock.advance(RELEASE_TTL_SECONDS + 1)
        self.objects.discard_expired()
        self.assertEqual((len(kept), self.objects._memory_bytes), (0, 0))


class TogetherTests(ServingCase):
    """A test with threads that end when the test says so; with `early` they do their work at the start."""

    early = False

    def setUp(self) -> None:
        super().setUp()
        self.waiting: list[Callable[[], None]] = []

    def run_in_thread(self, work: Callable[[], T]) -> Deferred[T]:
        done: Deferred[T] = Deferred()
        result = at_once(work) if self.early else None
        self.waiting.append(lambda: (result or at_once(work)).chainDeferred(done))
        return done

    def land(self) -> None:
        waiting, self.waiting = self.waiting, []
        for land in waiting:
            land()

    def land_all(self) -> None:
        while self.waiting:
            self.land()

    def test_one_read_for_all(self) -> None:
        """Requests during a read share it; a client that leaves does not stop it."""
        self.folder.publish("stable", {"large": LARGE})
        calls = [self.browser.send("GET", "/assets/stable/large") for _ in range(5)]
        self.assertEqual(len(self.waiting), 1)
        calls[0].leave()
        self.land()
        self.assertEqual(len(self.waiting), 1)
        self.land_all()
        self.assertEqual([call.answer.body for call in calls[1:]], [LARGE] * 4)
        self.assertEqual(len(self.objects.open), 1)

    def test_all_leave(self) -> None:
        """A file whose clients have all left is cached until it expires."""
        self.folder.publish("stable", {"large": LARGE})
        calls = [self.browser.send("GET", "/assets/stable/large") for _ in range(2)]
        self.land()
        for call in calls:
            call.leave()
        self.land_all()
        self.assertEqual([file.is_idle for file in self.objects.open], [True])
        self.objects.close()
        self.assertEqual(self.objects.open, set())

    def test_left_while_it_is_read(self) -> None:
        """A descriptor stays open until the thread has ended, so that no other file gets its number."""
        self.folder.publish("stable", {"large": LARGE})
        call = self.browser.send("GET", "/assets/stable/large")
        for _ in range(2):
            self.land()
        [file] = self.objects.open
        descriptor = file.fileno()
        call.leave()
        self.objects.close()
        os.fstat(descriptor)
        self.assertEqual(self.objects.open, {file})
        self.land_all()
        self.assertEqual(self.objects.open, set())
        with self.assertRaises(OSError):
            os.fstat(descriptor)

    def test_left_while_a_part_is_read(self) -> None:
        """The same holds for a short read whose client leaves."""
        self.folder.publish("stable", {"large": LARGE})
        call = self.browser.send("HEAD", "/assets/stable/large")
        self.land_all()
        call.leave()
        [file] = self.objects.open
        lease = file.lease()
        reading = lease.read(0, 1000)
        reading.addErrback(lambda reason: reason.trap(CancelledError))
        reading.cancel()
        lease.close()
        self.objects.close()
        self.assertEqual(self.objects.open, {file})
        self.land_all()
        self.assertEqual(self.objects.open, set())

    def test_truncated_before_a_part_is_sent(self) -> None:
        """A file that is cut off before a short part is read is 500."""
        self.folder.publish("stable", {"large": LARGE})
        self.early = True
        call = self.browser.send("GET", "/assets/stable/large", {"Range": "bytes=-1000"})
        self.land()
        os.truncate(self.folder.object_path(LARGE), len(LARGE) - 10)
        self.land_all()
        self.refused(call.answer, 500, "internal_error")

    def test_truncated_while_it_is_sent(self) -> None:
        """A file that is cut off while it is sent aborts the connection."""
        self.crashes = True
        self.browser = self.new_browser()
        self.folder.publish("stable", {"large": LARGE})
        call = self.browser.send("GET", "/assets/stable/large")
        for _ in range(3):
            self.land()
        os.truncate(self.folder.object_path(LARGE), 1000)
        self.land_all()
        self.assertTrue(call.closed)
        self.assertLess(len(call.raw), len(LARGE))
        self.assertIn(b"Content-Length: %d" % len(LARGE), call.raw)
        self.assertEqual([file.is_idle for file in self.objects.open], [True])
