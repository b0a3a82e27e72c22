"""Zip files that are written from front to back, read by the standard library's reader."""

from collections.abc import Sequence
from hashlib import sha256
from io import BytesIO
from tempfile import TemporaryFile
from typing import IO
from zipfile import ZipFile
from zlib import crc32

from twisted.trial.unittest import SynchronousTestCase

from gamed.storage.zip_writer import FULL_16, FULL_32, ZipWriter

NOON_MS = 1_800_000_000_000
Entries = Sequence[tuple[str, bytes]]


def write(out: IO[bytes], entries: Entries, skipped: int = 0) -> tuple[ZipWriter, bytes]:
    """-> the writer and what it says the hash is; `skipped` bytes are left out before the last entry."""
    writer = ZipWriter(out, BytesIO())
    for name, data in entries:
        if skipped and name == entries[-1][0]:
            out.seek(skipped)
            writer.size = skipped
        writer.add(name, NOON_MS, len(data), crc32(data), [data[:3], data[3:]])
    return writer, writer.end()


class ZipWriterTest(SynchronousTestCase):
    def test_read_back(self) -> None:
        """Names, bytes, checksums and times are there; size and hash are those of the file."""
        entries = [("saves/auto/1", b"one" * 100), ("saves/ä/2", b""), ("manifest.json", b"{}")]
        writer, digest = write(out := BytesIO(), entries)
        self.assertEqual((len(out.getvalue()), sha256(out.getvalue()).digest()), (writer.size, digest))
        with ZipFile(out) as archive:
            self.assertIsNone(archive.testzip())
            self.assertEqual([(info.filename, archive.read(info)) for info in archive.infolist()], entries)
            self.assertEqual(archive.getinfo("saves/auto/1").date_time, (2027, 1, 15, 8, 0, 0))
            self.assertEqual(archive.getinfo("saves/auto/1").external_attr >> 16, 0o100600)

    def test_same_again(self) -> None:
        """The same entries are the same bytes; none at all are a zip too."""
        for entries in ([("a", b"1"), ("b", b"22")], []):
            first, second = BytesIO(), BytesIO()
            self.assertEqual(write(first, entries)[1], write(second, entries)[1])
            self.assertEqual(first.getvalue(), second.getvalue())
            self.assertEqual(len(ZipFile(first).namelist()), len(entries))

    def test_many(self) -> None:
        """More entries than 16 bits count."""
        write(out := BytesIO(), [(str(number), b"") for number in range(FULL_16 + 2)])
        self.assertEqual(len(ZipFile(out).namelist()), FULL_16 + 2)

    def test_large(self) -> None:
        """Entries and a directory beyond 4 GiB; the file has a hole where nobody looks."""
        with TemporaryFile() as out:
            write(out, [("a", b"first"), ("b", b"last")], FULL_32 + 10)
            with ZipFile(out) as archive:
                self.assertEqual((archive.read("a"), archive.read("b")), (b"first", b"last"))

    def test_times_beyond(self) -> None:
        """A clock that is far off makes no file that cannot be read."""
        writer = ZipWriter(out := BytesIO(), BytesIO())
        for ms in (0, 2**43, 253_402_300_799_000):
            writer.add(str(ms), ms, 0, 0, [])
        writer.end()
        years = [info.date_time[0] for info in ZipFile(out).infolist()]
        self.assertEqual(years, [1980, 2107, 2107])
