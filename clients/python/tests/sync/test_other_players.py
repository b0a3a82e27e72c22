"""Saves of another player on the same device, and how the present one adopts them."""

import json
from hashlib import sha256
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

    def test_damaged_notes(self) -> None:
        """Notes of a player with members of other types, or nested without an end, count as none."""
        self.client.keep(self.world.credentials)
        store = self.left()
        sync = self.opened()
        own = self.folder / "desk" / "sync" / self.client.place / sync.player_id
        for notes in (b'{"adopted":null,"name":5}', b'{"adopted":5}', b'{"adopted":[5]}', b"[" * 100_000, b"5"):
            for folder in (store.folder, own):
                (folder / "player").write_bytes(notes)
            store.close()
            self.assertEqual([other.name for other in sync.other_players()], [None])
            store = gs.Store(store.folder)
        store.close()
        self.assertEqual(sync.adopt("ply_other"), [self.slot])

    def test_label(self) -> None:
        """Type and meta come along; another label on bytes that the player has is not another save."""
        self.client.keep(self.world.credentials)
        self.left().close()
        sync = self.opened()
        [other] = sync.other_players()
        self.assertEqual([(save.slot, save.size, save.meta) for save in other.saves], [(self.slot, 6, {"title": "x"})])
        self.assertEqual((other.modified, sync.adopt("ply_other")), ("2026-01-01T00:00:00Z", [self.slot]))
        self.assertEqual((sync.status(self.slot).state, sync.status(self.slot).meta), (gs.NEWER, {"title": "x"}))
        sync.send()
        self.assertEqual((self.server.get(self.slot).meta, sync.conflicts), ({"title": "x"}, []))
        self.left("ply_label", b"mine").close()
        sync.write("mine", b"mine")
        self.assertEqual([other.player_id for other in sync.other_players()], ["ply_label"])
        sync.write(self.slot, b"mine")
        self.assertEqual(sync.other_players(), [])

    def test_refused(self) -> None:
        """A save that the server refuses stays for the game to read, also when the game has written."""
        self.client.keep(self.world.credentials)
        self.left(data=b"\0" * 8).close()
        sync = self.opened()
        self.assertEqual(sync.adopt("ply_other"), [self.slot])
        sync.send()
        self.assertEqual(sync.status(self.slot).problem and sync.status(self.slot).state, gs.NEWER)
        sync.write(self.slot, b"mine")
        sync.send()
        self.assertEqual((self.server.get(self.slot).data, sync.conflicts), (b"mine", []))
        sync.close()
        sync = self.opened()
        self.assertEqual(sync.status(self.slot).state, gs.NEWER)
        self.assertEqual(sync.read(self.slot).data, b"\0" * 8)

    def test_damaged_copy(self) -> None:
        """A copy that has become damaged is forgotten; the other player's save can be copied again."""
        self.client.keep(self.world.credentials)
        self.left().close()
        sync = self.opened()
        sync.write(self.slot, b"mine")
        sync.send()
        self.assertEqual(sync.adopt("ply_other"), [self.slot])
        own = self.folder / "desk" / "sync" / self.client.place / sync.player_id / "slots" / self.slot
        (own / sha256(b"theirs").hexdigest()).write_bytes(b"?")
        self.assertEqual(sync.read(self.slot).data, b"mine")
        self.assertEqual(sync.adopt("ply_other", [self.slot]), [self.slot])
        self.assertEqual(sync.read(self.slot).data, b"theirs")

    def test_interrupted(self) -> None:
        """A copy that fails in the middle leaves what it has copied to be read, and the rest in the list."""
        self.client.keep(self.world.credentials)
        store = self.left()
        store.keep(gs.Record("z").wrote(gs.Local(store.add("z", b"z"), 1, "text/plain", {}, "")))
        store.close()
        sync = self.opened()
        sync.send()
        (self.folder / "desk" / "sync" / self.client.place / sync.player_id / "slots" / "z").write_bytes(b"no folder")
        self.raised(gc.LocalDamaged, "local_disk", sync.adopt, "ply_other")
        self.assertEqual(sync.status(self.slot).state, gs.NEWER)
        self.assertEqual([save.slot for other in sync.other_players() for save in other.saves], ["z"])

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
