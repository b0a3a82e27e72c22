"""The one door out: a provider has 10 s for head and body, 64 KiB, no redirect, no cookie and no coding (PROTOCOL 3.3).

What comes back is a small JSON object or a ProviderFailure. A request that was sent is not sent again, but for one
that may be repeated, once, after a `Retry-After` of at most 3 s.

The door to a provider, with a word to whoever counts what goes through it.
"""

from collections.abc import Callable, Iterator, Mapping
from http.cookiejar import DefaultCookiePolicy
from re import ASCII, compile
from typing import Any

from msgspec import Struct
from OpenSSL.SSL import Error as TlsError
from service_identity import VerificationError
from treq.client import HTTPClient
from treq.cookies import IndexableCookieJar
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.defer import TimeoutError as DeadlineError
from twisted.internet.error import ConnectError, ConnectingCancelledError, ConnectionClosed, DNSLookupError
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.web.client import RequestTransmissionFailed, ResponseFailed
from twisted.web.error import SchemeNotSupported
from twisted.web.http_headers import Headers
from twisted.web.iweb import IAgent, IResponse

from gamed.providers.base import ProviderError, ProviderFailure, ProviderUnavailable
from gamed.providers.circuit_breaker import SHORT_SECONDS, CircuitBreaker
from gamed.providers.messages import MAX_DEPTH, ProviderRequest, ProviderResponse
from gamed.providers.transport import (
    ENCODED_MARKER,
    MAX_BODY_BYTES,
    BytesBody,
    IdentityEncodingAgent,
    ResponseTooLarge,
    discard_body,
    read_body,
)
from gamed.strict_json import JsonMalformed, parse_object
from gamed.timestamps import Now, parse_http_date

TIMEOUT_SECONDS = 10
NOT_SENT = (ConnectError, DNSLookupError)
"""Not a byte has left."""
BROKEN = (RequestTransmissionFailed, ResponseFailed, ConnectionClosed, CancelledError, ConnectingCancelledError)
_SECONDS = compile(r"[0-9]{1,9}", ASCII)


class _HttpReply(Struct, frozen=True):
    """A response as it came; `body` is None if it was not read."""

    status: int
    body: bytes | None
    offset_ms: int | None
    retry_after: int | None


class ProviderHttpClient:
    """The door to one provider."""

    def __init__(
        self, agent: IAgent, clock: IReactorTime, now_ms: Now, user_agent: str, breaker: CircuitBreaker
    ) -> None:
        """`clock` measures how long an answer takes, `now_ms` is compared with the provider's Date."""
        self._client = _client(agent)
        self._clock = clock
        self._now_ms = now_ms
        self._user_agent = user_agent
        self._breaker = breaker

    def deadline(self) -> float:
        """For everything that begins now, by the clock's seconds."""
        return self._clock.seconds() + TIMEOUT_SECONDS

    async def call(self, call: ProviderRequest, until: float) -> ProviderResponse:
        """The answer before `until`, or ProviderFailure."""
        reply = await self._patient(call, until)
        if 300 <= reply.status < 400:
            raise ProviderError(f"{call.what}: redirects ({reply.status}), which is never followed")
        if _cannot(reply.status):
            raise ProviderUnavailable(f"{call.what}: answered {reply.status}", reply.retry_after)
        return ProviderResponse(call.what, reply.status, _members(call, reply), reply.offset_ms)

    async def _patient(self, call: ProviderRequest, until: float) -> _HttpReply:
        """One wait at most: before the first try, or between it and a second."""
        waited = await self._sit_out(call, until)
        reply = await self._reached(call, until)
        asked = reply.retry_after
        if reply.status not in (429, 503) or asked is None or asked > SHORT_SECONDS or waited or not call.repeatable:
            return reply
        await self._sleep(asked, call, until)
        return await self._reached(call, until)

    async def _sit_out(self, call: ProviderRequest, until: float) -> bool:
        """Whether a short silence was waited for; a long one ends the call before it began."""
        silence = self._breaker.silence()
        if silence > SHORT_SECONDS:
            raise ProviderUnavailable(f"{call.what}: not asked, the provider wants to be left alone", int(silence) + 1)
        if silence:
            await self._sleep(silence, call, until)
        return silence > 0

    async def _sleep(self, seconds: float, call: ProviderRequest, until: float) -> None:
        if seconds >= self._left(until):
            raise ProviderUnavailable(f"{call.what}: asked for more patience than there is time")
        await deferLater(self._clock, seconds, lambda: None)

    async def _reached(self, call: ProviderRequest, until: float) -> _HttpReply:
        """A reply of whatever status; a connection that could not be made is tried once more."""
        try:
            try:
                reply = await self._timed(call, until)
            except NOT_SENT:
                reply = await self._timed(call, until)
        except (*NOT_SENT, *BROKEN, DeadlineError, ResponseTooLarge, ValueError, SchemeNotSupported) as e:
            failure = self._failure(e, call, until)
            if isinstance(failure, ProviderUnavailable):
                self._breaker.failed(login_id=call.login_id)
            raise failure from None
        if _cannot(reply.status):
            self._breaker.failed(reply.retry_after, call.login_id)
            self._breaker.count(reply.status)
        else:
            self._breaker.answered(reply.status)
        return reply

    async def _timed(self, call: ProviderRequest, until: float) -> _HttpReply:
        left = self._left(until)
        if left <= 0:
            raise DeadlineError
        return await Deferred.fromCoroutine(self._exchange(call)).addTimeout(left, self._clock)

    async def _exchange(self, call: ProviderRequest) -> _HttpReply:
        response = await self._client.request(
            call.method,
            call.url,
            headers=self._headers(call),
            data=None if call.body is None else call.body.reveal(),
            allow_redirects=False,
            unbuffered=True,
            reactor=self._clock,  # type: ignore[arg-type]  # without one it would take the global reactor
        )
        offset_ms = self._offset_ms(response)
        return _HttpReply(response.code, await _body(response), offset_ms, self._retry_after(response))

    def _headers(self, call: ProviderRequest) -> Headers:
        headers = Headers({"Accept": ["application/json"], "User-Agent": [self._user_agent]})
        for name, value in call.headers.items():
            headers.setRawHeaders(name, [value.reveal()])
        return headers

    def _left(self, until: float) -> float:
        """Seconds; never more than the whole time, should the clock be set back."""
        return min(until - self._clock.seconds(), TIMEOUT_SECONDS)

    def _offset_ms(self, response: IResponse) -> int | None:
        sent_ms = _instant(response, b"Date")
        return None if sent_ms is None else sent_ms - self._now_ms()

    def _retry_after(self, response: IResponse) -> int | None:
        """Seconds, from either form of RFC 9110 10.2.3."""
        text = _field(response, b"Retry-After")
        if _SECONDS.fullmatch(text):
            return int(text)
        instant_ms = _instant(response, b"Retry-After")
        return None if instant_ms is None else max(0, (instant_ms - self._now_ms()) // 1000)

    def _failure(self, error: BaseException, call: ProviderRequest, until: float) -> ProviderFailure:
        """What went wrong, in words that hold nothing of what was sent or received."""
        if isinstance(error, DeadlineError) or self._left(until) < 0.05:
            return ProviderUnavailable(f"{call.what}: no whole answer within {TIMEOUT_SECONDS} s")
        if isinstance(error, DNSLookupError):
            return ProviderUnavailable(f"{call.what}: its host cannot be looked up")
        if isinstance(error, NOT_SENT):
            return ProviderUnavailable(f"{call.what}: no connection")
        if isinstance(error, ValueError | SchemeNotSupported):
            return ProviderError(f"{call.what}: the address cannot be used")
        return _broken(call.what, tuple(_reasons(error)))


def _client(agent: IAgent) -> HTTPClient:
    """A treq client that keeps no cookie: a shared one would carry one player's to the next."""
    return HTTPClient(
        IdentityEncodingAgent(agent), IndexableCookieJar(DefaultCookiePolicy(allowed_domains=())), BytesBody
    )


def _cannot(status: int) -> bool:
    """The statuses by which a provider says: not now."""
    return status in (408, 425, 429) or status >= 500


async def _body(response: IResponse) -> bytes | None:
    """Read only where something in it may count."""
    refused = response.code < 200 or 300 <= response.code < 400 or _cannot(response.code)
    if refused or response.headers.hasHeader(ENCODED_MARKER):
        discard_body(response)
        return None
    return await read_body(response)


def _members(call: ProviderRequest, reply: _HttpReply) -> Mapping[str, object]:
    """The object; an answer other than 200 may have none."""
    try:
        if reply.body is None:
            raise JsonMalformed("in a coding that was not asked for")
        return parse_object(reply.body, max_depth=MAX_DEPTH)
    except JsonMalformed as e:
        if reply.status != 200:
            return {}
        raise ProviderError(f"{call.what}: the answer is {e}") from None


def _field(response: IResponse, name: bytes) -> str:
    """The one field of that name; "" for none or several."""
    found: list[bytes] = response.headers.getRawHeaders(name, [])
    return found[0].decode("ascii", "replace") if len(found) == 1 else ""


def _instant(response: IResponse, name: bytes) -> int | None:
    return parse_http_date(_field(response, name)[:64])


def _reasons(error: BaseException) -> Iterator[BaseException]:
    """Twisted wraps what happened, sometimes twice."""
    wrapped = getattr(error, "reasons", None)
    if not wrapped:
        yield error
    for failure in wrapped or ():
        yield from _reasons(failure.value)


def _broken(what: str, reasons: tuple[BaseException, ...]) -> ProviderFailure:
    """Why an answer that had begun, or was waited for, did not become whole."""
    if any(isinstance(reason, ResponseTooLarge) for reason in reasons):
        return ProviderError(f"{what}: an answer of more than {MAX_BODY_BYTES} bytes")
    if any(isinstance(reason, VerificationError) or "certificate verify failed" in str(reason) for reason in reasons):
        return ProviderUnavailable(
            f"{what}: its TLS certificate is not accepted; check this machine's CA certificates and clock"
        )
    if any(isinstance(reason, TlsError) for reason in reasons):
        return ProviderUnavailable(f"{what}: TLS could not be agreed on")
    if any(isinstance(reason, ConnectionClosed | CancelledError | ConnectingCancelledError) for reason in reasons):
        return ProviderUnavailable(f"{what}: the connection broke before the whole answer")
    return ProviderError(f"{what}: the answer is not HTTP")


Called = Callable[[str, str, float], None]
"""Provider, outcome and seconds of one call; waits and second tries are part of it."""


def uncounted(provider: str, outcome: str, seconds: float) -> None:
    """Nobody counts."""


class WatchedEndpoint(ProviderHttpClient):
    """Outcomes: `answered` (200), `refused` (another status), `unavailable`, `error`, `cancelled`."""

    def __init__(self, *of_endpoint: Any, provider: str, called: Called) -> None:
        super().__init__(*of_endpoint)
        self._provider = provider
        self._called = called

    async def call(self, call: ProviderRequest, until: float) -> ProviderResponse:
        began, outcome = self._clock.seconds(), "cancelled"
        try:
            answer = await super().call(call, until)
            outcome = "answered" if answer.status == 200 else "refused"
            return answer
        except ProviderFailure as e:
            outcome = "unavailable" if isinstance(e, ProviderUnavailable) else "error"
            raise
        finally:
            self._called(self._provider, outcome, self._clock.seconds() - began)
