"""Two devices on one slot over an unreliable network, at random, and invariants that always hold.

Every written value is unique and names its writer, so that a list of versions shows every write.
"""

from collections.abc import Callable
from random import Random

from msgspec import Struct, field

from clients.python.tests.sync.cases import Device, SyncCase
from clients.python.tests.sync.proxy import Fate
from tests.support.examples import examples
from tests.support.python_client import gamed_client as gc
from tests.support.python_client import gamed_sync as gs

RUNS = examples(few=3, many=60)
STEPS = 45
Value = bytes | None
"""None: deleted, or never written."""


class Player(Struct):
    """One device, and the versions that its player has seen."""

    name: str
    device: Device
    held: Value = None
    """The game's value in memory."""
    seen: set[Value] = field(default_factory=lambda: {None})
    count: int = 0


class World(Struct):
    """The true state, for comparison."""

    case: SyncCase
    slot: str
    random: Random
    players: list[Player]
    knew: dict[bytes, set[Value]] = field(default_factory=dict)
    """The versions that the writer of each value had read or replaced."""
    deleted: set[Value] = field(default_factory=lambda: {None})
    """The versions that the deleting devices had read."""
    gave_way: set[bytes] = field(default_factory=set)
    """The value of a device whose player chose the other side, or both."""

    def step(self) -> None:
        player = self.random.choice(self.players)
        deeds: list[Callable[[Player], None]] = [self.write] * 4 + [self.send] * 5 + [self.read, self.delete, self.die]
        self.random.choice(deeds + [self.choose] * 2)(player)

    def write(self, player: Player) -> None:
        player.count += 1
        player.held = f"{player.name} {player.count}".encode()
        player.seen.add(player.held)
        self.knew[player.held] = set(player.seen)
        player.device.sync.write(self.slot, player.held)

    def delete(self, player: Player) -> None:
        """Choose one of the slots that the menu shows."""
        if player.device.state(self.slot) != "newer" and player.held is not None:
            player.device.sync.delete(self.slot)
            player.held = None
            self.deleted |= player.seen

    def read(self, player: Player) -> None:
        newer = player.device.state(self.slot) == "newer"
        found = self.found(player)
        if not newer:
            self.case.assertEqual(found, player.held, "the game's own bytes changed behind its back")
        player.held = found
        player.seen.add(found)

    def found(self, player: Player) -> Value:
        try:
            return player.device.bytes(self.slot)
        except gc.Deleted:
            return None
        except gc.Unreachable:
            return player.held

    def send(self, player: Player) -> None:
        try:
            player.device.sync.send()
        except gc.Unreachable:
            return
        for conflict in player.device.sync.conflicts:
            theirs = conflict.theirs()
            self.case.assertFalse(theirs and theirs.data.startswith(player.name.encode()), "a conflict with oneself")

    def die(self, player: Player) -> None:
        player.device.restart()
        self.read(player)

    def choose(self, player: Player) -> None:
        for conflict in player.device.sync.conflicts:
            try:
                theirs = conflict.theirs()
            except gc.GamedError:
                continue
            player.seen.add(theirs and theirs.data)
            self.random.choice([self.mine, self.theirs, self.both])(player, conflict)

    def mine(self, player: Player, conflict: object) -> None:
        conflict.keep_mine()
        if player.held is not None:
            self.knew[player.held] |= player.seen
        else:
            self.deleted |= player.seen

    def theirs(self, player: Player, conflict: object) -> None:
        self.gave_way |= {player.held} - {None}
        theirs = conflict.theirs()
        conflict.keep_theirs()
        player.held = theirs and theirs.data

    def both(self, player: Player, conflict: object) -> None:
        self.gave_way |= {player.held} - {None}
        player.count += 1
        player.held = f"{player.name} {player.count} merged".encode()
        player.seen.add(player.held)
        self.knew[player.held] = set(player.seen)
        conflict.merged(player.held)

    def settle(self) -> None:
        """Repair the network, and let the players choose until no conflict is left."""
        for player in self.players:
            player.device.proxy.decide = lambda request: Fate.PASSES
        for _ in range(8):
            for player in self.players:
                self.send(player)
                self.choose(player)
                self.send(player)
                self.read(player)
            if self.agreed():
                break
        states = [player.device.state(self.slot) for player in self.players]
        self.case.assertEqual(states, ["in_step"] * len(self.players))
        self.case.assertEqual({player.held for player in self.players}, {self.case.current(self.slot)})

    def agreed(self) -> bool:
        states = {player.device.state(self.slot) for player in self.players}
        return states == {"in_step"} and len({player.held for player in self.players}) == 1

    def check(self) -> None:
        """Assert that no current save was replaced by a device that had not seen it, none is doubled, and each
        displaced one is kept.
        """
        try:
            versions = self.case.server.versions(self.slot)
        except gc.NotFound:
            return
        kept = {v.version: self.case.server.version(self.slot, v.version).data for v in versions if v.save}
        for version in versions:
            if version.parent is None or version.kind == "conflict":
                continue
            replaced = kept.get(version.parent)
            knew = self.deleted if version.kind == "delete" else self.knew[kept[version.version]]
            self.case.assertIn(replaced, knew, "something was replaced by who had not seen it")
        written = [kept[version.version] for version in versions if version.kind == "write"]
        self.case.assertEqual(len(written), len(set(written)), "a write was doubled")
        self.case.assertLessEqual(self.gave_way, set(kept.values()), "what gave way is not at the server")


class Model(SyncCase):
    def run_one(self, seed: int) -> None:
        random = Random(seed)
        self.folder = self.folder.with_name(f"run-{seed}-{self.slot}")
        fates = [Fate.PASSES] * 8 + list(Fate)
        players = [Player(name, self.device(name)) for name in ("desk", "sofa")]
        for player in players:
            player.device.proxy.decide = lambda request: random.choice(fates)
        world = World(self, f"{self.slot}-{seed}", random, players)
        for _ in range(STEPS):
            world.step()
        world.settle()
        world.check()
        self._empty()

    def test_devices(self) -> None:
        """No progress is lost or replaced unseen, no device conflicts with itself, and in the end all agree."""
        for seed in range(RUNS):
            self.run_one(seed)
        self.assertFalse(self.server.list_saves())

    def defect(self, name: str, wrong: Callable, noticed: str, first: int = 0) -> None:
        """`first` is a seed that finds the defect; others follow, in case the order of requests changes."""
        self.patch(gs.Record, name, wrong)
        with self.assertRaisesRegex(self.failureException, noticed):
            for seed in range(first, first + 15):
                self.run_one(seed)

    def test_planted_arrival(self) -> None:
        """The model finds a base that changes when a save arrives, instead of when the game reads it."""
        right = gs.Record.heard

        def heard(record, remote, deleted=False):
            after = right(record, remote, deleted)
            return gs.replace(after, base=remote) if after.dirty and not after.dispute and not after.sent else after

        self.defect("heard", heard, "something was replaced by who had not seen it")

    def test_planted_impatience(self) -> None:
        """The model finds newer bytes that are sent before the response to older ones."""
        right = gs.Record.wrote

        def wrote(record, local):
            return gs.replace(right(record, local), sent=None)

        self.defect("wrote", wrote, "a conflict with oneself", first=5)

    def test_planted_loss(self) -> None:
        """The model finds a device that deletes bytes which the server has not seen."""
        right = gs.Record.kept_theirs

        def kept_theirs(record):
            return gs.replace(right(record), unsent_copy=None)

        self.defect("kept_theirs", kept_theirs, "what gave way is not at the server")
