"""Passkeys of players whose accounts are adopted, merged or erased."""

from gamed.account import sentences
from gamed.account.service import Removal
from gamed.account.store import delete_player_rows, mark_removed, merge_players
from gamed.passkeys import tables
from gamed.passkeys.limits import MAX_PASSKEYS
from gamed.players.errors import AdoptRefusal
from tests.account.page_fixtures import BERT, HOME
from tests.account.test_adopting import SUMMARY, AdoptCase
from tests.login.fixtures import ANNA
from tests.passkeys.fixtures import PasskeyCase


class AdoptTests(AdoptCase, PasskeyCase):
    """Anna's account of local mode, which another player's browser asks for."""

    def test_passkey(self) -> None:
        """An account with a passkey is not adopted by its password, and keeps the passkey; it is not offered."""
        self.insert(ANNA)
        self.assertIn(sentences.ADOPT_REFUSED[AdoptRefusal.LINKED].source, self.adopt().text)
        self.unchanged()
        self.assertEqual(len(self.passkeys), 1)
        self.assertNotIn(SUMMARY, self.browser.get(HOME).text)


class MergeTests(PasskeyCase):
    """Anna, who is merged into Bert or erased."""

    def setUp(self) -> None:
        super().setUp()
        self.create_bert()

    def merge(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        merged = self.server.write(lambda c: merge_players(c, self.server.keys, ANNA, BERT, self.server.now_ms()))
        return merged.moved, merged.left

    def test_moved(self) -> None:
        """A passkey signs in the player who keeps existing, and is as new; the sessions that it opened end."""
        self.added()
        other = self.new_account_browser()
        self.use(other)
        self.server.clock.advance(5)
        self.assertEqual(self.merge(), (("local", "passkey"), ()))
        self.assertEqual(self.server.rows("SELECT player_id, created_ms FROM passkey"), [(BERT, self.server.now_ms())])
        self.assertIn("Sign in to see your devices", other.get(HOME).text)
        self.use(other)
        self.assertEqual(self.server.rows("SELECT player_id, provider FROM browser_session"), [(BERT, "passkey")])

    def test_no_room(self) -> None:
        """Ten passkeys at most are those of one player; the newest ones of the other are deleted, which is reported."""
        for number in range(MAX_PASSKEYS + 3):
            self.insert(ANNA if number < 5 else BERT, number)
            self.server.clock.advance(1)
        self.assertEqual(self.merge(), (("local", "passkey"), ("passkey",)))
        names = self.server.write(lambda c: [each.name for each in tables.list_of(c, self.server.keys, BERT)])
        self.assertEqual(names, ["5", "6", "7", "8", "9", "10", "11", "12", "0", "1"])

    def test_full(self) -> None:
        """A player with ten passkeys gets none."""
        for number in range(MAX_PASSKEYS + 1):
            self.insert(ANNA if number == 0 else BERT, number)
        self.assertEqual(self.merge(), (("local",), ("passkey",)))

    def test_erased(self) -> None:
        """Nothing of a passkey is left of an erased player; others keep theirs."""
        self.added()
        self.insert(BERT)
        self.server.write(lambda c: mark_removed(c, ANNA, self.server.now_ms()))
        while self.server.write(lambda c: delete_player_rows(c, Removal(ANNA))):
            pass
        self.assertEqual([player_id for _, player_id, *_ in self.passkeys], [BERT])
