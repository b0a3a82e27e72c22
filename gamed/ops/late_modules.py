"""Modules that only some requests need are imported in the first idle moment, not by a request and not by the start.

A request that imports waits for the disk, and fails once the server's virtual environment was deleted or replaced,
while everything else still works.
"""

from collections.abc import Awaitable, Callable, Sequence
from importlib import import_module
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger

from gamed.config.model import Mode
from gamed.database.errors import DatabaseError
from gamed.event_log import EventLog
from gamed.pages.render import PageRenderer
from gamed.players.names import OtherWays

FOR_ALL = ("email.utils", "encodings.ascii", "segno", "gamed.pages.environment")
FOR_PROVIDERS = ("encodings.idna",)
FOR_PASSWORDS = ("argon2", "argon2.exceptions", "concurrent.futures.thread")
FOR_CODES = "gamed.passkeys.build"
FOR_PASSKEYS = "gamed.passkeys.passkey_rules"
PAUSE_SECONDS = 0.25
"""The pause before each import; the first one leaves the start to the requests that have waited for it."""
MOST_PAUSES = 40
"""After so many pauses with open connections a module is imported nevertheless: a busy server is never idle."""
_log = EventLog(Logger())


class LateModules:
    """The imports that are still to be made, each 5 to 40 ms of the reactor's thread, and then the templates of pages.

    Compiling all of them takes 0.2 s, so a thread does it, and imports what passkeys need, 20 to 60 ms, and recovery
    codes, if any player has some.
    """

    def __init__(
        self,
        clock: Any,
        mode: Mode,
        pages: PageRenderer,
        busy: Callable[[], bool],
        ways: Callable[[], Awaitable[OtherWays]],
    ) -> None:
        """Wait while `busy` returns True; `ways` reads what any player has."""
        self._clock = clock
        self._busy = busy
        self._ways = ways
        self._names = [*FOR_ALL, *(FOR_PASSWORDS if mode is Mode.LOCAL else FOR_PROVIDERS)]
        self._pages = pages
        self._pauses = 0
        self._call: IDelayedCall | None = None

    @property
    def names(self) -> Sequence[str]:
        """Return the modules that are not imported yet."""
        return self._names

    def start(self) -> None:
        self._call = self._clock.callLater(PAUSE_SECONDS, self._import_next)

    def stop(self) -> None:
        if self._call is not None:
            self._call.cancel()
            self._call = None

    def _import_next(self) -> None:
        self._call = None
        self._pauses += 1
        if not self._busy() or self._pauses >= MOST_PAUSES:
            _import(self._names.pop(0))
        if self._names:
            self.start()
        else:
            preparing = Deferred.fromCoroutine(self._prepare())
            preparing.addErrback(lambda reason: _log.failure("pages_not_prepared", reason))

    async def _prepare(self) -> None:
        try:
            ways = await self._ways()
        except DatabaseError:  # there may be some
            ways = OtherWays(passkeys=True, codes=True)
        await deferToThreadPool(self._clock, self._clock.getThreadPool(), self._prepare_in_thread, ways)

    def _prepare_in_thread(self, ways: OtherWays) -> None:
        if ways.passkeys or ways.codes:
            _import(FOR_CODES)
        if ways.passkeys:
            _import(FOR_PASSKEYS)
        for name in self._pages.names:
            self._pages.prepare(name)
        _log.info("modules_imported")


def _import(name: str) -> None:
    try:
        import_module(name)
    except ImportError as e:
        _log.error("module_missing", module=name, detail=e)
