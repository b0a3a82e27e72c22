"""The access token of a request (PROTOCOL 4)."""

from twisted.web.http_headers import Headers

from gamed.crypto import Secret
from gamed.sessions.errors import TokenInvalid, TokenMissing
from gamed.tokens import Kind, TokenMalformed, parse
from gamed.web.bearer import HasHeaders, bearer


def access_token(source: HasHeaders | Headers) -> Secret:
    """Well-formed, or TokenMissing or TokenInvalid; no store is asked."""
    text = bearer(source)
    if text is None:
        raise TokenMissing
    try:
        return parse(Kind.ACCESS_TOKEN, text)
    except TokenMalformed:
        raise TokenInvalid from None
