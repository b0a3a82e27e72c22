#!/usr/bin/env python3
"""Driver of the Python client's asyncio face: that of the reference client, with awaited calls."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import python_driver as driver
from python_driver import gc

from gamed_client import aio  # isort: skip  (the other driver sets its path)

T = TypeVar("T")
LOOP = asyncio.new_event_loop()
COMMAND = threading.local()
"""Its `over` ends the call of the thread's command."""


def awaited(call: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that runs in the event loop; raise Cancelled once its task has ended so."""
    over = getattr(COMMAND, "over", None) or gc.Cancellation()
    return asyncio.run_coroutine_threadsafe(in_task(call, over), LOOP).result()


async def in_task(call: Coroutine[Any, Any, T], over: gc.Cancellation) -> T:
    task = asyncio.ensure_future(call)
    try:
        with over.ends(lambda: LOOP.call_soon_threadsafe(task.cancel)):
            await asyncio.wait([task])
    except gc.Cancelled:  # before the call
        task.cancel()
        await asyncio.wait([task])
    if task.cancelled():
        raise gc.Cancelled
    return task.result()


class Awaited:
    """A face with the methods and properties of its core; others are passed on to the core."""

    def __init__(self, face: Any) -> None:
        self.face = face

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.face, name, None)
        if not inspect.iscoroutinefunction(found):
            return found or getattr(self.face.core, name)
        if isinstance(inspect.getattr_static(self.face.core, name, None), property):
            value = awaited(found())
            return [Awaited(each) for each in value] if isinstance(value, list) else value
        return lambda *args, **how: awaited(found(*args, **how))


class Player(aio.AsyncPerson):
    """A person whose questions go to the suite, in the event loop."""

    def __init__(self, asks: driver.Player) -> None:
        self._asks = asks
        self.codes = asks.codes
        self.show_code: Callable[[], None] | None = None

    @property
    def shown(self) -> gc.GamedError | None:
        return self._asks.shown

    async def choose_provider(self, providers: Sequence[gc.LoginProvider]) -> str:
        return self._asks.choose_provider(providers)

    async def browser_opened(self, url: str, opened: bool, qr_url: str | None) -> None:
        self._asks.browser_opened(url, opened, qr_url)

    async def finish_code(
        self, show_code: Callable[[], Awaitable[None]] | None, attempts_left: int | None
    ) -> str | None:
        def show() -> None:
            assert show_code
            awaited(shown(show_code))

        self.show_code = show if show_code else None
        return await asyncio.to_thread(self._asks.finish_code, self.show_code, attempts_left)

    async def problem(self, error: gc.GamedError) -> None:
        self._asks.problem(error)


async def shown(show_code: Callable[[], Awaitable[None]]) -> None:
    await show_code()


class Seat(driver.Seat):
    def __init__(self, name: str, how: Mapping[str, Any]) -> None:
        super().__init__(name, how)
        face = aio.AsyncClient(how["server"])
        face.core = self.client
        self.client = Awaited(face)

    def new_player(self) -> Player:
        self.player = Player(super().new_player())
        return self.player

    def called(self, name: str) -> Seat:
        COMMAND.over = self.cancellation(name)
        return self


class Commands(driver.Commands):
    def sync_open(self, seat: Seat, how: Mapping[str, Any]) -> Any:
        face = aio.AsyncSync(seat.client.face)
        awaited(face.__aenter__())
        seat.sync = Awaited(face)
        return {}

    def sync_close(self, seat: Seat, how: Mapping[str, Any]) -> Any:
        if seat.sync:
            awaited(seat.sync.face.__aexit__())
        seat.sync = None
        return {}

    def sync_run(self, seat: Seat, how: Mapping[str, Any]) -> Any:
        COMMAND.over = gc.Cancellation()
        seat.stop = COMMAND.over.cancel
        with contextlib.suppress(gc.Cancelled):
            awaited(seat.sync.face.run(seat.changed))
        return {}

    def sync_stop(self, seat: Seat, how: Mapping[str, Any]) -> Any:
        seat.stop()
        return {}

    def download(self, seat: Seat, how: Mapping[str, Any]) -> Any:
        target = Path(how["target"])
        return awaited(self._download(seat, how["channel"], target))

    async def _download(self, seat: Seat, channel: str, target: Path) -> Any:
        async with aio.AsyncAssets(seat.client.face, target.with_name(target.name + ".releases")) as assets:
            manifest = await assets.download(channel)
            link = target.with_name(target.name + ".new")
            link.symlink_to(assets.core.folder / "releases" / manifest.release)
            link.replace(target)
        return {"release": manifest.release, "files": list(manifest.files)}


if __name__ == "__main__":
    driver.Seat, driver.COMMANDS = Seat, Commands()
    threading.Thread(target=LOOP.run_forever, daemon=True).start()
    driver.main()
