"""This measures how long the merge and the erase of a player at the limits keep others from writing.

python -m bench.removals [--store sqlite|postgresql] [--versions 68] [--bytes 5200] [--smoke]

The player has every slot that the default limits allow, with as many versions as a history of 512 MiB holds. Another
player, who gets all that, has saves in half of the slots. Others write a save every 10 ms.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from hashlib import sha256
from pathlib import Path
from sqlite3 import connect
from typing import Any

import psycopg

from bench.instance import GamedInstance, percentile
from bench.machine import lines, state
from bench.stores import start_cluster
from bench.worst_day import LONG_SECONDS, OTHERS, play
from gamed.account.store import merge_players
from gamed.cli.context import CommandContext
from gamed.clock import now_ms
from gamed.config.game import SaveLimits
from gamed.database.connection import STATE
from gamed.saves.limits import counted_bytes
from tests.support.postgresql import Address

OLD, HEIR = (f"ply_{letter * 22}" for letter in "mh")
LIMITS = SaveLimits()
META = json.dumps({"n": "m" * 192})
STAGED, STAGED_BYTES = 256, 16 * 1024
QUIET = 200
COLUMNS = {"blob": 7, "save_version": 14, "save": 7, "player_saves": 7}
TOTALS = "player_id, epoch, seq, slots, live_bytes, kept_bytes, deleted_slots"
WAIT_SECONDS = 600
Rows = dict[str, list[tuple[Any, ...]]]


def slots_of(player: str, versions: int, size: int, first_blob: int) -> Iterator[Rows]:
    """Yield the rows of each slot: those with a current version, and for OLD all deleted ones and what is staged."""
    at, blob_id, seq, kept = now_ms() - 3_600_000, first_blob, 0, 0
    live, deleted = (LIMITS.slots, LIMITS.deleted_slots) if player == OLD else (LIMITS.slots // 2, 0)
    for number in range(live + deleted):
        rows: Rows = {name: [] for name in COLUMNS}
        slot, seq = f"slot{number:05d}", seq + 1
        for version in range(1, versions + 1):
            blob_id += 1
            data = os.urandom(size)
            digest = sha256(data).digest()
            last = version == versions
            kind = "conflict" if version < 1 + LIMITS.conflict_copies else "write"
            rows["blob"].append((blob_id, player, digest, size, 1, 0, data))
            times = (at, None if last and number < live else at, "ANNA-PC")
            rows["save_version"].append(
                (player, slot, version, version - 1 or None, None, kind, blob_id, digest, size, None, META, *times)
            )
            kept += 0 if last and number < live else counted_bytes(size, 0, len(META))
        if number >= live:
            gone = (versions + 1, versions, None, "delete", None, None, 0, None, None, at, None, None)
            rows["save_version"].append((player, slot, *gone))
            kept += counted_bytes(0, 0, 0)
        current = (versions, versions) if number < live else (None, versions + 1)
        rows["save"].append((player, slot, *current, seq, None if number < live else at, None))
        yield rows
    staged = [os.urandom(STAGED_BYTES) for _ in range(STAGED if player == OLD else 0)]
    ids = range(blob_id + 1, blob_id + 1 + len(staged))
    blobs = [
        (number, player, sha256(data).digest(), len(data), 0, now_ms(), data)
        for number, data in zip(ids, staged, strict=True)
    ]
    yield {"blob": blobs, "player_saves": [(player, "epoch", seq, live, live * size, kept, deleted)]}


def fill(data: Path, address: Address | None, versions: int, size: int) -> None:
    """Insert the rows of both players while no service runs."""
    many: Callable[[str, str, Sequence[tuple[Any, ...]]], object]
    if address is None:
        store: Any = connect(data / "state.db", isolation_level=None)
        store.execute("PRAGMA synchronous = OFF")
        store.execute("BEGIN")

        def many(table: str, columns: str, rows: Sequence[tuple[Any, ...]]) -> object:
            return store.executemany(f"INSERT INTO {table} {columns} VALUES ({_marks('?', table)})", rows)
    else:
        store = psycopg.connect(address.conninfo)

        def many(table: str, columns: str, rows: Sequence[tuple[Any, ...]]) -> object:
            with store.cursor() as cursor:
                query = f"INSERT INTO {STATE}.{table} {columns} VALUES ({_marks('%s', table)})"
                return cursor.executemany(query.encode(), rows)

    for player, first in ((HEIR, 0), (OLD, 1_000_000)):
        for rows in slots_of(player, 2 if player == HEIR else versions, size, first):
            for table, some in rows.items():
                if some:
                    many(table, f"({TOTALS})" if table == "player_saves" else "", some)
    if address is not None:
        store.execute("SELECT setval('state.blob_number', 2000000)")
    store.commit()
    if address is not None:
        store.autocommit = True
        store.execute("VACUUM ANALYZE")
    store.close()


def _marks(mark: str, table: str) -> str:
    return ", ".join([mark] * COLUMNS[table])


def count(data: Path, address: Address | None, player: str) -> int:
    """Return how many versions and slots of a player are left."""
    query = (
        "SELECT (SELECT count(*) FROM {0}save_version WHERE player_id = '{1}')"
        " + (SELECT count(*) FROM {0}save WHERE player_id = '{1}')"
    )
    if address is None:
        store: Any = connect(data / "state.db")
        found = store.execute(query.format("", player)).fetchone()
    else:
        store = psycopg.connect(address.conninfo)
        found = store.execute(query.format("state.", player).encode()).fetchone()
    store.close()
    return int(found[0])


def mark(instance: GamedInstance) -> None:
    """Mark OLD, whose saves the service gives to HEIR: at its start, or within a minute."""
    os.environ.update(instance.environment)
    databases = CommandContext(str(instance.folder / "authentication.json"), str(instance.data), development=False)
    opened = databases.open()
    try:
        opened.write(lambda connection, keys: merge_players(connection, keys, OLD, HEIR, now_ms()))
    finally:
        opened.store.close()


def merge(instance: GamedInstance, address: Address | None, *, marked: bool) -> None:
    """Let the service merge OLD into HEIR, and wait for the end."""
    if not marked:
        mark(instance)
    ends = time.monotonic() + WAIT_SECONDS
    while count(instance.data, address, OLD):
        assert time.monotonic() < ends, "it does not end"
        time.sleep(0.5)


def erase(instance: GamedInstance, token: str) -> None:
    """Erase all saves by a request of the player."""
    connection = instance.connect()
    connection.request("GET", "/game/", headers={"Authorization": f"Bearer {token}"})
    answer = connection.getresponse()
    answer.read()
    headers = {"If-Match": answer.headers["ETag"]}
    status, body = GamedInstance.request(connection, "DELETE", "/game/", token, headers=headers)
    assert status == 204, (status, body)


def measure(folder: Path, address: Address | None, *, versions: int, size: int, seconds: float, smoke: bool) -> None:
    """Fill a store, and print what the others wait."""
    notes = folder / "stretches"
    command = (sys.executable, "-m", "bench.references.watched", str(notes))
    url = None if address is None else address.url
    instance = GamedInstance(folder, {"writes_per_minute": 0}, command=command, store=url)
    instance.start().stop()
    _, heir, *others = [each.access for each in instance.sign_in([OLD, HEIR, *OTHERS])]
    began = time.monotonic()
    fill(instance.data, address, versions, size)
    rows = count(instance.data, address, OLD)
    print(
        f"{'SQLite' if address is None else 'PostgreSQL'}: {rows:,} rows, filled in {time.monotonic() - began:.0f} s",
        flush=True,
    )
    if smoke:
        mark(instance)
    instance.start()
    spans: list[tuple[str, float, float]] = []
    try:
        connection = instance.connect()
        for token in others:
            GamedInstance.request(
                connection, "PUT", "/game/saves/auto", token, body=b"first", headers={"If-None-Match": "*"}
            )
        play(instance, others, seconds / 4)
        works = {
            "quiet": partial(time.sleep, seconds),
            "merge": partial(merge, instance, address, marked=smoke),
            "erase": partial(erase, instance, heir),
        }
        for name, work in works.items():
            began = time.time()
            waited = during(instance, others, work)
            spans.append((name, began, time.time()))
            print(
                f"  {name:6} {spans[-1][2] - began:6.1f} s: PUT p50 {percentile(waited, 0.5):.1f}"
                f" p99 {percentile(waited, 0.99):.1f} max {max(waited):.1f} ms, {len(waited)} of them",
                flush=True,
            )
    finally:
        instance.stop()
    stretches = json.loads(notes.read_text())
    for name, first, last in spans:
        text = []
        for what in (STATE, "auth", "reads", "reactor"):
            found = [(ms, cpu) for queue, ended, ms, cpu in stretches if queue == what and first < ended < last + 0.1]
            clock, processor = (max(values, default=0) for values in zip(*found, strict=True)) if found else (0, 0)
            text.append(f"{what} {clock:.1f} ({processor:.1f})")
        print(f"  {name:6} longest stretches, ms by clock and by processor: {', '.join(text)}", flush=True)


def during(instance: GamedInstance, others: Sequence[str], work: Callable[[], object]) -> list[float]:
    """Return the milliseconds of others' PUTs while this works."""
    waited: list[float] = []
    with ThreadPoolExecutor(1) as pool:
        working = pool.submit(work)
        while not working.done() or not waited:
            waited += play(instance, others, 0.25).put
        working.result()
    return waited


def main() -> None:
    """Measure each store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", choices=["sqlite", "postgresql"], action="append")
    parser.add_argument("--versions", type=int, default=68)
    parser.add_argument("--bytes", type=int, default=5200)
    parser.add_argument("--seconds", type=float, default=LONG_SECONDS)
    parser.add_argument("--smoke", action="store_true", help="a few versions and a second")
    given = parser.parse_args()
    versions, seconds = (2, 1.0) if given.smoke else (given.versions, given.seconds)
    with tempfile.TemporaryDirectory(prefix="gamed-bench-") as name:
        folder = Path(name)
        print("\n".join(lines(state(folder))), flush=True)
        for store in given.store or ("sqlite", "postgresql"):
            cluster = start_cluster() if store == "postgresql" else None
            try:
                address = None if cluster is None else cluster.database()
                measure(
                    folder / store, address, versions=versions, size=given.bytes, seconds=seconds, smoke=given.smoke
                )
            finally:
                if cluster is not None:
                    cluster.close()


if __name__ == "__main__":
    main()
