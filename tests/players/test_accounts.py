"""Players and their local accounts are stored in a real auth.db."""

from twisted.trial.unittest import SynchronousTestCase

from gamed.crypto import Keys, Secret
from gamed.database.connection import AUTH
from gamed.players import tables as player_tables
from gamed.players.errors import NameTaken, PlayerUnknown
from gamed.players.model import NamedPlayer, Player
from gamed.players.names import name_index
from gamed.players.tables import LocalAccount
from tests.sessions.fixtures import ANNA, BERT, NOW_MS, Counting
from tests.support.stores import contents, open_database


class AccountTests(SynchronousTestCase):
    """Local accounts of players."""

    def setUp(self) -> None:
        self.connection = open_database(AUTH)
        self.addCleanup(self.connection.close)
        self.keys = Keys.of(Secret(bytes(32)), Counting())

    def add(self, player_id: str, name: str, now_ms: int = NOW_MS) -> None:
        player_tables.add_local_player(
            self.connection, self.keys, player_id=player_id, name=name, password="phc", now_ms=now_ms
        )

    def find(self, name: str) -> LocalAccount | None:
        return player_tables.find_account(self.connection, name_index(self.keys.indexer, name))

    def everything(self) -> dict[str, list[tuple[object, ...]]]:
        return contents(self.connection)

    def test_find(self) -> None:
        """An account is found by any spelling that folds to its name, with the player's state."""
        self.add(ANNA, "Anna")
        self.assertEqual(self.find("aNNa"), LocalAccount(ANNA, "phc", "active"))
        self.assertIsNone(self.find("Anne"))
        self.assertTrue(player_tables.set_state(self.connection, ANNA, "blocked"))
        self.assertEqual(self.find("Anna"), LocalAccount(ANNA, "phc", "blocked"))
        self.assertFalse(player_tables.set_state(self.connection, BERT, "blocked"))

    def test_unblock(self) -> None:
        """Only a player who was approved before is active after `unblock`; another one is pending again."""
        self.add(ANNA, "Anna")
        player_tables.create_player(self.connection, BERT, NOW_MS, "pending")
        for player_id, state in ((ANNA, "active"), (BERT, "pending")):
            self.assertIsNone(player_tables.lift_block(self.connection, player_id))
            self.assertTrue(player_tables.change_state(self.connection, player_id, state, "blocked"))
            self.assertEqual(player_tables.lift_block(self.connection, player_id), state)
        self.assertTrue(player_tables.change_state(self.connection, BERT, "pending", "active"))
        self.assertTrue(player_tables.change_state(self.connection, BERT, "active", "blocked"))
        self.assertEqual(player_tables.lift_block(self.connection, BERT), "active")
        self.assertIsNone(player_tables.lift_block(self.connection, "ply_nobody"))

    def test_taken(self) -> None:
        """A name that folds to a taken one is rejected, and no row is left of the attempt."""
        self.add(ANNA, "Straße")
        before = self.everything()
        for spelling in ("Straße", "STRASSE", "ſtrasse"):
            self.assertRaises(NameTaken, self.add, BERT, spelling)
        self.assertEqual(self.everything(), before)

    def test_nothing_in_clear(self) -> None:
        """The name is in the file neither in clear nor in hexadecimal, and a row's seal fits no other row."""
        self.add(ANNA, "Wilhelmina")
        written = "\n".join(self.everything()).lower()
        for form in ("wilhelmina", b"Wilhelmina".hex(), b"wilhelmina".hex()):
            self.assertNotIn(form, written)

    def test_repr(self) -> None:
        """A logged account does not show the hash of its password."""
        self.assertNotIn("phc", repr(LocalAccount(ANNA, "phc", "active")))

    def test_list(self) -> None:
        """The list has every player, the oldest first, with the name as chosen, also players without an account."""
        self.add(BERT, "Bert", NOW_MS + 1)
        player_tables.create_player(self.connection, ANNA, NOW_MS, "pending")
        self.assertEqual(
            player_tables.list_players(self.connection, self.keys.sealer),
            [
                NamedPlayer(Player(ANNA, "pending", False, NOW_MS, None), None),
                NamedPlayer(Player(BERT, "active", False, NOW_MS + 1, None), "Bert"),
            ],
        )

    def test_find_named(self) -> None:
        """A player is found by id or by name; an id comes before a name that looks like it."""
        self.add(ANNA, "Anna")
        self.add(BERT, ANNA)
        for wanted, player_id in (("anna", ANNA), (ANNA, ANNA), (BERT, BERT), (ANNA.upper(), BERT)):
            found = player_tables.find_named(self.connection, self.keys, wanted)
            self.assertEqual(found.player.player_id, player_id)
        for wanted in ("Nobody", "", "ply_", "%"):
            self.assertRaises(PlayerUnknown, player_tables.find_named, self.connection, self.keys, wanted)

    def test_sign_in_is_recorded(self) -> None:
        """A sign-in is recorded in the player's row and in the account's."""
        self.add(ANNA, "Anna")
        player_tables.record_sign_in(self.connection, ANNA, NOW_MS + 7)
        player_tables.record_account_use(self.connection, ANNA, NOW_MS + 7)
        self.assertEqual(
            player_tables.find_player(self.connection, ANNA), Player(ANNA, "active", False, NOW_MS, NOW_MS + 7)
        )
        [used] = self.connection.execute("SELECT last_used_ms FROM local_account").fetchone()
        self.assertEqual(used, NOW_MS + 7)
        self.assertIsNone(player_tables.find_player(self.connection, BERT))
