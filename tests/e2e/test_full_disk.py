"""A disk of a few MiB that fills up under the real service: saves stay readable, and with space writes succeed."""

import json
import os
import sqlite3
import subprocess
import time
from contextlib import closing

from twisted.trial.unittest import SynchronousTestCase

from gamed.service import FIRST_USES_SECONDS
from tests.e2e.client import CONFIG, Keeper, digest, gamed, write_game
from tests.e2e.service import Service
from tests.e2e.wire import ask
from tests.support.folders import unused_path
from tests.support.stores import sqlite_files

SIZE = "16m"
BALLAST = 8 * 2**20
"""The size of all writes before: the content of the write-ahead log must fit in the file, too."""
SMALL, LARGE = 60_000, 700_000
ENOUGH = 400
"""Number of saves; the disk is full long before."""


@sqlite_files("a data folder on a full disk; tests.e2e.test_postgresql_outages has PostgreSQL's")
class FullDisk(SynchronousTestCase):
    def setUp(self) -> None:
        self.folder = unused_path(self)
        self.service = Service(self.folder, CONFIG)
        self.service.data.mkdir(mode=0o700)
        self.addCleanup(subprocess.run, ["umount", "--lazy", str(self.service.data)], check=True)
        mount = ["mount", "-t", "tmpfs", "-o", f"size={SIZE},mode=700", "tmpfs", str(self.service.data)]
        subprocess.run(mount, check=True)
        self.addCleanup(self.service.close)
        (self.service.data / "ballast").write_bytes(bytes(BALLAST))
        write_game(self.service, writes_per_minute=0, min_free_bytes=0, slots=10_000)
        self.service.start()
        self.keeper = Keeper(self.service)
        self.kept: dict[str, bytes] = {}

    def test_full_and_free_again(self) -> None:
        """On a full disk PUT gets 507 with Retry-After, and every save can be read; with space the same PUT succeeds,
        and both files are intact."""
        self.store("large", os.urandom(LARGE))
        fresh = json.loads(gamed(self.service, "players", "token", "keeper", "--json"))
        refused = self.fill()
        self.assertGreater(len(self.kept), 10)
        self.assertEqual((refused.status, refused.json["code"]), (507, "storage_full"))
        self.assertEqual((refused.headers["retry-after"], refused.json["retry_after"]), ("300", 300))
        self.assertIn("disk", refused.json["detail"])
        self.assertLess(os.statvfs(self.service.data).f_bavail * 4096, LARGE)
        self.assertEqual(self.keeper.put("more", os.urandom(LARGE)).status, 507)
        self.all_readable()
        part = self.keeper.ask("GET", "/large", Range="bytes=300000-300009")
        self.assertEqual((part.status, part.body), (206, self.kept["large"][300_000:300_010]))

        self.read_with(fresh["access_token"])

        (self.service.data / "ballast").unlink()
        self.becomes_used(fresh["session_id"])
        self.store("more", os.urandom(LARGE))
        self.store("s0", os.urandom(SMALL))
        self.all_readable()
        self.assertIn("no errors", gamed(self.service, "check", "data"))
        self.assertEqual(self.service.terminate(), 0)
        self.service.start()
        self.all_readable()

    def read_with(self, token: str) -> None:
        """A token at its first use reads the saves, and may not write."""
        for _ in range(2):
            read = ask(self.service.port, "GET", "/game/saves/large", bearer=token)
            self.assertEqual((read.status, digest(read.body)), (200, digest(self.kept["large"])))
        self.assertEqual(ask(self.service.port, "GET", "/auth/sessions", bearer=token).status, 200)
        condition = {"If-Match": "*"}
        written = ask(self.service.port, "PUT", "/game/saves/s0", body=b"small", bearer=token, headers=condition)
        self.assertEqual(written.status, 507)

    def becomes_used(self, session_id: str) -> None:
        """The first use is written by itself, soon after the disk has space."""
        limit = time.monotonic() + 2 * FIRST_USES_SECONDS + 10
        query = "SELECT used FROM session WHERE session_id = ?"
        with closing(sqlite3.connect(f"file:{self.service.data / 'auth.db'}?mode=ro", uri=True)) as connection:
            while connection.execute(query, (session_id,)).fetchall() != [(1,)]:
                self.assertLess(time.monotonic(), limit)
                time.sleep(0.2)

    def fill(self):
        """Save until the disk is full to the last kilobytes; return the refusal."""
        for number in range(ENOUGH):
            answer = self.keeper.put(f"s{number}", data := os.urandom(SMALL))
            if answer.status != 201:
                break
            self.kept[f"s{number}"] = data
        with (self.service.data / "filler").open("wb", buffering=0) as filler:
            try:
                while filler.write(bytes(4096)):
                    pass
            except OSError:
                pass
        self.addCleanup((self.service.data / "filler").unlink, missing_ok=True)
        return self.keeper.put("last", os.urandom(SMALL))

    def store(self, slot: str, data: bytes) -> None:
        condition = {"If_Match": "*"} if slot in self.kept else {"If_None_Match": "*"}
        answer = self.keeper.put(slot, data, **condition)
        self.assertIn(answer.status, (200, 201), answer.body)
        self.kept[slot] = data

    def all_readable(self) -> None:
        for slot, data in self.kept.items():
            answer = self.keeper.ask("GET", f"/{slot}")
            self.assertEqual((answer.status, digest(answer.body)), (200, digest(data)), slot)
        listed = self.keeper.ask("GET", "").json["saves"]
        self.assertEqual({save["slot"] for save in listed} >= set(self.kept), True)
