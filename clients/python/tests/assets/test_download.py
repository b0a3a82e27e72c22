"""A download brings one complete release, fetches only new bytes, and continues interrupted files."""

import contextlib
import os
import socket
import threading
import time
from functools import partial
from hashlib import sha256

from clients.python.tests.assets.cases import FIRST, PIECE, SECOND, AssetsCase, tree
from clients.python.tests.assets.fake_server import headers_of, manifest
from clients.python.tests.client.fake_server import LOST, Reply, problem
from tests.support.covers import covers
from tests.support.python_client import gamed_assets as ga
from tests.support.python_client import gamed_client as gc

LEVEL1 = FIRST["data/level1.pck"]


def object_path(data: bytes) -> str:
    return f"/assets/objects/{sha256(data).hexdigest()}"


class Downloads(AssetsCase):
    def test_first(self) -> None:
        """Every file has its own path; bytes that two paths share are fetched once; no temporary file is left."""
        release = self.fake.publish(FIRST, note="1.0")
        self.assertIsNone(self.assets.current)
        self.assertRaises(gc.Unreachable, self.assets.path, "data/level1.pck")
        reports: list[ga.Progress] = []
        found = self.assets.download(progress=reports.append)
        self.assertEqual((found.release, found.note, found.size), (release, "1.0", sum(map(len, FIRST.values()))))
        self.assert_has(FIRST)
        self.assertEqual(self.fake.served, sum(map(len, FIRST.values())) - 900)
        self.assertEqual(self.assets.path("data/level1.pck").read_bytes(), LEVEL1)
        self.assertEqual((self.folder / "current").read_text(), f"{release}\n")
        self.assertEqual(list((self.folder / "staging").iterdir()), [])
        self.assertEqual([reports[0].stage, reports[-1].stage], ["looking", "finishing"])
        self.assertEqual(
            (reports[-1].done, reports[-1].size, reports[-1].fetched), (found.size, found.size, self.fake.served)
        )
        self.assertRaises(gc.NotFound, self.assets.path, "data/level9.pck")

    def test_pieces(self) -> None:
        """A large file is fetched in ranges of its own version; a small one in one request without any."""
        self.fake.publish(FIRST)
        self.assets.download()
        ranges = {seen.headers["Range"] for seen in self.fake.asked() if seen.path == object_path(LEVEL1)}
        self.assertEqual(ranges, {"bytes=0-9999", "bytes=10000-19999", "bytes=20000-29999", "bytes=30000-30699"})
        small = [seen for seen in self.fake.asked() if seen.path == object_path(FIRST["data/level2.pck"])]
        self.assertEqual([seen.headers.get("Range") for seen in small], [None])

    def test_next(self) -> None:
        """Only new bytes are fetched, not moved files; the old release is deleted when no process uses it."""
        old = self.fake.publish(FIRST)
        self.assets.download()
        self.fake.served = 0
        new = self.fake.publish(SECOND)
        self.assets.download()
        self.assert_has(SECOND)
        self.assertEqual(self.fake.served, 1500 + PIECE)
        self.assertEqual(sorted(path.name for path in (self.folder / "releases").iterdir()), [new, f"{new}.json"])
        self.assertNotEqual(old, new)

    def test_nothing_new(self) -> None:
        """The request names the local release; no file is read, fetched or written."""
        release = self.fake.publish(FIRST)
        self.assets.download()
        asked, known = len(self.fake.asked()), (self.folder / "known").stat()
        self.patch(ga, "digest_of", lambda file: self.fail("read again"))
        self.assets.download()
        self.assertEqual(self.fake.seen[-1].headers["If-None-Match"], f'"{release}"')
        self.assertEqual(
            (len(self.fake.asked()), (self.folder / "known").stat().st_mtime_ns), (asked, known.st_mtime_ns)
        )
        self.assert_has(FIRST)

    def test_unknown_files(self) -> None:
        """Without the list of verified files every file is read, and no good one is fetched."""
        self.fake.publish(FIRST)
        self.assets.download()
        (self.folder / "known").unlink()
        (self.folder / "current").unlink()
        self.fake.served = 0
        self.assets.download()
        self.assertEqual(self.fake.served, 0)
        (self.folder / "known").write_bytes(
            b'["torn',
        )
        self.assets.download()
        self.assert_has(FIRST)

    def test_damaged_file(self) -> None:
        """A file that was changed, cut or lost here is fetched again; with `verify` also one with an unchanged time."""
        self.fake.publish(FIRST)
        self.assets.download()
        folder = self.assets.current.folder
        (folder / "data/level1.pck").write_bytes(bytes(len(LEVEL1)))
        (folder / "data/level2.pck").write_bytes(b"cut")
        (folder / "empty.txt").unlink()
        self.assets.download()
        self.assert_has(FIRST)
        hidden = folder / "sounds/größe ☃.ogg"
        times = hidden.stat()
        hidden.write_bytes(bytes(times.st_size))
        os.utime(hidden, ns=(times.st_atime_ns, times.st_mtime_ns))
        self.assets.download()
        self.assertNotEqual(tree(folder), FIRST)
        self.assets.download(verify=True)
        self.assert_has(FIRST)

    def test_pinned(self) -> None:
        """The id of a release downloads that one, whatever the channel has."""
        old = self.fake.publish(FIRST)
        self.fake.publish(SECOND)
        self.assertEqual(self.assets.download(old).release, old)
        self.assert_has(FIRST)

    def test_channels(self) -> None:
        """Another channel is downloaded, a missing one is an error, and an invalid name is not sent."""
        self.fake.publish(FIRST)
        self.fake.publish(SECOND, "beta")
        self.assets.download("beta")
        self.assert_has(SECOND)
        self.raised(gc.NotFound, "channel_not_found", channel="gamma")
        self.raised(gc.NotFound, "release_not_found", channel="r0123456789abcdef")
        asked = len(self.fake.seen)
        self.raised(gc.Refused, "invalid_channel", channel="../game/saves")
        self.assertEqual(len(self.fake.seen), asked)
        self.assert_has(SECOND)

    def test_empty_release(self) -> None:
        """A release may have no files."""
        self.fake.publish({})
        self.assets.download()
        self.assert_has({})

    def test_without_a_network(self) -> None:
        """Downloaded files are complete and usable while no server responds."""
        self.fake.publish(FIRST)
        self.assets.download()
        self.fake.stop()
        self.patch(self.fake, "stop", lambda: None)
        self.assert_has(FIRST)
        self.raised(gc.Unreachable, "unreachable")
        self.assert_has(FIRST)

    def test_no_hard_links(self) -> None:
        """On a file system without hard links unchanged files are copied."""
        self.patch(os, "link", self.refuse_link)
        self.fake.publish(FIRST)
        self.assets.download()
        self.fake.publish(SECOND)
        self.assets.download()
        self.assert_has(SECOND)

    def refuse_link(self, *names: object) -> None:
        raise OSError("no links here")


@covers("threats/60")
class Pins(AssetsCase):
    """A player never loads half of one release and half of another."""

    def test_in_use(self) -> None:
        """A release that a process has open is kept, and that process keeps it until it switches."""
        old = self.fake.publish(FIRST)
        self.assets.download()
        playing = self.another()
        self.assertEqual(playing.current.id, old)
        new = self.fake.publish(SECOND)
        self.assets.download()
        self.assertEqual((playing.current.id, self.assets.current.id), (old, new))
        self.assertEqual(tree(playing.current.folder), FIRST)
        self.assertEqual(playing.switch().id, new)
        self.assets.download()
        self.assertFalse((self.folder / "releases" / old).exists())
        self.assertEqual({mark.name.split(".")[0] for mark in (self.folder / "use").iterdir()}, {new})

    def test_let_go(self) -> None:
        """A closed release leaves no mark, so that starts of the game do not accumulate marks."""
        self.fake.publish(FIRST)
        self.assets.download()
        self.assertEqual(self.assets.switch().id, self.assets.current.id)
        self.assertEqual(len(list((self.folder / "use").iterdir())), 1)
        self.assets.close()
        self.assertEqual(list((self.folder / "use").iterdir()), [])

    def test_process_that_is_gone(self) -> None:
        """The mark of a process that has ended keeps no release."""
        old = self.fake.publish(FIRST)
        self.assets.download()
        (self.folder / "use" / f"{old}.1-dead").touch()
        self.fake.publish(SECOND)
        self.assets.download()
        self.assertFalse((self.folder / "releases" / old).exists())
        self.assertEqual(list((self.folder / "use").iterdir()), [])

    def test_one_at_a_time(self) -> None:
        """A second download into the folder is refused while one runs."""
        self.fake.publish(FIRST)
        found = []
        self.fake.watch = lambda request: found.append(self.raised(gc.GamedError, "in_use")) if not found else None
        self.assets.download()
        self.assertIsInstance(found[0], ga.InUse)

    def test_published_meanwhile(self) -> None:
        """A download ends with the release that it began; the next one fetches the new one."""
        old, new = self.fake.publish(FIRST), []

        def publish(request: object) -> None:
            if len(self.fake.asked()) == 2 and not new:
                new.append(self.fake.publish(SECOND))

        self.patch(ga, "WORKERS", 1)
        self.fake.watch = publish
        self.assertEqual(self.assets.download().release, old)
        self.assert_has(FIRST)
        self.assertEqual([self.assets.download().release], new)
        self.assert_has(SECOND)

    def test_removed_meanwhile(self) -> None:
        """A download whose release the server has deleted starts again with the newest one."""
        old, new = self.fake.publish(FIRST), []

        def replace(request: object) -> None:
            if len(self.fake.asked()) == 2 and not new:
                self.fake.withdraw(old)
                new.append(self.fake.publish({"only": b"this"}))

        self.patch(ga, "WORKERS", 1)
        self.fake.watch = replace
        self.assertEqual([self.assets.download().release], new)
        self.assert_has({"only": b"this"})
        self.fake.publish(FIRST)
        self.fake.objects.clear()
        self.raised(gc.NotFound, "file_not_found")
        self.assert_has({"only": b"this"})


class Interrupted(AssetsCase):
    """Received bytes are not fetched again."""

    def test_stopped(self) -> None:
        """The game ends a download while the server sends nothing; the next one asks for the rest, in bytes."""
        self.fake.publish({"big": LEVEL1})
        self.patch(ga, "WORKERS", 1)
        waits, goes_on = threading.Event(), threading.Event()
        self.addCleanup(goes_on.set)

        def hold(request: object) -> None:
            if len(self.fake.asked()) == 2 and not waits.is_set():
                waits.set()
                goes_on.wait(60)

        def leave(progress: ga.Progress) -> None:
            if waits.is_set():
                raise KeyboardInterrupt

        self.fake.watch = hold
        began = time.monotonic()
        self.assertRaises(KeyboardInterrupt, self.assets.download, progress=leave)
        self.assertLess(time.monotonic() - began, ga.TIMEOUT_SECONDS)
        self.assertIsNone(self.assets.current)
        self.assertEqual(sum(part.stat().st_size for part in (self.folder / "staging").iterdir()), 2 * PIECE)
        self.fake.served = 0
        self.assets.download()
        self.assertEqual(self.fake.served, len(LEVEL1) - 2 * PIECE)
        self.assert_has({"big": LEVEL1})

    def test_cancelled(self) -> None:
        """A cancelled client ends a download at once; the next one is whole."""
        self.fake.publish(FIRST)
        cancellation, goes_on = gc.Cancellation(), threading.Event()
        self.addCleanup(goes_on.set)

        def hold(request: object) -> None:
            if len(self.fake.asked()) > ga.WORKERS:
                cancellation.cancel()
                goes_on.wait(60)

        self.fake.watch = hold
        began = time.monotonic()
        with ga.Assets(self.client.cancellable(cancellation), self.folder) as assets:
            self.assertRaises(gc.Cancelled, assets.download)
            self.assertLess(time.monotonic() - began, gc.TIMEOUT_SECONDS / 2)
            asked = len(self.fake.asked())
            self.assertRaises(gc.Cancelled, assets.download)
        time.sleep(0.3)
        self.assertEqual(len(self.fake.asked()), asked)
        goes_on.set()
        self.assets.download()
        self.assert_has(FIRST)

    def test_answers_that_break_off(self) -> None:
        """A response that is lost before or in its body is requested again from the interruption."""
        self.fake.publish({"big": LEVEL1})
        path = object_path(LEVEL1)
        first = Reply(206, LEVEL1[:PIECE], {"Content-Range": f"bytes 0-9999/{len(LEVEL1)}"}, torn=6000)
        self.patch(ga, "WORKERS", 1)
        self.fake.scripted["GET", path] += [first, LOST, LOST]
        self.assets.download()
        self.assertEqual(
            [seen.headers["Range"] for seen in self.fake.asked()][:4], ["bytes=0-9999"] + ["bytes=4000-9999"] * 3
        )
        self.assert_has({"big": LEVEL1})

    def test_answers_that_always_break_off(self) -> None:
        """The download continues as long as each response brings some bytes."""
        self.fake.publish({"big": LEVEL1})
        self.patch(ga, "WORKERS", 1)
        for start in range(0, PIECE, 1000):
            where = {"Content-Range": f"bytes {start}-9999/{len(LEVEL1)}"}
            torn = Reply(206, LEVEL1[start:PIECE], where, torn=PIECE - start - 1000)
            self.fake.scripted["GET", object_path(LEVEL1)] += [torn]
        self.assets.download()
        self.assert_has({"big": LEVEL1})
        self.assertEqual(len(self.pauses), 9)

    def test_connection_that_was_closed(self) -> None:
        """After the server closes an idle connection, the request is sent again at once."""
        with socket.create_server(("127.0.0.1", 0)) as server:
            threading.Thread(target=self.hang_up, args=(server,), daemon=True).start()
            client = gc.GamedClient(f"http://127.0.0.1:{server.getsockname()[1]}", folder=self.root / "other")
            line = ga.Line(client.wire)
            for _ in range(3):
                response = line.get("/assets/objects/x", {}, None)
                self.assertEqual(line.block(response, 2), b"ok")
                line.done(response)
            line.close()
        self.assertEqual(self.pauses, [])

    def test_hang_up(self) -> None:
        """A request on a used connection that another thread ends is not sent again."""
        with socket.create_server(("127.0.0.1", 0)) as server:
            client = gc.GamedClient(f"http://127.0.0.1:{server.getsockname()[1]}", folder=self.root / "other")
            line, asked = ga.Line(client.wire), []

            def serve() -> None:
                connection, _ = server.accept()
                with connection, contextlib.suppress(OSError):
                    asked.append(connection.recv(1 << 16))
                    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
                    asked.append(connection.recv(1 << 16))
                    line.hang_up()
                    connection.recv(1 << 16)
                server.settimeout(1)
                with contextlib.suppress(TimeoutError), server.accept()[0]:
                    asked.append(b"again")

            serving = threading.Thread(target=serve, daemon=True)
            serving.start()
            line.block(line.get("/assets/objects/x", {}, None), 2)
            self.assertRaises(gc.Unreachable, line.get, "/assets/objects/y", {}, None)
            line.close()
            serving.join(10)
        self.assertEqual([request[:21] for request in asked], [b"GET /assets/objects/x", b"GET /assets/objects/y"])

    def hang_up(self, server: socket.socket) -> None:
        """Close the connection after each response."""
        with contextlib.suppress(OSError):
            while True:
                connection, _ = server.accept()
                with connection:
                    connection.recv(1 << 16)
                    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    def test_next_release(self) -> None:
        """Files of an interrupted download are used for the next release."""
        self.fake.publish(FIRST)
        self.fake.scripted["GET", object_path(FIRST["sounds/größe ☃.ogg"])] += [problem(404, "file_not_found")]
        self.patch(ga, "RESTARTS", 1)
        self.patch(ga, "WORKERS", 1)
        self.raised(gc.NotFound, "file_not_found")
        self.assertGreater(self.fake.served, 0)
        self.fake.publish(SECOND)
        self.assets.download()
        self.assert_has(SECOND)
        self.assertLessEqual(self.fake.served, sum(map(len, {*FIRST.values(), *SECOND.values()})))

    def test_patience(self) -> None:
        """A busy or absent server is asked again after its Retry-After, until the tries are used up."""
        self.fake.publish({"a": b"bytes"})
        path = object_path(b"bytes")
        self.fake.scripted["GET", path] += [problem(503, "busy", 2), problem(429, "rate_limited", 3), LOST]
        self.assets.download()
        self.assertTrue(2 <= self.pauses[0] <= 4.2 and 3 <= self.pauses[1] <= 6.2, self.pauses)
        self.fake.publish({"b": b"other"})
        self.fake.scripted["GET", object_path(b"other")] += [problem(503, "busy", 1)] * 4
        self.raised(gc.Busy, "busy")
        self.fake.scripted["GET", object_path(b"other")] += [problem(503, "busy", 300)]
        self.assertEqual(self.raised(gc.Busy, "busy").retry_after, 300)
        self.assets.download()
        self.assert_has({"b": b"other"})


@covers("threats/59")
class Misbehaviour(AssetsCase):
    """The old release stays, and no wrong bytes become current, whatever the server sends."""

    def setUp(self) -> None:
        super().setUp()
        self.fake.publish(FIRST)
        self.assets.download()
        self.data = b"new bytes"
        self.path = object_path(self.data)
        self.release = self.fake.publish({"new": self.data})

    def refused(self, error: type[Exception], code: str) -> None:
        self.raised(error, code)
        self.assert_has(FIRST)

    def test_damaged_once(self) -> None:
        """Bytes with another hash are deleted and fetched again."""
        self.fake.scripted["GET", self.path] += [Reply(200, b"mad bytes")]
        self.assets.download()
        self.assert_has({"new": self.data})

    def test_damaged_always(self) -> None:
        self.fake.objects[sha256(self.data).hexdigest()] = b"mad bytes"
        self.refused(gc.DownloadCorrupt, "download_corrupt")
        self.assertEqual(list((self.folder / "staging").iterdir()), [])

    def test_more_than_promised(self) -> None:
        """A file that is larger than its release says is not read."""
        self.fake.scripted["GET", self.path] += [Reply(200, self.data + b"more")] * 4
        self.refused(gc.DownloadCorrupt, "download_corrupt")
        endless = Reply(200, self.data + b"x" * 500_000, {"Content-Length": str(len(self.data))})
        self.fake.scripted["GET", self.path] += [endless]
        self.assets.download()
        self.assert_has({"new": self.data})

    def test_less_than_promised(self) -> None:
        self.fake.scripted["GET", self.path] += [Reply(200, b"new")] * 4
        self.refused(gc.DownloadCorrupt, "download_corrupt")

    def test_redirect(self) -> None:
        """No redirect is followed, neither for the manifest nor for a file."""
        elsewhere = Reply(302, b"", {"Location": f"{self.server}/assets/objects/{sha256(LEVEL1).hexdigest()}"})
        self.fake.scripted["GET", self.path] += [elsewhere]
        asked = len(self.fake.asked())
        self.refused(gc.NotGamed, "not_gamed")
        self.assertEqual(len(self.fake.asked()), asked + 1)
        self.fake.scripted["GET", "/assets/stable"] += [elsewhere]
        self.refused(gc.NotGamed, "not_gamed")

    def test_other_ranges(self) -> None:
        """Another range, and a body that a proxy has compressed, are refused."""
        other = LEVEL1[::-1]
        big, asked = self.fake.publish({"big": other}), len(self.fake.asked())
        wrong = Reply(206, b"x" * PIECE, {"Content-Range": f"bytes 0-9999/{len(LEVEL1) + 1}"})
        self.fake.scripted["GET", object_path(other)] += [wrong]
        self.patch(ga, "WORKERS", 1)
        self.assertEqual(self.assets.download().release, big)
        self.assertEqual(len(self.fake.asked()) - asked, 4 + 1)  # nothing of it was taken
        self.fake.publish({"new": self.data})
        self.fake.scripted["GET", self.path] += [Reply(200, self.data, {"Content-Encoding": "gzip"})]
        self.raised(gc.NotGamed, "not_gamed")
        self.assert_has({"big": other})

    def test_no_ranges(self) -> None:
        """A proxy that ignores ranges costs time, not bytes."""
        self.fake.ranges = False
        other = self.fake.publish({"big": LEVEL1[::-1]})
        self.assertEqual(self.assets.download().release, other)
        self.assert_has({"big": LEVEL1[::-1]})

    def test_list_is_another(self) -> None:
        """The manifest must have the hash that its release is named by."""
        other = manifest({"new": b"evil"})
        wrong = Reply(200, other, {"Content-Type": "application/json", **headers_of(other, self.release)})
        self.fake.scripted["GET", "/assets/stable"] += [wrong] * 4
        self.refused(gc.DownloadCorrupt, "download_corrupt")
        self.fake.scripted["GET", "/assets/stable"] += [Reply(200, other)]
        self.refused(gc.NotGamed, "not_gamed")
        self.fake.scripted["GET", "/assets/stable"] += [wrong]
        self.assets.download()
        self.assert_has({"new": self.data})

    def test_no_room(self) -> None:
        """A full disk is reported before the first request for a file, with the number of missing bytes."""
        self.patch(ga.shutil, "disk_usage", lambda path: ga.shutil._ntuple_diskusage(100, 98, 2))
        asked = len(self.fake.asked())
        error = self.raised(ga.DiskFull, "disk_full")
        self.assertIn("7 bytes more are needed", error.detail)
        self.assertEqual(len(self.fake.asked()), asked)
        self.assert_has(FIRST)

    def test_parts_of_another_release(self) -> None:
        """Partial files that no release needs any more are deleted."""
        (self.folder / "staging" / f"{sha256(b'other').hexdigest()}.0").write_bytes(bytes(1000))
        self.patch(ga.shutil, "disk_usage", lambda path: ga.shutil._ntuple_diskusage(100, 98, 2))
        self.raised(ga.DiskFull, "disk_full")
        self.assertEqual(list((self.folder / "staging").iterdir()), [])

    def test_disk_fills_up(self) -> None:
        """A disk that fills up during the download is a typed error, and the old release stays."""
        for number in (ga.errno.ENOSPC, ga.errno.EDQUOT):
            full = self.patch(os, "fsync", partial(self.fill, number))
            self.refused(ga.DiskFull, "disk_full")
            full.restore()
        broken = self.patch(os, "fsync", partial(self.fill, ga.errno.EIO))
        self.refused(gc.LocalDamaged, "local_disk")
        broken.restore()
        self.assets.download()
        self.assert_has({"new": self.data})

    def fill(self, number: int, handle: int) -> None:
        raise OSError(number, "full")


class Private(AssetsCase):
    """Downloads with `assets.access: players`."""

    def setUp(self) -> None:
        super().setUp()
        self.fake.publish(FIRST)

    def test_public(self) -> None:
        """For public files the client does not require a sign-in, and sends no token."""
        self.client.keep(self.fake.credentials())
        self.assets.download()
        self.assertEqual({seen.bearer for seen in self.fake.seen}, {""})

    def test_signed_out(self) -> None:
        self.fake.private = True
        self.raised(gc.SignInRequired, "signed_out")

    def test_signed_in(self) -> None:
        """For private files the client sends the token, and renews it when it expires during the download."""
        self.fake.private = True
        self.client.keep(self.fake.credentials())
        generation = self.fake.generation

        def expire(request: object) -> None:
            if len(self.fake.asked()) >= 3:
                self.fake.generation = generation + 1

        self.fake.watch = expire
        self.assets.download()
        self.assert_has(FIRST)
        refreshes = self.fake.requests("/auth/session/refresh")
        self.assertEqual(len(refreshes), 1)

    def test_blocked(self) -> None:
        self.fake.private = True
        self.client.keep(self.fake.credentials())
        self.fake.scripted["GET", "/assets/stable"] += [problem(401, "token_missing"), problem(403, "player_blocked")]
        self.raised(gc.PlayerBlocked, "player_blocked")

    def test_raising_progress(self) -> None:
        """A game that ends a download with an error of the system gets that error, not one of the disk."""
        self.fake.publish(FIRST)

        def leave(progress: ga.Progress) -> None:
            raise InterruptedError

        self.assertRaises(InterruptedError, self.assets.download, progress=leave)
        self.assertEqual(self.assets.download().size, sum(map(len, FIRST.values())))
