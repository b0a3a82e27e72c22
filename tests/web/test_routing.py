"""From a path to a room and a handler."""

from collections.abc import Mapping
from typing import Any

from attrs import field, frozen
from klein import Klein
from twisted.trial.unittest import SynchronousTestCase
from werkzeug.exceptions import Forbidden, MethodNotAllowed, NotFound

from gamed.web.app import make_app
from gamed.web.gates import Gate, SmallBodyGate
from gamed.web.json_io import write_json
from gamed.web.request import Request
from gamed.web.routing import Routes, template_of
from tests.support.http import Browser
from tests.web.rooms import CollectRoom, EchoRoom, PagesRoom


@frozen
class PlainRoom:
    """Made without make_app."""

    app = Klein()
    prefixes = ("/plain",)
    gates: Mapping[str, Gate] = field(factory=dict)


@frozen
class OldErrorsRoom:
    """A handler that raises what Klein and Werkzeug raise."""

    app = make_app()
    prefixes = ("/old/",)
    gates: Mapping[str, Gate] = field(factory=dict)

    @app.route("/old/<string:name>", methods=["GET"])
    def old(self, request: Request, name: str) -> bytes:
        raise {"missing": NotFound(), "method": MethodNotAllowed(["PUT"]), "forbidden": Forbidden()}[name]


@frozen
class NamedRoom:
    """Two rooms of one class are two rooms."""

    app = make_app()
    prefixes: tuple[str, ...]
    gates: Mapping[str, Gate] = field(factory=dict)

    @app.route("/<string:name>/who", methods=["GET"])
    async def who(self, request: Request, name: str) -> bytes:
        return write_json(request, 200, {"me": self.prefixes[0], "name": name})


class RoutingTests(SynchronousTestCase):
    def template(self, path: str, method: str = "GET") -> tuple[str, str | None]:
        found = Routes([EchoRoom(), PagesRoom(), CollectRoom()]).find(path, method)
        return found.template, type(found.refusal).__name__ if found.refusal else None

    def test_longest_prefix(self) -> None:
        """By whole segments, in whatever order the rooms are given."""
        self.assertEqual(self.template("/auth/page/collect", "POST"), ("/auth/page/collect", None))
        self.assertEqual(self.template("/auth/page/" + "a" * 22), ("/auth/page/{token}", None))
        self.assertEqual(self.template("/auth/pagecollect"), ("-", "RouteNotFound"))
        self.assertEqual(self.template("/auth/echo/x"), ("-", "RouteNotFound"))

    def test_templates(self) -> None:
        """Arguments by name, also of a path that is asked with a wrong method."""
        self.assertEqual(self.template("/echo/name/anna", "PUT"), ("/echo/name/{name}", "WrongMethod"))
        self.assertEqual(template_of("/a/<b>/<token:c>/<int(min=1):d>"), "/a/{b}/{c}/{d}")

    def test_refusals_are_new_each_time(self) -> None:
        """A raised exception keeps its frames; a shared one would keep all of them."""
        routes = Routes([EchoRoom()])
        for path in ("/nope", "/echo/nope"):
            self.assertIsNot(routes.find(path, "GET").refusal, routes.find(path, "GET").refusal)

    def test_a_room_by_its_instance(self) -> None:
        """Handlers run on the room that was given."""
        browser = Browser([NamedRoom(("/a",)), NamedRoom(("/b",))])
        answers: list[Any] = [browser.get(path).json for path in ("/a/who", "/b/who", "/a/who")]
        self.assertEqual([answer["me"] for answer in answers], ["/a", "/b", "/a"])

    def test_mistakes_of_a_room_show_at_start(self) -> None:
        """An app of another make, a gate for no endpoint."""
        self.assertRaises(TypeError, Routes, [PlainRoom()])
        self.assertRaises(ValueError, Routes, [EchoRoom(gates={"nobody": SmallBodyGate("text/plain")})])

    def test_errors_of_werkzeug_in_a_handler(self) -> None:
        """Klein's own errors are problems too; one that we have no code for is a 500."""
        browser = Browser([OldErrorsRoom()], crashes=True)
        self.assertEqual(browser.get("/old/missing").code, "route_not_found")
        answer = browser.get("/old/method")
        self.assertEqual((answer.code, answer.headers["allow"]), ("method_not_allowed", "PUT"))
        self.assertEqual(browser.get("/old/forbidden").code, "internal_error")
