"""The HTTP client for providers sends a request once, and returns a small JSON object or raises ProviderFailure.

The messages for the owner go out by it, too (gamed.notify.client): nothing of their responses is read but the head.

A provider has 10 s for head and content and at most 64 KiB; redirects, cookies and content codings are not accepted
(docs/internals/threats.md: Providers). Only a request that may be repeated is sent again, once, after a `Retry-After`
of at most 3 s.
"""

from collections.abc import Callable, Iterator, Mapping
from http.cookiejar import DefaultCookiePolicy
from re import ASCII, compile

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
    PlainToPublic,
    ResponseTooLarge,
    discard_body,
    read_body,
)
from gamed.strict_json import JsonMalformed, parse_object
from gamed.timestamps import Now, parse_http_date

TIMEOUT_SECONDS = 10
NOT_SENT = (ConnectError, DNSLookupError)
"""Errors before the first byte was sent."""
INTERRUPTED = (RequestTransmissionFailed, ResponseFailed, ConnectionClosed, CancelledError, ConnectingCancelledError)
_SECONDS = compile(r"[0-9]{1,9}", ASCII)

Report = Callable[[str, float], None]
"""A function that is called after each call with its outcome and seconds, which include waits and second tries.

Outcomes: `answered` (200), `refused` (another status), `unavailable`, `error`, `cancelled`.
"""


class _HttpReply(Struct, frozen=True):
    """A response before its content is parsed; `body` is None if it was not read."""

    status: int
    body: bytes | None
    offset_ms: int | None
    retry_after: int | None


class ProviderHttpClient:
    """The HTTP client for one provider."""

    def __init__(  # noqa: PLR0917
        self,
        agent: IAgent,
        clock: IReactorTime,
        now_ms: Now,
        user_agent: str,
        breaker: CircuitBreaker,
        report: Report | None = None,
    ) -> None:
        """`clock` measures the duration of a call; `now_ms` is compared with the provider's Date field."""
        # The cookie policy accepts none: a shared cookie jar would send one player's cookie with the next sign-in.
        cookies = IndexableCookieJar(DefaultCookiePolicy(allowed_domains=()))
        self._client = HTTPClient(IdentityEncodingAgent(agent), cookies, BytesBody)
        self._clock = clock
        self._now_ms = now_ms
        self._user_agent = user_agent
        self._breaker = breaker
        self._report = report

    def deadline(self) -> float:
        """Return the deadline of a call that begins now, in the clock's seconds."""
        return self._clock.seconds() + TIMEOUT_SECONDS

    async def call(self, request: ProviderRequest, until: float) -> ProviderResponse:
        """Send the request and return the response, both before `until`; raise ProviderFailure."""
        began, outcome = self._clock.seconds(), "cancelled"
        try:
            reply = await self._answered(request, until)
            members = _members(request, reply)
            outcome = "answered" if reply.status == 200 else "refused"
            return ProviderResponse(request.setting, reply.status, members, reply.offset_ms)
        except ProviderFailure as e:
            outcome = "unavailable" if isinstance(e, ProviderUnavailable) else "error"
            raise
        finally:
            if self._report is not None:
                self._report(outcome, self._clock.seconds() - began)

    async def deliver(self, request: ProviderRequest, until: float) -> None:
        """Send the request before `until`; raise ProviderFailure unless the status is 2xx."""
        reply = await self._answered(request, until)
        if not 200 <= reply.status < 300:
            raise ProviderError(f"{request.setting}: answered {reply.status}")

    async def _answered(self, request: ProviderRequest, until: float) -> _HttpReply:
        """Return a reply that is neither a redirect nor a temporary failure; raise ProviderFailure."""
        reply = await self._with_retry_after(request, until)
        if 300 <= reply.status < 400:
            raise ProviderError(f"{request.setting}: redirects ({reply.status}), which is never followed")
        if _is_unavailable(reply.status):
            raise ProviderUnavailable(f"{request.setting}: answered {reply.status}", reply.retry_after)
        return reply

    async def _with_retry_after(self, request: ProviderRequest, until: float) -> _HttpReply:
        """Send the request, with at most one wait: before the first try, or between it and a second one."""
        waited = await self._wait_cooldown(request, until)
        reply = await self._send(request, until)
        wanted = reply.retry_after
        if reply.status not in (429, 503) or wanted is None or wanted > SHORT_SECONDS or waited:
            return reply
        if not request.repeatable:
            return reply
        await self._sleep(wanted, request, until)
        return await self._send(request, until)

    async def _wait_cooldown(self, request: ProviderRequest, until: float) -> bool:
        """Wait for a short cooldown and return whether there was one; raise ProviderUnavailable for a long one."""
        seconds = self._breaker.cooldown()
        if not seconds:
            return False
        if seconds > SHORT_SECONDS:
            cause = "request skipped: the provider asked us to wait (Retry-After)"
            raise ProviderUnavailable(f"{request.setting}: {cause}", int(seconds) + 1)
        await self._sleep(seconds, request, until)
        return True

    async def _sleep(self, seconds: float, request: ProviderRequest, until: float) -> None:
        if seconds >= self._left(until):
            raise ProviderUnavailable(f"{request.setting}: Retry-After is longer than the time that is left")
        await deferLater(self._clock, seconds, lambda: None)

    async def _send(self, request: ProviderRequest, until: float) -> _HttpReply:
        """Return a reply of any status; try a second time if the connection could not be made."""
        try:
            try:
                reply = await self._with_deadline(request, until)
            except NOT_SENT:  # also for a request with a code: no byte of it has left this machine
                reply = await self._with_deadline(request, until)
        except (*NOT_SENT, *INTERRUPTED, DeadlineError, ResponseTooLarge, ValueError, SchemeNotSupported) as e:
            failure = self._failure(e, request, until)
            if isinstance(failure, ProviderUnavailable):
                self._breaker.record_failure(login_id=request.login_id)
            raise failure from None
        # 429 is both: the provider cannot answer now, and Discord counts it towards its ban of the address.
        if _is_unavailable(reply.status):
            self._breaker.record_failure(reply.retry_after, request.login_id)
            self._breaker.count_rejection(reply.status)
        else:
            self._breaker.record_answer(reply.status)
        return reply

    async def _with_deadline(self, request: ProviderRequest, until: float) -> _HttpReply:
        left = self._left(until)
        if left <= 0:
            raise DeadlineError
        return await Deferred.fromCoroutine(self._exchange(request)).addTimeout(left, self._clock)

    async def _exchange(self, request: ProviderRequest) -> _HttpReply:
        headers = Headers({"Accept": ["application/json"], "User-Agent": [self._user_agent]})
        for name, value in request.headers.items():
            headers.setRawHeaders(name, [value.reveal()])
        response = await self._client.request(
            request.method,
            request.url,
            headers=headers,
            data=None if request.body is None else request.body.reveal(),
            allow_redirects=False,
            unbuffered=True,
            reactor=self._clock,  # type: ignore[arg-type]  # without one treq uses the global reactor
        )
        sent_ms = _http_date(response, b"Date")
        offset_ms = None if sent_ms is None else sent_ms - self._now_ms()
        return _HttpReply(response.code, await _body(request, response), offset_ms, self._retry_after(response))

    def _left(self, until: float) -> float:
        """Return the seconds that are left, never more than TIMEOUT_SECONDS, in case the clock is set back."""
        return min(until - self._clock.seconds(), TIMEOUT_SECONDS)

    def _retry_after(self, response: IResponse) -> int | None:
        """Return the seconds of Retry-After in either form of RFC 9110 10.2.3."""
        text = _field(response, b"Retry-After")
        if _SECONDS.fullmatch(text):
            return int(text)
        instant_ms = _http_date(response, b"Retry-After")
        return None if instant_ms is None else max(0, (instant_ms - self._now_ms()) // 1000)

    def _failure(self, error: BaseException, request: ProviderRequest, until: float) -> ProviderFailure:
        """Return the failure for an error, with a text that contains nothing of what was sent or received."""
        setting = request.setting
        # At the deadline addTimeout() cancels whatever is under way, and translates only a CancelledError of that.
        if isinstance(error, DeadlineError) or self._left(until) < 0.05:
            return ProviderUnavailable(f"{setting}: the response was not complete within {TIMEOUT_SECONDS} s")
        if isinstance(error, PlainToPublic):
            return ProviderError(f"{setting}: its address is public, and http is for private ones; use https")
        if isinstance(error, DNSLookupError):
            return ProviderUnavailable(f"{setting}: the DNS lookup of its host failed")
        if isinstance(error, NOT_SENT):
            return ProviderUnavailable(f"{setting}: the connection failed")
        if isinstance(error, ValueError | SchemeNotSupported):
            return ProviderError(f"{setting}: the URL cannot be used")
        return _interrupted(setting, tuple(_reasons(error)))


def _is_unavailable(status: int) -> bool:
    return status in (408, 425, 429) or status >= 500  # a later try may succeed; other 4xx would be the same again


async def _body(request: ProviderRequest, response: IResponse) -> bytes | None:
    """Read the content of a response whose content can matter."""
    # The JSON of a 4xx names the error; other bodies are not worth the time and the bytes of a provider that fails.
    code = response.code
    ignored = not request.reads_content or code < 200 or 300 <= code < 400 or _is_unavailable(code)
    if ignored or response.headers.hasHeader(ENCODED_MARKER):
        discard_body(response)
        return None
    return await read_body(response)


def _members(request: ProviderRequest, reply: _HttpReply) -> Mapping[str, object]:
    """Parse the content; return an empty object if that fails and the status is not 200."""
    try:
        if reply.body is None:
            raise JsonMalformed("in a content coding that was not requested")
        return request.parse(reply.body) if request.parse else parse_object(reply.body, max_depth=MAX_DEPTH)
    except UnicodeDecodeError:
        return _unparsed(request, reply, "not UTF-8")
    except ValueError as e:
        return _unparsed(request, reply, str(e))


def _unparsed(request: ProviderRequest, reply: _HttpReply, reason: str) -> Mapping[str, object]:
    if reply.status != 200:
        return {}
    raise ProviderError(f"{request.setting}: the response cannot be parsed: {reason}") from None


def _field(response: IResponse, name: bytes) -> str:
    """Return the value of the one field of that name; "" for none or several."""
    found: list[bytes] = response.headers.getRawHeaders(name, [])
    return found[0].decode("ascii", "replace") if len(found) == 1 else ""


def _http_date(response: IResponse, name: bytes) -> int | None:
    return parse_http_date(_field(response, name)[:64])


def _reasons(error: BaseException) -> Iterator[BaseException]:
    """Yield the errors inside an error of Twisted, which wraps them, sometimes twice."""
    wrapped = getattr(error, "reasons", None)
    if not wrapped:
        yield error
    for failure in wrapped or ():
        yield from _reasons(failure.value)


def _interrupted(setting: str, reasons: tuple[BaseException, ...]) -> ProviderFailure:
    """Return the failure for a response that did not arrive completely."""
    if any(isinstance(reason, ResponseTooLarge) for reason in reasons):
        return ProviderError(f"{setting}: the response has more than {MAX_BODY_BYTES} bytes")
    if any(isinstance(reason, VerificationError) or "certificate verify failed" in str(reason) for reason in reasons):
        return ProviderUnavailable(
            f"{setting}: its TLS certificate is not accepted; check this machine's CA certificates and clock"
        )
    if any(isinstance(reason, TlsError) for reason in reasons):
        return ProviderUnavailable(f"{setting}: the TLS handshake failed")
    if any(isinstance(reason, ConnectionClosed | CancelledError | ConnectingCancelledError) for reason in reasons):
        return ProviderUnavailable(f"{setting}: the connection was lost before the response was complete")
    return ProviderError(f"{setting}: the response is not HTTP")
