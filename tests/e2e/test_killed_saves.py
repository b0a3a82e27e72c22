"""kill -9 of the real service during all kinds of writes: no acknowledged one is lost, none is half done."""

import http.client
import os
from collections.abc import Mapping
from random import Random
from threading import Event, Thread

from msgspec import Struct, field
from twisted.trial.unittest import SynchronousTestCase

from tests.e2e.client import CONFIG, Keeper, digest, gamed, write_game
from tests.e2e.service import Service
from tests.e2e.wire import Answer
from tests.support.examples import examples
from tests.support.folders import unused_path

ROUNDS = examples(few=9, many=50)
MOST_ANSWERS = 33
"""The service is killed after 1 response to a writer in the first round, and after this number in the last."""
WRITERS = 4
"""Number of uploads that one player may have at once."""
SLOTS = 2
LARGE = 300 * 1024
SHARED = "shared"
DELETED = "deleted"


class Slot(Struct):
    """The state of a slot as its only writer knows it."""

    name: str
    state: str | None = None
    """SHA-256 of the current bytes by the last response; DELETED; None: never written."""
    etag: str | None = None
    version: int = 0
    asked: str | None = None
    """The state that a request without a response would have made."""

    def compare(self, answer: Answer) -> None:
        """Learn from a read after the kill; raise AssertionError if it is neither `state` nor `asked`."""
        found = {404: None, 410: DELETED, 200: digest(answer.body)}[answer.status]
        assert found in {self.state, self.asked or self.state}, self
        if found == self.asked and found != self.state:
            self.version += 1
        self.state, self.asked = found, None
        self.etag = answer.headers.get("etag") if answer.status == 200 else None
        if self.etag:
            self.version = number_in(self.etag)


class Writer(Struct):
    """Puts, deletes and restores, each after the last response, until the service has ended."""

    number: int
    keeper: Keeper
    slots: list[Slot]
    acknowledged: dict[tuple[str, int], str]
    """(slot, version) -> SHA-256, of every version that a response has named."""
    random: Random = field(default_factory=Random)
    answers: int = 0
    problem: BaseException | None = None

    def run(self, enough: Event, limit: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.keeper.service.port, timeout=60)
        try:
            while True:
                self.step(connection)
                self.answers += 1
                if self.answers >= limit:
                    enough.set()
        except (OSError, http.client.HTTPException):
            pass
        except BaseException as e:
            self.problem = e
            enough.set()
        finally:
            connection.close()

    def step(self, connection: http.client.HTTPConnection) -> None:
        if self.random.random() < 0.15:
            self.share(connection)
            return
        slot = self.random.choice(self.slots)
        chance = self.random.random()
        if slot.state in (None, DELETED) or chance < 0.7:
            self.put(connection, slot)
        elif chance < 0.85 and slot.version > 1:
            self.restore(connection, slot)
        else:
            self.delete(connection, slot)

    def put(self, connection: http.client.HTTPConnection, slot: Slot) -> None:
        data = os.urandom(LARGE if self.random.random() < 0.15 else self.random.randint(1, 3000))
        slot.asked = digest(data)
        status, headers = self.send(connection, "PUT", slot.name, data, self.condition(slot))
        assert status in (200, 201), (slot, status)
        self.known(slot, slot.asked, headers)

    def restore(self, connection: http.client.HTTPConnection, slot: Slot) -> None:
        known = [
            (n, sha) for (name, n), sha in self.acknowledged.copy().items() if name == slot.name and n < slot.version
        ]
        if not known:
            return
        number, slot.asked = self.random.choice(known)
        path = f"{slot.name}/versions/{number}/restore"
        status, headers = self.send(connection, "POST", path, None, self.condition(slot))
        assert status == 200, (slot, status)
        self.known(slot, slot.asked, headers)

    def delete(self, connection: http.client.HTTPConnection, slot: Slot) -> None:
        slot.asked = DELETED
        status, _ = self.send(connection, "DELETE", slot.name, None, self.condition(slot))
        assert status == 204, (slot, status)
        slot.state, slot.etag, slot.version, slot.asked = DELETED, None, slot.version + 1, None

    def share(self, connection: http.client.HTTPConnection) -> None:
        """Write a slot that all writers change: most writes are refused, and their bytes kept."""
        data = os.urandom(50)
        status, headers = self.send(connection, "PUT", SHARED, data, {"If-Match": "*"})
        if status == 412:
            status, headers = self.send(connection, "PUT", SHARED, data, {"If-None-Match": "*"})
        assert status in (200, 201, 412), status
        if status != 412:
            self.acknowledged[SHARED, number_in(headers["etag"])] = digest(data)

    def condition(self, slot: Slot) -> dict[str, str]:
        return {"If-Match": slot.etag} if slot.etag else {"If-None-Match": "*"}

    def known(self, slot: Slot, state: str, headers: Mapping[str, str]) -> None:
        slot.state, slot.etag, slot.asked = state, headers["etag"], None
        slot.version = number_in(slot.etag)
        self.acknowledged[slot.name, slot.version] = state

    def send(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        path: str,
        body: bytes | None,
        headers: Mapping[str, str],
    ) -> tuple[int, dict[str, str]]:
        bearer = {"Authorization": f"Bearer {self.keeper.token}"}
        connection.request(method, f"/game/saves/{path}", body, {**bearer, **headers})
        answer = connection.getresponse()
        answer.read()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}


def number_in(etag: str) -> int:
    return int(etag.strip('"').partition("-")[0])


class KilledSaves(SynchronousTestCase):
    def setUp(self) -> None:
        self.service = Service(unused_path(self), CONFIG)
        self.addCleanup(self.service.close)
        write_game(self.service, writes_per_minute=0, keep_versions=1000, slots=1000, min_free_bytes=0)
        self.service.start()
        self.keeper = Keeper(self.service)
        self.acknowledged: dict[tuple[str, int], str] = {}
        self.writers = [
            Writer(n, self.keeper, [Slot(f"s{n}-{m}") for m in range(SLOTS)], self.acknowledged, Random(n))
            for n in range(WRITERS)
        ]

    def test_nothing_acknowledged_is_lost(self) -> None:
        """After many kills under concurrent PUT, DELETE and restore each slot is in the state of the last response or
        of the interrupted request; in the end every acknowledged version can be read with its hash, and `gamed check
        data` reports nothing."""
        for number in range(ROUNDS):
            self.write_until_killed(1 + (MOST_ANSWERS - 1) * number // (ROUNDS - 1))
            self.service.start()
            for slot in (slot for writer in self.writers for slot in writer.slots):
                slot.compare(self.keeper.ask("GET", f"/{slot.name}"))
        self.assertGreater(len(self.acknowledged), 5 * ROUNDS)
        for (slot, number), sha in self.acknowledged.items():
            answer = self.keeper.ask("GET", f"/{slot}/versions/{number}")
            self.assertEqual((answer.status, digest(answer.body)), (200, sha), (slot, number))
        self.assertIn("no errors", gamed(self.service, "check", "data"))

    def write_until_killed(self, answers: int) -> None:
        """Kill the service once a writer has had so many responses."""
        enough = Event()
        threads = []
        for writer in self.writers:
            writer.answers = 0
            threads.append(Thread(target=writer.run, args=(enough, answers)))
            threads[-1].start()
        self.assertTrue(enough.wait(60))
        self.service.kill()
        for thread in threads:
            thread.join(60)
        self.assertEqual([writer.problem for writer in self.writers if writer.problem], [])
