"""One player's saves are merged into those of another player.

See docs/owners/players.md: Erasing; docs/protocol.md: Saves.
"""

from twisted.internet.defer import ensureDeferred

from gamed.saves import erase_store
from gamed.saves.erase_store import EraseStore, merge_saves
from tests.saves.helpers import ABSENT, SaveCase, tag
from tests.sessions.fixtures import ANNA, BERT, Counting


class HandingOverTest(SaveCase):
    def setUp(self) -> None:
        super().setUp()
        self.put("auto", b"Anna's")
        self.bearer = self.sign_in(BERT)
        self.put("own", b"Bert's")
        self.in_state(lambda connection: erase_store.begin_erase(connection, BERT, "erased", self.server.now_ms))

    def test_not_into_an_erase(self) -> None:
        """No saves are merged into saves that are being erased."""
        epochs = "one", "two"
        given = self.in_state(lambda connection: merge_saves(connection, ANNA, BERT, epochs, self.server.now_ms))
        self.assertIs(given, False)
        owners = self.in_state(lambda c: c.execute("SELECT player_id FROM save_version WHERE slot = 'auto'").fetchall())
        self.assertEqual(owners, [(ANNA,)])

    def test_after_it(self) -> None:
        """A merge first completes the other player's own erase."""
        erase_store = EraseStore(databases=self.stores, random=Counting(), now_ms=lambda: self.server.now_ms)
        self.successResultOf(ensureDeferred(erase_store.merge(ANNA, BERT, self.server.now_ms)))
        self.assertEqual([save["slot"] for save in self.ask("GET", "/game/saves").json["saves"]], ["auto"])
        self.assertEqual(self.get("auto").body, b"Anna's")
        self.assert_counts_agree()


class GivenTest(SaveCase):
    """The saves of both players after a merge."""

    def give(self) -> None:
        """Merge Anna's saves into Bert's; later requests are Bert's."""
        erase_store = EraseStore(databases=self.stores, random=Counting(), now_ms=lambda: self.server.now_ms)
        self.successResultOf(ensureDeferred(erase_store.merge(ANNA, BERT, self.server.now_ms)))
        self.bearer = self.sign_in(BERT)
        self.assert_counts_agree()

    def usage(self) -> list[int]:
        return list(self.ask("GET", "/game/").json["usage"].values())

    def test_into_no_saves(self) -> None:
        """A player without saves gets everything, with history and deleted slots."""
        self.put("auto", b"one", ABSENT)
        self.put("auto", b"second", {"If-Match": "*"})
        self.put("gone", b"three", ABSENT)
        self.delete("gone", {"If-Match": "*"})
        self.give()
        self.assertEqual(self.usage(), [1, 6, 8 + 3 * 512])
        self.assertEqual([version["version"] for version in self.versions("auto")], [2, 1])
        self.assertEqual(self.ask("POST", "/game/saves/gone/versions/1/restore", ABSENT).json["version"], 3)
        self.assertEqual(self.put("auto", b"third", {"If-Match": tag(2, b"second")}).json["version"], 3)
        self.assert_counts_agree()

    def test_without_saves(self) -> None:
        """Merging a player without saves changes nothing."""
        self.give()
        self.assertEqual(self.usage(), [0, 0, 0])

    def test_slots_of_both(self) -> None:
        """In a slot of both players the merged version becomes a conflict copy, unless it is equal or deleted."""
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
