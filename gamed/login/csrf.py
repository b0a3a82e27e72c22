"""Which browser asks, and whether in earnest: the cookie, the form field, the Sec-Fetch headers (PROTOCOL 3.2)."""

from collections.abc import Mapping
from hmac import compare_digest
from re import ASCII, compile

from gamed.crypto import Index, Indexer, Purpose, Random
from gamed.http.errors import HttpError
from gamed.http.json_body import read_form
from gamed.http.request import Request
from gamed.structs import Component
from gamed.tokens import ENTROPY_BYTES, base64url

FIELD = "form"
"""The hidden field that proves that a form came from its own page."""
_VALUE = compile(r"[A-Za-z0-9_-]{43}", ASCII)


class CsrfError(HttpError):
    """A form that did not come from its own page in the same browser."""


class FramedRequest(HttpError):
    """Asked for as a part of another page."""


class PrefetchRequest(HttpError):
    """A browser that only guesses what its user will want."""


class BrowserGuard(Component, frozen=True):
    """`secure`: the base is https, so the cookie can carry the prefix that ties it to this host (RFC 6265bis 4.1.3)."""

    _indexer: Indexer
    _random: Random
    _secure: bool

    @property
    def cookie_name(self) -> str:
        return "__Host-gl" if self._secure else "gl"

    def cookie(self, request: Request) -> str | None:
        """The browser's cookie; None when there is none that could be ours."""
        raw = request.getCookie(self.cookie_name) or ""
        return raw if _VALUE.fullmatch(raw) else None

    def offered(self, request: Request) -> str:
        """The browser's cookie, or a fresh one that keep() will give it."""
        return self.cookie(request) or base64url(self._random(ENTROPY_BYTES))

    def keep(self, request: Request, value: str) -> None:
        """Set the cookie if the browser has none; it lives as long as the browser does."""
        if self.cookie(request) is not None:
            return
        secure = "; Secure" if self._secure else ""
        field = f"{self.cookie_name}={value}; Path=/{secure}; HttpOnly; SameSite=Lax"
        request.response_headers.add("Set-Cookie", field)

    def index(self, cookie: str) -> Index:
        return self._indexer.index(Purpose.BROWSER, cookie.encode())

    def browser(self, request: Request) -> Index | None:
        cookie = self.cookie(request)
        return None if cookie is None else self.index(cookie)

    def field(self, cookie: str, token: str) -> str:
        """What the forms of this login carry in this browser."""
        return base64url(self._indexer.index(Purpose.FORM, cookie.encode(), token.encode()))

    def form(self, request: Request, token: str) -> tuple[Index, Mapping[str, str]]:
        """The browser and what its form says; FormForeign, Embedded or Prefetched have no effect."""
        require_top_level_navigation(request)
        if (request.head.headers.values("sec-fetch-site") or ["same-origin"]) != ["same-origin"]:
            raise CsrfError
        cookie, fields = self.cookie(request), read_form(request)
        given = fields.get(FIELD, "").encode()
        if cookie is None or not compare_digest(given, self.field(cookie, token).encode()):
            raise CsrfError
        return self.index(cookie), fields


def require_top_level_navigation(request: Request) -> None:
    """A page of its own, asked for by a person: not prefetched, not inside another page."""
    headers = request.head.headers
    if any("prefetch" in purpose for purpose in headers.values("sec-purpose")):
        raise PrefetchRequest
    if (headers.values("sec-fetch-dest") or ["document"]) != ["document"]:
        raise FramedRequest
