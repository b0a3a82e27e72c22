"""Passwords of local accounts are hashed by argon2id in a thread, two at a time, with a short queue (RFC 9106).

One run needs 19 MiB of memory: with 64 MiB for every sign-in a small home server starts to swap.
"""

from functools import cache
from typing import TYPE_CHECKING

from twisted.internet.interfaces import IReactorThreads

from gamed.bounded_threads import BoundedThreads, WorkThreads
from gamed.crypto import Secret
from gamed.players.errors import PasswordsBusy

if TYPE_CHECKING:
    from argon2 import PasswordHasher

AT_ONCE = 2
QUEUED = 32
DUMMY_HASH = "$argon2id$v=19$m=19456,t=2,p=1$qE4dQLP1GS/NEzuiAPlCkA$UArLCujA1DZ8Vb36dN6hsy2p/aV8oEQ63XSJl3KBBvk"
"""The hash that a password is verified against if the name is unknown, so that the response takes as long."""


class AsyncPasswordHasher:
    """A hasher that runs argon2id in threads, and raises PasswordsBusy at once if `QUEUED` calls are waiting."""

    def __init__(self, reactor: IReactorThreads, threads: WorkThreads | None = None) -> None:
        """`threads`: the reactor's own pool by default."""
        self._threads = BoundedThreads(reactor, AT_ONCE, QUEUED, PasswordsBusy, threads)

    async def hash(self, password: Secret) -> str:
        """Hash a password; return the PHC string to store."""
        return await self._threads.run(lambda: hash_password(password))

    async def verify(self, encoded: str | None, password: Secret) -> bool:
        """Return whether `encoded` is the hash of `password`; for None, an unknown account, this takes as long."""
        return await self._threads.run(lambda: _verify(encoded or DUMMY_HASH, password)) and encoded is not None


def hash_password(password: Secret) -> str:
    """Hash a password in the calling thread, for commands; this takes tens of milliseconds and 19 MiB."""
    return _hasher().hash(password.reveal())


def _verify(encoded: str, password: Secret) -> bool:
    from argon2.exceptions import InvalidHashError, VerificationError

    try:
        return _hasher().verify(encoded, password.reveal())
    except (VerificationError, InvalidHashError):
        return False


@cache
def _hasher() -> "PasswordHasher":
    """Return the hasher, whose library is imported with the first password: not every service has one."""
    from argon2 import PasswordHasher, Type

    return PasswordHasher(time_cost=2, memory_cost=19 * 1024, parallelism=1, hash_len=32, salt_len=16, type=Type.ID)
