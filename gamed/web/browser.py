"""The link of a sign-in and its forms, as a browser opens and posts them (PROTOCOL 3.2)."""

from collections.abc import Mapping

from msgspec.structs import replace

from gamed.config.model import Registration
from gamed.http.app import make_html_app
from gamed.http.bodies import DEFAULT_BODY_POLICIES
from gamed.http.errors import RouteNotFound
from gamed.http.request import Request
from gamed.login.account_check import Form, Refusal
from gamed.login.browser import Ask, BrowserSide, SeeDone
from gamed.login.departing import Depart, Departing
from gamed.login.entry import LOCAL
from gamed.login.local import LocalSignIn, Refused
from gamed.structs import Part
from gamed.web.browser_guard import require_earnest
from gamed.web.login_errors import LOGIN_ERRORS
from gamed.web.page_room import PageRoom, page, see_other
from gamed.web.pages import done, provider, sign_in
from gamed.web.pages.account_fields import Returned
from gamed.web.pages.errors import SERVER_ERROR, error_response
from gamed.web.players_errors import PLAYER_ERRORS
from gamed.web.sessions_errors import SESSION_ERRORS

_STATUS = {Refusal.LIMIT: 429, Refusal.BUSY: 503}
"""Every other refusal is a page like any: 200."""


class BrowserRoutes(Part, frozen=True):
    """`local` is None in oauth mode; `labels` are what the providers are called there."""

    app = make_html_app(error_response, LOGIN_ERRORS, PLAYER_ERRORS, SESSION_ERRORS)
    prefixes = ("/auth/login/",)
    body_policies = DEFAULT_BODY_POLICIES

    _browsers: BrowserSide
    _departing: Departing
    _local: LocalSignIn | None
    _labels: Mapping[str, str]
    _registration: Registration
    _room: PageRoom

    @app.route("/auth/login/<token:token>", methods=["GET"])
    async def open_link(self, request: Request, token: str) -> bytes:
        return await self._room.answered(request, self._open(request, token))

    @app.route("/auth/login/<token:token>/continue", methods=["POST"])
    async def go_on(self, request: Request, token: str) -> bytes:
        return await self._room.answered(request, self._go(request, token))

    @app.route("/auth/login/<token:token>/local", methods=["POST"])
    async def sign_in_locally(self, request: Request, token: str) -> bytes:
        return await self._room.answered(request, self._sign_in(request, token))

    @app.route("/auth/login/<token:token>/decline", methods=["POST"])
    async def decline_login(self, request: Request, token: str) -> bytes:
        return await self._room.answered(request, self._decline(request, token))

    async def _open(self, request: Request, token: str) -> bytes:
        require_earnest(request)
        guard = self._room.guard
        cookie, fetch_site = guard.offered(request), request.head.headers.values("sec-fetch-site")
        visit = Form(token, guard.index(cookie), request.head.address, request_id=request.request_id)
        entering = self._departing.enter(visit, ",".join(fetch_site) or None)
        answer = await self._room.detached.run(entering)
        guard.keep(request, cookie)
        return self._answer(request, token, cookie, answer)

    async def _go(self, request: Request, token: str) -> bytes:
        if self._local is not None:
            raise RouteNotFound
        form, _ = self._form(request, token)
        cookie = self._room.guard.offered(request)
        answer = await self._room.detached.run(self._departing.go(form))
        if isinstance(answer, Refused):
            returned = Returned(answer.refusal, answer.retry_after, name=form.name)
            return self._page(request, token, cookie, Ask(answer.login), returned)
        return self._answer(request, token, cookie, answer)

    async def _sign_in(self, request: Request, token: str) -> bytes:
        if self._local is None:
            raise RouteNotFound
        form, fields = self._form(request, token)
        creating = "create" in fields
        work = self._local.create(form) if creating else self._local.sign_in(form)
        answer = await self._room.detached.run(work)
        if isinstance(answer, SeeDone):
            return self._room.see_done(request, answer)
        returned = Returned(answer.refusal, answer.retry_after, creating, form.name)
        return self._page(request, token, self._room.guard.offered(request), Ask(answer.login), returned)

    async def _decline(self, request: Request, token: str) -> bytes:
        browser, _ = self._room.guard.form(request, token)
        standing = await self._room.detached.run(self._browsers.decline(token, browser, request.request_id))
        if standing is not None:
            return self._room.see_done(request, standing)
        return page(request, 200, done.denied_page(self._room.server))

    def _form(self, request: Request, token: str) -> tuple[Form, Mapping[str, str]]:
        """What was posted, as its work wants it, and every field."""
        browser, fields = self._room.guard.form(request, token)
        name, password = fields.get("name", ""), fields.get("password", "")
        return Form(token, browser, request.head.address, name, password, request.request_id), fields

    def _answer(self, request: Request, token: str, cookie: str, answer: Ask | SeeDone | Depart) -> bytes:
        match answer:
            case SeeDone():
                return self._room.see_done(request, answer)
            case Depart(url):
                return see_other(request, url)
            case Ask():
                return self._page(request, token, cookie, answer)

    def _page(self, request: Request, token: str, cookie: str, ask: Ask, returned: Returned | None = None) -> bytes:
        """Who signs in? With one sentence if it is asked again."""
        asked, server = self._room.asked(ask.login, token, cookie), self._room.server
        status = 200 if returned is None else _STATUS.get(returned.refusal, 200)
        if returned is not None and status >= SERVER_ERROR:
            returned = replace(returned, request_id=request.request_id)
        if ask.login.provider == LOCAL:
            content = sign_in.sign_in_page(server, asked, self._registration, returned)
        else:
            wanted = provider.Wanted(self._labels[ask.login.provider], ask.login.intent, ask.asker)
            content = provider.provider_page(server, asked, wanted, returned)
        if returned is not None and returned.retry_after:
            request.setHeader("Retry-After", str(returned.retry_after))
        return page(request, status, content)
