"""The C# client downloads releases: complete ones only, new bytes only, and continues interrupted ones.

See docs/protocol.md: Assets.
"""

import subprocess
import time
from pathlib import Path
from random import Random

from clients.csharp.tests.building import CHECKS, SECONDS, built, ran, tool
from clients.python.tests.assets.cases import FIRST, SECOND, AssetsCase, tree
from clients.python.tests.assets.fake_server import manifest
from clients.python.tests.client.fake_server import Reply

BIG = {"big.pck": Random(7).randbytes(3 << 20)}


class Downloads(AssetsCase):
    def fetch(self, code: str | None = None) -> tuple[Path, int]:
        """Return the release's folder and the number of received bytes; with `code`, expect that error."""
        done = ran(built("Checks", CHECKS), "Fetch", self.server, str(self.folder), str(self.root / "state"))
        found = done.stdout.split("\n")
        self.assertEqual(done.returncode, int(code is not None), done.stdout + done.stderr)
        if code is None:
            return Path(found[0]), int(found[1])
        self.assertEqual(found[0], code)
        return self.folder, 0

    def pointer(self) -> str | None:
        path = self.folder / "current"
        return path.read_text().strip() if path.exists() else None

    def test_only_what_is_new(self) -> None:
        """Local bytes under any path are not fetched again; the old release is deleted when no process uses it."""
        first = self.fake.publish(FIRST)
        folder, fetched = self.fetch()
        self.assertEqual((tree(folder), folder.name, self.pointer()), (FIRST, first, first))
        self.assertEqual(fetched, sum(map(len, FIRST.values())) - 900)
        self.assertEqual(self.fetch(), (folder, 0))
        self.fake.publish(SECOND)
        folder, fetched = self.fetch()
        self.assertEqual(tree(folder), SECOND)
        self.assertEqual(fetched, len(SECOND["data/level2.pck"]) + len(SECOND["level3.pck"]))
        self.assertEqual({path.name.split(".")[0] for path in (self.folder / "releases").iterdir()}, {folder.name})
        self.assertEqual(list((self.folder / "staging").iterdir()), [])

    def test_what_another_process_plays_stays(self) -> None:
        """A release that another process has open is kept, also if that is the Python client."""
        first = self.fake.publish(FIRST)
        self.fetch()
        self.assert_has(FIRST)
        self.assertEqual(self.assets.current.id, first)
        self.fake.publish(SECOND)
        self.fetch()
        self.assertEqual(tree(self.folder / "releases" / first), FIRST)
        self.assets.close()
        self.fetch()
        self.assertFalse((self.folder / "releases" / first).exists())
        self.assert_has(SECOND)

    def test_goes_on_where_it_broke_off(self) -> None:
        """An interrupted download continues with a range of the same bytes; a byte is not fetched twice."""
        self.fake.publish(BIG)
        [digest] = self.fake.objects
        whole = len(BIG["big.pck"])
        self.fake.after["GET", f"/assets/objects/{digest}"].append(
            Reply(200, BIG["big.pck"], {"Repr-Digest": "x"}, torn=whole - (1 << 20))
        )
        folder, fetched = self.fetch()
        self.assertEqual((tree(folder), fetched), (BIG, whole))
        first, second = self.fake.asked()
        self.assertNotIn("Range", first.headers)
        self.assertRegex(second.headers["Range"], rf"bytes=[0-9]+-{whole - 1}")
        self.assertEqual(second.headers["If-Range"], f'"{digest}"')

    def test_killed_it_goes_on(self) -> None:
        """The process after a killed one continues with the received bytes."""
        self.fake.publish(BIG)
        [digest] = self.fake.objects
        part = self.folder / "staging" / digest
        lost = [Reply(lost=True)] * 20
        self.fake.after["GET", f"/assets/objects/{digest}"].extend([Reply(200, BIG["big.pck"], torn=1 << 20), *lost])
        command = [tool("mono"), str(built("Checks", CHECKS)), "Fetch", self.server, str(self.folder)]
        with subprocess.Popen([*command, str(self.root / "state")], stdout=subprocess.DEVNULL) as process:
            end = time.monotonic() + SECONDS
            while not (part.exists() and part.stat().st_size) and time.monotonic() < end:
                time.sleep(0.01)
            process.kill()
        held = part.stat().st_size
        self.assertGreater(held, 0)
        self.assertIsNone(self.pointer())
        self.fake.after.clear()
        folder, fetched = self.fetch()
        self.assertEqual((tree(folder), fetched), (BIG, len(BIG["big.pck"]) - held))

    def test_a_server_without_ranges(self) -> None:
        """If the server sends the whole file instead of a range, the received bytes are skipped."""
        self.fake.publish(BIG)
        self.fake.ranges = False
        [digest] = self.fake.objects
        (self.folder / "staging").mkdir(parents=True, exist_ok=True)
        (self.folder / "staging" / digest).write_bytes(BIG["big.pck"][:5000])
        folder, fetched = self.fetch()
        self.assertEqual((tree(folder), fetched), (BIG, len(BIG["big.pck"]) - 5000))

    def test_damaged_bytes(self) -> None:
        """Damaged bytes are fetched once more; damaged twice, they never become a file of a release."""
        self.fake.publish(FIRST)
        self.fetch()
        before = self.pointer()
        self.fake.publish(BIG)
        [digest] = (digest for digest, data in self.fake.objects.items() if data == BIG["big.pck"])
        wrong = Reply(200, b"x" * len(BIG["big.pck"]), {"ETag": f'"{digest}"'})
        self.fake.after["GET", f"/assets/objects/{digest}"].extend([wrong, wrong])
        self.fetch(code="download_corrupt")
        self.assertEqual(self.pointer(), before)
        self.assertEqual(self.fetch()[1], len(BIG["big.pck"]))

    def test_hostile_lists(self) -> None:
        """A path that leads out of the folder, or is a device, ends the download before the first write."""
        for path in ("a/../../evil", "/evil"):
            raw = manifest({path: b"evil"})
            self.fake.publish_raw(raw, {path: b"evil"})
            self.fetch(code="not_gamed")
        self.fake.publish({"a.txt": b"1", "A.TXT": b"2"})
        self.fetch(code="not_gamed")
        self.assertEqual([path for path in self.root.rglob("*evil*")], [])
        self.assertIsNone(self.pointer())

    def test_files_for_players_only(self) -> None:
        """A token is sent only if the server asks for one."""
        self.fake.publish(FIRST)
        self.fetch()
        self.assertEqual({seen.bearer for seen in self.fake.seen}, {""})
        self.fake.publish(SECOND)
        self.fake.private = True
        self.fetch(code="signed_out")
        self.client.keep(self.fake.credentials())
        self.assertEqual(tree(self.fetch()[0]), SECOND)

    def test_no_such_channel(self) -> None:
        """A missing channel is the server's error."""
        self.fetch(code="channel_not_found")
        self.assertIsNone(self.pointer())
