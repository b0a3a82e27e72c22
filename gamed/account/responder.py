"""The pages of a signed-in browser, and what the routes of an account do before and after their work."""

from collections.abc import Coroutine, Mapping
from typing import Any, Protocol

from msgspec import Struct
from msgspec.structs import replace
from twisted.internet.defer import Deferred

from gamed.account import sentences, views
from gamed.account.browser import AccountPage, AccountSignIn, BrowserVisit, NotSignedIn, SavesPlace, SignedIn
from gamed.account.guard import AccountGuard, browser_name
from gamed.account.own_data import OwnData
from gamed.account.return_rules import AccountReturn, return_to_form, return_to_page
from gamed.account.service import AccountService
from gamed.account.views import AFTER, COPIED, HOME, AccountForms, SignInChoice, Visit
from gamed.crypto import Keys
from gamed.http.errors import BadRequest, HttpError, RouteNotFound
from gamed.http.json_body import read_query
from gamed.http.problems import Problem, RenderedError
from gamed.http.request import Request
from gamed.login.csrf import CsrfError, FramedRequest, PrefetchRequest
from gamed.login.errors import LoginEnded, ReauthenticationRequired, UnknownLoginLink, WrongBrowser
from gamed.login.passkeys import account_row
from gamed.login.responder import PageResponder, see_other
from gamed.login.sentences import CODE_NOT_ENOUGH, TITLE_OTHER, TITLES, Place
from gamed.login.views import FormFeedback
from gamed.pages.model import Text, text
from gamed.passkeys.errors import LastPasskey, PasskeysFull, PasskeysOff, PasskeyUnknown
from gamed.players.errors import (
    AccountReauthenticationRequired,
    LastIdentity,
    LinkEnded,
    LinkUnused,
)
from gamed.saves import errors as save_errors
from gamed.saves.batch_routes import ExportRoutes
from gamed.saves.export import TooManyExports
from gamed.saves.service import SaveService
from gamed.saves.validation import check_slot
from gamed.sessions.errors import SessionError, SessionNotFound
from gamed.sessions.service import SessionService
from gamed.structs import Component

FAILURES: Mapping[type[Exception], tuple[int, Text]] = {
    CsrfError: (403, sentences.FORM_REFUSED),
    FramedRequest: (403, sentences.NOT_A_PAGE),
    PrefetchRequest: (503, sentences.PREFETCH),
    RouteNotFound: (404, sentences.UNKNOWN_ACTION),
    UnknownLoginLink: (404, sentences.SIGN_IN_OVER),
    WrongBrowser: (409, sentences.OTHER_BROWSER),
    LoginEnded: (410, sentences.SIGN_IN_OVER),
    SessionNotFound: (404, sentences.DEVICE_GONE),
    LinkEnded: (410, sentences.LINK_OVER),
    LinkUnused: (409, sentences.INVITE_UNUSED),
    LastIdentity: (409, sentences.LAST_WAY),
    LastPasskey: (409, sentences.LAST_PASSKEY),
    PasskeyUnknown: (404, sentences.PASSKEY_GONE),
    PasskeysFull: (409, sentences.PASSKEYS_FULL),
    PasskeysOff: (404, sentences.PASSKEYS_OFF),
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
AGAIN_LEAD = text("To be sure that it is you, sign in again first. You then have ten minutes to do it.")
SIGNED_OUT = text("You are signed out here. Nothing was changed. Sign in again.")


class AccountServices(Struct, frozen=True, eq=False):
    """The services that the routes call."""

    sign_in: AccountSignIn
    page: AccountPage
    sessions: SessionService
    account: AccountService
    saves: SaveService
    exports: ExportRoutes
    own_data: OwnData


class AccountResponder(Component, frozen=True, kw_only=True):
    """The services of the account and the answers of its routes; `choice` has the ways to sign in."""

    services: AccountServices
    guard: AccountGuard
    choice: SignInChoice
    pages: PageResponder
    keys: Keys

    async def account_page(
        self, request: Request, visit: BrowserVisit, status: int = 200, forms: AccountForms | None = None
    ) -> bytes:
        """Return the account; without `forms` its forms have what was typed before a sign-in."""
        place, forms = saves_place(request), forms or self.forms(request, visit)
        overview = await self.services.page.overview(visit, place)
        shown = self.visit_of(request, visit, overview.names.display or overview.names.account)
        content = views.account_page(shown, overview, self.choice, place, forms=forms)
        return await self.pages.page_in_turns(request, status, content)

    async def device_page(
        self,
        request: Request,
        visit: BrowserVisit,
        session_id: str,
        status: int = 200,
        *,
        typed: str | None = None,
        error: Text | None = None,
    ) -> bytes:
        """Return the page that renames a device; raise SessionNotFound. `error` is about the name that was typed."""
        sessions = await self.services.sessions.list(visit.caller)
        found = next((each for each in sessions if each.session_id == session_id), None)
        if found is None:
            raise SessionNotFound
        if typed is None:
            typed = self.forms(request, visit).typed.get("device_name")
        shown = views.rename_page(self.visit_of(request, visit), views.shown_device(found), typed, error)
        return self.pages.page(request, status, shown)

    async def passkey_page(
        self,
        request: Request,
        visit: BrowserVisit,
        passkey_id: str,
        status: int = 200,
        *,
        typed: str | None = None,
        error: Text | None = None,
    ) -> bytes:
        """Return the page of a passkey; raise PasskeyUnknown. `error` is about the name that was typed."""
        passkeys = await self.services.page.ways.passkeys(visit.caller.player_id)
        found = next((each for each in passkeys if each.passkey_id == passkey_id), None)
        if found is None:
            raise PasskeyUnknown
        shown = views.passkey_page(self.visit_of(request, visit), found, typed, error)
        return self.pages.page(request, status, shown)

    async def new_passkey_page(
        self, request: Request, visit: BrowserVisit, status: int = 200, *, typed: str = "", error: Text | None = None
    ) -> bytes:
        """Return the page that makes a passkey; `error` says why one was not accepted.

        Raise PasskeysOff or PasskeysFull.
        """
        prompt = await self.services.page.passkey_prompt(visit, self.pages.server.title)
        name = typed or browser_name(request).title
        shown = views.new_passkey_page(self.visit_of(request, visit), prompt, name, error)
        return self.pages.page(request, status, shown)

    async def authenticate(self, request: Request) -> BrowserVisit:
        visit: BrowserVisit = await self.run(self.services.sign_in.authenticate(self.guard.cookie(request)))
        return visit

    def require_recent(self, visit: BrowserVisit) -> None:
        """Raise AccountReauthenticationRequired without a recent sign-in; one with a recovery code never is."""
        caller = visit.caller
        if not caller.signed_in_recently(self.pages.now_ms()):
            raise AccountReauthenticationRequired(caller.player_id, recovered=caller.recovered)

    def require_own_proof(self, visit: BrowserVisit) -> None:
        """Raise AccountReauthenticationRequired in a session that a recovery code opened, whatever else was typed."""
        if visit.caller.recovered:
            raise AccountReauthenticationRequired(visit.caller.player_id, recovered=True)

    def run(self, work: Coroutine[Deferred[Any], Any, Any]) -> Deferred[Any]:
        """Complete work even if the browser disconnects."""
        return self.pages.tasks.run(work)

    def done(self, request: Request, notice: str, slot: str = "") -> bytes:
        """Redirect to the page, which shows a notice once."""
        self.guard.set_notice(request, notice)
        return see_other(request, self.url(f"/saves/{slot}" if slot else ""))

    def url(self, below: str) -> str:
        return f"{self.pages.base_url()}{HOME}{below}"

    def visit_of(self, request: Request, visit: BrowserVisit, name: str | None = None) -> Visit:
        field = self.guard.field(self.guard.cookie(request) or "")
        return Visit(field, visit.caller.player_id, name, sentences.NOTICES.get(self.guard.take_notice(request)))

    def sign_in_page(
        self,
        request: Request,
        status: int,
        feedback: FormFeedback | None = None,
        *,
        title: Text,
        lead: Text,
        back: AccountReturn | None = None,
    ) -> bytes:
        browsers = self.guard.browsers
        cookie = browsers.cookie_or_new(request)
        browsers.set_cookie(request, cookie)
        sealed = "" if back is None else back.seal(self.keys, self._browser_row(cookie))
        field = self.guard.field(cookie)
        passkey = self.services.sign_in.passkeys.prompt(account_row(browsers.index(cookie)))
        shown = views.sign_in_page(
            field,
            self.choice,
            feedback,
            title=title,
            lead=lead,
            back=sealed,
            passkey=passkey,
            # not before what needs a recent sign-in, which one with a recovery code never is
            recovery=not self.choice.labels and title is not AGAIN_TITLE,
        )
        return self.pages.page(request, status, shown)

    def sign_in_page_for(
        self, request: Request, back: AccountReturn | None, status: int = 200, feedback: FormFeedback | None = None
    ) -> bytes:
        """Return the page once more from which a sign-in began that leads to this place."""
        title, lead = (AGAIN_TITLE, AGAIN_LEAD) if back is not None and back.player_id else (TITLE, SIGN_IN_LEAD)
        return self.sign_in_page(request, status, feedback, title=title, lead=lead, back=back)

    def ended_page(self, request: Request, result: NotSignedIn) -> bytes:
        """Return the end of a sign-in that failed; another try leads to the same place."""
        cookie, back = self.guard.browsers.cookie(request) or "", result.back
        sealed = "" if back is None else back.seal(self.keys, self._browser_row(cookie))
        shown = views.ended_page(result.ended, self.guard.field(cookie), sealed, by_code=result.by_code)
        return self.pages.page(request, 200, shown)

    def place(self, request: Request, player_id: str = "") -> AccountReturn | None:
        """Return the page that was asked for, or that has the form that was sent; None for a form of another origin."""
        now_ms, path = self.pages.now_ms(), request.head.path
        if request.head.method == "GET":
            found = return_to_page(path, read_query(request), now_ms)
        else:
            try:
                fields = self.guard.form(request, self.guard.cookie(request))
            except HttpError:
                return None
            found = return_to_form(path.rpartition("/")[2], fields, now_ms)
        return None if found is None else replace(found, player_id=player_id)

    def sealed_return(self, fields: Mapping[str, str], cookie: str) -> AccountReturn | None:
        """Return the place in the form of a sign-in, if this browser got it from this server."""
        return AccountReturn.unseal(self.keys, self._browser_row(cookie), fields.get("back", ""), self.pages.now_ms())

    def back(self, request: Request, signed_in: SignedIn) -> bytes:
        """Redirect to where the person was; the page says that nothing was done yet, and has what was typed.

        A browser scrolls to the section of the form, past the notice at the top, so that the section says it. After a
        recovery code the account itself says so: another page may ask for a new sign-in at once, as if the code had
        been refused.
        """
        back = signed_in.back
        if back is not None and back.refused and not back.section and signed_in.codes_left is None:
            self.guard.set_notice(request, "again")
        if back is not None and back.refused and (back.section or back.typed):
            kept = replace(back, player_id=signed_in.player_id, made_ms=self.pages.now_ms())
            self.guard.set_typed(request, kept.seal(self.keys, signed_in.player_id))
        path = HOME if back is None or signed_in.codes_left is not None else back.path
        return see_other(request, f"{self.pages.base_url()}{path}")

    def forms(self, request: Request, visit: BrowserVisit) -> AccountForms:
        """Return the forms with what this player had typed before the last sign-in, once."""
        player_id = visit.caller.player_id
        back = AccountReturn.unseal(self.keys, player_id, self.guard.take_typed(request), self.pages.now_ms())
        return AccountForms() if back is None else AccountForms(back.typed, again=back.section)

    def _browser_row(self, cookie: str) -> str:
        return self.guard.browsers.index(cookie).hex()


class HasResponder(Protocol):
    """A route group of the account."""

    @property
    def responder(self) -> AccountResponder: ...


def error_page(routes: HasResponder, request: Request, error: Exception) -> bytes | None:
    """Return the page of an error; a browser that is not signed in gets the page to sign in."""
    responder = routes.responder
    if isinstance(error, ReauthenticationRequired | AccountReauthenticationRequired):
        back = responder.place(request, getattr(error, "player_id", ""))
        lead = CODE_NOT_ENOUGH if getattr(error, "recovered", False) else AGAIN_LEAD
        return responder.sign_in_page(request, 403, title=AGAIN_TITLE, lead=lead, back=back)
    if isinstance(error, SessionError) and not isinstance(error, SessionNotFound):
        back = responder.place(request)
        if request.head.method != "GET":
            return responder.sign_in_page(request, 403, title=TITLE, lead=SIGNED_OUT, back=back)
        if back is None or back.path.partition("?")[0] != request.head.path:  # a download, which is no page
            return see_other(request, f"{responder.pages.base_url()}{HOME if back is None else back.path}")
        return responder.sign_in_page(request, 200, title=TITLE, lead=SIGN_IN_LEAD, back=back)
    row = next((FAILURES[kind] for kind in type(error).__mro__ if kind in FAILURES), None)
    if row is None:
        return None
    status, sentence = row
    if isinstance(error, CsrfError) and routes.responder.guard.browsers.cookie(request) is None:
        sentence = sentences.NO_COOKIE
    request.removeHeader("Content-Disposition")
    if status == 503:
        request.setHeader("Retry-After", str(getattr(error, "retry_after", 1)))
    # a page that was only asked for would have changed nothing in any case
    titles = {404: TITLES[404]} if request.head.method == "GET" else {status: None}
    shown = views.failure_page(sentence, title=titles.get(status, TITLE_OTHER))
    return routes.responder.pages.page(request, status, shown)


def problem_page(routes: HasResponder, problem: Problem, request: Request) -> RenderedError:
    return routes.responder.pages.problem(problem, request, Place.ACCOUNT)


def saves_place(request: Request) -> SavesPlace:
    """Return where the list of saves begins; raise BadRequest."""
    query = read_query(request)
    given = {name: query[name] for name in (COPIED, AFTER) if name in query}
    try:
        return SavesPlace(**{name: check_slot(slot) for name, slot in given.items()})
    except save_errors.SaveError:
        names = " or ".join(given)
        raise BadRequest(f"{names} is not the name of a save. Open the page without it.") from None
