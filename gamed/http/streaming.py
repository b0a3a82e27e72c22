"""Answers too large for memory: read piece by piece, as fast as the client takes them.

What every answer about a player's own things has in common: conditions read, a part sent (PROTOCOL 4.2, 6).

Large files: from the disk's cache to the socket without a copy, at the pace of the client, waiting for no disk.
"""

import os
from collections.abc import Awaitable
from typing import IO, Any, Final, Protocol, runtime_checkable

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IPushProducer
from twisted.python.failure import Failure
from zope.interface import implementer

from gamed.http import direct_socket
from gamed.http.conditional import ByteRange, Conditions, Header, TagsMalformed, parse_conditions
from gamed.http.errors import BadPrecondition
from gamed.http.request import Request

CHUNK_BYTES = 64 * 1024


@runtime_checkable
class PartReader(Protocol):
    """Bytes in parts of `part_bytes`, the last one shorter."""

    @property
    def part_bytes(self) -> int: ...

    def part(self, n: int) -> Awaitable[bytes]: ...

    def close(self) -> None: ...


class Source(Protocol):
    """Pieces in order; b"" when there is no more."""

    async def read(self, most: int) -> bytes: ...

    def close(self) -> None: ...


class _FileSource:
    def __init__(self, file: IO[bytes], first: int) -> None:
        file.seek(first)
        self._file = file

    async def read(self, most: int) -> bytes:
        return self._file.read(min(most, CHUNK_BYTES))

    def close(self) -> None:
        self._file.close()


class _PartSource:
    def __init__(self, parts: PartReader, first: int) -> None:
        self._parts = parts
        self._at = first

    async def read(self, most: int) -> bytes:
        n, skip = divmod(self._at, self._parts.part_bytes)
        data = (await self._parts.part(n))[skip : skip + most]
        self._at += len(data)
        return data

    def close(self) -> None:
        self._parts.close()


def send(request: Request, content: IO[bytes] | PartReader, first: int, length: int) -> Deferred[None]:
    """Send `length` bytes from `first` on; fires when all are written. The head is set; `content` is closed in the end.

    Cancelled when the client leaves.
    """
    source = _PartSource(content, first) if isinstance(content, PartReader) else _FileSource(content, first)
    sender = PushProducer(request, source, length)
    sender.register()
    sender.resumeProducing()
    return sender.done


@implementer(IPushProducer)
class PushProducer:
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


PRIVATE = {"Cache-Control": "private, no-cache, no-transform", "Vary": "Authorization"}
"""On every answer that is one player's."""


def conditions_of(header: Header) -> Conditions:
    """Of a GET or HEAD; BadPrecondition for tags that cannot be read."""
    try:
        return parse_conditions(header)
    except TagsMalformed as e:
        raise BadPrecondition(f"If-Match and If-None-Match take etags: {e}.") from None


async def send_part(
    request: Request, content: bytes | IO[bytes] | PartReader | None, size: int, part: ByteRange | None
) -> bytes | None:
    """206 with the part, or all `size` bytes; None as `content` of a HEAD. What is not returned is written already."""
    first, length = (part.first, part.length) if part else (0, size)
    if part is not None:
        request.setResponseCode(206)
        request.setHeader("Content-Range", part.content_range)
    if isinstance(content, bytes):
        return content[first : first + length]
    request.setHeader("Content-Length", str(length))
    if content is None:
        request.write(b"")
    else:
        await send(request, content, first, length)
    return None


TURN_BYTES: Final = 4 * 1024 * 1024
"""At most so much at a time: others wait too."""


class FileSource(PartReader, Protocol):
    """An open file that tells how many of its bytes can be sent without waiting for the disk; its user closes it."""

    def read(self, first: int, length: int) -> Awaitable[bytes]:
        """Return `length` bytes from offset `first`, or fewer where the file ends."""

    def ready(self, at: int) -> int:
        """Return how many bytes from offset `at` can be sent now without waiting for the disk."""

    def read_ahead(self, at: int) -> Awaitable[None]:
        """Load bytes from offset `at` into the cache of the operating system, if the file has some there."""

    def fileno(self) -> int: ...
    def close(self) -> None: ...


def stream_file(request: Request, file: FileSource, first: int, length: int) -> Deferred[None]:
    """Send `length` bytes from `first` on; fires when all are written. The head is set; `file` is closed in the end.

    Cancelled when the client leaves. Over TLS the bytes are read in parts.
    """
    transport = request.transport
    if not direct_socket.is_plain(transport):
        return send(request, file, first, length)
    sender = SendfileProducer(request, transport, file, first, length)
    sender.begin()
    return sender.done


@implementer(IPushProducer)
class SendfileProducer:
    """Sends whenever the transport has nothing more to write and the socket has room."""

    def __init__(self, request: Any, transport: Any, file: FileSource, first: int, length: int) -> None:
        self._request = request  # Twisted leaves the methods of a consumer untyped
        self._transport = transport
        self._file = file
        self._at, self._end = first, first + length
        self._reading = self._over = False
        self.done: Deferred[None] = Deferred(lambda _: self.stopProducing())

    def begin(self) -> None:
        self._request.registerProducer(self, True)
        self._request.write(b"")
        if direct_socket.can_send(self._transport):  # the head is on its way
            self.resumeProducing()
        else:
            self._wait()

    def pauseProducing(self) -> None:
        """It is this producer that finds the socket full."""

    def stopProducing(self) -> None:
        """The client left."""
        if not self._over:
            self._over = True
            self._file.close()

    def resumeProducing(self) -> None:
        """The socket has room."""
        if self._over or self._reading:
            return
        try:
            self._send()
        except Exception:
            self._break_off(Failure())

    def _send(self) -> None:
        stop = min(self._end, self._at + TURN_BYTES)
        while self._at < stop:
            wanted = min(self._file.ready(self._at), self._end - self._at)
            if not wanted:
                self._reading = True
                Deferred.fromCoroutine(self._read_ahead()).addErrback(self._break_off)
                return
            sent = self._sendfile(wanted)
            self._at += sent
            self._request.sent_bytes += sent
            if sent < wanted:
                break
        if self._at < self._end:
            self._wait()
        else:
            self._finish()

    def _sendfile(self, wanted: int) -> int:
        """How many went; 0 when the socket is full or gone, which the transport will find out."""
        try:
            sent = os.sendfile(self._transport.fileno(), self._file.fileno(), self._at, wanted)
        except (BlockingIOError, ConnectionError):
            return 0
        if not sent:
            raise EOFError("a file is shorter than its head said")
        return sent

    async def _read_ahead(self) -> None:
        """What comes next is on the disk only: a thread fetches it first."""
        try:
            await self._file.read_ahead(self._at)
        finally:
            self._reading = False
        self.resumeProducing()

    def _wait(self) -> None:
        """As the transport does it when its own buffer is full: reading stops, and a client that takes nothing is
        cut off in time. Its next resumption comes when there is room."""
        self._request.pause()
        direct_socket.resume_when_writable(self._transport)

    def _finish(self) -> None:
        self._over = True
        self._file.close()
        self._request.unregisterProducer()
        self.done.callback(None)

    def _break_off(self, reason: Failure) -> None:
        """The client must not take what it has for all."""
        if not self._over:
            self.stopProducing()
            self.done.errback(reason)
