"""This lets one player do a day of the worst that the default limits allow, and measures what another one waits then.

python -m bench.worst_day [--store sqlite|postgresql] [--hours 24] [--seconds 20] [--only KIND] [--smoke] [--json FILE]

The day is simulated: the store's own transactions and the cleanup of each minute run with a clock of their own. Then
`gamed serve` serves that store, and the player goes on by 60 connections as fast as the limits allow.
"""

import argparse
import http.client
import json
import os
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing, suppress
from functools import partial
from hashlib import sha256
from io import BytesIO
from multiprocessing import get_context
from pathlib import Path
from secrets import token_bytes
from sqlite3 import connect
from threading import Event, Thread
from typing import Any

import psycopg
from msgspec import Struct, to_builtins

from bench.instance import GamedInstance, percentile
from bench.machine import lines, state
from bench.process import CLIENT_CPU
from bench.stores import start_cluster
from gamed.config.game import SaveLimits
from gamed.config.model import PostgresqlAddress
from gamed.crypto import Keys, Secret
from gamed.database.connection import STATE
from gamed.database.databases import Databases
from gamed.database.postgresql.store import PostgresqlStore
from gamed.database.sqlite.store import SqliteStore
from gamed.http.conditional import EntityTag
from gamed.saves import tables
from gamed.saves.cleanup import CleanupTask
from gamed.saves.commands import (
    Change,
    CommitCommand,
    Committed,
    DeleteCommand,
    StageCommand,
    StagedContent,
    WriteCommand,
    WriteContext,
)
from gamed.saves.errors import SaveError
from gamed.saves.limits import SaveRateLimiter
from gamed.saves.model import DEFAULT_MEDIA_TYPE, SaveContent
from gamed.saves.service import execute_with_blob
from gamed.saves.store import SaveStore
from gamed.saves.write_rules import Condition, ConditionKind
from tests.support.folders import memory
from tests.support.postgresql import Address, Cluster

MALICIOUS = f"ply_{'m' * 22}"
OTHERS = [f"ply_{number:022d}" for number in range(60)]
"""The other players: so many that none writes more often than once a second."""
HOUR_MS, MINUTE_MS = 3_600_000, 60_000
LIMITS = SaveLimits()
ABSENT, PRESENT = Condition(ConditionKind.ABSENT), Condition(ConditionKind.PRESENT)
STALE = Condition(ConditionKind.THIS, EntityTag("s" * 64))
"""The longest tag that a conflict copy keeps."""
LONG_TYPE = "application/" + "x" * 243
LONG_DEVICE = "d" * 64
META = 760, 2048
"""The length of a Save-Meta whose row takes most beside what it counts, and the longest one."""
META_SLOTS = 88
"""So many that 64 others fit beside all."""
LARGE_SLOTS = 8
"""Each keeps eleven bodies of half the size allowed: more than the history may have."""
GROUPS = 15
"""960 slots are deleted, so that others can be created: no slot of the last 24 hours expires early."""
MIXES = {"commits": 0.5, "metas": 0.15, "copies": 0.1, "turns": 0.1, "pages": 0.1, "fill": 0.05}
"""The changes of the day, each with its part of it."""
MIB = 2**20
CONNECTIONS = 60
LONG_SECONDS = 10.0
"""From so many seconds on an attack shows what it costs; a shorter one shows that the measurement works."""
WANTED_MS, WANTED_MIB, WANTED_RATIO = 20.0, 4.0, 2.0


class Mixed(Struct, frozen=True):
    """The growth by one mix of changes: rows, bytes that count, and bytes of the store."""

    name: str
    rows: int
    counted: int
    stored: int

    def line(self) -> str:
        return (
            f"  {self.name:10} {self.rows:7,} versions, {self.counted / MIB:7.1f} MiB count, "
            f"{self.stored / MIB:7.1f} MiB stored"
        )


class Simulated(Struct, frozen=True):
    """The store after the day."""

    mixes: Sequence[Mixed]
    slots: int
    deleted: int
    rows: int
    counted: int
    stored: int
    """Before the last hours, in which large bodies fill the history."""

    @property
    def ratio(self) -> float:
        return self.stored / self.counted


class Day:
    """One player's changes, each second one, which is all that the limits allow for long."""

    def __init__(self, databases: Databases, clock: "SimulatedClock", size: Callable[[], int]) -> None:
        self.databases, self.clock, self._size = databases, clock, size
        keys = Keys.of(Secret(token_bytes(32)), token_bytes)
        self.store = SaveStore(databases=databases, keys=keys, limits=LIMITS, lists=SaveRateLimiter.of_lists())
        self._cleanup = CleanupTask(databases, LIMITS, clock.now, token_bytes, lambda player_id: None)
        self._cleaned_ms = clock.ms
        self.refused = 0
        self.mixes: list[Mixed] = []

    async def run(self, hours: float) -> Simulated:
        """Run all mixes. Half of the day has commits, whose deleted slots are a day old at its end."""
        before = await self.measure()
        for name, part in MIXES.items():
            if name == "fill":
                usage = (await self.summary()).usage
                found = Simulated(self.mixes, usage.slots, usage.deleted_slots, *before)
            mix: Callable[[float], Awaitable[None]] = getattr(self, name)
            await mix(self.clock.ms + part * hours * HOUR_MS)
            after = await self.measure()
            self.mixes.append(Mixed(name, *(now - then for now, then in zip(after, before, strict=True))))
            before = after
        while self.clock.ms < time.time_ns() // 1_000_000 - HOUR_MS:
            await self.later(HOUR_MS)
        names = [f"last-{number}" for number in range(LIMITS.commit_writes)]
        data = token_bytes(8)
        await self.stage(data)
        content = StagedContent(sha256(data).digest(), DEFAULT_MEDIA_TYPE)
        await self.commit(Change(name, ABSENT, content) for name in names)
        await self.commit(Change(name, PRESENT) for name in names)  # the next new ones expire others
        return found

    async def commits(self, until_ms: float) -> None:
        """Write 64 slots at once, and delete them by the next commit; GROUPS in turns."""
        group = 0
        while self.clock.ms < until_ms:
            names = [f"commit-{group % GROUPS}-{number}" for number in range(LIMITS.commit_writes)]
            bodies = [token_bytes(8) for _ in names]
            for data in bodies:
                await self.stage(data)
            await self.commit(
                Change(name, ABSENT, StagedContent(sha256(data).digest(), DEFAULT_MEDIA_TYPE, _meta(META[group % 2])))
                for name, data in zip(names, bodies, strict=True)
            )
            await self.commit(Change(name, PRESENT) for name in names)
            group += 1

    async def metas(self, until_ms: float) -> None:
        """Write META_SLOTS, each with a Save-Meta that makes its row too long for a page of the index."""
        await self._round("meta", META_SLOTS, until_ms, lambda: token_bytes(8), meta=_meta(META[0]))

    async def pages(self, until_ms: float) -> None:
        """Write 64 slots of bytes of which one row fits into a page."""
        await self._round("page", 64, until_ms, lambda: token_bytes(2060))

    async def copies(self, until_ms: float) -> None:
        """Let 32 slots have conflict copies, with the longest of everything that a version keeps."""
        names = [f"{'c' * 60}{number}" for number in range(32)]
        for name in names:
            await self.put(name, ABSENT, token_bytes(8))
        while self.clock.ms < until_ms:
            for name in names:
                await self.put(name, STALE, token_bytes(8), meta=_meta(400), content_type=LONG_TYPE)

    async def turns(self, until_ms: float) -> None:
        """Write and delete sixteen slots in turns."""
        number = 0
        while self.clock.ms < until_ms:
            name = f"{'t' * 60}{number % 16}"
            await self.put(name, ABSENT, token_bytes(8), content_type=LONG_TYPE)
            await self.delete(name)
            number += 1

    async def fill(self, until_ms: float) -> None:
        """Fill the history with large bodies; the small versions before them are the first to go."""
        number = 0
        while self.clock.ms < until_ms and (await self.summary()).usage.history_bytes < LIMITS.history_bytes - MIB:
            await self.put(
                f"large{number % LARGE_SLOTS}",
                PRESENT if number >= LARGE_SLOTS else ABSENT,
                os.urandom(LIMITS.save_bytes // 2),
            )
            number += 1

    async def _round(
        self, prefix: str, slots: int, until_ms: float, data: Callable[[], bytes], meta: str | None = None
    ) -> None:
        number = 0
        while self.clock.ms < until_ms:
            condition = ABSENT if number < slots else PRESENT
            await self.put(f"{prefix}{number % slots}", condition, data(), meta=meta)
            number += 1

    async def put(
        self,
        slot: str,
        condition: Condition,
        data: bytes,
        *,
        meta: str | None = None,
        content_type: str = DEFAULT_MEDIA_TYPE,
    ) -> None:
        content = SaveContent(sha256(data).digest(), len(data), content_type, meta)
        small = len(data) <= 256 * 1024
        command = WriteCommand(
            await self.context(), slot, condition, content, self.clock.ms, "epoch", data if small else None
        )
        with suppress(SaveError):
            await execute_with_blob(self.store, command, self.store.write, None if small else BytesIO(data))
        await self.later(1000)

    async def delete(self, slot: str) -> None:
        await self.store.delete(DeleteCommand(await self.context(), slot, PRESENT, self.clock.ms))
        await self.later(1000)

    async def stage(self, data: bytes) -> None:
        content = SaveContent(sha256(data).digest(), len(data), DEFAULT_MEDIA_TYPE)
        command = StageCommand(await self.context(), content, self.clock.ms, self.clock.ms - 24 * HOUR_MS, data)
        await self.store.stage(command)

    async def commit(self, changes: Iterator[Change]) -> None:
        listed = tuple(changes)
        command = CommitCommand(await self.context(), listed, self.clock.ms, "epoch", {})
        blobs = await self.store.find_blobs(MALICIOUS, command.digests)
        command = CommitCommand(command.context, listed, self.clock.ms, "epoch", blobs)
        if not isinstance(await self.store.commit(command), Committed):
            self.refused += 1
        await self.later(1000 * len(listed))

    async def context(self) -> WriteContext:
        summary = await self.summary()
        return WriteContext(MALICIOUS, summary.cursor.epoch, summary.usage, LONG_DEVICE, self.clock.ms)

    async def summary(self) -> Any:
        return await self.databases.reads.submit(partial(tables.find_player, player_id=MALICIOUS))

    async def later(self, ms: int) -> None:
        """Advance the clock; clean up once a minute, as the service does."""
        self.clock.ms += ms
        if self.clock.ms - self._cleaned_ms >= MINUTE_MS:
            self._cleaned_ms = self.clock.ms
            await self._cleanup.clean_up()

    async def measure(self) -> tuple[int, int, int]:
        """Return the player's versions, the bytes that count, and those of the store."""
        await self._cleanup.clean_up()
        usage = (await self.summary()).usage
        query = "SELECT count(*) FROM save_version WHERE player_id = :player_id"
        count = partial(_one, query=query, values={"player_id": MALICIOUS})
        return await self.databases.reads.submit(count), usage.bytes + usage.history_bytes, self._size()


def _one(connection: Any, query: str, values: Mapping[str, object]) -> int:
    ((found,),) = connection.execute(query, values).fetchall()
    return int(found)


def _meta(size: int) -> str:
    return json.dumps({"n": "m" * (size - 8)}, separators=(",", ":"))


class SimulatedClock(Struct):
    """The time of the simulated day."""

    ms: int

    def now(self) -> int:
        return self.ms


def simulate(data: Path, address: Address | None, hours: float) -> Simulated:
    """Simulate the day in the store of a data folder, or in a database; this process is not used for anything else."""
    from twisted.internet import reactor
    from twisted.internet.defer import Deferred
    from twisted.python.failure import Failure

    clock = SimulatedClock(time.time_ns() // 1_000_000 - int((hours * 0.5 + 24.5) * HOUR_MS))
    store = SqliteStore(data=data) if address is None else _postgresql(address, data)
    size = partial(_file_size, data) if address is None else partial(_relations_size, address)
    found: list[Any] = []

    async def run() -> None:
        databases = Databases.open(reactor, store.backend(reactor, "simulated", reactor.stop), data, clock.now)
        try:
            found.append(await Day(databases, clock, size).run(hours))
        finally:
            await databases.close()

    def ended(result: object) -> None:
        if isinstance(result, Failure):
            found.append(result)
        reactor.stop()

    reactor.callWhenRunning(lambda: Deferred.fromCoroutine(run()).addBoth(ended))
    reactor.run()
    if isinstance(found[-1], Failure):
        found[-1].raiseException()
    day: Simulated = found[-1]
    return day


def simulate_in_memory(data: Path, address: Address | None, hours: float) -> Simulated:
    """Simulate the day in memory, where a flush costs nothing, and in a process of its own."""
    with (
        ProcessPoolExecutor(1, get_context("spawn")) as pool,
        tempfile.TemporaryDirectory(dir=memory()) as name,
    ):
        if address is not None:  # the whole cluster is there: gamed refuses one without fsync
            return pool.submit(simulate, data, address, hours).result()
        copy = Path(name) / "data"
        shutil.copytree(data, copy)
        simulated = pool.submit(simulate, copy, None, hours).result()
        shutil.copy(copy / "state.db", data / "state.db")
        return simulated


def _postgresql(address: Address, data: Path) -> PostgresqlStore:
    return PostgresqlStore(PostgresqlAddress(address.keywords), data, lambda: time.time_ns() // 1_000_000)


def _file_size(data: Path) -> int:
    with closing(connect(data / "state.db")) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    return (data / "state.db").stat().st_size


def _relations_size(address: Address) -> int:
    """Return the size of all tables and indexes of saves, after a VACUUM as the server itself begins one."""
    with psycopg.connect(address.conninfo, autocommit=True) as connection:
        connection.execute("VACUUM")
        query = "SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class c WHERE relkind = 'r' AND relnamespace = "
        [(size,)] = connection.execute(query + "'state'::regnamespace").fetchall()
    return int(size)


# the attack by HTTP

Attack = Callable[["Attacker", int], None]


class Attacker:
    """One connection of the malicious player, which obeys each Retry-After."""

    def __init__(self, port: int, token: str, stop: Event) -> None:
        self._port, self._token, self.stop = port, token, stop
        self._connection: http.client.HTTPConnection | None = None
        self.answers: dict[int, int] = {}

    def send(self, method: str, path: str, body: bytes | None = None, **fields: str) -> int:
        """Send one request and read its response; wait if the limits say so."""
        headers = {"Authorization": f"Bearer {self._token}", **{n.replace("_", "-"): v for n, v in fields.items()}}
        try:
            if self._connection is None:
                self._connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
            self._connection.request(method, path, body, headers)
            answer = self._connection.getresponse()
            answer.read()
        except (OSError, http.client.HTTPException):
            self._connection = None
            self.stop.wait(0.1)
            return 0
        self.answers[answer.status] = self.answers.get(answer.status, 0) + 1
        if answer.status in (413, 429, 503):
            self.stop.wait(float(answer.headers.get("Retry-After", 1)))
        return answer.status

    def commit(self, writes: Sequence[Mapping[str, object]]) -> int:
        body = json.dumps({"writes": writes}).encode()
        return self.send("POST", "/game/commit", body, Content_Type="application/json")


def list_changes(attacker: Attacker, number: int) -> None:
    attacker.send("GET", "/game/saves?since=0.0")


def list_all(attacker: Attacker, number: int) -> None:
    attacker.send("GET", "/game/saves")


def list_freely(attacker: Attacker, number: int) -> None:
    """The longest list that has no rate, and the position of its first row is the worst one."""
    attacker.send("GET", "/game/saves/meta1/versions?limit=32")


def list_versions(attacker: Attacker, number: int) -> None:
    attacker.send("GET", f"/game/saves/commit-{number % GROUPS}-{number % 64}/versions")


def put_large(attacker: Attacker, number: int) -> None:
    """Replace a large save: the small versions of a full history make room for it."""
    attacker.send("PUT", f"/game/saves/large{number % LARGE_SLOTS}", os.urandom(LIMITS.save_bytes // 2), If_Match="*")


def put_small(attacker: Attacker, number: int) -> None:
    attacker.send("PUT", f"/game/saves/meta{number % META_SLOTS}", token_bytes(8), If_Match="*", Save_Meta=_meta(760))


def commit_new(attacker: Attacker, number: int) -> None:
    """Write 64 new slots, for which as many deleted ones expire; delete them by the next commit."""
    names = [f"new-{os.getpid()}-{number // 2}-{place}" for place in range(LIMITS.commit_writes)]
    if number % 2:
        attacker.commit([{"slot": name, "if_match": "*", "delete": True} for name in names])
        return
    data = token_bytes(8)
    digest = sha256(data).hexdigest()
    attacker.send("PUT", f"/game/blobs/{digest}", data)
    meta = json.loads(_meta(2048))
    attacker.commit([{"slot": name, "if_none_match": "*", "sha256": digest, "meta": meta} for name in names])


def ask_for_bytes(attacker: Attacker, number: int) -> None:
    """Ask for bytes that are not there, which are searched in the versions."""
    attacker.send("HEAD", f"/game/blobs/{sha256(token_bytes(8)).hexdigest()}")


def commit_refused(attacker: Attacker, number: int) -> None:
    """Let 64 entries be decided of which none holds."""
    names = [f"commit-{number % GROUPS}-{place}" for place in range(LIMITS.commit_writes)]
    attacker.commit([{"slot": name, "if_match": f'"{"s" * 64}"', "delete": True} for name in names])


ATTACKS: Mapping[str, tuple[Attack, int]] = {
    "changes": (list_changes, 10),
    "all": (list_all, 10),
    "bytes": (ask_for_bytes, 4),
    "refused": (commit_refused, 4),
    "freely": (list_freely, 8),
    "versions": (list_versions, 10),
    "large": (put_large, 4),
    "small": (put_small, 4),
    "commits": (commit_new, 6),
}
"""Each with its connections: 60 together."""


def attack(port: int, token: str, only: Sequence[str], seconds: float) -> dict[str, dict[int, int]]:
    """Attack by all kinds, or `only` some; return the numbers of responses by status."""
    os.sched_setaffinity(0, {CLIENT_CPU})
    os.nice(10)  # the measured client goes first
    stop, attackers, threads = Event(), [], []
    for name, (kind, connections) in ATTACKS.items():
        if only and name not in only:
            continue
        for place in range(connections):
            attacker = Attacker(port, token, stop)
            attackers.append((name, attacker))
            threads.append(Thread(target=_repeat, args=(attacker, kind, place * 1000), daemon=True))
    for thread in threads:
        thread.start()
    time.sleep(seconds)
    stop.set()
    for thread in threads:
        thread.join(10)
    found: dict[str, dict[int, int]] = {}
    for name, attacker in attackers:
        for status, count in attacker.answers.items():
            found.setdefault(name, {})[status] = found.get(name, {}).get(status, 0) + count
    return found


def _repeat(attacker: Attacker, kind: Attack, number: int) -> None:
    if kind in (put_large, put_small):
        attacker.stop.wait(1)  # until a commit, which expires slots, has used the rate of changes
    while True:  # at least once, however short the attack is
        kind(attacker, number)
        number += 1
        if attacker.stop.is_set():
            return


class Waited(Struct, frozen=True):
    """The other players' milliseconds for a GET and a PUT."""

    get: list[float]
    put: list[float]

    def p99(self) -> tuple[float, float]:
        return percentile(self.get, 0.99), percentile(self.put, 0.99)


def play(instance: GamedInstance, tokens: Sequence[str], seconds: float) -> Waited:
    """Read and write a save in turns every 10 ms, each time as the next of the other players."""
    connection, waited = instance.connect(), Waited([], [])
    began = due = time.perf_counter()
    number = 0
    while due < began + seconds:
        token = tokens[number // 2 % len(tokens)]
        time.sleep(max(0.0, due - time.perf_counter()))
        sent = time.perf_counter()
        if number % 2:
            answer = GamedInstance.request(connection, "GET", "/game/saves/auto", token)
        else:
            body, headers = os.urandom(4096), {"If-Match": "*"}
            answer = GamedInstance.request(connection, "PUT", "/game/saves/auto", token, body=body, headers=headers)
        assert answer[0] == 200, answer
        (waited.get if number % 2 else waited.put).append((time.perf_counter() - sent) * 1000)
        number += 1
        due = max(due + 0.01, time.perf_counter() - 0.1)
    connection.close()
    return waited


def hold_lists(instance: GamedInstance, token: str) -> tuple[int, float]:
    """Ask for full lists and do not read them; return their number, and the MiB of each in the server's memory."""
    before, held = instance.rss_mib(), []
    request = f"GET /game/saves HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n".encode()
    for _ in range(CONNECTIONS):
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", instance.port))
        connection.sendall(request)
        held.append(connection)
    time.sleep(3)
    lists = sum(connection.recv(12).endswith(b"200") for connection in held)
    grown = instance.rss_mib("VmHWM") - before
    for connection in held:
        connection.close()
    return lists, grown / max(1, lists)


class Found(Struct, frozen=True):
    """All figures of one store."""

    store: str
    simulated: Simulated
    idle: tuple[float, float]
    attacked: tuple[float, float]
    answers: Mapping[str, Mapping[int, int]]
    held: tuple[int, float]
    reactor: tuple[float, float]
    """The longest stretch of the reactor's thread under the attack, by clock and by processor, in milliseconds."""
    batch: tuple[float, float]
    """The longest batch of the write queue of saves, likewise."""

    def lines(self) -> Iterator[str]:
        """Yield the figures, and whether each is as wanted."""
        day = self.simulated
        yield f"{self.store}: {day.slots} saves, {day.deleted} deleted ones, {day.rows:,} versions"
        yield from (mix.line() for mix in day.mixes)
        yield (
            f"  store {day.stored / MIB:.1f} MiB, counted {day.counted / MIB:.1f} MiB: {day.ratio:.2f}, wanted at most "
            f"{WANTED_RATIO}: {_met(day.ratio <= WANTED_RATIO)}"
        )
        for name, idle, attacked in zip(("GET", "PUT"), self.idle, self.attacked, strict=True):
            more = attacked - idle
            yield (
                f"  p99 of another player's {name} {idle:.1f} ms, under the attack {attacked:.1f} ms: {more:.1f} ms "
                f"more, wanted at most {WANTED_MS}: {_met(more <= WANTED_MS)}"
            )
        number, mib = self.held
        yield f"  {number} unread lists: {mib:.2f} MiB each, wanted at most {WANTED_MIB}: {_met(mib <= WANTED_MIB)}"
        yield f"  longest stretch of the reactor's thread {self.reactor[0]:.1f} ms, {self.reactor[1]:.1f} of processor"
        yield f"  longest batch of writes {self.batch[0]:.1f} ms, {self.batch[1]:.1f} of processor"
        yield f"  responses: {dict(self.answers)}"


def _met(met: bool) -> str:
    return "met" if met else "missed"


def measure(
    store: str, folder: Path, cluster: Cluster | None, *, hours: float, seconds: float, only: Sequence[str]
) -> Found:
    """Simulate the day in a new store, and measure."""
    address = None if cluster is None else cluster.database()
    notes = folder / "stretches"
    command = (sys.executable, "-m", "bench.references.watched", str(notes))
    instance = GamedInstance(folder, {}, command=command, store=None if address is None else address.url)
    instance.start().stop()
    attacker, *others = [player.access for player in instance.sign_in([MALICIOUS, *OTHERS])]
    simulated = simulate_in_memory(instance.data, address, hours)
    instance.start()
    try:
        connection = instance.connect()
        for token in others:
            headers = {"If-None-Match": "*"}
            GamedInstance.request(connection, "PUT", "/game/saves/auto", token, body=b"first", headers=headers)
        play(instance, others, seconds / 4)
        idle = play(instance, others, seconds)
        began = time.time()
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:
            lead = 2.0 if seconds >= LONG_SECONDS else seconds / 4
            attacking = pool.submit(attack, instance.port, attacker, only, seconds + 2 * lead)
            time.sleep(lead)  # until all connections of that process are used
            attacked = play(instance, others, seconds)
            answers = attacking.result()
        ended = time.time()
        time.sleep(25 if seconds >= LONG_SECONDS else 1)  # until the rate of lists allows 40 again
        held = hold_lists(instance, attacker)
    finally:
        instance.stop()
    stretches = [each for each in json.loads(notes.read_text()) if began < each[1] < ended]
    return Found(
        store,
        simulated,
        idle.p99(),
        attacked.p99(),
        answers,
        held,
        _longest(stretches, "reactor"),
        _longest(stretches, STATE),
    )


def _longest(stretches: Sequence[tuple[str, float, float, float]], name: str) -> tuple[float, float]:
    _, _, ms, cpu_ms = max(
        (each for each in stretches if each[0] == name), key=lambda each: each[2], default=(0, 0, 0, 0)
    )
    return ms, cpu_ms


def main() -> None:
    """Measure, and print the figures of each store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", choices=["sqlite", "postgresql"], action="append")
    parser.add_argument("--hours", type=float, default=24)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--only", choices=ATTACKS, action="append", default=[])
    parser.add_argument("--smoke", action="store_true", help="a quarter of an hour, and a second of attack")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    hours, seconds = (0.25, 1.0) if given.smoke else (given.hours, given.seconds)
    found = []
    with tempfile.TemporaryDirectory(prefix="gamed-bench-") as name:
        folder = Path(name)
        machine = state(folder)
        print("\n".join(lines(machine)), flush=True)
        for store in given.store or ("sqlite", "postgresql"):
            cluster = start_cluster(memory()) if store == "postgresql" else None
            try:
                found.append(measure(store, folder / store, cluster, hours=hours, seconds=seconds, only=given.only))
            finally:
                if cluster is not None:
                    cluster.close()
            print("\n".join(found[-1].lines()), flush=True)
    if given.json is not None:
        given.json.write_text(json.dumps({"machine": machine, "stores": to_builtins(found)}, indent=1))


if __name__ == "__main__":
    main()
