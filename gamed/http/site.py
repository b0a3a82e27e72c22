"""The site does what all requests need: routing, the Host check, CORS and the common header fields."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, Protocol

from msgspec import Struct
from twisted.internet.interfaces import IReactorTime

from gamed.crypto import Random
from gamed.http.app import JsonApp, RouteGroup
from gamed.http.bodies import RequestHead, SmallBodyPolicy
from gamed.http.client_address import ForwardedFor, HttpSettings
from gamed.http.errors import HttpError, MethodNotAllowed, ShuttingDown
from gamed.http.headers import RequestHeaders, ResponseHeaders
from gamed.http.parser import RawRequestHead, check_host, decode_path, split_target
from gamed.http.routing import RouteMatch, RouteTable
from gamed.instants import Now, http_date

PROTOCOL: Final = "1.0"
REQUEST_ID_BYTES: Final = 12
IDS_DRAWN: Final = 64
"""Request ids for which random bytes are drawn at once: each draw is a system call."""
KNOWN_HOSTS: Final = 64
"""Host fields that are remembered as ours."""
AUTH_HEADERS: Final = {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}
"""On every response below `/auth/`."""
CORS_FAMILIES: Final = ("/auth/", "/game/", "/assets/")
CORS_ALLOWED: Final = (
    "authorization, content-type, if-match, if-none-match, if-range, range, prefer, content-digest, save-meta"
)
CORS_EXPOSED: Final = (
    "etag, save-version, save-meta, retry-after, x-request-id, repr-digest, content-range, preference-applied, "
    "asset-release, gamed-protocol"
)


class AccessLog(Protocol):
    """A log with one line per request; the template stands for the path, `code` is that of a problem."""

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


class Routed(Struct, frozen=True, eq=False):
    """A request head with its route."""

    match: RouteMatch
    head: RequestHead
    refusal: HttpError | None = None
    """The first reason not to serve it."""
    preflight: bool = False
    """Whether it is an OPTIONS request, which the site itself answers."""

    @property
    def accepts_small_body(self) -> bool:
        """Return whether the route takes any small body, so that without a body nothing is left to decide."""
        route = self.match.route
        return self.refusal is None and route is not None and type(route.body_policy) is SmallBodyPolicy


class Site:
    """The routes and settings of a server; it checks request heads in the order of PROTOCOL 4."""

    def __init__(
        self,
        groups: Sequence[RouteGroup],
        settings: HttpSettings,
        clock: IReactorTime,
        *,
        access_log: AccessLog,
        now_ms: Now,
        random: Random,
    ) -> None:
        self.settings = settings
        self.seconds = clock.seconds
        self.access_log = access_log
        self.shutting_down = False
        self._now_ms = now_ms
        self._random = random
        self._request_ids: list[str] = []
        self._routes = RouteTable(groups)
        self._forwarded = ForwardedFor(settings.trusted_proxies)
        self._is_our_host = lru_cache(KNOWN_HOSTS)(self._check_single_host)

    def new_request_id(self) -> str:
        """Return 24 hexadecimal digits that are unpredictable and say nothing about the client (PROTOCOL 1)."""
        if not self._request_ids:
            raw = self._random(REQUEST_ID_BYTES * IDS_DRAWN).hex()
            self._request_ids = [raw[at : at + 24] for at in range(0, len(raw), 24)][::-1]
        return self._request_ids.pop()

    def route(self, raw: RawRequestHead, peer: str | None) -> Routed:
        """Find the route of a request; `refusal` is set when it cannot be served. `peer` as peer_host() returns it."""
        headers = raw.headers
        address = self._forwarded.client(peer, headers.get("x-forwarded-for"))
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
        host = headers.single("host") if authority is None else None
        if host is None or not self._is_our_host(host):
            try:
                check_host(raw.version, headers, authority, self.settings.host)
            except HttpError as e:
                return Routed(match, head, e)
        if self.shutting_down:
            return Routed(match, head, ShuttingDown())
        if match.methods and self._speaks_cors(match, path):
            if raw.method == "OPTIONS":
                return Routed(match, head, preflight=True)
            return Routed(match, head, MethodNotAllowed([*match.methods, "OPTIONS"]))
        return Routed(match, head, match.refusal)

    def route_malformed(self, line: RawRequestHead | None) -> Routed:
        """Find the route that answers a malformed head, as far as its first line tells; there is no refusal in it."""
        if line is not None:
            routed = self.route(line, None)
            if routed.head.path:
                return Routed(routed.match, routed.head)
        head = RequestHead("-", "", b"", {}, RequestHeaders(""), 0, "")
        return Routed(self._routes.not_found("-", "", HttpError()), head)

    def preflight_headers(self, routed: Routed) -> dict[str, str]:
        """Return the header fields of the 204 to an OPTIONS request."""
        methods = ", ".join(sorted({*routed.match.methods, "OPTIONS"}))
        if routed.head.single("origin") not in self.settings.cors_origins:
            return {"Allow": methods}
        return {
            "Allow": methods,
            "Access-Control-Allow-Methods": methods,
            "Access-Control-Allow-Headers": CORS_ALLOWED,
            "Access-Control-Max-Age": "600",
        }

    def finish_headers(self, headers: ResponseHeaders, routed: Routed, request_id: str) -> None:
        """Set the header fields that every response has, just before its first byte is sent."""
        date = http_date(self._now_ms())
        headers.update({"Date": date, "X-Content-Type-Options": "nosniff", "X-Request-Id": request_id})
        if routed.head.path.startswith("/auth/"):
            headers.update(AUTH_HEADERS)
        if (headers.get("Content-Type") or "").startswith(("application/json", "application/problem+json")):
            headers.set("Gamed-Protocol", PROTOCOL)
        if self.settings.cors_origins and self._speaks_cors(routed.match, routed.head.path):
            headers.add("Vary", "Origin")
            origin = routed.head.single("origin")
            if origin is not None and origin in self.settings.cors_origins:
                headers.update({"Access-Control-Allow-Origin": origin, "Access-Control-Expose-Headers": CORS_EXPOSED})

    def _speaks_cors(self, match: RouteMatch, path: str) -> bool:
        return isinstance(match.app, JsonApp) and path.startswith(CORS_FAMILIES)

    def _check_single_host(self, host: str) -> bool:
        headers = RequestHeaders(f"host:{host}\r\n")
        try:
            check_host("HTTP/1.1", headers, None, self.settings.host)
        except HttpError:
            return False
        return True
