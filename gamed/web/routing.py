"""From a path to a handler: the room with the longest prefix, then that room's own map.

In a prefix `*` stands for one segment; such a prefix counts only where no other does.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from re import DOTALL, Pattern, compile, escape

from msgspec import Struct, field
from msgspec.structs import replace
from werkzeug.exceptions import MethodNotAllowed, NotFound
from werkzeug.routing import MapAdapter

from gamed.structs import hides
from gamed.web.app import App, JsonApp, PagesApp, Room, make_app
from gamed.web.errors import RouteNotFound, WebError, WrongMethod
from gamed.web.gates import Gate
from gamed.web.request import Request

_METHOD = compile(r"[A-Z]+")
_CONVERTER = compile(r"<(?:[^:<>]*:)?([^<>]*)>")


@hides("kwargs")
class Found(Struct, frozen=True):
    """Who answers a request. `refusal` is raised before its gate is asked."""

    app: App
    template: str = "-"
    """`/game/saves/{slot}`; what a log line may say of a path."""
    handler: Callable[..., object] | None = None
    gate: Gate = JsonApp.default_gate
    kwargs: Mapping[str, str] = field(default_factory=dict)
    methods: tuple[str, ...] = ()
    """What the path answers, when it exists."""
    refusal: WebError | None = None

    def call(self, request: Request, kwargs: Mapping[str, str] | None = None) -> object:
        """`kwargs` in place of its own."""
        if self.handler is None:
            raise RouteNotFound
        return self.handler(request, **(self.kwargs if kwargs is None else kwargs))

    def answer_error(self, request: Request, error: BaseException) -> bytes:
        return self.app.answer_error(request, error)


class Doorway:
    """A room, ready to be asked."""

    def __init__(self, room: Room) -> None:
        self.room = room
        self.app = app = app_of(room)
        self._gates = dict(room.gates)
        self._map: MapAdapter = app.url_map.bind("-")
        self._plain: dict[tuple[str, str], Found] = {}
        unknown = self._gates.keys() - app.endpoints.keys()
        if unknown:
            raise ValueError(f"gates for no endpoint: {sorted(unknown)}")

    def find(self, path: str, method: str) -> Found:
        """Of this room's routes. Paths without arguments are matched once: Werkzeug's matcher leaves garbage."""
        found = self._plain.get((path, method)) or self._match(path, method)
        if found.refusal is None and not found.kwargs:
            self._plain[path, method] = found
        return found

    def _match(self, path: str, method: str) -> Found:
        """Methods are case-sensitive here; a stray or missing last slash is another path."""
        known = method if _METHOD.fullmatch(method) else "-"
        try:
            rule, kwargs = self._map.match(path, method=known, return_rule=True)
        except MethodNotAllowed:
            return self._wrong_method(path)
        except NotFound:
            return Found(self.app, refusal=RouteNotFound())
        if rule.is_leaf == path.endswith("/"):
            return Found(self.app, refusal=RouteNotFound())
        if method == "HEAD" and not self.app.answers_head:
            return self._wrong_method(path)
        handler = partial(self.app.execute_endpoint, rule.endpoint)
        gate = self._gates.get(rule.endpoint, self.app.default_gate)
        return Found(self.app, template_of(rule.rule), handler, gate, kwargs, tuple(rule.methods or ()))

    def _wrong_method(self, path: str) -> Found:
        methods = {*self._map.allowed_methods(path)} - (set() if self.app.answers_head else {"HEAD"})
        others = [self._match(path, method) for method in sorted(methods)]
        found = next((found for found in others if found.refusal is None), None)
        if found is None:
            return Found(self.app, refusal=RouteNotFound())
        return replace(found, methods=tuple(sorted(methods)), refusal=WrongMethod(sorted(methods)))


def app_of(room: Room) -> App:
    """The room's app, bound to it."""
    app = room.app
    if not isinstance(app, App):
        raise TypeError("a room's app comes from make_app or make_pages_app")
    return app


class Routes:
    """All rooms."""

    def __init__(self, rooms: Sequence[Room]) -> None:
        doorways = [(prefix, Doorway(room)) for room in rooms for prefix in room.prefixes]
        doorways.sort(key=lambda pair: len(pair[0]), reverse=True)
        self._doorways = [(prefix, doorway) for prefix, doorway in doorways if "*" not in prefix]
        self._patterns = [(_pattern(prefix), doorway) for prefix, doorway in doorways if "*" in prefix]
        self.nowhere = Found(make_app())

    @property
    def doorways(self) -> Sequence[tuple[str, Doorway]]:
        """Those of prefixes without `*`, the longest first."""
        return self._doorways

    def find(self, path: str, method: str) -> Found:
        """Never raises; a path of no room is answered as JSON."""
        doorway = self._doorway(path)
        found = None if doorway is None else doorway.find(path, method)
        if found is None or isinstance(found.refusal, RouteNotFound):
            return self.lost(path, method, RouteNotFound())
        return found

    def lost(self, path: str, method: str, refusal: WebError) -> Found:
        """Return a refusal for a path without a route, in the form of the room that the path lies in.

        Below the pages only GET and HEAD are answered with a page: any other method comes from a program that has
        built a wrong path, and that can read a problem.
        """
        doorway = self._doorway(path)
        page = doorway is not None and isinstance(doorway.app, PagesApp)
        if doorway is None or (page and method not in {"GET", "HEAD"}):
            return Found(self.nowhere.app, refusal=refusal)
        return Found(doorway.app, refusal=refusal)

    def _doorway(self, path: str) -> Doorway | None:
        for prefix, doorway in self._doorways:
            if path == prefix or path.startswith(prefix if prefix.endswith("/") else prefix + "/"):
                return doorway
        return next((doorway for pattern, doorway in self._patterns if pattern.fullmatch(path)), None)


def _pattern(prefix: str) -> Pattern[str]:
    """`/auth/*/callback` -> that path for any segment, and what follows its next slash."""
    return compile("[^/]+".join(map(escape, prefix.split("*"))) + "(/.*)?", DOTALL)


def template_of(rule: str) -> str:
    """`/game/saves/<string:slot>` -> `/game/saves/{slot}`."""
    return _CONVERTER.sub(r"{\1}", rule)
