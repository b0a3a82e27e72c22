"""The table of login errors maps each class to a status and a problem code."""

from gamed.http.problems import ErrorTable
from gamed.login import errors

LOGIN_ERRORS: ErrorTable = {
    errors.InvalidStart: (400, "invalid_request"),
    errors.ProviderUnknown: (400, "provider_unknown"),
    errors.LoginProviderUnavailable: (503, "provider_unavailable"),
    errors.TooManyLogins: (503, "busy"),
    errors.DrawingBusy: (503, "busy"),
    errors.ReauthenticationRequired: (403, "reauthentication_required"),
    errors.InvalidProof: (400, "invalid_proof"),
    errors.DeviceSecretInvalid: (401, "device_secret_invalid"),
    errors.LoginCollected: (410, "login_collected"),
    errors.UnknownLoginLink: (404, "route_not_found"),
    errors.LinkClosed: (410, "login_expired"),
}
