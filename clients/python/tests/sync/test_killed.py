"""kill -9 of the game and of the service, at any moment, over a network that loses things: nothing is lost."""

import subprocess
import sys
import time
from pathlib import Path
from random import Random

from clients.python.tests.sync.cases import Device, SyncCase
from clients.python.tests.sync.proxy import Fate
from tests.support.examples import examples
from tests.support.python_client import FOLDER
from tests.support.python_client import gamed_client as gc
from tests.support.python_client import gamed_sync as gs

GAME = Path(__file__).with_name("game.py")
ROUNDS = examples(few=6, many=40)


class Killed(SyncCase):
    def setUp(self) -> None:
        super().setUp()
        self.random = Random(7)
        self.slots = [self.slot + "-a", self.slot + "-b"]
        self.may_be = {slot: {"-"} for slot in self.slots}
        """Possible values of each slot: the last finished change, and one that was tried since."""
        self.number = 0

    def test_both(self) -> None:
        """Each new game reads the last save of the one before; at the end the server has it, without a conflict."""
        device = self.device()
        for slot in self.slots:
            device.sync.write(slot, b"0 ")
            self.may_be[slot] = {"0"}
        device.sync.send()
        device.proxy.decide = lambda request: self.random.choice([Fate.PASSES] * 12 + list(Fate))
        device.stop()
        for number in range(ROUNDS):
            self.plays(device, kills_service=number % 4 == 2)
        device.proxy.decide = lambda request: Fate.PASSES
        device.start()
        device.sync.send()
        self.assertEqual((device.sync.conflicts, device.sync.problem), ([], None))
        for slot in self.slots:
            self.assertEqual(device.state(slot), "in_step")
            self.assertIn(self.shown(self.current(slot)), self.may_be[slot])
            self.assertEqual({version.kind for version in self.server.versions(slot)} - {"write", "delete"}, set())
        self.assertGreater(self.number, ROUNDS)

    def shown(self, data: bytes | None) -> str:
        return "-" if data is None else data.split(b" ")[0].decode()

    def plays(self, device: Device, kills_service: bool) -> None:
        places = [str(FOLDER), device.proxy.base, str(device.folder), str(self.number), *self.slots]
        command = [sys.executable, str(GAME), *places]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as game:
            lines = [game.stdout.readline() for _ in self.slots]
            lines.append(game.stdout.readline())
            time.sleep(self.random.uniform(0, 0.3))
            if kills_service:
                self.world.service.kill()
                self.world.service.start()
            game.kill()
            # Not communicate(): it would leave out the lines that readline() has read ahead.
            out, err = game.stdout.read(), game.stderr.read()
        self.assertEqual(err, b"")
        for line in [*lines, *out.splitlines()]:
            self.hear(line.decode().split())

    def hear(self, words: list[str]) -> None:
        if len(words) < 3:
            return  # cut off by the kill
        verb, slot, value = words
        if verb == "read":
            self.assertIn(value, self.may_be[slot], "a save was lost")
        elif verb == "try":
            self.may_be[slot].add(value)
        if verb != "try":
            self.may_be[slot] = {value}
        if value != "-":
            self.number = max(self.number, int(value))


class Cut(SyncCase):
    """The game ends after each single step on its disk, instead of at random."""

    def test_every_step(self) -> None:
        """If the process ends anywhere in a write, a round or an answer, the next one continues without loss."""
        steps = 0
        while self.survives(steps):
            steps += 1
        self.assertGreater(steps, 5)

    def survives(self, steps: int) -> bool:
        """Run a process that is killed after this many steps; return whether it was killed."""
        device, slot = self.device(f"desk {steps}"), f"{self.slot}-{steps}"
        whole, left = gs.write_whole, [steps]

        class PowerCut(BaseException):
            pass

        def write_whole(path: Path, data: bytes) -> None:
            if not left[0]:
                raise PowerCut
            left[0] -= 1
            whole(path, data)

        patch = self.patch(gs, "write_whole", write_whole)
        done = b""
        cut = False
        try:
            for data in (b"one", b"two"):
                device.sync.write(slot, data)
                done = data
                device.sync.send()
        except PowerCut:
            cut = True
        patch.restore()
        device.restart()
        held = None if device.state(slot) == "unknown" else device.bytes(slot)
        self.assertIn(held, {b"": {None, b"one"}, b"one": {b"one", b"two"}, b"two": {b"two"}}[done])
        device.sync.send()
        self.assertEqual((device.sync.conflicts, self.current(slot), device.bytes(slot)), ([], held, held))
        self.server.delete(slot, base="*") if held else None
        return cut


class Gone(SyncCase):
    """A service that is down."""

    def test_service_killed_in_the_middle(self) -> None:
        """The service ends between the list and the write: the next round that reaches it continues."""
        desk = self.device()
        desk.sync.write(self.slot, b"x")

        def decide(request) -> Fate:
            if request.method == "PUT":
                self.world.service.kill()
                desk.proxy.decide = lambda request: Fate.PASSES
            return Fate.PASSES

        desk.proxy.decide = decide
        self.assertRaises(gc.Unreachable, desk.sync.send)
        self.assertRaises(gc.Unreachable, desk.sync.send)
        self.world.service.start()
        desk.sync.send()
        self.assertEqual((desk.state(self.slot), self.current(self.slot)), ("in_step", b"x"))
