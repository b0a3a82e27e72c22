"""Large files: from the disk's cache to the socket without a copy, at the pace of the client, waiting for no disk."""

import os
from typing import Any, Final

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IPushProducer
from twisted.python.failure import Failure
from zope.interface import implementer

from gamed.assets.delivery import StoredFile
from gamed.http import direct_socket
from gamed.http.request import Request
from gamed.web.sending import send

TURN_BYTES: Final = 4 * 1024 * 1024
"""At most so much at a time: others wait too."""


def send_file(request: Request, file: StoredFile, first: int, length: int) -> Deferred[None]:
    """Send `length` bytes from `first` on; fires when all are written. The head is set; `file` is closed in the end.

    Cancelled when the client leaves. Over TLS the bytes are read in parts.
    """
    transport = request.transport
    if not direct_socket.is_plain(transport):
        return send(request, file, first, length)
    sender = _FileSender(request, transport, file, first, length)
    sender.begin()
    return sender.done


@implementer(IPushProducer)
class _FileSender:
    """Sends whenever the transport has nothing more to write and the socket has room."""

    def __init__(self, request: Any, transport: Any, file: StoredFile, first: int, length: int) -> None:
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
