"""One connection: heads are bounded and parsed whole, bodies wait for their gate, nobody may be slow without end.

Twisted's channel reads a body of any size and sends `100 Continue` before anyone is asked, and its timer starts again
at every byte. Here a head is collected first; while its gate judges, what follows stays in the buffer (16 KiB, then
the transport is paused); then it goes through Twisted's decoders to the request's sink.
"""

from typing import TYPE_CHECKING, Any

from twisted.internet.protocol import connectionDone
from twisted.python.failure import Failure
from twisted.web.http import HTTPChannel, _IdentityTransferDecoder, _MalformedChunkedDataError

from gamed.web import request as requests
from gamed.web.closing import PATIENCE_SECONDS, TORN
from gamed.web.errors import BadRequest, RequestTimeout
from gamed.web.framing import Chunks
from gamed.web.head_channel import HeadChannel
from gamed.web.pace import WINDOW_SECONDS, Pace
from gamed.web.raw_head import RawHead
from gamed.web.server import Server
from gamed.wheel import Wheel

if TYPE_CHECKING:
    from gamed.web.fast import PlainRequest

HELD_BYTES = 16 * 1024
"""What may wait in memory while a gate or a handler works; counted here, since Twisted counts anew at every byte."""
DOOR_SECONDS = 0.25
"""Once the service stops, a connection that has said nothing yet is heard so long: its request may be on the way."""


class Channel(HeadChannel):
    """States: idle, in a head, held (a gate judges), in a body, handling, closing. One deadline serves them all."""

    setLineMode: Any  # these are not typed in Twisted
    _send100Continue: Any
    _transferDecoder: Any
    _pace: Pace

    def __init__(self, server: Server, deadlines: Wheel, idle_seconds: int) -> None:
        super().__init__(server, deadlines)
        self.timeOut = idle_seconds
        self._expects_continue = False
        self._last = False
        self._unread = False
        self._turn_due = False
        """Whether `_take_turn` is scheduled: an answer is written, and more bytes wait behind its request."""
        self._held = 0
        self._length: int | None = 0
        """Of the body that belongs to the last head; None: it comes in chunks."""

    # the body

    def _begin(self, raw: RawHead, length: int | None) -> None:
        self.persistent = raw.persistent and not self._last
        self._expects_continue = raw.expects_continue
        request = self._hold(requests.Request(self, self._server))
        request.whole = length == 0
        self._length = length
        request.begin(raw, length)

    def _plain(self, data: bytes) -> "tuple[PlainRequest, int] | None":
        return self._server.plain(data, self)

    def _start(self, request: "PlainRequest") -> None:
        self.persistent = not self._last
        self._expects_continue = False
        self._length = request.head.length
        self._hold(request)
        request.start()

    def _decoder(self, length: int | None) -> Any:
        if length is None:
            return Chunks(self._decoded, self._finishRequestBody)
        return _IdentityTransferDecoder(length, self._decoded, self._finishRequestBody)

    def admit(self, request: requests.Request) -> None:
        """The gate has spoken: the body goes to the sink. Of a refused request what is here already goes nowhere."""
        if request.whole:
            request.proceed()
            return
        held = self._take_held() + self.clearLineBuffer()
        if not self._waitingForTransport:
            self._networkProducer.resumeProducing()
        if self._length is not None and len(held) >= self._length:  # it came with its head
            request.handleContentChunk(held[: self._length])
            self._finishRequestBody(held[self._length :])
            self._judge_end()
            return
        self._handlingRequest = False
        if self._expects_continue and not held and request.refusal is None:
            self._send100Continue()
        self._transferDecoder = self._decoder(self._length)
        self._pace = self._server.pace()
        self.setTimeout(WINDOW_SECONDS)
        self._feed(held)
        self._judge_end()

    def rawDataReceived(self, data: bytes) -> None:
        """A body, or what follows a request that is not answered yet; the latter waits, and not without end."""
        if self._closing:
            return
        if not self._handlingRequest:
            self._feed(data)
            return
        self._dataBuffer.append(data)
        self._held += len(data)
        if self._held > HELD_BYTES:  # also while an answer waits for its reader, when Twisted reads on
            self._networkProducer.pauseProducing()

    def _take_held(self) -> bytes:
        held = b"".join(self._dataBuffer)
        self._dataBuffer, self._held = [], 0
        return held

    def _feed(self, data: bytes) -> None:
        [request] = self.requests
        self._pace.on_wire(len(data))
        try:
            if data:
                self._transferDecoder.dataReceived(data)
        except _MalformedChunkedDataError:
            request.refuse(BadRequest("The chunked body is malformed."))
        if request.whole:
            return
        if self._pace.wasteful:
            request.refuse(BadRequest("The chunks are too small."))
        if request.refusal is not None:
            self._handle(request)

    def _decoded(self, data: bytes) -> None:
        self._pace.decoded(len(data))
        [request] = self.requests
        taken = request.handleContentChunk(data)
        if taken is not None and not taken.called:
            self._networkProducer.pauseProducing()
            taken.addBoth(lambda _: self._go_on(request))

    def _go_on(self, request: requests.Request) -> None:
        """The sink has room again. A body that was whole meanwhile needs no more of the network."""
        if self.requests == [request] and not (self._handlingRequest or self._closing or self._waitingForTransport):
            self._networkProducer.resumeProducing()

    def _finishRequestBody(self, data: bytes) -> None:
        """The decoder has the last byte; `data` is the begin of the next request."""
        self._dataBuffer.append(data)
        self._held += len(data)
        [request] = self.requests
        request.whole = True
        self._handle(request)

    def _handle(self, request: requests.Request) -> None:
        self.setTimeout(None)
        self._handlingRequest = True
        self._transferDecoder = None
        request.proceed()

    # the end of a request, and of the connection

    def requestDone(self, request: requests.Request) -> None:
        """Go on with what was buffered, or close, now that the answer is written.

        The next request of a pipeline waits for the next turn of the reactor, so that other connections are served
        between two answers. A connection with nothing buffered goes on at once. A client that does not read gets no
        further answer: a few small requests would be many large answers in memory.
        """
        self.requests.clear()
        if not self.persistent or not request.whole:
            self._end(request)
        elif self._waitingForTransport:
            self._unread = True
        elif self._held or self._buffer:
            self._turn_due = True
            self._server.call_soon(self._take_turn)
        else:
            self._go_on_to_next()

    def _take_turn(self) -> None:
        """Begin the next buffered request; until now new bytes were held back as behind an unanswered request."""
        self._turn_due = False
        if self._closing:
            return
        if self._waitingForTransport:
            self._unread = True
        else:
            self._go_on_to_next()

    def _end(self, request: requests.Request) -> None:
        if not (request.whole or self._said_all):
            self._linger()
        elif self._last and not self._said_all:
            self._part()
        else:
            self._close()

    def resumeProducing(self) -> None:
        super().resumeProducing()
        if self._unread and not (self._waitingForTransport or self._closing):
            self._unread = False
            self._go_on_to_next()

    def _go_on_to_next(self) -> None:
        self._handlingRequest = False
        self._networkProducer.resumeProducing()
        self.setTimeout(self.timeOut)
        self.setLineMode(self._take_held())
        self._judge_end()

    def _judge_end(self) -> None:
        if not self._said_all or self._closing:
            return
        if self._busyReceiving or self._unread or self._turn_due:  # what is buffered comes first
            return
        if self._in_head:
            self._reject(BadRequest(TORN))
        elif not self.requests:
            self._close()
        elif self._handlingRequest:
            self.setTimeout(PATIENCE_SECONDS)
        else:
            self.requests[0].refuse(BadRequest(TORN))
            self._handle(self.requests[0])

    def shut_down(self) -> None:
        """Close now when nothing is asked, else after the answer. Who came just now is about to ask."""
        self._last, self.persistent = True, False
        if self._silent and not self._closing:
            self.setTimeout(DOOR_SECONDS)
        elif not (self.requests or self._in_head or self._turn_due or self._closing):
            self._close()

    def timeoutConnection(self) -> None:
        if self._in_head:
            self._reject(RequestTimeout())
        elif self._closing:
            self._closing_timed_out()
        elif not self.requests:
            self._close()
        elif self._handlingRequest:
            if not self.requests[0].startedWriting:
                self.forceAbortClient()
        elif self._pace.window_over():
            [request] = self.requests
            request.refuse(RequestTimeout())
            self._handle(request)
        else:
            self.setTimeout(WINDOW_SECONDS)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self._closing = True
        HTTPChannel.connectionLost(self, reason)
        self.requests.clear()
        self._deadline.end()
        self._has_room()
        self._server.closed(self)
