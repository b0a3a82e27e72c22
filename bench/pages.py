"""This counts the pages that one PUT or refresh logs in the WAL: real transactions in batches of a fixed size.

Neither the disk nor other processes change the number of pages. A page is 4,120 bytes of the log. `put-8 of 64` is a
PUT of 4 KiB in a batch of 8, in a store of 64 saves; `refresh-1 of 100` is a refresh alone, among 100 sessions. After
`put-8 and cleanup` each history is full: each PUT makes the cleanup delete a version.

python -m bench.pages [--smoke] [--trees] [--tokens 100000]
"""

import argparse
import shutil
import sqlite3
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from hashlib import sha256
from itertools import chain, count
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

from msgspec import Struct

from gamed.config.game import SaveLimits
from gamed.crypto import Keys, Secret, public_id
from gamed.database import blob_rows
from gamed.database.blobs import KEPT_MS
from gamed.database.connection import Connection
from gamed.database.group_commit import group_commit
from gamed.database.sqlite.engine import SqliteEngine
from gamed.database.sqlite.files import PAGE_BYTES, DatabaseFile, file_uri
from gamed.database.sqlite.migrations import prepare_file
from gamed.saves import cleanup
from gamed.saves.commands import WriteCommand, WriteContext, WriteResult
from gamed.saves.model import EMPTY_CURSOR, SaveContent
from gamed.saves.write_rules import Condition, ConditionKind
from gamed.saves.write_store import write_save
from gamed.sessions.credentials import CredentialIssuer, CredentialPair, SessionPolicy, generate_pair, new_session_id
from gamed.sessions.store import Refreshed, refresh
from gamed.sessions.tables import open_session

HEADER, FRAME = 32, 24
"""Bytes at the start of the log, and in front of each page in it."""
SIZE = 4096
EPOCH = "epoch"
START_MS = 1_700_000_000_000
BATCHES = 1, 8
"""The sizes of the batches: a lone request, and what 16 connections usually send while a batch is written."""
FEW, MANY = 64, 2000
"""The number of saves in a small store, and in one of 20 MB."""
FEW_TOKENS = 100
SHORT = SaveLimits(keep_versions=4, keep_hours=0, keep_days=0)
"""The limits of the measurement with cleanup."""
PRESENT, ABSENT = Condition(ConditionKind.PRESENT), Condition(ConditionKind.ABSENT)


class Scale(Struct, frozen=True):
    """The size of the larger stores, and the number of batches that are measured."""

    saves: int
    tokens: int
    batches: int


WHOLE, SMOKE = Scale(MANY, 100_000, 150), Scale(FEW * 2, FEW_TOKENS * 2, 3)


class Figures(Struct, frozen=True):
    """The cost of one request in a batch of a given size."""

    pages: float
    cpu_us: float
    trees: Mapping[str, float]
    """Pages by table or index; some pages belong to none."""


class LoggedFile:
    """A database file with a connection set up like that of a write queue, and its log."""

    def __init__(self, path: Path) -> None:
        prepare_file(path)
        self._log = path.with_name(f"{path.name}-wal")
        self._engine = SqliteEngine(DatabaseFile(path.stem, file_uri(path, "rw"), path), large_cache=True)
        self.connection = self._engine.open()

    def run(self, transactions: Sequence[Callable[[sqlite3.Connection], Any]]) -> list[Any]:
        """Run one batch and return its outcomes; raise RuntimeError if a transaction did not do what was asked."""
        outcomes = group_commit(self._engine, self.connection, transactions)
        for outcome in outcomes:
            if not (isinstance(outcome, Refreshed | None) or (isinstance(outcome, WriteResult) and outcome.changed)):
                raise RuntimeError(f"{outcome}")
        return outcomes

    def commit(self, transaction: Callable[[Connection], Any]) -> Any:
        """Run one transaction and return its result."""
        [outcome] = group_commit(self._engine, self.connection, [transaction])
        return outcome

    def empty_log(self) -> None:
        self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def pages(self) -> list[int]:
        """Return the number of each page in the log, which was empty before."""
        frames = memoryview(self._log.read_bytes())[HEADER:]
        return [int.from_bytes(frames[at : at + 4], "big") for at in range(0, len(frames), FRAME + PAGE_BYTES)]

    def owners(self) -> Mapping[int, str]:
        """Return the table or index of each page."""
        try:
            return dict(self.connection.execute("SELECT pageno, name FROM dbstat").fetchall())
        except sqlite3.OperationalError:  # this SQLite was built without dbstat
            return {}

    def measure(self, batches: int, size: int, run: Callable[[int], object], *, trees: bool) -> Figures:
        """Call `run`, which runs one batch of `size`, so many times."""
        self.empty_log()
        spent, requests = [], batches * size
        for _ in range(batches):
            began = time.thread_time()
            run(size)
            spent.append(time.thread_time() - began)
        logged = Counter(self.pages())
        owners = self.owners() if trees else {}
        by_tree: Counter[str] = Counter()
        for page, times in logged.items():
            by_tree[owners.get(page, "page 1, free or pointer map" if trees else "")] += times
        return Figures(
            logged.total() / requests,
            median(spent) / size * 1e6,
            {name: times / requests for name, times in by_tree.most_common()},
        )


class Saves:
    """A store of `saves` slots, up to three for each player, of which every one has been replaced once."""

    def __init__(self, folder: Path, saves: int, limits: SaveLimits = SaveLimits()) -> None:  # noqa: B008  frozen
        self.file = LoggedFile(folder / "state.db")
        self._limits = limits
        self._random = Random(saves)
        self._now_ms = map(lambda step: START_MS + step * 1000, count())
        self._known: set[str] = set()
        players = [public_id("ply", self._random.randbytes(16)) for _ in range(-(-saves // 3))]
        self._slots = [(player, f"slot{number}") for number in range(3) for player in players][:saves]
        self._random.shuffle(self._slots)
        for exists in (False, True):
            for first in range(0, saves, 64):
                self.file.run([self._put(*slot, exists=exists) for slot in self._slots[first : first + 64]])

    def replace(self, size: int) -> None:
        """Replace so many random saves in one batch."""
        self.file.run([self._put(*slot) for slot in self._random.sample(self._slots, size)])

    def replace_all(self, size: int) -> None:
        """Replace all saves in batches of this size, then delete what is due, as the server does once a minute."""
        self._random.shuffle(self._slots)
        for first in range(0, len(self._slots), size):
            self.file.run([self._put(*slot) for slot in self._slots[first : first + size]])
        now_ms = next(self._now_ms)
        while self.file.commit(partial(cleanup.prune_histories, limits=self._limits, now_ms=now_ms)).slots:
            pass
        expired_ms = now_ms - KEPT_MS
        claim = partial(blob_rows.claim_unreferenced, unfinished_ms=expired_ms, staged_ms=expired_ms)
        while (blob_id := self.file.commit(claim)) is not None:
            while self.file.commit(partial(blob_rows.delete_parts, blob_id=blob_id)):
                pass

    def _put(self, player_id: str, slot: str, *, exists: bool = True) -> Callable[[sqlite3.Connection], Any]:
        data = self._random.randbytes(SIZE)
        content = SaveContent(sha256(data).digest(), SIZE, "application/octet-stream")
        epoch = EPOCH if player_id in self._known else EMPTY_CURSOR.epoch
        self._known.add(player_id)
        context = WriteContext(player_id, epoch, device="ANNA-PC")
        condition = PRESENT if exists else ABSENT
        command = WriteCommand(context, slot, condition, content, next(self._now_ms), EPOCH, data)
        return partial(write_save, limits=self._limits, command=command)


class Sessions:
    """Players with a session each, opened and refreshed once in the last fifteen minutes: two access tokens each."""

    def __init__(self, folder: Path, tokens: int) -> None:
        self.file = LoggedFile(folder / "auth.db")
        self._random = Random(tokens)
        keys = Keys.of(Secret(self._random.randbytes(32)), self._random.randbytes)
        self._issuer = CredentialIssuer(
            keys=keys, policy=SessionPolicy(900, 30 * 24 * 3600), random=self._random.randbytes
        )
        self._now_ms = START_MS
        self._pairs: list[CredentialPair] = []
        for first in range(0, tokens // 2, 500):
            self.file.run([self._open(tokens) for _ in range(min(500, tokens // 2 - first))])
            self._refresh(range(first, len(self._pairs)))

    def refresh(self, size: int) -> None:
        """Refresh so many random sessions in one batch."""
        self._now_ms += 1000
        self._refresh(self._random.sample(range(len(self._pairs)), size))

    def _refresh(self, chosen: Sequence[int]) -> None:
        outcomes = self.file.run(
            [
                partial(refresh, issuer=self._issuer, credential=self._pairs[place].refresh, now_ms=self._now_ms)
                for place in chosen
            ]
        )
        for place, outcome in zip(chosen, outcomes, strict=True):
            self._pairs[place] = outcome.pair

    def _open(self, tokens: int) -> Callable[[sqlite3.Connection], Any]:
        self._now_ms += max(1, 1_800_000 // tokens)
        player_id, now_ms, random = public_id("ply", self._random.randbytes(16)), self._now_ms, self._random.randbytes
        pair = generate_pair(random, now_ms, self._issuer.policy, now_ms)
        session_id = new_session_id(random)
        self._pairs.append(pair)

        def transaction(connection: sqlite3.Connection) -> None:
            query = "INSERT INTO player (player_id, state, created_ms) VALUES (?, 'active', ?)"
            connection.execute(query, (player_id, now_ms))
            described = {"session_id": session_id, "player_id": player_id, "provider": "local", "client": "{}"}
            open_session(connection, self._issuer.keys, **described, login_id=None, pair=pair, now_ms=now_ms)

        return transaction


def measured(folder: Path, scale: Scale, *, trees: bool = False) -> Iterator[tuple[str, Figures]]:
    """Yield the name of each measurement and its figures."""
    for kind, store, sizes in (("put", Saves, (FEW, scale.saves)), ("refresh", Sessions, (FEW_TOKENS, scale.tokens))):
        for size in sizes:
            for batch in BATCHES:
                place = Path(tempfile.mkdtemp(dir=folder))
                opened: Any = store(place, size)
                with closing(opened.file.connection):
                    run = opened.replace if kind == "put" else opened.refresh
                    run(1)
                    yield f"{kind}-{batch} of {size:,}", opened.file.measure(scale.batches, batch, run, trees=trees)
                shutil.rmtree(place)


def measured_with_cleanup(folder: Path, scale: Scale) -> tuple[str, Figures]:
    """Return the name and the figures of PUTs whose slots have full histories, with their share of the cleanup."""
    place, size = Path(tempfile.mkdtemp(dir=folder)), BATCHES[-1]
    saves = Saves(place, FEW, SHORT)
    with closing(saves.file.connection):
        for _ in range(SHORT.keep_versions):
            saves.replace_all(size)
        rounds = max(1, scale.batches * size // FEW)
        figures = saves.file.measure(rounds, FEW, lambda _: saves.replace_all(size), trees=False)
    shutil.rmtree(place)
    return f"put-{size} and cleanup", figures


def pages(folder: Path, *, smoke: bool) -> Mapping[str, float]:
    """Return the pages that each kind of request logs."""
    scale = SMOKE if smoke else WHOLE
    found = [*measured(folder, scale), measured_with_cleanup(folder, scale)]
    return {name: figures.pages for name, figures in found}


def main() -> None:
    options = argparse.ArgumentParser("bench.pages", description=__doc__)
    options.add_argument("--smoke", action="store_true", help="the shortest run, to see that it works")
    options.add_argument("--trees", action="store_true", help="pages by table and index")
    options.add_argument("--tokens", type=int, default=WHOLE.tokens, help="[%(default)s]")
    options.add_argument("--batches", type=int, default=WHOLE.batches, help="[%(default)s]")
    given = options.parse_args()
    scale = SMOKE if given.smoke else Scale(MANY, given.tokens, given.batches)
    with tempfile.TemporaryDirectory(prefix="gamed-bench-") as folder:
        every = measured(Path(folder), scale, trees=given.trees)
        for name, figures in chain(every, map(measured_with_cleanup, [Path(folder)], [scale])):
            print(f"{name:24} {figures.pages:6.2f} pages {figures.cpu_us:6.0f} us of this thread", flush=True)
            for tree, pages in figures.trees.items() if given.trees else ():
                print(f"    {tree:40} {pages:6.2f}")


if __name__ == "__main__":
    main()
