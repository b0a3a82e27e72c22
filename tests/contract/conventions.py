"""Every answer follows the conventions (docs/protocol.md: Conventions)."""

import json
from collections.abc import Iterator, Mapping
from re import fullmatch
from typing import Any

from msgspec import Struct

from gamed.http.problems import CODES
from tests.contract.document import PROBLEM

SECRETS = (b"gat_", b"grc_", b"gds_")
GIVEN = ("/auth/login", "/auth/login/collect", "/auth/session/refresh")
"""Paths whose answers have credentials."""


class Answer(Struct, frozen=True):
    """Header names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def complaints(method: str, path: str, answer: Answer) -> list[str]:
    """Return a line for each convention (docs/protocol.md: Conventions) that this answer breaks."""
    return [*_framing(method, answer), *_family(path, answer), *_refusal(path, answer), *_secrets(path, answer)]


def _framing(method: str, answer: Answer) -> Iterator[str]:
    headers = answer.headers
    if "transfer-encoding" in headers:
        yield "chunked"
    if answer.status in (204, 304):
        if "content-length" in headers or answer.body:
            yield f"{answer.status} with a body or its length"
    elif method != "HEAD" and headers.get("content-length") != str(len(answer.body)):
        yield f"Content-Length {headers.get('content-length')} of {len(answer.body)} bytes"
    if "server" in headers:
        yield "Server"
    if headers.get("x-content-type-options") != "nosniff" or "date" not in headers:
        yield "without Date or nosniff"
    if not fullmatch("[0-9a-f]{24}", headers.get("x-request-id", "")):
        yield "X-Request-Id"
    is_json = headers.get("content-type", "").startswith(("application/json", PROBLEM))
    if headers.get("gamed-protocol") != ("1.0" if is_json else None):
        yield "Gamed-Protocol belongs on JSON, and nowhere else"


def _family(path: str, answer: Answer) -> Iterator[str]:
    kept = answer.headers.get("cache-control"), answer.headers.get("referrer-policy")
    public = path == "/auth/keys" and answer.status in (200, 304)
    if path.startswith("/auth/") and kept != ("private, max-age=3600" if public else "no-store", "no-referrer"):
        yield f"below /auth/ with {kept}"
    if 300 <= answer.status < 400 and answer.status not in (303, 304):
        yield f"a redirect with {answer.status}"


def _refusal(path: str, answer: Answer) -> Iterator[str]:
    headers = answer.headers
    if answer.status < 400:
        return
    if answer.status == 401 and not headers.get("www-authenticate", "").startswith('Bearer realm="gamed"'):
        yield "401 without WWW-Authenticate"
    if answer.status == 405 and "allow" not in headers:
        yield "405 without Allow"
    if answer.status in (429, 503) and not headers.get("retry-after", "").isdigit():
        yield f"{answer.status} without Retry-After"
    if headers.get("content-type") == PROBLEM:
        if headers.get("cache-control") != "no-store":
            yield "a problem that may be stored"
        if answer.body:
            yield from _problem(answer, json.loads(answer.body))
    elif not headers.get("content-type", "").startswith("text/html"):
        yield f"a refusal as {headers.get('content-type')}"


def _problem(answer: Answer, body: dict[str, Any]) -> Iterator[str]:
    row = CODES.get(body["code"])
    if row is None:
        yield f"code {body['code']} is not in the table"
        return
    if body["title"] != row.title or body["type"] != f"urn:gamed:problem:{body['code']}":
        yield f"title or type of {body['code']}"
    if body["status"] != answer.status or not body["detail"]:
        yield f"status {body['status']} in an answer of {answer.status}, detail {body['detail']!r}"
    if body["request_id"] != answer.headers["x-request-id"]:
        yield "request_id is not X-Request-Id"
    wait = body.get("retry_after")
    if (None if wait is None else str(wait)) != answer.headers.get("retry-after"):
        yield "retry_after is not Retry-After"


def _secrets(path: str, answer: Answer) -> Iterator[str]:
    said = answer.body + " ".join(answer.headers.values()).encode()
    if path not in GIVEN and any(secret in said for secret in SECRETS):
        yield "a credential where none is handed out"
