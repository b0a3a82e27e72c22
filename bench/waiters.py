"""Ten thousand games wait for a sign-in; this measures their memory and processor time, and when they are answered."""

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from resource import RLIMIT_NOFILE, getrlimit, setrlimit
from statistics import median
from traceback import print_exc
from typing import NoReturn

from bench.connections import AT_ONCE, Answer, ClientConnections, ask_all, request
from bench.instance import GamedInstance, percentile
from bench.process import CLIENT_CPU
from gamed.database.polled_changes import CHECK_SECONDS

PORTION = 1000
"""The number of games that send a request at once: the queue of the database is limited to some thousand."""
LOOK_SECONDS = 0.002
"""The pause between two polls of the client while all responses arrive; the last figure is that precise."""
HEALTH_SECONDS = 1.0
BUSY_SECONDS = 2.0
WRITE_SECONDS = 0.05
"""The pause between two writes of the other server: the waiting one checks for changes ten times less often."""
SHARE = ("--share",)


def waiters(folder: Path, count: int) -> Mapping[str, float]:
    """Measure games that wait for a sign-in, each on its own connection; some are answered, then all.

    Another server shares the data folder: its writes concern some of the games.
    """
    instance, other = (GamedInstance(folder / "waiters", arguments=SHARE).start() for _ in range(2))
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        _write_figures(instance, other, count, writer)
    os.close(writer)
    with os.fdopen(reader) as answer:
        found = json.loads(answer.read() or "{}")
    os.waitpid(child, 0)
    instance.stop()
    other.stop()
    if not found:
        raise RuntimeError("the waiting games have failed, see above")
    return {str(name): float(value) for name, value in found.items()}


def _write_figures(instance: GamedInstance, other: GamedInstance, count: int, writer: int) -> NoReturn:
    """Measure in a child process on the other processor; write JSON, or nothing after an error."""
    try:
        os.sched_setaffinity(0, {CLIENT_CPU})
        _, hard = getrlimit(RLIMIT_NOFILE)
        setrlimit(RLIMIT_NOFILE, (hard, hard))
        os.write(writer, json.dumps(_Games(instance, other, count).measure()).encode())
    except Exception:
        print_exc()
    finally:
        os._exit(0)


class _Games:
    """The waiting games, and one that never waits: its response shows that earlier requests were processed."""

    def __init__(self, instance: GamedInstance, beside: GamedInstance, count: int) -> None:
        self._instance, self._beside = instance, beside
        self._probe, *self._secrets = _secrets(ask_all(instance.port, [START] * (count + 1)))
        self._everyone = range(count)

    def measure(self) -> Mapping[str, float]:
        instance, count = self._instance, len(self._secrets)
        idle = instance.rss_mib()
        self._connections, self._other = ClientConnections(instance.port, count), ClientConnections(instance.port, 1)
        self._beside_connection = ClientConnections(self._beside.port, 1)
        for portion in self._portions(AT_ONCE):
            self._connections.ask([_collect_now(self._secrets[number]) for number in portion], portion[0])
            expect(202, self._connections.answers(portion))
        before = instance.rss_mib()
        self._wait()
        each = (instance.rss_mib() - before) * 1024 / count
        healthy = self._healthy()
        return {
            "waiters": count,
            "kib_each": each,
            "kib_connection": (before - idle) * 1024 / count,
            "first_wake_ms": self._answered_after_cancel(0, self._other) * 1000,
            "beside_wake_ms": median(self._answered_by_other(game) for game in BESIDE) * 1000,
            "healthz_p99_ms": percentile(healthy, 0.99) * 1000,
            "idle_busy": self._busy(lambda: None),
            "beside_busy": self._busy(self._start_beside),
            **self._all(),
        }

    def _portions(self, size: int) -> Iterator[range]:
        return (self._everyone[begin : begin + size] for begin in range(0, len(self._everyone), size))

    def _wait(self) -> None:
        """Let all games wait; return when they do."""
        for portion in self._portions(PORTION):
            self._connections.ask([_collect(self._secrets[number]) for number in portion], portion[0])
            for _ in range(2):  # the first is read, the second looked up
                self._answer(_collect_now(self._probe), 202)

    def _healthy(self) -> list[float]:
        times, until = [], time.perf_counter() + HEALTH_SECONDS
        while time.perf_counter() < until:
            began = time.perf_counter()
            times.append(self._answer(request("GET", "/healthz"), 200).at - began)
            time.sleep(0.005)
        return times

    def _answered_after_cancel(self, game: int, connection: ClientConnections) -> float:
        """Return the seconds from a cancel, sent by this connection, to the response of the waiting game."""
        began = time.perf_counter()
        connection.ask([request("POST", "/auth/login/cancel", self._secrets[game], {})])
        [answer] = self._connections.answers([game])
        expect(204, connection.answers([0]))
        expect(200, [answer])
        return answer.at - began

    def _answered_by_other(self, game: int) -> float:
        """Return the seconds from a cancel at the other server to the response, at another time between two checks."""
        time.sleep(CHECK_SECONDS * game / len(BESIDE))
        return self._answered_after_cancel(game, self._beside_connection)

    def _busy(self, work: Callable[[], None]) -> float:
        """Return the share of a processor that the waiting server uses while `work` is called again and again."""
        began, before = time.perf_counter(), self._instance.process.cpu_seconds()
        while (seconds := time.perf_counter() - began) < BUSY_SECONDS:
            work()
            time.sleep(WRITE_SECONDS)
        return (self._instance.process.cpu_seconds() - before) / seconds

    def _start_beside(self) -> None:
        """Start a login at the other server, which concerns no waiting game."""
        self._beside_connection.ask([START])
        expect(201, self._beside_connection.answers([0]))

    def _all(self) -> Mapping[str, float]:
        """Measure from SIGTERM to the last response; `busy` is the share of processor time of that on both sides."""
        server, client = self._instance.process.cpu_seconds(), time.process_time()
        began = time.perf_counter()
        self._instance.process.terminate()
        answers = self._connections.answers(self._everyone[BESIDE.stop :], LOOK_SECONDS)
        server, client = self._instance.process.cpu_seconds() - server, time.process_time() - client
        expect(202, answers)
        seconds = max(answer.at for answer in answers) - began
        return {"all_ms": seconds * 1000, "server_busy": server / seconds, "client_busy": client / seconds}

    def _answer(self, asked: bytes, status: int) -> Answer:
        self._other.ask([asked])
        [answer] = self._other.answers([0])
        expect(status, [answer])
        return answer


START = request("POST", "/auth/login", body={"client": {"name": "bench"}})
BESIDE = range(1, 6)
"""The games whose logins are cancelled at the other server."""


def _secrets(started: Sequence[Answer]) -> list[str]:
    expect(201, started)
    return [str(answer.json()["device_secret"]) for answer in started]


def _collect(secret: str, **more: str) -> bytes:
    return request("POST", "/auth/login/collect", secret, {"wait": 25, **more})


def _collect_now(secret: str) -> bytes:
    """Return a request that is answered at once, because it names another stage than the current one."""
    return _collect(secret, seen="nothing")


def expect(status: int, answers: Sequence[Answer]) -> None:
    """Raise RuntimeError with the first response of another status."""
    others = [answer for answer in answers if answer.status != status]
    if others:
        raise RuntimeError(f"{len(others)} of {len(answers)} answers are not {status}: {others[0].body[:500]!r}")
