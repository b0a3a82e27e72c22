"""Heads: collected line by line, bounded, parsed whole; what is no request is answered all the same."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from twisted.protocols.basic import LineReceiver

from gamed.web import request as requests
from gamed.web.closing import ClosingChannel
from gamed.web.errors import BadRequest, HeadTooLarge, WebError
from gamed.web.framing import body_length
from gamed.web.partial_head import PartialHead
from gamed.web.raw_head import RawHead, parse_head
from gamed.web.server import Server
from gamed.wheel import Wheel

if TYPE_CHECKING:
    from gamed.web.fast import PlainRequest

HEAD_SECONDS = 10
"""For a whole head, from its first byte."""


class HeadChannel(ClosingChannel):
    """Up to the request that a head begins, or the one that stands for what cannot be read."""

    setRawMode: Any  # these are not typed in Twisted
    line_mode: Any
    _buffer: Any
    _busyReceiving: Any

    def __init__(self, server: Server, deadlines: Wheel) -> None:
        super().__init__(deadlines)
        self._server = server
        self._partial = PartialHead()
        self._in_head = False
        self._silent = True

    def dataReceived(self, data: bytes) -> None:
        if self._closing:
            self._discard(len(data))
            return
        self._silent = False
        entered_again = self._busyReceiving
        if self._between and not entered_again:
            data = self._read_plain(data)
            if not data:
                return
        LineReceiver.dataReceived(self, data)
        if self.line_mode and not self._closing and not entered_again:
            self._judge_partial()

    @property
    def _between(self) -> bool:
        """Whether a head begins with the next byte."""
        return bool(self.line_mode) and not (self._buffer or self._partial.touched or self.requests)

    def _read_plain(self, data: bytes) -> bytes:
        """Begin the request that `data` begins with, if it is plain; what is left for the longer way."""
        plain = self._plain(data)
        if plain is None:
            return data
        request, end = plain
        self._buffer = data[end:]
        self._busyReceiving = True  # what is left follows
        try:
            self._start(request)
        finally:
            self._busyReceiving = False
        return bytes(self.clearLineBuffer())

    @abstractmethod
    def _plain(self, data: bytes) -> "tuple[PlainRequest, int] | None":
        """The plain request that `data` begins with, and where what follows its head begins."""

    @abstractmethod
    def _start(self, request: "PlainRequest") -> None:
        """A plain request: its head has been judged."""

    def _judge_partial(self) -> None:
        """What has come of a head so far."""
        if not self._in_head and (self._buffer or self._partial.begun):
            self._in_head = True
            self.setTimeout(HEAD_SECONDS)
        try:
            self._partial.judge_rest(self._buffer)
        except WebError as e:
            self._reject(e)

    def lineReceived(self, line: bytes) -> None:
        """A line of a head, without its end."""
        if self._closing:
            return
        try:
            lines = self._partial.line(line)
        except WebError as e:
            self._reject(e)
        else:
            if lines is not None:
                self._read(lines)

    def _read(self, lines: Sequence[bytes]) -> None:
        try:
            raw = parse_head(lines)
            length = body_length(raw)
        except WebError as e:
            self._reject(e, lines[0])
        else:
            self._begin(raw, length)

    @abstractmethod
    def _begin(self, raw: RawHead, length: int | None) -> None:
        """A head has come; `length` bytes follow it, None: chunks."""

    def lineLengthExceeded(self, line: bytes) -> None:
        self._reject(HeadTooLarge())

    def _reject(self, error: WebError, start: bytes = b"") -> None:
        """Answer what is no request; nothing after it can be trusted. `start` is its first line, if it has one."""
        self.persistent = False
        request = self._hold(requests.Request(self, self._server))
        self._server.place(request, start or self._partial.start)
        request.refuse(error)
        request.proceed()

    def _respondToBadRequestAndDisconnect(self) -> None:
        self._reject(BadRequest())

    def _hold(self, request: requests.Request) -> requests.Request:
        """A new request begins; what follows is buffered until it is admitted or answered."""
        self.setTimeout(None)
        self._in_head = False
        self._handlingRequest = True
        self.setRawMode()
        self.requests.append(request)
        return request
