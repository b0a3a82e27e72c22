"""docs/openapi.yaml has the routes and codes of the code, and examples that the code writes and accepts."""

from collections.abc import Iterator
from copy import deepcopy
from functools import cache
from typing import Any, cast

from msgspec import convert
from openapi_schema_validator import OAS31Validator
from openapi_spec_validator import OpenAPIV31SpecValidator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012
from twisted.trial.unittest import SynchronousTestCase

from gamed.account.routes import PlayerBody
from gamed.config.game import LIMITS, SaveLimits
from gamed.http.app import BaseApp, HtmlApp
from gamed.http.problems import CODES
from gamed.http.route_compiler import template_of
from gamed.login.routes import MAX_WAIT_SECONDS, CollectBody, StartBody
from gamed.outcomes import LoginFailure
from gamed.saves.batch import parse_commit
from gamed.saves.batch_routes import CommitRequest
from gamed.sessions.routes import LogoutBody, RefreshBody
from gamed.tickets.routes import TicketBody
from tests.contract.document import closed, codes, examples, load, media, operations, resolve
from tests.support.covers import covers
from tests.support.errors import ALL_ERRORS
from tests.support.routes import public_apps

BODIES: dict[str, Any] = {
    "start_login": StartBody,
    "collect_login": CollectBody,
    "refresh_session": RefreshBody,
    "log_out": LogoutBody,
    "commit": CommitRequest,
    "rename_player": PlayerBody,
    "issue_ticket": TicketBody,
}
"""The function or type that reads the JSON body of each operation."""
ANY_PATH = {(404, "route_not_found"), (405, "method_not_allowed")}
"""The answers to a path or method that is not in the document."""
URI = "urn:gamed:openapi"


def routes() -> dict[tuple[str, str], str]:
    """Return method and path -> the handler's name; HEAD counts as GET (docs/protocol.md: Conventions)."""
    found = {}
    for app in public_apps():
        for rule in app.url_map.iter_rules():
            for method in (rule.methods or set()) - ({"HEAD"} if "GET" in (rule.methods or ()) else set()):
                found[method, template_of(rule.rule)] = rule.endpoint
    return found


def answered() -> set[tuple[int, str]]:
    """Return status and code of every problem that may be an answer."""
    return set(ALL_ERRORS.values()) | {(500, "internal_error")}


@cache
def registry() -> Registry[Any]:
    return Registry().with_resource(URI, Resource.from_contents(closed(), default_specification=DRAFT202012))


def wrong(schema: Any, value: Any, *, strictly: bool = False) -> list[str]:
    """Return the errors of a value; with `strictly` also members that the schema does not name."""
    whole = {"$id": f"{URI}:here", "allOf": [_absolute(schema)]}
    closing = {"unevaluatedProperties": False} if strictly else {}
    return [error.message for error in OAS31Validator(whole | closing, registry=registry()).iter_errors(value)]


def _absolute(node: Any) -> Any:
    if isinstance(node, dict):
        return {key: f"{URI}{value}" if key == "$ref" else _absolute(value) for key, value in node.items()}
    return [_absolute(item) for item in node] if isinstance(node, list) else node


def problems_in(value: Any) -> Iterator[dict[str, Any]]:
    """Return the problem that an example is or contains."""
    if isinstance(value, dict) and "code" in value:
        yield value
    elif isinstance(value, dict) and "problem" in value:
        yield value["problem"]


def with_stranger(value: Any) -> Iterator[Any]:
    """Yield the value with one more member in each of its objects in turn."""
    if isinstance(value, dict):
        yield {**value, "stranger": 1}
        for name in value.keys() - {"meta"}:
            yield from ({**value, name: inner} for inner in with_stranger(value[name]))
    elif isinstance(value, list):
        for n, item in enumerate(value):
            yield from ([*value[:n], inner, *value[n + 1 :]] for inner in with_stranger(item))


class DocumentTests(SynchronousTestCase):
    def test_valid(self) -> None:
        """The document is valid OpenAPI 3.1."""
        self.assertEqual([str(error) for error in OpenAPIV31SpecValidator(load()).iter_errors()], [])

    def test_everything_is_referred_to(self) -> None:
        """No component is left over; the answer to a wrong method belongs to no operation."""
        text = str(load())
        kinds = {kind: names for kind, names in load()["components"].items() if kind != "securitySchemes"}
        unused = [f"{kind}/{name}" for kind, names in kinds.items() for name in names if f"/{kind}/{name}'" not in text]
        self.assertEqual(unused, ["responses/MethodNotAllowed", "responses/PageMethodNotAllowed"])


@covers("4/16")
class CodeTests(SynchronousTestCase):
    @covers("1/3", "4/15")
    def test_routes(self) -> None:
        """Each route of the code is described under its handler's name, and nothing else is."""
        described = {(each.method, each.path): each.node["operationId"] for each in operations()}
        self.assertEqual(described, routes())

    def test_families_of_errors(self) -> None:
        """Browser routes answer refusals as pages, all others as problems.

        The address of the server has pages for browsers, and the problems of the document for all others.
        A form that is posted to a path without a token is answered with a problem: no browser route has that path. For
        everyone but the owner, the addresses of the owner's page are unknown ones.
        """
        pages = {
            template_of(rule.rule)
            for app in public_apps()
            if isinstance(app, HtmlApp)
            for rule in app.url_map.iter_rules()
            if rule.rule not in ("/", "/auth/")
        }
        for each in operations():
            kind = "text/html" if each.path in pages else "application/problem+json"
            refusals = {status: tuple(answer["content"]) for status, answer in each.responses.items() if status >= 400}
            expected = dict.fromkeys(refusals, (kind,))
            if each.path in pages and (each.method == "POST" or each.path.startswith("/auth/owner")):
                expected[404] = ("text/html", "application/problem+json")
            self.assertEqual(refusals, expected, each.name)

    def test_codes(self) -> None:
        """Every status and code that a request may be answered with belongs to an operation, and no others do."""
        described = {
            (status, code)
            for each in operations()
            for status, answer in each.responses.items()
            for code in codes(answer)
        }
        self.assertEqual(described | ANY_PATH, answered())

    def test_tables(self) -> None:
        """Each problem that an operation may answer is in the tables of its app; without a row it would be a 500."""
        apps = {
            template_of(rule.rule): cast(BaseApp, app) for app in public_apps() for rule in app.url_map.iter_rules()
        }
        for each in operations():
            known = set(apps[each.path].errors.values()) | {(500, "internal_error")}
            described = {(status, code) for status, answer in each.responses.items() for code in codes(answer)}
            self.assertEqual(described - known, set(), each.name)

    def test_outcomes(self) -> None:
        """A login that failed says why with one of the codes of the protocol; the table has no further code.

        See docs/protocol.md: Errors.
        """
        failed = load()["components"]["schemas"]["Failed"]["properties"]["problem"]["properties"]["code"]["enum"]
        self.assertEqual(failed, [outcome.value for outcome in LoginFailure])
        self.assertEqual({code for _, code in answered()} | set(failed), set(CODES))

    def test_every_operation_has_what_any_request_may_meet(self) -> None:
        """Every operation documents refusals, too."""
        for each in operations():
            self.assertLessEqual({400, 408, 413, 421, 431, 500, 503}, set(each.responses), each.name)
            if each.node["security"] and {} not in each.node["security"]:
                self.assertIn(401, each.responses, each.name)

    def test_limits_of_saves(self) -> None:
        """The overview has the limits and bounds of the code, and its defaults as the example."""
        self.assertEqual(limit_differences(load()), [])
        for step, name, value in (
            ("properties", "slots", None),
            ("properties", "slots", {"type": "integer", "minimum": 2}),
            ("properties", "slots", {"type": "integer", "minimum": 0, "maximum": 99_999}),
            ("properties", "keep_hours", {"type": "integer", "minimum": 0}),
            ("required", "slots", None),
            ("required", "keep_hours", True),
            ("example", "slots", None),
            ("example", "slots", 255),
            ("example", "keep_hours", 24),
        ):
            planted = deepcopy(load())
            _plant(planted, step, name, value)
            self.assertNotEqual(limit_differences(planted), [], f"{step} {name} {value}")

    def test_limits(self) -> None:
        """The document and the code have the same limit for the wait of a collect."""
        wait = load()["components"]["schemas"]["CollectLogin"]["properties"]["wait"]
        self.assertEqual(wait["maximum"], MAX_WAIT_SECONDS)


LATER = {"deleted_slots"}
"""Limits that servers of earlier releases do not show, so that clients cannot rely on them."""


def overview_limits(document: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the schema of the limits in `GET /game/`, and the limits of its example."""
    schema = document["components"]["schemas"]["Overview"]["properties"]["limits"]
    content = document["paths"]["/game/"]["get"]["responses"]["200"]["content"]["application/json"]
    return schema, content["examples"]["summary"]["value"]["limits"]


def limit_differences(document: dict[str, Any]) -> list[str]:
    """Return the limits that the document and the code describe differently."""
    schema, example = overview_limits(document)
    overview = {name: limit for name, limit in LIMITS.items() if limit.in_overview}
    wrong = [*(schema["properties"].keys() ^ overview), *({*schema["required"]} ^ (overview.keys() - LATER))]
    wrong += [*(example.keys() ^ {*schema["required"]})]
    for name in overview.keys() & schema["properties"].keys():
        described, limit = schema["properties"][name], overview[name]
        lowest, highest = described.get("minimum", limit.lowest), described.get("maximum", limit.highest)
        if described["type"] != "integer" or lowest > limit.lowest or highest < limit.highest:
            wrong.append(name)
    return wrong + [name for name, value in example.items() if value != getattr(SaveLimits(), name)]


def _plant(document: dict[str, Any], step: str, name: str, value: Any) -> None:
    """Change one fact about a limit; None deletes it."""
    schema, example = overview_limits(document)
    place = example if step == "example" else schema[step]
    if isinstance(place, list):
        place.append(name) if value else place.remove(name)
    elif value is None:
        del place[name]
    else:
        place[name] = value


class ExampleTests(SynchronousTestCase):
    def test_examples_fit_their_schemas(self) -> None:
        """Examples have no member that the schema does not name."""
        count = 0
        for where, content in media():
            for name, value in examples(content):
                self.assertEqual(
                    wrong(content["schema"], value, strictly=where.endswith("json")), [], f"{where} {name}"
                )
                count += 1
        self.assertGreater(count, 100)

    def test_unknown_members_do_not_fit(self) -> None:
        """An unnamed member is an error at any depth, except in the game's own JSON."""
        for where, content in media():
            for name, value in examples(content) if where.endswith(" application/json") and " 2" in where else ():
                for strange in with_stranger(value):
                    self.assertNotEqual(
                        wrong(content["schema"], strange, strictly=True), [], f"{where} {name} {strange}"
                    )

    def test_parameters_fit_their_schemas(self) -> None:
        """Examples of headers, paths and queries."""
        for name, parameter in load()["components"]["parameters"].items():
            if "schema" in parameter and "example" in parameter:
                self.assertEqual(wrong(parameter["schema"], parameter["example"]), [], name)

    def test_every_body_has_an_example(self) -> None:
        """Examples of requests, responses and problems are valid."""
        self.assertEqual(
            [where for where, content in media() if where.endswith("json") and not list(examples(content))], []
        )

    def test_every_code_has_an_example(self) -> None:
        """Examples of problems have the title and status of the table."""
        shown = [problem for _, content in media() for _, value in examples(content) for problem in problems_in(value)]
        self.assertEqual({problem["code"] for problem in shown}, set(CODES))
        allowed = answered() | {(row.status, code) for code, row in CODES.items()}
        for problem in shown:
            row = CODES[problem["code"]]
            self.assertIn((problem["status"], problem["code"]), allowed)
            self.assertEqual(problem["title"], row.title)
            self.assertEqual(problem["type"], f"urn:gamed:problem:{problem['code']}")

    def test_every_code_has_its_own_example(self) -> None:
        """An answer shows one example for each of its codes, and under its name."""
        for each in operations():
            for status, answer in each.responses.items():
                if codes(answer):
                    shown = dict(examples(answer["content"]["application/problem+json"]))
                    self.assertEqual(
                        {name: value["code"] for name, value in shown.items()}, {c: c for c in codes(answer)}
                    )
                    self.assertEqual({value["status"] for value in shown.values()}, {status}, each.name)

    def test_requests_are_taken(self) -> None:
        """The code reads each example of a JSON body."""
        read = []
        for each in operations():
            body = resolve(each.node.get("requestBody", {})).get("content", {}).get("application/json")
            if body is not None:
                read.append(each.node["operationId"])
                for name, value in examples(body):
                    self.assertTrue(convert(value, BODIES[read[-1]], strict=True), name)
        self.assertEqual(sorted(read), sorted(BODIES))

    def test_commits_are_taken(self) -> None:
        """Each entry of a commit example is complete."""
        commit = load()["paths"]["/game/commit"]["post"]["requestBody"]["content"]["application/json"]
        shown = [convert(value, CommitRequest, strict=True).writes for _, value in examples(commit)]
        self.assertEqual(
            [len(parse_commit(writes, SaveLimits())) for writes in shown], [len(writes) for writes in shown]
        )
