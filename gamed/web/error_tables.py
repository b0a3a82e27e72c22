"""The errors of each feature as rows of its apps: error class -> (status, problem code)."""

from gamed.assets import errors as assets
from gamed.http.problems import ErrorTable
from gamed.login import errors as logins
from gamed.players import errors as players
from gamed.saves import errors as saves
from gamed.sessions import errors as sessions

LOGIN_ERRORS: ErrorTable = {
    logins.InvalidStart: (400, "invalid_request"),
    logins.ProviderUnknown: (400, "provider_unknown"),
    logins.ProviderUnavailable: (503, "provider_unavailable"),
    logins.Crowded: (503, "busy"),
    logins.ReauthenticationRequired: (403, "reauthentication_required"),
    logins.InvalidProof: (400, "invalid_proof"),
    logins.DeviceSecretInvalid: (401, "device_secret_invalid"),
    logins.LoginCollected: (410, "login_collected"),
}
PLAYER_ERRORS: ErrorTable = {
    players.PasswordsBusy: (503, "busy"),
    players.ReauthenticationRequired: (403, "reauthentication_required"),
    players.LastIdentity: (409, "last_identity"),
}
SESSION_ERRORS: ErrorTable = {
    sessions.TokenMissing: (401, "token_missing"),
    sessions.TokenExpired: (401, "token_expired"),
    sessions.TokenInvalid: (401, "token_invalid"),
    sessions.SessionRevoked: (401, "session_revoked"),
    sessions.PlayerBlocked: (403, "player_blocked"),
    sessions.RefreshExpired: (401, "refresh_expired"),
    sessions.RefreshReused: (401, "refresh_reused"),
    sessions.RefreshInvalid: (401, "refresh_invalid"),
    sessions.SessionNotFound: (404, "session_not_found"),
}
SAVE_ERRORS: ErrorTable = {
    saves.InvalidSlot: (400, "invalid_slot"),
    saves.InvalidSaveRequest: (400, "bad_request"),
    saves.InvalidCommit: (400, "invalid_request"),
    saves.BadPrecondition: (400, "bad_precondition"),
    saves.BadMeta: (400, "bad_meta"),
    saves.BadRangePut: (400, "bad_range_put"),
    saves.DigestMismatch: (400, "digest_mismatch"),
    saves.SaveNotFound: (404, "save_not_found"),
    saves.SaveDeleted: (410, "deleted"),
    saves.VersionGone: (404, "version_gone"),
    saves.BlobNotStaged: (404, "blob_missing"),
    saves.BlobMissing: (409, "blob_missing"),
    saves.VersionProtected: (409, "version_protected"),
    saves.Erased: (410, "erased"),
    saves.LengthRequired: (411, "length_required"),
    saves.VersionConflict: (412, "version_conflict"),
    saves.DeletedConflict: (412, "deleted"),
    saves.WeakValidator: (412, "weak_validator"),
    saves.Superseded: (412, "superseded"),
    saves.SaveTooLarge: (413, "save_too_large"),
    saves.QuotaExceeded: (413, "quota_exceeded"),
    saves.TooManySlots: (413, "too_many_slots"),
    saves.ContentEncoded: (415, "content_encoding"),
    saves.BlankSave: (422, "blank_save"),
    saves.PreconditionRequired: (428, "precondition_required"),
    saves.CorruptBlob: (500, "corrupt_blob"),
}
ASSET_ERRORS: ErrorTable = {
    assets.ChannelNotFound: (404, "channel_not_found"),
    assets.ReleaseNotFound: (404, "release_not_found"),
    assets.PathNotFound: (404, "file_not_found"),
    assets.ObjectNotFound: (404, "file_not_found"),
    assets.NotCurrent: (412, "version_conflict"),
    assets.TooManyOpen: (503, "busy"),
    assets.AssetsError: (500, "internal_error"),
}
