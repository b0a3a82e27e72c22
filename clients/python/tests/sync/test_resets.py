"""The server's history changes, by an erase or an old backup: a device's saves are neither dropped nor forced on it."""

import shutil
from contextlib import closing
from secrets import token_bytes

from clients.python.tests.sync.cases import SyncCase
from gamed.saves.tables import renew_epochs
from tests.e2e.client import gamed
from tests.support.python_client import gamed_client as gc
from tests.support.stores import POSTGRESQL, connect, sqlite_files


class Resets(SyncCase):
    def erase(self) -> None:
        gamed(self.world.service, "saves", "erase", self.world.player, "--yes")

    def test_erased(self) -> None:
        """After an erase elsewhere nothing is written again or deleted here by itself; the player is asked."""
        desk = self.device()
        slots = [self.slot + letter for letter in "abc"]
        for slot in slots:
            desk.sync.write(slot, b"progress")
        desk.sync.send()
        desk.sync.write(slots[1], b"more progress")
        self.erase()
        desk.sync.send()
        self.assertEqual(self.server.list_saves(), [])
        one, two, three = desk.sync.conflicts
        self.assertEqual([c.slot for c in (one, two, three)], slots)
        self.assertEqual({(c.reason, c.theirs()) for c in (one, two, three)}, {("lost", None)})
        self.assertEqual([c.mine().data for c in (one, two)], [b"progress", b"more progress"])
        one.keep_mine()
        two.merged(b"merged")
        three.keep_theirs()
        desk.sync.send()
        found = [self.current(slot) for slot in slots]
        self.assertEqual(found, [b"progress", b"merged", None])
        self.assertEqual((desk.sync.conflicts, desk.bytes(slots[2])), ([], None))

    @sqlite_files("a copy of its file that is put back; test_new_epoch_only and test_erased have what a restore brings")
    def test_backup(self) -> None:
        """After the restore of an old backup the player chooses for slots with older bytes, not for equal ones."""
        desk, sofa = self.two()
        other = self.slot + "-same"
        desk.sync.write(other, b"same")
        desk.sync.send()
        sofa.sync.send()
        sofa.sync.read(other)
        store = self.world.service.data / "state.db"
        self.restart(lambda: shutil.copy(store, store.with_suffix(".old")))
        sofa.sync.write(self.slot, b"after the backup")
        sofa.sync.send()
        desk.sync.send()
        self.assertEqual(desk.bytes(self.slot), b"after the backup")
        self.restart(lambda: self.put_back(store))
        [status] = [status for status in desk.sync.send() if status.slot == self.slot]
        self.assertEqual(status.state, "conflict")
        [conflict] = desk.sync.conflicts
        self.assertEqual((conflict.mine().data, conflict.theirs().data), (b"after the backup", b"start"))
        self.assertEqual(self.current(self.slot), b"start")
        self.assertIn(b"after the backup", self.everywhere(self.slot))
        conflict.keep_mine()
        desk.sync.send()
        sofa.sync.send()
        self.assertEqual((self.current(self.slot), sofa.sync.conflicts), (b"after the backup", []))
        self.assertEqual((sofa.bytes(self.slot), desk.state(other)), (b"after the backup", "in_step"))

    def test_new_epoch_only(self) -> None:
        """If the history is the same after all, later changes and deletes are ordinary changes."""
        desk, sofa = self.two()
        gone = self.slot + "-gone"
        desk.sync.write(gone, b"x")
        desk.sync.send()
        sofa.sync.send()
        sofa.sync.read(gone)
        sofa.sync.write(self.slot, b"newer")
        sofa.sync.delete(gone)
        sofa.sync.send()
        self.restart(self.redraw)
        desk.sync.send()
        self.assertEqual((desk.sync.conflicts, desk.bytes(self.slot)), ([], b"newer"))
        self.raised(gc.Deleted, "deleted", desk.sync.read, gone)
        self.assertFalse(self.server.changes(desk.sync._cursor).whole)

    def test_strange_cursor(self) -> None:
        """A cursor that the server rejects is replaced by the whole list."""
        desk, sofa = self.two()
        sofa.sync.write(self.slot, b"newer")
        sofa.sync.send()
        desk.sync._store.keep_cursor("of another kind")
        desk.restart()
        desk.sync.send()
        self.assertEqual((desk.sync.conflicts, desk.bytes(self.slot)), ([], b"newer"))

    def test_nothing_left(self) -> None:
        """The database of saves is lost: the player of a device with saves is asked, and can write them again."""
        desk = self.device()
        desk.sync.write(self.slot, b"progress")
        desk.sync.send()
        self.restart(self.drop)
        desk.sync.send()
        [conflict] = desk.sync.conflicts
        self.assertEqual((conflict.reason, conflict.mine().data), ("lost", b"progress"))
        conflict.keep_mine()
        desk.sync.send()
        self.assertEqual((self.current(self.slot), desk.state(self.slot)), (b"progress", "in_step"))

    def restart(self, between) -> None:
        self.world.service.terminate()
        between()
        self.world.service.start()

    def drop(self) -> None:
        """Delete the database of saves."""
        data = self.world.service.data
        if POSTGRESQL:
            with closing(connect(data, "state")) as connection:
                connection.execute("DROP SCHEMA state CASCADE").fetchall()
        for path in data.glob("state.db*"):
            path.unlink()

    def put_back(self, store) -> None:
        for path in store.parent.glob("state.db-*"):
            path.unlink()
        store.with_suffix(".old").rename(store)
        self.redraw()

    def redraw(self) -> None:
        """Change the epoch, as restoring a backup does; a longer one would make each later list a whole one."""
        with closing(connect(self.world.service.data, "state")) as connection:
            renew_epochs(connection, token_bytes)
            connection.execute("SELECT 1").fetchall()  # waits: PostgreSQL's statements are only sent until then
