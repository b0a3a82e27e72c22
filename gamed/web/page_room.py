"""What the rooms of browser routes share: answering with a page, on to done, and the refusals only browsers see."""

from collections.abc import Callable, Coroutine
from typing import Any
from urllib.parse import urlencode, urlsplit

from msgspec import Struct
from twisted.internet.defer import Deferred

from gamed.http.request import Request
from gamed.instants import Now
from gamed.login.browser import SeeDone
from gamed.login.errors import LinkUnknown, LoginOver, OtherBrowser
from gamed.login.transaction import LoginTransaction
from gamed.web.browser_guard import Embedded, FormForeign, Guard, Prefetched
from gamed.web.detached import Detached
from gamed.web.pages import errors, texts
from gamed.web.pages.device import Asked
from gamed.web.pages.layout import PAGE_HEADERS, Server


class PageRoom(Struct, frozen=True):
    """`base` is asked each time, for it may be known only when the port is bound."""

    guard: Guard
    base: Callable[[], str]
    server_name: str | None
    now_ms: Now
    detached: Detached

    @property
    def server(self) -> Server:
        return Server(self.server_name, urlsplit(self.base()).netloc)

    def asked(self, login: LoginTransaction, token: str, cookie: str) -> Asked:
        age_seconds = max(0, self.now_ms() - login.created_ms) // 1000
        return Asked(token, self.guard.field(cookie, token), login.client, age_seconds)

    def done_url(self, login_id: str) -> str:
        return f"{self.base()}/auth/login/done?{urlencode({'login_id': login_id})}"

    def see_done(self, request: Request, where: SeeDone) -> bytes:
        return see_other(request, self.done_url(where.login_id))

    def refused(self, request: Request, status: int, sentence: str) -> bytes:
        content = errors.error_page(status, "", sentence, self.server, request_id=request.request_id)
        return page(request, status, content)

    async def answered(self, request: Request, work: Coroutine[Deferred[Any], Any, bytes]) -> bytes:
        """The refusals that only a browser sees; all others are every page's."""
        try:
            return await work
        except LinkUnknown:
            return self.refused(request, 404, texts.UNKNOWN_LINK)
        except LoginOver as e:
            return page(request, 410, errors.over_page(e.outcome, self.server))
        except OtherBrowser:
            return self.refused(request, 409, texts.OTHER_BROWSER)
        except FormForeign:
            return self.refused(request, 403, texts.FORM_REFUSED)
        except Embedded:
            return self.refused(request, 403, texts.NOT_A_PAGE)
        except Prefetched:
            request.setHeader("Retry-After", "1")
            return self.refused(request, 503, texts.PREFETCH)


def page(request: Request, status: int, content: bytes) -> bytes:
    request.setResponseCode(status)
    request.setHeaders(PAGE_HEADERS)
    return content


def see_other(request: Request, url: str) -> bytes:
    request.setHeader("Location", url)
    return page(request, 303, b"")
