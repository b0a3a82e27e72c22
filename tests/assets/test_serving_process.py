"""A running service sends files of every size to fast and slow clients.

See docs/protocol.md: Assets, Conditions and ranges.
"""

import os
import re
import socket
import time
from collections.abc import Callable
from contextlib import closing
from hashlib import sha256
from http.client import HTTPConnection, IncompleteRead
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector
from statistics import median
from threading import Thread

from gamed.assets.cache import IDLE_FILES
from gamed.assets.manifest import AssetFile, Manifest
from tests.assets.serving_fixtures import NOW_MS, Folder
from tests.assets.test_serving_names import BELOW_A_RELEASE, NAMES, UNREADABLE
from tests.contract.live import token_of
from tests.e2e.cases import ServiceCase
from tests.e2e.wire import Answer, ask, raw
from tests.support.covers import covers

KIB, MIB, GIB = 1024, 1024**2, 1024**3
HUGE = 4 * GIB + 1
LOCK_WAIT_SECONDS = 60
READERS, SLOW_SECONDS = 200, 4
DELAY_SECONDS = 1
GROWTH_MIB = 24


class AssetsCase(ServiceCase):
    def setUp(self) -> None:
        super().setUp()
        self.folder_of = Folder(self.service.data / "assets")

    def get(self, path: str, method: str = "GET", **headers: str) -> Answer:
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        return ask(self.service.port, method, f"/assets/{path}", headers=fields)

    def sparse(self, size: int, marks: dict[int, bytes], name: str = "f" * 64) -> str:
        """Publish a sparse file of this size with some bytes in it to the channel `huge`."""
        path = self.folder_of.put(f"objects/{name[:2]}/{name}", b"")
        with path.open("r+b") as file:
            file.truncate(size)
            for at, mark in marks.items():
                os.pwrite(file.fileno(), mark, at)
        release = self.folder_of.manifest(Manifest(NOW_MS, {"pack": AssetFile(size, name, "application/x")}))
        self.folder_of.point("huge", release)
        return release

    def resident_mib(self) -> int:
        """Return the memory of the service without the page cache."""
        text = Path(f"/proc/{self.service.pid}/status").read_text("utf-8")
        found = re.search(r"RssAnon:\s+([0-9]+) kB", text)
        assert found is not None, text
        return int(found[1]) // KIB

    def open_objects(self) -> list[str]:
        """Return the objects that the service has open."""
        found = []
        for link in Path(f"/proc/{self.service.pid}/fd").iterdir():
            try:
                found.append(os.readlink(link))
            except FileNotFoundError:
                continue
        return [target for target in found if "/objects/" in target]

    def until(self, holds: Callable[[], bool], what: str) -> None:
        limit = time.monotonic() + LOCK_WAIT_SECONDS
        while not holds():
            self.assertLess(time.monotonic(), limit, what)
            time.sleep(0.05)


class HugeTests(AssetsCase):
    def test_four_gibibytes(self) -> None:
        """Sizes and offsets beyond 32 bits work, and memory does not grow."""
        marks = {0: b"first", 2 * GIB - 3: b"middle", 4 * GIB - 3: b"ends"}
        release = self.sparse(HUGE, marks)
        for name in ("huge", release):
            head = self.get(f"{name}/pack", "HEAD")
            self.assertEqual((head.status, head.headers["content-length"]), (200, str(HUGE)))
            for wanted, first, expected in (
                ("0-9", 0, b"first" + bytes(5)),
                (f"{2 * GIB - 4}-{2 * GIB + 3}", 2 * GIB - 4, b"\0middle\0"),
                (f"{4 * GIB - 4}-", 4 * GIB - 4, b"\0ends"),
                ("-1", HUGE - 1, b"s"),
                (f"{HUGE - 1}-{2**70}", HUGE - 1, b"s"),
            ):
                answer = self.get(f"{name}/pack", Range=f"bytes={wanted}")
                self.assertEqual((answer.status, answer.body), (206, expected), wanted)
                last = first + len(expected) - 1
                self.assertEqual(answer.headers["content-range"], f"bytes {first}-{last}/{HUGE}")
        refused = self.get("huge/pack", Range=f"bytes={HUGE}-")
        self.assertEqual((refused.status, refused.headers["content-range"]), (416, f"bytes */{HUGE}"))
        before = self.resident_mib()
        length = 256 * MIB
        self.assertEqual(self.streamed("huge/pack", 4 * GIB - length, length), length)
        self.assertLess(self.resident_mib() - before, GROWTH_MIB)

    def streamed(self, path: str, first: int, length: int) -> int:
        """Return how many bytes of a range are received."""
        with closing(HTTPConnection("127.0.0.1", self.service.port, timeout=LOCK_WAIT_SECONDS)) as connection:
            connection.request("GET", f"/assets/{path}", headers={"Range": f"bytes={first}-{first + length - 1}"})
            answer = connection.getresponse()
            self.assertEqual((answer.status, answer.headers["content-length"]), (206, str(length)))
            return sum(len(part) for part in iter(lambda: answer.read(MIB), b""))


class SlowTests(AssetsCase):
    @covers("threats/36")
    def test_slow_readers(self) -> None:
        """200 clients that read 1 KB/s neither slow down saves nor need memory."""
        token = token_of(self.service, "anna")
        self.sparse(64 * MIB, {})
        before = self.resident_mib()
        readers = Readers(self.service.port, READERS, b"GET /assets/huge/pack HTTP/1.1\r\nHost: localhost\r\n\r\n")
        self.addCleanup(readers.stop)
        self.until(lambda: readers.heard == READERS, "not everybody is served")
        took = []
        limit = time.monotonic() + SLOW_SECONDS
        while time.monotonic() < limit or len(took) < 5:
            began = time.monotonic()
            fields = {"If-Match": "*"} if took else {}
            body = b"%d " % len(took) * 1000
            answer = ask(self.service.port, "PUT", "/game/saves/auto", bearer=token, body=body, headers=fields)
            took.append(time.monotonic() - began)
            self.assertIn(answer.status, (200, 201))
            time.sleep(0.25)  # below writes_per_minute
        self.assertEqual(readers.lost, 0)
        self.assertGreater(readers.taken, READERS * KIB // 4)
        self.assertLess(median(took), DELAY_SECONDS, took)
        self.assertLess(self.resident_mib() - before, GROWTH_MIB)
        self.assertEqual(len(self.open_objects()), 1)


class Readers:
    """Connections that read 1 KiB a second, in a thread of their own."""

    def __init__(self, port: int, count: int, request: bytes) -> None:
        self.heard = self.taken = self.lost = 0
        self._over = False
        self._sockets = [self._connected(port, request) for _ in range(count)]
        self._thread = Thread(target=self._read)
        self._thread.start()

    def _connected(self, port: int, request: bytes) -> socket.socket:
        line = socket.socket()
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 * KIB)
        line.connect(("127.0.0.1", port))
        line.settimeout(LOCK_WAIT_SECONDS)
        line.sendall(request)
        line.recv(1)  # accepted: the queue of a listening socket is short
        line.setblocking(False)
        return line

    def _read(self) -> None:
        with DefaultSelector() as selector:
            for line in self._sockets:
                selector.register(line, EVENT_READ)
            heard = set()
            while not self._over:
                for key, _ in selector.select(0.25):
                    try:
                        data = os.read(key.fd, KIB // 4)
                    except ConnectionResetError:
                        data = b""
                    if not data:
                        self.lost += 1
                        selector.unregister(key.fileobj)
                        continue
                    heard.add(key.fd)
                    self.taken += len(data)
                self.heard = len(heard)
                time.sleep(0.25)

    def stop(self) -> None:
        self._over = True
        self._thread.join()
        for line in self._sockets:
            line.close()


class MovingTests(AssetsCase):
    @covers("threats/56")
    def test_published_while_it_is_read(self) -> None:
        """A download is completed with its release while the channel moves; a later one gets the new release."""
        old, new = (bytes([n]) * 7919 * 4000 for n in (1, 2))
        self.folder_of.publish("stable", {"pack": old})
        self.until(lambda: self.get("stable").status == 200, "the first release is not seen")
        with closing(HTTPConnection("127.0.0.1", self.service.port, timeout=LOCK_WAIT_SECONDS)) as connection:
            connection.request("GET", "/assets/stable/pack")
            answer = connection.getresponse()
            taken = answer.read(100_000)
            moved = time.monotonic()
            release = self.folder_of.publish("stable", {"pack": new})
            self.until(lambda: self.get("stable").headers["asset-release"] == release, "the move is not seen")
            seen = time.monotonic() - moved
            self.folder_of.object_path(old).unlink()
            taken += answer.read()
        self.assertEqual(sha256(taken).digest(), sha256(old).digest())
        self.assertEqual(answer.headers["etag"], f'"{sha256(old).hexdigest()}"')
        self.assertLess(seen, LOCK_WAIT_SECONDS / 2)
        for condition, status, length in ((answer.headers["etag"], 200, len(new)), (f'"{"0" * 64}"', 200, len(new))):
            resumed = self.get("stable/pack", Range="bytes=100000-", If_Range=condition)
            self.assertEqual((resumed.status, len(resumed.body)), (status, length))
        self.assertEqual(self.get("stable/pack").body, new)


class DescriptorTests(AssetsCase):
    @covers("threats/36")
    def test_clients_that_leave(self) -> None:
        """Clients that leave in the middle leave only a few cached open files."""
        files = {str(n): b"%4d" % n * (MIB // 4) for n in range(IDLE_FILES + 30)}
        self.folder_of.publish("stable", files)
        self.assertEqual(self.get("stable").status, 200)
        lines = []
        for path in files:
            line = socket.create_connection(("127.0.0.1", self.service.port), timeout=LOCK_WAIT_SECONDS)
            line.sendall(f"GET /assets/stable/{path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            self.assertTrue(line.recv(100).startswith(b"HTTP/1.1 200 "))
            lines.append(line)
        for line in lines:
            line.close()
        self.get("stable/0", Range="bytes=0-0")
        self.until(lambda: len(self.open_objects()) <= IDLE_FILES, "files stay open")

    @covers("threats/56")
    def test_cut_while_it_is_sent(self) -> None:
        """A file that is cut off aborts its download."""
        self.sparse(64 * MIB, {})
        with closing(HTTPConnection("127.0.0.1", self.service.port, timeout=LOCK_WAIT_SECONDS)) as connection:
            connection.request("GET", "/assets/huge/pack")
            answer = connection.getresponse()
            answer.read(100_000)
            os.truncate(self.folder_of.path / "objects" / "ff" / ("f" * 64), 32 * MIB)
            with self.assertRaises((IncompleteRead, ConnectionResetError)):
                answer.read()
        self.assertEqual(self.get("huge/pack").status, 500)
        self.until(lambda: "unexpected_error phase=response_content" in self.service.text(), "nothing is logged")
        self.assertEqual(self.open_objects(), [])

    def test_names_over_a_socket(self) -> None:
        """Hostile names are refused over a real socket."""
        self.folder_of.publish("stable", {"data/level.pck": b"good"})
        (self.service.data / "secret").write_bytes(b"not for players")
        targets = [*(f"stable/{path}" for path in (*BELOW_A_RELEASE, *UNREADABLE)), *NAMES]
        for target in targets:
            received = raw(self.service.port, f"GET /assets/{target} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            status = received[9:12]
            good = target in {"s%74able", "%73table"}
            self.assertIn(status, (b"200",) if good else (b"400", b"404"), target)
            self.assertNotIn(b"not for players", received)
            self.assertNotIn(b"root:", received)
