"""The asyncio face of the client: the same calls as the synchronous one, without blocking the event loop."""

import asyncio
import contextlib
import inspect
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine

from clients.python.tests.client.cases import PATIENCE_SECONDS, ClientCase
from clients.python.tests.client.fake_server import CODE, Seen, problem
from tests.support.python_client import gamed_aio as aio
from tests.support.python_client import gamed_assets as ga
from tests.support.python_client import gamed_client as gc
from tests.support.python_client import gamed_sync as gs

WITHOUT = {
    gc.GamedClient: {
        *("begin_sign_in", "cancel_sign_in"),  # its task is cancelled
        "returned",  # needs no wait
        *("folder", "keep", "only", "origin", "place", "wire", "with_token", "cancellable"),  # of `core`
    },
    gs.Sync: {"close", "player_id"},  # `problem` is an attribute of each
    gs.SyncConflict: {"base_info", "copy", "current", "reason", "slot"},
    ga.Assets: {"close"},
    gc.Person: set(),
}
"""Public names without an awaited call: those of values, and those that asyncio replaces."""

OWN = {"core", "returned"}
"""Names of the awaited classes."""


def public(of: type) -> set[str]:
    return {name for name in dir(of) if not name.startswith("_")}


class Dialogs(aio.AsyncPerson):
    """A person who signs in as the test says; `notes` lists the calls in order."""

    def __init__(self, opened: Callable[[], object] = lambda: None, code: str | None = None) -> None:
        self.opened = opened
        self.code = code
        self.notes: list[str] = []
        self.asked = asyncio.Event()
        self.thread = threading.current_thread()

    def note(self, text: str) -> None:
        self.notes.append(text if threading.current_thread() is self.thread else "in another thread")

    async def choose_provider(self, providers):
        self.note("choose")
        return providers[0].name

    async def browser_opened(self, url, opened, *more):
        self.note("opened")
        self.opened()

    async def finish_code(self, show_code, attempts_left):
        self.note("code")
        self.asked.set()
        if self.code:
            return self.code
        try:
            await asyncio.sleep(PATIENCE_SECONDS)
        except asyncio.CancelledError:
            self.note("cancelled")
            raise

    async def problem(self, error):
        self.note(error.code)


class AioCase(ClientCase):
    def setUp(self) -> None:
        super().setUp()
        self.release = threading.Event()
        self.addCleanup(self.release.set)
        self.held = threading.Event()

    def async_client(self) -> object:
        return aio.AsyncClient(self.server, folder=self.folder)

    def hold(self, path: str) -> None:
        """Answer no request for this path before the end of the test."""

        def watch(request: Seen) -> None:
            if request.path == path:
                self.held.set()
                self.release.wait(PATIENCE_SECONDS)

        self.fake.watch = watch

    async def until(self, happened: Callable[[], bool]) -> None:
        """Wait in the event loop, which shows that it is free."""
        end = time.monotonic() + PATIENCE_SECONDS
        while not happened():
            self.assertLess(time.monotonic(), end)
            await asyncio.sleep(0.01)

    async def cancelled(self, call: Coroutine[object, object, object]) -> float:
        """Cancel a call that waits for the held answer; return the seconds until it ended."""
        task = asyncio.ensure_future(call)
        await self.until(self.held.is_set)
        return await self.ended(task)

    async def ended(self, task: Awaitable[object]) -> float:
        began = time.monotonic()
        task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await task
        return time.monotonic() - began


class Faces(ClientCase):
    def test_each_call(self) -> None:
        """Each public call has an awaited one, with the same parameters and the same docstring."""
        faces = {
            gc.GamedClient: aio.AsyncClient,
            gs.Sync: aio.AsyncSync,
            gs.SyncConflict: aio.AsyncConflict,
            ga.Assets: aio.AsyncAssets,
            gc.Person: aio.AsyncPerson,
        }
        self.assertEqual(WITHOUT.keys(), faces.keys())
        for core, face in faces.items():
            own = OWN | ({"problem"} if core is gs.Sync else set())
            self.assertEqual(public(face) - own, public(core) - WITHOUT[core], core)
            for name in public(face) - own:
                one, other = inspect.getattr_static(core, name), inspect.getattr_static(face, name)
                if isinstance(one, property) or name in ("run", "start", "send", "pump", "download"):
                    continue
                self.assertTrue(inspect.iscoroutinefunction(other), name)
                self.assertEqual([*inspect.signature(one).parameters], [*inspect.signature(other).parameters], name)
                if core is not gc.Person:
                    self.assertEqual(one.__doc__, other.__doc__)


class Calls(AioCase):
    def test_saves(self) -> None:
        """Results and errors are those of the synchronous client."""
        self.client.keep(self.fake.credentials())

        async def play() -> None:
            client = self.async_client()
            self.assertTrue(await client.signed_in())
            self.assertIsNone(await client.get("auto"))
            written = await client.put("auto", b"1", base=None)
            self.assertEqual((await client.get("auto")).data, b"1")
            with self.assertRaises(gc.Conflict) as raised:
                await client.put("auto", b"2", base=None)
            self.assertEqual(raised.exception.current, written)

        asyncio.run(play())

    def test_side_by_side(self) -> None:
        """Forty calls may wait at once, and the event loop continues."""
        self.client.keep(self.fake.credentials())
        self.hold("/game/")

        async def play() -> None:
            client = self.async_client()
            calls = [asyncio.ensure_future(client.whoami()) for _ in range(40)]
            await self.until(self.held.is_set)
            self.assertIsNone(await client.get("auto"))
            self.release.set()
            self.assertEqual({found["player"]["id"] for found in await asyncio.gather(*calls)}, {"ply_1"})

        asyncio.run(play())

    def test_one_refresh(self) -> None:
        """Calls side by side refresh the token once."""
        self.client.keep({**self.fake.credentials(), "expires_in": 0})
        self.clock = time.time()

        async def play() -> None:
            client = self.async_client()
            await asyncio.gather(*(client.whoami() for _ in range(8)))

        asyncio.run(play())
        self.assertEqual(len(self.fake.requests("/auth/session/refresh")), 1)


class Cancelling(AioCase):
    def setUp(self) -> None:
        super().setUp()
        self.client.keep(self.fake.credentials())

    def test_waiting(self) -> None:
        """A cancelled call ends at once: its thread has ended, and it is not retried."""
        self.hold("/game/")
        before = threading.active_count()

        async def play() -> None:
            client = self.async_client()
            self.assertLess(await self.cancelled(client.whoami()), aio.END_SECONDS)
            self.fake.watch = lambda request: None
            self.assertIsNone(await client.get("auto"))

        asyncio.run(play())
        self.release.set()
        end = time.monotonic() + PATIENCE_SECONDS
        while threading.active_count() > before and time.monotonic() < end:  # the server's own
            time.sleep(0.01)
        self.assertLessEqual(threading.active_count(), before)
        self.assertEqual(len(self.fake.requests("/game/")), 1)

    def test_timeout(self) -> None:
        """`asyncio.wait_for` limits a call."""
        self.hold("/game/")

        async def play() -> None:
            with self.assertRaises(asyncio.TimeoutError):
                await asyncio.wait_for(self.async_client().whoami(), 0.2)

        began = time.monotonic()
        asyncio.run(play())
        self.assertLess(time.monotonic() - began, gc.TIMEOUT_SECONDS / 2)

    def test_between_tries(self) -> None:
        """A call that waits for its next try ends at once, and sends nothing more."""
        self.fake.scripted["PUT", "/game/saves/auto"].append(problem(503, "busy", retry_after=1))
        self.fake.watch = lambda request: request.method == "PUT" and self.held.set()

        async def play() -> None:
            self.assertLess(await self.cancelled(self.async_client().put("auto", b"1", base=None)), aio.END_SECONDS)
            await asyncio.sleep(2.5)

        asyncio.run(play())
        self.assertEqual(len(self.fake.requests("/game/saves/auto")), 1)


class Connecting(AioCase):
    """A server whose queue of connections is full, so that connecting takes until it accepts one."""

    def setUp(self) -> None:
        super().setUp()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=0)
        self.addCleanup(self.listener.close)
        self.server = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.fill()

    def fill(self) -> None:
        """Connect until one connection is not established within a moment."""
        for _ in range(16):
            waiting = socket.socket()
            self.addCleanup(waiting.close)
            waiting.settimeout(0.3)
            try:
                waiting.connect(self.listener.getsockname())
            except TimeoutError:
                return
        self.fail("the queue is never full")

    def accepted(self) -> list[bytes]:
        """Accept all connections until none has come for a few seconds; return what each has sent."""
        sent = []
        self.listener.settimeout(4)
        with contextlib.suppress(TimeoutError):
            while True:
                connection, _ = self.listener.accept()
                with connection:
                    connection.settimeout(0.3)
                    try:
                        sent.append(connection.recv(100))
                    except TimeoutError:
                        sent.append(b"")
        return sent

    def test_cancelled(self) -> None:
        """A call that is cancelled while it connects ends soon, and sends nothing when it is connected."""

        async def play() -> float:
            task = asyncio.ensure_future(self.async_client().policy())
            await asyncio.sleep(0.2)
            return await self.ended(task)

        self.assertLess(asyncio.run(play()), 3 * aio.END_SECONDS)
        sent = self.accepted()
        self.assertGreaterEqual(len(sent), 2)
        self.assertEqual(set(sent), {b""})

    def test_not_cancelled(self) -> None:
        """The same call without the cancellation is sent once it is connected."""

        async def play() -> list[bytes]:
            task = asyncio.ensure_future(self.async_client().policy())
            await asyncio.sleep(0.2)
            sent = await asyncio.to_thread(self.accepted)
            task.cancel()
            await asyncio.wait([task])
            return sent

        self.assertIn(b"GET /auth/config", b"".join(asyncio.run(play())))


class SignIns(AioCase):
    def test_returns(self) -> None:
        """The person is asked in the event loop; the question ends when the code is not needed any more."""
        self.patch(gc, "RETURN_SECONDS", 0.1)

        async def play() -> tuple[str, list[str]]:
            dialogs = Dialogs(self.signs_in)

            async def comes_back() -> None:
                await dialogs.asked.wait()
                await asyncio.get_running_loop().run_in_executor(None, self.comes_back)

            back = asyncio.ensure_future(comes_back())
            kept = await self.async_client().sign_in(dialogs, open_browser=None)
            await back
            await self.until(lambda: "cancelled" in dialogs.notes)
            return kept.player_id, dialogs.notes

        player_id, notes = asyncio.run(play())
        self.assertEqual((player_id, notes), ("ply_1", ["opened", "code", "cancelled"]))
        self.assertEqual(self.on_disk().player_id, "ply_1")

    def test_typed_code(self) -> None:
        """The person types the code."""

        async def play() -> bool:
            client = self.async_client()
            signed_in = await client.ensure_signed_in(Dialogs(self.signs_in, CODE), loopback=False)
            return signed_in and await client.signed_in()

        self.assertTrue(asyncio.run(play()))

    def test_plain_person(self) -> None:
        """A person without coroutines works, too."""
        self.fake.stage = "proof_required"
        kept = asyncio.run(self.async_client().sign_in(self.player(CODE), open_browser=None, loopback=False))
        self.assertEqual(kept.player_id, "ply_1")

    def test_cancelled(self) -> None:
        """A cancelled sign-in is cancelled at the server, its question ends, and no problem is shown."""
        self.fake.stage = "proof_required"

        async def play() -> list[str]:
            dialogs = Dialogs()
            call = self.async_client().ensure_signed_in(dialogs, open_browser=None, loopback=False)
            task = asyncio.ensure_future(call)
            await dialogs.asked.wait()
            await self.ended(task)
            await self.until(lambda: "cancelled" in dialogs.notes and self.fake.requests("/auth/login/cancel") != [])
            return dialogs.notes

        self.assertEqual(asyncio.run(play()), ["opened", "code", "cancelled"])
        self.assertIsNone(self.on_disk())

    def test_declined(self) -> None:
        """The person is shown in the event loop the reason of the failed sign-in."""
        self.fake.scripted["POST", "/auth/login"].append(problem(403, "registration_closed"))

        async def play() -> tuple[bool, list[str]]:
            dialogs = Dialogs()
            return await self.async_client().ensure_signed_in(dialogs, open_browser=None), dialogs.notes

        self.assertEqual(asyncio.run(play()), (False, ["registration_closed"]))

    def test_failing_dialogs(self) -> None:
        """An error of the game's own dialogs is raised where it awaits the sign-in, which is cancelled."""

        def broken() -> None:
            raise LookupError

        async def play() -> None:
            with self.assertRaises(LookupError):
                await self.async_client().sign_in(Dialogs(broken), open_browser=None)

        asyncio.run(play())
        self.assertEqual(len(self.fake.requests("/auth/login/cancel")), 1)
