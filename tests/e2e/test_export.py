"""Exports of the real service: memory, concurrency, clients that leave or do not read, and kill -9."""

import os
import socket
import time
from collections.abc import Callable
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from zipfile import ZipFile

from twisted.trial.unittest import SynchronousTestCase

from tests.e2e.client import CONFIG, Keeper, write_game
from tests.e2e.service import Service
from tests.e2e.wire import Answer, ask
from tests.support.folders import unused_path

MIB = 2**20
VERSIONS = 4
SIZE = 16 * MIB
GROWTH_MIB = 32
"""Allowed growth of the service's memory while twice 64 MiB pass through it."""
PATIENCE_SECONDS = 60


class ExportTest(SynchronousTestCase):
    """One player with 64 MiB in four versions."""

    def setUp(self) -> None:
        self.folder = unused_path(self)
        self.service = Service(self.folder, CONFIG)
        self.addCleanup(self.service.close)
        write_game(self.service, writes_per_minute=0, min_free_bytes=0)
        self.service.start()
        self.keeper = Keeper(self.service)
        self.sent = {}
        for version in range(1, VERSIONS + 1):
            condition = {"If_Match": "*"} if version > 1 else {"If_None_Match": "*"}
            answer = self.keeper.put("auto", data := os.urandom(SIZE), **condition)
            self.assertEqual(answer.json["version"], version)
            self.sent[f"saves/auto/{version}"] = sha256(data).hexdigest()

    def export(self, method: str = "GET", **headers: str) -> Answer:
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        return ask(self.service.port, method, "/game/export", bearer=self.keeper.token, headers=fields)

    def unread(self) -> socket.socket:
        """Return a client that does not read beyond the first bytes of its response."""
        connection = socket.create_connection(("127.0.0.1", self.service.port), timeout=PATIENCE_SECONDS)
        self.addCleanup(connection.close)
        head = f"GET /game/export HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {self.keeper.token}\r\n\r\n"
        connection.sendall(head.encode())
        self.assertEqual(connection.recv(12), b"HTTP/1.1 200")
        return connection

    def until(self, holds: Callable[[], bool]) -> None:
        limit = time.monotonic() + PATIENCE_SECONDS
        while not holds():
            self.assertLess(time.monotonic(), limit)
            time.sleep(0.1)

    def peak_mib(self, *, reset: bool = False) -> float:
        """Return the largest memory of the service since the last reset."""
        process = Path(f"/proc/{self.service.pid}")
        if reset:
            (process / "clear_refs").write_text("5")
        [line] = [line for line in (process / "status").read_text().splitlines() if line.startswith("VmHWM")]
        return int(line.split()[1]) / 1024

    def temporary(self) -> list[str]:
        return [path.name for path in (self.service.data / "tmp").iterdir()]

    def assert_whole(self, zipped: bytes) -> None:
        with ZipFile(BytesIO(zipped)) as archive:
            found = {name: sha256(archive.read(name)).hexdigest() for name in self.sent}
            self.assertEqual(len(archive.namelist()), VERSIONS + 1)
        self.assertEqual(found, self.sent)

    def test_the_whole_life(self) -> None:
        """Exports use little memory, each player has one at a time, and clients that leave release theirs.

        After kill -9 of the service an interrupted download continues, and no file of it is left.
        """
        before = self.peak_mib(reset=True)
        whole = self.export()
        self.assertEqual((whole.status, int(whole.headers["content-length"])), (200, len(whole.body)))
        self.assert_whole(whole.body)

        first, other = self.unread(), Keeper(self.service, "other")
        refused = self.export()
        self.assertEqual((refused.status, refused.json["code"], refused.headers["retry-after"]), (503, "busy", "30"))
        self.assertEqual(self.keeper.ask("GET", "").status, 200)
        self.assertEqual(ask(self.service.port, "GET", "/game/export", bearer=other.token).status, 200)
        first.close()
        self.until(lambda: self.export("HEAD").status == 200)
        self.assertLess(self.peak_mib() - before, GROWTH_MIB)

        self.assertEqual(self.temporary(), [])
        self.unread()
        self.service.kill()
        self.assertEqual(self.temporary(), [])
        self.service.start()
        self.assertEqual(self.temporary(), [])

        half = len(whole.body) // 2
        rest = self.export(Range=f"bytes={half}-", If_Range=whole.headers["etag"])
        self.assertEqual((rest.status, whole.body[:half] + rest.body == whole.body), (206, True))
        self.assertNotIn("Traceback", self.service.text())
