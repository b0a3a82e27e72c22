"""The routes of invites and reset links show a form, and use the link up when the form is posted."""

from collections.abc import Mapping

from gamed.account import sentences, views
from gamed.account.guard import AccountGuard, browser_name
from gamed.account.links import InviteService, ResetService
from gamed.account.views import HOME, INVITE, RESET, LinkView
from gamed.http.app import make_html_app
from gamed.http.bodies import DEFAULT_BODY_POLICIES
from gamed.http.problems import Problem, RenderedError
from gamed.http.request import Request
from gamed.login.csrf import CsrfError, FramedRequest, PrefetchRequest, require_top_level_navigation
from gamed.login.errors import ProviderUnknown
from gamed.login.local import FormError, SignInForm, SignInRejected
from gamed.login.problems import LOGIN_ERRORS
from gamed.login.responder import PageResponder, report, see_other
from gamed.login.sentences import NO_COOKIE, PREFETCH, Place
from gamed.login.views import FormFeedback
from gamed.pages.model import Text
from gamed.players.errors import LinkEnded, LinkUnknown, OwnInviteUsed, PlayerMayNotSignIn
from gamed.players.problems import PLAYER_ERRORS
from gamed.structs import Component

FAILURES: Mapping[type[Exception], tuple[int, Text]] = {
    LinkUnknown: (404, sentences.LINK_UNKNOWN),
    LinkEnded: (410, sentences.LINK_OVER),
    OwnInviteUsed: (410, sentences.INVITE_USED),
    PlayerMayNotSignIn: (403, sentences.LINK_BLOCKED),
    ProviderUnknown: (403, sentences.LINK_FORM_REFUSED),
    CsrfError: (403, sentences.LINK_FORM_REFUSED),
    FramedRequest: (403, sentences.LINK_FORM_REFUSED),
    PrefetchRequest: (503, PREFETCH),
}
"""The status and the sentence of each error that has a page of its own."""


def _error_page(routes: "LinkRoutes", request: Request, error: Exception) -> bytes | None:
    if type(error) not in FAILURES:
        return None
    status, sentence = FAILURES[type(error)]
    if status == 503:
        request.setHeader("Retry-After", "1")
    if isinstance(error, CsrfError) and routes.pages.guard.cookie(request) is None:
        sentence = NO_COOKIE
    shown = views.link_failure_page(sentence, account=isinstance(error, OwnInviteUsed))
    return routes.pages.page(request, status, shown)


def _problem_page(routes: "LinkRoutes", problem: Problem, request: Request) -> RenderedError:
    return routes.pages.problem(problem, request, Place.LINK)


class LinkRoutes(Component, frozen=True, kw_only=True):
    """The routes of the links; `labels` are the providers' names for people, none in local mode."""

    app = make_html_app(_problem_page, LOGIN_ERRORS, PLAYER_ERRORS, failure_page=_error_page)
    prefixes = (f"{INVITE}/", f"{RESET}/")
    body_policies = DEFAULT_BODY_POLICIES

    invites: InviteService
    resets: ResetService
    guard: AccountGuard
    labels: Mapping[str, str]
    pages: PageResponder

    @app.route("/auth/invite/<string:link>", methods=["GET"])
    async def show_invite(self, request: Request, link: str) -> bytes:
        require_top_level_navigation(request)
        found = await self.invites.open(link, request.head.address, self.guard.cookie(request))
        view = self._view(request, link)
        if self.labels:
            return self.pages.page(request, 200, views.invite_provider_page(view, self.labels))
        return self.pages.page(request, 200, views.invite_page(view, found.account_name))

    @app.route("/auth/invite/<string:link>", methods=["POST"])
    async def use_invite(self, request: Request, link: str) -> bytes:
        form, fields = self._form(request, link)
        cookie = self.guard.cookie(request)
        if self.labels:
            target = await self.pages.tasks.run(self.invites.at_provider(form, fields.get("provider", ""), cookie))
            return self.pages.redirect(request, target)
        try:
            creating = self.invites.create_account(form, cookie, browser_name(request))
            session = await self.pages.tasks.run(creating)
        except SignInRejected as e:
            about_name = e.error in (FormError.NAME_MALFORMED, FormError.NAME_TAKEN)
            rejected = FormFeedback(e.error, e.retry_after, creating=about_name, name=form.name)
            status, feedback = report(request, rejected)
            return self.pages.page(request, status, views.invite_page(self._view(request, link), "", feedback))
        self.guard.set_cookie(request, session)
        if self.resets.ways.site is not None:
            self.guard.set_notice(request, "invited")
        return see_other(request, f"{self.pages.base_url()}{HOME}")

    @app.route("/auth/reset/<string:link>", methods=["GET"])
    async def show_reset_link(self, request: Request, link: str) -> bytes:
        require_top_level_navigation(request)
        name = await self.resets.open(link, request.head.address)
        return self.pages.page(request, 200, views.reset_page(self._view(request, link), name))

    @app.route("/auth/reset/<string:link>", methods=["POST"])
    async def use_reset_link(self, request: Request, link: str) -> bytes:
        form, _ = self._form(request, link)
        try:
            kept = await self.pages.tasks.run(self.resets.set_password(form))
        except SignInRejected as e:
            name = await self.resets.open(link, request.head.address)
            status, feedback = report(request, FormFeedback(e.error, e.retry_after))
            return self.pages.page(request, status, views.reset_page(self._view(request, link), name, feedback))
        return self.pages.page(request, 200, views.reset_done_page(kept), at="")

    def _view(self, request: Request, token: str) -> LinkView:
        """Return the view of the page; a browser without the cookie of its forms gets one."""
        browsers = self.guard.browsers
        cookie = browsers.cookie_or_new(request)
        browsers.set_cookie(request, cookie)
        return LinkView(token, browsers.field(cookie, token))

    def _form(self, request: Request, token: str) -> tuple[SignInForm, Mapping[str, str]]:
        browser, fields = self.guard.browsers.form(request, token)
        name, password = fields.get("name", ""), fields.get("password", "")
        return SignInForm(token, browser, request.head.address, name, password, request.request_id), fields
