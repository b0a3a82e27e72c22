"""The access token of a request (PROTOCOL 4)."""

from twisted.web.http_headers import Headers

from gamed.crypto import Secret
from gamed.sessions import presented
from gamed.web.bearer import HasHeaders, bearer


def access_token(source: HasHeaders | Headers) -> Secret:
    """Well-formed, or TokenMissing or TokenInvalid; no store is asked."""
    return presented.access_token(bearer(source))
