"""The rules to which apps a login may return, and with which address (docs/protocol.md: Start; RFC 8252 7)."""

from collections.abc import Collection
from re import ASCII, compile
from urllib.parse import unquote, urlencode

from gamed.config.errors import InvalidValue
from gamed.config.validators import parse_public_url
from gamed.login.transaction import LoginTransaction

MAX_URI = 512
_URI = compile(r"([a-z][a-z0-9+.-]*+):(?://([^/?#]*+))?([/?][^#]*+)?+(#.*+)?+", ASCII)
_CHARACTERS = compile(r"(?:[A-Za-z0-9._~:/?#@!$&()*+,;=\[\]-]|%[0-9A-Fa-f][0-9A-Fa-f])++", ASCII)
"""The characters of a URI (RFC 3986 2), but the apostrophe, which is a quote in the header field `Refresh`."""
_HOST = compile(r"[A-Za-z0-9._~-]*+", ASCII)
EXPECTED = 'expected an address such as "https://app.example.org/signin" or "com.example.game:/signin"'
OURS = ("login_id", "ticket")
"""The members that return_address() adds to the query."""


class ReturnUriInvalid(Exception):
    """A `return_uri` that this server does not accept; the text says why, without any part of the address."""


def check_return_uri(uri: str, app_links: Collection[str]) -> None:
    """Check that an address belongs to an app of `app_links`; raise ReturnUriInvalid.

    A person who starts a login chooses its address. One outside the list would bring them the ticket of a player
    whom they sent the link.
    """
    if len(uri) > MAX_URI or not _CHARACTERS.fullmatch(uri):
        raise ReturnUriInvalid(f"expected at most {MAX_URI} characters of ASCII that are allowed in an address")
    match = _URI.fullmatch(uri)
    if match is None:
        raise ReturnUriInvalid(EXPECTED)
    scheme, authority, rest, fragment = match.groups()
    if fragment is not None:
        raise ReturnUriInvalid("expected an address without a fragment")
    if authority is not None and "@" in authority:
        raise ReturnUriInvalid("expected an address without a user or password")
    if (_origin(authority or "") if scheme == "https" else f"{scheme}:") not in app_links:
        raise ReturnUriInvalid("is not of an app that the owner allows; they list apps as login.app_links")
    well_formed = (rest or "").startswith("/") if authority is None else _HOST.fullmatch(authority)
    if scheme != "https" and not well_formed:
        raise ReturnUriInvalid(EXPECTED)
    names = {unquote(part.partition("=")[0]) for part in uri.partition("?")[2].split("&")}
    if not names.isdisjoint(OURS):
        raise ReturnUriInvalid("expected a query without login_id and ticket, which the server adds")


def _origin(authority: str) -> str:
    """Return the origin of an https address in its canonical form; raise ReturnUriInvalid."""
    try:
        return str(parse_public_url(f"https://{authority}"))
    except InvalidValue:
        raise ReturnUriInvalid(EXPECTED) from None


def return_address(login: LoginTransaction, ticket: str) -> str:
    """Return the address with which the browser brings the ticket to the game's port or app."""
    query = urlencode({"login_id": login.login_id, "ticket": ticket})
    if login.return_uri is None:
        return f"http://127.0.0.1:{login.loopback_port}/gamed/return?{query}"
    return f"{login.return_uri}{'&' if '?' in login.return_uri else '?'}{query}"
