"""Credentials come as `Authorization: Bearer ...` and in no other way (PROTOCOL 1, RFC 6750 2.1)."""

from gamed.web.fields import Fields
from gamed.web.gates import Head


def bearer(head: Head) -> str | None:
    """The credential's text, unjudged; None without exactly one Authorization field of the scheme Bearer.

    In a query, a cookie or a body it is not looked for.
    """
    value = head.one("authorization")
    if value is None:
        return None
    scheme, _, credential = value.partition(" ")
    credential = credential.strip(" ")
    return credential if scheme.lower() == "bearer" and credential else None


def credential_sent(headers: Fields) -> bool:
    """Return whether any Authorization field carries something to authenticate with, of whichever scheme.

    An empty field and a bare `Bearer` carry nothing, so the 401 must not call a token invalid (RFC 6750 3.1).
    """
    values = headers.getRawHeaders("authorization", ())
    return any(value.strip(" \t").lower() not in {"", "bearer"} for value in values)
