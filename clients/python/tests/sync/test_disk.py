"""The files on the device's disk are complete, private, and open in one process at a time."""

import os
import subprocess
import sys
from pathlib import Path

from clients.python.tests.sync.cases import SyncCase
from clients.python.tests.sync.proxy import problem
from tests.support.python_client import FOLDER
from tests.support.python_client import gamed_client as gc
from tests.support.python_client import gamed_sync as gs


class Disk(SyncCase):
    def store(self, device) -> Path:
        return device.sync._store.folder

    def record(self, device) -> Path:
        return self.store(device) / "slots" / self.slot / "record"

    def test_private(self) -> None:
        """Only this user can read the files, for any umask."""
        before = os.umask(0)
        self.addCleanup(os.umask, before)
        desk, _ = self.two()
        found = [path for path in (self.folder / "desk").rglob("*") if not path.is_symlink()]
        modes = {(path.is_dir(), path.stat().st_mode & 0o777) for path in found}
        self.assertEqual(modes, {(True, 0o700), (False, 0o600)})
        self.assertIn(desk.sync.player_id, str(self.store(desk)))

    def test_one_process(self) -> None:
        """A second process of the game gets a typed error, and may start once the first has ended in any way."""
        desk = self.device()
        desk.sync.write(self.slot, b"x")
        script = (
            f"import sys; sys.path.insert(0, {str(FOLDER)!r})\n"
            "from pathlib import Path\n"
            "import gamed_client\n"
            "from gamed_client import sync as gamed_sync\n"
            f"client = gamed_client.GamedClient({desk.proxy.base!r}, folder=Path({str(desk.folder)!r}))\n"
            "try: sync = gamed_sync.Sync(client)\n"
            "except gamed_sync.InUse as error: print(error.code, flush=True)\n"
            f"else: print(sync.read({self.slot!r}).data, flush=True)\n"
            "sys.stdin.read()"
        )
        command = [sys.executable, "-c", script]

        def run() -> tuple[subprocess.Popen, bytes]:
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            self.addCleanup(process.communicate)
            return process, process.stdout.readline().strip()

        self.assertEqual(run()[1], b"in_use")
        desk.stop()
        process, said = run()
        self.assertEqual(said, b"b'x'")
        self.raised(gs.InUse, "in_use", desk.start)
        process.kill()
        process.wait()
        self.assertEqual(desk.start().read(self.slot).data, b"x")

    def test_closed(self) -> None:
        """A closed sync changes nothing."""
        desk = self.device()
        desk.stop()
        self.raised(gs.InUse, "closed", desk.sync.write, self.slot, b"x")
        self.raised(gs.InUse, "closed", desk.sync.send)

    def test_nobody(self) -> None:
        """Once a player has been signed in here, there is no folder to open without a sign-in."""
        desk = self.device()
        desk.proxy.next("GET", problem(401, "session_revoked"))
        self.raised(gc.SignInRequired, "session_revoked", desk.sync.send)
        desk.stop()
        self.raised(gc.SignInRequired, "signed_out", gs.Sync, desk.sync._client)

    def test_only_what_is_needed(self) -> None:
        """Bytes that no record names are deleted, also those of an interrupted write."""
        desk, _ = self.two()
        for number in range(5):
            desk.sync.write(self.slot, b"%d" % number)
        self.assertEqual(len(list(self.record(desk).parent.iterdir())), 3)
        (self.record(desk).with_name(".half.new")).write_bytes(b"half")
        (self.store(desk) / "slots" / "never-whole").mkdir()
        desk.restart()
        desk.sync.send()
        self.assertEqual(len(list(self.record(desk).parent.iterdir())), 2)
        self.assertEqual(self.current(self.slot), b"4")

    def test_damaged_bytes(self) -> None:
        """The game never gets damaged bytes: the server's copy is downloaded again, pending ones are a typed error."""
        desk, _ = self.two()
        self.damage(desk)
        self.raised(gs.LocalDamaged, "local_damaged", desk.sync.read, self.slot)
        desk.sync.send()
        self.assertEqual(desk.bytes(self.slot), b"start")
        desk.sync.write(self.slot, b"pending")
        self.damage(desk)
        [status] = desk.sync.send()
        self.assertEqual((status.state, status.problem.code), ("refused", "local_damaged"))
        desk.sync.write(self.slot, b"written again")
        desk.sync.send()
        self.assertEqual(self.current(self.slot), b"written again")

    def damage(self, device) -> None:
        for path in self.record(device).parent.iterdir():
            if path.name != "record":
                path.write_bytes(bytes(path.stat().st_size))

    def test_damaged_record(self) -> None:
        """A record that cannot be read is an error that names it, and the files beside it are not changed."""
        desk = self.device()
        desk.sync.write(self.slot, b"pending")
        desk.stop()
        for text in (b"", b"{}", b"[]", b'{"format":2}'):
            self.record(desk).write_bytes(text)
            error = self.raised(gs.LocalDamaged, "state_damaged", desk.start)
            self.assertIn(str(self.record(desk)), error.detail)
            self.assertEqual(len(list(self.record(desk).parent.iterdir())), 2)

    def test_full_disk(self) -> None:
        """A write that does not fit on the disk raises, and the old save stays."""
        desk = self.device()
        desk.sync.write(self.slot, b"one")

        def full(path: Path, data: bytes) -> None:
            raise OSError(28, "No space left on device")

        self.patch(gs, "write_whole", full)
        self.raised(gs.LocalDamaged, "local_disk", desk.sync.write, self.slot, b"two")
        self.assertEqual(desk.bytes(self.slot), b"one")
        self.server.put("theirs", b"theirs", base=None)
        self.raised(gs.LocalDamaged, "local_disk", desk.sync.send)
        self.assertEqual(desk.sync.problem.code, "local_disk")
        self.assertNotIn("28", desk.sync.problem.detail)

    def test_hostile_names(self) -> None:
        """A server cannot name files: the client validates slots and hashes of a list before it uses them."""
        info = {"slot": "x", "version": 1, "etag": '"1-aa"', "size": 1, "sha256": "../../x"}
        self.raised(gc.NotGamed, "not_gamed", gc.SaveInfo.of, info)
        self.raised(gc.NotGamed, "not_gamed", gc.SaveInfo.of, {**info, "sha256": "a" * 64, "etag": '"a\r\nb"'})
        body = gc.json.dumps({"cursor": "e.1", "saves": [{**info, "slot": "../x", "sha256": "a" * 64}]}).encode()
        desk = self.device()
        desk.proxy.next("GET", b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        self.assertEqual((desk.sync.send(), desk.sync.slots()), ([], []))
