"""Everyone who waits for news of one kind: one small slot each, one timer for all (PROTOCOL 3.5)."""

from collections import deque
from types import TracebackType
from typing import Final

from attrs import define, field
from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IDelayedCall, IReactorTime

from gamed.waits import Woken

TICK_SECONDS = 0.25
"""Ends of waits are rounded up to this: all that fall into one tick share one timer."""
AT_ONCE = 250
"""Waiters answered before the reactor gets its turn again."""


@define(eq=False)
class _Slot:
    """One waiter's place; a context manager, so that it is given up however the wait ends."""

    waiters: "Waiters"
    key: bytes
    pending: Woken | None = None
    """Came while nobody waited."""
    answer: Deferred[Woken] | None = None
    tick: int = 0

    def wait(self, seconds: float) -> Deferred[Woken]:
        return self.waiters._wait(self, seconds)

    def __enter__(self) -> "_Slot":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.waiters._leave(self)


@define(eq=False)
class Waiters:
    """Slots by key, newest first served: opening a key again supersedes whoever held it."""

    _clock: IReactorTime
    _slots: dict[bytes, _Slot] = field(factory=dict, init=False)
    _wheel: dict[int, dict[_Slot, None]] = field(factory=dict, init=False)
    """Tick -> who waits no longer than that."""
    _due: deque[tuple[_Slot, Woken]] = field(factory=deque, init=False)
    _timer: IDelayedCall | None = field(default=None, init=False)
    _answering: IDelayedCall | None = field(default=None, init=False)
    _closed: bool = field(default=False, init=False)

    def __len__(self) -> int:
        """Open slots."""
        return len(self._slots)

    def open(self, key: bytes) -> _Slot:
        older = self._slots.pop(key, None)
        if older is not None:
            self._end([older], Woken.SUPERSEDED)
        slot = self._slots[key] = _Slot(self, key, Woken.CLOSING if self._closed else None)
        return slot

    def wake(self, key: bytes) -> None:
        slot = self._slots.get(key)
        if slot is not None:
            self._end([slot], Woken.NEWS)

    def close(self) -> None:
        """Everyone gets an answer, and whoever comes later does not wait."""
        self._closed = True
        self._end(list(self._slots.values()), Woken.CLOSING)

    def _wait(self, slot: _Slot, seconds: float) -> Deferred[Woken]:
        if slot.pending is not None:
            why = slot.pending
            slot.pending = None if why is Woken.NEWS else why
            return succeed(why)
        slot.tick = int((self._clock.seconds() + seconds) / TICK_SECONDS) + 1
        self._wheel.setdefault(slot.tick, {})[slot] = None
        self._schedule()
        slot.answer = Deferred(lambda _: self._forget(slot))
        return slot.answer

    def _end(self, slots: list[_Slot], why: Woken) -> None:
        """Their waits are over; the answers go out in turn. A slot that does not wait yet remembers why."""
        for slot in slots:
            if slot.answer is not None and slot.tick != _OFF_WHEEL:
                self._unwheel(slot)
                self._due.append((slot, why))
            elif slot.pending in (None, Woken.NEWS):
                slot.pending = why
        if self._due and self._answering is None:
            self._answer()

    def _answer(self) -> None:
        """Fire up to AT_ONCE answers; what they wake in turn goes to the end of the queue."""
        self._answering = self._clock.callLater(0, self._answer)
        for _ in range(min(AT_ONCE, len(self._due))):
            slot, why = self._due.popleft()
            answer, slot.answer = slot.answer, None
            if answer is not None:
                answer.callback(why)
        if not self._due:
            self._answering.cancel()
            self._answering = None

    def _tick(self) -> None:
        self._timer = None
        now = int(self._clock.seconds() / TICK_SECONDS)
        for tick in sorted(tick for tick in self._wheel if tick <= now):
            self._end(list(self._wheel[tick]), Woken.TIME)
        self._schedule()

    def _schedule(self) -> None:
        """One timer, at the earliest tick somebody waits for."""
        if not self._wheel:
            return
        seconds = max(0.0, min(self._wheel) * TICK_SECONDS - self._clock.seconds())
        if self._timer is None:
            self._timer = self._clock.callLater(seconds, self._tick)
        elif self._clock.seconds() + seconds < self._timer.getTime():
            self._timer.reset(seconds)

    def _unwheel(self, slot: _Slot) -> None:
        at_tick = self._wheel.get(slot.tick, {})
        at_tick.pop(slot, None)
        if not at_tick:
            self._wheel.pop(slot.tick, None)
        slot.tick = _OFF_WHEEL
        if not self._wheel and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _forget(self, slot: _Slot) -> None:
        """Its handler was cancelled: the client left."""
        slot.answer = None
        self._unwheel(slot)

    def _leave(self, slot: _Slot) -> None:
        self._unwheel(slot)
        if self._slots.get(slot.key) is slot:
            del self._slots[slot.key]


_OFF_WHEEL: Final = -1
