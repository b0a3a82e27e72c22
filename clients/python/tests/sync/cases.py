"""Fixtures of the tests of offline play: one service for all of them, a player, devices behind a proxy each."""

import json
from atexit import register
from functools import cache
from itertools import count
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp

from msgspec import Struct
from twisted.trial.unittest import SynchronousTestCase

from clients.python.tests.sync.proxy import Proxy
from tests.e2e.client import CONFIG, gamed, write_game
from tests.e2e.service import Service
from tests.support.folders import unused_path
from tests.support.python_client import gamed_client as gc
from tests.support.python_client import gamed_sync as gs

SAVE_BYTES = 50_000
NUMBERS = count(1)


class World(Struct, frozen=True):
    """A service, and the credentials of its player."""

    service: Service
    credentials: dict

    @property
    def player(self) -> str:
        return self.credentials["player"]["id"]


def new_world(folder: Path) -> World:
    service = Service(folder, CONFIG)
    write_game(service, writes_per_minute=0, save_bytes=SAVE_BYTES, keep_versions=100, conflict_copies=100)
    service.start()
    gamed(service, "players", "add", "anna", "--password-stdin", stdin="correct horse\n")
    return World(service, json.loads(gamed(service, "players", "token", "anna", "--json")))


@cache
def shared_world() -> World:
    """Return the world of all tests of a process: its start takes longer than most of them."""
    folder = Path(mkdtemp(prefix="gamed-sync-"))
    register(rmtree, folder, ignore_errors=True)
    world = new_world(folder / "world")
    register(world.service.close)
    return world


class Device(Struct):
    """A machine of the player: a folder, a network of its own, the game's Sync."""

    folder: Path
    proxy: Proxy
    credentials: dict
    sync: object = None

    def start(self):
        """Start the game, also after it was killed or closed."""
        client = gc.GamedClient(self.proxy.base, folder=self.folder, sleep=lambda seconds: None)
        client.keep(self.credentials)
        self.sync = gs.Sync(client)
        return self.sync

    def stop(self) -> None:
        self.sync.close()

    def restart(self):
        self.stop()
        return self.start()

    def state(self, slot: str) -> str:
        return self.sync.status(slot).state

    def bytes(self, slot: str) -> bytes | None:
        save = self.sync.read(slot)
        return None if save is None else save.data


class SyncCase(SynchronousTestCase):
    """`self.server` is a client of the same player without the proxy; `self.slot` was never written before."""

    def setUp(self) -> None:
        self.slot = f"slot-{next(NUMBERS)}"
        self.folder = unused_path(self)
        self.world = self.make_world()
        self.server = gc.GamedClient(self.world.service.base, folder=self.folder / "server")
        self.server.keep(self.world.credentials)
        self.addCleanup(self._empty)

    def make_world(self) -> World:
        return shared_world()

    def _empty(self) -> None:
        for save in self.server.list_saves():
            self.server.delete(save.slot, base=save)

    def device(self, name: str = "desk") -> Device:
        """Return a device on which the game runs, before its first request."""
        proxy = Proxy(self.world.service.port).start()
        device = Device(self.folder / name, proxy, self.world.credentials)
        device.start()
        self.addCleanup(proxy.stop)
        self.addCleanup(device.stop)
        return device

    def two(self, slot: str | None = None, data: bytes = b"start") -> tuple[Device, Device]:
        """Return two devices with the same save."""
        slot = slot or self.slot
        desk, sofa = self.device("desk"), self.device("sofa")
        desk.sync.write(slot, data)
        desk.sync.send()
        sofa.sync.send()
        self.assertEqual(sofa.bytes(slot), data)
        return desk, sofa

    def everywhere(self, slot: str) -> set[bytes]:
        """Return all bytes that the server keeps of a slot, in any version."""
        try:
            versions = self.server.versions(slot)
        except gc.NotFound:
            return set()
        return {self.server.version(slot, version.version).data for version in versions if version.save}

    def current(self, slot: str) -> bytes | None:
        try:
            save = self.server.get(slot)
        except gc.Deleted:
            return None
        return save and save.data

    def raised(self, error: type[Exception], code: str, call, *args: object, **how: object) -> Exception:
        found = self.assertRaises(error, call, *args, **how)
        self.assertEqual(found.code, code)
        return found
