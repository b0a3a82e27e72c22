"""The rows that deleted players leave in state.db stay for a while, and then go.

See docs/internals/storage.md: What is deleted, and when.
"""

from twisted.internet.defer import ensureDeferred

from gamed.account import store as player_store
from gamed.account.service import Removal
from gamed.database.connection import Connection
from gamed.saves import erase_store
from gamed.saves.cleanup import CleanupTask
from gamed.saves.commands import WriteCommand, WriteContext
from gamed.saves.erase_store import CHECKED_PLAYERS, DELETED_DAYS, EraseStore
from gamed.saves.errors import Erased
from gamed.saves.retention import DAY_MS
from gamed.saves.write_rules import Condition, ConditionKind
from gamed.saves.write_store import write_save
from tests.saves.helpers import ABSENT
from tests.saves.state_machine import body_of
from tests.saves.test_cleanup import SweepCase
from tests.sessions.fixtures import ANNA, BERT, Counting


class DeletedPlayersTest(SweepCase):
    def erase(self, player_id: str) -> None:
        """Erase the saves of a player."""
        store = EraseStore(databases=self.stores, random=Counting(), now_ms=lambda: self.server.now_ms)
        self.successResultOf(ensureDeferred(store.erase(player_id, self.server.now_ms)))

    def delete_player(self, player_id: str) -> None:
        """Delete a player from auth.db, as a removal does after the erase."""

        def delete(connection: Connection) -> None:
            player_store.mark_removed(connection, player_id, self.server.now_ms)
            player_store.delete_player_rows(connection, Removal(player_id))

        self.successResultOf(self.stores.auth.submit(delete))

    def players(self) -> list[str]:
        """Return the players who have a row in state.db."""
        query = "SELECT player_id FROM player_saves ORDER BY player_id"
        return [row[0] for row in self.in_state(lambda connection: connection.execute(query).fetchall())]

    def days_later(self, days: int) -> None:
        self.server.now_ms += days * DAY_MS
        self.clean_up()

    def test_deleted_player(self) -> None:
        """The row of a deleted player goes after 30 days; that of one who exists, with or without saves, stays."""
        self.put("auto", b"one", ABSENT)
        epoch = self.ask("GET", "/game/").headers["etag"].strip('"')[:8]
        self.bearer = self.sign_in(BERT)
        self.put("auto", b"one", ABSENT)
        for player_id in (ANNA, BERT):
            self.erase(player_id)
        self.delete_player(ANNA)
        self.days_later(DELETED_DAYS)
        self.assertEqual(self.players(), [ANNA, BERT])
        self.days_later(1)
        self.assertEqual(self.players(), [BERT])
        self.days_later(1000)
        self.assertEqual(self.players(), [BERT])
        context, absent = WriteContext(ANNA, epoch), Condition(ConditionKind.ABSENT)
        command = WriteCommand(context, "auto", absent, body_of(b"late"), 1000, "epoch_00", b"late")
        outcome = self.in_state(lambda connection: write_save(connection, self.limits, command))
        self.assertIsInstance(outcome, Erased)

    def test_lost_accounts(self) -> None:
        """Saves of players whom only state.db knows stay, also if they were erased once and written again."""
        self.put("auto", b"one", ABSENT)
        self.erase(ANNA)
        self.put("again", b"two", ABSENT)
        self.bearer = self.sign_in(BERT)
        self.put("auto", b"one", ABSENT)
        for player_id in (ANNA, BERT):
            self.delete_player(player_id)
        self.days_later(DELETED_DAYS + 1)
        self.assertEqual(self.players(), [ANNA, BERT])
        self.assertEqual([row[:2] for row in self.version_rows()], [(ANNA, "again"), (BERT, "auto")])

    def test_totals_that_are_wrong(self) -> None:
        """A row whose totals are damaged stays while there is a row of a save, or of a version."""
        damage = "UPDATE player_saves SET slots = 0, erased_ms = 0"
        for lost in ("save", "save_version"):
            self.setUp()
            self.put("auto", b"one", ABSENT)
            for query in (damage, f"DELETE FROM {lost}"):
                self.in_state(lambda connection, query=query: connection.execute(query).close())
            erased, _ = self.in_state(lambda connection: erase_store.erased_players(connection, "", 1))
            self.assertEqual(erased, [ANNA])
            self.in_state(lambda connection, ids=erased: erase_store.delete_players(connection, ids, 1))
            self.assertEqual(self.players(), [ANNA], lost)

    def test_erase_underway(self) -> None:
        """A row whose erase has not ended stays."""
        self.in_state(lambda connection: erase_store.begin_erase(connection, ANNA, "epoch_01", 0))
        self.delete_player(ANNA)
        erased, last = self.in_state(lambda connection: erase_store.erased_players(connection, "", 1))
        self.assertEqual((erased, last), ([], None))
        self.in_state(lambda connection: erase_store.delete_players(connection, [ANNA], 1))
        self.assertEqual(self.players(), [ANNA])

    def test_many_players(self) -> None:
        """Each call checks the next rows, so that it takes no longer with more of them, and comes to all."""
        query = "INSERT INTO player_saves (player_id, epoch, erased_ms) VALUES (?, 'epoch_01', ?)"
        ids = [f"ply_{number:022d}" for number in range(2 * CHECKED_PLAYERS + 10)]
        young = ids[::100]

        def insert(connection: Connection) -> None:
            for player_id in ids:
                connection.execute(query, (player_id, self.server.now_ms if player_id in young else 0))

        self.in_state(insert)
        task = CleanupTask(self.stores, self.limits, lambda: self.server.now_ms, bytes, self.changed.append)
        lefts = []
        for _ in range(4):
            self.successResultOf(ensureDeferred(task.clean_up()))
            lefts.append(len([player_id for player_id in self.players() if player_id not in young]))
        old = [
            sum(player_id not in young for player_id in ids[begin:]) for begin in range(0, len(ids), CHECKED_PLAYERS)
        ]
        self.assertEqual(lefts, [*old[1:], 0, 0])
        self.server.now_ms += (DELETED_DAYS + 1) * DAY_MS
        self.successResultOf(ensureDeferred(task.clean_up()))
        self.assertEqual(self.players(), [])
