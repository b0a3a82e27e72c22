"""How work waits for news without knowing who keeps the time (PROTOCOL 3.5, 4.2).

Very many moments behind one timer: all that fall into one tick share it.

Everyone who waits for news of one kind: one small slot each, one timer for all (PROTOCOL 3.5).
"""

from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from enum import Enum
from math import ceil
from types import TracebackType
from typing import Protocol

from msgspec import Struct
from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IDelayedCall, IReactorTime


class WakeReason(Enum):
    """Why a wait has ended."""

    NEWS = "news"
    TIME = "time"
    SUPERSEDED = "superseded"
    """A newer wait took this one's place."""
    CLOSING = "closing"
    """The service is going down."""


class Waiter(Protocol):
    """One waiter's place. News that came since it was opened is not lost: the next wait ends at once."""

    def wait(self, seconds: float) -> Awaitable[WakeReason]: ...


class WaiterRegistry(Protocol):
    """All waiters of one kind, by the key of what they wait for."""

    def open(self, key: bytes) -> AbstractContextManager[Waiter]:
        """Take the place for this key; who held it is superseded."""

    def wake(self, key: bytes) -> None:
        """There is news."""


class TimerEntry(Protocol):
    """Who is on a wheel, known by itself alone."""

    def due(self) -> None:
        """Its tick has come; it is not on the wheel any more."""


class Call(Protocol):
    """A call that the reactor will make."""

    def cancel(self) -> None: ...


class TimerWheel:
    """Ticks of `tick_seconds`, and the reactor's timer at the earliest of them."""

    def __init__(
        self, seconds: Callable[[], float], call_later: Callable[[float, Callable[[], None]], Call], tick_seconds: float
    ) -> None:
        self.seconds = seconds
        self._call_later = call_later
        self._tick_seconds = tick_seconds
        self._ticks: dict[int, dict[TimerEntry, None]] = {}
        self._timer: Call | None = None
        self._next = 0
        """The tick that the timer is set to."""

    def tick_of(self, at: float) -> int:
        """The first one that is not earlier; in seconds of the same clock."""
        return ceil(at / self._tick_seconds)

    def put(self, who: TimerEntry, tick: int) -> None:
        self._ticks.setdefault(tick, {})[who] = None
        if self._timer is None or tick < self._next:
            self._wait()

    def take(self, who: TimerEntry, tick: int) -> None:
        """Off the wheel, where it was put at that tick and has not become due."""
        at_tick = self._ticks[tick]
        del at_tick[who]
        if not at_tick:
            del self._ticks[tick]
            if not self._ticks:
                self._wait()

    def _wait(self) -> None:
        """For the earliest tick, if there is one."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._ticks:
            self._next = min(self._ticks)
            self._timer = self._call_later(max(0.0, self._next * self._tick_seconds - self.seconds()), self._turn)

    def _turn(self) -> None:
        """One at a time: what one does may take others away, and if it fails they have their time all the same."""
        self._timer = None
        now = self.seconds()
        try:
            for tick in sorted(tick for tick in self._ticks if tick * self._tick_seconds <= now):
                while tick in self._ticks:
                    who = next(iter(self._ticks[tick]))
                    self.take(who, tick)
                    who.due()
        finally:
            self._wait()


TICK_SECONDS = 0.25
"""Ends of waits are rounded up to this: all that fall into one tick share one timer."""
SLICE_SECONDS = 0.005
"""How long waiters are answered before the reactor gets its turn again."""
AWAKE = 256
"""Who is woken asks the store, whose queue is short and not for waiters alone: so many at a time."""
_ENDS = (WakeReason.SUPERSEDED, WakeReason.CLOSING)
_NOWHERE = -1


class _Slot(Struct, eq=False):
    """One waiter's place; a context manager, so that it is given up however the wait ends."""

    waiters: "LongPollRegistry"
    key: bytes
    pending: WakeReason | None = None
    """Why this wait, or the next one, is over."""
    answer: Deferred[WakeReason] | None = None
    tick: int = _NOWHERE
    """Where on the wheel it is."""
    awake: bool = False
    """It was woken, and has neither left nor waited again."""

    def wait(self, seconds: float) -> Deferred[WakeReason]:
        return self.waiters._wait(self, seconds)

    def cancelled(self, _: Deferred[WakeReason]) -> None:
        """The client left."""
        self.answer = None
        self.waiters._unwheel(self)

    def due(self) -> None:
        """Its time is over."""
        self.waiters._over(self)

    def tell(self, why: WakeReason) -> None:
        """Nothing comes after an end."""
        if self.pending not in _ENDS:
            self.pending = why

    def reason(self) -> WakeReason | None:
        """Why the wait is over; news and time are told once, an end for ever."""
        why = self.pending
        if why not in _ENDS:
            self.pending = None
        return why

    def __enter__(self) -> "_Slot":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.waiters._leave(self)


class LongPollRegistry:
    """Slots by key, newest first served: opening a key again supersedes whoever held it."""

    def __init__(self, clock: IReactorTime) -> None:
        self._clock = clock
        self._slots: dict[bytes, _Slot] = {}
        self._wheel = TimerWheel(clock.seconds, clock.callLater, TICK_SECONDS)
        self._due: deque[_Slot] = deque()
        """Slots whose waits are over, in the order of their turns; some may have left."""
        self._awake = 0
        self._next_slice: IDelayedCall | None = None
        self._in_slice = False
        self._closed = False

    def __len__(self) -> int:
        """Open slots."""
        return len(self._slots)

    def open(self, key: bytes) -> _Slot:
        older = self._slots.pop(key, None)
        slot = self._slots[key] = _Slot(self, key, WakeReason.CLOSING if self._closed else None)
        if older is not None:  # its client may be back before this returns, and take the place
            self._end([older], WakeReason.SUPERSEDED)
        return slot

    def wake(self, key: bytes) -> None:
        slot = self._slots.get(key)
        if slot is not None:
            self._end([slot], WakeReason.NEWS)

    def close(self) -> None:
        """Everyone gets an answer, and whoever comes later does not wait."""
        self._closed = True
        self._end(list(self._slots.values()), WakeReason.CLOSING)

    def _wait(self, slot: _Slot, seconds: float) -> Deferred[WakeReason]:
        self._rest(slot)
        why = slot.reason()
        if why is not None:
            return succeed(why)
        slot.tick = self._wheel.tick_of(self._clock.seconds() + seconds)
        self._wheel.put(slot, slot.tick)
        slot.answer = Deferred(slot.cancelled)
        return slot.answer

    def _end(self, slots: list[_Slot], why: WakeReason) -> None:
        """Their waits are over; they are woken in turn. A slot that does not wait yet remembers why."""
        for slot in slots:
            slot.tell(why)
            if slot.tick != _NOWHERE:
                self._unwheel(slot)
                self._due.append(slot)
        if self._may_begin():
            self._slice()

    # waking

    def _slice(self) -> None:
        """Wake some; what they wake in turn goes to the end of the queue."""
        self._next_slice, self._in_slice = None, True
        until = self._clock.seconds() + SLICE_SECONDS
        while self._may_wake():
            self._wake_next()
            if self._clock.seconds() >= until:
                break
        self._in_slice = False
        self._go_on()

    def _go_on(self) -> None:
        if self._may_begin():
            self._next_slice = self._clock.callLater(0, self._slice)

    def _may_begin(self) -> bool:
        return self._next_slice is None and not self._in_slice and self._may_wake()

    def _may_wake(self) -> bool:
        """At the end nobody asks the store any more."""
        return bool(self._due) and (self._awake < AWAKE or self._closed)

    def _wake_next(self) -> None:
        slot = self._due.popleft()
        answer, slot.answer = slot.answer, None
        why = slot.reason()
        if answer is not None and why is not None:
            slot.awake = True
            self._awake += 1
            answer.callback(why)

    def _rest(self, slot: _Slot) -> None:
        """It asks nothing more for now."""
        if slot.awake:
            slot.awake = False
            self._awake -= 1
            self._go_on()

    def _leave(self, slot: _Slot) -> None:
        self._rest(slot)
        self._unwheel(slot)
        if self._slots.get(slot.key) is slot:
            del self._slots[slot.key]

    # the wheel

    def _over(self, slot: _Slot) -> None:
        """Its time is; whoever shares that tick is woken in the same turn."""
        slot.tick = _NOWHERE
        slot.tell(WakeReason.TIME)
        self._due.append(slot)
        self._go_on()

    def _unwheel(self, slot: _Slot) -> None:
        if slot.tick != _NOWHERE:
            self._wheel.take(slot, slot.tick)
            slot.tick = _NOWHERE
