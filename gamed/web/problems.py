"""Errors become problems: RFC 9457 bodies with a closed set of codes (PROTOCOL 1)."""

from collections.abc import Mapping
from json import dumps

from msgspec import Struct
from werkzeug.exceptions import HTTPException

from gamed import store
from gamed.assets import errors as assets
from gamed.http_rules.ranges import RangeUnsatisfiable
from gamed.limits import RateLimited
from gamed.login import errors as logins
from gamed.players.errors import LastIdentity, PasswordsBusy, ReauthenticationRequired
from gamed.saves import errors as saves
from gamed.sessions import errors as sessions
from gamed.web import errors
from gamed.web.codes import CODES

STATUS: list[tuple[type[Exception], int, str]] = [  # most specific first
    (errors.InvalidRequest, 400, "invalid_request"),
    (errors.BadRequest, 400, "bad_request"),
    (errors.BadPrecondition, 400, "bad_precondition"),
    (errors.RouteNotFound, 404, "route_not_found"),
    (errors.WrongMethod, 405, "method_not_allowed"),
    (errors.RequestTimeout, 408, "request_timeout"),
    (errors.BodyTooLarge, 413, "body_too_large"),
    (errors.UnsupportedMediaType, 415, "unsupported_media_type"),
    (errors.Misdirected, 421, "misdirected_request"),
    (errors.HeadTooLarge, 431, "head_too_large"),
    (errors.Unhealthy, 503, "unhealthy"),
    (errors.ShuttingDown, 503, "shutting_down"),
    (store.StoreBusy, 503, "busy"),
    (store.StoreFull, 507, "storage_full"),
    (store.StoreUnavailable, 503, "store_unavailable"),
    (store.StoreCorrupt, 503, "store_unavailable"),
    (PasswordsBusy, 503, "busy"),
    (ReauthenticationRequired, 403, "reauthentication_required"),
    (LastIdentity, 409, "last_identity"),
    (RateLimited, 429, "rate_limited"),
    (logins.InvalidStart, 400, "invalid_request"),
    (logins.ProviderUnknown, 400, "provider_unknown"),
    (logins.ProviderUnavailable, 503, "provider_unavailable"),
    (logins.Crowded, 503, "busy"),
    (logins.ReauthenticationRequired, 403, "reauthentication_required"),
    (logins.InvalidProof, 400, "invalid_proof"),
    (logins.DeviceSecretInvalid, 401, "device_secret_invalid"),
    (logins.LoginCollected, 410, "login_collected"),
    (sessions.TokenMissing, 401, "token_missing"),
    (sessions.TokenExpired, 401, "token_expired"),
    (sessions.TokenInvalid, 401, "token_invalid"),
    (sessions.SessionRevoked, 401, "session_revoked"),
    (sessions.PlayerBlocked, 403, "player_blocked"),
    (sessions.RefreshExpired, 401, "refresh_expired"),
    (sessions.RefreshReused, 401, "refresh_reused"),
    (sessions.RefreshInvalid, 401, "refresh_invalid"),
    (sessions.SessionNotFound, 404, "session_not_found"),
    (saves.InvalidSlot, 400, "invalid_slot"),
    (saves.InvalidSaveRequest, 400, "bad_request"),
    (saves.InvalidCommit, 400, "invalid_request"),
    (saves.BadPrecondition, 400, "bad_precondition"),
    (saves.BadMeta, 400, "bad_meta"),
    (saves.BadRangePut, 400, "bad_range_put"),
    (saves.DigestMismatch, 400, "digest_mismatch"),
    (saves.SaveNotFound, 404, "save_not_found"),
    (saves.SaveDeleted, 410, "deleted"),
    (saves.VersionGone, 404, "version_gone"),
    (saves.BlobNotStaged, 404, "blob_missing"),
    (saves.BlobMissing, 409, "blob_missing"),
    (saves.VersionProtected, 409, "version_protected"),
    (saves.Erased, 410, "erased"),
    (saves.LengthRequired, 411, "length_required"),
    (saves.VersionConflict, 412, "version_conflict"),
    (saves.DeletedConflict, 412, "deleted"),
    (saves.WeakValidator, 412, "weak_validator"),
    (saves.Superseded, 412, "superseded"),
    (saves.SaveTooLarge, 413, "save_too_large"),
    (saves.QuotaExceeded, 413, "quota_exceeded"),
    (saves.TooManySlots, 413, "too_many_slots"),
    (saves.ContentEncoded, 415, "content_encoding"),
    (RangeUnsatisfiable, 416, "range_not_satisfiable"),
    (saves.BlankSave, 422, "blank_save"),
    (saves.PreconditionRequired, 428, "precondition_required"),
    (saves.CorruptBlob, 500, "corrupt_blob"),
    (assets.ChannelNotFound, 404, "channel_not_found"),
    (assets.ReleaseNotFound, 404, "release_not_found"),
    (assets.PathNotFound, 404, "file_not_found"),
    (assets.ObjectNotFound, 404, "file_not_found"),
    (assets.NotCurrent, 412, "version_conflict"),
    (assets.TooManyOpen, 503, "busy"),
    (assets.AssetsError, 500, "internal_error"),
]

_WITHOUT_WORDS = (HTTPException, store.StoreCorrupt)
"""Their text is for a log."""
_WERKZEUG = {400: "bad_request", 404: "route_not_found"}


class Problem(Struct, frozen=True):
    """What is answered instead of a result. `headers` are those the problem itself asks for."""

    status: int
    code: str
    detail: str
    members: Mapping[str, object]
    retry_after: int | None
    headers: Mapping[str, str]

    @property
    def title(self) -> str:
        return CODES[self.code].title

    def to_bytes(self, request_id: str) -> bytes:
        """application/problem+json; the closed members come after the room's own, so none is replaced."""
        body: dict[str, object] = {"type": f"urn:gamed:problem:{self.code}", "title": self.title}
        body |= {"status": self.status, "code": self.code, "detail": self.detail}
        if self.retry_after is not None:
            body["retry_after"] = self.retry_after
        extra = {name: value for name, value in self.members.items() if name not in body}
        return dumps(body | extra | {"request_id": request_id}, separators=(",", ":")).encode()


def problem_of(error: BaseException, *, credential_sent: bool = False) -> Problem | None:
    """The problem of an expected error; None for one that nobody expected.

    `credential_sent` decides whether a 401 says `error="invalid_token"` (RFC 6750 3).
    """
    status, code = _find(error)
    if code is None:
        return None
    row = CODES[code]
    retry_after = getattr(error, "retry_after", None) or row.retry_after
    detail = row.detail if code == "internal_error" or isinstance(error, _WITHOUT_WORDS) else str(error) or row.detail
    members = getattr(error, "members", None) or {}
    headers = _headers(error, status, code, credential_sent, retry_after)
    return Problem(status, code, detail, members, retry_after, headers)


def plain_problem(code: str, detail: str | None = None) -> Problem:
    """A problem that no exception brought, such as the reason in a failed login or an internal error."""
    row = CODES[code]
    return Problem(row.status, code, detail or row.detail, {}, row.retry_after, {})


def _find(error: BaseException) -> tuple[int, str | None]:
    for kind, status, code in STATUS:
        if isinstance(error, kind):
            return status, code
    if isinstance(error, HTTPException) and error.code in _WERKZEUG:
        return error.code, _WERKZEUG[error.code]
    return 500, None


def _headers(error: BaseException, status: int, code: str, sent: bool, retry_after: int | None) -> dict[str, str]:
    headers: dict[str, str] = dict(getattr(error, "headers", None) or {})
    if status == 401:
        invalid = sent or code.startswith("refresh_")
        headers["WWW-Authenticate"] = 'Bearer realm="gamed"' + (', error="invalid_token"' if invalid else "")
    if retry_after is not None:
        headers["Retry-After"] = str(retry_after)
    allowed = getattr(error, "allowed", None)
    if status == 405 and allowed:
        headers["Allow"] = ", ".join(sorted(allowed))
    return headers
