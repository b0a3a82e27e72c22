"""The site finds the route of each request head, or the reason not to serve it."""

from collections.abc import Sequence
from typing import Final

from twisted.internet.interfaces import IReactorTime

from gamed.crypto import Random
from gamed.http.access_log import RequestLog
from gamed.http.app import RouteGroup
from gamed.http.bodies import RequestHead
from gamed.http.client_address import LOCAL_SOCKET, ForwardedFor, HttpSettings, Peer
from gamed.http.errors import HttpError, MethodNotAllowed, ShuttingDown
from gamed.http.headers import CorsPolicy, RequestHeaders
from gamed.http.parser import RawRequestHead, check_host, decode_path, split_target
from gamed.http.route_compiler import compile_routes
from gamed.http.routing import Routed
from gamed.timestamps import Now

REQUEST_ID_BYTES: Final = 12
IDS_DRAWN: Final = 64
"""Request ids for which random bytes are drawn at once: each draw is a system call."""


class Site:
    """The routes and settings of a server; it checks request heads in the order of PROTOCOL 4."""

    def __init__(
        self,
        groups: Sequence[RouteGroup],
        settings: HttpSettings,
        clock: IReactorTime,
        *,
        access_log: RequestLog,
        now_ms: Now,
        random: Random,
    ) -> None:
        self.settings = settings
        self.seconds = clock.seconds
        self.now_ms = now_ms
        self.access_log = access_log
        self.cors = CorsPolicy(settings.cors_origins)
        self.shutting_down = False
        self._random = random
        self._request_ids: list[str] = []
        self._routes = compile_routes(groups)
        self._forwarded = ForwardedFor(settings.trusted_proxies)

    def new_request_id(self) -> str:
        """Return 24 hexadecimal digits that are unpredictable and say nothing about the client (PROTOCOL 1)."""
        if not self._request_ids:
            raw = self._random(REQUEST_ID_BYTES * IDS_DRAWN).hex()
            self._request_ids = [raw[at : at + 24] for at in range(0, len(raw), 24)][::-1]
        return self._request_ids.pop()

    def route(self, raw: RawRequestHead, peer: Peer) -> Routed:
        """Find the route of a request; `refusal` is set when it cannot be served."""
        headers = raw.headers
        forwarded = headers.get("x-forwarded-for")
        address = peer.address if forwarded is None else self._forwarded.client(peer, forwarded)
        try:
            path, query, authority = split_target(raw.method, raw.target)
        except HttpError as e:
            head = RequestHead(raw.method, "", b"", {}, headers, raw.length, address)
            return Routed(self._routes.not_found(raw.method, "", e), head, e)
        try:
            path = decode_path(path)
            match = self._routes.find(raw.method, path)
        except HttpError as e:
            match = self._routes.not_found(raw.method, path, e)
        head = RequestHead(raw.method, path, query.encode(), match.kwargs, headers, raw.length, address)
        try:
            check_host(raw.version, headers, authority, self.settings.host)
        except HttpError as e:
            return Routed(match, head, e)
        if self.shutting_down:
            return Routed(match, head, ShuttingDown())
        if match.methods and path.startswith(match.app.cors_families):
            if raw.method == "OPTIONS":
                return Routed(match, head, preflight=True)
            return Routed(match, head, MethodNotAllowed([*match.methods, "OPTIONS"]))
        return Routed(match, head, match.refusal)

    def route_malformed(self, line: RawRequestHead | None) -> Routed:
        """Find the route that answers a malformed head, as far as its first line is known; it has no refusal."""
        if line is not None:
            routed = self.route(line, LOCAL_SOCKET)
            if routed.head.path:
                return Routed(routed.match, routed.head)
        head = RequestHead("-", "", b"", {}, RequestHeaders(""), 0, "")
        return Routed(self._routes.not_found("-", "", HttpError()), head)
