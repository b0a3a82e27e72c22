"""A credential as a request brings it: well-formed, or refused before any store is asked (PROTOCOL 1, 3.7)."""

from gamed.crypto import Secret
from gamed.sessions.errors import RefreshInvalid, TokenInvalid, TokenMissing
from gamed.tokens import Kind, TokenMalformed, parse


def access_token(text: str | None) -> Secret:
    """TokenMissing without one, TokenInvalid when it cannot be one."""
    if text is None:
        raise TokenMissing
    try:
        return parse(Kind.ACCESS_TOKEN, text)
    except TokenMalformed:
        raise TokenInvalid from None


def refresh_credential(text: str) -> Secret:
    """RefreshInvalid when it cannot be one."""
    try:
        return parse(Kind.REFRESH_CREDENTIAL, text)
    except TokenMalformed:
        raise RefreshInvalid from None
