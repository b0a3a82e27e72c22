"""Another thread can end a call early, whatever the call waits for."""

import contextlib
import socket
import threading
import time
from collections.abc import Callable
from functools import partial

from clients.python.tests.client.cases import PATIENCE_SECONDS, ClientCase
from clients.python.tests.client.fake_server import LOST, Seen, problem
from tests.support.python_client import gamed_client as gc


class Cancel(ClientCase):
    def setUp(self) -> None:
        super().setUp()
        self.cancellation = gc.Cancellation()
        self.client.keep(self.fake.credentials())
        waits = gc.GamedClient(self.server, folder=self.folder, now=lambda: self.clock)
        self.client = waits.cancellable(self.cancellation)
        self.arrived = threading.Event()

    def cancelled(self, call: Callable[[], object]) -> float:
        """Cancel the call when its request has arrived; return the seconds until it raised Cancelled."""
        raised: list[BaseException] = []

        def run() -> None:
            try:
                call()
            except gc.Cancelled as error:
                raised.append(error)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        self.assertTrue(self.arrived.wait(PATIENCE_SECONDS))
        began = time.monotonic()
        self.cancellation.cancel()
        thread.join(PATIENCE_SECONDS)
        self.assertEqual([type(error) for error in raised], [gc.Cancelled])
        return time.monotonic() - began

    def test_waiting_for_an_answer(self) -> None:
        """A call that waits for a response ends at once, and is not retried."""
        release = threading.Event()
        self.addCleanup(release.set)

        def hold(request: Seen) -> None:
            self.arrived.set()
            release.wait(PATIENCE_SECONDS)

        self.fake.watch = hold
        self.assertLess(self.cancelled(self.client.whoami), gc.TIMEOUT_SECONDS / 2)
        release.set()
        time.sleep(0.1)
        self.assertEqual(len(self.fake.requests("/game/")), 1)

    def test_half_an_answer(self) -> None:
        """A call that has the head and a half of the body ends at once, too; so does an export."""
        calls = {
            "application/octet-stream": lambda client: client.get("auto"),
            "application/zip": lambda client: client.export(self.folder / "mine.zip"),
        }
        for media_type, call in calls.items():
            self.cancellation, self.arrived = gc.Cancellation(), threading.Event()
            client = gc.GamedClient(self.halves(media_type), folder=self.folder, now=lambda: self.clock)
            client.keep(self.fake.credentials())
            waits = client.cancellable(self.cancellation)
            self.assertLess(self.cancelled(partial(call, waits)), gc.TIMEOUT_SECONDS / 2, media_type)

    def halves(self, media_type: str) -> str:
        """Return the address of a server that sends half of an answer, and then waits for the client's end."""
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)

        def serve() -> None:
            connection, _ = listener.accept()
            with connection, contextlib.suppress(OSError):
                connection.recv(1 << 16)
                head = f"HTTP/1.1 200 OK\r\nContent-Type: {media_type}\r\nContent-Length: 100\r\n\r\n"
                connection.sendall(head.encode() + bytes(50))
                time.sleep(0.2)  # the client has read the head
                self.arrived.set()
                connection.recv(1)

        threading.Thread(target=serve, daemon=True).start()
        return f"http://127.0.0.1:{listener.getsockname()[1]}"

    def test_waiting_for_the_next_try(self) -> None:
        """A pause between two tries ends at once."""
        self.fake.scripted["GET", "/game/"].append(problem(503, "busy", retry_after=20))
        self.fake.watch = lambda request: self.arrived.set()
        self.assertLess(self.cancelled(self.client.whoami), gc.TIMEOUT_SECONDS / 2)

    def test_later(self) -> None:
        """A call after the cancellation does not even connect; one of the client without it works."""
        self.cancellation.cancel()
        self.assertRaises(gc.Cancelled, self.client.put, "auto", b"1", base=None)
        self.assertEqual(self.fake.seen, [])
        self.assertIsNone(self.another().get("auto"))
        with socket.create_server(("127.0.0.1", 0)) as listener:
            elsewhere = gc.GamedClient(f"http://127.0.0.1:{listener.getsockname()[1]}", folder=self.folder)
            self.assertRaises(gc.Cancelled, elsewhere.cancellable(self.cancellation).policy)
            listener.settimeout(0.1)
            self.assertRaises(TimeoutError, listener.accept)

    def test_waiting_for_a_refresh(self) -> None:
        """A call that waits for the refresh of another client ends at once."""
        self.clock += 10_000
        release, waits = threading.Event(), threading.Event()
        self.addCleanup(release.set)

        def hold(request: Seen) -> None:
            waits.set()
            release.wait(PATIENCE_SECONDS)

        self.fake.watch = hold
        first = threading.Thread(target=self.another().whoami, daemon=True)
        first.start()
        self.assertTrue(waits.wait(PATIENCE_SECONDS))
        threading.Timer(0.2, self.arrived.set).start()
        self.assertLess(self.cancelled(self.client.whoami), gc.TIMEOUT_SECONDS / 2)
        self.assertTrue(first.is_alive())
        release.set()
        first.join(PATIENCE_SECONDS)
        self.assertEqual(len(self.fake.requests("/auth/session/refresh")), 1)

    def test_lost_answer_of_a_refresh(self) -> None:
        """A refresh without its response costs the player nothing: the next one returns the same pair."""
        self.clock += 10_000
        self.fake.after["POST", "/auth/session/refresh"].append(LOST)
        self.fake.watch = lambda request: self.cancellation.cancel()
        self.assertRaises(gc.Cancelled, self.client.whoami)
        self.fake.watch = lambda request: None
        self.assertEqual(self.another().whoami()["player"]["id"], "ply_1")

    def test_sign_in(self) -> None:
        """A sign-in that waits for the browser ends at once, and is cancelled at the server."""
        self.fake.watch = lambda request: self.arrived.set() if request.path == "/auth/login/collect" else None
        seconds = self.cancelled(lambda: self.client.sign_in(self.player(), open_browser=None))
        self.assertLess(seconds, gc.TIMEOUT_SECONDS / 2)
        self.assertEqual(len(self.fake.requests("/auth/login/cancel")), 1)

    def test_sign_in_before_the_return(self) -> None:
        """A sign-in that waits for the browser's return to this machine ends at once, too."""
        self.fake.stage = "proof_required"
        self.fake.watch = lambda request: self.arrived.set() if request.path == "/auth/login/collect" else None
        seconds = self.cancelled(lambda: self.client.sign_in(self.player(), open_browser=None))
        self.assertLess(seconds, gc.TIMEOUT_SECONDS / 2)
        self.assertEqual(len(self.fake.requests("/auth/login/cancel")), 1)
