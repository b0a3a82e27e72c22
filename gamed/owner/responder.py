"""The owner's page that acts: who may see it, and the answers of its routes.

While the page is off, and for every other player, each of its addresses is answered as one that does not exist.
"""

from collections.abc import Mapping
from re import ASCII, compile
from typing import Final, Protocol

from gamed.account.browser import BrowserVisit
from gamed.account.home_routes import render_for_any
from gamed.account.responder import AGAIN_LEAD, AGAIN_TITLE, SIGNED_OUT, AccountResponder
from gamed.account.return_rules import AccountReturn
from gamed.account.views import Visit
from gamed.assets import errors as asset_errors
from gamed.database import errors as database_errors
from gamed.http.problems import ErrorTable, Problem, RenderedError
from gamed.http.request import Request
from gamed.login.csrf import CsrfError, FramedRequest, PrefetchRequest
from gamed.login.responder import see_other
from gamed.login.sentences import CODE_NOT_ENOUGH, PREFETCH, TITLES, Place
from gamed.owner import model, site_views
from gamed.owner import site_sentences as sentences
from gamed.owner.model import HOME, NotTheOwner
from gamed.owner.reads import OwnerReads
from gamed.owner.site_views import OwnerFrame
from gamed.pages.model import Page, Text, Way
from gamed.players.errors import AccountReauthenticationRequired, MergeRefused, PlayerChanged
from gamed.players.model import CodeCheck
from gamed.saves import errors as save_errors
from gamed.sessions.errors import SessionError
from gamed.structs import Component

FAILURES: Mapping[type[Exception], tuple[int, Text]] = {
    CsrfError: (403, sentences.FORM_REFUSED),
    FramedRequest: (403, sentences.FORM_REFUSED),
    PrefetchRequest: (503, PREFETCH),
    model.OwnerProtected: (403, sentences.PROTECTED),
    model.PersonGone: (404, sentences.UNKNOWN_PERSON),
    model.DeviceGone: (409, sentences.DEVICE_GONE),
    model.InviteGone: (409, sentences.INVITE_GONE),
    model.TooManyInvites: (409, sentences.TOO_MANY_INVITES),
    model.NotConfirmed: (403, sentences.CODES[CodeCheck.NONE]),
    model.NoAccount: (409, sentences.NO_ACCOUNT),
    model.TextUnusable: (400, sentences.UNUSABLE),
    model.NoBackupFolder: (409, sentences.NO_FOLDER),
    model.BackupRuns: (409, sentences.RUNS),
    model.FilesChanged: (409, sentences.FILES_CHANGED),
    PlayerChanged: (409, sentences.CHANGED),
    MergeRefused: (409, sentences.NOT_MERGEABLE),
    save_errors.CorruptBlob: (500, sentences.SAVE_DAMAGED),
    save_errors.QuotaExceeded: (409, sentences.SAVE_NO_ROOM),
    save_errors.TooManySlots: (409, sentences.SAVE_NO_ROOM),
    save_errors.SaveError: (409, sentences.SAVE_CHANGED),
    asset_errors.AssetsBusy: (503, sentences.FILES_BUSY),
    asset_errors.NotFound: (409, sentences.FILES_CHANGED),
    asset_errors.NoPreviousRelease: (409, sentences.FILES_CHANGED),
    asset_errors.AssetsReadOnly: (507, sentences.FILES_READ_ONLY),
    asset_errors.AssetsError: (500, sentences.FILES_DAMAGED),
    database_errors.DatabaseReadOnly: (507, sentences.READ_ONLY),
    database_errors.DatabaseCorrupt: (503, sentences.STATE_AWAY),
    database_errors.DatabaseUnavailable: (503, sentences.STATE_AWAY),
}
"""The status and the sentence of each error that has a page of its own; the nearest base class counts."""
HELP: Mapping[type[Exception], str] = {
    model.NoBackupFolder: "gamed owner page on --backups DIR",
    asset_errors.AssetsError: "gamed assets verify",
    database_errors.DatabaseError: "gamed doctor",
}
"""The command that a sentence names."""
NOT_THE_OWNER: ErrorTable = {NotTheOwner: (404, "route_not_found")}
"""The row of the app of each route group: the answer is that of a path that no route has."""
RETRY_SECONDS: Final = 5
_PATH = compile(rf"{HOME}(?:/[A-Za-z0-9._-]{{1,64}}){{0,4}}", ASCII)
_PERSON = compile(r"ply_[A-Za-z0-9_-]{1,64}", ASCII)


class OwnerResponder(Component, frozen=True, kw_only=True):
    """The answers; `account` has the browser session, whose cookie and forms the page shares."""

    account: AccountResponder
    reads: OwnerReads
    labels: Mapping[str, str]

    async def enter(self, request: Request) -> BrowserVisit:
        """Return the owner's visit; raise NotTheOwner, or SessionError for a browser that is not signed in.

        Raise AccountReauthenticationRequired for one that a recovery code signed in: who has found it is not the owner.
        """
        if await self.reads.switch() is None:
            raise NotTheOwner
        try:
            visit = await self.account.authenticate(request)
        except SessionError:
            # Only here: a signed-in browser is counted by none of its pages.
            await self.account.services.sign_in.count_request(request.head.address)
            raise
        if not visit.caller.owner:
            raise NotTheOwner
        self.account.require_own_proof(visit)
        return visit

    async def own(self, request: Request, visit: BrowserVisit) -> OwnerFrame:
        """Return what each page has around its content."""
        guard, player_id = self.account.guard, visit.caller.player_id
        names = await self.account.services.page.store.names(player_id)
        done = sentences.NOTICES.get(guard.take_notice(request))
        shown = Visit(guard.field(guard.cookie(request) or ""), player_id, names.display or names.account, done)
        return OwnerFrame(shown, self.labels, not visit.caller.verified)

    async def page(self, request: Request, shown: Page, status: int = 200, *, at: str | None = None) -> bytes:
        return await self.account.pages.page_in_turns(request, status, shown, at=at)

    def done(self, request: Request, notice: str, path: str) -> bytes:
        """Redirect to a page, which shows a notice once."""
        self.account.guard.set_notice(request, notice)
        return see_other(request, f"{self.account.pages.base_url()}{path}")

    def sign_in_again(self, request: Request, error: AccountReauthenticationRequired, path: str = "") -> bytes:
        """Return the page to sign in again, which leads to the page with the form, "" for that of the request."""
        refused = request.head.method != "GET"
        back = AccountReturn(path or _place(request), self.account.pages.now_ms(), error.player_id, refused=refused)
        lead = CODE_NOT_ENOUGH if error.recovered else AGAIN_LEAD
        return self.account.sign_in_page(request, 403, title=AGAIN_TITLE, lead=lead, back=back)

    def failure(self, request: Request, error: Exception, path: str = HOME) -> bytes | None:
        """Return the page of an error with a way back to `path`; None for one that has no page here."""
        row = next((FAILURES[kind] for kind in type(error).__mro__ if kind in FAILURES), None)
        if row is None:
            return None
        status, sentence = row
        command = next((HELP[kind] for kind in type(error).__mro__ if kind in HELP), "")
        if isinstance(error, model.OwnerProtected):
            command = f"gamed {error.command}"
        if isinstance(error, model.NotConfirmed):
            sentence = sentences.CODES[error.check]
        if status == 503:
            request.setHeader("Retry-After", str(getattr(error, "retry_after", None) or RETRY_SECONDS))
        title = TITLES[404] if status == 404 and request.head.method == "GET" else None
        label = sentences.BACK if path == HOME or "/people/" not in path else sentences.BACK_TO_PERSON
        filled = Text(sentence.source, {"command": command}) if "{command}" in sentence.source else sentence
        shown = site_views.failure_page(filled, title=title, way=Way(label, path))
        return self.account.pages.page(request, status, shown)


class HasOwnerResponder(Protocol):
    """A route group of the owner's page."""

    @property
    def responder(self) -> OwnerResponder: ...


def error_page(routes: HasOwnerResponder, request: Request, error: Exception) -> bytes | None:
    """Return the page of an error; a browser that is not signed in gets the page to sign in, which leads back."""
    responder, account = routes.responder, routes.responder.account
    if isinstance(error, AccountReauthenticationRequired):
        return responder.sign_in_again(request, error)
    if isinstance(error, SessionError):
        back = AccountReturn(_place(request), account.pages.now_ms())
        if request.head.method == "GET":
            return account.sign_in_page(request, 200, title=sentences.TITLE, lead=sentences.SIGN_IN_LEAD, back=back)
        return account.sign_in_page(request, 403, title=sentences.TITLE, lead=SIGNED_OUT, back=back)
    return responder.failure(request, error)


def problem_page(routes: HasOwnerResponder, problem: Problem, request: Request) -> RenderedError:
    """Return the page of any other problem; an unknown address below the page is like any other unknown one."""
    if problem.code == "route_not_found":
        return render_for_any(routes.responder.account.pages, problem, request, at="")
    return routes.responder.account.pages.problem(problem, request, Place.HOME)


def _place(request: Request) -> str:
    """Return the path to which a sign-in leads: the page that was asked for, else the first one."""
    path = request.head.path
    return path if request.head.method == "GET" and _PATH.fullmatch(path) is not None else HOME


def person_path(player_id: str) -> str:
    """Return the path of a player's page; the list for a text that is not an id."""
    return f"{HOME}/people/{player_id}" if _PERSON.fullmatch(player_id) else f"{HOME}/people"
