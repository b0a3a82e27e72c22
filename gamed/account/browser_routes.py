"""The routes of the player's own page are for browsers; no game uses them.

They call the same services as the routes of the game's API. Each change is a form that is posted to an address of its
own, and answered by a redirect back to the page.
"""

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any

from msgspec import Struct
from twisted.internet.defer import Deferred

from gamed.account import sentences, views
from gamed.account.browser import AccountPage, AccountSignIn, BrowserVisit, SignedIn
from gamed.account.guard import AccountGuard, require_own_site
from gamed.account.service import AccountService, Unlinked
from gamed.account.views import AFTER, BEFORE, DELETE_WORD, HOME, SignInChoice, Visit
from gamed.http.app import make_html_app
from gamed.http.bodies import DEFAULT_BODY_POLICIES
from gamed.http.conditional import UNCONDITIONAL
from gamed.http.errors import BadRequest, RouteNotFound
from gamed.http.json_body import read_query
from gamed.http.problems import Problem, RenderedError, render_json
from gamed.http.request import Request
from gamed.http.streaming import send_part
from gamed.login.browser import Ended, InProgress
from gamed.login.browser_routes import PageResponder, see_other
from gamed.login.csrf import CsrfError, FramedRequest, PrefetchRequest, require_top_level_navigation
from gamed.login.errors import LoginEnded, ReauthenticationRequired, UnknownLoginLink, WrongBrowser
from gamed.login.local import FormError, SignInForm, SignInRejected
from gamed.login.problems import LOGIN_ERRORS
from gamed.login.sentences import Place
from gamed.login.views import FormFeedback, home_page, too_many
from gamed.pages.model import PAGE_HEADERS, Text, text
from gamed.players.errors import (
    AccountReauthenticationRequired,
    DisplayNameInvalid,
    LastIdentity,
    LinkEnded,
    LinkUnused,
)
from gamed.players.names import parse_display_name
from gamed.players.problems import PLAYER_ERRORS
from gamed.saves import errors as save_errors
from gamed.saves.batch_routes import ExportRoutes
from gamed.saves.commands import ReadRequest
from gamed.saves.export import TooManyExports
from gamed.saves.model import ANY_VERSION, VersionKind, version_number
from gamed.saves.problems import SAVE_ERRORS
from gamed.saves.service import SaveService
from gamed.saves.validation import check_slot, page_before, writing_condition
from gamed.sessions.errors import SessionError, SessionNotFound
from gamed.sessions.problems import SESSION_ERRORS
from gamed.sessions.service import SessionService
from gamed.structs import Component

WORKING_SECONDS = 1
FAILURES: Mapping[type[Exception], tuple[int, Text]] = {
    CsrfError: (403, sentences.FORM_REFUSED),
    FramedRequest: (403, sentences.NOT_A_PAGE),
    PrefetchRequest: (503, sentences.PREFETCH),
    RouteNotFound: (404, sentences.UNKNOWN_ACTION),
    UnknownLoginLink: (404, sentences.SIGN_IN_OVER),
    WrongBrowser: (409, sentences.OTHER_BROWSER),
    LoginEnded: (410, sentences.SIGN_IN_OVER),
    SessionNotFound: (404, sentences.DEVICE_GONE),
    DisplayNameInvalid: (400, sentences.NAME_UNUSABLE),
    LinkEnded: (410, sentences.LINK_OVER),
    LinkUnused: (409, sentences.INVITE_UNUSED),
    LastIdentity: (409, sentences.LAST_WAY),
    TooManyExports: (503, sentences.EXPORTING),
    save_errors.ConflictError: (409, sentences.SAVE_CHANGED),
    save_errors.Erased: (409, sentences.SAVE_CHANGED),
    save_errors.SaveDeleted: (409, sentences.SAVE_GONE),
    save_errors.VersionGone: (409, sentences.SAVE_GONE),
    save_errors.VersionProtected: (409, sentences.SAVE_GONE),
    save_errors.QuotaExceeded: (409, sentences.SAVE_NO_ROOM),
    save_errors.TooManySlots: (409, sentences.SAVE_NO_ROOM),
    save_errors.CorruptBlob: (500, sentences.SAVE_DAMAGED),
    save_errors.SaveError: (404, sentences.SAVE_WRONG),
}
"""The status and the sentence of each error that has a page of its own; the nearest base class counts."""
TITLE = text("Your account")
SIGN_IN_LEAD = text("Sign in to see your devices and saves.")
AGAIN_TITLE = text("Sign in again")
AGAIN_LEAD = text("This cannot be undone, so sign in again first. You then have ten minutes to do it.")
SIGNED_OUT = text("You are signed out here. Nothing was changed. Sign in again.")


class AccountServices(Struct, frozen=True, eq=False):
    """The services that the routes call."""

    sign_in: AccountSignIn
    page: AccountPage
    sessions: SessionService
    account: AccountService
    saves: SaveService
    exports: ExportRoutes


class PostedAction(Struct, frozen=True):
    """A form of a signed-in browser."""

    request: Request
    visit: BrowserVisit
    fields: Mapping[str, str]


def _error_page(routes: "AccountRoutes", request: Request, error: Exception) -> bytes | None:
    """Return the page of an error; a browser that is not signed in gets the page to sign in."""
    if isinstance(error, ReauthenticationRequired | AccountReauthenticationRequired):
        return routes._sign_in_page(request, 403, title=AGAIN_TITLE, lead=AGAIN_LEAD)
    if isinstance(error, SessionError) and not isinstance(error, SessionNotFound):
        if request.head.method == "GET":
            return see_other(request, routes._url(""))
        return routes._sign_in_page(request, 403, title=TITLE, lead=SIGNED_OUT)
    row = next((FAILURES[kind] for kind in type(error).__mro__ if kind in FAILURES), None)
    if row is None:
        return None
    status, sentence = row
    if isinstance(error, CsrfError) and routes.guard.browsers.cookie(request) is None:
        sentence = sentences.NO_COOKIE
    request.removeHeader("Content-Disposition")
    if status == 503:
        request.setHeader("Retry-After", str(getattr(error, "retry_after", 1)))
    return routes.pages.page(request, status, views.failure_page(sentence))


def _problem_page(routes: "AccountRoutes", problem: Problem, request: Request) -> RenderedError:
    return routes.pages.problem(problem, request, Place.ACCOUNT)


class AccountRoutes(Component, frozen=True, kw_only=True):
    """The routes of the page; `choice` has the ways to sign in."""

    app = make_html_app(
        _problem_page, LOGIN_ERRORS, PLAYER_ERRORS, SESSION_ERRORS, SAVE_ERRORS, failure_page=_error_page
    )
    prefixes = (HOME,)
    body_policies = DEFAULT_BODY_POLICIES

    services: AccountServices
    guard: AccountGuard
    choice: SignInChoice
    pages: PageResponder

    @app.route("/auth/account", methods=["GET"])
    async def show_account(self, request: Request) -> bytes:
        require_top_level_navigation(request)
        _after(request)
        await self.services.sign_in.count_request(request.head.address)
        try:
            visit = await self._authenticate(request)
        except SessionError:
            return self._sign_in_page(request, 200, title=TITLE, lead=SIGN_IN_LEAD)
        return await self._account_page(request, visit)

    @app.route("/auth/account/done", methods=["GET"])
    async def finish_account_sign_in(self, request: Request) -> bytes:
        require_top_level_navigation(request)
        login_id = read_query(request).get("login_id", "")
        browser, cookie = self.guard.browsers.browser(request), self.guard.cookie(request)
        finishing = self.services.sign_in.finish(login_id, browser, cookie, request.request_id)
        result: SignedIn | InProgress | Ended = await self._run(finishing)
        match result:
            case SignedIn(token, linked, invite_unused):
                if token is not None:
                    self.guard.set_cookie(request, token)
                if linked or invite_unused:
                    self.guard.set_notice(request, "linked" if linked else "known")
                return see_other(request, self._url(""))
            case InProgress():
                request.setHeader("Refresh", str(WORKING_SECONDS))
                return self.pages.page(request, 200, views.working_page())
            case Ended():
                return self.pages.page(request, 200, views.ended_page(result))

    @app.route("/auth/account/sign-in", methods=["POST"])
    async def sign_in_to_account(self, request: Request) -> bytes:
        await self.services.sign_in.count_request(request.head.address)
        browsers = self.guard.browsers
        cookie = browsers.cookie(request)
        fields = self.guard.form(request, cookie)
        name, password = fields.get("name", ""), fields.get("password", "")
        browser = browsers.index(cookie or "")
        form = SignInForm("", browser, request.head.address, name, password, request.request_id)
        sign_in = self.services.sign_in
        if self.choice.labels:
            return self.pages.redirect(request, await self._run(sign_in.at_provider(form, fields.get("provider", ""))))
        try:
            return self.pages.redirect(request, await self._run(sign_in.locally(form)))
        except SignInRejected as e:
            feedback = FormFeedback(e.error, e.retry_after, name=name)
            if e.retry_after:
                request.setHeader("Retry-After", str(e.retry_after))
            return self._sign_in_page(request, e.error.status, feedback, title=TITLE, lead=SIGN_IN_LEAD)

    @app.route("/auth/account/saves/<text:slot>", methods=["GET"])
    async def show_account_save(self, request: Request, slot: str) -> bytes:
        require_top_level_navigation(request)
        name = check_slot(slot)
        query = read_query(request)
        before = _before(query.get(BEFORE))
        visit = await self._authenticate(request)
        newest = listed = await self.services.saves.versions(visit.token, name)
        if before != ANY_VERSION:  # the newest are needed, too: a restore names the current version
            listed = await self.services.saves.versions(visit.token, name, before)
        return self.pages.page(request, 200, views.slot_page(self._visit(request, visit), listed, newest))

    @app.route("/auth/account/saves/<text:slot>/versions/<string:number>", methods=["GET"])
    async def download_version(self, request: Request, slot: str, number: str) -> bytes | None:
        require_own_site(request)
        name, version = check_slot(slot), version_number(number)
        if not version:
            raise RouteNotFound
        visit = await self._authenticate(request)
        read = ReadRequest(name, UNCONDITIONAL, with_bytes=True, version=version)
        result = await self.services.saves.read(visit.token, read)
        disposition = f'attachment; filename="{name}-{result.version.version}.sav"'
        sandbox = {"Content-Security-Policy": "sandbox", "Content-Type": "application/octet-stream"}
        request.setHeaders({**sandbox, "Content-Disposition": disposition})
        return await send_part(request, result.body, result.version.size, None)

    @app.route("/auth/account/saves/<text:slot>/versions/<string:number>/delete", methods=["GET"])
    async def ask_before_dismissal(self, request: Request, slot: str, number: str) -> bytes:
        """Ask for a new sign-in here already, so that the answer to the question is not lost by it."""
        require_top_level_navigation(request)
        name, version = check_slot(slot), version_number(number)
        if not version:
            raise RouteNotFound
        visit = await self._authenticate(request)
        self._require_recent(visit)
        found = await self.services.saves.read(visit.token, ReadRequest(name, UNCONDITIONAL, False, version=version))
        if found.version.kind is not VersionKind.CONFLICT:
            raise save_errors.VersionProtected("Only another copy can be deleted by itself.")
        return self.pages.page(request, 200, views.dismiss_page(self._visit(request, visit), found.version))

    @app.route("/auth/account/export", methods=["GET"])
    async def download_saves(self, request: Request) -> bytes | None:
        require_own_site(request)
        visit = await self._authenticate(request)
        return await self.services.exports.send_whole(request, visit.token)

    @app.route("/auth/account/do/<string:action>", methods=["POST"])
    async def change_account(self, request: Request, action: str) -> bytes:
        work = _ACTIONS.get(action)
        if work is None:
            raise RouteNotFound
        visit = await self._authenticate(request)
        fields = self.guard.form(request, self.guard.cookie(request))
        return await work(self, PostedAction(request, visit, fields))

    async def _account_page(
        self, request: Request, visit: BrowserVisit, status: int = 200, *, error: Text | None = None
    ) -> bytes:
        after = _after(request)
        overview = await self.services.page.overview(visit, after)
        name = overview.names.display or overview.names.account
        shown = views.account_page(self._visit(request, visit, name), overview, self.choice, after=after, error=error)
        return self.pages.page(request, status, shown)

    async def _authenticate(self, request: Request) -> BrowserVisit:
        visit: BrowserVisit = await self._run(self.services.sign_in.authenticate(self.guard.cookie(request)))
        return visit

    async def _sign_out(self, action: PostedAction) -> bytes:
        await self._run(self.services.sign_in.sign_out(action.visit))
        self.guard.delete_cookie(action.request)
        return see_other(action.request, self._url(""))

    async def _sign_out_device(self, action: PostedAction) -> bytes:
        session_id = action.fields.get("session_id", "")
        await self._run(self.services.sessions.end(action.visit.caller, session_id))
        return self._done(action, "signed-out")

    async def _sign_out_others(self, action: PostedAction) -> bytes:
        await self._run(self.services.sessions.end_others(action.visit.caller))
        return self._done(action, "others-out")

    async def _restore(self, action: PostedAction) -> bytes:
        slot, number = _version(action)
        await self._run(self.services.saves.restore(action.visit.token, slot, number, _condition(action)))
        return self._done(action, "restored", slot)

    async def _keep(self, action: PostedAction) -> bytes:
        """Restore a conflict copy, then dismiss it."""
        slot, number = _version(action)
        saves, token = self.services.saves, action.visit.token
        await self._run(saves.restore(token, slot, number, _condition(action)))
        await self._run(saves.dismiss(token, slot, number))
        return self._done(action, "restored", slot)

    async def _dismiss(self, action: PostedAction) -> bytes:
        self._require_recent(action.visit)
        slot, number = _version(action)
        await self._run(self.services.saves.dismiss(action.visit.token, slot, number))
        return self._done(action, "dismissed", slot)

    async def _link(self, action: PostedAction) -> bytes:
        browsers, request = self.guard.browsers, action.request
        cookie = browsers.cookie_or_new(request)
        browsers.set_cookie(request, cookie)
        form = SignInForm("", browsers.index(cookie), request.head.address, request_id=request.request_id)
        provider = action.fields.get("provider", "")
        linking = self.services.sign_in.at_provider(form, provider, action.visit.caller)
        return self.pages.redirect(request, await self._run(linking))

    async def _unlink(self, action: PostedAction) -> bytes:
        self._require_recent(action.visit)
        unlinking = self.services.account.unlink(action.visit.caller, action.fields.get("provider", ""))
        unlinked: Unlinked = await self._run(unlinking)
        if not unlinked.own_ended:
            return self._done(action, "unlinked")
        self.guard.delete_cookie(action.request)
        return self.pages.page(action.request, 200, views.unlinked_page())

    async def _name(self, action: PostedAction) -> bytes:
        typed = action.fields.get("name", "")
        name = parse_display_name(typed) if typed.strip(" ") else None
        await self._run(self.services.account.rename(action.visit.caller, name))
        return self._done(action, "named")

    async def _password(self, action: PostedAction) -> bytes:
        if self.choice.labels:
            raise RouteNotFound
        request, old, new = action.request, action.fields.get("old", ""), action.fields.get("new", "")
        form = SignInForm("", self.guard.browsers.index(""), request.head.address, "", old, request.request_id)
        try:
            token = await self._run(self.services.page.change_password(action.visit, form, new))
        except SignInRejected as e:
            if e.retry_after:
                request.setHeader("Retry-After", str(e.retry_after))
            error = too_many(e.retry_after) if e.error is FormError.LIMIT else sentences.PASSWORD_REFUSED[e.error]
            return await self._account_page(request, action.visit, e.error.status, error=error)
        self.guard.set_cookie(request, token)
        return self._done(action, "password")

    async def _delete(self, action: PostedAction) -> bytes:
        self._require_recent(action.visit)
        if action.fields.get("word", "").strip().lower() != DELETE_WORD:
            return self.pages.page(action.request, 400, views.failure_page(sentences.NOT_TYPED))
        await self._run(self.services.account.erase(action.visit.caller))
        self.guard.delete_cookie(action.request)
        return self.pages.page(action.request, 200, views.deleted_page())

    def _require_recent(self, visit: BrowserVisit) -> None:
        if not visit.caller.signed_in_recently(self.pages.now_ms()):
            raise AccountReauthenticationRequired

    def _run(self, work: Coroutine[Deferred[Any], Any, Any]) -> Deferred[Any]:
        """Complete work even if the browser disconnects."""
        return self.pages.tasks.run(work)

    def _done(self, action: PostedAction, notice: str, slot: str = "") -> bytes:
        """Redirect to the page, which shows a notice once."""
        self.guard.set_notice(action.request, notice)
        return see_other(action.request, self._url(f"/saves/{slot}" if slot else ""))

    def _url(self, below: str) -> str:
        return f"{self.pages.base_url()}{HOME}{below}"

    def _visit(self, request: Request, visit: BrowserVisit, name: str | None = None) -> Visit:
        field = self.guard.field(self.guard.cookie(request) or "")
        return Visit(field, visit.caller.player_id, name, sentences.NOTICES.get(self.guard.take_notice(request)))

    def _sign_in_page(
        self, request: Request, status: int, feedback: FormFeedback | None = None, *, title: Text, lead: Text
    ) -> bytes:
        browsers = self.guard.browsers
        cookie = browsers.cookie_or_new(request)
        browsers.set_cookie(request, cookie)
        shown = views.sign_in_page(self.guard.field(cookie), self.choice, feedback, title=title, lead=lead)
        return self.pages.page(request, status, shown)


def _after(request: Request) -> str:
    """Return the slot after which the list of saves begins, "" for all; raise BadRequest."""
    after = read_query(request).get(AFTER)
    try:
        return "" if after is None else check_slot(after)
    except save_errors.SaveError:
        raise BadRequest(f"{AFTER} is not the name of a save. Open the page without it.") from None


def _before(text: str | None) -> int:
    """Return the version number below which the list of versions begins; raise BadRequest."""
    try:
        return page_before(text)
    except save_errors.SaveError:
        raise BadRequest(f"{BEFORE} is not the number of a version. Open the page without it.") from None


def _version(action: PostedAction) -> tuple[str, int]:
    return check_slot(action.fields.get("slot", "")), version_number(action.fields.get("version", ""))


def _condition(action: PostedAction) -> Any:
    """Return the condition that the slot is as the page showed it: a tag, or none for a deleted save."""
    etag = action.fields.get("etag", "")
    return writing_condition(({"if-match": etag} if etag else {"if-none-match": "*"}).get)


_ACTIONS: Mapping[str, Callable[[AccountRoutes, PostedAction], Awaitable[bytes]]] = {
    "sign-out": AccountRoutes._sign_out,
    "sign-out-device": AccountRoutes._sign_out_device,
    "sign-out-others": AccountRoutes._sign_out_others,
    "restore": AccountRoutes._restore,
    "keep": AccountRoutes._keep,
    "dismiss": AccountRoutes._dismiss,
    "link": AccountRoutes._link,
    "unlink": AccountRoutes._unlink,
    "name": AccountRoutes._name,
    "password": AccountRoutes._password,
    "delete": AccountRoutes._delete,
}


def _render_home_problem(group: "HomeRoutes", problem: Problem, request: Request) -> RenderedError:
    """Return a page for a browser, which asks for HTML by name, and a problem for a program."""
    if request.head.method == "GET" and wants_page(request.head.headers.get("accept") or ""):
        return group.pages.problem(problem, request, Place.GAME)
    return render_json(problem, request)


class HomeRoutes(Component, frozen=True, kw_only=True):
    """The routes of the address that a player enters in the game, opened in a browser."""

    app = make_html_app(_render_home_problem)
    prefixes = ("/$", "/auth/$")
    body_policies = DEFAULT_BODY_POLICIES
    pages: PageResponder

    @app.route("/", methods=["GET"])
    def show_home(self, request: Request) -> bytes:
        return self._home(request)

    @app.route("/auth/", methods=["GET"])
    def show_sign_in_home(self, request: Request) -> bytes:
        return self._home(request)

    def _home(self, request: Request) -> bytes:
        if not wants_page(request.head.headers.get("accept") or ""):
            raise RouteNotFound
        content = self.pages.page(request, 200, home_page(self.pages.base_url()))
        request.setHeader("Vary", f"Accept, {PAGE_HEADERS['Vary']}")
        request.setHeader("Cache-Control", "no-store")
        request.setHeader("Referrer-Policy", "no-referrer")
        return content


def wants_page(accept: str) -> bool:
    """Return whether a request asks for HTML by name: `*/*`, as programs send it, does not (RFC 9110 12.5.1)."""
    for each in accept.split(","):
        kind, *parameters = (part.strip().lower() for part in each.split(";"))
        refused = any(part in {"q=0", "q=0.0", "q=0.00", "q=0.000"} for part in parameters)
        if kind == "text/html" and not refused:
            return True
    return False
