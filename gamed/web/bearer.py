"""Credentials come as `Authorization: Bearer ...` and in no other way (PROTOCOL 1, RFC 6750 2.1)."""

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
