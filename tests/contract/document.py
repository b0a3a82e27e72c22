"""The document docs/openapi.yaml: its operations, references and examples."""

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from functools import cache
from pathlib import Path
from re import findall
from typing import Any

import yaml
from msgspec import Struct

PAGE = Path(__file__).parents[2] / "docs" / "openapi.yaml"
METHODS = ("get", "put", "post", "delete", "head", "patch")
PROBLEM = "application/problem+json"


@cache
def load() -> dict[str, Any]:
    """Return the document, which callers must not change."""
    return yaml.load(PAGE.read_text("utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))


class Operation(Struct, frozen=True):
    """`responses` are by status; in them and in `parameters` references were followed."""

    method: str
    path: str
    node: Mapping[str, Any]
    parameters: Sequence[Mapping[str, Any]]
    responses: Mapping[int, Mapping[str, Any]]

    @property
    def name(self) -> str:
        return f"{self.method} {self.path}"


def resolve(node: Any) -> Any:
    """Return the target of a reference; other nodes as they are."""
    while isinstance(node, dict) and "$ref" in node:
        found: Any = load()
        for step in node["$ref"].removeprefix("#/").split("/"):
            found = found[step]
        node = found
    return node


def operations() -> Iterator[Operation]:
    for path, item in load()["paths"].items():
        for method in METHODS:
            if method in item:
                answers = {int(status): resolve(answer) for status, answer in item[method]["responses"].items()}
                asked = [resolve(each) for each in (*item.get("parameters", ()), *item[method].get("parameters", ()))]
                yield Operation(method.upper(), path, item[method], asked, answers)


@cache
def _answers() -> dict[tuple[str, str], frozenset[int]]:
    return {(each.method, each.path): frozenset(each.responses) for each in operations()}


def is_described(method: str, path: str, status: int) -> bool:
    """Return whether the document allows this answer; True for a path that it does not have."""
    known = _answers().get((method, path)) or (_answers().get(("GET", path)) if method == "HEAD" else None)
    return known is None or status in known or status == 405


def codes(response: Mapping[str, Any]) -> list[str]:
    """Return the problem codes that a response may have."""
    content = response.get("content", {}).get(PROBLEM)
    return [] if content is None else content["schema"]["allOf"][1]["properties"]["code"]["enum"]


def media() -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each media type object of requests and responses with its place."""
    for operation in operations():
        for kind, content in resolve(operation.node.get("requestBody", {})).get("content", {}).items():
            yield f"{operation.name} {kind}", content
        for status, answer in operation.responses.items():
            for kind, content in answer.get("content", {}).items():
                yield f"{operation.name} {status} {kind}", content
    for name, answer in load()["components"]["responses"].items():
        for kind, content in answer.get("content", {}).items():
            yield f"{name} {kind}", content


def examples(content: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Return the examples of a media type object by name."""
    if "example" in content:
        yield "example", content["example"]
    for name, example in content.get("examples", {}).items():
        yield name, resolve(example)["value"]


def closed() -> dict[str, Any]:
    """Return the document with answers that may have only the members that it names, at any depth."""
    strict = deepcopy(load())
    schemas = strict["components"]["schemas"]
    for name in schemas.keys() - _asked():
        schemas[name] = _inside(schemas[name])
    answers = list(strict["components"]["responses"].values())
    for item in strict["paths"].values():
        for method in METHODS:
            answers += [answer for answer in item.get(method, {}).get("responses", {}).values() if "$ref" not in answer]
    for answer in answers:
        for kind, content in answer.get("content", {}).items():
            if kind.endswith("json"):
                content["schema"] = _shut(content["schema"])
    return strict


def _asked() -> set[str]:
    """Return the schemas of requests, in which clients may send further members."""
    found: set[str] = set()
    waiting = [str(each.node.get("requestBody")) for each in operations()]
    while waiting:
        named = set(findall(r"#/components/schemas/(\w+)", waiting.pop())) - found
        found |= named
        waiting += [str(load()["components"]["schemas"][name]) for name in named]
    return found


def _shut(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema whose objects have only the members that its parts name."""
    inside = schema if "$ref" in schema else _inside(schema)
    return {"allOf": [inside], "unevaluatedProperties": False} if _has_members(schema) else inside


def _inside(schema: dict[str, Any]) -> dict[str, Any]:
    """Yield the schemas within a schema; the parts of `allOf` belong to the same one."""
    inner = dict(schema)
    if "properties" in schema:
        inner["properties"] = {name: _shut(member) for name, member in schema["properties"].items()}
    if "items" in schema:
        inner["items"] = _shut(schema["items"])
    if isinstance(schema.get("additionalProperties"), dict):
        inner["additionalProperties"] = _shut(schema["additionalProperties"])
    for word in {"anyOf", "oneOf"} & schema.keys():
        inner[word] = [_shut(branch) for branch in schema[word]]
    if "allOf" in schema:
        inner["allOf"] = [part if "$ref" in part else _inside(part) for part in schema["allOf"]]
    return inner


def _has_members(schema: Any) -> bool:
    whole = resolve(schema)
    return "properties" in whole or any(map(_has_members, whole.get("allOf", ())))
