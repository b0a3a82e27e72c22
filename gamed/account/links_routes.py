"""The routes of invites and reset links show a form, and use the link up when the form is posted."""

from collections.abc import Mapping

from gamed.account.guard import AccountGuard
from gamed.account.links import InviteService, ResetService
from gamed.account.pages import links as pages
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
    return routes._pages.page(request, status, pages.link_failure_page(routes._pages.server, sentence))


class LinkRoutes(Component, frozen=True):
    """The routes of the links; `labels` are the providers' names for people, none in local mode."""

    app = make_html_app(error_response, LOGIN_ERRORS, PLAYER_ERRORS, failure_page=_error_page)
    prefixes = (f"{pages.INVITE}/", f"{pages.RESET}/")
    body_policies = DEFAULT_BODY_POLICIES

    _invites: InviteService
    _resets: ResetService
    _guard: AccountGuard
    _labels: Mapping[str, str]
    _pages: PageResponder

    @app.route("/auth/invite/<string:link>", methods=["GET"])
    async def show_invite(self, request: Request, link: str) -> bytes:
        require_top_level_navigation(request)
        found = await self._invites.open(link, request.head.address)
        view = self._view(request, link)
        if self._labels:
            return self._pages.page(request, 200, pages.invite_provider_page(view, self._labels))
        return self._pages.page(request, 200, pages.invite_page(view, found.account_name))

    @app.route("/auth/invite/<string:link>", methods=["POST"])
    async def use_invite(self, request: Request, link: str) -> bytes:
        form, fields = self._form(request, link)
        if self._labels:
            target = await self._pages.tasks.run(self._invites.at_provider(form, fields.get("provider", "")))
            return self._pages.redirect(request, target)
        try:
            session = await self._pages.tasks.run(self._invites.create_account(form, self._guard.cookie(request)))
        except SignInRejected as e:
            about_name = e.error in (FormError.NAME_MALFORMED, FormError.NAME_TAKEN)
            rejected = FormFeedback(e.error, e.retry_after, creating=about_name, name=form.name)
            status, feedback = report(request, rejected)
            return self._pages.page(request, status, pages.invite_page(self._view(request, link), "", feedback))
        self._guard.set_cookie(request, session)
        return see_other(request, f"{self._pages.base_url()}{HOME}")

    @app.route("/auth/reset/<string:link>", methods=["GET"])
    async def show_reset_link(self, request: Request, link: str) -> bytes:
        require_top_level_navigation(request)
        name = await self._resets.open(link, request.head.address)
        return self._pages.page(request, 200, pages.reset_page(self._view(request, link), name))

    @app.route("/auth/reset/<string:link>", methods=["POST"])
    async def use_reset_link(self, request: Request, link: str) -> bytes:
        form, _ = self._form(request, link)
        try:
            await self._pages.tasks.run(self._resets.set_password(form))
        except SignInRejected as e:
            name = await self._resets.open(link, request.head.address)
            status, feedback = report(request, FormFeedback(e.error, e.retry_after))
            return self._pages.page(request, status, pages.reset_page(self._view(request, link), name, feedback))
        return self._pages.page(request, 200, pages.reset_done_page(self._pages.server))

    def _view(self, request: Request, token: str) -> pages.LinkView:
        """Return the view of the page; a browser without the cookie of its forms gets one."""
        browsers = self._guard.browsers
        cookie = browsers.cookie_or_new(request)
        browsers.set_cookie(request, cookie)
        return pages.LinkView(self._pages.server, token, browsers.field(cookie, token))

    def _form(self, request: Request, token: str) -> tuple[SignInForm, Mapping[str, str]]:
        browser, fields = self._guard.browsers.form(request, token)
        name, password = fields.get("name", ""), fields.get("password", "")
        return SignInForm(token, browser, request.head.address, name, password, request.request_id), fields
