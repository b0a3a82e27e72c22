"""An HTTP/1.1 connection reads heads and bodies within limits and handles one request at a time.

Requests of a pipeline wait as bytes: at most HELD_BYTES and one read, then reading is paused. Each of them starts in a
turn of the reactor of its own, so that a long pipeline does not keep other connections waiting.
"""

from collections.abc import Callable
from typing import Any, Final

from twisted.internet.interfaces import IDelayedCall, IHalfCloseableProtocol, IReactorTime, ISSLTransport, ITCPTransport
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure
from zope.interface import implementer

from gamed.http.bodies import SmallBodyPolicy
from gamed.http.client_address import Peer
from gamed.http.errors import BadRequest, HttpError, RequestTimeout
from gamed.http.parser import ChunkedDecoder, RawRequestHead, read_head, read_request_line
from gamed.http.request import Request
from gamed.http.site import Site
from gamed.http.timeouts import HEAD_SECONDS, WINDOW_SECONDS, BodyRate, ClosingConnection, FlowControl, Timeout

HELD_BYTES: Final = 16 * 1024
"""Most bytes that wait in memory while a body policy or a handler works, besides those of one read."""
HALF_CLOSED_SECONDS: Final = 5
"""How long an answer may take to begin once the client has closed its side: it may be done sending, or be gone."""
FIRST_REQUEST_SECONDS: Final = 0.25
DRAIN_SECONDS: Final = 2.0
"""When the service stops, how long a connection without any byte is kept: its request may be on the way.

The second is for a service that still answers such a request, as another process serves new clients.
"""
INCOMPLETE: Final = "The request ended before it was whole."


class State:
    """The states of a connection, as plain constants: each access to a member of an Enum costs one look-up more."""

    IDLE: Final = "idle"
    """The next byte begins a head."""
    HEAD: Final = "head"
    """The next byte belongs to an incomplete head."""
    DECIDING: Final = "deciding"
    """Bytes are held until the body policy has decided."""
    BODY: Final = "body"
    """The next byte belongs to the body of the current request."""
    HANDLING: Final = "handling"
    """Bytes are held until the current request is answered."""
    WAITING: Final = "waiting"
    """Bytes are held until the next request may begin: the client has to read the last answer first, or the next turn
    of the reactor has to come."""
    CLOSING: Final = "closing"
    """Bytes are discarded."""


_HOLDING: Final = frozenset({State.DECIDING, State.HANDLING, State.WAITING})
"""The states in which bytes wait, and in which reading is paused when there are too many."""


@implementer(IHalfCloseableProtocol)
class HttpConnection(Protocol):
    """The protocol of one connection."""

    transport: Any
    flow: FlowControl

    def __init__(
        self,
        site: Site,
        clock: IReactorTime,
        peer: Peer,
        idle_seconds: int,
        lost: Callable[["HttpConnection"], object],
    ) -> None:
        """Call `lost` once the connection is closed."""
        self._site = site
        self._clock = clock
        self.peer = peer
        self._idle_seconds = idle_seconds
        self._lost = lost
        self._timeout = Timeout(clock, self._timed_out)
        self._state: str = State.IDLE
        self._buffer = b""
        self._request: Request | None = None
        self._expects_continue = False
        self._left = 0
        """Bytes of the current body that are still to come, unless it is chunked."""
        self._chunks: ChunkedDecoder | None = None
        self._rate: BodyRate | None = None
        self._decode_due = False
        """Whether the decoder holds many small chunks, of which each turn of the reactor decodes some."""
        self._decode_call: IDelayedCall | None = None
        self._silent = True
        self._reading = True
        self._turn_due = False
        """Whether _take_turn() is scheduled."""
        self._always_in_turns = False
        """Whether more bytes may follow in this turn of the reactor: TLS delivers one record at a time."""
        self._read_ended = False
        """Whether the client has closed its side."""
        self._last = False
        """Whether the service stops."""
        self._closing: ClosingConnection | None = None
        self.persistent = True
        """Whether another request may follow the current one."""

    # the network

    def connectionMade(self) -> None:
        if ITCPTransport.providedBy(self.transport):
            self.transport.setTcpNoDelay(True)
        self._always_in_turns = ISSLTransport.providedBy(self.transport)
        self._timeout.reset(self._idle_seconds)
        self.flow = FlowControl(
            self.transport, self._clock, full=self._when_full, writable=self._when_writable, give_up=self.abort
        )
        self.transport.registerProducer(self.flow, True)

    def dataReceived(self, data: bytes) -> None:
        if self._closing is not None:
            self._closing.discard(len(data))
            return
        self._silent = False
        if self._state is State.BODY:
            self._receive_body(data)
            return
        self._buffer = self._buffer + data if self._buffer else data
        if self._state is State.IDLE or self._state is State.HEAD:
            self._read_head()
        if len(self._buffer) > HELD_BYTES and self._state in _HOLDING:
            self._pause_reading()

    def readConnectionLost(self) -> None:
        """Answer a client that sends nothing more, and that may still read or not."""
        self._read_ended = True
        if self._closing is not None:
            self._closing.close()
        else:
            self._check_end()

    def writeConnectionLost(self) -> None:
        """Do nothing: ClosingConnection.linger() has closed our side."""

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self._state, self._buffer = State.CLOSING, b""
        self._timeout.cancel()
        self.flow.close()
        del self.flow  # it refers to this connection: a cycle per connection
        request, self._request = self._request, None
        if request is not None:
            request.client_left()
        self._lost(self)

    # heads

    def _read_head(self) -> None:
        """Start the request whose head is complete; bound a head that is not."""
        try:
            raw = read_head(self._buffer)
        except HttpError as e:
            self._reject(e)
            return
        if raw is not None:
            self._start(raw)
        elif self._state is State.IDLE and self._buffer not in (b"", b"\r\n"):  # an empty line before it is no head yet
            self._state = State.HEAD
            self._timeout.reset(HEAD_SECONDS)

    def _start(self, raw: RawRequestHead) -> None:
        self._timeout.reset(None)
        self._buffer = self._buffer[raw.size :]
        self.persistent = not self._last and raw.persistent
        self._expects_continue = raw.length != 0 and raw.expects_continue
        routed = self._site.route(raw, self.peer)
        self._request = request = Request(self, self._site, routed, raw.version)
        route = routed.match.route if routed.refusal is None else None
        if request.complete and route is not None and type(route.body_policy) is SmallBodyPolicy:  # nothing to decide
            self._state = State.HANDLING
            request.handle()
        else:
            self._state = State.DECIDING
            request.start()

    def _reject(self, error: HttpError) -> None:
        """Answer a head that is not a request; nothing behind it can be trusted."""
        self._timeout.reset(None)
        self._state = State.HANDLING
        self.persistent = False
        line = read_request_line(self._buffer)
        version = "HTTP/1.1" if line is None else line.version
        self._request = request = Request(self, self._site, self._site.route_malformed(line), version)
        request.complete = False  # what follows is read and discarded, so that a reset does not overtake the answer
        request.reject(error)
        request.handle()

    # bodies

    def read_body(self, request: Request) -> None:
        """Read the body of the current request, which its policy has accepted or refused."""
        if request.complete:
            self._handle(request)
            if self._read_ended:
                self._check_end()
            return
        length = request.head.length
        held, self._buffer = self._buffer, b""
        if not (self._reading or self.flow.paused):
            self._resume_reading()
        if length is not None and len(held) >= length:  # the whole body came with its head
            request.body_received(held[:length])
            self._body_complete(request, held[length:])
        else:
            self._state = State.BODY
            self._chunks, self._decode_due = ChunkedDecoder() if length is None else None, False
            self._left = length or 0
            self._rate = BodyRate(self._site.settings.upload_seconds)
            if self._expects_continue and not held and request.error is None:
                self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            self._timeout.reset(WINDOW_SECONDS)
            self._receive_body(held)
        if self._read_ended:
            self._check_end()

    def _receive_body(self, data: bytes) -> bool:
        """Pass bytes of the body on; return whether the receiver takes no more for now."""
        request, rate = self._request, self._rate
        if request is None or rate is None:
            raise RuntimeError("a body without a request")
        if self._chunks is not None:
            if self._decode_due:
                self._chunks.hold(data)
                return False
            received = self._chunks.held + len(data)
            content = self._chunks.decode(data)
            received -= self._chunks.held
            complete = self._chunks.complete
        else:
            received = len(data)
            content = data[: self._left]
            self._left -= len(content)
            complete = self._left == 0
        rate.add(received, len(content))
        taken = request.body_received(content) if content else None
        if complete:
            self._body_complete(request, data[len(content) :] if self._chunks is None else self._chunks.rest())
            return False
        if self._chunks is not None and self._chunks.malformed:
            request.reject(BadRequest("The chunked body is malformed."))
        elif rate.overhead_exceeded:
            request.reject(BadRequest("The chunks are too small."))
        if request.error is not None:
            self._handle(request)
            return False
        waits = taken is not None and not taken.called
        self._decode_due = self._chunks is not None and self._chunks.unfinished
        if waits or self._decode_due:
            self._pause_reading()
        if taken is not None and waits:
            taken.addBoth(lambda _: self._receiver_ready(request))
        elif self._decode_due:
            self._decode_later()
        return waits

    def _receiver_ready(self, request: Request) -> None:
        """Read on, unless the body is complete or abandoned meanwhile."""
        if self._request is not request or self._state is not State.BODY:
            return
        if self._decode_due:
            self._decode_later()
        elif not self.flow.paused:
            self._resume_reading()

    def _decode_later(self) -> None:
        if self._decode_call is None:
            self._decode_call = self._clock.callLater(0, self._decode_on)

    def _decode_on(self) -> None:
        """Decode the next of many small chunks, unless the body is abandoned meanwhile."""
        self._decode_call = None
        if self._state is not State.BODY or not self._decode_due:
            return
        self._decode_due = False
        waits = self._receive_body(b"")
        if self._state is State.BODY and not (waits or self._decode_due or self.flow.paused):
            self._resume_reading()
        if self._read_ended:
            self._check_end()

    def _body_complete(self, request: Request, rest: bytes) -> None:
        """Handle a request whose body was read; `rest` belongs to the next one."""
        request.complete = True
        self._buffer = rest
        if len(rest) > HELD_BYTES:
            self._pause_reading()
        self._handle(request)

    def _handle(self, request: Request) -> None:
        self._timeout.reset(None)
        self._state = State.HANDLING
        self._chunks, self._rate, self._decode_due = None, None, False
        request.handle()

    # responses

    def request_done(self, request: Request) -> None:
        """Start the next request, or close; Request calls it once the whole response is written.

        A client that does not read gets no further response: a few small requests would be many large ones in memory.
        """
        self._request = None
        if not self.persistent or not request.complete:
            # If unread bytes are left at close(), the kernel sends a reset, and the client's kernel may drop the
            # response that it has not read yet (RFC 9112 9.6). So close at once only if nothing more can arrive.
            unread = bool(self._buffer) or not request.complete
            closing = self._begin_closing()
            if self._read_ended or not (unread or self._last):
                closing.close()
            elif self._last and request.complete:
                # The service stops: the client did not ask for the end, and its next request may be on the way.
                closing.await_client()
            else:
                closing.linger()
                self._resume_reading()
        elif self.flow.paused:
            self._state = State.WAITING  # until _when_writable()
        else:
            self._timeout.reset(self._idle_seconds)
            # A turn of the reactor for each request of a pipeline: one read of 64 KiB brings up to 2,520 of them, half
            # a second for which no other connection would be served. Without a pipeline no turn is lost.
            if self._buffer or self._always_in_turns:
                self._state = State.WAITING
                self._turn_due = True
                self._clock.callLater(0, self._take_turn)
            else:
                self._state = State.IDLE
                if not self._reading:
                    self._resume_reading()
                if self._read_ended:
                    self._check_end()

    def _take_turn(self) -> None:
        self._turn_due = False
        if self._state is State.WAITING and not self.flow.paused:
            self._state = State.IDLE
            self._read_head()
            if len(self._buffer) <= HELD_BYTES:  # else the next read would pause it again
                self._resume_reading()
            if self._last and self._state is State.IDLE:
                self._begin_closing().close()
            if self._read_ended:
                self._check_end()

    # flow control

    def _when_full(self) -> None:
        """Read no further request."""
        if self._state not in (State.DECIDING, State.HANDLING):
            self._pause_reading()

    def _when_writable(self) -> None:
        if self._state is State.WAITING and not self._turn_due:
            self._timeout.reset(self._idle_seconds)
            self._take_turn()
        elif self._state not in _HOLDING and not self._decode_due:
            self._resume_reading()

    def _pause_reading(self) -> None:
        if self._reading:
            self._reading = False
            self.transport.pauseProducing()

    def _resume_reading(self) -> None:
        if not self._reading:
            self._reading = True
            self.transport.resumeProducing()

    # the end

    def _check_end(self) -> None:
        """Answer what is complete, refuse what is not, then close: the client sends nothing more."""
        match self._state:
            case State.IDLE:
                self._begin_closing().close()
            case State.HEAD:
                self._reject(BadRequest(INCOMPLETE))
            case State.DECIDING | State.HANDLING:
                self._timeout.reset(HALF_CLOSED_SECONDS)
            case State.BODY if self._request is not None and not self._decode_due:
                self._request.reject(BadRequest(INCOMPLETE))
                self._handle(self._request)

    def _timed_out(self) -> None:
        match self._state:
            case State.HEAD:
                self._reject(RequestTimeout())
            case State.IDLE:
                self._begin_closing().close()
            case State.DECIDING | State.HANDLING:
                if self._request is not None and not self._request.started:
                    self.abort()
            case State.CLOSING if self._closing is not None:
                self._closing.timed_out()
            case State.BODY if self._request is not None and self._rate is not None:
                if self._rate.too_slow():
                    self._request.reject(RequestTimeout())
                    self._handle(self._request)
                else:
                    self._timeout.reset(WINDOW_SECONDS)

    def shut_down(self) -> None:
        """Close now if nothing was asked, else after the answer."""
        self._last, self.persistent = True, False
        if self._silent and self._state is State.IDLE:
            self._timeout.reset(DRAIN_SECONDS if self._site.settings.drains else FIRST_REQUEST_SECONDS)
        elif self._state is State.IDLE or (self._state is State.WAITING and not self._turn_due):
            self._begin_closing().close()

    def abort(self) -> None:
        """Close without sending what is written."""
        self._begin_closing()
        self.transport.abortConnection()

    def _begin_closing(self) -> ClosingConnection:
        """Answer nothing more."""
        self._state, self._buffer = State.CLOSING, b""
        self._closing = ClosingConnection(self.transport, self._timeout)
        return self._closing
