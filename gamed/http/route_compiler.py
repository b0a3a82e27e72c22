"""This module compiles the declared routes of all Klein apps into one route table, at the start.

Two mistakes are errors here. An ambiguous rule: two rules fit the same path, and neither is more specific in every
segment. A rule outside the prefixes of its route group: no request would ever get to it.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import combinations, takewhile
from re import Match, Pattern, compile, escape, fullmatch
from typing import Final, TypeVar

from gamed.http.app import BaseApp, DeclaredRoute, RouteGroup, TokenConverter, make_app
from gamed.http.request import Request
from gamed.http.site import Prefixes, Route, RouteMatch, RouteShape, RouteTable

T = TypeVar("T")
Segments = tuple[str, ...]
"""The segments of a rule: literal text, or the kind of an argument as `<string>`."""
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


def compile_routes(groups: Sequence[RouteGroup]) -> RouteTable:
    """Return the table; raise ValueError for a rule that cannot work, or a body policy for an unknown endpoint."""
    apps = [_app_of(group) for group in groups]
    prefixes = _prefixes(apps, groups)
    literal: dict[str, dict[str, RouteMatch]] = {}
    by_first: dict[str, list[RouteShape]] = {}
    any_first: list[RouteShape] = []
    for app, group in zip(apps, groups, strict=True):
        shapes: dict[Segments, RouteShape] = {}
        for rule, route in _routes(app, group):
            methods = rule.methods - (set() if app.answers_head else {"HEAD"})
            segments = tuple(_ARGUMENT.sub(_kind, segment) for segment in rule.rule.split("/"))
            if not (_is_within(segments, group.prefixes) and (route.arguments or prefixes.app_of(rule.rule) is app)):
                raise ValueError(f"{rule.rule} is outside the prefixes of its route group")
            if route.arguments:
                shape = shapes.get(segments) or shapes.setdefault(segments, _shape(prefixes, app, segments))
                _insert(shape.routes, methods, route, rule)
            else:
                _insert(literal.setdefault(rule.rule, {}), methods, RouteMatch(app, route.template, route), rule)
        _check_ambiguity(shapes)
        for segments in sorted(shapes, key=_ranks):
            if segments[1].startswith("<"):
                any_first.append(shapes[segments])
            else:
                by_first.setdefault(segments[1], []).append(shapes[segments])
    every_first = {segment: [*found, *any_first] for segment, found in by_first.items()}
    return RouteTable(prefixes, literal, every_first, any_first, make_app())


def template_of(rule: str) -> str:
    """Return `/game/saves/{slot}` for `/game/saves/<string:slot>`."""
    return _ARGUMENT.sub(r"{\2}", rule)


def _app_of(group: RouteGroup) -> BaseApp:
    app = group.app
    if not isinstance(app, BaseApp):
        raise TypeError("the app of a route group comes from make_app or make_html_app")
    return app


def _prefixes(apps: Sequence[BaseApp], groups: Sequence[RouteGroup]) -> Prefixes:
    pairs = [(prefix, app) for app, group in zip(apps, groups, strict=True) for prefix in group.prefixes]
    pairs.sort(key=lambda pair: len(pair[0]), reverse=True)
    return Prefixes(
        {prefix[:-1]: app for prefix, app in pairs if prefix.endswith("$")},
        [(prefix, app) for prefix, app in pairs if "*" not in prefix and not prefix.endswith("$")],
        [(prefix.index("*"), _wildcard(prefix), app) for prefix, app in pairs if "*" in prefix],
    )


def _wildcard(prefix: str) -> Pattern[str]:
    """Return the pattern for `/auth/*/callback` with any segment, and for what follows its next slash."""
    return compile("[^/]++".join(map(escape, prefix.split("*"))) + r"(?:/[\s\S]*+)?")


def _routes(app: BaseApp, group: RouteGroup) -> Iterable[tuple[DeclaredRoute, Route]]:
    policies = group.body_policies
    unknown = policies.keys() - {rule.endpoint for rule in app.declared}
    if unknown:
        raise ValueError(f"body policies for no endpoint: {sorted(unknown)}")
    for rule in app.declared:
        arguments = tuple(name for _, name in _ARGUMENT.findall(rule.rule))
        policy = policies.get(rule.endpoint, app.default_body_policy)
        yield rule, Route(app, template_of(rule.rule), _handler(app, group, rule.endpoint), arguments, policy)


def _handler(app: BaseApp, group: RouteGroup, endpoint: str) -> Callable[..., object]:
    """Return a function that calls the Klein endpoint for its route group; the app's first request adds it to Klein."""

    def handle(request: Request, **arguments: str) -> object:
        return app.endpoints[endpoint](group, request, **arguments)

    return handle


def _kind(match: Match[str]) -> str:
    converter = match[1] or "string"
    if converter not in _RANKS:
        raise ValueError(f"unknown converter: {converter}")
    return f"<{converter}>"


def _shape(prefixes: Prefixes, app: BaseApp, segments: Segments) -> RouteShape:
    if "<path>" in segments[:-1]:
        raise ValueError(f"ambiguous rule: {'/'.join(segments)}")
    literal = "/".join(takewhile(lambda segment: not segment.startswith("<"), segments)) + "/"
    others = any(prefix.startswith(literal) for prefix, other in prefixes.literal if other is not app)
    return RouteShape(app, _pattern(segments), others or prefixes.app_of(literal) is not app, {})


def _pattern(segments: Segments) -> Pattern[str]:
    """Return the pattern for a path of these segments, with a group for each argument."""
    parts = (f"({_CONVERTERS[each[1:-1]]})" if each.startswith("<") else escape(each) for each in segments)
    return compile("/".join(parts))


def _insert(routes: dict[str, T], methods: Iterable[str], route: T, rule: DeclaredRoute) -> None:
    for method in methods:
        if routes.setdefault(method, route) is not route:
            raise ValueError(f"ambiguous rule: {method} {rule.rule}")


def _is_within(rule: Segments, prefixes: Iterable[str]) -> bool:
    """Return whether some path of a rule begins with one of the prefixes."""
    for prefix in prefixes:
        if prefix.endswith("$"):
            if rule == tuple(prefix[:-1].split("/")):
                return True
            continue
        start = tuple("<text>" if segment == "*" else segment for segment in prefix.removesuffix("/").split("/"))
        if _overlap(rule, (*start, "<path>")) or (not prefix.endswith("/") and _overlap(rule, start)):
            return True
    return False


def _check_ambiguity(shapes: Iterable[Segments]) -> None:
    for one, other in combinations(shapes, 2):
        if _overlap(one, other) and not (_precedes(one, other) or _precedes(other, one)):
            raise ValueError(f"ambiguous rules: {'/'.join(one)} and {'/'.join(other)}")


def _overlap(one: Segments, other: Segments) -> bool:
    """Return whether some path fits both."""
    shorter, longer = sorted((one, other), key=len)
    if len(shorter) < len(longer) and shorter[-1] != "<path>":
        return False
    return all(_fit(a, b) for a, b in zip(shorter, longer, strict=False))


def _fit(one: str, other: str) -> bool:
    """Return whether one segment of a path can be both of these."""
    for literal, argument in ((one, other), (other, one)):
        if not literal.startswith("<") and argument == "<token>":
            return fullmatch(TokenConverter.regex, literal) is not None
    return one == other or "<" in (one[:1], other[:1])


def _precedes(one: Segments, other: Segments) -> bool:
    """Return whether `one` is at least as specific as `other` in each segment that both have."""
    return all(a <= b for a, b in zip(_ranks(one), _ranks(other), strict=False))


def _ranks(segments: Segments) -> tuple[int, ...]:
    return tuple(_RANKS[segment[1:-1]] if segment.startswith("<") else 0 for segment in segments)
