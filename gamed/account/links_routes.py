"""The routes of invites and reset links show a form, and use the link up when the form is posted."""

from collections.abc import Mapping

from gamed.account.guard import AccountGuard
from gamed.account.links import InviteService, ResetService
from gamed.account.pages import links as link_pages
from gamed.account.pages import texts
from gamed.account.pages.parts import HOME
from gamed.http.app import make_html_app
from gamed.http.bodies import DEFAULT_BODY_POLICIES
from gamed.http.request import Request
from gamed.login.browser_routes import PageResponder, report, see_other
from gamed.login.csrf import CsrfError, FramedRequest, PrefetchRequest, require_top_level_navigation
from gamed.login.errors import ProviderUnknown
from gamed.login.local import FormError, SignInForm, SignInRejected
from gamed.login.pages import texts as login_texts
from gamed.login.pages.forms import FormFeedback
from gamed.login.pages.results import error_response
from gamed.login.problems import LOGIN_ERRORS
from gamed.players.errors import LinkEnded, LinkUnknown, PlayerMayNotSignIn
from gamed.players.problems import PLAYER_ERRORS
from gamed.structs import Component

FAILURES: Mapping[type[Exception], tuple[int, str]] = {
    LinkUnknown: (404, texts.LINK_UNKNOWN),
    LinkEnded: (410, texts.LINK_OVER),
    PlayerMayNotSignIn: (403, texts.LINK_BLOCKED),
    ProviderUnknown: (403, texts.LINK_FORM_REFUSED),
    CsrfError: (403, texts.LINK_FORM_REFUSED),
    FramedRequest: (403, texts.LINK_FORM_REFUSED),
    PrefetchRequest: (503, login_texts.PREFETCH),
}
"""The status and the sentence of each error that has a page of its own."""


def _error_page(routes: "LinkRoutes", request: Request, error: Exception) -> bytes | None:
    if type(error) not in FAILURES:
        return None
    status, sentence = FAILURES[type(error)]
    if status == 503:
        request.setHeader("Retry-After", "1")
    return routes.pages.page(request, status, link_pages.link_failure_page(routes.pages.server, sentence))


class LinkRoutes(Component, frozen=True, kw_only=True):
    """The routes of the links; `labels` are the providers' names for people, none in local mode."""

    app = make_html_app(error_response, LOGIN_ERRORS, PLAYER_ERRORS, failure_page=_error_page)
    prefixes = (f"{link_pages.INVITE}/", f"{link_pages.RESET}/")
    body_policies = DEFAULT_BODY_POLICIES

    invites: InviteService
    resets: ResetService
    guard: AccountGuard
    labels: Mapping[str, str]
    pages: PageResponder

    @app.route("/auth/invite/<string:link>", methods=["GET"])
    async def show_invite(self, request: Request, link: str) -> bytes:
        require_top_level_navigation(request)
        found = await self.invites.open(link, request.head.address)
        view = self._view(request, link)
        if self.labels:
            return self.pages.page(request, 200, link_pages.invite_provider_page(view, self.labels))
        return self.pages.page(request, 200, link_pages.invite_page(view, found.account_name))

    @app.route("/auth/invite/<string:link>", methods=["POST"])
    async def use_invite(self, request: Request, link: str) -> bytes:
        form, fields = self._form(request, link)
        if self.labels:
            target = await self.pages.tasks.run(self.invites.at_provider(form, fields.get("provider", "")))
            return self.pages.redirect(request, target)
        try:
            session = await self.pages.tasks.run(self.invites.create_account(form, self.guard.cookie(request)))
        except SignInRejected as e:
            about_name = e.error in (FormError.NAME_MALFORMED, FormError.NAME_TAKEN)
            rejected = FormFeedback(e.error, e.retry_after, creating=about_name, name=form.name)
            status, feedback = report(request, rejected)
            return self.pages.page(request, status, link_pages.invite_page(self._view(request, link), "", feedback))
        self.guard.set_cookie(request, session)
        return see_other(request, f"{self.pages.base_url()}{HOME}")

    @app.route("/auth/reset/<string:link>", methods=["GET"])
    async def show_reset_link(self, request: Request, link: str) -> bytes:
        require_top_level_navigation(request)
        name = await self.resets.open(link, request.head.address)
        return self.pages.page(request, 200, link_pages.reset_page(self._view(request, link), name))

    @app.route("/auth/reset/<string:link>", methods=["POST"])
    async def use_reset_link(self, request: Request, link: str) -> bytes:
        form, _ = self._form(request, link)
        try:
            await self.pages.tasks.run(self.resets.set_password(form))
        except SignInRejected as e:
            name = await self.resets.open(link, request.head.address)
            status, feedback = report(request, FormFeedback(e.error, e.retry_after))
            return self.pages.page(request, status, link_pages.reset_page(self._view(request, link), name, feedback))
        return self.pages.page(request, 200, link_pages.reset_done_page(self.pages.server))

    def _view(self, request: Request, token: str) -> link_pages.LinkView:
        """Return the view of the page; a browser without the cookie of its forms gets one."""
        browsers = self.guard.browsers
        cookie = browsers.cookie_or_new(request)
        browsers.set_cookie(request, cookie)
        return link_pages.LinkView(self.pages.server, token, browsers.field(cookie, token))

    def _form(self, request: Request, token: str) -> tuple[SignInForm, Mapping[str, str]]:
        browser, fields = self.guard.browsers.form(request, token)
        name, password = fields.get("name", ""), fields.get("password", "")
        return SignInForm(token, browser, request.head.address, name, password, request.request_id), fields
