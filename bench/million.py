"""This compares list, read and PUT in a database of a million saves and in an empty one, in alternating rounds.

python -m bench.million [--saves 1000000] [--rounds 5] [--folder DIR]
"""

import argparse
import os
import shutil
import tempfile
import time
from hashlib import sha256
from pathlib import Path
from random import Random
from sqlite3 import Connection, connect

from bench import machine
from bench.instance import GamedInstance, percentile
from gamed.saves.limits import counted_bytes

SLOTS, VERSIONS, SIZE = 100, 3, 1024
PLAYERS, REQUESTS = 20, 200
LOAD = """
    PRAGMA synchronous = OFF; PRAGMA journal_mode = MEMORY; PRAGMA cache_size = -1000000; PRAGMA foreign_keys = OFF;
"""


def player(number: int) -> str:
    return f"ply_{number:022d}"


def fill(data: Path, saves: int) -> None:
    """Write saves of three versions into state.db while the service does not run."""
    connection = connect(data / "state.db", isolation_level=None)
    connection.executescript(LOAD)
    blob_id, began = 0, time.monotonic()
    for first in range(0, saves // SLOTS, 100):
        connection.execute("BEGIN")
        for number in range(first, min(first + 100, saves // SLOTS)):
            blob_id = fill_player(connection, player(number), blob_id)
        connection.execute("COMMIT")
        print(f"\r{(first + 100) * SLOTS:,} saves, {time.monotonic() - began:.0f} s", end="", flush=True)
    print()
    connection.execute("PRAGMA journal_mode = WAL")
    connection.close()


def fill_player(connection: Connection, player_id: str, blob_id: int) -> int:
    blobs, versions, saves = [], [], []
    now = 1_700_000_000_000
    for slot in range(SLOTS):
        name = f"slot{slot:03d}"
        for version in range(1, VERSIONS + 1):
            blob_id += 1
            data = os.urandom(SIZE)
            digest = sha256(data).digest()
            blobs.append((blob_id, player_id, digest, SIZE, 1, 0, data))
            retired = now if version < VERSIONS else None
            parent = version - 1 or None
            row = (player_id, name, version, parent, None, "write", blob_id, digest, SIZE, "a/b", None, now, retired)
            versions.append((*row, "ANNA-PC"))
        saves.append((player_id, name, VERSIONS, VERSIONS, slot + 1, None, None))
    many = connection.executemany
    many("INSERT INTO blob VALUES (?, ?, ?, ?, ?, ?, ?)", blobs)
    many("INSERT INTO save_version VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", versions)
    many("INSERT INTO save VALUES (?, ?, ?, ?, ?, ?, ?)", saves)
    kept = (VERSIONS - 1) * SLOTS * counted_bytes(SIZE, len("a/b"), 0)
    totals = (player_id, "epoch", SLOTS, SLOTS, SLOTS * SIZE, kept)
    connection.execute(
        "INSERT INTO player_saves (player_id, epoch, seq, slots, live_bytes, kept_bytes) VALUES (?, ?, ?, ?, ?, ?)",
        totals,
    )
    return blob_id


class Side:
    """One of the two services, with its signed-in players."""

    def __init__(self, folder: Path, saves: int, spread: int) -> None:
        self.instance = GamedInstance(folder)
        self.instance.start().stop()
        fill(self.instance.data, saves)
        self.players = [player(number * spread) for number in range(PLAYERS)]
        self.tokens = [player.access for player in self.instance.sign_in(self.players)]
        self.instance.start()
        self.connection = self.instance.connect()

    def measure(self, what: str, random: Random) -> float:
        """Return the median time of a round in milliseconds."""
        times = []
        for _ in range(REQUESTS):
            token, slot = random.choice(self.tokens), f"slot{random.randrange(SLOTS):03d}"
            path = "/game/saves" if what == "list" else f"/game/saves/{slot}"
            method, body = ("PUT", random.randbytes(SIZE)) if what == "put" else ("GET", None)
            headers = {"If-Match": "*"} if what == "put" else {}
            began = time.perf_counter()
            status, _ = GamedInstance.request(self.connection, method, path, token, body=body, headers=headers)
            times.append(time.perf_counter() - began)
            assert status == 200, status
        return percentile(times, 0.5) * 1000


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--saves", type=int, default=1_000_000)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--folder", type=Path)
    given = options.parse_args()
    folder = given.folder or Path(tempfile.mkdtemp(prefix="gamed-bench-"))
    try:
        compare(folder, given.saves, given.rounds)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def compare(folder: Path, saves: int, rounds: int) -> None:
    """Compare the two services; `empty` has only the twenty players that are measured."""
    sides = {
        "loaded": Side(folder / "loaded", saves, spread=max(1, saves // SLOTS // PLAYERS)),
        "empty": Side(folder / "empty", PLAYERS * SLOTS, spread=1),
    }
    print("\n".join(machine.lines(machine.state(folder))), flush=True)
    for what in ("list", "read", "put"):
        for name, side in sides.items():
            side.measure(what, Random(f"warm {name}"))
        found: dict[str, list[float]] = {name: [] for name in sides}
        for number in range(rounds):
            for name in sorted(sides, reverse=bool(number % 2)):
                found[name].append(sides[name].measure(what, Random(f"{what} {number}")))
        loaded, empty = (percentile(found[name], 0.5) for name in ("loaded", "empty"))
        print(f"{what:5} loaded {loaded:.2f} ms  empty {empty:.2f} ms  ratio {loaded / empty:.2f}   {found}")
    for side in sides.values():
        side.instance.stop()


if __name__ == "__main__":
    main()
