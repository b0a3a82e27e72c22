"""The status and problem code of each error of players."""

from gamed.http.problems import ErrorTable
from gamed.players import errors

PLAYER_ERRORS: ErrorTable = {
    errors.PasswordsBusy: (503, "busy"),
    errors.AccountReauthenticationRequired: (403, "reauthentication_required"),
    errors.LastIdentity: (409, "last_identity"),
}
