"""The status and problem code of each error of sessions."""

from gamed.http.problems import ErrorTable
from gamed.sessions import errors

SESSION_ERRORS: ErrorTable = {
    errors.TokenMissing: (401, "token_missing"),
    errors.TokenExpired: (401, "token_expired"),
    errors.TokenInvalid: (401, "token_invalid"),
    errors.SessionRevoked: (401, "session_revoked"),
    errors.PlayerBlocked: (403, "player_blocked"),
    errors.RefreshExpired: (401, "refresh_expired"),
    errors.RefreshReused: (401, "refresh_reused"),
    errors.RefreshInvalid: (401, "refresh_invalid"),
    errors.SessionNotFound: (404, "session_not_found"),
}
