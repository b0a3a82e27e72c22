"""`gamed_client sync FOLDER`: a folder on two machines, as a new user uses it."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from shutil import copy

from clients.python.tests.sync.cases import SyncCase
from tests.support.python_client import CLIENT_PATH as PATH
from tests.support.python_client import PACKAGE
from tests.support.python_client import gamed_client as gc

LIMIT_SECONDS = 60


class Folder(SyncCase):
    def setUp(self) -> None:
        super().setUp()
        for name in ("desk", "sofa"):
            gc.GamedClient(self.world.service.base, folder=self.folder / name).keep(self.world.credentials)
            (self.folder / f"{name}-files").mkdir()

    def command(self, name: str, *arguments: str) -> list[str]:
        place = ["--server", self.world.service.base, "--folder", str(self.folder / name), "--json"]
        return [sys.executable, str(PATH), *place, "sync", str(self.folder / f"{name}-files"), *arguments]

    def sync(self, name: str, *arguments: str, code: int = 0) -> dict:
        done = subprocess.run(self.command(name, *arguments), capture_output=True, timeout=LIMIT_SECONDS, check=False)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertNotIn(b"Traceback", done.stderr)
        return json.loads(done.stdout)

    def file(self, name: str, slot: str | None = None) -> Path:
        return self.folder / f"{name}-files" / (slot or self.slot)

    def test_two_machines(self) -> None:
        """Files are copied; if both sides changed one, the exit code is 4, both are shown, and the person chooses."""
        self.file("desk").write_bytes(b"one")
        self.file("desk", "README.TXT").write_bytes(b"not a slot")
        self.assertEqual([slot["state"] for slot in self.sync("desk")["slots"]], ["in_step"])
        self.sync("sofa")
        self.assertEqual(self.file("sofa").read_bytes(), b"one")
        self.file("sofa").write_bytes(b"sofa")
        self.sync("sofa")
        self.file("desk").write_bytes(b"desk")
        self.assertEqual(self.sync("desk", code=4)["error"]["code"], "version_conflict")
        beside = self.file("desk", f".{self.slot}.theirs")
        self.assertEqual((self.file("desk").read_bytes(), beside.read_bytes()), (b"desk", b"sofa"))
        self.sync("desk", "--keep", "mine")
        self.assertEqual((self.current(self.slot), beside.exists()), (b"desk", False))
        self.sync("sofa")
        self.assertEqual(self.file("sofa").read_bytes(), b"desk")

    def test_files_that_go(self) -> None:
        """A deleted file is restored, unless deletes are allowed; those reach the other machine."""
        self.file("desk").write_bytes(b"one")
        self.sync("desk")
        self.sync("sofa")
        self.file("desk").unlink()
        self.sync("desk")
        self.assertEqual(self.file("desk").read_bytes(), b"one")
        self.file("desk").unlink()
        self.sync("desk", "--delete")
        self.sync("sofa")
        self.assertEqual((self.current(self.slot), self.file("sofa").exists()), (None, False))

    def test_watch(self) -> None:
        """With --watch it runs until it is interrupted."""
        with subprocess.Popen(self.command("desk", "--watch"), stderr=subprocess.PIPE) as process:
            self.file("desk").write_bytes(b"one")
            self.until(lambda: self.current(self.slot) == b"one")
            self.server.put(self.slot, b"two", base="*")
            self.until(lambda: self.file("desk").read_bytes() == b"two")
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=LIMIT_SECONDS)
        self.assertEqual(process.returncode, 130)
        self.assertNotIn(b"Traceback", err)

    def until(self, condition) -> None:
        limit = time.monotonic() + LIMIT_SECONDS
        while not condition():
            self.assertLess(time.monotonic(), limit, "it never happened")
            time.sleep(0.05)

    def test_alone(self) -> None:
        """Without its second file the client names the missing module."""
        alone = self.folder / "alone" / "gamed_client"
        alone.mkdir(parents=True)
        for name in ("__init__.py", "__main__.py"):
            copy(PACKAGE / name, alone)
        command = [sys.executable, "-m", "gamed_client", *self.command("desk")[2:]]
        done = subprocess.run(command, capture_output=True, timeout=LIMIT_SECONDS, cwd=alone.parent, check=False)
        self.assertEqual(done.returncode, 1)
        said = b"gamed_client.sync is missing. Copy its file into the folder gamed_client, too.\n"
        self.assertEqual(done.stderr, said)
