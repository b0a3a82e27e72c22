"""What the service does for players beside requests: departures brought to their end, commands told (docs/audit.md)."""

from sqlite3 import Connection

from gamed.components import PlayerComponents
from gamed.database.errors import DatabaseUnavailable
from gamed.players import command_log
from gamed.players import store as player_store
from tests.sessions.fixtures import ANNA, NOW_MS
from tests.sessions.server import HouseCase
from tests.support.components import service_context


class PeriodicTests(HouseCase):
    def setUp(self) -> None:
        super().setUp()
        house = self.house
        context = service_context(house.issuer.keys, house.stores, house.audit, lambda: NOW_MS)
        self.players = PlayerComponents(context, house.waits)

    def erase_by_command(self) -> None:
        """As far as a command gets that is cut off."""

        def unit(connection: Connection) -> None:
            command_log.add_entry(connection, "players erase", ANNA, "uid:0", NOW_MS)
            player_store.mark_removed(connection, ANNA, NOW_MS)

        self.wait(self.house.stores.auth.submit(unit))

    def test_cut_off(self) -> None:
        """The command is in the log, once, and what it began is done."""
        self.erase_by_command()
        for _ in range(2):
            self.wait(self.players.clean_up())
        told = [line.split()[0] for line in self.house.audit.lines]
        self.assertEqual(told, ["command", "erased"])
        self.assertEqual(self.wait(self.house.rows("SELECT count(*) FROM player")), [(0,)])

    def test_saves_out_of_reach(self) -> None:
        """Commands are told all the same; that the rest was put off is no secret, and it is done later."""
        self.erase_by_command()
        self.house.stores._state.unavailable_as = DatabaseUnavailable
        self.refused(self.players.clean_up(), DatabaseUnavailable)
        self.assertEqual(len(self.house.audit.lines), 1)
        self.house.stores._state.unavailable_as = None
        self.wait(self.players.clean_up())
        self.assertEqual(len(self.house.audit.lines), 2)
