"""A browser is identified by its cookie, and its forms by a field and the Sec-Fetch headers.

See docs/internals/threats.md: Signing in.
"""

from collections.abc import Mapping
from hmac import compare_digest
from re import ASCII, compile

from gamed.crypto import ENTROPY_BYTES, Index, Indexer, Purpose, Random, base64url
from gamed.http.errors import HttpError
from gamed.http.json_body import read_form
from gamed.http.request import Request
from gamed.structs import Component

FIELD = "form"
"""The hidden field that proves that a form came from its own page."""
_VALUE = compile(r"[A-Za-z0-9_-]{43}", ASCII)


class CsrfError(HttpError):
    """A form that did not come from its own page in the same browser."""


class FramedRequest(HttpError):
    """A request for a page inside another page."""


class PrefetchRequest(HttpError):
    """A request that a browser makes before its user asks for the page."""


class BrowserGuard(Component, frozen=True, kw_only=True):
    """The cookie of a browser and the form fields that are bound to it.

    `secure`: the base URL is https, so the cookie's name may have the prefix that binds it to this host
    (RFC 6265bis 4.1.3).
    """

    indexer: Indexer
    random: Random
    secure: bool

    @property
    def cookie_name(self) -> str:
        return "__Host-gl" if self.secure else "gl"

    def cookie(self, request: Request) -> str | None:
        """Return the browser's cookie, or None if it is absent or has another form than ours."""
        raw = request.getCookie(self.cookie_name) or ""
        return raw if _VALUE.fullmatch(raw) else None

    def cookie_or_new(self, request: Request) -> str:
        """Return the browser's cookie, or a new value that set_cookie() sends."""
        return self.cookie(request) or base64url(self.random(ENTROPY_BYTES))

    def set_cookie(self, request: Request, value: str) -> None:
        """Send a session cookie unless the browser has one."""
        if self.cookie(request) is not None:
            return
        secure = "; Secure" if self.secure else ""
        field = f"{self.cookie_name}={value}; Path=/{secure}; HttpOnly; SameSite=Lax"
        request.addHeader("Set-Cookie", field)

    def index(self, cookie: str) -> Index:
        return self.indexer.index(Purpose.BROWSER, cookie.encode())

    def browser(self, request: Request) -> Index | None:
        cookie = self.cookie(request)
        return None if cookie is None else self.index(cookie)

    def field(self, cookie: str, token: str) -> str:
        """Return the hidden field of this login's forms in this browser."""
        return base64url(self.indexer.index(Purpose.FORM, cookie.encode(), token.encode()))

    def form(self, request: Request, token: str) -> tuple[Index, Mapping[str, str]]:
        """Return the browser and its form's fields; raise CsrfError, FramedRequest or PrefetchRequest."""
        cookie = self.cookie(request)
        fields = self.form_of(request, cookie, token)
        return self.index(cookie or ""), fields

    def form_of(self, request: Request, cookie: str | None, token: str) -> Mapping[str, str]:
        """Return the fields of a form that is bound to this cookie; raise what form() raises."""
        require_top_level_navigation(request)
        if (request.head.headers.values("sec-fetch-site") or ["same-origin"]) != ["same-origin"]:
            raise CsrfError
        fields = read_form(request)
        given = fields.get(FIELD, "").encode()
        if cookie is None or not compare_digest(given, self.field(cookie, token).encode()):
            raise CsrfError
        return fields


def require_top_level_navigation(request: Request) -> None:
    """Reject a prefetch, and a page that would be shown inside another page."""
    headers = request.head.headers
    if any("prefetch" in purpose for purpose in headers.values("sec-purpose")):
        raise PrefetchRequest
    if (headers.values("sec-fetch-dest") or ["document"]) != ["document"]:
        raise FramedRequest
