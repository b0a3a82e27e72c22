"""What the rooms of browser routes share: answering with a page, on to done, and the refusals only browsers see.

The link of a sign-in and its forms, as a browser opens and posts them (PROTOCOL 3.2).

Where a provider sends the browser back to (SPEC 4.2, PROTOCOL 3.3).

The page of a finished sign-in, for the browser that finished it (PROTOCOL 3.4).
"""

from collections.abc import Callable, Coroutine, Mapping
from typing import Any
from urllib.parse import urlencode, urlsplit

from msgspec import Struct
from msgspec.structs import replace
from twisted.internet.defer import Deferred

from gamed.config.model import Registration
from gamed.http.app import make_html_app
from gamed.http.background import ShieldedTasks
from gamed.http.bodies import DEFAULT_BODY_POLICIES
from gamed.http.errors import RouteNotFound
from gamed.http.json_body import read_query
from gamed.http.request import Request
from gamed.login.authorize import AuthorizeService, RedirectToProvider
from gamed.login.browser import (
    BrowserLoginService,
    Done,
    Ended,
    Finished,
    InProgress,
    RedirectToResult,
    ResultService,
    ReturnToGame,
    ShowFinishCode,
    SignInPrompt,
)
from gamed.login.callback import CallbackRequest, CallbackService
from gamed.login.callback_rules import CallbackCheck, CallbackRejected
from gamed.login.csrf import BrowserGuard, CsrfError, FramedRequest, PrefetchRequest, require_top_level_navigation
from gamed.login.errors import CallbackMalformed, LoginEnded, UnknownLoginLink, WrongBrowser
from gamed.login.keys import LOCAL
from gamed.login.local import FormError, FormRejected, LocalLoginService, SignInForm
from gamed.login.pages import forms, results, texts
from gamed.login.pages.forms import DeviceInfo, FormFeedback
from gamed.login.pages.layout import PAGE_HEADERS, ServerName
from gamed.login.pages.results import SERVER_ERROR, error_response
from gamed.login.problems import LOGIN_ERRORS
from gamed.login.transaction import LoginTransaction
from gamed.players.problems import PLAYER_ERRORS
from gamed.sessions.problems import SESSION_ERRORS
from gamed.structs import Component
from gamed.timestamps import Now


class PageResponder(Struct, frozen=True):
    """`base` is asked each time, for it may be known only when the port is bound."""

    guard: BrowserGuard
    base: Callable[[], str]
    server_name: str | None
    now_ms: Now
    detached: ShieldedTasks

    @property
    def server(self) -> ServerName:
        return ServerName(self.server_name, urlsplit(self.base()).netloc)

    def asked(self, login: LoginTransaction, token: str, cookie: str) -> DeviceInfo:
        age_seconds = max(0, self.now_ms() - login.created_ms) // 1000
        return DeviceInfo(token, self.guard.field(cookie, token), login.client, age_seconds)

    def done_url(self, login_id: str) -> str:
        return f"{self.base()}/auth/login/done?{urlencode({'login_id': login_id})}"

    def see_done(self, request: Request, where: RedirectToResult) -> bytes:
        return see_other(request, self.done_url(where.login_id))

    def refused(self, request: Request, status: int, sentence: str) -> bytes:
        content = results.error_page(status, "", sentence, self.server, request_id=request.request_id)
        return page(request, status, content)

    async def answered(self, request: Request, work: Coroutine[Deferred[Any], Any, bytes]) -> bytes:
        """The refusals that only a browser sees; all others are every page's."""
        try:
            return await work
        except UnknownLoginLink:
            return self.refused(request, 404, texts.UNKNOWN_LINK)
        except LoginEnded as e:
            return page(request, 410, results.over_page(e.outcome, self.server))
        except WrongBrowser:
            return self.refused(request, 409, texts.OTHER_BROWSER)
        except CsrfError:
            return self.refused(request, 403, texts.FORM_REFUSED)
        except FramedRequest:
            return self.refused(request, 403, texts.NOT_A_PAGE)
        except PrefetchRequest:
            request.setHeader("Retry-After", "1")
            return self.refused(request, 503, texts.PREFETCH)


def page(request: Request, status: int, content: bytes) -> bytes:
    request.setResponseCode(status)
    request.setHeaders(PAGE_HEADERS)
    return content


def see_other(request: Request, url: str) -> bytes:
    request.setHeader("Location", url)
    return page(request, 303, b"")


_STATUS = {FormError.LIMIT: 429, FormError.BUSY: 503}
"""Every other refusal is a page like any: 200."""


class BrowserRoutes(Component, frozen=True):
    """`local` is None in oauth mode; `labels` are what the providers are called there."""

    app = make_html_app(error_response, LOGIN_ERRORS, PLAYER_ERRORS, SESSION_ERRORS)
    prefixes = ("/auth/login/",)
    body_policies = DEFAULT_BODY_POLICIES

    _browsers: BrowserLoginService
    _departing: AuthorizeService
    _local: LocalLoginService | None
    _labels: Mapping[str, str]
    _registration: Registration
    _room: PageResponder

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
        require_top_level_navigation(request)
        guard = self._room.guard
        cookie, fetch_site = guard.offered(request), request.head.headers.values("sec-fetch-site")
        visit = SignInForm(token, guard.index(cookie), request.head.address, request_id=request.request_id)
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
        if isinstance(answer, FormRejected):
            returned = FormFeedback(answer.refusal, answer.retry_after, name=form.name)
            return self._page(request, token, cookie, SignInPrompt(answer.login), returned)
        return self._answer(request, token, cookie, answer)

    async def _sign_in(self, request: Request, token: str) -> bytes:
        if self._local is None:
            raise RouteNotFound
        form, fields = self._form(request, token)
        creating = "create" in fields
        work = self._local.create(form) if creating else self._local.sign_in(form)
        answer = await self._room.detached.run(work)
        if isinstance(answer, RedirectToResult):
            return self._room.see_done(request, answer)
        returned = FormFeedback(answer.refusal, answer.retry_after, creating, form.name)
        return self._page(request, token, self._room.guard.offered(request), SignInPrompt(answer.login), returned)

    async def _decline(self, request: Request, token: str) -> bytes:
        browser, _ = self._room.guard.form(request, token)
        standing = await self._room.detached.run(self._browsers.decline(token, browser, request.request_id))
        if standing is not None:
            return self._room.see_done(request, standing)
        return page(request, 200, results.denied_page(self._room.server))

    def _form(self, request: Request, token: str) -> tuple[SignInForm, Mapping[str, str]]:
        """What was posted, as its work wants it, and every field."""
        browser, fields = self._room.guard.form(request, token)
        name, password = fields.get("name", ""), fields.get("password", "")
        return SignInForm(token, browser, request.head.address, name, password, request.request_id), fields

    def _answer(
        self, request: Request, token: str, cookie: str, answer: SignInPrompt | RedirectToResult | RedirectToProvider
    ) -> bytes:
        match answer:
            case RedirectToResult():
                return self._room.see_done(request, answer)
            case RedirectToProvider(url):
                return see_other(request, url)
            case SignInPrompt():
                return self._page(request, token, cookie, answer)

    def _page(
        self, request: Request, token: str, cookie: str, ask: SignInPrompt, returned: FormFeedback | None = None
    ) -> bytes:
        """Who signs in? With one sentence if it is asked again."""
        asked, server = self._room.asked(ask.login, token, cookie), self._room.server
        status = 200 if returned is None else _STATUS.get(returned.refusal, 200)
        if returned is not None and status >= SERVER_ERROR:
            returned = replace(returned, request_id=request.request_id)
        if ask.login.provider == LOCAL:
            content = forms.sign_in_page(server, asked, self._registration, returned)
        else:
            wanted = forms.ProviderPrompt(self._labels[ask.login.provider], ask.login.intent, ask.asker)
            content = forms.provider_page(server, asked, wanted, returned)
        if returned is not None and returned.retry_after:
            request.setHeader("Retry-After", str(returned.retry_after))
        return page(request, status, content)


REFUSED: Mapping[CallbackCheck, tuple[int, str]] = {
    CallbackCheck.PROVIDER_UNKNOWN: (404, texts.CALLBACK_UNKNOWN_PROVIDER),
    CallbackCheck.STATE_UNKNOWN: (400, texts.CALLBACK_UNKNOWN),
    CallbackCheck.OTHER_BROWSER: (403, texts.CALLBACK_BROWSER),
    CallbackCheck.OTHER_PROVIDER: (400, texts.CALLBACK_BURNED),
    CallbackCheck.OTHER_ISSUER: (400, texts.CALLBACK_BURNED),
    CallbackCheck.OVER: (410, texts.CALLBACK_BURNED),
}


class CallbackRoutes(Component, frozen=True):
    """The work runs on when the browser leaves: a code can be redeemed only once."""

    app = make_html_app(error_response, LOGIN_ERRORS, PLAYER_ERRORS, SESSION_ERRORS)
    prefixes = ("/auth/*/callback",)
    body_policies = DEFAULT_BODY_POLICIES

    _returning: CallbackService
    _room: PageResponder

    @app.route("/auth/<string:provider>/callback", methods=["GET"])
    async def take_callback(self, request: Request, provider: str) -> bytes:
        return await self._room.answered(request, self._take(request, provider))

    async def _take(self, request: Request, provider: str) -> bytes:
        require_top_level_navigation(request)
        head, browser = request.head, self._room.guard.browser(request)
        arrival = CallbackRequest(provider, head.query, browser, head.address, request.request_id)
        try:
            answer = await self._room.detached.run(self._returning.complete(arrival))
        except CallbackMalformed:
            return self._room.refused(request, 400, texts.CALLBACK_MALFORMED)
        except CallbackRejected as e:
            return self._room.refused(request, *REFUSED[e.ruling])
        if isinstance(answer, RedirectToResult):
            return self._room.see_done(request, answer)
        if not answer.mine:
            raise WrongBrowser
        where = self._room.done_url(answer.login_id)
        request.setHeader("Refresh", f"0; url={where}")
        return page(request, 409, results.twice_page(self._room.server, where))


RETURN_SECONDS = 2
"""With 0 or 1 the Back button skips the page in some browsers, and nobody reads it."""
WORKING_SECONDS = 1
STANDING_SECONDS = 20
"""Between two loads of a page that waits for the game: each takes away the keyboard's focus and what was selected,
and a screen reader begins anew, so a page can first be read to its end."""


class DoneRoutes(Component, frozen=True):
    app = make_html_app(error_response, LOGIN_ERRORS, PLAYER_ERRORS, SESSION_ERRORS)
    prefixes = ("/auth/login/done",)
    body_policies = DEFAULT_BODY_POLICIES

    _done: ResultService
    _room: PageResponder

    @app.route("/auth/login/done", methods=["GET"])
    async def see_done(self, request: Request) -> bytes:
        return await self._room.answered(request, self._see(request))

    async def _see(self, request: Request) -> bytes:
        require_top_level_navigation(request)
        login_id = read_query(request).get("login_id", "")
        return self._seen(request, await self._done.done(login_id, self._room.guard.browser(request)))

    def _seen(self, request: Request, seen: Done) -> bytes:
        server = self._room.server
        match seen:
            case ReturnToGame(login, ticket):
                back = f"http://127.0.0.1:{login.loopback_port}/gamed/return?"
                back += urlencode({"login_id": login.login_id, "ticket": ticket})
                request.setHeader("Refresh", f"{RETURN_SECONDS}; url={back}")
                return page(request, 200, results.return_page(server, back, self._room.done_url(login.login_id)))
            case ShowFinishCode(login, code, token):
                request.setHeader("Refresh", str(STANDING_SECONDS))
                asked = self._room.asked(login, token, self._room.guard.offered(request))
                return page(request, 200, results.code_page(server, asked, code))
            case InProgress():
                request.setHeader("Refresh", str(WORKING_SECONDS))
                return page(request, 200, results.working_page(server))
            case Finished(signed_in, linked, final):
                if not final:
                    request.setHeader("Refresh", str(STANDING_SECONDS))
                write = results.linked_page if linked else results.back_page if signed_in else results.waiting_page
                return page(request, 200, write(server))
            case Ended(outcome, code):
                return page(request, 200, results.over_page(outcome, server, code))
