"""A request that waits at one server hears of a change that another server made."""

from collections.abc import Callable, Mapping
from contextlib import closing
from statistics import median
from time import monotonic, sleep

from twisted.python import log

from bench.instance import percentile
from gamed.database.connection import AUTH, STATE, Connection
from tests.e2e.wire import Answer
from tests.processes.cases import SharedCase
from tests.processes.wire import Request, bearer, json_request
from tests.support.databases import ask
from tests.support.examples import examples
from tests.support.stores import POSTGRESQL, store_of, tables

MANY_ROUNDS = 100
ROUNDS = examples(few=5, many=MANY_ROUNDS)
WAIT_SECONDS = 20
SETTLED_SECONDS = 0.2
"""The time in which a request is sure to wait, on a machine that runs other tests."""
ALLOWED_SECONDS = 1.0
IDLE_SECONDS = 6


class Heard(SharedCase):
    """A test that measures how long the news of a change takes from server 0 to server 1."""

    allowed_seconds = ALLOWED_SECONDS
    """The longest median; of many rounds, also the longest of 99 %, if the servers do not poll for changes."""
    polls = True

    def hear(self, waiting: Request, act: Callable[[], object]) -> tuple[float, Answer]:
        """Let a request wait at server 1 while server 0 acts; return the seconds until its answer, and the answer."""
        self.connections[1].send(waiting)
        sleep(SETTLED_SECONDS + self.random.uniform(0, 0.5))
        act()
        acted = monotonic()
        answer = self.connections[1].receive()
        taken = monotonic() - acted
        self.assertLess(taken, WAIT_SECONDS / 2)
        return taken, answer

    def assert_soon(self, seconds: list[float]) -> None:
        slow = percentile(seconds, 0.99)
        log.msg(f"wait test={self.id()} median={median(seconds):.4f} p99={slow:.4f} most={max(seconds):.4f}")
        self.assertLess(median(seconds), self.allowed_seconds, seconds)
        if ROUNDS >= MANY_ROUNDS and not self.polls:
            self.assertLess(slow, self.allowed_seconds, seconds)


class SaveWaits(Heard):
    def test_save(self) -> None:
        """A wait for a change of saves is answered when the other server has stored one."""
        [player] = self.players(1)
        token, seconds = bearer(player.access), []
        for number in range(ROUNDS):
            cursor = self.ask(1, Request("GET", "/game/saves", token), 200).json["cursor"]
            waiting = Request("GET", f"/game/saves?since={cursor}", {**token, "Prefer": f"wait={WAIT_SECONDS}"})
            put = Request("PUT", f"/game/saves/slot{number}", token, b"data")
            taken, answer = self.hear(waiting, lambda put=put: self.ask(0, put, 201))
            self.assertEqual([save["slot"] for save in answer.json["saves"]], [f"slot{number}"])
            seconds.append(taken)
        self.assert_soon(seconds)

    def test_revocation(self) -> None:
        """A wait ends with 401 when the other server has ended its session."""
        players, seconds = self.players(ROUNDS), []
        for player in players:
            token = bearer(player.access)
            cursor = self.ask(1, Request("GET", "/game/saves", token), 200).json["cursor"]
            waiting = Request("GET", f"/game/saves?since={cursor}", {**token, "Prefer": f"wait={WAIT_SECONDS}"})
            end = json_request("POST", "/auth/session/logout", {}, **token)
            taken, answer = self.hear(waiting, lambda end=end: self.ask(0, end, 204))
            self.assertEqual((answer.status, answer.json["code"]), (401, "session_revoked"))
            seconds.append(taken)
        self.assert_soon(seconds)


def _last_writers(connection: Connection) -> dict[str, tuple[int, int]]:
    columns = "count(*), max(CAST(CAST(xmin AS text) AS bigint))"
    names = [table for table in tables(connection) if table != "heartbeat"]
    return {table: connection.execute(f"SELECT {columns} FROM {table}").fetchall()[0] for table in names}


class IdleServers(SharedCase):
    def written(self) -> Mapping[str, object]:
        """Return the time of the last write and the size of each database and its write-ahead log.

        Of PostgreSQL's, it is the number of rows in each table and the last transaction that has written one of them.
        """
        if POSTGRESQL:
            with closing(store_of(self.servers[0].data)) as store:
                return {database: store.run_read(database, _last_writers) for database in (AUTH, STATE)}
        files = sorted(file for file in self.servers[0].data.glob("*.db*") if not file.name.endswith("-shm"))
        return {file.name: (file.stat().st_mtime_ns, file.stat().st_size) for file in files}

    def beats(self) -> int:
        """Return how often the servers have written their heartbeat, which they do without any request."""
        if not POSTGRESQL:
            return 0
        with closing(store_of(self.servers[0].data)) as store:
            [(beats,)] = store.run_read(AUTH, ask("SELECT coalesce(max(beats), 0) FROM heartbeat"))
            return int(beats)

    def test_a_long_poll_writes_nothing(self) -> None:
        """While a request waits, no queue of its server writes a batch, and no server checkpoints a database."""
        [player] = self.players(1)
        token = bearer(player.access)
        self.ask(0, Request("PUT", "/game/saves/auto", token, b"data"), 201)
        sleep(2 * IDLE_SECONDS)  # security events and checkpoints follow a write within 5 s
        cursor = self.ask(1, Request("GET", "/game/saves", token), 200).json["cursor"]
        self.connections[1].send(
            Request("GET", f"/game/saves?since={cursor}", {**token, "Prefer": f"wait={WAIT_SECONDS}"})
        )
        sleep(SETTLED_SECONDS)
        beats = self.beats()
        before = self.batches(1), self.written()
        sleep(IDLE_SECONDS)
        after = self.batches(1), self.written()
        self.assertEqual(before[1], after[1])
        self.assertEqual({**before[0], "read": 0, "auth": 0}, {**after[0], "read": 0, "auth": 0})
        self.assertLessEqual(after[0]["auth"] - before[0]["auth"], self.beats() - beats)
        self.ask(0, Request("PUT", "/game/saves/other", token, b"data"), 201)
        self.assertEqual([save["slot"] for save in self.connections[1].receive().json["saves"]], ["other"])
