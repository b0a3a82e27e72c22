"""Saves of another player on the same device, and how the present one adopts them."""

import json
from pathlib import Path

from clients.python.tests.sync.cases import SyncCase
from tests.e2e.client import gamed
from tests.support.python_client import gamed_client as gc
from tests.support.python_client import gamed_sync as gs


class OtherPlayers(SyncCase):
    def setUp(self) -> None:
        super().setUp()
        self.client = gc.GamedClient(self.world.service.base, folder=self.folder / "desk", sleep=lambda seconds: None)

    def opened(self) -> gs.Sync:
        sync = gs.Sync(self.client)
        self.addCleanup(sync.close)
        return sync

    def left(self, player_id: str = "ply_other", data: bytes = b"theirs") -> gs.Store:
        """Write a save of another player; return their store, to be closed."""
        store = gs.Store(self.folder / "desk" / "sync" / self.client.place / player_id)
        local = gs.Local(store.add(self.slot, data), len(data), "text/plain", {"title": "x"}, "2026-01-01T00:00:00Z")
        store.keep(gs.Record(self.slot).wrote(local))
        return store

    def test_before_the_sign_in(self) -> None:
        """Nothing is adopted before the sign-in."""
        sync = self.opened()
        self.left().close()
        self.raised(gc.SignInRequired, "signed_out", sync.adopt, "ply_other")

    def test_open_elsewhere(self) -> None:
        """A player whose saves another process has open is not listed, and `adopt` says so."""
        self.client.keep(self.world.credentials)
        sync, store = self.opened(), self.left()
        self.assertEqual(sync.other_players(), [])
        self.raised(gs.InUse, "in_use", sync.adopt, "ply_other")
        store.close()
        self.assertEqual([other.player_id for other in sync.other_players()], ["ply_other"])

    def test_damaged(self) -> None:
        """A damaged record hides one player only, a damaged file one save only; neither is deleted."""
        self.client.keep(self.world.credentials)
        damaged, whole = self.left("ply_damaged"), self.left("ply_whole")
        body = self.body(whole)
        (self.body(damaged).parent / "record").write_bytes(b"{}")
        (whole.folder / "player").write_bytes(b"[")
        for store in (damaged, whole):
            store.close()
        sync = self.opened()
        [other] = sync.other_players()
        self.assertEqual((other.player_id, other.name), ("ply_whole", None))
        self.raised(gs.LocalDamaged, "state_damaged", sync.adopt, "ply_damaged")
        body.write_bytes(b"?")
        self.assertEqual(sync.adopt("ply_whole"), [])
        self.assertEqual((body.read_bytes(), sync.read(self.slot) if sync.ready(0) else None), (b"?", None))

    def body(self, store: gs.Store) -> Path:
        [body] = [path for path in (store.folder / "slots" / self.slot).iterdir() if path.name != "record"]
        return body

    def test_label(self) -> None:
        """Type and meta come along, and another label on the same bytes is offered."""
        self.client.keep(self.world.credentials)
        self.left().close()
        sync = self.opened()
        sync.write(self.slot, b"theirs")
        sync.pump()
        [other] = sync.other_players()
        self.assertEqual([(save.slot, save.size, save.meta) for save in other.saves], [(self.slot, 6, {"title": "x"})])
        self.assertEqual((other.modified, sync.adopt("ply_other")), ("2026-01-01T00:00:00Z", [self.slot]))
        sync.pump()
        self.assertEqual(sync.conflicts, [])
        self.assertEqual(self.server.get(self.slot).meta, {"title": "x"})

    def test_renamed(self) -> None:
        """A name that the player gets after the sign-in is known to the next player here."""
        gamed(self.world.service, "players", "add", "bert", "--password-stdin", stdin="correct horse\n")
        bert = json.loads(gamed(self.world.service, "players", "token", "bert", "--json"))
        self.client.keep(bert)
        self.client.set_name("Bert")
        sync = self.opened()
        sync.write(self.slot, b"of bert")
        sync.close()
        self.client.keep(self.world.credentials)
        [other] = self.opened().other_players()
        self.assertEqual((other.player_id, other.name), (bert["player"]["id"], "Bert"))
