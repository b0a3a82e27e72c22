"""Acknowledged changes of a service on PostgreSQL survive crashes of the database and of the service."""

from random import Random
from time import sleep

from twisted.python import log

from tests.e2e.client import gamed
from tests.e2e.postgresql_cases import PostgresqlServiceCase
from tests.support.examples import examples

ROUNDS = examples(few=2, many=50)
MOST_SECONDS = 0.5
"""The longest time under load before a crash."""


class Crashes(PostgresqlServiceCase):
    def test_stopped_server(self) -> None:
        """PostgreSQL is stopped as by a power cut, each time at another moment: the service continues by itself, and no
        acknowledged change is lost."""
        self.load()
        gaps = []
        for moment in self.moments():
            sleep(moment)
            self.cluster.restart("immediate")
            gaps.append(self.progress())
        self.finish(gaps)

    def test_killed_service(self) -> None:
        """The service is killed each time at another moment, and no acknowledged change is lost."""
        self.load()
        gaps = []
        for moment in self.moments():
            sleep(moment)
            self.service.kill()
            self.service.start()
            gaps.append(self.progress())
        self.finish(gaps)

    def moments(self) -> list[float]:
        random = Random(1)
        return [random.random() * MOST_SECONDS for _ in range(ROUNDS)]

    def finish(self, gaps: list[float]) -> None:
        count = self.verify()
        log.msg(f"crashes rounds={ROUNDS} acknowledged={count} longest_gap={max(gaps):.2f}")
        self.assertIn("no errors", gamed(self.service, "check", "data"))
