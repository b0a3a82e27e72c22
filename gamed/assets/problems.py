"""The errors of the assets feature as rows of its apps: error class -> (status, problem code)."""

from gamed.assets import errors
from gamed.http.problems import ErrorTable

ASSET_ERRORS: ErrorTable = {
    errors.ChannelNotFound: (404, "channel_not_found"),
    errors.ReleaseNotFound: (404, "release_not_found"),
    errors.PathNotFound: (404, "file_not_found"),
    errors.ObjectNotFound: (404, "file_not_found"),
    errors.NotCurrent: (412, "version_conflict"),
    errors.TooManyOpen: (503, "busy"),
    errors.AssetsError: (500, "internal_error"),
}
