"""Requests as the development provider notes them, and its answers."""

from collections.abc import Mapping
from json import dumps
from typing import Any, cast
from urllib.parse import parse_qsl

from msgspec import Struct
from twisted.web.iweb import IRequest

from gamed.structs import hides

MAX_FORM_BYTES = 16 * 1024


@hides("query", "headers", "body")
class Sent(Struct, frozen=True):
    """One request as it arrived."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    """Names in lower case; a repeated field is joined by a comma."""
    body: bytes

    @classmethod
    def of(cls, request: IRequest) -> "Sent":
        raw = cast(Any, request)
        path, _, query = raw.uri.decode("latin-1").partition("?")
        headers = {
            name.decode("latin-1").lower(): ", ".join(value.decode("latin-1") for value in values)
            for name, values in raw.requestHeaders.getAllRawHeaders()
        }
        return cls(raw.method.decode("latin-1"), path, query, headers, raw.content.read(MAX_FORM_BYTES))

    @property
    def form(self) -> dict[str, str]:
        """Of a body that is a form without a name twice; else nothing."""
        if self.headers.get("content-type", "").partition(";")[0].strip() != "application/x-www-form-urlencoded":
            return {}
        pairs = parse_qsl(self.body.decode("utf-8", "replace"), keep_blank_values=True)
        return dict(pairs) if len(dict(pairs)) == len(pairs) else {}


def json(request: IRequest, value: Mapping[str, Any], status: int = 200) -> bytes:
    return _body(request, status, "application/json", dumps(value).encode())


def html(request: IRequest, body: bytes, status: int = 200) -> bytes:
    return _body(request, status, "text/html; charset=utf-8", body)


def see_other(request: IRequest, url: str) -> bytes:
    cast(Any, request).setHeader("Location", url)
    return _body(request, 303, "text/plain", b"")


def _body(request: IRequest, status: int, kind: str, body: bytes) -> bytes:
    raw = cast(Any, request)
    raw.setResponseCode(status)
    for name, value in {"Content-Type": kind, "Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}.items():
        raw.setHeader(name, value)
    return body
