"""Errors as problems: RFC 9457 bodies with a closed set of codes (docs/protocol.md: Conventions, Signing in, Saves).

Clients are compiled against the codes. A row may be added to CODES, never changed.
"""

from collections.abc import Callable, Mapping, Sequence
from json import dumps
from typing import Any

from msgspec import Struct
from werkzeug import exceptions

from gamed.database import errors as database_errors
from gamed.http import errors
from gamed.http.conditional import RangeUnsatisfiable, TagsMalformed
from gamed.rate_limit import RateLimited

ErrorTable = Mapping[type[Exception], tuple[int, str]]
"""Error class -> (status, code); for a subclass that is not listed, the row of its nearest base class counts."""

HTTP_ERRORS: ErrorTable = {
    errors.InvalidRequest: (400, "invalid_request"),
    errors.BadRequest: (400, "bad_request"),
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
    TagsMalformed: (400, "bad_precondition"),
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


RenderedError = tuple[Mapping[str, str], bytes]
"""The header fields and the body of a response."""
Renderer = Callable[[Problem, Any], RenderedError]
"""Makes the response to a problem of a request (gamed.http.request.Request)."""


def render_json(problem: Problem, request: Any) -> RenderedError:
    """Return the problem as a program reads it."""
    return {"Content-Type": "application/problem+json"}, problem.to_json(request.request_id)


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


def plain_problem(code: str) -> Problem:
    """Return a problem that no exception brought, such as the reason of a failed login or an internal error."""
    entry = CODES[code]
    return Problem(entry.status, code, entry.detail, {}, entry.retry_after, {})


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


class ProblemCode(Struct, frozen=True):
    """A row of CODES. `detail` is shown to a person if the error has no text of its own."""

    status: int
    title: str
    detail: str
    retry_after: int | None = None
    """Seconds; every 429 and 503 has one."""


CODES = {
    # any route
    "bad_request": ProblemCode(400, "Bad request", "The request could not be understood."),
    "invalid_request": ProblemCode(400, "Invalid request", "The body is not what this address asks for."),
    "route_not_found": ProblemCode(404, "Not found", "There is nothing at this address."),
    "method_not_allowed": ProblemCode(405, "Method not allowed", "This address does not answer that method."),
    "request_timeout": ProblemCode(408, "Request timeout", "The request came too slowly. Send it again."),
    "body_too_large": ProblemCode(413, "Body too large", "Send a smaller body."),
    "unsupported_media_type": ProblemCode(415, "Unsupported media type", "Send the body as application/json."),
    "misdirected_request": ProblemCode(421, "Misdirected request", "This server does not answer for that host name."),
    "rate_limited": ProblemCode(429, "Too many requests", "Try again in a moment.", 1),
    "head_too_large": ProblemCode(431, "Request head too large", "Send fewer or shorter header fields."),
    "internal_error": ProblemCode(
        500, "Internal error", "Something went wrong here. The owner finds it by the request id."
    ),
    "busy": ProblemCode(503, "Busy", "Too much is going on. Try again in a moment.", 1),
    "shutting_down": ProblemCode(503, "Shutting down", "The server is going down. Try again in a moment.", 5),
    "unhealthy": ProblemCode(503, "Unhealthy", "A store does not answer.", 5),
    # stores
    "store_unavailable": ProblemCode(
        503, "Store unavailable", "The saves cannot be reached. The server's owner must check it.", 30
    ),
    "storage_full": ProblemCode(507, "Storage full", "The disk of the server is full. Its owner must check it.", 300),
    # the handoff
    "provider_unknown": ProblemCode(400, "Unknown provider", "Choose a provider of /auth/config."),
    "provider_unavailable": ProblemCode(
        503, "Provider unavailable", "The provider does not answer. Try again later.", 30
    ),
    "provider_denied": ProblemCode(403, "Refused at the provider", "The sign-in was refused at the provider."),
    "provider_error": ProblemCode(502, "Provider error", "The provider answered something unusable. Try again."),
    "provider_misconfigured": ProblemCode(
        502, "Provider misconfigured", "The server's owner must check the settings of the provider."
    ),
    "last_identity": ProblemCode(409, "Last identity", "This is the last way to sign in. Link another first."),
    "provider_already_linked": ProblemCode(
        409, "Provider already linked", "This player has another way to sign in already."
    ),
    "server_clock_skew": ProblemCode(500, "Wrong clock", "The clock of the server is wrong. Its owner must check it."),
    "invalid_proof": ProblemCode(400, "Invalid proof", "That code is not the one in the browser. Read it again."),
    "device_secret_invalid": ProblemCode(401, "Unknown login", "Start the sign-in again from the game."),
    "login_collected": ProblemCode(410, "Login collected", "This login was used already. Sign in again from the game."),
    "reauthentication_required": ProblemCode(403, "Sign in again first", "Sign in again, then ask within ten minutes."),
    "login_denied": ProblemCode(403, "Login denied", "The sign-in was declined in the browser."),
    "login_expired": ProblemCode(410, "Login expired", "The sign-in took too long. Start again from the game."),
    "login_cancelled": ProblemCode(410, "Login cancelled", "The sign-in was cancelled."),
    "login_interrupted": ProblemCode(503, "Login interrupted", "The server was interrupted. Sign in again.", 1),
    "proof_attempts_exceeded": ProblemCode(403, "Too many wrong codes", "Start the sign-in again from the game."),
    "identity_in_use": ProblemCode(409, "Identity in use", "That account belongs to another player."),
    "player_blocked": ProblemCode(403, "Player blocked", "The owner of this server has blocked this player."),
    "player_pending": ProblemCode(
        403, "Waiting for approval", "The owner of this server has to approve this player first."
    ),
    "registration_closed": ProblemCode(403, "Registration closed", "This server takes no new players."),
    # sessions
    "token_missing": ProblemCode(401, "Sign in first", "Send an access token as Authorization: Bearer."),
    "token_expired": ProblemCode(401, "Access token expired", "Refresh the session."),
    "token_invalid": ProblemCode(
        401, "Access token invalid", "This is not an access token of this server. Sign in again."
    ),
    "session_revoked": ProblemCode(401, "Session revoked", "This session has ended. Sign in again."),
    "session_not_found": ProblemCode(404, "Session not found", "There is no such session of yours."),
    "refresh_expired": ProblemCode(401, "Refresh credential expired", "Sign in again."),
    "refresh_reused": ProblemCode(401, "Refresh credential reused", "The session was ended for safety. Sign in again."),
    "refresh_invalid": ProblemCode(401, "Refresh credential invalid", "Sign in again."),
    # saves
    "erased": ProblemCode(410, "Erased", "The saves of this player were erased meanwhile."),
    "invalid_slot": ProblemCode(400, "Invalid slot", "A slot is 1 to 64 of a-z, 0-9, dot, underscore and dash."),
    "digest_mismatch": ProblemCode(
        400, "Digest mismatch", "The bytes are not those that were announced. Send them again."
    ),
    "bad_meta": ProblemCode(400, "Bad Save-Meta", "Save-Meta is a JSON object in one line of ASCII."),
    "bad_precondition": ProblemCode(400, "Bad precondition", "Send one condition, its tag in double quotes."),
    "bad_range_put": ProblemCode(400, "Partial writes not taken", "Send the whole save, without Content-Range."),
    "content_encoding": ProblemCode(415, "Content coding not taken", "Send the save without Content-Encoding."),
    "length_required": ProblemCode(411, "Length required", "Send Content-Length, or the body chunked."),
    "save_not_found": ProblemCode(404, "Save not found", "This slot never had a save."),
    "version_gone": ProblemCode(404, "Version gone", "That version is not kept."),
    "version_protected": ProblemCode(409, "Version protected", "Only a conflict copy can be dismissed."),
    "blob_missing": ProblemCode(
        409, "Bytes missing", "Bytes that the commit names are not staged. PUT them, then commit."
    ),
    "deleted": ProblemCode(410, "Deleted", "This save was deleted."),
    "superseded": ProblemCode(412, "Superseded", "These bytes were stored already, and something newer since."),
    "version_conflict": ProblemCode(412, "Version conflict", "Another save is current. The bytes sent were kept."),
    "weak_validator": ProblemCode(412, "Weak validator", "Send the strong tag, without W/."),
    "save_too_large": ProblemCode(413, "Save too large", "The save is larger than this server takes."),
    "quota_exceeded": ProblemCode(413, "Quota exceeded", "Delete something first."),
    "too_many_slots": ProblemCode(413, "Too many slots", "Delete a save first."),
    "range_not_satisfiable": ProblemCode(416, "Range not satisfiable", "There are fewer bytes than that."),
    "blank_save": ProblemCode(422, "Blank save", "An empty or all-zero save is not kept."),
    "precondition_required": ProblemCode(428, "Precondition required", "Say which version is replaced: If-Match."),
    "corrupt_blob": ProblemCode(500, "Damaged save", "The stored bytes are damaged. An older version may be good."),
    # assets
    "channel_not_found": ProblemCode(404, "Channel not found", "There is no such channel."),
    "release_not_found": ProblemCode(404, "Release not found", "This release is not kept."),
    "file_not_found": ProblemCode(404, "File not found", "There is no such file."),
    # tickets
    "tickets_off": ProblemCode(403, "Tickets off", "This server gives no tickets for other servers."),
    "audience_not_allowed": ProblemCode(
        403, "Audience not allowed", "The owner of this server has not allowed tickets for that server."
    ),
    "audience_secret_invalid": ProblemCode(
        401, "Audience secret invalid", "Send the secret of an audience as Authorization: Bearer."
    ),
    "ticket_invalid": ProblemCode(401, "Ticket invalid", "This is not a valid ticket for this audience."),
}
