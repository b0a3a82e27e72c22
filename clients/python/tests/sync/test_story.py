"""Two devices of one player that both play offline and then reconnect (docs/protocol.md: Conditions and ranges)."""

from clients.python.tests.sync.cases import SyncCase
from clients.python.tests.sync.proxy import Fate, Request
from tests.support.python_client import gamed_client as gc
from tests.support.python_client import gamed_sync as gs


class Story(SyncCase):
    def offline(self):
        """Return two devices that have changed the same save offline; the sofa's is sent first."""
        desk, sofa = self.two(data=b"level 1")
        desk.proxy.offline = sofa.proxy.offline = True
        desk.sync.write(self.slot, b"level 2", meta={"title": "desk"})
        desk.sync.write(self.slot, b"level 3", meta={"title": "desk"})
        sofa.sync.write(self.slot, b"level 9", meta={"title": "sofa"})
        for device in (desk, sofa):
            self.raised(gc.Unreachable, "unreachable", device.sync.send)
            self.assertEqual((device.state(self.slot), device.sync.problem.code), ("waiting", "unreachable"))
        desk.proxy.offline = sofa.proxy.offline = False
        sofa.sync.send()
        self.assertEqual((sofa.state(self.slot), sofa.sync.problem), ("in_step", None))
        return desk, sofa

    def conflict(self, device):
        """`send` returns the conflict; its three sides can be read even without a network."""
        [status] = device.sync.send()
        self.assertEqual((status.slot, status.state), (self.slot, "conflict"))
        device.proxy.offline = True
        device.restart()
        [conflict] = device.sync.conflicts
        sides = [conflict.base(), conflict.theirs(), conflict.mine()]
        self.assertEqual([side.data for side in sides], [b"level 1", b"level 9", b"level 3"])
        self.assertEqual([side.meta for side in sides], [{}, {"title": "sofa"}, {"title": "desk"}])
        self.assertTrue(all(side.modified for side in sides))
        self.assertEqual(conflict.reason, "changed")
        return conflict

    def back(self, device) -> None:
        device.proxy.offline = False
        device.sync.send()
        self.assertEqual((device.state(self.slot), device.sync.conflicts), ("in_step", []))

    def test_keep_mine(self) -> None:
        """The player keeps this device's side: it becomes current everywhere, the other stays in the history."""
        desk, sofa = self.offline()
        self.conflict(desk).keep_mine()
        self.back(desk)
        self.assertEqual((desk.bytes(self.slot), self.current(self.slot)), (b"level 3", b"level 3"))
        sofa.sync.send()
        self.assertEqual((sofa.state(self.slot), sofa.bytes(self.slot)), ("newer", b"level 3"))
        self.assertEqual(self.everywhere(self.slot), {b"level 1", b"level 3", b"level 9"})
        self.assertEqual(desk.sync.status(self.slot).copies, ())

    def test_keep_theirs(self) -> None:
        """The player keeps the other side: this one stays as a conflict copy at the server, and here."""
        desk, sofa = self.offline()
        self.conflict(desk).keep_theirs()
        self.assertEqual(desk.bytes(self.slot), b"level 9")
        self.back(desk)
        self.assertEqual(self.current(self.slot), b"level 9")
        self.assertEqual(self.everywhere(self.slot), {b"level 1", b"level 3", b"level 9"})
        self.assertEqual(desk.sync.lost(self.slot).data, b"level 3")
        [number] = desk.sync.status(self.slot).copies
        self.assertEqual(self.server.version(self.slot, number).data, b"level 3")
        sofa.sync.send()
        self.assertEqual((sofa.state(self.slot), sofa.bytes(self.slot)), ("in_step", b"level 9"))

    def test_keep_theirs_after_playing_on(self) -> None:
        """A save during a conflict is stored at the server, too, as the newest copy of this device."""
        desk, _ = self.offline()
        conflict = self.conflict(desk)
        desk.sync.write(self.slot, b"level 4", meta={"title": "newest"})
        conflict.keep_theirs()
        self.assertEqual((desk.state(self.slot), desk.bytes(self.slot)), ("waiting", b"level 9"))
        self.back(desk)
        self.assertEqual(self.current(self.slot), b"level 9")
        self.assertEqual(self.everywhere(self.slot), {b"level 1", b"level 3", b"level 4", b"level 9"})
        self.assertEqual(desk.sync.lost(self.slot).data, b"level 4")
        [newest, *_] = [version.save for version in self.server.versions(self.slot) if version.kind == "conflict"]
        self.assertEqual(newest.meta, {"title": "newest"})

    def test_merged(self) -> None:
        """The player merges: both sides stay, and the merged save is based on theirs."""
        desk, _ = self.offline()
        self.conflict(desk).merged(b"level 12", meta={"title": "both"})
        self.back(desk)
        self.assertEqual(self.current(self.slot), b"level 12")
        self.assertEqual(self.server.get(self.slot).meta, {"title": "both"})
        self.assertEqual(self.everywhere(self.slot), {b"level 1", b"level 3", b"level 9", b"level 12"})

    def test_play_on(self) -> None:
        """Until the player chooses, the game may play on; its newest save is the side that is kept."""
        desk, _ = self.offline()
        conflict = self.conflict(desk)
        desk.proxy.offline = False
        desk.sync.write(self.slot, b"level 4")
        desk.sync.send()
        self.assertEqual((desk.state(self.slot), self.current(self.slot)), ("conflict", b"level 9"))
        self.assertEqual(conflict.mine().data, b"level 4")
        conflict.keep_mine()
        self.back(desk)
        self.assertEqual(self.current(self.slot), b"level 4")

    def test_moved_on(self) -> None:
        """A choice is valid for the shown sides: if theirs has changed since, the player is asked again."""
        desk, sofa = self.offline()
        old = self.conflict(desk)
        sofa.sync.write(self.slot, b"level 10")
        sofa.sync.send()
        desk.proxy.offline = False
        desk.sync.send()
        self.raised(gs.ConflictOver, "conflict_over", old.keep_mine)
        [conflict] = desk.sync.conflicts
        self.assertEqual(conflict.theirs().data, b"level 10")
        conflict.keep_mine()
        sofa.sync.write(self.slot, b"level 11")
        sofa.sync.send()
        desk.sync.send()
        [conflict] = desk.sync.conflicts
        self.assertEqual((conflict.theirs().data, self.current(self.slot)), (b"level 11", b"level 11"))

    def test_dissolves(self) -> None:
        """A conflict ends if the other side becomes the same."""
        desk, sofa = self.offline()
        self.conflict(desk)
        sofa.sync.write(self.slot, b"level 3")
        sofa.sync.send()
        self.back(desk)
        self.assertEqual(desk.bytes(self.slot), b"level 3")

    def test_dissolves_here(self) -> None:
        """A conflict ends if this device's side becomes the same."""
        desk, _ = self.offline()
        self.conflict(desk)
        desk.sync.write(self.slot, b"level 9", meta={"title": "sofa"})
        self.assertEqual((desk.sync.conflicts, desk.state(self.slot)), ([], "in_step"))
        self.back(desk)

    def test_same_after_all(self) -> None:
        """A refused write is not a conflict if the game meanwhile has the server's bytes."""
        desk, sofa = self.two()
        sofa.sync.write(self.slot, b"level 9")
        sofa.sync.send()
        desk.sync.write(self.slot, b"level 2")

        def decide(request: Request) -> Fate:
            if request.body == b"level 2":
                desk.sync.write(self.slot, b"level 9")
            return Fate.PASSES

        desk.proxy.decide = decide
        desk.sync.send()
        self.assertEqual((desk.sync.conflicts, desk.state(self.slot)), ([], "in_step"))


class Deletions(SyncCase):
    """A deleted save differs from one that was never written (docs/protocol.md: Saves)."""

    def test_offline(self) -> None:
        """A delete waits for the network like a write; the other device is notified, and keeps its bytes."""
        desk, sofa = self.two()
        desk.proxy.offline = True
        desk.sync.delete(self.slot)
        self.raised(gc.Deleted, "deleted", desk.sync.read, self.slot)
        desk.restart()
        self.assertEqual((desk.state(self.slot), self.current(self.slot)), ("waiting", b"start"))
        desk.proxy.offline = False
        desk.sync.send()
        self.assertEqual((desk.state(self.slot), self.current(self.slot)), ("in_step", None))
        [status] = sofa.sync.send()
        self.assertEqual((status.state, status.size), ("newer", None))
        self.raised(gc.Deleted, "deleted", sofa.sync.read, self.slot)
        self.assertEqual(sofa.sync.lost(self.slot).data, b"start")
        self.assertIsNone(sofa.sync.read("never"))

    def test_again(self) -> None:
        """A slot that was deleted can be written again, on both devices."""
        desk, sofa = self.two()
        desk.sync.delete(self.slot)
        desk.sync.send()
        desk.sync.write(self.slot, b"new game")
        desk.sync.send()
        sofa.sync.send()
        self.assertEqual((sofa.bytes(self.slot), self.current(self.slot)), (b"new game", b"new game"))

    def test_deleted_and_played_on(self) -> None:
        """The player chooses if a save was deleted there and changed here."""
        for keep, left in (("keep_mine", b"played on"), ("keep_theirs", None)):
            slot = self.slot + keep[-1]
            desk, sofa = self.two(slot)
            sofa.sync.delete(slot)
            sofa.sync.send()
            desk.sync.write(slot, b"played on")
            desk.sync.send()
            [conflict] = desk.sync.conflicts
            self.assertEqual((conflict.reason, conflict.theirs()), ("deleted", None))
            desk.sync.write(slot, b"played on")
            desk.sync.write(slot, b"played on more")
            desk.sync.write(slot, b"played on")
            getattr(conflict, keep)()
            desk.sync.send()
            self.assertEqual((desk.state(slot), self.current(slot)), ("in_step", left))
            self.assertLessEqual({b"start", b"played on"}, self.everywhere(slot))
            if left is None:
                self.raised(gc.Deleted, "deleted", desk.sync.read, slot)
            self.folder = self.folder / "second"

    def test_played_on_and_deleted(self) -> None:
        """A save that was deleted here and changed there is not deleted unseen."""
        desk, sofa = self.two()
        sofa.sync.write(self.slot, b"played on")
        sofa.sync.send()
        desk.proxy.offline = True
        desk.sync.delete(self.slot)
        desk.proxy.offline = False
        desk.sync.send()
        [conflict] = desk.sync.conflicts
        self.assertEqual((conflict.mine(), conflict.theirs().data), (None, b"played on"))
        conflict.keep_mine()
        desk.sync.send()
        self.assertEqual((desk.state(self.slot), self.current(self.slot)), ("in_step", None))

    def test_what_the_game_has_read(self) -> None:
        """A delete is based on the version that the game has read: a newer one is a conflict, at once and on disk."""
        desk, sofa = self.two()
        sofa.sync.write(self.slot, b"played on")
        sofa.sync.send()
        desk.sync.send()
        desk.sync.delete(self.slot)
        self.assertEqual(desk.state(self.slot), "conflict")
        desk.restart()
        desk.sync.send()
        [conflict] = desk.sync.conflicts
        self.assertEqual((conflict.mine(), conflict.theirs().data), (None, b"played on"))
        self.assertEqual(self.current(self.slot), b"played on")
        conflict.keep_theirs()
        self.assertEqual(desk.bytes(self.slot), b"played on")

    def test_what_the_menu_shows(self) -> None:
        """A player who has seen the newer version in a menu deletes it, too."""
        desk, sofa = self.two()
        sofa.sync.write(self.slot, b"played on")
        sofa.sync.send()
        desk.sync.send()
        desk.sync.delete(self.slot, including_newer=True)
        desk.sync.send()
        self.assertEqual((desk.state(self.slot), self.current(self.slot)), ("in_step", None))

    def test_lost_answer(self) -> None:
        """A delete without a response was performed, also if another device has written since."""
        desk, sofa = self.two()
        desk.sync.delete(self.slot)
        desk.proxy.next("DELETE", Fate.ANSWER_LOST)
        self.raised(gc.Unreachable, "unreachable", desk.sync.send)
        sofa.sync.send()
        self.raised(gc.Deleted, "deleted", sofa.sync.read, self.slot)
        sofa.sync.write(self.slot, b"new game")
        sofa.sync.send()
        desk.sync.send()
        self.assertEqual((desk.sync.conflicts, desk.bytes(self.slot)), ([], b"new game"))

    def test_never_sent(self) -> None:
        """A save that was never sent is deleted on the device without a request."""
        desk = self.device()
        desk.sync.write(self.slot, b"x")
        desk.sync.delete(self.slot)
        self.assertEqual(desk.sync.lost(self.slot).data, b"x")
        desk.sync.send()
        self.assertEqual({request.method for request in desk.proxy.seen}, {"GET"})
        self.assertEqual([status.slot for status in desk.sync.slots()], [])
