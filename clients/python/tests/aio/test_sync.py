"""Offline play and downloads with asyncio."""

import asyncio
import threading
import time

from clients.python.tests.assets.cases import FIRST, AssetsCase, tree
from clients.python.tests.sync.cases import SyncCase
from clients.python.tests.sync.proxy import Fate, Proxy, Request
from tests.support.python_client import gamed_aio as aio
from tests.support.python_client import gamed_client as gc

LIMIT_SECONDS = 60.0


class Syncs(SyncCase):
    def play(self, game) -> None:
        """Run the game with a Sync of a device that the player has never used."""

        async def main() -> None:
            client = aio.AsyncClient(self.world.service.base, folder=self.folder / "phone")
            client.core.keep(self.world.credentials)
            async with aio.AsyncSync(client) as sync:
                await asyncio.wait_for(game(sync), LIMIT_SECONDS)

        asyncio.run(main())

    def test_both_ways(self) -> None:
        """A write of the game is sent, and one of another device is reported in the event loop."""
        self.server.put(self.slot, b"elsewhere", base=None)

        async def game(sync) -> None:
            seen: asyncio.Queue = asyncio.Queue()
            task = asyncio.create_task(sync.run(seen.put_nowait))
            self.assertTrue(await sync.ready())
            self.assertEqual((await sync.read(self.slot)).data, b"elsewhere")
            await sync.write(self.slot, b"here")
            while self.current(self.slot) != b"here":
                await asyncio.sleep(0.05)
            self.server.put(self.slot, b"again", base="*")
            while (await sync.read(self.slot)).data != b"again":
                await seen.get()
            began = time.monotonic()
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            self.assertLess(time.monotonic() - began, 2 * aio.END_SECONDS)

        self.play(game)

    def test_started(self) -> None:
        """The end of the block waits until the last write is sent."""

        async def game(sync) -> None:
            seen: asyncio.Queue = asyncio.Queue()
            await sync.start(seen.put_nowait)
            self.assertTrue(await sync.ready())
            await sync.write(self.slot, b"last")

        self.play(game)
        self.assertEqual(self.current(self.slot), b"last")

    def test_conflict(self) -> None:
        """A conflict is answered with awaited calls."""
        self.server.put(self.slot, b"theirs", base=None)

        async def game(sync) -> None:
            await sync.write(self.slot, b"mine")
            await sync.send()
            [conflict] = await sync.conflicts()
            self.assertEqual(((await conflict.mine()).data, (await conflict.theirs()).data), (b"mine", b"theirs"))
            await conflict.keep_mine()
            await sync.send()
            self.assertEqual((await sync.status(self.slot)).state, "in_step")

        self.play(game)
        self.assertEqual(self.current(self.slot), b"mine")

    def test_closed_while_it_runs(self) -> None:
        """The end of the block ends a running Sync, and the next one may open the folder."""

        async def game(sync) -> None:
            self.running = asyncio.create_task(sync.run())
            await sync.ready()

        async def twice() -> None:
            for _ in range(2):
                client = aio.AsyncClient(self.world.service.base, folder=self.folder / "phone")
                client.core.keep(self.world.credentials)
                async with aio.AsyncSync(client) as sync:
                    await game(sync)
                await asyncio.wait_for(self.running, LIMIT_SECONDS)

        asyncio.run(twice())

    def test_cancelled_at_once(self) -> None:
        """A cancelled `run` or `send` ends at once while the server does not answer; what was pending is sent once."""
        proxy, held, answer = Proxy(self.world.service.port).start(), threading.Event(), threading.Event()
        self.addCleanup(proxy.stop)
        self.addCleanup(answer.set)

        def decide(request: Request) -> Fate:
            if request.method == "PUT" and not answer.is_set():
                held.set()
                answer.wait(LIMIT_SECONDS)
                return Fate.REQUEST_LOST
            return Fate.PASSES

        async def main() -> None:
            client = aio.AsyncClient(proxy.base, folder=self.folder / "phone")
            client.core.keep(self.world.credentials)
            async with aio.AsyncSync(client) as sync:
                await sync.write(self.slot, b"one")
                proxy.decide, began = decide, time.monotonic()
                for call in (sync.run, sync.send):  # the second one waits for the end of the first one's round
                    task = asyncio.create_task(call())
                    while not held.is_set():
                        await asyncio.sleep(0.02)
                    task.cancel()
                    with self.assertRaises(asyncio.CancelledError):
                        await task
                    held.clear()
                answer.set()
                await sync.send()
                self.assertLess(time.monotonic() - began, gc.TIMEOUT_SECONDS / 2)

        asyncio.run(asyncio.wait_for(main(), LIMIT_SECONDS))
        self.assertEqual((self.current(self.slot), len(self.server.versions(self.slot))), (b"one", 1))

    def test_not_open(self) -> None:
        """Calls of a Sync that is not open raise an error that names this."""
        with self.assertRaisesRegex(RuntimeError, "async with"):
            asyncio.run(aio.AsyncSync(aio.AsyncClient("https://play.example.org")).read("auto"))


class Downloads(AssetsCase):
    def test_download(self) -> None:
        """A release is downloaded, with its progress in the event loop; a cancelled download leaves the old one."""
        self.fake.publish(FIRST)

        async def play() -> None:
            client, seen = aio.AsyncClient(self.server, folder=self.root / "aio"), []
            async with aio.AsyncAssets(client, self.folder) as assets:
                self.assertIsNone(await assets.current())
                await assets.download(progress=seen.append)
                release = await assets.current()
                self.assertEqual(tree(release.folder), FIRST)
                self.assertEqual(seen[-1].stage, "finishing")
                self.assertEqual((await assets.path("empty.txt")).read_bytes(), b"")
                self.fake.publish({"big.pck": bytes(3_000_000)})
                task: asyncio.Task = asyncio.create_task(assets.download(progress=lambda progress: task.cancel()))
                with self.assertRaises(asyncio.CancelledError):
                    await task
                self.assertEqual((await assets.switch()).id, release.id)

        asyncio.run(play())
