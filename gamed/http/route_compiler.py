"""The route table, compiled once at the start from the rules and endpoints of all Klein apps.

Two mistakes are errors here. An ambiguous rule: two rules fit the same path, and neither is more specific in every
segment. A rule outside the prefixes of its route group: no request would ever get to it.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import combinations, takewhile
from re import Match, Pattern, compile, escape
from typing import Final

from gamed.http.app import BaseApp, RouteGroup, make_app
from gamed.http.problems import Renderer, render_json
from gamed.http.site import Prefixes, Route, RouteMatch, RouteShape, RouteTable

Segments = tuple[str, ...]
"""The segments of a rule: literal text, or the kind of an argument as `<string>`."""
_ARGUMENT = compile(r"<(?:([a-z]++)(?:\([^()<>]*+\))?:)?([a-z_][a-z_0-9]*+)>")
_TOKEN = compile("[A-Za-z0-9_-]{22}")
_SEGMENT = r"[^/\x00-\x1f\x7f-\x9f]++"
"""One segment without control characters (C0, DEL, C1)."""
_CONVERTERS: Final = {
    "token": _TOKEN.pattern,
    "string": _SEGMENT,
    "text": "[^/]++",
    "path": f"(?:{_SEGMENT}/)*+{_SEGMENT}",
}
_RANKS: Final = {f"<{kind}>": rank for rank, kind in enumerate(_CONVERTERS, 1)}
"""A literal segment has 0. Of two rules that fit a path, the one with lower ranks, compared from the left, is taken."""


def compile_routes(groups: Sequence[RouteGroup], render_unknown: Renderer = render_json) -> RouteTable:
    """Return the table; `render_unknown` makes the responses for paths of no group.

    Raise ValueError for a rule that cannot work, or a body policy for an unknown endpoint.
    """
    apps = [group.app for group in groups]  # once: each access makes a new app, and it is compared by identity
    if not all(isinstance(app, BaseApp) for app in apps):
        raise TypeError("the app of a route group comes from make_app or make_html_app")
    prefixes = Prefixes.of([(name, app) for app, group in zip(apps, groups, strict=True) for name in group.prefixes])
    literal: dict[str, Mapping[str, RouteMatch]] = {}
    by_first: dict[str, list[RouteShape]] = {}
    any_first: list[RouteShape] = []
    for app, group in zip(apps, groups, strict=True):
        for segments, routes in sorted(_rules(app, group, prefixes).items(), key=lambda rule: _ranks(rule[0])):
            if not any(_ranks(segments)):
                matches = {method: RouteMatch(app, route.template, route) for method, route in routes.items()}
                literal["/".join(segments)] = matches
            elif segments[1] in _RANKS:
                any_first.append(_shape(prefixes, app, segments, routes))
            else:
                by_first.setdefault(segments[1], []).append(_shape(prefixes, app, segments, routes))
    every_first = {segment: [*found, *any_first] for segment, found in by_first.items()}
    fallback = make_app()
    fallback.render_problem = render_unknown
    return RouteTable(prefixes, literal, every_first, any_first, fallback)


def template_of(rule: str) -> str:
    """Return `/game/saves/{slot}` for `/game/saves/<string:slot>`."""
    return _ARGUMENT.sub(r"{\2}", rule)


def _rules(app: BaseApp, group: RouteGroup, prefixes: Prefixes) -> Mapping[Segments, dict[str, Route]]:
    """Return the routes of a group by the segments of their rules and by method, as Klein has them."""
    rules: dict[Segments, dict[str, Route]] = {}
    if unknown := group.body_policies.keys() - app.endpoints.keys():
        raise ValueError(f"body policies for no endpoint: {sorted(unknown)}")
    failure_page = None if app.failure_page is None else partial(app.failure_page, group)
    for rule in app.url_map.iter_rules():
        if rule.methods is None:
            raise ValueError(f"{rule.rule} is without methods")
        arguments = tuple(name for _, name in _ARGUMENT.findall(rule.rule))
        segments = tuple(_ARGUMENT.sub(_kind, segment) for segment in rule.rule.split("/"))
        within = any(_is_within(segments, prefix) for prefix in group.prefixes)
        if not (within and (arguments or prefixes.app_of(rule.rule) is app)):
            raise ValueError(f"{rule.rule} is outside the prefixes of its route group")
        handler = partial(app.endpoints[rule.endpoint], group)  # Klein's, which starts a coroutine
        policy = group.body_policies.get(rule.endpoint, app.default_body_policy)
        route = Route(app, template_of(rule.rule), handler, arguments, policy, failure_page)
        for method in rule.methods - (set() if app.answers_head else {"HEAD"}):
            if rules.setdefault(segments, {}).setdefault(method, route) is not route:
                raise ValueError(f"ambiguous rule: {method} {rule.rule}")
    for one, other in combinations(rules, 2):
        ranks = [*zip(_ranks(one), _ranks(other), strict=False)]
        if _overlap(one, other) and any(a < b for a, b in ranks) and any(a > b for a, b in ranks):
            raise ValueError(f"ambiguous rules: {'/'.join(one)} and {'/'.join(other)}")
    return rules


def _kind(match: Match[str]) -> str:
    kind = f"<{match[1] or 'string'}>"
    if kind not in _RANKS:
        raise ValueError(f"unknown converter: {kind}")
    return kind


def _shape(prefixes: Prefixes, app: BaseApp, segments: Segments, routes: dict[str, Route]) -> RouteShape:
    if "<path>" in segments[:-1]:
        raise ValueError(f"ambiguous rule: {'/'.join(segments)}")
    start = "/".join(takewhile(lambda segment: segment not in _RANKS, segments)) + "/"
    others = any(prefix.startswith(start) for prefix, other in prefixes.literal if other is not app)
    return RouteShape(app, _pattern(segments), others or prefixes.app_of(start) is not app, routes)


def _pattern(segments: Segments) -> Pattern[str]:
    """Return the pattern for a path of these segments, with a group for each argument."""
    return compile("/".join(f"({_CONVERTERS[each[1:-1]]})" if each in _RANKS else escape(each) for each in segments))


def _is_within(rule: Segments, prefix: str) -> bool:
    if prefix.endswith("$"):
        return rule == tuple(prefix[:-1].split("/"))
    start = tuple("<text>" if segment == "*" else segment for segment in prefix.removesuffix("/").split("/"))
    return _overlap(rule, (*start, "<path>")) or (not prefix.endswith("/") and _overlap(rule, start))


def _overlap(one: Segments, other: Segments) -> bool:
    """Return whether some path fits both."""
    shorter, longer = sorted((one, other), key=len)
    if len(shorter) < len(longer) and shorter[-1] != "<path>":
        return False
    return all(_fit(a, b) for a, b in zip(shorter, longer, strict=False))


def _fit(one: str, other: str) -> bool:
    """Return whether one segment of a path can be both of these."""
    for literal, argument in ((one, other), (other, one)):
        if literal not in _RANKS and argument == "<token>":
            return _TOKEN.fullmatch(literal) is not None
    return one == other or one in _RANKS or other in _RANKS


def _ranks(segments: Segments) -> tuple[int, ...]:
    return tuple(_RANKS.get(segment, 0) for segment in segments)
