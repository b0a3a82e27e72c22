"""The periodic work for players finishes removals and logs commands (docs/owners/monitoring.md)."""

from sqlite3 import Connection

from gamed.components import PlayerComponents
from gamed.database.errors import DatabaseUnavailable
from gamed.players import command_log
from gamed.players import store as player_store
from tests.sessions.fixtures import ANNA, NOW_MS
from tests.sessions.server import SessionTestCase
from tests.support.components import service_context


class PeriodicTests(SessionTestCase):
    def setUp(self) -> None:
        super().setUp()
        server = self.server
        context = service_context(server.issuer.keys, server.databases, server.audit, lambda: NOW_MS)
        self.players = PlayerComponents(context, server.revoked.append)

    def erase_by_command(self) -> None:
        """Do what a command does before it is killed."""

        def transaction(connection: Connection) -> None:
            command_log.add_entry(connection, "players erase", ANNA, "uid:0", NOW_MS)
            player_store.mark_removed(connection, ANNA, NOW_MS)

        self.wait(self.server.databases.auth.submit(transaction))

    def test_killed_command(self) -> None:
        """The command is logged once, and the erasure is finished."""
        self.erase_by_command()
        for _ in range(2):
            self.wait(self.players.clean_up())
        events = [line.split()[0] for line in self.server.audit.lines]
        self.assertEqual(events, ["command", "erased"])
        self.assertEqual(self.wait(self.server.rows("SELECT count(*) FROM player")), [(0,)])

    def test_saves_unavailable(self) -> None:
        """If state.db is unavailable, commands are still logged; the error is raised, and the rest is done later."""
        self.erase_by_command()
        self.server.databases._state.unavailable_as = DatabaseUnavailable
        self.refused(self.players.clean_up(), DatabaseUnavailable)
        self.assertEqual(len(self.server.audit.lines), 1)
        self.server.databases._state.unavailable_as = None
        self.wait(self.players.clean_up())
        self.assertEqual(len(self.server.audit.lines), 2)
