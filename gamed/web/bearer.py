"""Credentials come as `Authorization: Bearer ...` and in no other way (PROTOCOL 1, RFC 6750 2.1)."""

from gamed.http.bodies import RequestHead


def bearer(head: RequestHead) -> str | None:
    """The credential's text, unjudged; None without exactly one Authorization field of the scheme Bearer.

    In a query, a cookie or a body it is not looked for.
    """
    value = head.single("authorization")
    if value is None:
        return None
    scheme, _, credential = value.partition(" ")
    credential = credential.strip(" ")
    return credential if scheme.lower() == "bearer" and credential else None
