"""The browser routes of a login serve its link and forms, the provider's callback and the result.

See docs/protocol.md: Signing in.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from msgspec import Struct
from msgspec.structs import replace

from gamed.config.model import Look, Mark, Registration
from gamed.config.settings import Intervals
from gamed.http.app import HtmlApp, make_html_app
from gamed.http.background import ShieldedTasks
from gamed.http.bodies import DEFAULT_BODY_POLICIES
from gamed.http.errors import RouteNotFound
from gamed.http.json_body import read_query
from gamed.http.problems import Problem, RenderedError
from gamed.http.request import Request
from gamed.login import sentences, views
from gamed.login.authorize import AuthorizeService, RedirectToProvider
from gamed.login.browser import (
    BrowserLoginService,
    Ended,
    Finished,
    InProgress,
    LoginResult,
    OnAccountPage,
    RedirectToResult,
    ResultService,
    ReturnToGame,
    ShowFinishCode,
    SignInPrompt,
)
from gamed.login.callback import CallbackRequest, CallbackService
from gamed.login.callback_rules import CallbackCheck, CallbackRejected
from gamed.login.csrf import BrowserGuard, CsrfError, FramedRequest, PrefetchRequest, require_top_level_navigation
from gamed.login.errors import CallbackMalformed, LoginEnded, NameSettled, UnknownLoginLink, WrongBrowser
from gamed.login.keys import LOCAL
from gamed.login.local import FormError, FormRejected, LocalLoginService, SignInForm
from gamed.login.newcomer import Newcomer, NewcomerService
from gamed.login.places import place_of
from gamed.login.problems import LOGIN_ERRORS
from gamed.login.return_rules import return_address
from gamed.login.sentences import Place
from gamed.login.transaction import LoginTransaction
from gamed.login.views import SERVER_ERROR, DeviceInfo, FormFeedback
from gamed.pages.language import Language
from gamed.pages.languages import Languages
from gamed.pages.model import PAGE_HEADERS, Frame, LanguageChoice, Page, ServerName, Text
from gamed.pages.render import PageRenderer, built_in_mark
from gamed.players.errors import DisplayNameInvalid
from gamed.players.problems import PLAYER_ERRORS
from gamed.sessions.problems import SESSION_ERRORS
from gamed.structs import Component
from gamed.timestamps import Now

LANGUAGE: Final = "/auth/language"


class PageResponder(Struct, frozen=True):
    """The parts that all browser routes share; `base_url` is a function, because the port may decide the URL."""

    guard: BrowserGuard
    base_url: Callable[[], str]
    server_name: str | None
    now_ms: Now
    tasks: ShieldedTasks
    renderer: PageRenderer
    languages: Languages
    look: Look | None = None
    intervals: Intervals = Intervals()

    @property
    def server(self) -> ServerName:
        return ServerName(self.server_name, urlsplit(self.base_url()).netloc, self.look)

    @property
    def mark(self) -> Mark:
        """Return the owner's picture, or the built-in one."""
        return (self.look and self.look.mark) or built_in_mark()

    def page(self, request: Request, status: int, shown: Page, *, at: str | None = None) -> bytes:
        """Return the page, and set its status and header fields.

        `at` is the path of the page that GET shows again where the request's address does not tell it, "" if none does:
        the page says what has just happened, and offers no languages.
        """
        request.setResponseCode(status)
        request.setHeaders(self.renderer.headers)
        return self.render(request, shown, at)

    def render(self, request: Request, shown: Page, at: str | None = None) -> bytes:
        place = place_of(request.head.path, request.head.query) if at is None else place_of(at)
        choices: Sequence[LanguageChoice] = ()
        if place is not None:
            choices = [LanguageChoice(tag, name, f"{LANGUAGE}/{tag}{place}") for tag, name in self.languages.names]
        frame = Frame(self.server, request.request_id, self.now_ms(), choices)
        return self.renderer.render(shown, frame, self.language(request))

    @property
    def language_cookie(self) -> str:
        return "__Host-language" if self.guard.secure else "language"

    def language(self, request: Request) -> Language:
        accepted = ",".join(request.head.headers.values("accept-language"))
        return self.languages.choose(request.getCookie(self.language_cookie) or "", request.locale, accepted)

    def device(self, request: Request, login: LoginTransaction, token: str, cookie: str) -> DeviceInfo:
        """Return the device that asks; from now on the page of this request is in the language of its game."""
        request.locale = login.client.locale
        age_seconds = max(0, self.now_ms() - login.created_ms) // 1000
        return DeviceInfo(token, self.guard.field(cookie, token), login.client, age_seconds)

    def result_url(self, login_id: str) -> str:
        return f"{self.base_url()}/auth/login/done?{urlencode({'login_id': login_id})}"

    def redirect(self, request: Request, target: RedirectToProvider | RedirectToResult) -> bytes:
        url = target.url if isinstance(target, RedirectToProvider) else self.result_url(target.login_id)
        return see_other(request, url)

    def error(self, request: Request, status: int, sentence: Text) -> bytes:
        return self.page(request, status, views.error_page(status, sentence, request_id=request.request_id))

    def problem(self, problem: Problem, request: Request, place: Place) -> RenderedError:
        """Return the header fields and the page of a problem that is not special to a group of routes."""
        shown = views.problem_page(problem, request_id=request.request_id, place=place, address=self.base_url())
        return self.renderer.headers, self.render(request, shown)

    def failure_page(self, request: Request, error: Exception) -> bytes | None:
        """Return the page of an error that only the browser routes of a login have, None for any other."""
        match error:
            case UnknownLoginLink():
                return self.error(request, 404, sentences.UNKNOWN_LINK)
            case LoginEnded():
                return self.page(request, 410, views.ended_page(error.outcome))
            case WrongBrowser():
                return self.error(request, 409, sentences.OTHER_BROWSER)
            case NameSettled():
                return self.page(request, 409, views.settled_page())
            case CsrfError():
                return self.error(request, 403, self.form_refused(request))
            case FramedRequest():
                return self.error(request, 403, sentences.NOT_A_PAGE)
            case PrefetchRequest():
                request.setHeader("Retry-After", "1")
                return self.error(request, 503, sentences.PREFETCH)
            case _:
                return None

    def form_refused(self, request: Request) -> Text:
        """Return why a form was refused: most often the browser keeps no cookies."""
        return sentences.FORM_REFUSED if self.guard.cookie(request) else sentences.NO_COOKIE


def report(request: Request, feedback: FormFeedback | None) -> tuple[int, FormFeedback | None]:
    """Set Retry-After; return the status, and the feedback with the request's id if the server is the reason."""
    if feedback is None:
        return 200, None
    if feedback.retry_after:
        request.setHeader("Retry-After", str(feedback.retry_after))
    status = feedback.error.status
    return status, feedback if status < SERVER_ERROR else replace(feedback, request_id=request.request_id)


def see_other(request: Request, url: str) -> bytes:
    """Redirect with 303."""
    request.setHeader("Location", url)
    request.setResponseCode(303)
    request.setHeaders(PAGE_HEADERS)
    return b""


def _problem_page(group: Any, problem: Problem, request: Request) -> RenderedError:
    rendered: RenderedError = group.pages.problem(problem, request, Place.GAME)
    return rendered


def _failure_page(
    routes: "BrowserRoutes | CallbackRoutes | ResultRoutes", request: Request, error: Exception
) -> bytes | None:
    return routes.pages.failure_page(request, error)


def make_login_app() -> HtmlApp:
    """Return the app of a group of browser routes that have a PageResponder."""
    return make_html_app(_problem_page, LOGIN_ERRORS, PLAYER_ERRORS, SESSION_ERRORS, failure_page=_failure_page)


class BrowserRoutes(Component, frozen=True, kw_only=True):
    """The routes of the login's link; `local` is None in oauth mode, `labels` are the names that people see."""

    app = make_login_app()
    prefixes = ("/auth/login/",)
    body_policies = DEFAULT_BODY_POLICIES

    browsers: BrowserLoginService
    authorize: AuthorizeService
    local: LocalLoginService | None
    labels: Mapping[str, str]
    registration: Registration
    newcomers: NewcomerService
    pages: PageResponder

    @app.route("/auth/login/<token:token>", methods=["GET"])
    async def open_link(self, request: Request, token: str) -> bytes:
        return await self._open(request, token)

    @app.route("/auth/login/<token:token>/create", methods=["GET"])
    async def open_create_form(self, request: Request, token: str) -> bytes:
        return await self._open(request, token, creating=True)

    @app.route("/auth/login/<token:token>/continue", methods=["POST"])
    async def continue_to_provider(self, request: Request, token: str) -> bytes:
        if self.local is not None:
            raise RouteNotFound
        form, _ = self._form(request, token)
        cookie = self.pages.guard.cookie_or_new(request)
        result = await self.pages.tasks.run(self.authorize.continue_(form))
        if isinstance(result, FormRejected):
            feedback = FormFeedback(result.error, result.retry_after, name=form.name)
            return self._page(request, token, cookie, SignInPrompt(result.login), feedback)
        return self._respond(request, token, cookie, result)

    @app.route("/auth/login/<token:token>/local", methods=["POST"])
    async def sign_in_locally(self, request: Request, token: str) -> bytes:
        if self.local is None:
            raise RouteNotFound
        form, fields = self._form(request, token)
        creating = "create" in fields
        result = await self.pages.tasks.run(self.local.sign_in(form, create=creating))
        if isinstance(result, RedirectToResult):
            return self.pages.redirect(request, result)
        typed = fields.get("display_name", "")
        feedback = FormFeedback(result.error, result.retry_after, creating, form.name, display_name=typed)
        cookie = self.pages.guard.cookie_or_new(request)
        show = self._create_page if creating else self._page
        return show(request, token, cookie, SignInPrompt(result.login), feedback)

    @app.route("/auth/login/<token:token>/decline", methods=["POST"])
    async def decline_login(self, request: Request, token: str) -> bytes:
        browser, _ = self.pages.guard.form(request, token)
        redirect = await self.pages.tasks.run(self.browsers.decline(token, browser, request.request_id))
        if redirect is not None:
            return self.pages.redirect(request, redirect)
        return self.pages.page(request, 200, views.denied_page(), at="")

    @app.route("/auth/login/<token:token>/name", methods=["GET"])
    async def open_name_form(self, request: Request, token: str) -> bytes:
        return await self._name_form(request, token)

    @app.route("/auth/login/<token:token>/name", methods=["POST"])
    async def choose_name(self, request: Request, token: str) -> bytes:
        browser, fields = self.pages.guard.form(request, token)
        typed = fields.get("display_name", "")
        try:
            redirect = await self.pages.tasks.run(self.newcomers.choose(token, browser, request.head.address, typed))
        except DisplayNameInvalid:
            return await self._name_form(request, token, typed)
        return self.pages.redirect(request, redirect)

    async def _open(self, request: Request, token: str, *, creating: bool = False) -> bytes:
        """Open the link, with the form for a new account if `creating`; only local mode has that form."""
        require_top_level_navigation(request)
        if creating and self.local is None:
            raise RouteNotFound
        guard = self.pages.guard
        cookie, fetch_site = guard.cookie_or_new(request), request.head.headers.values("sec-fetch-site")
        visit = SignInForm(token, guard.index(cookie), request.head.address, request_id=request.request_id)
        opened = await self.pages.tasks.run(self.authorize.open_link(visit, ",".join(fetch_site) or None))
        guard.set_cookie(request, cookie)
        if creating and isinstance(opened, SignInPrompt):
            return self._create_page(request, token, cookie, opened)
        return self._respond(request, token, cookie, opened)

    async def _name_form(self, request: Request, token: str, refused: str | None = None) -> bytes:
        require_top_level_navigation(request)
        newcomer = await self.newcomers.get(token, self.pages.guard.browser(request))
        login, cookie = newcomer.login, self.pages.guard.cookie_or_new(request)
        device, url = self.pages.device(request, login, token, cookie), self.pages.result_url(login.login_id)
        content = views.display_name_page(device, newcomer.name, url, refused)
        return self.pages.page(request, 200, content)

    def _form(self, request: Request, token: str) -> tuple[SignInForm, Mapping[str, str]]:
        """Return the posted form, and all of its fields."""
        browser, fields = self.pages.guard.form(request, token)
        name, password = fields.get("name", ""), fields.get("password", "")
        asked = "display_name" in fields and "nameless" not in fields
        shown = (fields["display_name"].strip(" ") or name) if asked else None
        form = SignInForm(token, browser, request.head.address, name, password, request.request_id, shown)
        return form, fields

    def _respond(
        self, request: Request, token: str, cookie: str, result: SignInPrompt | RedirectToResult | RedirectToProvider
    ) -> bytes:
        match result:
            case SignInPrompt():
                return self._page(request, token, cookie, result)
            case _:
                return self.pages.redirect(request, result)

    def _page(
        self, request: Request, token: str, cookie: str, prompt: SignInPrompt, feedback: FormFeedback | None = None
    ) -> bytes:
        """Return the sign-in page, with the error of the last form if there is one."""
        device = self.pages.device(request, prompt.login, token, cookie)
        status, feedback = report(request, feedback)
        if prompt.login.provider == LOCAL:
            content = views.sign_in_page(device, self.registration, feedback)
        else:
            label = self.labels[prompt.login.provider]
            provider = views.ProviderPrompt(label, prompt.login.intent, prompt.requester)
            content = views.provider_page(device, provider, feedback)
        return self.pages.page(request, status, content)

    def _create_page(
        self, request: Request, token: str, cookie: str, prompt: SignInPrompt, feedback: FormFeedback | None = None
    ) -> bytes:
        """Return the page for a new account, or the sign-in page if the server takes none."""
        if self.registration is Registration.CLOSED:
            return self._page(request, token, cookie, prompt, feedback or FormFeedback(FormError.CLOSED))
        device, (status, feedback) = self.pages.device(request, prompt.login, token, cookie), report(request, feedback)
        content = views.create_page(device, self.registration, feedback)
        return self.pages.page(request, status, content, at=f"/auth/login/{token}/create")


REJECTED: Mapping[CallbackCheck, tuple[int, Text]] = {
    CallbackCheck.PROVIDER_UNKNOWN: (404, sentences.CALLBACK_UNKNOWN_PROVIDER),
    CallbackCheck.STATE_UNKNOWN: (400, sentences.CALLBACK_UNKNOWN),
    CallbackCheck.OTHER_BROWSER: (403, sentences.CALLBACK_BROWSER),
    CallbackCheck.OTHER_PROVIDER: (400, sentences.CALLBACK_INVALID),
    CallbackCheck.OTHER_ISSUER: (400, sentences.CALLBACK_INVALID),
    CallbackCheck.ENDED: (410, sentences.CALLBACK_INVALID),
}
"""The status and the sentence of each failed check."""


class CallbackRoutes(Component, frozen=True, kw_only=True):
    """The callback route; its work continues when the browser disconnects, because a code can be redeemed only once."""

    app = make_login_app()
    prefixes = ("/auth/*/callback",)
    body_policies = DEFAULT_BODY_POLICIES

    callbacks: CallbackService
    pages: PageResponder

    @app.route("/auth/<string:provider>/callback", methods=["GET"])
    async def complete_callback(self, request: Request, provider: str) -> bytes:
        require_top_level_navigation(request)
        head, browser = request.head, self.pages.guard.browser(request)
        callback = CallbackRequest(provider, head.query, browser, head.address, request.request_id)
        try:
            result = await self.pages.tasks.run(self.callbacks.complete(callback))
        except CallbackMalformed:
            return self.pages.error(request, 400, sentences.CALLBACK_MALFORMED)
        except CallbackRejected as e:
            return self.pages.error(request, *REJECTED[e.check])
        if isinstance(result, RedirectToResult):
            return self.pages.redirect(request, result)
        if not result.own:
            raise WrongBrowser
        url = self.pages.result_url(result.login_id)
        request.setHeader("Refresh", f"0; url={url}")
        return self.pages.page(request, 409, views.second_callback_page(url))


WORKING_SECONDS = 1


class ResultRoutes(Component, frozen=True, kw_only=True):
    """The route of the result page."""

    app = make_login_app()
    prefixes = ("/auth/login/done",)
    body_policies = DEFAULT_BODY_POLICIES

    results: ResultService
    labels: Mapping[str, str]
    newcomers: NewcomerService
    pages: PageResponder

    @app.route("/auth/login/done", methods=["GET"])
    async def show_result(self, request: Request) -> bytes:
        require_top_level_navigation(request)
        login_id = read_query(request).get("login_id", "")
        shown = await self.results.get(login_id, self.pages.guard.browser(request))
        request.locale, result = shown.locale, shown.result
        asks = isinstance(result, ShowFinishCode) or (isinstance(result, Finished) and not result.linked)
        return self._page(request, result, await self.newcomers.of_result(login_id) if asks else None)

    def _page(self, request: Request, result: LoginResult, newcomer: Newcomer | None) -> bytes:
        match result:
            case OnAccountPage(login_id):
                return see_other(
                    request, f"{self.pages.base_url()}/auth/account/done?{urlencode({'login_id': login_id})}"
                )
            case ReturnToGame(login, ticket):
                return self._return_page(request, login, ticket)
            case ShowFinishCode(login, code, token):
                request.setHeader("Refresh", str(self.pages.intervals.page_refresh_seconds))
                device = self.pages.device(request, login, token, self.pages.guard.cookie_or_new(request))
                name = None if newcomer is None else newcomer.name
                shown = views.code_page(device, code, asks_name=newcomer is not None, shown_name=name)
                return self.pages.page(request, 200, shown)
            case InProgress():
                request.setHeader("Refresh", str(WORKING_SECONDS))
                return self.pages.page(request, 200, views.working_page())
            case Finished(signed_in) if newcomer is not None:
                return self._newcomer_page(request, newcomer, signed_in=signed_in)
            case Finished():
                if not result.final:
                    request.setHeader("Refresh", str(self.pages.intervals.page_refresh_seconds))
                return self.pages.page(request, 200, self._finished_page(result))
            case Ended(outcome, code):
                return self.pages.page(request, 200, views.ended_page(outcome, code))

    def _return_page(self, request: Request, login: LoginTransaction, ticket: str) -> bytes:
        """Return the page whose button leads to the game, with a redirect by itself unless a phone needs the tap.

        Safari and Chrome open an https address in the app only after a tap; a redirect would load it as a page.
        """
        game = return_address(login, ticket)
        if not game.startswith("https:"):
            request.setHeader("Refresh", f"{self.pages.intervals.page_return_seconds}; url={game}")
        code_url = self.pages.result_url(login.login_id)
        shown = views.return_page(game, code_url, app=login.return_uri is not None)
        return self.pages.page(request, 200, shown, at="")  # GET shows the code from now on

    def _finished_page(self, result: Finished) -> Page:
        if result.linked:
            return views.linked_page(result.player)
        if result.player is not None:
            return views.adopted_page(self.labels[result.provider], result.player)
        return views.back_page() if result.signed_in else views.waiting_page()

    def _newcomer_page(self, request: Request, newcomer: Newcomer, *, signed_in: bool) -> bytes:
        """Return the page of a new player: without reloads once it has the form, which a reload would empty."""
        login = newcomer.login
        device = self.pages.device(request, login, self.newcomers.token(login), self.pages.guard.cookie_or_new(request))
        if signed_in and newcomer.name is None:
            return self.pages.page(request, 200, views.naming_page(device))
        if not login.final:
            request.setHeader("Refresh", str(self.pages.intervals.page_refresh_seconds))
        shown = views.back_page(newcomer.name) if signed_in else views.waiting_page(device, newcomer.name)
        return self.pages.page(request, 200, shown)
