"""The calls of gamed_client, its `sync` and its `assets` for asyncio.

    client = AsyncClient("https://play.example.org", app="mygame")
    if await client.ensure_signed_in(MyDialogs()):    # an AsyncPerson: the dialogs of the game
        save = await client.get("auto")               # None: never saved
        await client.put("auto", b"...", base=save)   # raises Conflict, and loses neither side

    async with AsyncSync(client) as sync:             # to play offline, too
        await sync.start()                            # in the background, until the end of the block
        await sync.ready()
        await sync.write("auto", b"...")

Names, arguments, results and errors are those of the synchronous classes, whose docstrings describe them; what is a
property there, and may read the disk, is a call here. There is one implementation: each call runs it in a thread.

A cancelled call has ended when its `await` does: its connection is closed, and it sends nothing more. A cancelled write
may have reached the server all the same; sending the same bytes again is one write.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import contextvars
import functools
import threading
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from . import Cancellation, Cancelled, Credential, GamedClient, GamedError, LoginProvider, Person, __version__
from .assets import Assets, Manifest, Progress, Release
from .sync import EXIT_SECONDS, Status, Sync, SyncConflict

if TYPE_CHECKING:
    from typing import Concatenate, ParamSpec

    P = ParamSpec("P")

Core = TypeVar("Core")
T = TypeVar("T")

END_SECONDS = 1.0
"""How long a cancelled call waits for the end of its thread. A thread that looks up a name, or connects, cannot be
ended early; it ends by itself, and sends nothing."""


# --- A synchronous call, awaited --------------------------------------------------------------------------------------


async def in_thread(call: Callable[[], T], cancellation: Cancellation) -> T:
    """Return the result of a call that runs in a thread of its own; cancel it there if this is cancelled."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    future.add_done_callback(lambda future: future.exception())  # else asyncio logs the error of a cancelled call

    def run() -> None:
        try:
            settle = functools.partial(future.set_result, call())
        except BaseException as error:
            settle = functools.partial(future.set_exception, error)
        with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
            loop.call_soon_threadsafe(settle)

    # not the loop's own threads: they are few, long polls would occupy them, and the program's end waits for them
    threading.Thread(target=contextvars.copy_context().run, args=(run,), daemon=True).start()
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        cancellation.cancel()
        await asyncio.wait([future], timeout=END_SECONDS)
        raise


def in_loop(call: Callable[[T], object]) -> Callable[[T], object]:
    """Return a function for other threads that has the running loop call `call`."""
    loop = asyncio.get_running_loop()
    return lambda value: loop.call_soon_threadsafe(call, value)


class Threaded(Generic[Core]):
    """An object whose calls run those of a synchronous one, its core, in threads."""

    _name = ""
    _opened: Core | None = None
    """None before `async with`, for a class that opens files; `_name` is the name of such a class."""

    @property
    def core(self) -> Core:
        if self._opened is None:
            raise RuntimeError(f"{self._name} is not open. Use it within `async with`.")
        return self._opened

    @core.setter
    def core(self, core: Core) -> None:
        self._opened = core

    def _core(self, cancellation: Cancellation) -> Core:
        """Return the core for one call; `cancellation` ends the call if the core can be cancelled."""
        return self.core

    async def _call(self, work: Callable[[Core], T]) -> T:
        cancellation = Cancellation()
        return await in_thread(lambda: work(self._core(cancellation)), cancellation)


def threaded(
    method: Callable[Concatenate[Core, P], T],
) -> Callable[Concatenate[Threaded[Core], P], Coroutine[Any, Any, T]]:
    """Return a method of the core as a coroutine function, with its parameters and its docstring."""

    @functools.wraps(method)
    async def call(self: Threaded[Core], /, *args: P.args, **how: P.kwargs) -> T:
        return await self._call(lambda core: method(core, *args, **how))

    return call


# --- The client -------------------------------------------------------------------------------------------------------


class AsyncPerson:
    """The interface between a sign-in and the person, like `gamed_client.Person`, but called in the event loop."""

    async def choose_provider(self, providers: Sequence[LoginProvider]) -> str:
        raise NotImplementedError

    async def browser_opened(self, url: str, opened: bool, qr_url: str | None) -> None:
        raise NotImplementedError

    async def finish_code(
        self, show_code: Callable[[], Awaitable[None]] | None, attempts_left: int | None
    ) -> str | None:
        """Return the code, or None to stop asking; this is cancelled once the code is not needed any more."""
        raise NotImplementedError

    async def problem(self, error: GamedError) -> None:
        raise NotImplementedError


class _Asked(Person):
    """A person for the sign-in's threads, who asks an AsyncPerson in the event loop."""

    def __init__(self, person: AsyncPerson, loop: asyncio.AbstractEventLoop, cancellation: Cancellation) -> None:
        self._person = person
        self._loop = loop
        self._cancellation = cancellation

    def choose_provider(self, providers: Sequence[LoginProvider]) -> str:
        return self._ask(self._person.choose_provider(providers))

    def browser_opened(self, url: str, opened: bool, qr_url: str | None) -> None:
        self._ask(self._person.browser_opened(url, opened, qr_url))

    def finish_code(self, show_code: Callable[[], None] | None, attempts_left: int | None) -> str | None:
        shown = None
        if show_code is not None:
            shown = functools.partial(in_thread, show_code, self._cancellation)
        try:
            return self._ask(self._person.finish_code(shown, attempts_left))
        except Cancelled:
            return None  # the sign-in has ended; this is a thread of its own

    def problem(self, error: GamedError) -> None:
        self._ask(self._person.problem(error))

    def _ask(self, question: Coroutine[Any, Any, T]) -> T:
        asked = asyncio.run_coroutine_threadsafe(question, self._loop)
        try:
            with self._cancellation.ends(asked.cancel):
                return asked.result()
        except concurrent.futures.CancelledError:
            raise Cancelled from None
        finally:
            asked.cancel()


def _asking(
    method: Callable[Concatenate[GamedClient, Person, P], T],
) -> Callable[Concatenate[AsyncClient, Person | AsyncPerson, P], Coroutine[Any, Any, T]]:
    """Return a method that asks a person as a coroutine function; a plain Person is asked in the call's threads."""

    @functools.wraps(method)
    async def call(self: AsyncClient, person: Person | AsyncPerson, /, *args: P.args, **how: P.kwargs) -> T:
        cancellation = Cancellation()
        asked = person
        if isinstance(asked, AsyncPerson):
            asked = _Asked(asked, asyncio.get_running_loop(), cancellation)
        core = self.core.cancellable(cancellation)
        try:
            return await in_thread(lambda: method(core, asked, *args, **how), cancellation)
        finally:
            cancellation.cancel()  # ends a question whose answer is not needed any more

    return call


class AsyncClient(Threaded[GamedClient]):
    """One server, and the player who is signed in there; to end a sign-in early, cancel its task."""

    def __init__(
        self,
        server: str,
        *,
        app: str = "gamed",
        version: str = __version__,
        device_name: str | None = None,
        locale: str | None = None,
        folder: Path | None = None,
    ) -> None:
        """Create a client of `server` as the player entered it; the rest is as for `GamedClient`."""
        self.core = GamedClient(server, app=app, version=version, device_name=device_name, locale=locale, folder=folder)

    def _core(self, cancellation: Cancellation) -> GamedClient:
        return self.core.cancellable(cancellation)

    def returned(self, url: str) -> bool:
        """Pass on the address that the app was opened with, as `GamedClient.returned`."""
        return self.core.returned(url)

    async def signed_in(self) -> bool:
        """Return whether a player is signed in on this machine, without a request."""
        return await self._call(lambda client: client.signed_in)

    async def credential(self) -> Credential | None:
        """Read the credential from disk."""
        return await self._call(lambda client: client.credential)

    ensure_signed_in = _asking(GamedClient.ensure_signed_in)
    sign_in = _asking(GamedClient.sign_in)
    sign_out = threaded(GamedClient.sign_out)
    link = _asking(GamedClient.link)
    policy = threaded(GamedClient.policy)
    providers = threaded(GamedClient.providers)
    whoami = threaded(GamedClient.whoami)
    set_name = threaded(GamedClient.set_name)
    ticket = threaded(GamedClient.ticket)
    list_sessions = threaded(GamedClient.list_sessions)
    end_session = threaded(GamedClient.end_session)
    list_identities = threaded(GamedClient.list_identities)
    unlink = threaded(GamedClient.unlink)
    delete_player = threaded(GamedClient.delete_player)
    export = threaded(GamedClient.export)
    erase_saves = threaded(GamedClient.erase_saves)
    commit = threaded(GamedClient.commit)
    list_saves = threaded(GamedClient.list_saves)
    changes = threaded(GamedClient.changes)
    get = threaded(GamedClient.get)
    put = threaded(GamedClient.put)
    delete = threaded(GamedClient.delete)
    versions = threaded(GamedClient.versions)
    versions_page = threaded(GamedClient.versions_page)
    version = threaded(GamedClient.version)
    restore = threaded(GamedClient.restore)
    dismiss = threaded(GamedClient.dismiss)


# --- Offline play -----------------------------------------------------------------------------------------------------


class AsyncConflict(Threaded[SyncConflict]):
    """A conflict between this device and the server; `core` has its slot, its reason and what each side is."""

    def __init__(self, core: SyncConflict) -> None:
        self.core = core

    mine = threaded(SyncConflict.mine)
    theirs = threaded(SyncConflict.theirs)
    base = threaded(SyncConflict.base)
    keep_mine = threaded(SyncConflict.keep_mine)
    keep_theirs = threaded(SyncConflict.keep_theirs)
    merged = threaded(SyncConflict.merged)


class AsyncSync(Threaded[Sync]):
    """One player's saves on this device, and their exchange with the server; open within `async with`.

    The end of the block waits a few seconds until pending saves are sent, if `start` was called. A cancelled `theirs`,
    `base` or `keep_theirs` of a conflict may end its request after the `await`.
    """

    _name = "AsyncSync"

    def __init__(self, client: AsyncClient, folder: Path | None = None) -> None:
        """Remember which saves to open; `folder` replaces the one beside the credential."""
        self._client = client
        self._folder = folder
        self._cancellation = Cancellation()
        self._leaving = Cancellation()
        """Ends each `run` at the end of the block; `_cancellation` then ends the requests, too."""

    async def __aenter__(self) -> AsyncSync:
        core = self._client.core.cancellable(self._cancellation)
        self.core = await in_thread(lambda: Sync(core, self._folder), self._cancellation)
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._leaving.cancel()
        try:
            await self._call(lambda sync: sync.close(EXIT_SECONDS))
        finally:
            self._cancellation.cancel()

    async def start(self, changed: Callable[[Status], object] | None = None) -> None:
        """Call `send` whenever there is work until the end of the block; `changed` is called in the event loop.

        An error that ends this earlier is in `problem`; call it again after a sign-in.
        """
        report = in_loop(changed) if changed else None
        await self._call(lambda sync: sync.start(report))

    async def run(self, changed: Callable[[Status], object] = lambda status: None) -> None:
        """Do the work of `start` in this task until it is cancelled, or the block ends; raise as `Sync.run` does."""
        report, stop = in_loop(changed), Cancellation()
        with contextlib.suppress(Cancelled), self._leaving.ends(stop.cancel):
            await in_thread(lambda: self.core.run(stop, report), stop)

    async def send(self) -> list[Status]:
        """Run a round, as `Sync.send`."""
        cancellation = Cancellation()
        return await in_thread(lambda: self.core.send(cancellation=cancellation), cancellation)

    async def conflicts(self) -> list[AsyncConflict]:
        """Return the conflicts in which the player has to choose."""
        return await self._call(lambda sync: [AsyncConflict(conflict) for conflict in sync.conflicts])

    @property
    def problem(self) -> GamedError | None:
        """The error of the last round; None if it succeeded."""
        return self.core.problem

    ready = threaded(Sync.ready)
    read = threaded(Sync.read)
    peek = threaded(Sync.peek)
    write = threaded(Sync.write)
    delete = threaded(Sync.delete)
    slots = threaded(Sync.slots)
    status = threaded(Sync.status)
    lost = threaded(Sync.lost)
    other_players = threaded(Sync.other_players)
    adopt = threaded(Sync.adopt)
    trouble, dropped, pump = problem, lost, send  # older names, deprecated: they work until 1.0


# --- Downloads --------------------------------------------------------------------------------------------------------


class AsyncAssets(Threaded[Assets]):
    """The releases of a server on this device; open within `async with`."""

    _name = "AsyncAssets"

    def __init__(self, client: AsyncClient, folder: Path | None = None) -> None:
        """Remember which releases to open; `folder` replaces the one beside the credential."""
        self._client = client
        self._folder = folder

    async def __aenter__(self) -> AsyncAssets:
        self.core = await in_thread(lambda: Assets(self._client.core, self._folder), Cancellation())
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._call(Assets.close)

    async def current(self) -> Release | None:
        """Return the newest complete release at the first call, and the same one until `switch`."""
        return await self._call(lambda assets: assets.current)

    async def download(
        self, channel: str = "stable", *, progress: Callable[[Progress], object] = lambda _: None, verify: bool = False
    ) -> Manifest:
        """Download a channel's release, as `Assets.download`; `progress` is called in the event loop."""
        report, cancellation = in_loop(progress), Cancellation()

        def fetch() -> Manifest:
            here = Assets(self._client.core.cancellable(cancellation), self.core.folder)
            return here.download(channel, progress=report, verify=verify)

        return await in_thread(fetch, cancellation)

    path = threaded(Assets.path)
    switch = threaded(Assets.switch)
