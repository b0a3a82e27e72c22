"""The web of the service: connections come in, rooms answer."""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, Protocol

from msgspec.structs import replace
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IAddress, IReactorTime
from twisted.web.http import HTTPFactory

from gamed.crypto import Random
from gamed.instants import Now, http_date
from gamed.web.app import JsonApp, Room
from gamed.web.channel import Channel
from gamed.web.connections import Connections, peer_host
from gamed.web.cors import Cors
from gamed.web.deadline import deadlines
from gamed.web.errors import BadRequest, RouteNotFound, ShuttingDown, WebError, WrongMethod
from gamed.web.fast import PlainFields, PlainRequest, plain_head
from gamed.web.forwarding import Forwarding
from gamed.web.gates import Head
from gamed.web.host import judge_host
from gamed.web.http_policy import HttpPolicy
from gamed.web.pace import Pace
from gamed.web.raw_head import RawHead, parse_head
from gamed.web.request import Request
from gamed.web.request_ids import RequestIds
from gamed.web.routing import Found, Routes
from gamed.web.table import Table
from gamed.web.target import Target, decode_path, has_control, split_target

PROTOCOL = "1.0"
KNOWN_HOSTS = 64
"""Host fields whose judgement is kept: they are the same all day."""
CHECKED = {"slot"}
"""Path arguments that may hold control characters: each of their routes checks them, and has an error of its own."""
AUTH = {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}
"""Below `/auth/`."""


class AccessLog(Protocol):
    """One line per request; the template stands for the path, `code` is that of a problem."""

    def line(
        self,
        *,
        request_id: str,
        method: str,
        template: str,
        status: int,
        size: int,
        seconds: float,
        received: int,
        code: str,
    ) -> None: ...


class Site(HTTPFactory):
    """Builds a channel per connection and judges every head in PROTOCOL 4's order, up to the gate."""

    noisy = False

    def __init__(
        self,
        rooms: Sequence[Room],
        policy: HttpPolicy,
        clock: IReactorTime,
        *,
        access_log: AccessLog,
        now_ms: Now,
        random: Random,
    ) -> None:
        super().__init__(reactor=clock)
        self._policy = policy
        self._clock = clock
        self._access_log = access_log
        self._now_ms = now_ms
        self._ids = RequestIds(random)
        self._routes = Routes(rooms)
        self._table = Table(self._routes.doorways) if policy.fast else None
        self._cors = Cors(policy.cors_origins)
        self._forwarding = Forwarding(policy.trusted_proxies)
        self._connections = Connections(policy)
        self._deadlines = deadlines(clock)
        self._channels: dict[Channel, str | None] = {}
        self._leaving = False
        self._gone: list[Deferred[None]] = []
        self._ours = lru_cache(KNOWN_HOSTS)(partial(_is_of, policy.host))

    # connections

    def startFactory(self) -> None:
        """Nothing of Twisted's access log."""

    def stopFactory(self) -> None:
        """Nothing was started."""

    def buildProtocol(self, addr: IAddress | None) -> Any:
        """A channel; None, which closes the connection, when there are too many or the service goes down."""
        peer = peer_host(addr)
        if self._leaving or not self._connections.admit(peer):
            return None
        trusted = self._connections.trusted(peer)
        idle = self._policy.trusted_idle_seconds if trusted else self._policy.idle_seconds
        channel = Channel(self, self._deadlines, idle)
        channel.factory = self
        self._channels[channel] = peer
        return channel

    @property
    def connections(self) -> int:
        """Open ones."""
        return len(self._channels)

    def refused(self) -> Mapping[str, int]:
        """Connections turned away so far, by the limit that was hit."""
        return self._connections.refused

    def closed(self, channel: Channel) -> None:
        self._connections.release(self._channels.pop(channel))
        self._tell_gone()

    def shut_down(self) -> Deferred[None]:
        """Take no connection and no request any more, answer what is under way; fires when all are closed.

        The caller decides how long it waits.
        """
        self._leaving = True
        gone: Deferred[None] = Deferred()
        self._gone.append(gone)
        for channel in list(self._channels):
            channel.shut_down()
        self._tell_gone()
        return gone

    def _tell_gone(self) -> None:
        if not self._channels:
            waiting, self._gone = self._gone, []
            for gone in waiting:
                if not gone.called:  # the caller may have given up waiting
                    gone.callback(None)

    # requests

    @property
    def nowhere(self) -> Found:
        return self._routes.nowhere

    def seconds(self) -> float:
        return self._clock.seconds()

    def call_soon(self, act: Callable[[], object]) -> None:
        """Call `act` in the next turn of the reactor."""
        self._clock.callLater(0, act)

    def pace(self) -> Pace:
        return Pace(self._policy.upload_seconds)

    def request_id(self) -> str:
        return self._ids.next()

    def plain(self, data: bytes, channel: Channel) -> tuple[PlainRequest, int] | None:
        """What begins `data`, if it is plain and nothing is wrong with it so far; see gamed.web.fast."""
        if self._table is None or self._leaving:
            return None
        plain = plain_head(data)
        route = None if plain is None else self._table.find(plain.method, plain.path)
        if plain is None or route is None or not self._ours(plain.fields["host"]):
            return None
        found, kwargs = route
        headers = PlainFields(plain.fields)
        address = self._forwarding.client(self._channels[channel], headers.header)
        head = Head(plain.method, plain.path, plain.query, kwargs, headers, plain.length, address)
        return PlainRequest(channel, self, found, head), plain.end

    def judge(self, request: Request, raw: RawHead, length: int | None) -> None:
        target = split_target(raw)
        found, path = self._find(target, raw.method.decode())
        headers = request.requestHeaders
        address = self._forwarding.client(peer_host(request.client), headers.header)
        request.route = found
        request.head = Head(raw.method.decode(), path, target.query, found.kwargs, headers, length, address)
        judge_host(raw.version, raw.values(b"host"), target.authority, (self._policy.host,))
        if self._leaving:
            raise ShuttingDown
        if found.refusal is not None:
            if not (found.methods and self._speaks_cors(request)):
                raise found.refusal
            if raw.method != b"OPTIONS":
                raise WrongMethod([*found.methods, "OPTIONS"])
            request.route = replace(found, handler=self._preflight, gate=JsonApp.default_gate, kwargs={})

    def place(self, request: Request, start: bytes) -> None:
        try:
            raw = parse_head([start])
            target = split_target(raw)
        except BadRequest:
            return
        method = raw.method.decode()
        request.route, path = self._find(target, method)
        request.method, request.clientproto = raw.method, raw.version
        request.head = Head(method, path, target.query, {}, request.requestHeaders, 0, "")

    def _find(self, target: Target, method: str) -> tuple[Found, str]:
        try:
            path = decode_path(target.path)
        except WebError as e:
            path = target.path.decode("latin-1")
            return self._routes.lost(path, method, e), path
        found = self._routes.find(path, method)
        if has_control(path) and {name for name, text in found.kwargs.items() if has_control(text)} != CHECKED:
            return self._routes.lost(path, method, RouteNotFound()), path
        return found, path

    def _speaks_cors(self, request: Request) -> bool:
        route = request.route
        return isinstance(route, Found) and isinstance(route.app, JsonApp) and self._cors.covers(request.head.path)

    def _preflight(self, request: Request) -> None:
        request.setResponseCode(204)
        route = request.route
        methods = route.methods if isinstance(route, Found) else ()
        request.setHeaders(self._cors.preflight(request.head.one("origin"), methods))

    # answers

    def seal(self, request: Request) -> None:
        fields = request.responseHeaders
        date = http_date(self._now_ms())
        fields.update({"Date": date, "X-Content-Type-Options": "nosniff", "X-Request-Id": request.request_id})
        if request.head.path.startswith("/auth/"):
            fields.update(AUTH)
        if (fields.get("Content-Type") or "").startswith(("application/json", "application/problem+json")):
            fields.set("Gamed-Protocol", PROTOCOL)
        if self._policy.cors_origins and self._speaks_cors(request):
            fields.add("Vary", "Origin")
            fields.update(self._cors.headers(request.head.one("origin")))

    def done(self, request: Request, status: int) -> None:
        self._access_log.line(
            request_id=request.request_id,
            method=request.head.method,
            template=request.route.template,
            status=status,
            size=request.sentLength,
            seconds=self._clock.seconds() - request.began,
            received=(request.head.length or 0) if request.whole else 0,
            code=request.problem,
        )


def _is_of(ours: str, host: str) -> bool:
    try:
        judge_host(b"HTTP/1.1", (host.encode("latin-1"),), None, (ours,))
    except WebError:
        return False
    return True


def build_site(
    rooms: Sequence[Room],
    policy: HttpPolicy,
    clock: IReactorTime,
    *,
    access_log: AccessLog,
    now_ms: Now,
    random: Random,
) -> Site:
    """The factory to listen with; `clock` is the reactor."""
    return Site(rooms, policy, clock, access_log=access_log, now_ms=now_ms, random=random)
