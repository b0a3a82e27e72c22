"""Fifteen servers whose databases were damaged at random places: every response is typed, and damage is logged once."""

import shutil
from collections import Counter
from random import Random
from typing import ClassVar

from twisted.trial.unittest import SynchronousTestCase

from gamed.database.errors import DatabaseCorrupt, DatabaseError, MigrationError
from tests.database.damaged import Server, copy, everything, fill, spoil
from tests.support.databases import data_folder
from tests.support.http import Answer
from tests.support.stores import sqlite_files

SERVERS = 15
PLACES = (1, 1, 2, 4, 8)
"""The number of damaged places of a server."""


@sqlite_files("damaged files; PostgreSQL's server reads its own pages")
class DamagedStores(SynchronousTestCase):
    timeout = 600
    codes: ClassVar[Counter[str | None]]

    def test_every_answer(self) -> None:
        """No response is internal_error: damage is store_unavailable, or corrupt_blob for the bytes of one save."""
        source = data_folder(self)
        bearer, refresh = fill(source)
        self.codes, served = Counter(), 0
        seeds = iter(range(10 * SERVERS))
        while served < SERVERS:
            random = Random(seed := next(seeds))
            copy(source, data := data_folder(self) / "data")
            for _ in range(random.choice(PLACES)):
                spoil(data / random.choice(("auth.db", "state.db", "state.db")), random)
            try:
                server = Server(data)
            except (DatabaseError, MigrationError):  # the start fails with one sentence
                continue
            served += 1
            self.ask_all(seed, server, bearer, refresh)
            shutil.rmtree(data)
        self.assertGreater(min(self.codes["store_unavailable"], self.codes["corrupt_blob"]), 5)

    def ask_all(self, seed: int, server: Server, bearer: str, refresh: str) -> None:
        for what, answer in everything(server, bearer, refresh):
            code = (
                answer.code
                if answer.headers.get("content-type") == "application/problem+json" and answer.body
                else None
            )
            self.codes[code] += 1
            self.assertNotEqual(code, "internal_error", (seed, what))
            self.assertIn(answer.status, {*range(200, 500), 500, 503}, (seed, what))
            if code == "store_unavailable":
                self.assertIn("retry-after", answer.headers)
            if code == "corrupt_blob":
                self.check_good_version(server, answer, bearer)
        server.browser.watched(lambda: self.sweep(server))
        self.check_damage_reported(seed, server)
        self.successResultOf(server.stores.close())

    def sweep(self, server: Server) -> None:
        """Run the periodic work, which may find the damage first."""
        for sweep in server.sweeps():
            sweep.addErrback(lambda reason: reason.trap(DatabaseError))
            self.successResultOf(sweep)

    def check_good_version(self, server: Server, answer: Answer, bearer: str) -> None:
        """Check that the version that the response offers can be read."""
        if (good := answer.json["newest_good"]) is not None:
            read = server.ask("GET", good["href"], b"", bearer)
            self.assertIn((read.status, len(read.body)), {(200, good["size"])})

    def check_damage_reported(self, seed: int, server: Server) -> None:
        """Check that a damaged file accepts no writes, is in the log once, and makes /healthz fail."""
        damaged = [file.name for file in server.stores._backend.databases if file.unavailable_as is not None]
        lines = [line for line in server.browser.events if line.startswith("database_damaged database=")]
        self.assertEqual([line.split()[1].removeprefix("database=") for line in sorted(lines)], damaged, seed)
        for name in damaged:
            self.failureResultOf(server.stores.queues[name].submit(lambda connection: None), DatabaseCorrupt)
        self.assertEqual(server.ask("GET", "/healthz").status, 503 if damaged else 200, seed)
