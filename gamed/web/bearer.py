"""Credentials come as `Authorization: Bearer ...` and in no other way (PROTOCOL 1, RFC 6750 2.1)."""

from typing import Protocol

from twisted.web.http_headers import Headers


class HasHeaders(Protocol):
    """A request of the web."""

    requestHeaders: Headers


def bearer(source: HasHeaders | Headers) -> str | None:
    """The credential's text, unjudged; None without exactly one Authorization field of the scheme Bearer.

    In a query, a cookie or a body it is not looked for.
    """
    headers = source if isinstance(source, Headers) else source.requestHeaders
    values = headers.getRawHeaders("authorization", [])
    if len(values) != 1:
        return None
    scheme, _, credential = values[0].partition(" ")
    credential = credential.strip(" ")
    return credential if scheme.lower() == "bearer" and credential else None
