"""The cookie of a signed-in browser, and the checks that a request for the player's own page comes from that page.

The form of a signed-in page is bound to its session, so that it is void after the next sign-in. The form of a sign-in
is bound to the cookie that all pages of logins share.
"""

from collections.abc import Mapping

from gamed.crypto import Secret
from gamed.http.request import Request
from gamed.login.csrf import BrowserGuard, CsrfError, require_top_level_navigation
from gamed.sessions.browser_rules import BrowserName
from gamed.structs import Component

_PURPOSE = "account"
NOTICE_SECONDS = 60
"""The time that a browser has to load the page that the notice is for."""


class AccountGuard(Component, frozen=True, kw_only=True):
    """The browser session's cookie; with https its name binds it to this host (RFC 6265bis 4.1.3).

    It is `SameSite=Lax`, because a sign-in comes back from the provider's site.
    """

    browsers: BrowserGuard

    @property
    def cookie_name(self) -> str:
        return "__Host-ga" if self.browsers.secure else "ga"

    @property
    def notice_name(self) -> str:
        return "__Host-gn" if self.browsers.secure else "gn"

    def cookie(self, request: Request) -> str | None:
        """Return the cookie's value, unchecked."""
        return request.getCookie(self.cookie_name)

    def set_cookie(self, request: Request, token: Secret) -> None:
        """Send the cookie of a new session; the browser forgets it when it is closed."""
        self._send(request, token.reveal().decode(), "")

    def delete_cookie(self, request: Request) -> None:
        """Let the browser delete the cookie, and its copies of pages: the Back button then shows none."""
        self._send(request, "", "; Max-Age=0")
        request.setHeader("Clear-Site-Data", '"cache"')

    def set_notice(self, request: Request, key: str) -> None:
        """Let the next page of the account in this browser say what was done, once.

        A cookie, not the address: nobody's link can make the page say something, and a reload shows it no more.
        """
        self._send(request, key, f"; Max-Age={NOTICE_SECONDS}", name=self.notice_name)

    def take_notice(self, request: Request) -> str:
        """Return the key of the notice, "" without one; the browser forgets it."""
        key = request.getCookie(self.notice_name) or ""
        if key:
            self._send(request, "", "; Max-Age=0", name=self.notice_name)
        return key

    @property
    def typed_name(self) -> str:
        return "__Host-gr" if self.browsers.secure else "gr"

    def set_typed(self, request: Request, sealed: str) -> None:
        """Let the next page of the account in this browser have these values in its form, once."""
        self._send(request, sealed, f"; Max-Age={NOTICE_SECONDS}", name=self.typed_name)

    def take_typed(self, request: Request) -> str:
        """Return the sealed values, "" without any; the browser forgets them."""
        sealed = request.getCookie(self.typed_name) or ""
        if sealed:
            self._send(request, "", "; Max-Age=0", name=self.typed_name)
        return sealed

    def field(self, cookie: str) -> str:
        """Return the hidden field of the forms of a page, which are bound to a cookie."""
        return self.browsers.field(cookie, _PURPOSE)

    def form(self, request: Request, cookie: str | None) -> Mapping[str, str]:
        """Return the fields of a form of a page; raise CsrfError, FramedRequest or PrefetchRequest."""
        return self.browsers.form_of(request, cookie, _PURPOSE)

    def _send(self, request: Request, value: str, more: str, *, name: str = "") -> None:
        secure = "; Secure" if self.browsers.secure else ""
        field = f"{name or self.cookie_name}={value}; Path=/{secure}; HttpOnly; SameSite=Lax{more}"
        request.addHeader("Set-Cookie", field)


def browser_name(request: Request) -> BrowserName:
    """Return the name of the browser that sends a request."""
    return BrowserName.of(request.head.single("user-agent"))


def require_own_site(request: Request) -> None:
    """Reject a download that another site's page asks for."""
    require_top_level_navigation(request)
    if (request.head.headers.values("sec-fetch-site") or ["none"])[0] not in ("same-origin", "none"):
        raise CsrfError
