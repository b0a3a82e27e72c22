"""kill -9 of one of two servers: nothing acknowledged is lost, and the other server serves on."""

import http.client
from random import Random
from statistics import median
from threading import Event, Thread
from time import monotonic, sleep

from msgspec import Struct
from twisted.python import log

from tests.e2e.client import digest, gamed
from tests.e2e.providers import DISCORD
from tests.e2e.service import Service
from tests.e2e.test_killed_saves import Slot, Writer
from tests.login.browser_fixtures import Page
from tests.login.test_browser_routes import code
from tests.processes.cases import ScriptedBrowser, SharedCase, SharedProviderCase, collect
from tests.processes.wire import KeptConnection, Request, bearer
from tests.support.examples import examples

ROUNDS = examples(few=4, many=50)
MOST_ANSWERS = 33
"""A server is killed when one of its writers has this many answers, or fewer."""
WRITERS = 2
"""Writers at each server: half of the uploads that one player may have there at once."""
PATIENCE_SECONDS = 60
ALLOWED_SECONDS = 5


class Account(Struct, frozen=True):
    """The player's credentials at one server, as a Writer uses them."""

    service: Service
    token: str


class SteadyWriter(Writer):
    """A writer at the server that lives; it stops when the test says so."""

    def run_until(self, stop: Event) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.keeper.service.port, timeout=PATIENCE_SECONDS)
        try:
            while not stop.is_set():
                self.step(connection)
                self.answers += 1
        except BaseException as e:
            self.problem = e
        finally:
            connection.close()


class KilledServer(SharedCase):
    game = {"writes_per_minute": 0, "keep_versions": 1000, "slots": 1000, "min_free_bytes": 0}  # noqa: RUF012

    def setUp(self) -> None:
        super().setUp()
        [player] = self.players(1)
        self.token = player.access
        self.acknowledged: dict[tuple[str, int], str] = {}

    def writers(self, kind: type[Writer], number: int) -> list[Writer]:
        """Return the writers at this server, each with slots of its own."""
        account = Account(self.servers[number], self.token)
        slots = ([Slot(f"s{number}-{writer}-{slot}") for slot in range(2)] for writer in range(WRITERS))
        return [kind(n, account, each, self.acknowledged, Random(n)) for n, each in enumerate(slots)]

    def test_under_load(self) -> None:
        """The server that lives answers each write; afterwards each slot of the other one is as its last answer said,
        or as the request that was cut off would have made it."""
        dying, living = self.writers(Writer, 0), self.writers(SteadyWriter, 1)
        pauses = []
        for number in range(ROUNDS):
            if number:
                self.servers[0].start()
            pauses.append(self.kill_under_load(dying, living))
            for slot in (slot for writer in dying for slot in writer.slots):
                slot.compare(self.ask(1, Request("GET", f"/game/saves/{slot.name}", bearer(self.token))))
        figures = f"median={median(pauses):.3f} most={max(pauses):.3f} acknowledged={len(self.acknowledged)}"
        log.msg(f"killed rounds={ROUNDS} {figures}")
        for (slot, number), sha in self.acknowledged.items():
            path = f"/game/saves/{slot}/versions/{number}"
            answer = self.ask(1, Request("GET", path, bearer(self.token)), 200)
            self.assertEqual(digest(answer.body), sha, path)
        self.assertIn("no errors", gamed(self.servers[1], "check", "data"))
        self.assertEqual(self.servers[1].terminate(), 0)
        self.assertIn("no errors", gamed(self.servers[1], "check", "data", "--fix"))

    def kill_under_load(self, dying: list[Writer], living: list[Writer]) -> float:
        """Kill server 0 among the writes of both; return the seconds until server 1 has answered all its writers."""
        enough, stop, limit = Event(), Event(), self.random.randint(1, MOST_ANSWERS)
        threads = [Thread(target=writer.run_until, args=(stop,)) for writer in living]
        for writer in dying:
            writer.answers = 0
            threads.append(Thread(target=writer.run, args=(enough, limit)))
        for thread in threads:
            thread.start()
        self.assertTrue(enough.wait(PATIENCE_SECONDS))
        self.servers[0].kill()
        killed, before = monotonic(), [writer.answers for writer in living]
        while any(writer.answers < had + 2 and not writer.problem for writer, had in zip(living, before, strict=True)):
            self.assertLess(monotonic() - killed, PATIENCE_SECONDS)
            sleep(0.001)
        pause = monotonic() - killed
        stop.set()
        for thread in threads:
            thread.join(PATIENCE_SECONDS)
        self.assertEqual([writer.problem for writer in dying + living if writer.problem], [])
        return pause


class KilledExchange(SharedProviderCase):
    def exchanging(self, number: int) -> tuple[ScriptedBrowser, dict]:
        """Begin a login whose code this server sends to a provider that does not answer."""
        browser = ScriptedBrowser(self)
        login, callback = self.begin(browser, DISCORD, "anna")
        self.connections[number].send(browser.request(callback))
        stage = "at_provider"
        while stage != "exchanging":
            stage = self.ask(1 - number, collect(login, wait=5, seen="at_provider"), 202).json["stage"]
        return browser, login

    def test_start_after_a_kill(self) -> None:
        """The start after a kill ends the exchange of the dead server, and no exchange of the other."""
        self.recorders["discord"].pause(DISCORD.token)
        _, dead = self.exchanging(0)
        game = self.connect(1)
        game.send(collect(dead, wait=25, seen="exchanging"))
        self.servers[0].kill()
        self.connections[0] = KeptConnection(self.servers[1].port)
        browser, living = self.exchanging(1)
        self.servers[0].start()
        began = monotonic()
        ended = game.receive().json
        self.assertLess(monotonic() - began, ALLOWED_SECONDS)
        self.assertEqual(ended["status"], "failed", ended)
        self.assertEqual(ended["problem"]["code"], "login_interrupted")
        self.recorders["discord"].resume()
        done = self.connections[1].receive()
        self.assertEqual(done.status, 303, done.body)
        shown = code(Page(browser.visit(1, done.headers["location"])))
        self.assertEqual(self.ask(1, collect(living, finish_code=shown), 200).json["status"], "complete")
