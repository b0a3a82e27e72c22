"""The route table finds the route of a path; gamed.http.route_compiler builds it at the start."""

from collections.abc import Callable, Mapping, Sequence
from re import Pattern

from msgspec import Struct

from gamed.http.app import BaseApp, HtmlApp
from gamed.http.bodies import BodyPolicy, RequestHead, SmallBodyPolicy
from gamed.http.errors import HttpError, MethodNotAllowed, RouteNotFound
from gamed.structs import redacts


class Route(Struct, frozen=True, eq=False):
    """One rule with one method."""

    app: BaseApp
    template: str
    """`/game/saves/{slot}`; what a log line may say of a path."""
    handler: Callable[..., object]
    """The Klein endpoint, bound to its route group: takes the request and the arguments."""
    arguments: tuple[str, ...]
    body_policy: BodyPolicy


@redacts("kwargs")
class RouteMatch(Struct, frozen=True, eq=False):
    """The result of a look-up: a route, or the refusal that is answered instead."""

    app: BaseApp
    template: str = "-"
    route: Route | None = None
    kwargs: Mapping[str, str] = {}
    methods: tuple[str, ...] = ()
    """Of a path that exists, but not with this method."""
    refusal: HttpError | None = None


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
    """The prefixes of all apps, longest first; those with a wildcard count where no other one fits."""

    literal: Sequence[tuple[str, BaseApp]]
    wildcard: Sequence[tuple[Pattern[str], BaseApp]]

    def app_of(self, path: str) -> BaseApp | None:
        for prefix, app in self.literal:
            if path.startswith(prefix) and (prefix[-1] == "/" or path[len(prefix) : len(prefix) + 1] in ("", "/")):
                return app
        return next((app for pattern, app in self.wildcard if pattern.fullmatch(path)), None)


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
