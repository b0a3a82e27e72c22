"""Work of one kind in the threads of a pool that other work shares: a few pieces at once, with a short queue."""

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from twisted.internet.defer import Deferred, DeferredSemaphore
from twisted.internet.interfaces import IReactorThreads
from twisted.python.failure import Failure

T = TypeVar("T")


class WorkThreads(Protocol):
    """The one method that is used of twisted.python.threadpool.ThreadPool."""

    def callInThreadWithCallback(self, onResult: Callable[[bool, Any], object], func: Callable[[], Any]) -> object: ...


class BoundedThreads:
    """The part of a pool that one kind of work may use; a flood of it leaves threads to the others."""

    def __init__(
        self, reactor: IReactorThreads, at_once: int, queued: int, busy: type[Exception], threads: WorkThreads | None
    ) -> None:
        """Use `threads`, by default the reactor's own pool; this class neither starts nor stops them."""
        self._reactor = reactor
        self._threads: WorkThreads = reactor.getThreadPool() if threads is None else threads
        self._free = DeferredSemaphore(at_once)
        self._queued = queued
        self._busy = busy

    async def run(self, work: Callable[[], T]) -> T:
        """Run work in a thread; raise `busy` at once if `queued` calls are waiting.

        The next piece begins when the thread is done, even if the caller was cancelled.
        """
        if len(self._free.waiting) >= self._queued:
            raise self._busy
        await self._free.acquire()
        done: Deferred[T] = Deferred()

        def finished(success: bool, result: Any) -> None:
            self._free.release()
            if done.called:
                return
            if success:
                done.callback(result)
            else:
                done.errback(result if isinstance(result, Failure) else Failure(result))

        self._threads.callInThreadWithCallback(
            lambda success, result: self._reactor.callFromThread(finished, success, result), work
        )
        return await done
