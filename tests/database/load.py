"""Writers at full rate with readers: `python -m tests.database.load FOLDER SECONDS [WRITERS [BYTES]]` prints figures.

Start it in several processes on one folder to measure how they share the databases.
"""

import json
import os
import sys
from collections.abc import Sequence
from os import urandom
from pathlib import Path

from twisted.internet import reactor
from twisted.internet.defer import Deferred, gatherResults

from gamed.database.connection import Connection, Transaction
from gamed.database.databases import Databases
from tests.support.databases import ask, open_databases, prepare_files

ROW_BYTES = 64 * 1024
WRITERS = 32


def overwrite(place: int, size: int) -> Transaction[None]:
    """Return a transaction that fills one row of state.db with new bytes, so that the file itself stays small."""
    data = urandom(size)

    def transaction(connection: Connection) -> None:
        connection.execute(
            "INSERT INTO blob (blob_id, player_id, size, created_ms) VALUES (:place, 'p', 0, 0)"
            " ON CONFLICT (blob_id) DO NOTHING",
            {"place": place},
        )
        connection.execute(
            "INSERT INTO blob_part VALUES (:place, 0, :data) ON CONFLICT (blob_id, n) DO UPDATE SET data = :data",
            {"place": place, "data": data},
        )

    return transaction


class Load:
    """Writers that overwrite rows with new bytes and read all of them on the read queue after each write."""

    def __init__(
        self, stores: Databases, folder: Path, until: float, enough: int = 0, row_bytes: int = ROW_BYTES
    ) -> None:
        """Write until this time of the reactor, and at least `enough` bytes."""
        self.stores, self.until, self.enough, self.row_bytes = stores, until, enough, row_bytes
        self.wal = folder / "state.db-wal"
        self.written = self.reads = self.largest = 0
        self.seconds: list[float] = []
        """How long each write took."""

    async def run(self, places: Sequence[int]) -> None:
        await gatherResults([Deferred.fromCoroutine(self._write(place)) for place in places])

    async def _write(self, place: int) -> None:
        while reactor.seconds() < self.until or self.written < self.enough:
            began = reactor.seconds()
            await self.stores.state.submit(overwrite(place, self.row_bytes), self.row_bytes)
            self.seconds.append(reactor.seconds() - began)
            self.written += self.row_bytes
            self.largest = max(self.largest, self.wal.stat().st_size)
            await self.stores.reads.submit(ask("SELECT sum(length(data)) FROM blob_part"))
            self.reads += 1


async def measure(folder: Path, seconds: float, writers: int, row_bytes: int) -> None:
    stores = open_databases(reactor, folder)
    load = Load(stores, folder, reactor.seconds() + seconds, row_bytes=row_bytes)
    first = os.getpid() * 1000
    await load.run(range(first, first + writers))
    taken = sorted(load.seconds)
    parts = {"p50": 0.5, "p99": 0.99, "max": 1}
    milliseconds = {name: round(1000 * taken[int((len(taken) - 1) * part)], 1) for name, part in parts.items()}
    print(json.dumps({"writes": len(taken), **milliseconds, "wal_mib": load.largest >> 20}), flush=True)
    await stores.close()


def main(folder: str, seconds: str, writers: str = f"{WRITERS}", row_bytes: str = f"{ROW_BYTES}") -> None:
    prepare_files(Path(folder))
    measured = measure(Path(folder), float(seconds), int(writers), int(row_bytes))
    reactor.callWhenRunning(
        lambda: Deferred.fromCoroutine(measured).addErrback(lambda reason: reason.printTraceback()).addBoth(_stop)
    )
    reactor.run()


def _stop(result: object) -> None:
    reactor.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
