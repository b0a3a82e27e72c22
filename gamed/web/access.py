"""The access token of a request (PROTOCOL 4)."""

from gamed.crypto import Secret
from gamed.http.bodies import RequestHead
from gamed.sessions import presented
from gamed.web.bearer import bearer


def access_token(head: RequestHead) -> Secret:
    """Well-formed, or TokenMissing or TokenInvalid; no store is asked."""
    return presented.access_token(bearer(head))
