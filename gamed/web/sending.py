"""Answers too large for memory: read piece by piece, as fast as the client takes them."""

from collections.abc import Awaitable
from typing import IO, Any, Protocol, runtime_checkable

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IPushProducer
from twisted.python.failure import Failure
from zope.interface import implementer

from gamed.http.request import Request

CHUNK_BYTES = 64 * 1024


@runtime_checkable
class Parts(Protocol):
    """Bytes in parts of `part_bytes`, the last one shorter."""

    @property
    def part_bytes(self) -> int: ...

    def part(self, n: int) -> Awaitable[bytes]: ...

    def close(self) -> None: ...


class Source(Protocol):
    """Pieces in order; b"" when there is no more."""

    async def read(self, most: int) -> bytes: ...

    def close(self) -> None: ...


class _File:
    def __init__(self, file: IO[bytes], first: int) -> None:
        file.seek(first)
        self._file = file

    async def read(self, most: int) -> bytes:
        return self._file.read(min(most, CHUNK_BYTES))

    def close(self) -> None:
        self._file.close()


class _Part:
    def __init__(self, parts: Parts, first: int) -> None:
        self._parts = parts
        self._at = first

    async def read(self, most: int) -> bytes:
        n, skip = divmod(self._at, self._parts.part_bytes)
        data = (await self._parts.part(n))[skip : skip + most]
        self._at += len(data)
        return data

    def close(self) -> None:
        self._parts.close()


def send(request: Request, content: IO[bytes] | Parts, first: int, length: int) -> Deferred[None]:
    """Send `length` bytes from `first` on; fires when all are written. The head is set; `content` is closed in the end.

    Cancelled when the client leaves.
    """
    source = _Part(content, first) if isinstance(content, Parts) else _File(content, first)
    sender = _Sender(request, source, length)
    sender.register()
    sender.resumeProducing()
    return sender.done


@implementer(IPushProducer)
class _Sender:
    """Writes until it is paused: one piece at a time is in flight."""

    def __init__(self, request: Any, source: Source, length: int) -> None:
        self._request = request  # Twisted leaves the methods of a consumer untyped
        self._source = source
        self._left = length
        self._paused = True
        self._working = False
        self._over = False
        self.done: Deferred[None] = Deferred(lambda _: self.stopProducing())

    def register(self) -> None:
        self._request.registerProducer(self, True)

    def pauseProducing(self) -> None:
        self._paused = True

    def resumeProducing(self) -> None:
        self._paused = False
        if not self._working and not self._over:
            self._working = True
            Deferred.fromCoroutine(self._work()).addErrback(self._break_off)

    def stopProducing(self) -> None:
        """The client left."""
        self._paused = self._over = True
        self._source.close()

    async def _work(self) -> None:
        try:
            while not self._paused and self._left:
                data = await self._source.read(self._left)
                if self._over:
                    return
                if not data:
                    raise EOFError("what was to be sent is shorter than its head said")
                self._left -= len(data)
                self._request.write(data)
        finally:
            self._working = False
        if not self._left and not self._over:
            self._end()

    def _break_off(self, reason: Failure) -> None:
        """The client must not take what it has for all."""
        if not self._over:
            self.stopProducing()
            self.done.errback(reason)

    def _end(self) -> None:
        self._over = True
        self._source.close()
        self._request.unregisterProducer()
        self.done.callback(None)
