"""The status and problem code of each error of saves."""

from gamed.http.problems import ErrorTable
from gamed.saves import errors

SAVE_ERRORS: ErrorTable = {
    errors.InvalidSlot: (400, "invalid_slot"),
    errors.InvalidSaveRequest: (400, "bad_request"),
    errors.InvalidCommit: (400, "invalid_request"),
    errors.InvalidCondition: (400, "bad_precondition"),
    errors.BadMeta: (400, "bad_meta"),
    errors.BadRangePut: (400, "bad_range_put"),
    errors.DigestMismatch: (400, "digest_mismatch"),
    errors.SaveNotFound: (404, "save_not_found"),
    errors.SaveDeleted: (410, "deleted"),
    errors.VersionGone: (404, "version_gone"),
    errors.BlobNotStaged: (404, "blob_missing"),
    errors.BlobMissing: (409, "blob_missing"),
    errors.VersionProtected: (409, "version_protected"),
    errors.Erased: (410, "erased"),
    errors.LengthRequired: (411, "length_required"),
    errors.VersionConflict: (412, "version_conflict"),
    errors.DeletedConflict: (412, "deleted"),
    errors.WeakValidator: (412, "weak_validator"),
    errors.Superseded: (412, "superseded"),
    errors.SaveTooLarge: (413, "save_too_large"),
    errors.QuotaExceeded: (413, "quota_exceeded"),
    errors.TooManySlots: (413, "too_many_slots"),
    errors.ContentEncoded: (415, "content_encoding"),
    errors.BlankSave: (422, "blank_save"),
    errors.PreconditionRequired: (428, "precondition_required"),
    errors.CorruptBlob: (500, "corrupt_blob"),
}
