"""Sending content that is too large for memory, and the requested part of any content.

Parts of a save or of a file are read and written as fast as the client takes them. A large file without TLS goes from
the page cache to the socket without a copy, and the reactor never waits for the disk.

See docs/protocol.md: Saves, Conditions and ranges.
"""

import os
from collections.abc import Awaitable
from io import BytesIO
from typing import Any, Final, Protocol, runtime_checkable

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IPushProducer
from twisted.python.failure import Failure
from zope.interface import implementer

from gamed.http import direct_socket
from gamed.http.conditional import ByteRange
from gamed.http.request import Request

PRIVATE: Final = {"Cache-Control": "private, no-cache, no-transform", "Vary": "Authorization"}
"""On every response with data of one player."""
CHUNK_BYTES: Final = 64 * 1024
"""A piece of content that is in memory, of which a slow client holds one at a time beside it."""
TURN_BYTES: Final = 4 * 1024 * 1024
"""Most bytes of a file that are sent in one turn of the reactor, because other connections wait."""


@runtime_checkable
class PartReader(Protocol):
    """Content in parts of `part_bytes`, of which the last one may be shorter."""

    @property
    def part_bytes(self) -> int: ...

    def part(self, n: int) -> Awaitable[bytes]: ...

    def close(self) -> None: ...


@runtime_checkable
class FileSource(PartReader, Protocol):
    """An open file that reports how many of its bytes can be sent without waiting for the disk."""

    def bytes_in_cache(self, at: int) -> int:
        """Return how many bytes from offset `at` can be sent now without waiting for the disk."""

    def read_ahead(self, at: int) -> Awaitable[None]:
        """Load bytes from offset `at` into the page cache, if the file has some there."""

    def fileno(self) -> int: ...


async def send_part(
    request: Request, content: bytes | BytesIO | PartReader | None, size: int, part: ByteRange | None
) -> bytes | None:
    """Respond 206 with a part, or with all `size` bytes; `content` is None for a HEAD.

    Return the content if it is in memory; else write it and return None.
    """
    if part is None:
        return await send_content(request, content, 0, size)
    begin_part(request, part)
    return await send_content(request, content, part.first, part.length)


def begin_part(request: Request, part: ByteRange) -> None:
    """Set the status and the header field of a partial response."""
    request.setResponseCode(206)
    request.setHeader("Content-Range", part.content_range)


async def send_content(
    request: Request, content: bytes | BytesIO | PartReader | None, first: int, length: int
) -> bytes | None:
    """Send `length` bytes from offset `first`, as send_part() does."""
    if isinstance(content, bytes):
        return content[first : first + length]
    request.setHeader("Content-Length", str(length))
    if content is None:
        request.write(b"")
    else:
        await stream(request, content, first, length)
    return None


def stream(request: Request, content: BytesIO | PartReader, first: int, length: int) -> Deferred[None]:
    """Write `length` bytes from offset `first` and fire when all are written; the caller has set Content-Length.

    A file is sent with sendfile() if the connection has no TLS. The content is closed at the end, and when the client
    leaves, which cancels the result.
    """
    producer: PushProducer | SendfileProducer
    transport = request.transport
    if isinstance(content, FileSource) and direct_socket.is_plain(transport):
        producer = SendfileProducer(request, transport, content, first, length)
    else:
        producer = PushProducer(request, content, first, length)
    producer.start()
    return producer.done


class _ContentProducer:
    """A producer that writes content until it is all written, has failed, or the client has left."""

    def __init__(self, request: Any, content: PartReader | BytesIO) -> None:
        self._request = request  # Twisted leaves the methods of a consumer untyped
        self._content = content
        self._reading = self._ended = False
        self.done: Deferred[None] = Deferred(lambda _: self.stopProducing())

    def stopProducing(self) -> None:
        """Close the content, because the client has left."""
        if not self._ended:
            self._ended = True
            self._content.close()

    def _complete(self) -> None:
        self.stopProducing()
        self._request.unregisterProducer()
        self.done.callback(None)

    def _failed(self, reason: Failure) -> None:
        """Fail, so that the connection is aborted and the client does not take the content for complete."""
        if not self._ended:
            self.stopProducing()
            self.done.errback(reason)


@implementer(IPushProducer)
class PushProducer(_ContentProducer):
    """A producer that reads and writes one piece at a time until it is paused."""

    def __init__(self, request: Any, content: PartReader | BytesIO, first: int, length: int) -> None:
        super().__init__(request, content)
        self._at, self._left = first, length
        self._paused = True
        self._parts = content if isinstance(content, PartReader) else None
        if not isinstance(content, PartReader):
            content.seek(first)
            self._file = content

    def start(self) -> None:
        self._request.registerProducer(self, True)
        self.resumeProducing()

    def pauseProducing(self) -> None:
        self._paused = True

    def stopProducing(self) -> None:
        self._paused = True
        super().stopProducing()

    def resumeProducing(self) -> None:
        self._paused = False
        if not self._reading and not self._ended:
            self._reading = True
            Deferred.fromCoroutine(self._work()).addErrback(self._failed)

    async def _work(self) -> None:
        try:
            while not self._paused and self._left:
                data = await self._read()
                if self._ended:
                    return
                if not data:
                    raise EOFError("the content is shorter than its Content-Length")
                self._at += len(data)
                self._left -= len(data)
                self._request.write(data)
        finally:
            self._reading = False
        if not self._left and not self._ended:
            self._complete()

    async def _read(self) -> bytes:
        """Return the next piece, at most as much as is left."""
        if self._parts is None:
            return self._file.read(min(self._left, CHUNK_BYTES))
        n, skip = divmod(self._at, self._parts.part_bytes)
        return (await self._parts.part(n))[skip : skip + self._left]


@implementer(IPushProducer)
class SendfileProducer(_ContentProducer):
    """A producer that sends a file whenever the transport has nothing left to write and the socket has room."""

    def __init__(self, request: Any, transport: Any, file: FileSource, first: int, length: int) -> None:
        super().__init__(request, file)
        self._transport = transport
        self._file = file
        self._at, self._end = first, first + length

    def start(self) -> None:
        self._request.registerProducer(self, True)
        self._request.write(b"")
        if direct_socket.can_send(self._transport):  # the head is with the kernel
            self.resumeProducing()
        else:
            self._wait()

    def pauseProducing(self) -> None:
        """Do nothing: this producer itself finds the socket full."""

    def resumeProducing(self) -> None:
        """Send what the socket takes."""
        if self._ended or self._reading:
            return
        try:
            self._send()
        except Exception:
            self._failed(Failure())

    def _send(self) -> None:
        stop = min(self._end, self._at + TURN_BYTES)
        while self._at < stop:
            wanted = min(self._file.bytes_in_cache(self._at), self._end - self._at)
            if not wanted:
                self._reading = True
                Deferred.fromCoroutine(self._read_ahead()).addErrback(self._failed)
                return
            sent = self._sendfile(wanted)
            self._at += sent
            self._request.sent_bytes += sent
            if sent < wanted:
                break
        if self._at < self._end:
            self._wait()
        else:
            self._complete()

    def _sendfile(self, wanted: int) -> int:
        """Return how many bytes the socket has taken: 0 if it is full or closed, which the transport finds out."""
        try:
            sent = os.sendfile(self._transport.fileno(), self._file.fileno(), self._at, wanted)
        except (BlockingIOError, ConnectionError):
            return 0
        if not sent:
            raise EOFError("the file is shorter than its Content-Length")
        return sent

    async def _read_ahead(self) -> None:
        """Load the next bytes from the disk in a thread, then go on."""
        try:
            await self._file.read_ahead(self._at)
        finally:
            self._reading = False
        self.resumeProducing()

    def _wait(self) -> None:
        """Act like a transport with a full buffer: pause reading, close on a client that takes nothing.

        The transport calls resumeProducing() when the socket has room.
        """
        self._request.pause()
        direct_socket.resume_when_writable(self._transport)
