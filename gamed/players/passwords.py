"""Passwords of local accounts: argon2id in a thread, two at a time, with a short queue (RFC 9106).

19 MiB per run, because 64 MiB for every sign-in stalls a small home server.
"""

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from argon2 import PasswordHasher, Type
from argon2.exceptions import InvalidHashError, VerificationError
from twisted.internet.defer import Deferred, DeferredSemaphore
from twisted.internet.interfaces import IReactorThreads
from twisted.python.failure import Failure

from gamed.crypto import Secret
from gamed.players.errors import PasswordsBusy

T = TypeVar("T")
AT_ONCE = 2
QUEUED = 32
HASHER = PasswordHasher(time_cost=2, memory_cost=19 * 1024, parallelism=1, hash_len=32, salt_len=16, type=Type.ID)
NOBODY = "$argon2id$v=19$m=19456,t=2,p=1$qE4dQLP1GS/NEzuiAPlCkA$UArLCujA1DZ8Vb36dN6hsy2p/aV8oEQ63XSJl3KBBvk"
"""Of "nobody at all": verified against when a name is unknown, so that the answer takes as long as for a known one."""


class Threads(Protocol):
    """What is used of twisted.python.threadpool.ThreadPool."""

    def callInThreadWithCallback(self, onResult: Callable[[bool, Any], object], func: Callable[[], Any]) -> object: ...


class AsyncPasswordHasher:
    """Hashes and verifies; PasswordsBusy at once when `QUEUED` calls wait already."""

    def __init__(self, reactor: IReactorThreads, threads: Threads | None = None) -> None:
        """`threads` are the reactor's own pool unless others are lent; whoever made them starts and stops them."""
        self._reactor = reactor
        self._threads: Threads = reactor.getThreadPool() if threads is None else threads
        self._turns = DeferredSemaphore(AT_ONCE)

    async def hash(self, password: Secret) -> str:
        """The PHC string to keep."""
        return await self._run(lambda: hash_password(password))

    async def verify(self, encoded: str | None, password: Secret) -> bool:
        """Whether `password` made `encoded`; None (no such account) costs the same and is False."""
        return await self._run(lambda: _verify(encoded or NOBODY, password)) and encoded is not None

    async def _run(self, work: Callable[[], T]) -> T:
        if len(self._turns.waiting) >= QUEUED:
            raise PasswordsBusy
        await self._turns.acquire()
        return await self._in_thread(work)

    def _in_thread(self, work: Callable[[], T]) -> "Deferred[T]":
        """Gives its turn back when the thread is done, also when nobody waits for the answer any more."""
        answer: Deferred[T] = Deferred()

        def finished(success: bool, result: Any) -> None:
            self._turns.release()
            if answer.called:
                return
            if success:
                answer.callback(result)
            else:
                answer.errback(result if isinstance(result, Failure) else Failure(result))

        self._threads.callInThreadWithCallback(
            lambda success, result: self._reactor.callFromThread(finished, success, result), work
        )
        return answer


def hash_password(password: Secret) -> str:
    """The PHC string to keep; takes tens of milliseconds and 19 MiB in the calling thread (for commands)."""
    return HASHER.hash(password.reveal())


def _verify(encoded: str, password: Secret) -> bool:
    try:
        return HASHER.verify(encoded, password.reveal())
    except (VerificationError, InvalidHashError):
        return False
