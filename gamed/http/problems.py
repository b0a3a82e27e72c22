"""This module turns errors into problems: RFC 9457 bodies with a closed set of codes (PROTOCOL 1)."""

from collections.abc import Mapping, Sequence
from json import dumps

from msgspec import Struct
from werkzeug import exceptions

from gamed.database import errors as database_errors
from gamed.http import errors
from gamed.http.conditional import RangeUnsatisfiable
from gamed.http.problem_codes import CODES
from gamed.rate_limit import RateLimited

ErrorTable = Mapping[type[Exception], tuple[int, str]]
"""Error class -> (status, code); for a subclass that is not listed, the row of its nearest base class counts."""

HTTP_ERRORS: ErrorTable = {
    errors.InvalidRequest: (400, "invalid_request"),
    errors.BadRequest: (400, "bad_request"),
    errors.BadPrecondition: (400, "bad_precondition"),
    errors.RouteNotFound: (404, "route_not_found"),
    errors.MethodNotAllowed: (405, "method_not_allowed"),
    errors.RequestTimeout: (408, "request_timeout"),
    errors.BodyTooLarge: (413, "body_too_large"),
    errors.UnsupportedMediaType: (415, "unsupported_media_type"),
    errors.MisdirectedRequest: (421, "misdirected_request"),
    errors.HeadTooLarge: (431, "head_too_large"),
    errors.Unhealthy: (503, "unhealthy"),
    errors.ShuttingDown: (503, "shutting_down"),
    exceptions.BadRequest: (400, "bad_request"),
    exceptions.NotFound: (404, "route_not_found"),
    exceptions.MethodNotAllowed: (405, "method_not_allowed"),
    RangeUnsatisfiable: (416, "range_not_satisfiable"),
    RateLimited: (429, "rate_limited"),
    database_errors.DatabaseBusy: (503, "busy"),
    database_errors.DiskFull: (507, "storage_full"),
    database_errors.DatabaseUnavailable: (503, "store_unavailable"),
    database_errors.DatabaseCorrupt: (503, "store_unavailable"),
}
"""The errors that every route may raise."""
TEXT_FOR_THE_LOG = (exceptions.HTTPException, database_errors.DatabaseCorrupt)
"""Errors whose text is never part of an answer."""


class Problem(Struct, frozen=True):
    """An answer to an error. `headers` are the fields that the problem itself needs, such as Retry-After."""

    status: int
    code: str
    detail: str
    members: Mapping[str, object]
    retry_after: int | None
    """Seconds."""
    headers: Mapping[str, str]

    @property
    def title(self) -> str:
        return CODES[self.code].title

    def to_json(self, request_id: str) -> bytes:
        """Return the application/problem+json; no extra member replaces one of RFC 9457 or `code`."""
        body: dict[str, object] = {"type": f"urn:gamed:problem:{self.code}", "title": self.title}
        body |= {"status": self.status, "code": self.code, "detail": self.detail}
        if self.retry_after is not None:
            body["retry_after"] = self.retry_after
        extra = {name: value for name, value in self.members.items() if name not in body}
        return dumps(body | extra | {"request_id": request_id}, separators=(",", ":")).encode()


def find_problem(error: BaseException, table: ErrorTable, *, credential_sent: bool = False) -> Problem | None:
    """Return the problem of an expected error; None for an unexpected one.

    `credential_sent` decides whether a 401 says `error="invalid_token"` (RFC 6750 3).
    """
    row = next((table[kind] for kind in type(error).__mro__ if kind in table), None)
    if row is None:
        return None
    status, code = row
    entry = CODES[code]
    retry_after = getattr(error, "retry_after", None) or entry.retry_after
    hidden = code == "internal_error" or isinstance(error, TEXT_FOR_THE_LOG)
    detail = entry.detail if hidden else str(error) or entry.detail
    members = getattr(error, "members", None) or {}
    headers = _headers(error, status, code, credential_sent, retry_after)
    return Problem(status, code, detail, members, retry_after, headers)


def plain_problem(code: str, detail: str | None = None) -> Problem:
    """Return a problem that no exception brought, such as the reason of a failed login or an internal error."""
    entry = CODES[code]
    return Problem(entry.status, code, detail or entry.detail, {}, entry.retry_after, {})


def merge_tables(tables: Sequence[ErrorTable]) -> ErrorTable:
    """Return one table of HTTP_ERRORS and these; raise ValueError if two give one error different rows."""
    merged: dict[type[Exception], tuple[int, str]] = {}
    for table in (HTTP_ERRORS, *tables):
        for kind, row in table.items():
            if merged.setdefault(kind, row) != row:
                raise ValueError(f"two rows for {kind.__name__}")
    return merged


def _headers(error: BaseException, status: int, code: str, sent: bool, retry_after: int | None) -> dict[str, str]:
    headers: dict[str, str] = dict(getattr(error, "headers", None) or {})
    if status == 401:
        invalid = sent or code.startswith("refresh_")
        headers["WWW-Authenticate"] = 'Bearer realm="gamed"' + (', error="invalid_token"' if invalid else "")
    if retry_after is not None:
        headers["Retry-After"] = str(retry_after)
    allowed = getattr(error, "allowed", None) or getattr(error, "valid_methods", None)
    if status == 405 and allowed:
        headers["Allow"] = ", ".join(sorted(allowed))
    return headers
