"""`gamed saves import`, as an owner runs it: on exports of gamed, and on hostile files and folders."""

import json
import os
import struct
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from hashlib import sha256
from http.client import HTTPConnection
from io import BytesIO
from pathlib import Path
from random import randbytes
from select import select
from zipfile import ZIP_BZIP2, ZIP_DEFLATED, ZipFile, ZipInfo

from gamed.cli.data import save_archive
from gamed.cli.errors import CommandFailed
from tests.cli.process import WAIT_SECONDS, get
from tests.cli.test_saves import ANNA, SavesTestCase

BO = "ply_B"
LONGEST_SECONDS = 25
"""How long a server lets a game wait by default."""


class ImportTestCase(SavesTestCase):
    """The player Anna has saves; Bo has none yet."""

    def setUp(self) -> None:
        super().setUp()
        self.add_player(ANNA)
        self.add_player(BO)
        self.zip = self.folder / "export.zip"

    def write_zip(self, files: Mapping[str, bytes], *, method: int = ZIP_DEFLATED) -> Path:
        with ZipFile(self.zip, "w", method) as archive:
            for name, data in files.items():
                archive.writestr(name, data)
        return self.zip

    def imported(self, *arguments: str, who: str = BO) -> dict[str, str]:
        """Import the ZIP; return the result of each slot."""
        found = json.loads(self.output_of("saves", "import", who, str(self.zip), "--json", *arguments))
        return {each["slot"]: each["result"] for each in found["saves"]}

    def refused(self, source: Path | None = None, who: str = BO) -> str:
        """Import something that is refused in one line, which changes nothing; return the line."""
        before = self.state("SELECT player_id, slot, version FROM save_version ORDER BY 1, 2, 3")
        code, out, err = self.gamed("saves", "import", who, str(source or self.zip))
        self.assertEqual((code, out), (1, ""), err)
        self.assertTrue(err.startswith("gamed: ") and err.count("\n") == 1 and len(err) < 500, err)
        self.assertEqual(self.state("SELECT player_id, slot, version FROM save_version ORDER BY 1, 2, 3"), before)
        self.assertEqual(list(self.data.glob("tmp*")), [])
        return err

    def bytes_of(self, player_id: str, slot: str) -> bytes:
        """Return the bytes of a current save, as a game reads them."""
        query = f"""
            SELECT blob_id FROM save s JOIN save_version v
            ON v.player_id = s.player_id AND v.slot = s.slot AND v.version = s.current_version
            WHERE s.player_id = '{player_id}' AND s.slot = '{slot}'
        """
        [(blob_id,)] = self.state(query)
        [(data,)] = self.state(f"SELECT data FROM blob WHERE blob_id = {blob_id}")
        if isinstance(data, bytes):
            return data
        parts = self.state(f"SELECT data FROM blob_part WHERE blob_id = {blob_id} ORDER BY n")
        return b"".join(part for (part,) in parts if isinstance(part, bytes))


class ImportTests(ImportTestCase):
    def test_export(self) -> None:
        """Write the current saves of another player's export; leave out old versions and deleted saves."""
        self.output_of("saves", "export", ANNA, str(self.zip))
        shown = self.output_of("saves", "import", BO, str(self.zip)).splitlines()
        self.assertEqual(shown, ["auto (5 B) is written", "4 other versions of the export left out"])
        self.assertEqual(self.bytes_of(BO, "auto"), b"three")
        self.assertEqual(self.state(f"SELECT slot FROM save WHERE player_id = '{BO}'"), [("auto",)])
        self.assertIn("no errors", self.output_of("check", "data"))

    def test_description(self) -> None:
        """Keep the media type and the Save-Meta that the manifest has."""
        rows = [{"slot": "a", "version": 7, "current": True, "content_type": "text/plain", "meta": {"title": "ä"}}]
        self.write_zip({"saves/a/7": b"x", "manifest.json": json.dumps({"versions": rows}).encode()})
        self.assertEqual(self.imported(), {"a": "written"})
        [found] = json.loads(self.output_of("saves", "versions", BO, "a", "--json"))
        self.assertEqual((found["content_type"], found["meta"]), ("text/plain", {"title": "ä"}))

    def test_without_manifest(self) -> None:
        """Write the version with the highest number where a manifest is missing."""
        self.write_zip({"saves/a/9": b"nine", "saves/a/10": b"ten", "saves/": b"", "saves/a/": b""})
        self.assertEqual(self.imported(), {"a": "written"})
        self.assertEqual(self.bytes_of(BO, "a"), b"ten")

    def test_never_over(self) -> None:
        """Keep other bytes as a conflict copy beside the current version, once; leave equal ones as they are."""
        self.write_zip({"saves/auto/1": b"other", "saves/new/1": b"new"})
        self.assertEqual(self.imported("--dry-run", who=ANNA), {"auto": "copy", "new": "written"})
        self.assertEqual(self.current(), b"three")
        self.assertEqual(self.imported(who=ANNA), {"auto": "copy", "new": "written"})
        self.assertEqual(self.current(), b"three")
        self.assertEqual(self.imported(who=ANNA), {"auto": "there", "new": "there"})
        self.assertEqual(self.imported("--dry-run", who=ANNA), {"auto": "there", "new": "there"})
        [auto, *_] = json.loads(self.output_of("saves", "list", ANNA, "--json"))
        self.assertEqual((auto["version"], auto["conflicts"]), (3, [4, 5]))
        self.assertIn("no errors", self.output_of("check", "data"))

    def test_dry_run(self) -> None:
        """Print what would be written, and change nothing."""
        self.write_zip({"saves/a/1": b"one"})
        shown = self.output_of("saves", "import", BO, str(self.zip), "--dry-run").splitlines()
        self.assertEqual(shown, ["a (3 B) would be written", "nothing was changed (--dry-run)"])
        self.assertEqual(self.state("SELECT * FROM save WHERE player_id = 'ply_B'"), [])

    def test_large(self) -> None:
        """Write large bytes in parts, and share them with a save that has them already."""
        data = randbytes(3 * 1024 * 1024 + 1)
        self.write_zip({"saves/a/1": data, "saves/b/1": data})
        self.assertEqual(self.imported(), {"a": "written", "b": "written"})
        self.assertEqual(sha256(self.bytes_of(BO, "b")).digest(), sha256(data).digest())
        self.assertEqual(self.state("SELECT count(*) FROM blob WHERE player_id = 'ply_B'"), [(1,)])
        self.assertIn("no errors", self.output_of("check", "data"))

    def test_folder(self) -> None:
        """Read the folder that an export was unpacked into."""
        self.output_of("saves", "export", ANNA, str(self.zip))
        with ZipFile(self.zip) as archive:
            archive.extractall(self.folder / "unpacked")
        self.zip = self.folder / "unpacked"
        self.assertEqual(self.imported(), {"auto": "written"})
        self.assertEqual(self.bytes_of(BO, "auto"), b"three")

    def test_recorded(self) -> None:
        """Record the command for the service's log."""
        self.write_zip({"saves/a/1": b"one"})
        self.imported()
        self.assertIn("saves import", self.output_of("events", "--player", BO))


class QuotaTests(ImportTestCase):
    def limit(self, **members: object) -> None:
        (self.folder / "game.json").write_text(json.dumps(members))

    def test_limits(self) -> None:
        """Refuse an export with more bytes or saves than a player may have, and name the setting."""
        self.write_zip({"saves/a/1": b"x" * 100, "saves/b/1": b"y" * 100})
        for member, words in (
            ({"save_bytes": 99}, "saves/a/1 has more than 99 B (save_bytes in game.json)"),
            ({"save_bytes": 100, "bytes": 150}, "saves/b/1 and those before it have more than 150 B"),
            ({"slots": 1}, "The export has 2 saves, and a player may have 1 (slots in game.json)"),
            ({"min_free_bytes": "1 TiB"}, "min_free_bytes in game.json is 1 TiB"),
        ):
            self.limit(**member)
            if "min_free_bytes" not in member or self.data.joinpath("state.db").exists():
                self.assertIn(words, self.refused())

    def test_full_quota(self) -> None:
        """Write what the player's quota has room for; name what it has not, with exit code 1."""
        self.limit(slots=1)
        self.write_zip({"saves/a/1": b"one"})
        self.imported()
        self.write_zip({"saves/b/1": b"two"})
        code, out, err = self.gamed("saves", "import", BO, str(self.zip))
        self.assertEqual((code, err), (1, "gamed: These saves were not imported: b\n"))
        self.assertRegex(out, r"^b \(3 B\) is left out: .*may have 1")

    def test_blank(self) -> None:
        """Refuse a save that a crash has left empty or all zeros, unless game.json accepts those."""
        for data in (b"", bytes(1000)):
            self.write_zip({"saves/a/1": data})
            self.assertIn("saves/a/1 is empty or all zeros", self.refused())
        self.limit(allow_blank_saves=True)
        self.assertEqual(self.imported(), {"a": "written"})

    def test_nobody(self) -> None:
        """Write nothing for a player who does not exist, or from a file that does not."""
        self.write_zip({"saves/a/1": b"one"})
        self.assertIn("There is no player ply_nobody", self.refused(who="ply_nobody"))
        self.assertIn("There is no ", self.refused(self.folder / "none.zip"))


class HostileTests(ImportTestCase):
    def changed(self, files: Mapping[str, bytes], change: Callable[[bytearray], object]) -> None:
        """Write a ZIP and change its bytes."""
        raw = bytearray(self.write_zip(files).read_bytes())
        change(raw)
        self.zip.write_bytes(raw)

    def write_entry(self, entry: ZipInfo, data: bytes = b"x") -> None:
        with ZipFile(self.zip, "w") as archive:
            archive.writestr(entry, data)

    def test_names(self) -> None:
        """Refuse a name that an export cannot have, before anything is written."""
        for name in (
            *("../../etc/passwd", "/etc/passwd", "saves/../1", "saves/a/../1", "saves//1", "saves/a", "saves/a/1/2"),
            *("saves/a/01", "saves/a/-1", "saves/a/١", "saves/a/0", "saves\\a\\1", "C:/saves/a/1", "a" * 60_000),
            *("saves/a/1\n", "Saves/a/1", "saves/a/9999999999999999999", "__MACOSX/._a", "other/", "saves/a/1/"),
        ):
            self.write_zip({"saves/good/1": b"good", name: b"x" * (not name.endswith("/"))})
            self.assertRegex(self.refused(), "is not saves/SLOT/NUMBER or manifest.json: this|A slot's name is", name)

    def test_slots(self) -> None:
        """Hold a slot to the rule that games are held to."""
        for slot in ("A", "con", "nul.txt", "a.", "-a", "ä", "a b", "a\x1b[31m"):
            self.write_zip({f"saves/{slot}/1": b"x"})
            self.assertRegex(self.refused(), "A slot's name is|name of a device on Windows", slot)

    def test_zero_byte(self) -> None:
        """Compare the whole name of an entry: zipfile ends it at a zero byte."""
        self.changed({"saves/a/1X../": b"x"}, lambda raw: raw.__setitem__(slice(None), raw.replace(b"1X", b"1\0")))
        self.assertIn("is not saves/SLOT/NUMBER", self.refused())

    def test_links(self) -> None:
        """Refuse links and other special files, in a ZIP and in a folder."""
        for mode in (0o120777, 0o010666, 0o020666):
            entry = ZipInfo("saves/a/1")
            entry.external_attr = mode << 16
            self.write_entry(entry, b"/etc/passwd")
            self.assertIn("saves/a/1 is a link or another special file", self.refused())
        for number, make in enumerate(
            (
                lambda path: os.symlink("/etc/passwd", path),
                os.mkfifo,
            )
        ):
            folder = self.folder / f"links{number}"
            (folder / "saves/a").mkdir(parents=True)
            make(folder / "saves/a/1")
            self.assertIn("saves/a/1 is a link or another special file", self.refused(folder))
        (self.folder / "outside").mkdir()
        os.symlink(self.folder / "links0/saves", self.folder / "outside/saves")
        self.assertIn("saves is a link", self.refused(self.folder / "outside"))

    def test_twice(self) -> None:
        """Refuse two entries of one name."""
        self.changed(
            {"saves/a/1": b"one", "saves/b/1": b"two"},
            lambda raw: raw.__setitem__(slice(None), raw.replace(b"saves/b/1", b"saves/a/1")),
        )
        self.assertIn("saves/a/1 is there twice", self.refused())

    def test_encrypted(self) -> None:
        """Refuse an encrypted entry."""
        self.changed({"saves/a/1": b"one"}, lambda raw: raw.__setitem__(raw.rindex(b"PK\x01\x02") + 8, 1))
        self.assertIn("saves/a/1 is encrypted", self.refused())

    def test_compression(self) -> None:
        """Refuse a compression that needs much memory, or that is not known."""
        self.write_zip({"saves/a/1": b"one" * 100}, method=ZIP_BZIP2)
        self.assertIn("is compressed in another way than Deflate", self.refused())

    def test_bomb(self) -> None:
        """Stop reading at the limit of a save, whatever the entry expands to."""
        self.write_zip({"saves/a/1": b"\1" * (64 * 1024 * 1024)})
        self.assertLess(self.zip.stat().st_size, 100_000)
        self.assertIn("saves/a/1 has more than 16 MiB", self.refused())

    def test_manifest_bomb(self) -> None:
        """Stop reading a manifest that is larger than any export's."""
        self.write_zip({"manifest.json": b" " * (save_archive.MANIFEST_BYTES + 1)})
        self.assertIn("manifest.json has more than 32 MiB", self.refused())

    def test_lying_sizes(self) -> None:
        """Refuse an entry with another size than its header has."""
        for size in (1, 10**6, 2**32 - 2):
            self.changed({"saves/a/1": b"one" * 1000}, lambda raw, size=size: _set_size(raw, size))
            self.assertRegex(self.refused(), "saves/a/1 (cannot be read: Bad CRC|has 3000 bytes instead of)", size)

    def test_many_entries(self) -> None:
        """Refuse a million entries before Python lists them."""
        self.write_zip({"saves/a/1": b"one"})
        raw = self.zip.read_bytes()
        at, end = raw.rindex(b"PK\x01\x02"), raw.rindex(b"PK\x05\x06")
        entry, tail = raw[at:end], bytearray(raw[end:])
        tail[12:16] = struct.pack("<L", len(entry) * 10**6)
        self.zip.write_bytes(raw[:at] + entry * 10**6 + tail)
        self.assertIn("There are more than 65536 entries", self.refused())

    def test_entries_of_a_folder(self) -> None:
        """Count the entries of a folder, too."""
        self.patch(save_archive, "MOST_ENTRIES", 3)
        for number in range(1, 4):
            path = self.folder / f"many/saves/a/{number}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        with self.assertRaisesRegex(Exception, "more than 3 entries"), save_archive.open_archive(self.folder / "many"):
            self.fail("opened")

    def test_zip64(self) -> None:
        """Read a ZIP of the 64-bit format; refuse one whose 64-bit values lead nowhere."""
        with ZipFile(self.zip, "w") as archive, archive.open("saves/a/1", "w", force_zip64=True) as file:
            file.write(b"one")
        self.assertEqual(self.imported(), {"a": "written"})
        self.changed({"saves/a/1": b"one"}, _add_zip64_end)
        self.assertIn("is not a ZIP file that can be read", self.refused())

    def test_no_zip(self) -> None:
        """Refuse a file that is no ZIP, a part of one, and one with changed bytes."""
        raw = self.write_zip({"saves/a/1": randbytes(1000), "saves/b/1": b"b"}).read_bytes()
        changed = raw[:500] + bytes([raw[500] ^ 1]) + raw[501:]
        for number, data in enumerate((b"", b"PK", randbytes(1000), raw[:-30], raw[100:], changed)):
            self.zip.write_bytes(data)
            self.assertRegex(self.refused(), "cannot be read|is not a ZIP file that can be read|not saves/", number)

    def test_any_changed_byte(self) -> None:
        """Read or refuse a ZIP in which any byte is another one, and raise nothing else."""
        out = BytesIO()
        with ZipFile(out, "w", ZIP_DEFLATED) as archive:
            archive.writestr("saves/a/1", b"one" * 20)
            archive.writestr("manifest.json", b'{"versions":[{"slot":"a","version":1,"current":true}]}')
        raw = out.getvalue()
        for at in range(len(raw)):
            for value in (0, 1, 0x7F, 0xFF):
                self.zip.write_bytes(raw[:at] + bytes([value]) + raw[at + 1 :])
                _try(self.zip)

    def test_manifests(self) -> None:
        """Refuse a manifest that is not one, and descriptions that a game could not send."""
        version = {"slot": "a", "version": 1, "current": True}
        for text, words in (
            (b"[" * 100_000, "is not from an export"),
            (b"{}x", "is not from an export"),
            (b'{"versions": [{"slot": 1}]}', "is not from an export"),
            (_manifest({**version, "content_type": "x"}), "Content-Type is not a media type"),
            (_manifest({**version, "content_type": "text/plain\r\nX: y"}), "Content-Type is not a media type"),
            (_manifest({**version, "meta": {"a": "x" * 3000}}), "Save-Meta is 3008 bytes"),
        ):
            self.write_zip({"saves/a/1": b"x", "manifest.json": text})
            self.assertIn(words, self.refused())

    def test_manifest_without_bytes(self) -> None:
        """Write nothing for versions that only the manifest has."""
        self.write_zip({"manifest.json": _manifest({"slot": "../x", "version": 1, "current": True})})
        self.assertEqual(self.imported(), {})


class BesideTests(ImportTestCase):
    def setUp(self) -> None:
        """Serve Bo, who has signed in."""
        super().setUp()
        folder = self.folder / "live"
        self.config, self.data = folder / "authentication.json", folder / "data"
        folder.mkdir()
        if "GAMED_MASTER_KEY" in self.environ:
            self.write_config()
        _, port = self.serve()
        self.gamed("players", "add", "bo", "--password-stdin", stdin="correct horse\n")
        self.port, self.token = port, json.loads(self.gamed("players", "token", "bo", "--json")[1])["access_token"]

    def test_beside_the_service(self) -> None:
        """A running server shows the imported save at once."""
        self.write_zip({"saves/a/1": b"from elsewhere"})
        self.assertEqual(self.imported(who="bo"), {"a": "written"})
        self.assertEqual(get(self.port, "/game/saves/a", self.token), (200, b"from elsewhere"))

    def test_a_waiting_game(self) -> None:
        """A game that waits for a change at a running server gets the imported save, long before its wait ends."""
        status, listed = get(self.port, "/game/saves", self.token)
        self.assertEqual((status, json.loads(listed)["saves"]), (200, []))
        fields = {"Authorization": f"Bearer {self.token}", "Prefer": f"wait={LONGEST_SECONDS}"}
        with closing(HTTPConnection("127.0.0.1", self.port, timeout=LONGEST_SECONDS + WAIT_SECONDS)) as connection:
            connection.request("GET", f"/game/saves?since={json.loads(listed)['cursor']}", headers=fields)
            self.assertEqual(select([connection.sock], [], [], 1)[0], [])
            self.write_zip({"saves/a/1": b"from elsewhere"})
            self.assertEqual(self.imported(who="bo"), {"a": "written"})
            began = time.monotonic()
            answer = connection.getresponse()
            self.assertEqual([each["slot"] for each in json.loads(answer.read())["saves"]], ["a"])
        self.assertLess(time.monotonic() - began, LONGEST_SECONDS / 2)

    def test_names(self) -> None:
        """Where the key is there, what the commands say of a player has the name, also if the owner names the id."""
        player_id = json.loads(self.gamed("players", "list", "--json")[1])[0]["id"]
        for who in ("bo", player_id):
            self.assertEqual(self.gamed("saves", "list", who)[:2], (0, "bo has no saves\n"))
        self.write_zip({"saves/a/1": b"from elsewhere"})
        self.imported(who="bo")
        for who in ("bo", player_id):
            self.assertIn("bo never had a save b.", self.gamed("saves", "versions", who, "b")[2])
        shown = self.output_of("saves", "export", player_id, str(self.folder / "bo.zip"))
        self.assertEqual(shown, f"1 version of bo written to {self.folder}/bo.zip\n")
        self.assertEqual(self.output_of("saves", "erase", player_id, "--yes"), "1 version of bo erased\n")


def _manifest(*versions: dict[str, object]) -> bytes:
    return json.dumps({"format": 1, "versions": versions}).encode()


def _set_size(raw: bytearray, size: int) -> None:
    """Set the uncompressed size of the only entry in both of its headers."""
    raw[22:26] = struct.pack("<L", size)
    at = raw.rindex(b"PK\x01\x02")
    raw[at + 24 : at + 28] = struct.pack("<L", size)


def _add_zip64_end(raw: bytearray) -> None:
    """Add the 64-bit end of a ZIP, with a list of entries that is larger than any file."""
    end = raw.rindex(b"PK\x05\x06")
    huge = 2**62
    record = struct.pack("<4sQ2H2L4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, 1, 1, huge, huge)
    locator = struct.pack("<4sLQL", b"PK\x06\x07", 0, end, 1)
    raw[end:end] = record + locator


def _try(path: Path) -> None:
    try:
        with save_archive.open_archive(path) as archive:
            for save in archive.saves:
                for _ in archive.read(save):
                    pass
    except CommandFailed:
        pass
