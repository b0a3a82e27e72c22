"""A provider's document, fetched when it is first needed, by one request however many wait, and kept when it is old.

An old one is better than none: a provider whose document cannot be had may still sign players in.
"""

from collections.abc import Awaitable, Callable
from copy import copy
from typing import Generic, TypeVar

from msgspec import Struct
from twisted.internet.defer import Deferred
from twisted.internet.defer import TimeoutError as DeadlineError
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from gamed.event_log import EventLog
from gamed.providers.base import ProviderFailure, ProviderUnavailable

T = TypeVar("T")
FRESH_SECONDS = 3600
STALE_SECONDS = 24 * 3600
SOON_SECONDS = 3
"""For which a newer value is waited for while there is an old one."""
REST_SECONDS = 30
"""Between one try and the next while the old value still serves, and between two fetches for an unknown key."""
_log = EventLog(Logger())


class _Entry(Struct, Generic[T], frozen=True):
    value: T
    since: float


class DocumentCache(Generic[T]):
    """One document. Every wait ends by the caller's own deadline; the fetch goes on for the others."""

    def __init__(self, provider: str, document: str, clock: IReactorTime, fetch: Callable[[], Awaitable[T]]) -> None:
        """`fetch` raises ProviderFailure; the names of provider and document are for the log and for errors."""
        self._provider = provider
        self._document = document
        self._clock = clock
        self._fetch = fetch
        self._held: _Entry[T] | None = None
        self._failure: ProviderFailure | None = None
        self._tried: float | None = None
        self._renewed: float | None = None
        self._waiting: list[Deferred[None]] = []

    async def get(self, until: float) -> T:
        """The value; the old one for a day if there is no newer to be had soon. ProviderFailure."""
        held = self._held
        if held is None or not self._within(held.since, STALE_SECONDS):
            return await self._fetched(until)
        if self._within(held.since, FRESH_SECONDS) or self._within(self._tried, REST_SECONDS):
            return held.value
        try:
            return await self._fetched(min(until, self._clock.seconds() + SOON_SECONDS), old_serves=True)
        except ProviderFailure:
            return held.value

    async def renewed(self, until: float) -> T | None:
        """One fetched now because the one in hand lacks something; None if that was done a moment ago."""
        if not self._waiting:
            if self._within(self._renewed, REST_SECONDS):
                return None
            self._renewed = self._clock.seconds()
        return await self._fetched(until)

    async def _fetched(self, until: float, old_serves: bool = False) -> T:
        landing: Deferred[None] = Deferred()
        self._waiting.append(landing)
        if len(self._waiting) == 1:
            Deferred.fromCoroutine(self._fly(old_serves)).addErrback(self._unexpected)
        try:
            await landing.addTimeout(max(0, until - self._clock.seconds()), self._clock)
        except DeadlineError:
            raise ProviderUnavailable(f"{self._provider}: {self._document}: not here in time") from None
        if self._failure is not None:
            raise copy(self._failure)
        if self._held is None:
            raise ProviderUnavailable(f"{self._provider}: {self._document}: could not be fetched")
        return self._held.value

    async def _fly(self, old_serves: bool) -> None:
        """A failure that ends no sign-in is told here; any other by whoever waits."""
        self._tried = self._clock.seconds()
        self._failure = None
        try:
            self._held = _Entry(await self._fetch(), self._clock.seconds())
        except ProviderFailure as e:
            self._failure = e
            if old_serves:
                _log.warn("provider_document_stale", provider=self._provider, document=self._document, detail=str(e))
        finally:
            waiting, self._waiting = self._waiting, []
            for landing in waiting:
                landing.callback(None)

    def _unexpected(self, reason: Failure) -> None:
        _log.failure("provider_document_failed", reason, provider=self._provider, document=self._document)

    def _within(self, since: float | None, seconds: float) -> bool:
        return since is not None and since <= self._clock.seconds() < since + seconds
