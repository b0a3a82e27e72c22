"""This moves a large store to PostgreSQL and back, and kills the command many times on both ways.

python -m bench.moves [--players 10000] [--bytes 1073741824] [--kills 20] [--folder DIR] [--smoke] [--json FILE]

The store is made through gamed's own transactions: players who are signed in, and saves of two versions, a few of them
large. PostgreSQL is started for this. Each way begins with a move that is not disturbed and measured, and undone.
Then the command gets SIGKILL at moments that are spread evenly over that time. After each of them the source must be
as it was, by the hashes of all tables and by `gamed check data`, and the target must have nothing, or everything; then
the next run must finish. At last the whole store is moved, and compared.
"""

import argparse
import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import partial
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

from msgspec import Struct, to_builtins

from bench import machine
from bench.instance import GAMED, GamedInstance
from bench.million import player
from bench.process import ROOT
from gamed.clock import now_ms
from gamed.config.game import SaveLimits
from gamed.config.model import PostgresqlAddress
from gamed.database import blob_rows
from gamed.database.connection import AUTH, STATE, Connection
from gamed.database.postgresql.connecting import Connector, SessionKind
from gamed.database.postgresql.session import PlainSession
from gamed.database.postgresql.whole_tables import PostgresqlWholeDatabase
from gamed.database.sqlite import migrations
from gamed.database.sqlite.files import connect, file_uri
from gamed.database.sqlite.offline import run_transaction
from gamed.database.sqlite.whole_tables import SqliteWholeDatabase, tables_in
from gamed.database.table_copy import Table, TableDigest, digest_tables
from gamed.saves import tables
from gamed.saves.commands import WriteCommand, WriteContext, WriteResult
from gamed.saves.model import SaveContent
from gamed.saves.write_rules import Condition, ConditionKind
from gamed.saves.write_store import write_save
from tests.support.postgresql import Address, Cluster

SERVER = {"shared_buffers": "128MB", "max_wal_size": "1GB"}
SHORTER = 0.9
"""The next estimate of a move's duration after one that ended before its kill, by the estimate."""
SMOKE = {"players": 20, "bytes": 2_000_000, "kills": 1}
SLOTS, VERSIONS, SMALL_BYTES = 4, 2, 4096
LARGE_EACH = 16
"""One player in so many has a large save, which is most of the bytes."""
TOGETHER = 200
"""The players whose saves are written in one transaction."""
LOGGED = {"security_event"}
"""Tables in which a move notes itself."""
MIB = 1024 * 1024
Content = Mapping[str, TableDigest]


class Ran(Struct, frozen=True):
    """One run of the command."""

    seconds: float
    peak_mib: float
    """VmHWM."""
    code: int | None
    """None if it was killed."""


class Kill(Struct, frozen=True):
    """The findings after a kill; the source is unchanged, unless the move had been finished."""

    after_seconds: float
    source: str
    """`unchanged`, or `moved` if the command had ended or was renaming the source."""
    target: str
    """`empty`, or `complete`, where needed after a second run."""


class Way(Struct, frozen=True):
    """The results of one way."""

    name: str
    moves: Sequence[Ran]
    """Those that were not disturbed, before and after the kills."""
    kills: Sequence[Kill]


def fill(data: Path, players: int, size: int) -> None:
    """Write saves of about `size` bytes together."""
    each = size // players
    small = max(1, min(SMALL_BYTES, each // (2 * SLOTS * VERSIONS)))
    large = max(0, each - SLOTS * VERSIONS * small) * LARGE_EACH
    began = time.monotonic()
    for first in range(0, players, TOGETHER):
        numbers = range(first, min(first + TOGETHER, players))
        run_transaction(data / f"{STATE}.db", partial(_fill_players, numbers=numbers, small=small, large=large))
        print(f"\r{numbers[-1] + 1:,} players, {time.monotonic() - began:.0f} s", end="", flush=True)
    print()


def _fill_players(connection: Connection, *, numbers: range, small: int, large: int) -> None:
    for number in numbers:
        random = Random(number)
        for slot in range(SLOTS):
            for version in range(VERSIONS):
                save_version(connection, player(number), f"slot{slot}", random.randbytes(small), first=version == 0)
        if large and number % LARGE_EACH == 0:
            save_version(connection, player(number), "world", random.randbytes(large), first=True)


def save_version(
    connection: Connection, player_id: str, slot: str, data: bytes, *, first: bool, at_ms: int = 1_700_000_000_000
) -> None:
    """Write the next version of a slot as a game does."""
    context = WriteContext(player_id, tables.find_player(connection, player_id).cursor.epoch)
    content = SaveContent(sha256(data).digest(), len(data), "application/octet-stream", '{"level":7}')
    in_row: bytes | None = data
    appended = None
    if len(data) > blob_rows.PART_BYTES:
        in_row, appended = None, blob_rows.begin(connection, player_id, len(data), at_ms)
        for n in range(blob_rows.count(len(data))):
            blob_rows.insert(connection, appended, n, data[n * blob_rows.PART_BYTES : (n + 1) * blob_rows.PART_BYTES])
    condition = Condition(ConditionKind.ABSENT if first else ConditionKind.PRESENT)
    limits = SaveLimits(writes_per_minute=0)
    found = write_save(
        connection, limits, WriteCommand(context, slot, condition, content, at_ms, "epoch", in_row, appended)
    )
    if not isinstance(found, WriteResult) or not found.changed:
        raise RuntimeError(f"a save is not written: {found}")


class Files:
    """The data folder."""

    name = "files"

    def __init__(self, data: Path) -> None:
        self.data = data

    def exists(self) -> bool:
        return all((self.data / f"{name}.db").exists() for name in (AUTH, STATE))

    def is_empty(self) -> bool:
        return not any((self.data / f"{name}.db").exists() for name in (AUTH, STATE))

    def content(self) -> Content:
        found: dict[str, TableDigest] = {}
        for name in (AUTH, STATE):
            with closing(connect(file_uri(self.data / f"{name}.db", "rw"))) as connection:
                found |= digest_tables(
                    SqliteWholeDatabase(connection=connection), tables_in(connection), lambda size: None
                )
        return found

    def bring_back(self) -> None:
        """Give the files that were moved away their names again."""
        for name in (AUTH, STATE):
            for path in self.data.glob(f"{name}.db{migrations.MOVED}*"):
                path.rename(self.data / f"{name}.db")

    def clear(self) -> None:
        for path in [each for name in (AUTH, STATE) for each in self.data.glob(f"{name}.db*")]:
            path.unlink()


class Schemas:
    """The database of PostgreSQL."""

    name = "PostgreSQL"

    def __init__(self, cluster: Cluster, address: Address) -> None:
        self._cluster, self.address = cluster, address

    def _names(self) -> list[str]:
        query = "SELECT nspname FROM pg_namespace WHERE nspname ~ '^(auth|state)'"
        return [name for (name,) in self._cluster.execute(query, self.address.database)]

    def exists(self) -> bool:
        return {AUTH, STATE} <= set(self._names())

    def is_empty(self) -> bool:
        return not {AUTH, STATE} & set(self._names())

    def content(self) -> Content:
        found: dict[str, TableDigest] = {}
        kind = SessionKind("bench", (AUTH, STATE), idle_ms=0)
        with closing(PlainSession(Connector(PostgresqlAddress(self.address.keywords), now_ms).open(kind))) as session:
            session.rows("BEGIN ISOLATION LEVEL REPEATABLE READ")
            for name in (AUTH, STATE):
                found |= digest_tables(
                    PostgresqlWholeDatabase(session=session, schema=name), _tables(name), lambda size: None
                )
        return found

    def bring_back(self) -> None:
        for name in self._names():
            if name not in {AUTH, STATE}:
                self._cluster.execute(f"ALTER SCHEMA {name} RENAME TO {name.split('_')[0]}", self.address.database)

    def clear(self) -> None:
        for name in self._names():
            self._cluster.execute(f"DROP SCHEMA {name} CASCADE", self.address.database)

    def await_end(self) -> None:
        """Return when the server has noticed the end of all clients."""
        while self._cluster.backends(self.address.database):
            time.sleep(0.1)


def _tables(name: str) -> list[Table]:
    with closing(connect(":memory:")) as model:
        migrations.migrate(model, migrations.schema_folder(name))
        return tables_in(model)


class Mover:
    """One way of the store, from a source to a target."""

    def __init__(self, instance: GamedInstance, files: Files, schemas: Schemas, *, back: bool) -> None:
        self.name = "back" if back else "there"
        self._instance, self._schemas = instance, schemas
        self._source: Files | Schemas = schemas if back else files
        self._target: Files | Schemas = files if back else schemas
        url = schemas.address.url
        self._command = ("move-store", "--to", "sqlite" if back else url, "--json")
        self._source_store, self._target_store = (url, None) if back else (None, url)
        instance.configure(self._source_store)
        self._before = self._source.content()

    def measure(self, kills: int) -> Way:
        """Move, undo that, kill so many moves, and move at last."""
        first = self._moved()
        self._undo()
        found: list[Kill] = []
        seconds = first.seconds
        while len(found) < kills:
            began = time.monotonic()
            kill = self._kill(seconds * (len(found) + 0.5) / kills)
            if kill is None:  # this machine has become faster
                seconds *= SHORTER
                continue
            found.append(kill)
            print(
                f"{self.name}: {len(found)} of {kills}: killed after {kill.after_seconds:.1f} s, source {kill.source}, "
                f"target {kill.target} ({time.monotonic() - began:.0f} s)",
                flush=True,
            )
        last = self._moved()
        self._instance.configure(self._target_store)
        self._check_data()
        return Way(self.name, [first, last], found)

    def _moved(self) -> Ran:
        ran = self._run()
        self._require_moved()
        rows = sum(each.rows for each in self._before.values())
        size = sum(each.size for each in self._before.values())
        print(
            f"{self.name}: {rows:,} rows, {size / MIB:,.0f} MiB in {ran.seconds:.1f} s ({size / ran.seconds / 1e6:.1f} "
            f"MB/s), at most {ran.peak_mib:.0f} MiB of memory; every hash the same",
            flush=True,
        )
        return ran

    def _kill(self, after: float) -> Kill | None:
        """Kill a move after so many seconds, and check both stores; return None if it had ended before."""
        ran = self._run(after)
        self._schemas.await_end()
        if not self._source.exists():
            source = "moved"
        else:
            source = "unchanged"
            if self._source.content() != self._before:
                raise RuntimeError(f"the {self._source.name} have changed after a kill at {after:.1f} s")
            self._check_data()
        empty = self._target.is_empty()
        if not empty or source == "moved":
            if ran.code is None and not self._source.is_empty():
                self._run()
            self._require_moved()
            self._undo()
        return None if ran.code is not None else Kill(after, source, "empty" if empty else "complete")

    def _require_moved(self) -> None:
        found = self._target.content()
        wrong = {name for name in {*found, *self._before} if found.get(name) != self._before.get(name)} - LOGGED
        if wrong or not self._source.is_empty():
            raise RuntimeError(f"{self.name}: after the move, {sorted(wrong)} differ, or the source is still there")

    def _undo(self) -> None:
        self._target.clear()
        self._source.bring_back()

    def _check_data(self) -> None:
        self._call(None, "check", "data")

    def _run(self, kill_after: float | None = None) -> Ran:
        return self._call(kill_after, *self._command)

    def _call(self, kill_after: float | None, *arguments: str) -> Ran:
        """Run a command, with the peak of its memory; raise RuntimeError if it fails."""
        folder = self._instance.folder
        places = ["--config", str(folder / "authentication.json"), "--data", str(self._instance.data)]
        with open(folder / "command.log", "w+b") as log:
            began, peak = time.monotonic(), 0
            child = subprocess.Popen(
                [*GAMED, *places, *arguments], cwd=ROOT, env=self._instance.environment, stdout=log, stderr=log
            )
            while (code := child.poll()) is None:
                peak = max(peak, _peak_kib(child.pid))
                if kill_after is not None and time.monotonic() - began >= kill_after:
                    child.kill()
                    child.wait()
                    break
                time.sleep(0.02)
            seconds = time.monotonic() - began
            if code:
                log.seek(0)
                raise RuntimeError(f"{arguments[0]} ended with {code}: {log.read().decode()[-2000:]}")
        return Ran(seconds, peak / 1024, code)


def _peak_kib(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next((int(line.split()[1]) for line in lines if line.startswith("VmHWM")), 0)  # none once it has ended


def measure(folder: Path, options: argparse.Namespace) -> list[Way]:
    """Make the store, and move it there and back."""
    instance = GamedInstance(folder / "gamed", master_key=True)
    instance.start().stop()
    instance.sign_in([player(number) for number in range(options.players)])
    fill(instance.data, options.players, options.bytes)
    (base := folder / "postgresql").mkdir()
    for path, mode in ((folder, 0o711), (base, 0o777)):  # PostgreSQL is another user
        path.chmod(mode)
    cluster = Cluster(settings=SERVER, base=str(base))
    try:
        files, schemas = Files(instance.data), Schemas(cluster, cluster.database())
        before = files.content()
        ways = [Mover(instance, files, schemas, back=back).measure(options.kills) for back in (False, True)]
        wrong = {name for name, digest in files.content().items() if digest != before[name]} - LOGGED
        if wrong:
            raise RuntimeError(f"{sorted(wrong)} differ after there and back")
    finally:
        cluster.close()
    return ways


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--players", type=int, default=10_000, help="[%(default)s]")
    parser.add_argument("--bytes", type=int, default=1024 * MIB, help="of all saves together [%(default)s]")
    parser.add_argument("--kills", type=int, default=20, help="on each way [%(default)s]")
    parser.add_argument("--folder", type=Path, help="needs six times --bytes; TMPDIR by default")
    parser.add_argument("--smoke", action="store_true", help="the shortest run, to see that it works")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all results")
    options = parser.parse_args()
    if options.smoke:
        vars(options).update(SMOKE)
    return options


def main() -> None:
    options = read_options()
    folder = Path(tempfile.mkdtemp(prefix="gamed-bench-", dir=options.folder))
    began = time.monotonic()
    try:
        state: Mapping[str, Any] = machine.state(folder)
        print("\n".join(machine.lines(state)), flush=True)
        ways = measure(folder, options)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{sum(len(way.kills) for way in ways)} kills, nothing lost; {time.monotonic() - began:.0f} s in all")
    if options.json is not None:
        options.json.write_text(json.dumps({"machine": state, "ways": to_builtins(ways)}, indent=1))


if __name__ == "__main__":
    main()
