"""kill -9 of the real service during commits of 64 slots: all of one, or none of it (docs/protocol.md: Commits)."""

import contextlib
import http.client
import json
from collections.abc import Mapping
from threading import Event, Thread
from typing import Any

from msgspec import Struct, field
from twisted.trial.unittest import SynchronousTestCase

from tests.e2e.client import CONFIG, Keeper, digest, gamed, write_game
from tests.e2e.service import Service
from tests.e2e.wire import PATIENCE_SECONDS, ask
from tests.support.examples import examples
from tests.support.folders import unused_path

ROUNDS = examples(few=3, many=25)
SLOTS = 64
FEW = 5
"""Slots that a second device commits to, always too late."""


def body(generation: int, slot: int) -> bytes:
    """Return the bytes of a slot; eight slots share theirs, so that a generation is staged quickly."""
    return f"generation {generation} group {slot % 8}".encode()


class Device(Struct):
    """Commits one generation after another until the service has ended; each is based on the one before."""

    keeper: Keeper
    generation: int = 0
    """The newest acknowledged generation; 0 without any."""
    asked: int = 0
    """The newest generation that was sent, as `sent`."""
    sent: bytes = b""
    etags: Mapping[str, str] = field(default_factory=dict)
    """Etag of each slot."""
    refused: str | None = None
    """The conflict copy that a response has named for the second device's bytes."""
    problem: BaseException | None = None

    def run(self, limit: int, enough: Event) -> None:
        try:
            with contextlib.closing(self.connect()) as connection:
                for number in range(10_000):
                    self.advance(connection)
                    if number == limit:
                        enough.set()
                    if number % 3 == 0:
                        self.come_too_late(connection)
        except (OSError, http.client.HTTPException):
            pass
        except BaseException as e:
            self.problem = e
        finally:
            enough.set()

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.keeper.service.port, timeout=PATIENCE_SECONDS)

    def advance(self, connection: http.client.HTTPConnection) -> None:
        """Commit the next generation; even ones also delete the last slot, odd ones write it."""
        asked = self.generation + 1
        self.stage(connection, asked)
        self.asked, self.sent = asked, json.dumps({"writes": [self.entry(asked, n) for n in range(SLOTS)]}).encode()
        status, answer = self.send(connection, "POST", "/game/commit", self.sent)
        assert status == 200, (status, answer)
        self.know(asked, answer)

    def know(self, generation: int, answer: Mapping[str, Any]) -> None:
        """Record an acknowledged generation."""
        self.generation = generation
        self.etags = {save["slot"]: save["etag"] for save in answer["saves"] if "etag" in save}

    def entry(self, generation: int, n: int) -> dict[str, object]:
        slot = f"s{n}"
        condition = {"if_match": self.etags[slot]} if slot in self.etags else {"if_none_match": "*"}
        if n == SLOTS - 1 and generation % 2 == 0:
            return {"slot": slot, **condition, "delete": True}
        return {"slot": slot, **condition, "sha256": digest(body(generation, n))}

    def come_too_late(self, connection: http.client.HTTPConnection) -> None:
        """Commit as another device, based on the first generation: it is refused, and its bytes are kept."""
        self.stage(connection, -self.generation)
        writes = [
            {"slot": f"s{n}", "if_none_match": "*", "sha256": digest(body(-self.generation, n))} for n in range(FEW)
        ]
        status, answer = self.send(connection, "POST", "/game/commit", json.dumps({"writes": writes}).encode())
        assert status == 412, status
        self.refused = answer["conflicts"][FEW - 1]["yours"]["href"]

    def stage(self, connection: http.client.HTTPConnection, generation: int) -> None:
        for n in range(8):
            data = body(generation, n)
            status, _ = self.send(connection, "PUT", f"/game/blobs/{digest(data)}", data)
            assert status == 201, status

    def send(self, connection: http.client.HTTPConnection, method: str, path: str, data: bytes) -> tuple[int, dict]:
        headers = {"Authorization": f"Bearer {self.keeper.token}", "Content-Type": "application/json"}
        connection.request(method, path, data, headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())


class KilledCommits(SynchronousTestCase):
    def setUp(self) -> None:
        self.service = Service(unused_path(self), CONFIG)
        self.addCleanup(self.service.close)
        write_game(self.service, writes_per_minute=0, min_free_bytes=0)
        self.service.start()
        self.device = Device(Keeper(self.service))

    def test_all_or_none(self) -> None:
        """After each kill all 64 slots are of one generation, the last acknowledged or the interrupted one; the same
        commit succeeds again; the refused bytes that a response has named are kept; in the end `gamed check data`
        reports nothing."""
        for number in range(ROUNDS):
            self.commit_until_killed(number % 3 + 1, number * 0.007)
            self.service.start()
            self.compare()
        self.assertGreater(self.device.generation, ROUNDS)
        self.assertIn("no errors", gamed(self.service, "check", "data"))

    def commit_until_killed(self, commits: int, moment: float) -> None:
        """Kill the service so long after so many acknowledged commits."""
        enough = Event()
        thread = Thread(target=self.device.run, args=(commits, enough))
        thread.start()
        self.assertTrue(enough.wait(PATIENCE_SECONDS))
        Event().wait(moment)
        self.service.kill()
        thread.join(PATIENCE_SECONDS)
        if self.device.problem is not None:
            raise self.device.problem

    def compare(self) -> None:
        """Repeat the last request, which works whether the server applied it before or not."""
        device, port, bearer = self.device, self.service.port, self.device.keeper.token
        listed = ask(port, "GET", "/game/saves", bearer=bearer).json["saves"]
        now = {save["slot"]: save["sha256"] for save in listed}
        self.assertIn(now, [self.shown(generation) for generation in (device.generation, device.asked)])
        if device.refused is not None:
            kept = ask(port, "GET", device.refused, bearer=bearer)
            self.assertEqual((kept.status, kept.body[:12]), (200, b"generation -"))
        headers = {"Content-Type": "application/json"}
        again = ask(port, "POST", "/game/commit", body=device.sent, bearer=bearer, headers=headers)
        self.assertEqual(again.status, 200, again.body)
        device.know(device.asked, again.json)

    def shown(self, generation: int) -> dict[str, str]:
        """Return the expected list of a generation."""
        slots = 0 if generation == 0 else SLOTS - (generation % 2 == 0)
        return {f"s{n}": digest(body(generation, n)) for n in range(slots)}
