"""A shelf given to another player while that one erases theirs (PROTOCOL 3.8, 4)."""

from twisted.internet.defer import ensureDeferred

from gamed.saves import erase_store
from gamed.saves.erase_store import SqliteEraseStore, merge_saves
from tests.saves.helpers import ABSENT, SaveCase, tag
from tests.sessions.fixtures import ANNA, BERT, Counting


class HandingOverTest(SaveCase):
    def setUp(self) -> None:
        super().setUp()
        self.put("auto", b"Anna's")
        self.bearer = self.sign_in(BERT)
        self.put("own", b"Bert's")
        self.in_state(lambda connection: erase_store.begin_erase(connection, BERT, "erased", self.house.now_ms))

    def test_not_into_an_erase(self) -> None:
        """Nothing is given to a shelf whose rows are going: they would take along what comes."""
        epochs = "one", "two"
        given = self.in_state(lambda connection: merge_saves(connection, ANNA, BERT, epochs, self.house.now_ms))
        self.assertIs(given, False)
        owners = self.in_state(lambda c: c.execute("SELECT player_id FROM save_version WHERE slot = 'auto'").fetchall())
        self.assertEqual(owners, [(ANNA,)])

    def test_after_it(self) -> None:
        """The heir's own erase is finished first; then everything follows."""
        shelves = SqliteEraseStore(self.stores, Counting())
        self.successResultOf(ensureDeferred(shelves.merge(ANNA, BERT, self.house.now_ms)))
        self.assertEqual([save["slot"] for save in self.ask("GET", "/game/saves").json["saves"]], ["auto"])
        self.assertEqual(self.get("auto").body, b"Anna's")
        self.agrees()


class GivenTest(SaveCase):
    """What the heir has then, and the one who gave."""

    def give(self) -> None:
        """Anna's to Bert, who speaks from then on."""
        shelves = SqliteEraseStore(self.stores, Counting())
        self.successResultOf(ensureDeferred(shelves.merge(ANNA, BERT, self.house.now_ms)))
        self.bearer = self.sign_in(BERT)
        self.agrees()

    def usage(self) -> list[int]:
        return list(self.ask("GET", "/game/").json["usage"].values())

    def test_to_a_newcomer(self) -> None:
        """Who never saved gets everything, history and deleted slots too, and goes on from there."""
        self.put("auto", b"one", ABSENT)
        self.put("auto", b"second", {"If-Match": "*"})
        self.put("gone", b"three", ABSENT)
        self.delete("gone", {"If-Match": "*"})
        self.give()
        self.assertEqual(self.usage(), [1, 6, 8])
        self.assertEqual([version["version"] for version in self.versions("auto")], [2, 1])
        self.assertEqual(self.ask("POST", "/game/saves/gone/versions/1/restore", ABSENT).json["version"], 3)
        self.assertEqual(self.put("auto", b"third", {"If-Match": tag(2, b"second")}).json["version"], 3)
        self.agrees()

    def test_from_nobody(self) -> None:
        """Who never saved has nothing to give."""
        self.give()
        self.assertEqual(self.usage(), [0, 0, 0])

    def test_slots_of_both(self) -> None:
        """The heir's stays current and the other becomes a copy, unless it is the same, or was deleted."""
        mine, theirs = (b"x", b"y", b"z"), (b"x", b"other", b"w")
        for slot, data in zip("abc", mine, strict=True):
            self.put(slot, data, ABSENT)
        self.delete("c", {"If-Match": "*"})
        self.bearer = self.sign_in(BERT)
        for slot, data in zip("abc", theirs, strict=True):
            self.put(slot, data, ABSENT)
        self.give()
        saves = self.ask("GET", "/game/saves").json["saves"]
        self.assertEqual(
            [(save["etag"], save["conflicts"]) for save in saves],
            [
                (tag(1, b"x"), []),
                (tag(1, b"other"), [2]),
                (tag(1, b"w"), []),
            ],
        )
        self.assertEqual(self.ask("GET", "/game/saves/b/versions/2").body, b"y")
        self.bearer = self.sign_in(ANNA)
        self.assertEqual(self.usage(), [0, 0, 0])
