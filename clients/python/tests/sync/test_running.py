"""`run` in a thread of its own: what the game writes goes out, what another device wrote comes in."""

import threading
import time

from clients.python.tests.sync.cases import Device, SyncCase
from clients.python.tests.sync.proxy import Fate, problem
from tests.support.python_client import gamed_client as gc

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
        """Through a network that loses things and one that is away: written here, read there."""
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
        self.until(lambda: desk.sync.trouble)
        desk.proxy.offline = False
        self.until(lambda: self.current(self.slot) == b"two")
        self.until(lambda: desk.state(self.slot) == "in_step" and not desk.sync.trouble)

    def test_quiet(self) -> None:
        """With nothing to do it waits at the server, instead of asking again and again."""
        desk = self.device()
        self.runs(desk)
        self.until(lambda: len(desk.proxy.sent("GET")) >= 2)
        time.sleep(1.5)
        self.assertLessEqual(len(desk.proxy.sent("GET")), 4)

    def test_ends(self) -> None:
        """A session that is over ends it, typed."""
        desk = self.device()
        desk.proxy.next("GET", problem(401, "session_revoked"))
        error = self.raised(gc.SignInRequired, "session_revoked", desk.sync.run, threading.Event())
        self.assertIs(desk.sync.trouble, error)
