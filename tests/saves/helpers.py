"""The room of saves over stores in memory, spoken to in HTTP; one player who is signed in."""

from base64 import b64encode
from collections.abc import Callable, Mapping
from functools import partial
from hashlib import sha256
from pathlib import Path
from sqlite3 import Connection
from typing import Any, TypeVar

from msgspec.structs import replace
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from gamed.database.databases import Databases
from gamed.http.background import ShieldedTasks
from gamed.http.spool import run_inline
from gamed.long_poll import LongPollRegistry
from gamed.saves.batch import CommitService
from gamed.saves.batch_routes import CommitRoutes, ExportRoutes
from gamed.saves.change_waits import ChangeWaiters
from gamed.saves.erase import EraseService
from gamed.saves.erase_store import SqliteEraseStore
from gamed.saves.export import ExportService
from gamed.saves.export_store import SqliteExport
from gamed.saves.limits import DiskReservations, SaveLimits, WriteRateLimiter
from gamed.saves.routes import SaveRoutes
from gamed.saves.service import SaveEnvironment, SaveService
from gamed.saves.store import DatabaseChangeSource, SqliteSaveStore
from gamed.saves.uploads import SaveBodyPolicy, UploadAdmission
from tests.saves.state_machine import flaws, spoil
from tests.sessions.fixtures import ANNA, Counting
from tests.sessions.server import SessionServer, text
from tests.support.databases import InlineReactor, memory_databases
from tests.support.http import Answer, Browser

T = TypeVar("T")
STAGED_SECONDS = 24 * 3600

KIB, MIB = 1024, 1024 * 1024
BIG = bytes(range(1, 251)) * 2100
"""Over 256 KiB: by way of files."""
ABSENT = {"If-None-Match": "*"}


def digest_of(data: bytes) -> str:
    return f"sha-256=:{b64encode(sha256(data).digest()).decode()}:"


def tag(version: int, data: bytes) -> str:
    """With its quotes."""
    return f'"{version}-{sha256(data).hexdigest()[:16]}"'


class SaveCase(SynchronousTestCase):
    """`self.put("auto", b"...", **headers)` and its like speak for Anna."""

    limits = SaveLimits()
    crashes = False
    writes_per_minute = 0
    """No limit, whatever `limits` say."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.folder = Path(self.mktemp()).absolute()
        self.folder.mkdir()
        self.stores = self.make_stores()
        self.free = 2**40
        self.house = SessionServer(self.stores)
        self.bearer = self.sign_in(ANNA)
        self.browser = self.room(self.limits)

    def make_stores(self) -> Databases:
        self.store_clock = InlineReactor()
        return memory_databases(lambda: self.house.now_ms, self.store_clock)

    def room(self, limits: SaveLimits) -> Browser:
        """A room over the same stores."""
        random = Counting()
        store = SqliteSaveStore(self.stores, self.house.issuer.keys.indexer, limits)
        self.waiters = LongPollRegistry(self.clock)
        self.waits_of = ChangeWaiters(self.waiters, DatabaseChangeSource(self.stores))
        now_ms, paced = lambda: self.house.now_ms, replace(limits, writes_per_minute=self.writes_per_minute)
        rate, staging = WriteRateLimiter.of(paced), WriteRateLimiter.of_staging(paced)
        environment = SaveEnvironment(limits, now_ms, random, self.waits_of)
        saves = SaveService(store, self.house.sessions, environment, rate)
        commits = CommitService(saves, store, environment, STAGED_SECONDS, staging)
        self.detached = ShieldedTasks()
        self.reservations = DiskReservations(lambda: self.free, limits.min_free_bytes)
        intake = UploadAdmission(limits, self.folder, self.reservations, self.disk)
        shelves = SqliteEraseStore(self.stores, random)
        erasure = EraseService(saves, shelves, environment)
        self.routes = SaveRoutes(saves, self.detached, SaveBodyPolicy(saves, limits, intake), erasure)
        committing = CommitRoutes(commits, limits, self.detached, intake)
        self.exports = ExportService(saves, partial(SqliteExport, self.stores, self.folder), self.reservations)
        rooms = [self.routes, committing, ExportRoutes(self.exports, self.detached, self.clock)]
        return Browser(rooms, clock=self.clock, crashes=self.crashes, now_ms=lambda: self.house.now_ms)

    def disk(self, work: Callable[[], None]) -> Deferred[None]:
        """Writes a spool."""
        return run_inline(work)

    def sign_in(self, player_id: str) -> dict[str, str]:
        """-> the header that speaks for a player."""
        _, pair = self.successResultOf(self.house.open(player_id))
        return {"Authorization": f"Bearer {text(pair.access)}"}

    def ask(self, method: str, path: str, headers: Mapping[str, str] | None = None, body: bytes = b"") -> Answer:
        return self.browser.request(method, path, {**self.bearer, **(headers or {})}, body)

    def put(self, slot: str, data: bytes, headers: Mapping[str, str] | None = None) -> Answer:
        return self.ask("PUT", f"/game/saves/{slot}", headers, data)

    def get(self, slot: str, headers: Mapping[str, str] | None = None) -> Answer:
        return self.ask("GET", f"/game/saves/{slot}", headers)

    def delete(self, slot: str, headers: Mapping[str, str] | None = None) -> Answer:
        return self.ask("DELETE", f"/game/saves/{slot}", headers)

    def versions(self, slot: str) -> list[dict[str, Any]]:
        """Newest first."""
        answer = self.ask("GET", f"/game/saves/{slot}/versions")
        self.assertEqual(answer.status, 200)
        found: list[dict[str, Any]] = answer.json["versions"]
        return found

    def kept(self) -> list[tuple[Any, ...]]:
        """Every version row: to see that something stored nothing."""
        query = "SELECT player_id, slot, version, kind, size FROM save_version ORDER BY 1, 2, 3"
        return self.successResultOf(self.house.rows(query))

    def refused(self, answer: Answer, status: int, code: str, *words: str) -> Answer:
        """A problem of this code whose detail holds the words, and tells nothing secret."""
        self.assertEqual((answer.status, answer.json.get("code")), (status, code), answer.body)
        for word in words:
            self.assertIn(word, answer.json["detail"])
        self.assertGreater(len(answer.json["detail"]), 15)
        self.assertNotIn(self.bearer["Authorization"][7:].encode(), answer.body)
        return answer

    def agrees(self) -> None:
        """All counters agree with what is stored."""
        self.assertEqual(self.in_state(flaws), [])

    def in_state(self, unit: Callable[[Connection], T]) -> T:
        """Run something in state.db."""
        return self.successResultOf(self.stores.state.submit(unit))

    def damage(self, slot: str, version: int) -> None:
        """Turn one byte of a stored version."""
        which = f"(SELECT blob_id FROM save_version WHERE slot = '{slot}' AND version = {version})"
        self.assertGreater(self.in_state(lambda connection: spoil(connection, f"blob_id = {which}")), 0)
