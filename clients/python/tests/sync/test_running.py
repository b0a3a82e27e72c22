"""`run` in its own thread sends the game's writes and downloads those of other devices."""

import threading
import time

from clients.python.tests.sync.cases import Device, SyncCase
from clients.python.tests.sync.proxy import Fate, problem
from tests.support.python_client import gamed_client as gc
from tests.support.python_client import gamed_sync as gs

LIMIT_SECONDS = 60


class Running(SyncCase):
    def runs(self, device: Device) -> list:
        """Run the sync of a device in a thread until the test ends; return its reports."""
        stop, reports = threading.Event(), []
        thread = threading.Thread(target=device.sync.run, args=(stop, reports.append), daemon=True)
        thread.start()

        def end() -> None:
            stop.set()
            thread.join(LIMIT_SECONDS)
            self.assertFalse(thread.is_alive())

        self.addCleanup(end)
        return reports

    def until(self, condition) -> None:
        limit = time.monotonic() + LIMIT_SECONDS
        while not condition():
            self.assertLess(time.monotonic(), limit, "it never happened")
            time.sleep(0.02)

    def test_both_ways(self) -> None:
        """A write on one device is read on the other, through a network that loses requests and one that is down."""
        desk, sofa = self.two()
        fates = iter([Fate.REQUEST_LOST, Fate.PASSES, Fate.ANSWER_LOST])
        desk.proxy.decide = lambda request: next(fates, Fate.PASSES)
        reports = self.runs(sofa)
        self.runs(desk)
        desk.sync.write(self.slot, b"one")
        self.until(lambda: "newer" in [status.state for status in reports])
        self.assertEqual(sofa.bytes(self.slot), b"one")
        desk.proxy.offline = True
        desk.sync.write(self.slot, b"two")
        self.until(lambda: desk.sync.problem)
        desk.proxy.offline = False
        self.until(lambda: self.current(self.slot) == b"two")
        self.until(lambda: desk.state(self.slot) == "in_step" and not desk.sync.problem)

    def test_ready(self) -> None:
        """`ready` returns when the first list and its saves have arrived on a new device."""
        desk = self.device()
        desk.sync.write(self.slot, b"one")
        desk.sync.send()
        sofa = self.device("sofa")
        self.assertFalse(sofa.sync.ready(0))
        self.runs(sofa)
        self.assertTrue(sofa.sync.ready(LIMIT_SECONDS))
        self.assertEqual(sofa.bytes(self.slot), b"one")

    def test_ready_sees_other_devices(self) -> None:
        """On a device with saves `ready` waits, too: the first read returns the last write of the other device."""
        desk, sofa = self.two()
        desk.sync.write(self.slot, b"two")
        desk.sync.send()
        sofa.restart()
        self.runs(sofa)
        self.assertTrue(sofa.sync.ready(LIMIT_SECONDS))
        self.assertEqual(sofa.bytes(self.slot), b"two")

    def test_ready_offline(self) -> None:
        """Without a network `ready` waits only on a device without saves, and only as long as the game allows."""
        desk, fresh = self.two()[0], self.device("fresh")
        desk.proxy.offline = fresh.proxy.offline = True
        desk.restart()
        for device in (desk, fresh):
            self.runs(device)
        self.assertTrue(desk.sync.ready(LIMIT_SECONDS))
        self.assertFalse(fresh.sync.ready(0.2))
        self.raised(gs.NotKnown, "not_known", fresh.sync.read, self.slot)

    def test_ready_signed_out(self) -> None:
        """`ready` does not wait for an ended session."""
        desk = self.device()
        desk.proxy.next("GET", problem(401, "session_revoked"))
        self.raised(gc.SignInRequired, "session_revoked", desk.sync.run, threading.Event())
        began = time.monotonic()
        self.assertFalse(desk.sync.ready(LIMIT_SECONDS))
        self.assertLess(time.monotonic() - began, LIMIT_SECONDS / 2)

    def test_quiet(self) -> None:
        """With nothing to send it waits at the server, instead of asking again and again."""
        desk = self.device()
        self.runs(desk)
        self.until(lambda: len(desk.proxy.sent("GET")) >= 2)
        time.sleep(1.5)
        self.assertLessEqual(len(desk.proxy.sent("GET")), 4)

    def test_ends(self) -> None:
        """An ended session ends `run` with a typed error."""
        desk = self.device()
        desk.proxy.next("GET", problem(401, "session_revoked"))
        error = self.raised(gc.SignInRequired, "session_revoked", desk.sync.run, threading.Event())
        self.assertIs(desk.sync.problem, error)
