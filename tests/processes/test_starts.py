"""Servers of one data folder start at the same time."""

from tests.processes.cases import SharedCase
from tests.processes.wire import Request
from tests.support.examples import examples
from tests.support.postgresql import cluster
from tests.support.stores import POSTGRESQL

STARTS = examples(few=2, many=20)


class FirstStarts(SharedCase):
    count = 3

    def start(self) -> None:
        """Start nothing yet: the test does."""

    def test_at_the_same_time(self) -> None:
        """Servers that start at the same time on a new folder make one key and one pair of databases."""
        for number in range(STARTS):
            if POSTGRESQL:
                self.use_empty_database()
            for server in self.servers:
                server.data = self.folder / f"data-{number}"
                server.begin()
            for server in self.servers:
                server.wait_until_healthy()
            [player] = self.players(1)
            self.connections = [self.connect(number) for number in range(self.count)]
            for server in range(self.count):
                self.ask(server, Request("GET", "/game/", {"Authorization": f"Bearer {player.access}"}), 200)
            for server in self.servers:
                self.assertEqual(server.terminate(), 0)

    def use_empty_database(self) -> None:
        """Name a PostgreSQL database without schemas in the configuration."""
        place = cluster().database()
        self.addCleanup(cluster().drop, place.database)
        self.servers[0].configure({**self.configuration(), "store": place.url})
