"""A zip file written from front to back, its entries uncompressed (PKWARE APPNOTE 6.3.9, 4.3 to 4.5).

The standard library's writer keeps a record of every entry in memory and writes over what it has written. Here the
directory waits in a file of its own, and since nothing is written twice the whole is hashed as it grows.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from hashlib import sha256
from struct import Struct, pack
from typing import IO, Final

FULL_16: Final = 0xFFFF
FULL_32: Final = 0xFFFF_FFFF
"""Says that the number is too large for its field and stands in the Zip64 part (4.4.1.4)."""
_PLAIN: Final = 20
_ZIP64: Final = 45
"""Versions of the format (4.4.3)."""
_UNIX: Final = 3 << 8
_UTF8: Final = 1 << 11
_FILE_MODE: Final = 0o100600 << 16
_LOCAL: Final = Struct("<4s5H3L2H")
_CENTRAL: Final = Struct("<4s6H3L5H2L")
_END: Final = Struct("<4s4H2LH")
_END_64: Final = Struct("<4sQ2H2L4Q")
_LOCATOR_64: Final = Struct("<4sLQL")
_COPY_BYTES: Final = 64 * 1024


class ZipWriter:
    """Appends to `out`; `directory` is an empty file for its own use. The same entries make the same bytes."""

    def __init__(self, out: IO[bytes], directory: IO[bytes]) -> None:
        self._out = out
        self._directory = directory
        self._hash = sha256()
        self._entries = 0
        self.size = 0
        """Bytes written so far."""

    def add(self, name: str, modified_ms: int, size: int, crc: int, pieces: Iterable[bytes]) -> None:
        """One entry of less than 4 GiB; `size` and `crc` (CRC-32) are those of all the pieces together."""
        at, raw, (time, date) = self.size, name.encode(), _dos(modified_ms)
        common = _UTF8, 0, time, date, crc, size, size, len(raw)
        self._write(_LOCAL.pack(b"PK\3\4", _PLAIN, *common, 0) + raw)
        for piece in pieces:
            self._write(piece)
        extra = pack("<2HQ", 1, 8, at) if at >= FULL_32 else b""
        version, offset = _ZIP64 if extra else _PLAIN, min(at, FULL_32)
        record = (_UNIX | version, version, *common, len(extra), 0, 0, 0, _FILE_MODE, offset)
        self._directory.write(_CENTRAL.pack(b"PK\1\2", *record) + raw + extra)
        self._entries += 1

    def end(self) -> bytes:
        """The directory, and the end of the file; -> SHA-256 of the whole."""
        at, entries = self.size, self._entries
        self._directory.seek(0)
        while piece := self._directory.read(_COPY_BYTES):
            self._write(piece)
        ends, length = self.size, self.size - at
        if entries >= FULL_16 or ends >= FULL_32:
            versions = _UNIX | _ZIP64, _ZIP64
            self._write(_END_64.pack(b"PK\6\6", _END_64.size - 12, *versions, 0, 0, entries, entries, length, at))
            self._write(_LOCATOR_64.pack(b"PK\6\7", 0, ends, 1))
        few = min(entries, FULL_16)
        self._write(_END.pack(b"PK\5\6", 0, 0, few, few, min(length, FULL_32), min(at, FULL_32), 0))
        self._out.flush()
        return self._hash.digest()

    def _write(self, data: bytes) -> None:
        self._out.write(data)
        self._hash.update(data)
        self.size += len(data)


def _dos(ms: int) -> tuple[int, int]:
    """Time and date as MS-DOS counts them, in steps of two seconds from 1980 to 2107 (4.4.6); in UTC."""
    moment = datetime.fromtimestamp(ms // 1000, UTC)
    time = moment.hour << 11 | moment.minute << 5 | moment.second // 2
    return time, (min(max(moment.year, 1980), 2107) - 1980) << 9 | moment.month << 5 | moment.day
