"""Where plain requests go: one look-up, or one pattern, compiled from the maps of the rooms (see gamed.web.fast)."""

from collections.abc import Mapping, Sequence
from re import Pattern, compile, escape

from msgspec.structs import replace
from werkzeug.routing import Rule

from gamed.web.app import JsonApp
from gamed.web.routing import Doorway, Found

_ARGUMENT = compile(r"<(?:string:)?([a-z_][a-z_0-9]*)>")
_REST = compile(r"<path:([a-z_][a-z_0-9]*)>")


class Table:
    """Methods and paths of the JSON rooms, compiled from their maps; where a map is not plain, its room is left out.

    What is found here is what the map finds; what is not here may still be a route.
    """

    def __init__(self, doorways: Sequence[tuple[str, Doorway]]) -> None:
        self._whole: dict[tuple[str, str], Found] = {}
        self._shapes: dict[tuple[str, str], list[tuple[Pattern[str], Found]]] = {}
        """By method and the first segment, in which no rule has an argument."""
        for doorway in {doorway for _, doorway in doorways if isinstance(doorway.app, JsonApp)}:
            others = [prefix for prefix, other in doorways if other is not doorway]
            for rule in _plain_rules(doorway, others):
                for method in rule.methods or ():
                    self._add(doorway, rule, method)

    def _add(self, doorway: Doorway, rule: Rule, method: str) -> None:
        found = doorway.find(_REST.sub("-", _ARGUMENT.sub("-", rule.rule)), method)
        if method == "HEAD" or found.refusal is not None:
            return
        found = replace(found, handler=getattr(doorway.room, rule.endpoint), kwargs={})
        if "<" in rule.rule:
            pattern = _ARGUMENT.sub(r"(?P<\1>[^/]+)", escape(rule.rule))
            pattern = _REST.sub(r"(?P<\1>(?:[^/]+/)*[^/]+)", pattern)
            self._shapes.setdefault((method, _first(rule.rule)), []).append((compile(pattern), found))
        else:
            self._whole[method, rule.rule] = found

    def find(self, method: str, path: str) -> tuple[Found, Mapping[str, str]] | None:
        """The route and its arguments."""
        whole = self._whole.get((method, path))
        if whole is not None:
            return whole, whole.kwargs
        for pattern, found in self._shapes.get((method, _first(path)), ()):
            match = pattern.fullmatch(path)
            if match is not None:
                return found, match.groupdict()
        return None


def _first(path: str) -> str:
    return path.split("/", 2)[1]


def _plain_rules(doorway: Doorway, others: Sequence[str]) -> Sequence[Rule]:
    """All rules of a room, when each segment is a text or an argument of any text, or the last one any further
    segments, and only one rule fits a path, or of two the first.

    `others` are the prefixes of other rooms, which may not reach into an argument.
    """
    rules = sorted(doorway.app.url_map.iter_rules(), key=lambda rule: "<path:" in rule.rule)
    shapes = [rule.rule.split("/") for rule in rules]
    plain = all(_is_plain(segment) for shape in shapes for segment in shape[:-1]) and all(
        _is_plain(shape[-1]) or _REST.fullmatch(shape[-1]) for shape in shapes
    )
    begins = [rule.rule.partition("<")[0] for rule in rules if "<" in rule.rule]
    crossed = any(prefix.startswith(begin) for prefix in others for begin in begins)
    return () if not plain or crossed or _ambiguous(shapes) else rules


def _is_plain(segment: str) -> bool:
    return "<" not in segment or _ARGUMENT.fullmatch(segment) is not None


def _ambiguous(shapes: Sequence[Sequence[str]]) -> bool:
    """Whether one path could be of two different rules, and the map would not choose as is done here."""
    return any(one != other and _both_fit(one, other) for one in shapes for other in shapes)


def _both_fit(one: Sequence[str], other: Sequence[str]) -> bool:
    """A rule for any further segments is asked last; as by the map, where the other has a text for its argument."""
    rest, other_rest = "<path:" in one[-1], "<path:" in other[-1]
    pairs = list(zip(one[:-1] if rest else one, other, strict=False))
    alike = all(a == b or ("<" in a + b and a != "" != b) for a, b in pairs)
    if rest and not other_rest:
        return alike and len(other) >= len(one) and any("<" in b and "<" not in a for a, b in pairs)
    return alike and (rest or (len(one) == len(other) and not other_rest))
