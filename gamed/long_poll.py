"""Long polls wait in a registry until they are notified or their time is over (docs/protocol.md: Collect, Saves).

All ends of waits that fall into one tick share one timer of the reactor, so that 20,000 polls cost one delayed call.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from enum import Enum
from math import ceil
from types import TracebackType
from typing import Any

from msgspec import Struct
from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IDelayedCall, IReactorTime

TICK_SECONDS = 0.25
"""Ends of waits are rounded up to a multiple of this."""
SLICE_SECONDS = 0.005
"""How long the registry wakes waiters before the reactor serves other connections again."""
AWAKE = 256
"""Each notified waiter sends a read to the database, whose queue is short: the registry wakes this many at a time."""


class WakeReason(Enum):
    """The reason why a wait has ended."""

    CHANGED = "changed"
    TIMEOUT = "timeout"
    SUPERSEDED = "superseded"
    """A newer waiter has the same key."""
    SHUTTING_DOWN = "shutting_down"


_FINAL = (WakeReason.SUPERSEDED, WakeReason.SHUTTING_DOWN)
_NO_TICK = -1


class Waiter(Struct, eq=False):
    """A long poll of one key; leaving its context removes it from the registry however the wait ended.

    A change between `open` and `wait`, or between two waits, is not lost: the next wait ends at once.
    """

    registry: "LongPollRegistry"
    key: bytes
    known: Any = None
    """The state that its client knows, as the feature compares it; None until the first read has ended."""
    pending: WakeReason | None = None
    """The reason why this wait, or the next one, is over."""
    result: Deferred[WakeReason] | None = None
    tick: int = _NO_TICK
    """The tick of its timer."""
    awake: bool = False
    """It was notified, and has neither left nor waited again."""

    def wait(self, seconds: float) -> Deferred[WakeReason]:
        """Wait for `wake` of this key or the end of the time; cancel the result when the client disconnects."""
        return self.registry._wait(self, seconds)

    def set_pending(self, reason: WakeReason) -> None:
        """Remember why the wait ends; nothing replaces a final reason."""
        if self.pending not in _FINAL:
            self.pending = reason

    def pop_pending(self) -> WakeReason | None:
        """Return the reason for the end of the wait, and clear it unless it is final."""
        reason = self.pending
        if reason not in _FINAL:
            self.pending = None
        return reason

    def __enter__(self) -> "Waiter":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.registry._leave(self)


class LongPollRegistry:
    """The open waiters of one kind by key; opening a key again supersedes its older waiter."""

    on_use_changed: Callable[[bool], None] = staticmethod(lambda in_use: None)
    """Called with True when the first waiter opens, and with False when the last one has left."""

    def __init__(self, clock: IReactorTime) -> None:
        self._clock = clock
        self._waiters: dict[bytes, Waiter] = {}
        self._timers = TimerWheel(clock, TICK_SECONDS, self._timeout)
        self._ready: deque[Waiter] = deque()
        """Waiters whose waits are over, in the order in which they are notified; some may have left."""
        self._awake = 0
        self._next_slice: IDelayedCall | None = None
        self._in_slice = False
        self._closed = False

    def __len__(self) -> int:
        return len(self._waiters)

    def waiters(self) -> Sequence[Waiter]:
        return tuple(self._waiters.values())

    def open(self, key: bytes) -> Waiter:
        """Add a waiter for this key, and end the wait of the one that had it."""
        if not self._waiters:
            self.on_use_changed(True)
        older = self._waiters.pop(key, None)
        waiter = self._waiters[key] = Waiter(self, key, pending=WakeReason.SHUTTING_DOWN if self._closed else None)
        if older is not None:  # its client may open the key again before this returns
            self._end([older], WakeReason.SUPERSEDED)
        return waiter

    def wake(self, key: bytes) -> None:
        """End the wait of this key's waiter, if there is one, because of a change."""
        waiter = self._waiters.get(key)
        if waiter is not None:
            self._end([waiter], WakeReason.CHANGED)

    def close(self) -> None:
        """End all waits; a later wait ends at once."""
        self._closed = True
        self._end(list(self._waiters.values()), WakeReason.SHUTTING_DOWN)

    def _wait(self, waiter: Waiter, seconds: float) -> Deferred[WakeReason]:
        self._set_asleep(waiter)
        reason = waiter.pop_pending()
        if reason is not None:
            return succeed(reason)
        waiter.tick = self._timers.schedule(waiter, seconds)
        waiter.result = Deferred(lambda _: self._cancelled(waiter))
        return waiter.result

    def _end(self, waiters: list[Waiter], reason: WakeReason) -> None:
        """End these waits, some now and the rest in later slices; a waiter that does not wait yet keeps the reason."""
        for waiter in waiters:
            waiter.set_pending(reason)
            if waiter.tick != _NO_TICK:
                self._cancel_timer(waiter)
                self._ready.append(waiter)
        if self._may_start_slice():
            self._run_slice()

    def _timeout(self, waiter: Waiter) -> None:
        """End a wait whose time is over; all waiters of one tick are notified in the same slice."""
        waiter.tick = _NO_TICK
        waiter.set_pending(WakeReason.TIMEOUT)
        self._ready.append(waiter)
        self._schedule_slice()

    def _cancelled(self, waiter: Waiter) -> None:
        """Clear the result of a wait whose client disconnected."""
        waiter.result = None
        self._cancel_timer(waiter)

    def _leave(self, waiter: Waiter) -> None:
        self._set_asleep(waiter)
        self._cancel_timer(waiter)
        if self._waiters.get(waiter.key) is waiter:
            del self._waiters[waiter.key]
            if not self._waiters:
                self.on_use_changed(False)

    def _cancel_timer(self, waiter: Waiter) -> None:
        if waiter.tick != _NO_TICK:
            self._timers.cancel(waiter, waiter.tick)
            waiter.tick = _NO_TICK

    def _set_asleep(self, waiter: Waiter) -> None:
        """Count a notified waiter as finished with its read."""
        if waiter.awake:
            waiter.awake = False
            self._awake -= 1
            self._schedule_slice()

    def _run_slice(self) -> None:
        """Wake waiters for SLICE_SECONDS; a waiter that one of them wakes is appended to the queue."""
        self._next_slice, self._in_slice = None, True
        until = self._clock.seconds() + SLICE_SECONDS
        while self._may_wake():
            waiter = self._ready.popleft()
            # Cleared before the callback, which may open the next wait of the same waiter.
            result, waiter.result = waiter.result, None
            reason = waiter.pop_pending()
            if result is not None and reason is not None:
                waiter.awake = True
                self._awake += 1
                result.callback(reason)
            if self._clock.seconds() >= until:
                break
        self._in_slice = False
        self._schedule_slice()

    def _schedule_slice(self) -> None:
        if self._may_start_slice():
            self._next_slice = self._clock.callLater(0, self._run_slice)

    def _may_start_slice(self) -> bool:
        return self._next_slice is None and not self._in_slice and self._may_wake()

    def _may_wake(self) -> bool:
        """Return whether the next waiter may be notified: after `close` no waiter reads the database any more."""
        return bool(self._ready) and (self._awake < AWAKE or self._closed)


class TimerWheel:
    """The timers of waiters in ticks of `tick_seconds`, with one delayed call of the reactor for the earliest tick."""

    def __init__(self, clock: IReactorTime, tick_seconds: float, fire: Callable[[Waiter], None]) -> None:
        self._clock = clock
        self._tick_seconds = tick_seconds
        self._fire = fire
        self._ticks: dict[int, OrderedDict[Waiter, None]] = {}
        self._call: IDelayedCall | None = None
        self._call_tick = 0
        """The tick that the delayed call is for."""

    def schedule(self, waiter: Waiter, seconds: float) -> int:
        """Fire at the first tick that is not earlier than in `seconds`; return that tick."""
        tick = ceil((self._clock.seconds() + seconds) / self._tick_seconds)
        # A dict would look for its first item behind all those that were removed: quadratic in one tick.
        self._ticks.setdefault(tick, OrderedDict())[waiter] = None
        if self._call is None or tick < self._call_tick:
            self._set_call()
        return tick

    def cancel(self, waiter: Waiter, tick: int) -> None:
        """Remove a waiter that is scheduled for this tick and was not fired."""
        at_tick = self._ticks[tick]
        del at_tick[waiter]
        if not at_tick:
            del self._ticks[tick]
            if not self._ticks:
                self._set_call()

    def _set_call(self) -> None:
        if self._call is not None:
            self._call.cancel()
            self._call = None
        if self._ticks:
            self._call_tick = min(self._ticks)
            delay = max(0.0, self._call_tick * self._tick_seconds - self._clock.seconds())
            self._call = self._clock.callLater(delay, self._fire_due)

    def _fire_due(self) -> None:
        """Fire one timer after the other: each may cancel others.

        The rest is rescheduled if one raises, and after SLICE_SECONDS.
        """
        self._call = None
        now = self._clock.seconds()
        try:
            for tick in sorted(tick for tick in self._ticks if tick * self._tick_seconds <= now):
                while tick in self._ticks:
                    if self._clock.seconds() > now + SLICE_SECONDS:
                        return
                    waiter = next(iter(self._ticks[tick]))
                    self.cancel(waiter, tick)
                    self._fire(waiter)
        finally:
            self._set_call()
