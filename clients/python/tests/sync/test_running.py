"""`run` in its own thread sends the game's writes and downloads those of other devices."""

import threading
import time
from functools import partial

from clients.python.tests.sync.cases import Device, SyncCase
from clients.python.tests.sync.proxy import Fate, Request, problem
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


class Ending(SyncCase):
    """The ends of a call whose request the server does not answer."""

    def setUp(self) -> None:
        super().setUp()
        self.desk, self.arrived = self.device(), threading.Event()
        self.answer = threading.Event()
        self.addCleanup(self.answer.set)
        self.desk.sync.write(self.slot, b"one")
        self.desk.proxy.decide = self.decide

    def decide(self, request: Request) -> Fate:
        """Hold a write until the end of the test's calls; it does not arrive."""
        if request.method == "PUT" and not self.answer.is_set():
            self.arrived.set()
            self.answer.wait(LIMIT_SECONDS)
            return Fate.REQUEST_LOST
        return Fate.PASSES

    def ended(self, call, end) -> tuple[float, list]:
        """Call `end` once the write is held; return the seconds until `call` has ended, and the code of its error."""
        raised: list[BaseException] = []

        def run() -> None:
            try:
                call()
            except (gc.GamedError, gc.Cancelled) as error:
                raised.append(error)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        self.assertTrue(self.arrived.wait(LIMIT_SECONDS))
        began = time.monotonic()
        end()
        thread.join(LIMIT_SECONDS)
        return time.monotonic() - began, [getattr(error, "code", "cancelled") for error in raised]

    def sends_once(self) -> None:
        """Send what is pending; the server keeps one version."""
        self.answer.set()
        self.assertEqual((self.desk.state(self.slot), self.desk.sync.problem), ("waiting", None))
        self.desk.sync.send()
        self.assertEqual(self.desk.state(self.slot), "in_step")
        self.assertEqual(len(self.server.versions(self.slot)), 1)

    def test_stop(self) -> None:
        """`stop` ends `run` at once, an Event or a Cancellation, and loses nothing."""
        event, cancellation = threading.Event(), gc.Cancellation()
        for stop, end in ((event, event.set), (cancellation, cancellation.cancel)):
            seconds, raised = self.ended(lambda stop=stop: self.desk.sync.run(stop), end)
            self.assertEqual(raised, [])
            self.assertLess(seconds, gc.TIMEOUT_SECONDS / 2)
            self.arrived.clear()
            self.desk.sync.run(stop)  # it ends before its first request
            self.assertFalse(self.arrived.is_set())
        self.sends_once()

    def test_send(self) -> None:
        """A cancelled `send` ends at once, and one that waits for it, too."""
        first, second = gc.Cancellation(), gc.Cancellation()

        def both() -> None:
            waiting = threading.Thread(target=self.assertRaises, args=(gc.Cancelled, send, second), daemon=True)
            waiting.start()
            second.cancel()
            waiting.join(gc.TIMEOUT_SECONDS / 4)
            self.assertFalse(waiting.is_alive())
            first.cancel()

        def send(cancellation: gc.Cancellation) -> None:
            self.desk.sync.send(cancellation=cancellation)

        seconds, raised = self.ended(lambda: send(first), both)
        self.assertEqual(raised, ["cancelled"])
        self.assertLess(seconds, gc.TIMEOUT_SECONDS / 2)
        self.sends_once()
        self.assertRaises(gc.Cancelled, send, first)

    def test_close(self) -> None:
        """`close` ends `run` and `send` at once, with the error of a closed Sync."""
        for name, arguments in (("run", [threading.Event()]), ("send", [])):
            seconds, raised = self.ended(partial(getattr(self.desk.sync, name), *arguments), self.desk.sync.close)
            self.assertEqual(raised, ["closed"])
            self.assertLess(seconds, gc.TIMEOUT_SECONDS / 2)
            self.arrived.clear()
            self.desk.start()
        self.sends_once()

    def test_shared(self) -> None:
        """`close`, or the end of the client, ends a `send`, and leaves the game's cancellation to its other calls."""
        shared, quitting = gc.Cancellation(), gc.Cancellation()
        for end, code in ((self.desk.stop, "closed"), (quitting.cancel, "cancelled")):
            self.desk.stop()
            self.desk.sync = gs.Sync(
                gc.GamedClient(self.desk.proxy.base, folder=self.desk.folder).cancellable(quitting)
            )
            seconds, raised = self.ended(lambda: self.desk.sync.send(cancellation=shared), end)
            self.assertEqual((raised, shared.cancelled), ([code], False))
            self.assertLess(seconds, gc.TIMEOUT_SECONDS / 2)
            self.arrived.clear()
        self.desk.restart()
        self.sends_once()
