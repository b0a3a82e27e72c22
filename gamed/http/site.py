"""The site finds the route of each request head, or the reason not to serve it.

gamed.http.route_compiler builds the route table at the start.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from re import Pattern, compile, escape
from typing import Any, Final

from msgspec import Struct
from twisted.internet.interfaces import IReactorTime

from gamed.crypto import Random
from gamed.http.access_log import RequestLog
from gamed.http.app import BaseApp, HtmlApp
from gamed.http.bodies import BodyPolicy, RequestHead
from gamed.http.client_address import LOCAL_SOCKET, ForwardedFor, Peer
from gamed.http.errors import HttpError, MethodNotAllowed, RouteNotFound, ShuttingDown
from gamed.http.parser import RawRequestHead, RequestHeaders, check_host, decode_path, split_target
from gamed.http.settings import HttpSettings
from gamed.structs import redacts
from gamed.timestamps import Now

REQUEST_ID_BYTES: Final = 12
IDS_DRAWN: Final = 64
"""Request ids for which random bytes are drawn at once: each draw is a system call."""
CORS_ALLOWED: Final = (
    "authorization, content-type, if-match, if-none-match, if-range, range, prefer, content-digest, save-meta"
)
CORS_EXPOSED: Final = (
    "etag, save-version, save-meta, retry-after, x-request-id, repr-digest, content-range, preference-applied, "
    "asset-release, gamed-protocol"
)


class Route(Struct, frozen=True, eq=False):
    """One rule with one method."""

    app: BaseApp
    template: str
    """`/game/saves/{slot}`; what a log line may say of a path."""
    handler: Callable[..., object]
    """The Klein endpoint, bound to its route group: takes the request and the arguments."""
    arguments: tuple[str, ...]
    body_policy: BodyPolicy
    failure_page: Callable[[Any, Exception], bytes | None] | None
    """The app's, bound to the route group: takes the request and what the handler raised."""


@redacts("kwargs")
class RouteMatch(Struct, frozen=True, eq=False):
    """The result of a look-up: a route, or the refusal that is answered instead."""

    app: BaseApp
    template: str = "-"
    route: Route | None = None
    kwargs: Mapping[str, str] = {}
    methods: tuple[str, ...] = ()
    """The methods of a path that exists, but not with the requested one."""
    refusal: HttpError | None = None


class Routed(Struct, frozen=True, eq=False):
    """A request head with its route."""

    match: RouteMatch
    head: RequestHead
    refusal: HttpError | None = None
    """The first reason not to serve it."""
    preflight: bool = False
    """Whether it is an OPTIONS request, which the site itself answers."""


class RouteShape(Struct, frozen=True, eq=False):
    """All rules of one app with the same literal segments and the same kinds of arguments."""

    app: BaseApp
    pattern: Pattern[str]
    """Fits the whole path, with a group for each argument."""
    shared: bool
    """Whether some path of this shape belongs to another app, whose prefix is longer."""
    routes: dict[str, Route]
    """By method."""


class Prefixes(Struct, frozen=True, eq=False):
    """The prefixes of all apps; the longest one that fits a path wins.

    `/game/` is for all paths below, `/auth/login` for that path and all after its slash, `/auth/$` for that path alone.
    In `/auth/*/callback` the `*` is any segment, and only `/auth/` counts as its length: it wins over `/auth/`, not
    over `/auth/login`.
    """

    exact: Mapping[str, BaseApp]
    """Paths that are prefixes of no other path."""
    literal: Sequence[tuple[str, BaseApp]]
    wildcard: Sequence[tuple[int, Pattern[str], BaseApp]]
    """With the length before the wildcard."""

    @classmethod
    def of(cls, pairs: Collection[tuple[str, BaseApp]]) -> "Prefixes":
        longest_first = sorted(pairs, key=lambda pair: len(pair[0]), reverse=True)
        return cls(
            {prefix[:-1]: app for prefix, app in pairs if prefix.endswith("$")},
            [(prefix, app) for prefix, app in longest_first if "*" not in prefix and not prefix.endswith("$")],
            [(prefix.index("*"), _wildcard(prefix), app) for prefix, app in longest_first if "*" in prefix],
        )

    def app_of(self, path: str) -> BaseApp | None:
        if path in self.exact:
            return self.exact[path]
        length, found = 0, None
        for prefix, app in self.literal:
            if path.startswith(prefix) and (prefix[-1] == "/" or path[len(prefix) : len(prefix) + 1] in ("", "/")):
                length, found = len(prefix), app
                break
        fitting = (app for start, pattern, app in self.wildcard if start >= length and pattern.fullmatch(path))
        return next(fitting, found)


def _wildcard(prefix: str) -> Pattern[str]:
    """Return the pattern for `/auth/*/callback` with any segment, and for what follows its next slash."""
    return compile("[^/]++".join(map(escape, prefix.split("*"))) + r"(?:/[\s\S]*+)?")


class RouteTable(Struct, frozen=True, eq=False):
    """The routes of all apps: literal paths in a dict, others by their first segment and a pattern."""

    prefixes: Prefixes
    literal: Mapping[str, Mapping[str, RouteMatch]]
    """By path and method."""
    shapes: Mapping[str, Sequence[RouteShape]]
    """By the first segment, each with `any_shapes` behind them; the first one that fits a path is taken."""
    any_shapes: Sequence[RouteShape]
    """Those whose first segment is an argument."""
    fallback: BaseApp
    """Answers for a path that no app has."""

    def find(self, method: str, path: str) -> RouteMatch:
        """Return the route, or a refusal; methods are case-sensitive (RFC 9110 9.1)."""
        literal = self.literal.get(path)
        if literal is not None and method in literal:
            return literal[method]
        allowed: dict[str, Route] = {}
        for shape in self.shapes.get(path.split("/", 2)[1], self.any_shapes):
            match = shape.pattern.fullmatch(path)
            if match is None or (shape.shared and self.prefixes.app_of(path) is not shape.app):
                continue
            route = shape.routes.get(method)
            if route is not None:
                kwargs = dict(zip(route.arguments, match.groups(), strict=True))
                return RouteMatch(route.app, route.template, route, kwargs)
            allowed = {**shape.routes, **allowed}
        if literal is not None:
            allowed.update({name: match.route for name, match in literal.items() if match.route is not None})
        if not allowed:
            return self.not_found(method, path, RouteNotFound())
        methods = tuple(sorted(allowed))
        first = allowed[methods[0]]
        return RouteMatch(first.app, first.template, None, {}, methods, MethodNotAllowed(methods))

    def not_found(self, method: str, path: str, refusal: HttpError) -> RouteMatch:
        """Return the refusal for a path that no route has; the app with its prefix answers, else JSON.

        An app of pages answers only GET and HEAD with a page: any other method comes from a program that has built a
        wrong path, and that can read a problem.
        """
        app = self.prefixes.app_of(path)
        if app is None or (isinstance(app, HtmlApp) and method not in {"GET", "HEAD"}):
            app = self.fallback
        return RouteMatch(app, refusal=refusal)


class CorsPolicy(Struct, frozen=True):
    """The origins whose web pages may use the JSON routes."""

    origins: Collection[str]

    def preflight_headers(self, methods: Collection[str], origin: str | None) -> Mapping[str, str]:
        """Return the header fields of the 204 to an OPTIONS request for a path with these methods."""
        allowed = ", ".join(sorted({*methods, "OPTIONS"}))
        if origin not in self.origins:
            return {"Allow": allowed}
        return {
            "Allow": allowed,
            "Access-Control-Allow-Methods": allowed,
            "Access-Control-Allow-Headers": CORS_ALLOWED,
            "Access-Control-Max-Age": "600",
        }

    def response_headers(self, origin: str | None) -> Mapping[str, str]:
        """Return the header fields with which a page of an allowed origin may read the response."""
        if origin is None or origin not in self.origins:
            return {}
        return {"Access-Control-Allow-Origin": origin, "Access-Control-Expose-Headers": CORS_EXPOSED}


class Site:
    """The routes and settings of a server; it checks request heads in the order of the protocol.

    See docs/protocol.md: Saves.
    """

    def __init__(
        self,
        routes: RouteTable,
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
        self._routes = routes
        self._forwarded = ForwardedFor(settings.trusted_proxies)

    def new_request_id(self) -> str:
        """Return 24 hexadecimal digits that are unpredictable and say nothing about the client.

        See docs/protocol.md: Conventions.
        """
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
        # After the route, so that this refusal, too, has the form of the route's app: a page or a problem.
        try:
            check_host(raw.version, headers, authority, self.settings.host)
        except HttpError as e:
            return Routed(match, head, e)
        if self.shutting_down and not self.settings.drains:
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
