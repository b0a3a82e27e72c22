"""The browser routes of a login serve its link and forms, the provider's callback and the result.

See docs/protocol.md: Signing in.
"""

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlencode

from gamed.config.model import Registration
from gamed.http.bodies import DEFAULT_BODY_POLICIES
from gamed.http.errors import RouteNotFound
from gamed.http.json_body import read_query
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
from gamed.login.csrf import require_top_level_navigation
from gamed.login.errors import CallbackMalformed, WrongBrowser
from gamed.login.keys import LOCAL, PasskeyAccount, RecoveryAccount
from gamed.login.local import FormError, FormRejected, LocalLoginService, SignInForm, SignInRejected
from gamed.login.newcomer import Newcomer, NewcomerService
from gamed.login.passkeys import PasskeyAuthenticator, login_row
from gamed.login.recovery import RecoveryAuthenticator
from gamed.login.responder import PageResponder, make_login_app, report, see_other
from gamed.login.return_rules import return_address
from gamed.login.transaction import LoginTransaction
from gamed.login.views import FormFeedback
from gamed.pages.model import Page, Text
from gamed.players.errors import DisplayNameInvalid
from gamed.structs import Component


class BrowserRoutes(Component, frozen=True, kw_only=True):
    """The routes of the login's link; `local` is None in oauth mode, `labels` are the names that people see."""

    app = make_login_app()
    prefixes = ("/auth/login/",)
    body_policies = DEFAULT_BODY_POLICIES

    browsers: BrowserLoginService
    authorize: AuthorizeService
    local: LocalLoginService | None
    passkeys: PasskeyAuthenticator
    recovery: RecoveryAuthenticator
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

    @app.route("/auth/login/<token:token>/passkey", methods=["POST"])
    async def sign_in_with_passkey(self, request: Request, token: str) -> bytes:
        if self.local is None:
            raise RouteNotFound
        form, fields = self._form(request, token)

        async def identify(login: LoginTransaction) -> PasskeyAccount:
            return await self.passkeys.authenticate(form, login_row(login.login_id, form.browser), fields)

        result = await self.pages.tasks.run(self.local.sign_in_by(form, identify))
        if isinstance(result, RedirectToResult):
            return self.pages.redirect(request, result)
        feedback = FormFeedback(result.error, result.retry_after)
        cookie = self.pages.guard.cookie_or_new(request)
        return self._page(request, token, cookie, SignInPrompt(result.login), feedback)

    @app.route("/auth/login/<token:token>/recovery", methods=["POST"])
    async def sign_in_with_recovery_code(self, request: Request, token: str) -> bytes:
        if self.local is None:
            raise RouteNotFound
        form, fields = self._form(request, token)

        async def identify(login: LoginTransaction) -> RecoveryAccount:
            if login.client.confirms:  # before the code is looked at, which the game would have in vain
                raise SignInRejected(FormError.NO_PROOF)
            return await self.recovery.authenticate(form, fields.get("recovery_code", ""))

        result = await self.pages.tasks.run(self.local.sign_in_by(form, identify))
        if isinstance(result, RedirectToResult):
            return self.pages.redirect(request, result)
        feedback = FormFeedback(result.error, result.retry_after, name=form.name, recovering=True)
        cookie = self.pages.guard.cookie_or_new(request)
        return self._page(request, token, cookie, SignInPrompt(result.login), feedback)

    @app.route("/auth/login/<token:token>/decline", methods=["POST"])
    async def decline_login(self, request: Request, token: str) -> bytes:
        browser, _ = self.pages.guard.form(request, token)
        result = await self.pages.tasks.run(self.browsers.decline(token, browser, request.request_id))
        if isinstance(result, RedirectToResult):
            return self.pages.redirect(request, result)
        request.locale = result.locale
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
            row = login_row(prompt.login.login_id, self.pages.guard.index(cookie))
            content = views.sign_in_page(device, self.registration, feedback, self.passkeys.prompt(row))
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
LATER: Final = "later"
"""The member of the result page's query with which it offers no passkey."""


class ResultRoutes(Component, frozen=True, kw_only=True):
    """The route of the result page."""

    app = make_login_app()
    prefixes = ("/auth/login/done",)
    body_policies = DEFAULT_BODY_POLICIES

    results: ResultService
    labels: Mapping[str, str]
    newcomers: NewcomerService
    passkeys: PasskeyAuthenticator
    pages: PageResponder

    @app.route("/auth/login/done", methods=["GET"])
    async def show_result(self, request: Request) -> bytes:
        require_top_level_navigation(request)
        query = read_query(request)
        login_id = query.get("login_id", "")
        shown = await self.results.get(login_id, self.pages.guard.browser(request))
        request.locale, result = shown.locale, shown.result
        is_plain = isinstance(result, Finished) and result.plain
        if is_plain and LATER not in query and await self.passkeys.is_offered(login_id):
            return self._offer_page(request, login_id, result)
        newcomer = await self.newcomers.of_result(login_id) if _may_be_newcomer(result) else None
        return self._page(request, result, newcomer)

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
        return views.back_page(codes_left=result.codes_left) if result.signed_in else views.waiting_page()

    def _offer_page(self, request: Request, login_id: str, result: LoginResult) -> bytes:
        if isinstance(result, Finished) and not result.final:
            request.setHeader("Refresh", str(self.pages.intervals.page_refresh_seconds))
        later = f"{self.pages.result_url(login_id)}&{LATER}=yes"
        return self.pages.page(request, 200, views.offer_page(later))

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


def _may_be_newcomer(result: LoginResult) -> bool:
    """Return whether the result may be that of a new player, who chooses a name."""
    return isinstance(result, ShowFinishCode) or (isinstance(result, Finished) and not result.linked)
