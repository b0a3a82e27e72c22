"""This counts the instructions of a read and of a PUT in a batch of 16, on SQLite and on PostgreSQL, by valgrind.

python -m bench.batches [--only postgresql]

They are those of the thread between queue and database: with SQLite's library, but without PostgreSQL's processes and
the kernel. No other process changes them.
"""

import argparse
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from hashlib import sha256
from pathlib import Path
from secrets import token_bytes
from typing import Any

from twisted.python.failure import Failure

from bench.instance import sign_in_with
from gamed.clock import now_ms
from gamed.config.game import SaveLimits
from gamed.crypto import Keys, Secret
from gamed.database.connection import AUTH, STATE, Connection
from gamed.database.group_commit import group_commit, run_reads
from gamed.database.postgresql.store import PostgresqlStore
from gamed.database.sqlite.store import SqliteStore
from gamed.database.store import Store
from gamed.http.conditional import UNCONDITIONAL
from gamed.saves.commands import ReadRequest, WriteCommand, WriteContext
from gamed.saves.model import EMPTY_CURSOR, SaveContent
from gamed.saves.store import read_slot
from gamed.saves.tables import find_player
from gamed.saves.write_rules import Condition
from gamed.saves.write_store import write_save
from gamed.sessions.tables import authenticate
from tests.database.postgresql.engines import address_of
from tests.support.databases import InlineReactor
from tests.support.postgresql import cluster

PLAYERS = [f"ply_{number:022d}" for number in range(64)]
BATCH, WARM, COUNTED = 16, 12, 10
LIMITS = SaveLimits(writes_per_minute=0)
REQUEST = ReadRequest("world", UNCONDITIONAL, with_bytes=True)
MAKERS: Mapping[str, Callable[[Path], Store]] = {
    "sqlite": SqliteStore,
    "postgresql": lambda folder: PostgresqlStore(address_of(cluster().database()), folder, now_ms),
}


class Batches:
    """The batches of one store, with 64 players who have a save of 4 KiB."""

    def __init__(self, store: Store) -> None:
        for database in (AUTH, STATE):
            store.prepare(database, lambda text: None, lambda: None, migrate=True)
        self._keys = keys = Keys.of(Secret(token_bytes(32)), token_bytes)
        players = store.run_transaction(AUTH, partial(sign_in_with, keys=keys, players=PLAYERS, now_ms=now_ms()))
        self._tokens = [Secret(player.access.encode()) for player in players]
        backend = store.backend(InlineReactor(), "ab", lambda: None)
        self._reads, self._writes = backend.reader(), backend.state_writer()
        self._reader, self._writer = self._reads.open(), self._writes.open()
        self._epochs = dict.fromkeys(PLAYERS, EMPTY_CURSOR.epoch)
        for begin in range(0, len(PLAYERS), BATCH):
            self._write(PLAYERS[begin : begin + BATCH])
        find = [partial(find_player, player_id=player) for player in PLAYERS]
        summaries = run_reads(self._reads, self._reader, find)
        self._epochs = {player: each.cursor.epoch for player, each in zip(PLAYERS, summaries, strict=True)}

    def read(self) -> None:
        """Read the saves of players at random."""
        tokens = random.choices(self._tokens, k=BATCH)
        _check(run_reads(self._reads, self._reader, [partial(self._read_one, token=token) for token in tokens]))

    def put(self) -> None:
        """Replace the saves of players at random."""
        self._write(random.sample(PLAYERS, BATCH))

    def close(self) -> None:
        self._reader.close()
        self._writer.close()

    def _read_one(self, connection: Connection, token: Secret) -> object:
        caller = authenticate(connection, self._keys.indexer, token, now_ms())
        return read_slot(connection, caller.player_id, REQUEST)

    def _write(self, players: list[str]) -> None:
        commands = [partial(write_save, limits=LIMITS, command=self._command(player)) for player in players]
        keys = [(player,) for player in players] if self._writes.concurrent_writers else None
        _check(group_commit(self._writes, self._writer, commands, keys and players, keys))

    def _command(self, player: str) -> WriteCommand:
        data = os.urandom(4096)
        content = SaveContent(sha256(data).digest(), len(data), "application/octet-stream")
        return WriteCommand(
            WriteContext(player, self._epochs[player]), "world", Condition(), content, now_ms(), "e" * 11, data
        )


def _check(outcomes: list[Any]) -> None:
    for outcome in outcomes:
        if isinstance(outcome, Failure):
            outcome.raiseException()


def marked(name: str, folder: Path) -> None:
    """Mark both measurements by getppid(), which is not called otherwise: callgrind writes a file at each call."""
    batches = Batches(MAKERS[name](folder))
    for work in (batches.read, batches.put):
        for _ in range(WARM):
            work()
        os.getppid()
        for _ in range(COUNTED):
            work()
        os.getppid()
    batches.close()


def instructions(name: str, folder: Path) -> list[float]:
    """Return the instructions of one read and of one PUT."""
    files = folder / "callgrind.out"
    valgrind = ("valgrind", "--tool=callgrind", "--dump-before=getppid", f"--callgrind-out-file={files}")
    words = [*valgrind, sys.executable, "-m", "bench.batches", "--marked", "--only", name]
    subprocess.run(words, check=True, stderr=subprocess.DEVNULL, env={**os.environ, "PYTHONHASHSEED": "0"})
    totals = (Path(f"{files}.{2 * part}").read_text().partition("\nsummary: ")[2] for part in (1, 2))
    return [int(total.partition("\n")[0]) / BATCH / COUNTED for total in totals]


def main() -> None:
    """Count, and print a line per store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=list(MAKERS), help="a store [both]")
    parser.add_argument("--marked", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    for name in [options.only] if options.only else MAKERS:
        with tempfile.TemporaryDirectory(prefix="gamed-bench-") as folder:
            if options.marked:
                marked(name, Path(folder))
            else:
                read, put = instructions(name, Path(folder))
                print(f"{name:10} read {read:9,.0f} instructions, PUT {put:9,.0f}", flush=True)


if __name__ == "__main__":
    main()
