"""The routes of saves over databases in memory; one player, Anna, is signed in."""

from base64 import b64encode
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any, TypeVar

from msgspec.structs import replace
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from gamed.config.game import GameSettings, SaveLimits
from gamed.crypto import Secret
from gamed.database.connection import Connection
from gamed.database.databases import Databases
from gamed.http.spool import run_inline
from gamed.saves.build import build_saves, build_waits
from gamed.saves.model import EMPTY_CURSOR
from gamed.sessions.recent import MAX_RECENT, RecentTokens
from tests.saves.state_machine import count_errors, damage_blobs
from tests.sessions.fixtures import ANNA, Counting
from tests.sessions.server import SessionServer, text
from tests.support.components import service_context
from tests.support.databases import InlineReactor, memory_databases
from tests.support.folders import unused_path
from tests.support.http import Answer, Browser, request_bytes
from tests.support.http import Connection as HttpConnection

T = TypeVar("T")
STAGED_SECONDS = 24 * 3600

KIB, MIB = 1024, 1024 * 1024
BIG = bytes(range(1, 251)) * 2100
"""A body over 256 KiB, which the server receives in a file."""
ABSENT = {"If-None-Match": "*"}
PRESENT = {"If-Match": "*"}


def digest_of(data: bytes) -> str:
    return f"sha-256=:{b64encode(sha256(data).digest()).decode()}:"


def tag(version: int, data: bytes) -> str:
    """Return the entity-tag with its quotes."""
    return f'"{version}-{sha256(data).hexdigest()[:16]}"'


class SaveCase(SynchronousTestCase):
    """A test case whose requests, such as `self.put("auto", b"...")`, are Anna's."""

    limits = SaveLimits()
    crashes = False
    writes_per_minute = 0
    """0 is no limit; it replaces that of `limits`."""
    recent_tokens = MAX_RECENT
    """0: each write authenticates its token in a transaction of its own, before the body."""
    known = False
    """Whether each player who signs in has used the token, and the service knows it."""
    late: list[Callable[[], object]] | None = None
    """Work for threads of the disk that waits for run_late(); None if such work is done at once."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.folder = unused_path(self) / "tmp"
        self.folder.mkdir(parents=True)
        self.stores = self.make_stores()
        self.free = 2**40
        self.random = Counting()
        self.server = SessionServer(self.stores, recent=RecentTokens(self.recent_tokens))
        self.bearer = self.sign_in(ANNA)
        self.browser = self.browser_for(self.limits)

    def make_stores(self) -> Databases:
        self.store_clock = InlineReactor()
        return memory_databases(self, lambda: self.server.now_ms, self.store_clock)

    def browser_for(self, limits: SaveLimits) -> Browser:
        """Return a browser for the routes of saves over the same databases."""
        paced = replace(limits, writes_per_minute=self.writes_per_minute)
        game = GameSettings(saves=paced, staged_seconds=STAGED_SECONDS)
        server, values = self.server, {"reactor": self.clock, "random": self.random, "data": self.folder.parent}
        context = service_context(
            server.issuer.keys, self.stores, server.audit, lambda: server.now_ms, game=game, **values
        )
        waits = build_waits(context)
        self.waiters, self.change_waiters, self.tasks = waits.registry, waits.changes, context.tasks
        self.saves = build_saves(
            context, server.sessions, waits, in_thread=self.disk, usage_of_disk=lambda: (0, 0, self.free)
        )
        self.routes, self.exports, self.reservations = (
            self.saves.save_routes,
            self.saves.archives,
            self.saves.reservations,
        )
        route_groups = list(self.saves.routes)
        return Browser(route_groups, clock=self.clock, crashes=self.crashes, now_ms=lambda: self.server.now_ms)

    def disk(self, work: Callable[[], T]) -> Deferred[T]:
        """Run the work of a thread for the disk: at once, or when the test calls run_late()."""
        if self.late is None:
            return run_inline(work)
        done: Deferred[T] = Deferred()
        self.late.append(lambda: run_inline(work).chainDeferred(done))
        return done

    def read_slowly(self, path: str) -> HttpConnection:
        """Begin a read whose client takes one piece of the bytes, then none until it resumes."""
        call = self.browser.connect()
        write = call.transport.write

        def dripping(data: bytes) -> None:
            write(data)
            call.channel.flow.pauseProducing()

        call.transport.write = dripping
        return call.send(request_bytes("GET", path, self.bearer))

    def run_late(self) -> None:
        """Run what waits in `late`."""
        assert self.late is not None
        while self.late:
            self.late.pop(0)()

    def sign_in(self, player_id: str) -> dict[str, str]:
        """Return the Authorization header of a player."""
        _, pair = self.successResultOf(self.server.open(player_id))
        if self.known:
            self.make_known(pair.access)
        return {"Authorization": f"Bearer {text(pair.access)}"}

    def make_known(self, token: Secret) -> None:
        """Use a token, and let the service know it, as after a first write."""
        caller = self.successResultOf(Deferred.fromCoroutine(self.server.sessions.authenticate(text(token))))
        self.server.sessions.remember(token, caller, EMPTY_CURSOR.epoch, 0)

    def ask(self, method: str, path: str, headers: Mapping[str, str] | None = None, body: bytes = b"") -> Answer:
        return self.browser.request(method, path, {**self.bearer, **(headers or {})}, body)

    def put(self, slot: str, data: bytes, headers: Mapping[str, str] | None = None) -> Answer:
        return self.ask("PUT", f"/game/saves/{slot}", headers, data)

    def get(self, slot: str, headers: Mapping[str, str] | None = None) -> Answer:
        return self.ask("GET", f"/game/saves/{slot}", headers)

    def delete(self, slot: str, headers: Mapping[str, str] | None = None) -> Answer:
        return self.ask("DELETE", f"/game/saves/{slot}", headers)

    def versions(self, slot: str) -> list[dict[str, Any]]:
        """Return the versions, newest first."""
        answer = self.ask("GET", f"/game/saves/{slot}/versions")
        self.assertEqual(answer.status, 200)
        found: list[dict[str, Any]] = answer.json["versions"]
        return found

    def version_rows(self) -> list[tuple[Any, ...]]:
        """Return all rows of versions, to show that a request stored nothing."""
        query = "SELECT player_id, slot, version, kind, size FROM save_version ORDER BY 1, 2, 3"
        return self.successResultOf(self.server.rows(query))

    def assert_problem(self, answer: Answer, status: int, code: str, *words: str) -> Answer:
        """Assert a problem of this code whose detail has these words and no secret."""
        self.assertEqual((answer.status, answer.json.get("code")), (status, code), answer.body)
        for word in words:
            self.assertIn(word, answer.json["detail"])
        self.assertGreater(len(answer.json["detail"]), 15)
        self.assertNotIn(self.bearer["Authorization"][7:].encode(), answer.body)
        return answer

    def assert_counts_agree(self) -> None:
        """Assert that all counters agree with the stored rows."""
        self.assertEqual(self.in_state(count_errors), [])

    def in_state(self, unit: Callable[[Connection], T]) -> T:
        """Run a transaction in state.db."""
        return self.successResultOf(self.stores.state.submit(unit))

    def damage(self, slot: str, version: int) -> None:
        """Change one byte of a stored version."""
        which = f"(SELECT blob_id FROM save_version WHERE slot = '{slot}' AND version = {version})"
        self.assertGreater(self.in_state(lambda connection: damage_blobs(connection, f"blob_id = {which}")), 0)
