"""The route table finds the route of a path; it is compiled at the start from the Klein apps of all route groups."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import combinations, takewhile
from re import Match, Pattern, compile, escape, fullmatch
from typing import Final, TypeVar

from msgspec import Struct
from werkzeug.routing import Rule

from gamed.http.app import BaseApp, HtmlApp, RouteGroup, TokenConverter, make_app
from gamed.http.bodies import BodyPolicy
from gamed.http.errors import HttpError, MethodNotAllowed, RouteNotFound
from gamed.structs import hides

T = TypeVar("T")
_ARGUMENT = compile(r"<(?:([a-z]++)(?:\([^()<>]*+\))?:)?([a-z_][a-z_0-9]*+)>")
_SEGMENT = r"[^/\x00-\x1f\x7f-\x9f]++"
"""One segment without control characters (C0, DEL, C1)."""
_CONVERTERS: Final = {
    "token": TokenConverter.regex,
    "string": _SEGMENT,
    "text": "[^/]++",
    "path": f"(?:{_SEGMENT}/)*+{_SEGMENT}",
}
_RANKS: Final = {"token": 1, "string": 2, "text": 3, "path": 4}
"""A literal segment has 0. Of two rules that fit a path, the one with lower ranks, compared from the left, is taken."""


class Route(Struct, frozen=True, eq=False):
    """One rule with one method."""

    app: BaseApp
    template: str
    """`/game/saves/{slot}`; what a log line may say of a path."""
    handler: Callable[..., object]
    """The Klein endpoint, bound to its route group: takes the request and the arguments."""
    arguments: tuple[str, ...]
    body_policy: BodyPolicy


@hides("kwargs")
class RouteMatch(Struct, frozen=True, eq=False):
    """The result of a look-up: a route, or the refusal that is answered instead."""

    app: BaseApp
    template: str = "-"
    route: Route | None = None
    kwargs: Mapping[str, str] = {}
    methods: tuple[str, ...] = ()
    """Of a path that exists, but not with this method."""
    refusal: HttpError | None = None


class _Group(Struct, frozen=True, eq=False):
    app: BaseApp
    prefixes: tuple[str, ...]


class _Shape(Struct, frozen=True, eq=False):
    """All rules of one group with the same literal segments and the same kinds of arguments."""

    group: _Group
    segments: tuple[str, ...]
    """Literal text, or `<string>`."""
    ranks: tuple[int, ...]
    pattern: Pattern[str]
    routes: dict[str, Route]
    """By method."""
    shared: bool
    """Whether some path of this shape belongs to another group, whose prefix is longer."""


class RouteTable:
    """The routes of all groups: literal paths in a dict, others by their first segment and a pattern."""

    def __init__(self, groups: Sequence[RouteGroup]) -> None:
        """Compile the maps; raise ValueError for an ambiguous rule, or a body policy for an endpoint that is not."""
        compiled = [_Group(_app_of(group), group.prefixes) for group in groups]
        prefixes = [(prefix, group) for group in compiled for prefix in group.prefixes]
        prefixes.sort(key=lambda pair: len(pair[0]), reverse=True)
        self._prefixes = [(prefix, group) for prefix, group in prefixes if "*" not in prefix]
        self._wildcards = [(_wildcard(prefix), group) for prefix, group in prefixes if "*" in prefix]
        self._literal: dict[str, dict[str, RouteMatch]] = {}
        self._shapes: dict[str, list[_Shape]] = {}
        """By their first segment, each with those of `_anywhere`."""
        self._anywhere: list[_Shape] = []
        """Those whose first segment is an argument."""
        self._elsewhere = make_app()
        for group, declared in zip(compiled, groups, strict=True):
            self._compile(group, declared)
        for found in self._shapes.values():
            found.extend(self._anywhere)

    def find(self, method: str, path: str) -> RouteMatch:
        """Return the route, or a refusal; methods are case-sensitive (RFC 9110 9.1)."""
        literal = self._literal.get(path)
        if literal is not None and method in literal:
            return literal[method]
        allowed: dict[str, Route] = {}
        for shape in self._shapes.get(path.split("/", 2)[1], self._anywhere):
            match = shape.pattern.fullmatch(path)
            if match is None or (shape.shared and self._group_of(path) is not shape.group):
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
        """Return the refusal for a path that no route has; the group with its prefix answers, else JSON.

        A group of pages answers only GET and HEAD with a page: any other method comes from a program that has built a
        wrong path, and that can read a problem.
        """
        group = self._group_of(path)
        if group is None or (isinstance(group.app, HtmlApp) and method not in {"GET", "HEAD"}):
            return RouteMatch(self._elsewhere, refusal=refusal)
        return RouteMatch(group.app, refusal=refusal)

    def _group_of(self, path: str) -> _Group | None:
        for prefix, group in self._prefixes:
            if path.startswith(prefix) and (prefix[-1] == "/" or path[len(prefix) : len(prefix) + 1] in ("", "/")):
                return group
        return next((group for pattern, group in self._wildcards if pattern.fullmatch(path)), None)

    def _compile(self, group: _Group, declared: RouteGroup) -> None:
        app, policies = group.app, declared.body_policies
        unknown = policies.keys() - app.endpoints.keys()
        if unknown:
            raise ValueError(f"body policies for no endpoint: {sorted(unknown)}")
        shapes: dict[tuple[str, ...], _Shape] = {}
        for rule in app.url_map.iter_rules():
            handler = partial(app.endpoints[rule.endpoint], declared)
            arguments = tuple(name for _, name in _ARGUMENT.findall(rule.rule))
            policy = policies.get(rule.endpoint, app.default_body_policy)
            route = Route(app, template_of(rule.rule), handler, arguments, policy)
            methods = set(rule.methods or ()) - (set() if app.answers_head else {"HEAD"})
            if route.arguments:
                segments = tuple(_ARGUMENT.sub(_kind, segment) for segment in rule.rule.split("/"))
                shape = shapes.get(segments) or shapes.setdefault(segments, self._shape(group, segments))
                _insert(shape.routes, methods, route, rule)
            elif self._group_of(rule.rule) is group:
                _insert(self._literal.setdefault(rule.rule, {}), methods, RouteMatch(app, route.template, route), rule)
        for one, other in combinations(shapes.values(), 2):
            if _overlap(one, other) and not (_precedes(one, other) or _precedes(other, one)):
                raise ValueError(f"ambiguous rules: {'/'.join(one.segments)} and {'/'.join(other.segments)}")
        for shape in sorted(shapes.values(), key=lambda shape: shape.ranks):
            if shape.ranks[1]:
                self._anywhere.append(shape)
            else:
                self._shapes.setdefault(shape.segments[1], []).append(shape)

    def _shape(self, group: _Group, segments: tuple[str, ...]) -> _Shape:
        ranks = tuple(_RANKS[segment[1:-1]] if segment.startswith("<") else 0 for segment in segments)
        if _RANKS["path"] in ranks[:-1]:
            raise ValueError(f"ambiguous rule: {'/'.join(segments)}")
        literal = "/".join(takewhile(lambda segment: not segment.startswith("<"), segments)) + "/"
        others = any(prefix.startswith(literal) for prefix, other in self._prefixes if other is not group)
        shared = others or self._group_of(literal) is not group
        return _Shape(group, segments, ranks, _pattern(segments), {}, shared)


def _app_of(group: RouteGroup) -> BaseApp:
    app = group.app
    if not isinstance(app, BaseApp):
        raise TypeError("the app of a route group comes from make_app or make_html_app")
    return app


def _pattern(segments: Iterable[str]) -> Pattern[str]:
    """Return the pattern for a path of these segments, with a group for each argument."""
    parts = (f"({_CONVERTERS[each[1:-1]]})" if each.startswith("<") else escape(each) for each in segments)
    return compile("/".join(parts))


def _wildcard(prefix: str) -> Pattern[str]:
    """Return the pattern for `/auth/*/callback` with any segment, and for what follows its next slash."""
    return compile("[^/]++".join(map(escape, prefix.split("*"))) + r"(?:/[\s\S]*+)?")


def template_of(rule: str) -> str:
    """Return `/game/saves/{slot}` for `/game/saves/<string:slot>`."""
    return _ARGUMENT.sub(r"{\2}", rule)


def _kind(match: Match[str]) -> str:
    converter = match[1] or "string"
    if converter not in _RANKS:
        raise ValueError(f"unknown converter: {converter}")
    return f"<{converter}>"


def _insert(routes: dict[str, T], methods: Iterable[str], route: T, rule: Rule) -> None:
    for method in methods:
        if routes.setdefault(method, route) is not route:
            raise ValueError(f"ambiguous rule: {method} {rule.rule}")


def _overlap(one: _Shape, other: _Shape) -> bool:
    """Return whether some path fits both shapes."""
    if _RANKS["path"] not in (one.ranks[-1], other.ranks[-1]) and len(one.ranks) != len(other.ranks):
        return False
    shorter, longer = sorted((one, other), key=lambda shape: len(shape.ranks))
    if len(shorter.ranks) < len(longer.ranks) and shorter.ranks[-1] != _RANKS["path"]:
        return False
    return all(_fit(a, b) for a, b in zip(shorter.segments, longer.segments, strict=False))


def _fit(one: str, other: str) -> bool:
    """Return whether one segment of a path can be both of these."""
    for literal, argument in ((one, other), (other, one)):
        if not literal.startswith("<") and argument == "<token>":
            return fullmatch(TokenConverter.regex, literal) is not None
    return one == other or "<" in (one[:1], other[:1])


def _precedes(one: _Shape, other: _Shape) -> bool:
    """Return whether `one` is at least as specific as `other` in each segment that both have."""
    return all(a <= b for a, b in zip(one.ranks, other.ranks, strict=False))
