"""`start` runs the sync in the background until `close`, or until the end of a `with`."""

import threading
import time

from clients.python.tests.sync.cases import SyncCase
from clients.python.tests.sync.proxy import Fate, Request, problem
from tests.support.python_client import gamed_client as gc
from tests.support.python_client import gamed_sync as gs

LIMIT_SECONDS = 60


class Started(SyncCase):
    def setUp(self) -> None:
        super().setUp()
        self.patch(gs, "EXIT_SECONDS", LIMIT_SECONDS)

    def threads(self) -> int:
        return sum(thread.name.endswith("(_run_until_closed)") for thread in threading.enumerate())

    def ended(self) -> None:
        """Wait until the threads of this test have ended."""
        limit = time.monotonic() + LIMIT_SECONDS
        while self.threads():
            self.assertLess(time.monotonic(), limit)
            time.sleep(0.02)

    def test_sends_before_the_end(self) -> None:
        """A game that ends right after a save leaves nothing unsent."""
        desk = self.device()
        with desk.sync as sync:
            sync.start()
            self.assertTrue(sync.ready(LIMIT_SECONDS))
            sync.write(self.slot, b"one")
        self.assertEqual(self.current(self.slot), b"one")
        self.ended()

    def test_ends_offline(self) -> None:
        """Without a network the end does not wait, and the save is sent at the next start."""
        desk = self.device()
        desk.sync.send()
        desk.proxy.offline = True
        began = time.monotonic()
        with desk.sync as sync:
            sync.start()
            sync.write(self.slot, b"one")
        self.assertLess(time.monotonic() - began, LIMIT_SECONDS / 2)
        self.assertIsNone(self.current(self.slot))
        desk.proxy.offline = False
        with desk.start() as sync:
            sync.start()
        self.assertEqual(self.current(self.slot), b"one")
        self.ended()

    def test_conflict_does_not_hold_up(self) -> None:
        """A save in conflict, which waits for the player's choice, does not delay the end."""
        desk, sofa = self.two()
        desk.sync.write(self.slot, b"desk")
        desk.sync.send()
        sofa.sync.write(self.slot, b"sofa")
        began = time.monotonic()
        with sofa.sync as sync:
            sync.start()
        self.assertLess(time.monotonic() - began, LIMIT_SECONDS / 2)
        self.assertEqual(sofa.start().status(self.slot).state, "conflict")
        self.ended()

    def test_refused_save(self) -> None:
        """The end waits for a save although the server has refused another one."""
        desk = self.device()
        desk.proxy.next("PUT", problem(413, "save_too_large"))
        with desk.sync as sync:
            sync.write("refused", b"large")
            sync.start()
            self.assertTrue(sync.ready(LIMIT_SECONDS))
            limit = time.monotonic() + LIMIT_SECONDS
            while not sync.status("refused").problem:
                self.assertLess(time.monotonic(), limit)
                time.sleep(0.02)
            sync.write(self.slot, b"one")
        self.assertEqual((self.current("refused"), self.current(self.slot)), (None, b"one"))
        self.ended()

    def test_signed_out(self) -> None:
        """A session that ends meanwhile ends the thread without a traceback; `problem` has the reason."""
        said: list[object] = []
        self.patch(threading, "excepthook", said.append)
        desk = self.device()
        desk.proxy.next("GET", problem(401, "session_revoked"))
        desk.sync.start()
        self.assertFalse(desk.sync.ready(LIMIT_SECONDS))
        self.ended()
        self.assertEqual((said, type(desk.sync.problem)), ([], gc.SignInRequired))

    def test_older_problem(self) -> None:
        """The error of the last round has its older name, too."""
        desk = self.device()
        desk.proxy.offline = True
        self.assertRaises(gc.Unreachable, desk.sync.pump)
        self.assertIsInstance(desk.sync.problem, gc.Unreachable)
        self.assertIs(desk.sync.trouble, desk.sync.problem)

    def test_close_during_a_round(self) -> None:
        """`close` ends the wait for changes at once, and a round that waits for its answer; the save stays pending."""
        release = threading.Event()
        self.addCleanup(release.set)
        desk, ended = self.device(), threading.Event()

        def decide(request: Request) -> Fate:
            if request.method == "PUT":
                release.wait(LIMIT_SECONDS)
            return Fate.PASSES

        waited = desk.sync._waited

        def noted(*arguments: object) -> bool:
            try:
                return waited(*arguments)
            finally:
                ended.set()

        desk.proxy.decide = decide
        desk.sync._waited = noted
        desk.sync.start()
        self.assertTrue(desk.sync.ready(LIMIT_SECONDS))
        self.until(lambda: len(desk.proxy.sent("GET")) >= 2)
        desk.sync.write(self.slot, b"one")
        self.until(lambda: desk.proxy.sent("PUT"))
        self.assertFalse(ended.is_set())
        desk.sync.close()
        self.assertTrue(ended.wait(2), "the wait goes on")
        self.ended()
        self.assertFalse(release.is_set())
        self.assertEqual(desk.start().status(self.slot).state, "waiting")

    def test_close_ends_run(self) -> None:
        """An idle `run` of the game's own thread ends at `close`, with a typed error."""
        desk, raised = self.device(), []

        def run() -> None:
            try:
                desk.sync.run(threading.Event())
            except gs.InUse as error:
                raised.append(error.code)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        self.assertTrue(desk.sync.ready(LIMIT_SECONDS))
        self.until(lambda: len(desk.proxy.sent("GET")) >= 2)
        desk.sync.close()
        thread.join(2)
        self.assertEqual(raised, ["closed"])

    def test_close_unlocks_first(self) -> None:
        """An error while the waits are ended leaves no folder locked."""

        class Broken:
            def cancel(self) -> None:
                raise OSError

        desk = self.device()
        desk.sync._waits.append(Broken())
        self.assertRaises(OSError, desk.sync.close)
        self.raised(gs.InUse, "closed", desk.sync.start)
        desk.start()

    def test_closed_wait_is_free(self) -> None:
        """The server counts a wait that `close` has ended no more: four new ones end no other device's."""
        cursor = self.server.changes().cursor
        waiting = threading.Thread(target=self.server.changes, args=(cursor,), kwargs={"wait": 25}, daemon=True)
        waiting.start()
        for _ in range(2):
            syncs = [self.direct(f"phone {number}") for number in range(3)]
            for sync in syncs:
                sync.start()
                self.assertTrue(sync.ready(LIMIT_SECONDS))
            time.sleep(1.5)  # a wait begins right after the first round
            for sync in syncs:
                sync.close()
            time.sleep(0.5)
        self.assertTrue(waiting.is_alive())
        self.server.put(self.slot, b"the end of the wait", base=None)
        waiting.join(LIMIT_SECONDS)
        self.ended()

    def direct(self, name: str):
        """Return the Sync of a device without a proxy, which would keep a connection that the client has closed."""
        client = gc.GamedClient(self.world.service.base, folder=self.folder / name)
        client.keep(self.world.credentials)
        sync = gs.Sync(client)
        self.addCleanup(sync.close)
        return sync

    def until(self, condition) -> None:
        limit = time.monotonic() + LIMIT_SECONDS
        while not condition():
            self.assertLess(time.monotonic(), limit, "it never happened")
            time.sleep(0.02)

    def test_once(self) -> None:
        """A second start begins no second thread; a closed Sync cannot be started."""
        desk = self.device()
        desk.sync.start()
        desk.sync.start()
        self.assertEqual(self.threads(), 1)
        desk.sync.close()
        self.ended()
        self.raised(gs.InUse, "closed", desk.sync.start)
