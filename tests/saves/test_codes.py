"""Every refusal of saves has its status and code (docs/protocol.md: Errors)."""

from twisted.trial.unittest import SynchronousTestCase

from gamed.saves import errors
from gamed.saves.errors import ConflictError, SaveError
from gamed.saves.responses import REASONS
from tests.support.errors import problem_of

CODES = {
    "InvalidSlot": (400, "invalid_slot"),
    "InvalidSaveRequest": (400, "bad_request"),
    "InvalidCommit": (400, "invalid_request"),
    "InvalidCondition": (400, "bad_precondition"),
    "BadMeta": (400, "bad_meta"),
    "BadRangePut": (400, "bad_range_put"),
    "DigestMismatch": (400, "digest_mismatch"),
    "SaveNotFound": (404, "save_not_found"),
    "SaveDeleted": (410, "deleted"),
    "VersionGone": (404, "version_gone"),
    "BlobNotStaged": (404, "blob_missing"),
    "BlobMissing": (409, "blob_missing"),
    "VersionProtected": (409, "version_protected"),
    "Erased": (410, "erased"),
    "LengthRequired": (411, "length_required"),
    "VersionConflict": (412, "version_conflict"),
    "DeletedConflict": (412, "deleted"),
    "WeakValidator": (412, "weak_validator"),
    "Superseded": (412, "superseded"),
    "SaveTooLarge": (413, "save_too_large"),
    "QuotaExceeded": (413, "quota_exceeded"),
    "TooManySlots": (413, "too_many_slots"),
    "ContentEncoded": (415, "content_encoding"),
    "BlankSave": (422, "blank_save"),
    "PreconditionRequired": (428, "precondition_required"),
    "CorruptBlob": (500, "corrupt_blob"),
}


REFUSALS = {name: row for name, row in CODES.items() if row[0] == 412}


class CodeTest(SynchronousTestCase):
    def test_table(self) -> None:
        """Each class of error is one row; no class is without, no row without a class."""
        kinds = {name: kind for name, kind in vars(errors).items() if isinstance(kind, type)}
        refusals = {name: kind for name, kind in kinds.items() if issubclass(kind, SaveError)}
        found = {}
        for name, kind in refusals.items():
            if kind not in (SaveError, ConflictError):
                error = kind("Do this.", {"slot": "auto"})
                problem = problem_of(error)
                self.assertIsNotNone(problem, name)
                found[name] = (problem.status, problem.code)
                self.assertEqual((problem.detail, dict(problem.members)), ("Do this.", dict(error.members)))
        self.assertEqual(found, CODES)

    def test_reasons(self) -> None:
        """An entry of a rejected commit has the code of its own PUT or DELETE."""
        self.assertEqual({kind.__name__: (412, code) for kind, code in REASONS.items()}, REFUSALS)
