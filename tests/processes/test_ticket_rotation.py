"""Two servers sign tickets while their key is replaced, and no ticket is rejected by those who know the keys."""

import json
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import ClassVar

from gamed.database.connection import AUTH
from gamed.tickets import tables as ticket_tables
from gamed.tickets.ticket_rules import DAY_MS
from tests.e2e.wire import ask
from tests.processes.cases import SharedCase
from tests.processes.wire import KeptConnection, bearer, json_request
from tests.support.covers import covers
from tests.support.stores import now_ms, store_of
from tests.tickets.tokens import parts, verified

SECRET = "m" * 40
UNTIL_USED_MS, LOAD_SECONDS = 1500, 4.0
CLIENTS = 4
PAUSE_SECONDS = 0.005
"""Between two tickets of a client: without it the four, and the servers, use all processors for the whole time."""


class RotationTests(SharedCase):
    limits: ClassVar = {"tickets_per_minute": 0}
    environ: ClassVar = {"GAMED_MATCH_SECRET": SECRET}

    def configuration(self) -> dict[str, object]:
        audiences = {"match.example": {"secret_env": "GAMED_MATCH_SECRET"}}
        return {**super().configuration(), "ticket_audiences": audiences}

    @covers("threats/76")
    def test_under_load(self) -> None:
        """Both servers change to the next key at its first use; the keys that were published before verify all tickets.

        Each server also knows the tickets of the other one.
        """
        tokens = [player.access for player in self.players(CLIENTS)]
        [first] = ask(self.servers[0].port, "GET", "/auth/keys").json["keys"]
        began = time.monotonic()

        def load(number: int) -> list[str]:
            """Request tickets from one of the servers until the time is over."""
            found = []
            with closing(KeptConnection(self.servers[number % 2].port)) as connection:
                while time.monotonic() - began < LOAD_SECONDS:
                    asked = {"audience": "match.example"}
                    answer = connection.ask(json_request("POST", "/auth/tickets", asked, **bearer(tokens[number])))
                    assert answer.status == 200, answer.body
                    found.append(json.loads(answer.body)["ticket"])
                    time.sleep(PAUSE_SECONDS)
            return found

        with ThreadPoolExecutor(CLIENTS) as threads:
            running = [threads.submit(load, number) for number in range(CLIENTS)]
            with closing(store_of(self.servers[0].data)) as store:
                # As the command does, but with a day that is nearly over.
                earlier_ms = now_ms() - DAY_MS + UNTIL_USED_MS
                store.run_transaction(AUTH, lambda connection: ticket_tables.rotate(connection, earlier_ms))
            published = [ask(server.port, "GET", "/auth/keys").json["keys"] for server in self.servers]
            tickets = [each.result() for each in running]
        self.assertEqual(published[0], published[1])
        self.assertEqual((published[0][0], len(published[0])), (first, 2))
        used = [key["kid"] for key in published[0]]
        for found in tickets:
            for ticket in found:
                verified(ticket, published[0])
            kids = [parts(ticket)[0]["kid"] for ticket in found]
            self.assertEqual(kids, sorted(kids, key=used.index))
            self.assertEqual(set(kids), set(used))
        for number, found in enumerate(tickets):
            for ticket in (found[0], found[-1]):
                form = {"Content-Type": "application/x-www-form-urlencoded"}
                port = self.servers[1 - number % 2].port
                path = "/auth/tickets/introspect"
                answer = ask(port, "POST", path, body=f"token={ticket}".encode(), bearer=SECRET, headers=form)
                self.assertTrue(answer.json["active"])
