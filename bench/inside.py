"""This measures a request between socket and database: real routes in one thread, with a fake transport and store.

Assets are real files, which are read in the same thread.

python -m bench.inside [--only read] [--count 2000] [--repeats 15]     microseconds, the minimum of the repeats
python -m bench.inside --instructions [--folder DIR]                   by valgrind: repeatable, in a minute or two
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar, cast

from twisted.internet import reactor
from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred, succeed
from twisted.internet.testing import StringTransport

from gamed import crypto
from gamed.assets.cache import ObjectCache, ReleaseCache
from gamed.assets.publish import Publisher, PublishRequest
from gamed.assets.routes import AssetRoutes
from gamed.assets.service import AssetService
from gamed.assets.store import AssetStore
from gamed.clock import now_ms
from gamed.config.game import SaveLimits
from gamed.http.access_log import AccessLog
from gamed.http.app import RouteGroup
from gamed.http.background import ShieldedTasks
from gamed.http.conditional import Representation
from gamed.http.health_routes import PublicRoutes
from gamed.http.server import build_server
from gamed.http.settings import HttpSettings
from gamed.ops.metrics import Counters
from gamed.saves.change_waits import ChangeWaiters
from gamed.saves.commands import SlotSnapshot, WriteCommand, WriteResult
from gamed.saves.limits import DiskReservations, SaveRateLimiter
from gamed.saves.model import SaveContent, SavesSummary, SlotState, Version, VersionKind
from gamed.saves.reads import LargeReads
from gamed.saves.routes import SaveRoutes
from gamed.saves.service import SaveEnvironment, SaveService
from gamed.saves.store import SaveStore
from gamed.saves.uploads import SaveBodyPolicy, UploadAdmission
from gamed.saves.write_rules import WriteDecision, WriteRule
from gamed.sessions.credentials import AuthenticatedSession
from gamed.sessions.recent import AccessKey, RecentToken, RecentTokens, digest_of

T = TypeVar("T")
WARM = 200
LARGE_DISK = 1 << 40
PEER = IPv4Address("TCP", "127.0.0.1", 51000)
DATA, LARGE = os.urandom(4096), os.urandom(1024 * 1024)
SAVED = Version(
    slot="auto",
    version=7,
    parent=6,
    parent_tag="6-0011223344556677",
    kind=VersionKind.WRITE,
    blob_id=3,
    content=SaveContent(sha256(DATA).digest(), len(DATA), "application/octet-stream"),
    created_ms=now_ms(),
)
CALLER = AuthenticatedSession("ply_" + "0" * 22, "ses_" + "0" * 22, False, 0, None)


class FakeStore:
    """A store of one save that answers when answer() is called, because the real one does not answer at once."""

    def __init__(self) -> None:
        self._asked: list[tuple[Deferred[Any], object]] = []
        current = Representation(SAVED.entity_tag, SAVED.created_ms)
        self._snapshot = SlotSnapshot(SlotState(SAVED.version, current=SAVED), SAVED, representation=current, data=DATA)

    def read_slot(self, *_: object) -> Awaitable[tuple[AuthenticatedSession, SlotSnapshot]]:
        return self._later((CALLER, self._snapshot))

    def read_summary(self, *_: object) -> Awaitable[tuple[AuthenticatedSession, SavesSummary]]:
        return self._later((CALLER, SavesSummary()))

    def write(self, order: WriteCommand) -> Awaitable[WriteResult]:
        return self._later(WriteResult(WriteDecision(WriteRule.W4_WRITTEN), SAVED))

    def write_presented(self, key: AccessKey, order: WriteCommand) -> Awaitable[WriteResult]:
        return self.write(order)

    def _later(self, answer: Any) -> Deferred[Any]:
        deferred: Deferred[Any] = Deferred()
        self._asked.append((deferred, answer))
        return deferred

    def answer(self) -> None:
        while self._asked:
            deferred, answer = self._asked.pop()
            deferred.callback(answer)


class FakeTransport(StringTransport):
    """A transport that keeps only the last response."""

    last = b""

    def write(self, data: bytes) -> None:
        self.last = data


class FakeCollaborators:
    """The other collaborators of routes, which do nothing."""

    changes = reads = None

    def __init__(self) -> None:
        self.recent = RecentTokens()

    def find_recent(self, token: crypto.Secret) -> RecentToken | None:
        return self.recent.find(token, now_ms())

    def remember(self, token: crypto.Secret, caller: AuthenticatedSession, epoch: str, arrival_ms: int) -> None:
        key = 0, crypto.Index(bytes(32))
        digest, ours = digest_of(token), (caller.session_id, caller.player_id)
        self.recent.add(RecentToken(digest, key, *ours, epoch, now_ms(), arrival_ms))

    def wake(self, key: bytes) -> None: ...
    async def record_first_use(self, caller: AuthenticatedSession, *, reading: bool = False) -> None: ...
    async def check(self) -> None: ...


def published(folder: Path) -> AssetService:
    """Publish a release of two files as `stable`; the clock stands still, so that nothing is read again."""
    (source := folder / "source").mkdir()
    (source / "small.bin").write_bytes(DATA)
    (source / "large.bin").write_bytes(LARGE)
    store = AssetStore(folder / "assets")
    Publisher(
        store=store,
        progress=lambda label, length: nullcontext(lambda done: None),
        now_ms=now_ms,
        min_free_bytes=0,
        keep_releases=1,
    ).publish(PublishRequest(source, "stable"))

    def run(work: Callable[[], T]) -> Deferred[T]:
        return succeed(work())

    return AssetService(
        releases=ReleaseCache(store, run, lambda: 0.0),
        objects=ObjectCache(store, run, lambda: 0.0, 64),
        started_ms=now_ms(),
    )


class Inside:
    """One connection to a site, and the requests that it can send."""

    def __init__(self, folder: Path, clock: Any = reactor) -> None:
        self._store, self.transport, fake = FakeStore(), cast(Any, FakeTransport)(), FakeCollaborators()
        limits = SaveLimits(writes_per_minute=0)
        waits = ChangeWaiters(cast(Any, fake), fake)
        store = cast(SaveStore, self._store)
        environment = SaveEnvironment(limits, now_ms, os.urandom, waits)
        saves = SaveService(
            store=store,
            sessions=fake,
            environment=environment,
            rate=SaveRateLimiter.of(limits),
            reads=cast(LargeReads, None),  # no measured save is large
        )
        body_policy = SaveBodyPolicy(
            saves=saves,
            limits=limits,
            admission=UploadAdmission(
                limits=limits,
                folder=Path(tempfile.gettempdir()),
                reservations=DiskReservations(lambda: (0, 0, LARGE_DISK), 0),
            ),
        )
        groups: list[RouteGroup] = [
            SaveRoutes(saves=saves, tasks=ShieldedTasks(), write_policy=body_policy, erase=cast(Any, None)),
            PublicRoutes(mode="local", labels=[], instance="0" * 8, store="0" * 16, databases=fake),
            AssetRoutes(assets=published(folder)),
        ]
        log = AccessLog(lambda text: None, clock, now_ms, count=Counters(()).record_request)
        policy = HttpSettings(host="localhost")
        site = build_server(groups, policy, clock, access_log=log, now_ms=now_ms, random=os.urandom)
        self._channel = site.buildProtocol(PEER)
        self._channel.makeConnection(self.transport)

    def ask(self, request: bytes, count: int) -> None:
        for _ in range(count):
            self._channel.dataReceived(request)
            self._store.answer()
        if self.transport.last[9:12] not in (b"200", b"206", b"304"):
            raise RuntimeError(repr(self.transport.last[:400]))


def requests() -> Mapping[str, bytes]:
    token = crypto.generate_token(crypto.TokenType.ACCESS_TOKEN, os.urandom(32)).reveal()
    save = b"/game/saves/auto HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %b\r\n" % token
    body = b"Content-Type: application/octet-stream\r\nContent-Length: %d\r\n\r\n%b" % (len(DATA), DATA)
    large = b"/assets/stable/large.bin HTTP/1.1\r\nHost: localhost\r\n"
    return {
        "config": b"GET /auth/config HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "read": b"GET %b\r\n" % save,
        "put": b'PUT %bIf-Match: "%b"\r\n%b' % (save, SAVED.tag.encode(), body),
        "asset-4k": b"GET /assets/stable/small.bin HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "asset-64k": b"GET %bRange: bytes=65536-131071\r\n\r\n" % large,
        "asset-304": b'GET %bIf-None-Match: "%b"\r\n\r\n' % (large, sha256(LARGE).hexdigest().encode()),
    }


def microseconds(inside: Inside, asked: Mapping[str, bytes], count: int, repeats: int) -> Mapping[str, float]:
    """Return the minimum of the repeats, which take turns."""
    times: dict[str, list[float]] = {name: [] for name in asked}
    for _ in range(repeats + 1):  # the first one warms up
        for name, request in asked.items():
            began = time.perf_counter()
            inside.ask(request, count)
            times[name].append(time.perf_counter() - began)
    return {name: min(each[1:]) / count * 1e6 for name, each in times.items()}


def marked(inside: Inside, asked: Mapping[str, bytes], count: int) -> None:
    """Mark each measurement by getppid(), which is not called otherwise: callgrind writes a file at each call."""
    for request in asked.values():
        inside.ask(request, WARM)
        os.getppid()
        inside.ask(request, count)
        os.getppid()


def instructions(folder: Path, names: list[str], count: int) -> Mapping[str, float]:
    """Return the instructions of one request of each name; `folder` keeps NAME.callgrind for callgrind_annotate."""
    files = folder / "callgrind.out"
    valgrind = ("valgrind", "--tool=callgrind", "--dump-before=getppid", f"--callgrind-out-file={files}")
    words = [f"--only={name}" for name in names]
    subprocess.run(
        [*valgrind, sys.executable, "-m", "bench.inside", "--marked", f"--count={count}", *words],
        check=True,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONHASHSEED": "0"},
    )
    found = {}
    for number, name in enumerate(names, 1):
        # A call that a mark interrupts is written as 0 calls, and callgrind_annotate then counts it to the caller.
        counted = Path(f"{files}.{2 * number}").read_text().replace("\ncalls=0 ", "\ncalls=1 ")
        (folder / f"{name}.callgrind").write_text(counted)
        found[name] = int(counted.partition("\nsummary: ")[2].partition("\n")[0]) / count
    return found


def main() -> None:
    asked = requests()
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--only", action="append", choices=list(asked))
    options.add_argument("--count", type=int, default=1000)
    options.add_argument("--repeats", type=int, default=15)
    options.add_argument("--instructions", action="store_true")
    options.add_argument("--folder", type=Path, help="the folder for callgrind's files")
    options.add_argument("--marked", action="store_true", help=argparse.SUPPRESS)
    given = options.parse_args()
    asked = {name: request for name, request in asked.items() if given.only is None or name in given.only}
    if given.instructions:
        folder = given.folder or Path(tempfile.mkdtemp(prefix="gamed-bench-"))
        folder.mkdir(parents=True, exist_ok=True)
        for name, each in instructions(folder, list(asked), given.count).items():
            print(f"{name:9} {each:9,.0f} instructions   callgrind_annotate {folder}/{name}.callgrind")
        return
    with tempfile.TemporaryDirectory(prefix="gamed-bench-") as assets:
        inside = Inside(Path(assets))
        if given.marked:
            marked(inside, asked, given.count)
        else:
            for name, each in microseconds(inside, asked, given.count, given.repeats).items():
                print(f"{name:9} {each:6.1f} us")


if __name__ == "__main__":
    main()
