"""A path is routed to a route group and a handler."""

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast

from klein import Klein
from msgspec import Struct, field
from twisted.trial.unittest import SynchronousTestCase
from werkzeug.exceptions import Forbidden, MethodNotAllowed, NotFound

from gamed.http import errors
from gamed.http.app import RouteGroup, make_app, make_html_app
from gamed.http.bodies import BodyPolicy, SmallBodyPolicy
from gamed.http.json_body import write_json
from gamed.http.request import Request
from gamed.http.route_compiler import compile_routes, template_of
from gamed.http.site import RouteTable
from tests.http.apps import CollectRoutes, EchoRoutes, PageRoutes, plain_problem_page
from tests.support.http import Browser

TOKEN = "A" * 21 + "b"


class PlainGroup(Struct, frozen=True):
    """A route group whose app make_app() has not made."""

    app = Klein()
    prefixes = ("/plain",)
    body_policies: Mapping[str, BodyPolicy] = field(default_factory=dict)


class KleinErrorsGroup(Struct, frozen=True):
    """A handler that raises what Klein and Werkzeug raise."""

    app = make_app()
    prefixes = ("/old/",)
    body_policies: Mapping[str, BodyPolicy] = field(default_factory=dict)

    @app.route("/old/<string:name>", methods=["GET"])
    def old(self, request: Request, name: str) -> bytes:
        raise {"missing": NotFound(), "method": MethodNotAllowed(["PUT"]), "forbidden": Forbidden()}[name]


def late_page(group: "FailingGroup", request: Request, error: Exception) -> bytes | None:
    """Return the page of one error, with what the group knows."""
    request.setResponseCode(410)
    return group.page if isinstance(error, TooLate) else None


class TooLate(errors.RouteNotFound):
    """An error with a page of its own."""


class FailingGroup(Struct, frozen=True):
    """Browser routes with a failure page."""

    app = make_html_app(plain_problem_page, failure_page=late_page)
    prefixes = ("/fail/",)
    body_policies: Mapping[str, BodyPolicy] = field(default_factory=dict)
    page: bytes = b"<p>too late"

    @app.route("/fail/<string:name>", methods=["GET"])
    async def fail(self, request: Request, name: str) -> bytes:
        request.setHeader("Refresh", "1")
        raise {"late": TooLate(), "missing": errors.RouteNotFound()}[name]


class NamedGroup(Struct, frozen=True):
    """A route group that is used twice with different values."""

    app = make_app()
    prefixes: tuple[str, ...]
    body_policies: Mapping[str, BodyPolicy] = field(default_factory=dict)

    @app.route("/<string:name>/who", methods=["GET"])
    async def who(self, request: Request, name: str) -> bytes:
        return write_json(request, 200, {"me": self.prefixes[0], "name": name})


class RoutingTests(SynchronousTestCase):
    def template(self, path: str, method: str = "GET") -> tuple[str, str | None]:
        match = compile_routes([EchoRoutes(), PageRoutes(), CollectRoutes()]).find(method, path)
        return match.template, type(match.refusal).__name__ if match.refusal else None

    def test_longest_prefix(self) -> None:
        """Prefixes match whole segments, in any order of the groups."""
        self.assertEqual(self.template("/auth/page/collect", "POST"), ("/auth/page/collect", None))
        self.assertEqual(self.template("/auth/page/" + "a" * 22), ("/auth/page/{token}", None))
        self.assertEqual(self.template("/auth/pagecollect"), ("-", "RouteNotFound"))
        self.assertEqual(self.template("/auth/echo/x"), ("-", "RouteNotFound"))

    def test_templates(self) -> None:
        """Arguments are found by name, also for a wrong method."""
        self.assertEqual(self.template("/echo/name/anna", "PUT"), ("/echo/name/{name}", "MethodNotAllowed"))
        self.assertEqual(template_of("/a/<b>/<token:c>/<int(min=1):d>"), "/a/{b}/{c}/{d}")

    def test_refusals_are_new_each_time(self) -> None:
        """Each refusal is a new exception, because a shared one would keep all frames."""
        table = compile_routes([EchoRoutes()])
        for method, path in (("GET", "/nope"), ("GET", "/echo/nope"), ("PUT", "/echo/text"), ("PUT", "/echo/name/a")):
            refusal = table.find(method, path).refusal
            self.assertIsNotNone(refusal)
            self.assertIsNot(refusal, table.find(method, path).refusal)

    def test_a_group_by_its_instance(self) -> None:
        """Handlers run on their own route group."""
        browser = Browser([NamedGroup(("/a",)), NamedGroup(("/b",))])
        answers: list[Any] = [browser.get(path).json for path in ("/a/who", "/b/who", "/a/who")]
        self.assertEqual([answer["me"] for answer in answers], ["/a", "/b", "/a"])

    def test_mistakes_of_a_group_are_found_at_start(self) -> None:
        """A foreign app and a policy for an unknown endpoint are refused."""
        self.assertRaises(TypeError, compile_routes, [cast(RouteGroup, PlainGroup())])
        routes = EchoRoutes(body_policies={"nobody": SmallBodyPolicy("text/plain")})
        self.assertRaises(ValueError, compile_routes, [routes])

    def test_rules_outside_the_prefixes(self) -> None:
        """A rule of which no path begins with a prefix of its group is refused; its requests would get 404."""
        for prefix, inside, outside in (
            ("/a/", ["/a/", "/a/b", "/a/<x>", "/<x>/b", "/<path:p>"], ["/", "/a", "/b", "/ab/c", "/b/<x>", "/<x>"]),
            ("/a", ["/a", "/a/b", "/a/<path:p>", "/<x>", "/<x>/b"], ["/ab", "/b/<x>", "/b/<path:p>"]),
            ("/a/*/c", ["/a/<x>/c", "/a/b/c", "/a/<text:x>/c/<y>"], ["/a/<x>", "/a/<x>/d", "/b/<x>/c"]),
            ("/a/$", ["/a/"], ["/", "/a", "/a/b", "/a/<x>", "/<x>/"]),
        ):
            for rule in inside:
                self.assertTrue(compile_routes([group(rule, prefixes=[prefix])]))
            for rule in outside:
                with self.assertRaises(ValueError, msg=rule):
                    compile_routes([group(rule, prefixes=[prefix])])
        other = group("/a/b/c", prefixes=["/a/b/"])
        with self.assertRaisesRegex(ValueError, "/a/b/d is outside the prefixes of its route group"):
            compile_routes([group("/a/b/d", prefixes=["/a/"]), other])

    def test_wildcard_prefix(self) -> None:
        """A prefix with a wildcard wins over one that ends before the wildcard, not over a longer one."""
        pages, images = group("/a/<token:x>", prefixes=["/a/"]), group("/a/<token:x>/i", prefixes=["/a/*/i"])
        longer = group("/a/b", prefixes=["/a/b"])
        for groups in ([pages, images, longer], [longer, images, pages]):
            table, token = compile_routes(groups), "t" * 22
            self.assertEqual(table.find("GET", f"/a/{token}/i").template, "/a/{x}/i")
            apps = {"/a/short/i": images, "/a/short/i/j": images, "/a/short/j": pages, "/a/b/i": longer}
            for path, expected in apps.items():
                self.assertIs(table.find("GET", path).app, expected.app, path)

    def test_exact_prefix(self) -> None:
        """A prefix with `$` is one path: it takes no path from another group, not even from a wildcard."""
        callbacks, home = group("/a/<x>/c", prefixes=["/a/*/c"]), group("/", "/a/", prefixes=["/$", "/a/$"])
        table = compile_routes([callbacks, home])
        self.assertEqual(table.find("GET", "/a/b/c").template, "/a/{x}/c")
        for path in ("/", "/a/"):
            self.assertIs(table.find("GET", path).app, home.app)
        for path in ("/a", "/b", "/a/b", "//"):
            self.assertIs(table.find("GET", path).app, table.fallback)

    def test_klein_has_the_routes(self) -> None:
        """An app has its rules and endpoints as soon as its class is there, as any Klein app."""
        app = EchoRoutes.app
        rules = {rule.endpoint: (rule.rule, rule.methods) for rule in app.url_map.iter_rules()}
        self.assertEqual(rules["echo_name"], ("/echo/name/<string:name>", {"GET", "HEAD"}))
        self.assertEqual(rules.keys(), app.endpoints.keys())

    def test_failure_page(self) -> None:
        """A browser route's errors get the page of its group, with the fields that were set; others those of tables."""
        browser = Browser([FailingGroup()], crashes=True)
        late, missing, crash = (browser.get(f"/fail/{name}") for name in ("late", "missing", "x"))
        self.assertEqual((late.status, late.body, late.headers["refresh"]), (410, b"<p>too late", "1"))
        self.assertEqual((missing.status, "refresh" in missing.headers), (404, False))
        self.assertEqual(crash.status, 500)

    def test_errors_of_werkzeug_in_a_handler(self) -> None:
        """Klein's errors are problems; one without a code is a 500."""
        browser = Browser([KleinErrorsGroup()], crashes=True)
        self.assertEqual(browser.get("/old/missing").code, "route_not_found")
        answer = browser.get("/old/method")
        self.assertEqual((answer.code, answer.headers["allow"]), ("method_not_allowed", "PUT"))
        self.assertEqual(browser.get("/old/forbidden").code, "internal_error")


def group(*rules: str, prefixes: Sequence[str] = ("/",), methods: Sequence[str] = ("GET",)) -> RouteGroup:
    """Return a route group with these rules."""
    app = make_app()
    for number, rule in enumerate(rules):
        app.route(rule, methods=[*methods], endpoint=f"rule_{number}")(lambda *_, **arguments: b"")
    return cast(RouteGroup, SimpleNamespace(app=app, prefixes=(*prefixes,), body_policies={}))


class PrecedenceTests(SynchronousTestCase):
    def found(self, table: RouteTable, path: str, method: str = "GET") -> tuple[str, dict[str, str]] | None:
        """Return the template and the arguments of the route that is found."""
        match = table.find(method, path)
        return None if match.route is None else (match.template, dict(match.kwargs))

    def test_ambiguous_rules(self) -> None:
        """Two rules that fit one path are refused at start, unless one is at least as specific in each segment."""
        for rules, ambiguous in (
            (["/a/<x>", "/b/<x>", "/a", "/a/<x>/c"], False),
            (["/a/<x>", "/a/b"], False),
            (["/a/<x>", "/<y>/b"], True),
            (["/a/", "/a/<x>"], False),
            (["/a/<path:p>", "/b/<path:p>"], False),
            (["/a/<x>", "/a/<x>/<path:p>"], False),
            (["/a/b/<x>", "/a/<x>/<path:p>"], False),
            (["/a/b/c", "/a/<path:p>"], False),
            (["/a/<path:p>", "/<x>/b"], True),
            (["/a/<path:p>", "/<x>/b/c/d"], True),
            (["/a/<path:p>", "/<x>/<path:p>"], False),
            (["/a/<x>/<path:p>", "/a/<path:p>"], False),
            (["/a/<x>", "/a/<y>"], True),
            (["/a/<x>/b", "/a/<y>/b"], True),
            (["/a/<token:x>", "/a/<y>"], False),
            (["/a/<token:x>/b", "/a/short/<y>"], False),
            (["/a/<token:x>/b", f"/a/{TOKEN}/<y>"], True),
            (["/a/<token:x>/<y>", "/a/<x>/b"], True),
            (["/a/<x>/b", "/a/<text:y>/<z>"], False),
            (["/a/<text:x>/b", "/a/<y>/<z>"], True),
            (["/a/b", "/a/b"], True),
        ):
            for order in (rules, rules[::-1]):
                with self.subTest(order):
                    if ambiguous:
                        self.assertRaises(ValueError, compile_routes, [group(*order)])
                    else:
                        compile_routes([group(*order)])

    def test_string_and_text(self) -> None:
        """A `string` comes before a `text`, in whatever order the rules are given."""
        for rules in (["/a/<x>", "/a/<text:y>"], ["/a/<text:y>", "/a/<x>"]):
            table = compile_routes([group(*rules)])
            self.assertEqual(self.found(table, "/a/b"), ("/a/{x}", {"x": "b"}))
            self.assertEqual(self.found(table, "/a/\0"), ("/a/{y}", {"y": "\0"}))

    def test_rules_that_cannot_be_compiled(self) -> None:
        """At start are refused: a path argument that is not the last, an unknown converter, a rule without methods."""
        self.assertRaises(ValueError, compile_routes, [group("/a/<path:p>/b")])
        self.assertRaises(ValueError, compile_routes, [group("/a/<int:n>")])
        app = make_app()
        app.route("/a")(lambda *_: b"")
        routes = SimpleNamespace(app=app, prefixes=("/",), body_policies={})
        self.assertRaises(ValueError, compile_routes, [cast(RouteGroup, routes)])

    def test_most_specific(self) -> None:
        """From the left a literal segment comes before a token, a token before a string, a string before a path."""
        rules = ["/a/<path:p>", "/a/<x>/<path:p>", "/a/<x>", "/a/<token:x>", "/a/b", "/a/b/<x>", "/a/b/c"]
        for order in (rules, rules[::-1]):
            table = compile_routes([group(*order)])
            self.assertEqual(self.found(table, "/a/b"), ("/a/b", {}))
            self.assertEqual(self.found(table, f"/a/{TOKEN}"), ("/a/{x}", {"x": TOKEN}))
            self.assertEqual(table.find("GET", f"/a/{TOKEN}").route, table.find("GET", f"/a/{TOKEN[::-1]}").route)
            self.assertEqual(self.found(table, "/a/short"), ("/a/{x}", {"x": "short"}))
            self.assertIsNot(table.find("GET", "/a/short").route, table.find("GET", f"/a/{TOKEN}").route)
            self.assertEqual(self.found(table, "/a/b/c"), ("/a/b/c", {}))
            self.assertEqual(self.found(table, "/a/b/d"), ("/a/b/{x}", {"x": "d"}))
            self.assertEqual(self.found(table, "/a/c/d"), ("/a/{x}/{p}", {"x": "c", "p": "d"}))
            self.assertEqual(self.found(table, "/a/b/c/d"), ("/a/{x}/{p}", {"x": "b", "p": "c/d"}))
        self.assertEqual(
            self.found(compile_routes([group("/a/<path:p>", "/<x>/<path:p>")]), "/a/b"), ("/a/{p}", {"p": "b"})
        )

    def test_methods(self) -> None:
        """A rule without the method leaves the path to the next; a 405 lists the methods of all rules that fit."""
        app = make_app()
        for method, rule in (("GET", "/a/b"), ("PUT", "/a/<x>"), ("DELETE", "/a/<path:p>")):
            app.route(rule, methods=[method], endpoint=method)(lambda *_, **arguments: b"")
        table = compile_routes([cast(RouteGroup, SimpleNamespace(app=app, prefixes=("/",), body_policies={}))])
        self.assertEqual(self.found(table, "/a/b"), ("/a/b", {}))
        self.assertEqual(self.found(table, "/a/b", "PUT"), ("/a/{x}", {"x": "b"}))
        self.assertEqual(self.found(table, "/a/b", "DELETE"), ("/a/{p}", {"p": "b"}))
        refused = table.find("POST", "/a/b")
        self.assertEqual(refused.methods, ("DELETE", "GET", "HEAD", "PUT"))
        self.assertIsInstance(refused.refusal, errors.MethodNotAllowed)

    def test_another_group(self) -> None:
        """A rule does not reach into the prefix of another group."""
        table = compile_routes([group("/a/<path:p>", prefixes=["/a/"]), group("/a/b/<x>", prefixes=["/a/b/"])])
        self.assertEqual(self.found(table, "/a/b/c"), ("/a/b/{x}", {"x": "c"}))
        self.assertIsNone(self.found(table, "/a/b/c/d"))
        self.assertEqual(self.found(table, "/a/c/d"), ("/a/{p}", {"p": "c/d"}))


class ConverterTests(SynchronousTestCase):
    table = compile_routes([group("/string/<x>", "/text/<text:x>", "/path/<path:x>", "/token/<token:x>")])

    def accepts(self, converter: str, value: str) -> bool:
        """Return whether the converter takes the value, unchanged."""
        match = self.table.find("GET", f"/{converter}/{value}")
        return match.route is not None and dict(match.kwargs) == {"x": value}

    def test_control_characters(self) -> None:
        """C0, DEL and C1 are in no `string` and in no segment of a `path`; `text` leaves them to the handler."""
        for number in (*range(0x20), *range(0x7F, 0xA0)):
            for value in (chr(number), f"a{chr(number)}b"):
                with self.subTest(value):
                    self.assertFalse(self.accepts("string", value))
                    self.assertFalse(self.accepts("path", f"a/{value}/b"))
                    self.assertTrue(self.accepts("text", value))
        for value in ("a", " ", "~", "\xa0", "\N{SNOWMAN}", "a b", "..", "%41"):
            for converter in ("string", "path", "text"):
                self.assertTrue(self.accepts(converter, value), (converter, value))

    def test_segments(self) -> None:
        """An argument is never empty; only `path` takes more than one segment, each of them with a character."""
        for value, converters in (
            ("", []),
            ("a/b", ["path"]),
            ("a/", []),
            ("/a", []),
            ("a//b", []),
            (TOKEN, ["string", "text", "path", "token"]),
            (TOKEN + "A", ["string", "text", "path"]),
            (TOKEN[1:], ["string", "text", "path"]),
            (TOKEN[1:] + ".", ["string", "text", "path"]),
            (TOKEN + "\n", ["text"]),
        ):
            with self.subTest(value):
                taken = [kind for kind in ("string", "text", "path", "token") if self.accepts(kind, value)]
                self.assertEqual(taken, converters)
