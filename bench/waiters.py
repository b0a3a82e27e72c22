"""Ten thousand games that wait for a sign-in: what they cost, and how soon they are answered."""

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from resource import RLIMIT_NOFILE, getrlimit, setrlimit
from traceback import print_exc
from typing import NoReturn

from bench.crowd import AT_ONCE, Answer, Crowd, ask_all, request
from bench.house import House, percentile
from bench.process import CLIENT_CPU

PORTION = 1000
"""Games that ask at once: the store's queue has room for some thousand."""
LOOK_SECONDS = 0.002
"""How often the client looks for answers when all are on their way: within what is said of the last."""
HEALTH_SECONDS = 1.0


def waiters(folder: Path, count: int) -> Mapping[str, float]:
    """So many games wait for a sign-in, each on a connection of its own; one is answered; then all are."""
    house = House(folder / "waiters").start()
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:
        _tell(house, count, tell)
    os.close(tell)
    with os.fdopen(told) as answer:
        found = json.loads(answer.read() or "{}")
    os.waitpid(child, 0)
    house.stop()
    if not found:
        raise RuntimeError("the waiting games have failed, see above")
    return {str(name): float(value) for name, value in found.items()}


def _tell(house: House, count: int, tell: int) -> NoReturn:
    """In a process of its own, on the other processor; what is told is JSON, nothing where it failed."""
    try:
        os.sched_setaffinity(0, {CLIENT_CPU})
        _, hard = getrlimit(RLIMIT_NOFILE)
        setrlimit(RLIMIT_NOFILE, (hard, hard))
        os.write(tell, json.dumps(_Games(house, count).measure()).encode())
    except Exception:
        print_exc()
    finally:
        os._exit(0)


class _Games:
    """They sign in, all but one, which never waits: what it asks is answered after what was asked before."""

    def __init__(self, house: House, count: int) -> None:
        self._house = house
        start = request("POST", "/auth/login", body={"client": {"name": "bench"}})
        self._probe, *self._secrets = _secrets(ask_all(house.port, [start] * (count + 1)))
        self._everyone = range(count)

    def measure(self) -> Mapping[str, float]:
        house, count = self._house, len(self._secrets)
        idle = house.rss_mib()
        self._crowd, self._other = Crowd(house.port, count), Crowd(house.port, 1)
        for portion in self._portions(AT_ONCE):
            self._crowd.ask([_at_once(self._secrets[number]) for number in portion], portion[0])
            expect(202, self._crowd.answers(portion))
        before = house.rss_mib()
        self._wait()
        each = (house.rss_mib() - before) * 1024 / count
        healthy = self._healthy()
        return {
            "waiters": count,
            "kib_each": each,
            "kib_connection": (before - idle) * 1024 / count,
            "first_wake_ms": self._first() * 1000,
            "healthz_p99_ms": percentile(healthy, 0.99) * 1000,
            **self._all(),
        }

    def _portions(self, size: int) -> Iterator[range]:
        return (self._everyone[begin : begin + size] for begin in range(0, len(self._everyone), size))

    def _wait(self) -> None:
        """Returns when all of them do."""
        for portion in self._portions(PORTION):
            self._crowd.ask([_collect(self._secrets[number]) for number in portion], portion[0])
            for _ in range(2):  # once read, once looked up
                self._answer(_at_once(self._probe), 202)

    def _healthy(self) -> list[float]:
        times, until = [], time.perf_counter() + HEALTH_SECONDS
        while time.perf_counter() < until:
            began = time.perf_counter()
            times.append(self._answer(request("GET", "/healthz"), 200).at - began)
            time.sleep(0.005)
        return times

    def _first(self) -> float:
        """Seconds from a cancel until the game that waits knows."""
        began = time.perf_counter()
        self._other.ask([request("POST", "/auth/login/cancel", self._secrets[0], {})])
        [answer] = self._crowd.answers([0])
        expect(204, self._other.answers([0]))
        expect(200, [answer])
        return answer.at - began

    def _all(self) -> Mapping[str, float]:
        """From the signal to the last answer; `busy`: how much of it the processors of both sides were at work."""
        server, client = self._house.process.cpu_seconds(), time.process_time()
        began = time.perf_counter()
        self._house.process.terminate()
        answers = self._crowd.answers(self._everyone[1:], LOOK_SECONDS)
        server, client = self._house.process.cpu_seconds() - server, time.process_time() - client
        expect(202, answers)
        seconds = max(answer.at for answer in answers) - began
        return {"all_ms": seconds * 1000, "server_busy": server / seconds, "client_busy": client / seconds}

    def _answer(self, asked: bytes, status: int) -> Answer:
        self._other.ask([asked])
        [answer] = self._other.answers([0])
        expect(status, [answer])
        return answer


def _secrets(started: Sequence[Answer]) -> list[str]:
    expect(201, started)
    return [str(answer.json()["device_secret"]) for answer in started]


def _collect(secret: str, **more: str) -> bytes:
    return request("POST", "/auth/login/collect", secret, {"wait": 25, **more})


def _at_once(secret: str) -> bytes:
    """There is news for who has seen another stage."""
    return _collect(secret, seen="nothing")


def expect(status: int, answers: Sequence[Answer]) -> None:
    """Of each; the first that differs says why."""
    others = [answer for answer in answers if answer.status != status]
    if others:
        raise RuntimeError(f"{len(others)} of {len(answers)} answers are not {status}: {others[0].body[:500]!r}")
