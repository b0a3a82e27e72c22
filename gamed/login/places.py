"""Pages that can be shown again in another language, and the addresses that lead back to them.

A link that chooses a language names its page as a path: `/account/after/auto` stands for `/auth/account?after=auto`.
The list is closed and each part has a fixed form, so that a link which nobody here has made leads to one of these pages
or nowhere.
"""

from re import ASCII, compile
from typing import Final
from urllib.parse import parse_qs

QUERY_BYTES: Final = 4096
CARRIED: Final = ("login_id", "after", "copied", "before")
"""The members of a query that are part of a place."""
_LOGIN, _TOKEN, _LINK = "lgn_[A-Za-z0-9_-]{22}", "[A-Za-z0-9_-]{22}", "[A-Za-z0-9_-]{1,64}"
_PLAYER: Final = "ply_[A-Za-z0-9_-]{1,64}"
_SLOT, _NUMBER = "[a-z0-9][a-z0-9._-]{0,63}", "[1-9][0-9]{0,17}"
_PLACE = compile(
    f"/account(?:/done/(login_id/{_LOGIN})|/((?:after|copied)/{_SLOT})|/devices/ses_[A-Za-z0-9_-]{{1,64}})?"
    f"|/account/saves/{_SLOT}(?:/(before/{_NUMBER})|/versions/{_NUMBER}/delete|/delete|/keep)?"
    f"|/login/(?:done/(login_id/{_LOGIN})|{_TOKEN}(?:/create|/name)?)"
    f"|/(?:invite|reset)/{_LINK}"
    f"|/owner(?:/(?:people|invites|saves|files|activity|backups|time))?"
    f"|/owner/people(?:/(after/{_PLAYER})|/{_PLAYER}(?:/erase|/merge(?:/{_PLAYER})?)?)"
    f"|/owner/saves/{_PLAYER}(?:/(after/{_SLOT})|/{_SLOT}(?:/(before/{_NUMBER}))?)?",
    ASCII,
)
"""The one group that has matched, if any, is a member of the query: a slot may have the name of a member, too."""
_FORM = compile(f"(/login/{_TOKEN})/(?:continue|local|decline)", ASCII)
_ACCOUNT, _OWNER = "/account", "/owner"


def place_of(path: str, query: bytes = b"") -> str | None:
    """Return the place of the page with this address, or of the page that has the form which is sent to it.

    "" is the page of the server's address. Whatever else is below the account or the owner's page leads to its first
    page. Return None for an address that works once, such as a provider's callback, or has no page.
    """
    if path in ("/", "/auth/"):
        return ""
    below = path.removeprefix("/auth")
    form = _FORM.fullmatch(below)
    below = below if form is None else form[1]
    members = parse_qs(query[:QUERY_BYTES].decode("latin-1"))
    for place in (f"{below}/{name}/{members[name][0]}" for name in CARRIED if name in members):
        if (match := _PLACE.fullmatch(place)) and match.lastindex:
            return place
    if _PLACE.fullmatch(below):
        return below
    return next((each for each in (_ACCOUNT, _OWNER) if below.startswith(f"{each}/")), None)


def address_of(place: str) -> str | None:
    """Return the path of a place, with its query; None if there is no such place."""
    if not place:
        return "/"
    match = _PLACE.fullmatch(place)
    if match is None:
        return None
    if not match.lastindex:
        return f"/auth{place}"
    page, (name, _, value) = place[: match.start(match.lastindex) - 1], match[match.lastindex].partition("/")
    return f"/auth{page}?{name}={value}"
