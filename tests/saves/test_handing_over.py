"""A shelf given to another player while that one erases theirs (PROTOCOL 3.8, 4)."""

from twisted.internet.defer import ensureDeferred

from gamed.storage.state import erasing
from gamed.storage.state.handing_over import hand_over
from gamed.storage.state.stored_shelves import StoredShelves
from tests.saves.kit import SaveCase
from tests.sessions.desk import ANNA, BERT, Counting


class HandingOverTest(SaveCase):
    def setUp(self) -> None:
        super().setUp()
        self.put("auto", b"Anna's")
        self.bearer = self.sign_in(BERT)
        self.put("own", b"Bert's")
        self.in_state(lambda connection: erasing.begin(connection, BERT, "erased", self.house.now_ms))

    def test_not_into_an_erase(self) -> None:
        """Nothing is given to a shelf whose rows are going: they would take along what comes."""
        epochs = "one", "two"
        given = self.in_state(lambda connection: hand_over(connection, ANNA, BERT, epochs, self.house.now_ms))
        self.assertIs(given, False)
        owners = self.in_state(lambda c: c.execute("SELECT player_id FROM save_version WHERE slot = 'auto'").fetchall())
        self.assertEqual(owners, [(ANNA,)])

    def test_after_it(self) -> None:
        """The heir's own erase is finished first; then everything follows."""
        shelves = StoredShelves(self.stores, Counting())
        self.successResultOf(ensureDeferred(shelves.hand_over(ANNA, BERT, self.house.now_ms)))
        self.assertEqual([save["slot"] for save in self.ask("GET", "/game/saves").json["saves"]], ["auto"])
        self.assertEqual(self.get("auto").body, b"Anna's")
        self.agrees()
