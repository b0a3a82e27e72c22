"""This measures how long each step of the cleanup occupies the write queue of state.db, with and without its commit.

python -m bench.sweep [--slots 3000] [--versions 40]
"""

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from hashlib import sha256
from pathlib import Path

from bench import machine
from bench.instance import percentile
from gamed.config.game import SaveLimits
from gamed.database import blob_rows
from gamed.database.connection import Connection
from gamed.database.sqlite.engine import release_pages
from gamed.database.sqlite.files import connect, file_uri, prepare
from gamed.database.sqlite.migrations import prepare_file
from gamed.saves import cleanup, erase_store

HOUR = 3_600_000
NOW = 500_000 * HOUR
LARGE = 16 * 2**20


def fill(connection: Connection, slots: int, versions: int) -> None:
    """Insert slots, a hundred for each player; versions are ten minutes apart, so that most of them are pruned."""
    blob_id = 0
    connection.execute("BEGIN")
    for slot in range(slots):
        player, name = f"ply_{slot // 100:022d}", f"slot{slot:05d}"
        for version in range(1, versions + 1):
            blob_id += 1
            data = os.urandom(1024)
            at = NOW - (versions - version) * HOUR // 6
            digest = sha256(data).digest()
            connection.execute("INSERT INTO blob VALUES (?, ?, ?, 1024, 1, 0, ?)", (blob_id, player, digest, data))
            retired = None if version == versions else at + HOUR // 6
            row = (player, name, version, version - 1 or None, None, "write", blob_id, digest, 1024, "a/b", None)
            connection.execute(
                f"INSERT INTO save_version VALUES ({', '.join('?' * 14)})", (*row, at, retired, "ANNA-PC")
            )
        connection.execute("INSERT INTO save VALUES (?, ?, ?, ?, ?, NULL, 0)", (player, name, versions, versions, slot))
    connection.execute(
        "INSERT INTO player_saves (player_id, epoch, seq, slots, live_bytes, kept_bytes)"
        " SELECT player_id, 'e', count(*), count(DISTINCT slot), 1024 * count(DISTINCT slot),"
        " (1024 + 512 + 3) * (count(*) - count(DISTINCT slot)) FROM save_version GROUP BY player_id"
    )
    connection.execute("COMMIT")


def add_large(connection: Connection, blobs: int) -> list[int]:
    """Insert unreferenced blobs of 16 MiB."""
    found = []
    for _ in range(blobs):
        connection.execute("BEGIN")
        blob_id = blob_rows.begin(connection, "ply_large", LARGE, 0)
        for n in range(blob_rows.count(LARGE)):
            blob_rows.insert(connection, blob_id, n, os.urandom(blob_rows.PART_BYTES))
        connection.execute("COMMIT")
        found.append(blob_id)
    return found


def timed(connection: Connection, step: Callable[[Connection], object]) -> tuple[object, float, float, float]:
    """Return the result, its milliseconds by clock and by processor, and the milliseconds of the transaction."""
    began, cpu = time.perf_counter(), time.thread_time()
    connection.execute("BEGIN IMMEDIATE")
    answer = step(connection)
    done, cpu = time.perf_counter(), time.thread_time() - cpu
    connection.execute("COMMIT")
    return answer, (done - began) * 1000, cpu * 1000, (time.perf_counter() - began) * 1000


def repeat(connection: Connection, name: str, step: Callable[[Connection], object]) -> None:
    """Repeat a step until nothing is left, and print its times."""
    own, cpus, whole = [], [], []
    while True:
        answer, step_ms, cpu_ms, all_ms = timed(connection, step)
        own.append(step_ms)
        cpus.append(cpu_ms)
        whole.append(all_ms)
        if not getattr(answer, "slots", answer):
            break
        if len(own) % 200 == 0:
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
    clock = f"median {percentile(own, 0.5):5.2f}  p99 {percentile(own, 0.99):5.2f}  worst {max(own):5.2f}"
    text = f"{clock}, of CPU {max(cpus):5.2f}; with commit: p99 {percentile(whole, 0.99):5.2f}"
    print(f"{name:8} {len(own):5} steps, ms: {text}")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--slots", type=int, default=3000)
    options.add_argument("--versions", type=int, default=40)
    given = options.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="gamed-bench-"))
    try:
        prepare_file(folder / "state.db")
        with closing(connect(file_uri(folder / "state.db", "rw"))) as connection:
            prepare(connection)
            fill(connection, given.slots, given.versions)
            print("\n".join(machine.lines(machine.state(folder))), flush=True)
            measure(connection)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def measure(connection: Connection) -> None:
    limits = SaveLimits()
    repeat(connection, "prune", partial(cleanup.prune_histories, limits=limits, now_ms=NOW))
    repeat(connection, "mark", partial(cleanup.schedule_histories, limits=SaveLimits(keep_versions=5), now_ms=NOW))
    repeat(connection, "again", partial(cleanup.prune_histories, limits=SaveLimits(keep_versions=5), now_ms=NOW))
    for blob_id in add_large(connection, 8):
        repeat(connection, "bytes", partial(blob_rows.delete_parts, blob_id=blob_id))
    player = "ply_" + "0" * 22
    timed(connection, partial(erase_store.begin_erase, player_id=player, epoch="new", now_ms=NOW))
    repeat(connection, "erase", partial(erase_store.erase_step, player_id=player, epoch="last", now_ms=lambda: NOW))
    repeat(connection, "vacuum", release_pages)


if __name__ == "__main__":
    sys.exit(main())
