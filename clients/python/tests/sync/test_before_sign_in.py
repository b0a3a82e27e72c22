"""Saves of a game that begins without an account, and their adoption at the first sign-in."""

import threading

from clients.python.tests.sync.cases import SyncCase
from tests.support.python_client import gamed_client as gc
from tests.support.python_client import gamed_sync as gs


class BeforeSignIn(SyncCase):
    def setUp(self) -> None:
        super().setUp()
        self.client = gc.GamedClient(self.world.service.base, folder=self.folder / "new", sleep=lambda seconds: None)

    def opened(self) -> gs.Sync:
        sync = gs.Sync(self.client)
        self.addCleanup(sync.close)
        return sync

    def test_run_goes_on_after_the_sign_in(self) -> None:
        """`run` ends with SignInRequired, and the same Sync sends the saves when it runs again."""
        sync, stop = self.opened(), threading.Event()
        sync.write(self.slot, b"one")
        self.raised(gc.SignInRequired, "signed_out", sync.run, stop)
        self.assertFalse(sync.ready(60))
        self.client.keep(self.world.credentials)
        thread = threading.Thread(target=sync.run, args=(stop, lambda status: stop.set()), daemon=True)
        thread.start()
        thread.join(60)
        self.assertEqual((sync.player_id, self.current(self.slot)), (self.world.player, b"one"))
        self.assertEqual(sync.read(self.slot).data, b"one")

    def test_pending_stays(self) -> None:
        """A save of a slot with a pending write is adopted once that was sent, as a conflict."""
        sync = self.opened()
        sync.write(self.slot, b"without an account")
        self.client.keep(self.world.credentials)
        place = sync._store.folder.with_name(gs.safe_name(self.world.player))
        theirs = gs.Store(place)
        local = gs.Local(theirs.add(self.slot, b"pending"), 7, "application/octet-stream", {}, "")
        theirs.keep(gs.Record(self.slot).wrote(local))
        theirs.close()
        sync.send()
        self.assertEqual((sync.conflicts, self.current(self.slot)), ([], b"pending"))
        sync.close()
        again = self.opened()
        again.send()
        [conflict] = again.conflicts
        self.assertEqual((conflict.mine().data, conflict.theirs().data), (b"without an account", b"pending"))
        self.assertEqual(self.current(self.slot), b"pending")

    def test_deleted(self) -> None:
        """A save that was deleted before the sign-in does not delete one at the server."""
        self.server.put(self.slot, b"theirs", base=None)
        sync = self.opened()
        sync.write(self.slot, b"mine")
        sync.delete(self.slot)
        self.client.keep(self.world.credentials)
        sync.send()
        self.assertEqual((sync.read(self.slot).data, self.current(self.slot)), (b"theirs", b"theirs"))
