"""The document cache fetches a provider's document when it is first needed, once for all callers, and retains it.

An old document serves for a day: a provider whose document cannot be fetched may still sign players in.
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
"""A key that signs tokens before this has passed is fetched by refresh()."""
STALE_SECONDS = 24 * 3600
SOON_SECONDS = 3
"""How long a caller waits for a newer value while there is an old one."""
REST_SECONDS = 30
"""Between two tries while the old value serves, and between two fetches for an unknown key."""
_log = EventLog(Logger())


class _Entry(Struct, Generic[T], frozen=True):
    """A value, and when it was fetched."""

    value: T
    since: float


class DocumentCache(Generic[T]):
    """One document. Each caller waits until its own deadline; the fetch continues for the others."""

    def __init__(self, provider: str, document: str, clock: IReactorTime, fetch: Callable[[], Awaitable[T]]) -> None:
        """`fetch` raises ProviderFailure; `provider` and `document` are names for the log and for errors."""
        self._provider = provider
        self._document = document
        self._clock = clock
        self._fetch = fetch
        self._entry: _Entry[T] | None = None
        self._failure: ProviderFailure | None = None
        self._tried_at: float | None = None
        self._refreshed_at: float | None = None
        self._waiting: list[Deferred[None]] = []

    async def get(self, until: float) -> T:
        """Return the value, an old one for up to a day if a newer one is not available soon; raise ProviderFailure."""
        entry = self._entry
        if entry is None or not self._within(entry.since, STALE_SECONDS):
            return await self._wait_for_fetch(until)
        if self._within(entry.since, FRESH_SECONDS) or self._within(self._tried_at, REST_SECONDS):
            return entry.value
        try:
            return await self._wait_for_fetch(min(until, self._clock.seconds() + SOON_SECONDS), has_old=True)
        except ProviderFailure:
            return entry.value

    async def refresh(self, until: float) -> T | None:
        """Fetch the value because the present one lacks something; return None within REST_SECONDS of the last time."""
        if not self._waiting:
            if self._within(self._refreshed_at, REST_SECONDS):
                return None
            self._refreshed_at = self._clock.seconds()
        return await self._wait_for_fetch(until)

    async def _wait_for_fetch(self, until: float, has_old: bool = False) -> T:
        """Wait for the fetch that is running, or start one; return the value or raise ProviderFailure."""
        fetched: Deferred[None] = Deferred()
        self._waiting.append(fetched)
        if len(self._waiting) == 1:
            # Not awaited: the first caller may give up, and the others still want the document.
            Deferred.fromCoroutine(self._fetch_once(has_old)).addErrback(self._unexpected)
        try:
            await fetched.addTimeout(max(0, until - self._clock.seconds()), self._clock)
        except DeadlineError:
            raise ProviderUnavailable(f"{self._provider}: {self._document}: not fetched in time") from None
        if self._failure is not None:
            raise copy(self._failure)  # one instance raised by each caller would collect the tracebacks of all
        if self._entry is None:
            raise ProviderUnavailable(f"{self._provider}: {self._document}: could not be fetched")
        return self._entry.value

    async def _fetch_once(self, has_old: bool) -> None:
        """Fetch the document and wake all callers; log a failure that the old value hides from them."""
        self._tried_at = self._clock.seconds()
        self._failure = None
        try:
            self._entry = _Entry(await self._fetch(), self._clock.seconds())
        except ProviderFailure as e:
            self._failure = e
            if has_old:
                _log.warn("provider_document_stale", provider=self._provider, document=self._document, detail=str(e))
        finally:
            waiting, self._waiting = self._waiting, []
            for fetched in waiting:
                fetched.callback(None)

    def _unexpected(self, reason: Failure) -> None:
        _log.failure("provider_document_failed", reason, provider=self._provider, document=self._document)

    def _within(self, since: float | None, seconds: float) -> bool:
        return since is not None and since <= self._clock.seconds() < since + seconds
