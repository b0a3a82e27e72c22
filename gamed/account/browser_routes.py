"""The routes of a player's account are for browsers; no game uses them.

They call the same services as the routes of the game's API.
"""

from collections.abc import Coroutine, Mapping
from typing import Any

from msgspec import Struct
from twisted.internet.defer import Deferred

from gamed.account import views
from gamed.account.browser import NotSignedIn, SignedIn
from gamed.account.guard import browser_name, require_own_site
from gamed.account.responder import (
    AGAIN_LEAD,
    AGAIN_TITLE,
    SIGN_IN_LEAD,
    TITLE,
    AccountResponder,
    error_page,
    problem_page,
    saves_place,
)
from gamed.account.return_rules import NEW_PASSKEY, AccountReturn
from gamed.account.views import BEFORE, HOME
from gamed.http.app import make_html_app
from gamed.http.bodies import DEFAULT_BODY_POLICIES
from gamed.http.conditional import UNCONDITIONAL
from gamed.http.errors import BadRequest, RouteNotFound
from gamed.http.json_body import read_query
from gamed.http.request import Request
from gamed.http.streaming import send_part
from gamed.login.browser import InProgress, RedirectToResult
from gamed.login.csrf import require_top_level_navigation
from gamed.login.local import SignInForm, SignInRejected
from gamed.login.problems import LOGIN_ERRORS
from gamed.login.views import FormFeedback
from gamed.players.problems import PLAYER_ERRORS
from gamed.saves import errors as save_errors
from gamed.saves.commands import ReadRequest
from gamed.saves.model import VersionKind, version_number
from gamed.saves.problems import SAVE_ERRORS
from gamed.saves.validation import check_slot, page_before
from gamed.sessions.errors import SessionError
from gamed.sessions.problems import SESSION_ERRORS
from gamed.structs import Component, redacts

WORKING_SECONDS = 1


@redacts("fields")
class PostedSignIn(Struct, frozen=True):
    """The form of a sign-in, all of its fields, and the page to which it leads, if any."""

    form: SignInForm
    fields: Mapping[str, str]
    back: AccountReturn | None


class AccountRoutes(Component, frozen=True, kw_only=True):
    """The routes of the page."""

    app = make_html_app(problem_page, LOGIN_ERRORS, PLAYER_ERRORS, SESSION_ERRORS, SAVE_ERRORS, failure_page=error_page)
    prefixes = (HOME,)
    body_policies = DEFAULT_BODY_POLICIES
    responder: AccountResponder

    @app.route("/auth/account", methods=["GET"])
    async def show_account(self, request: Request) -> bytes:
        require_top_level_navigation(request)
        saves_place(request)
        await self.responder.services.sign_in.count_request(request.head.address)
        try:
            visit = await self.responder.authenticate(request)
        except SessionError:
            back = self.responder.place(request)
            return self.responder.sign_in_page(request, 200, title=TITLE, lead=SIGN_IN_LEAD, back=back)
        return await self.responder.account_page(request, visit)

    @app.route("/auth/account/done", methods=["GET"])
    async def finish_account_sign_in(self, request: Request) -> bytes:
        require_top_level_navigation(request)
        login_id = read_query(request).get("login_id", "")
        browser, cookie = self.responder.guard.browsers.browser(request), self.responder.guard.cookie(request)
        name, sign_in = browser_name(request), self.responder.services.sign_in
        finishing = sign_in.finish(login_id, browser, cookie, request.request_id, name)
        result: SignedIn | InProgress | NotSignedIn = await self.responder.run(finishing)
        match result:
            case SignedIn(token, linked, invite_unused):
                if token is not None:
                    self.responder.guard.set_cookie(request, token)
                if linked or invite_unused:
                    self.responder.guard.set_notice(request, "linked" if linked else "known")
                if result.codes_left is not None:
                    self.responder.guard.set_notice(request, f"recovered-{result.codes_left}")
                return self.responder.back(request, result)
            case InProgress():
                request.setHeader("Refresh", str(WORKING_SECONDS))
                return self.responder.pages.page(request, 200, views.working_page())
            case NotSignedIn():
                return self.responder.ended_page(request, result)

    @app.route("/auth/account/sign-in", methods=["POST"])
    async def sign_in_to_account(self, request: Request) -> bytes:
        posted, sign_in = await self._posted(request), self.responder.services.sign_in
        if not posted.fields.keys() & {"name", "provider"}:  # "Try again": the person chooses the way anew
            return self.responder.sign_in_page_for(request, posted.back)
        if self.responder.choice.labels:
            beginning = sign_in.at_provider(posted.form, posted.fields.get("provider", ""), back=posted.back)
            return self.responder.pages.redirect(request, await self.responder.run(beginning))
        signing_in = sign_in.locally(posted.form, posted.back)
        return await self._signed_in(request, posted, signing_in, name=posted.form.name)

    @app.route("/auth/account/passkey", methods=["POST"])
    async def sign_in_to_account_with_passkey(self, request: Request) -> bytes:
        posted = await self._posted(request)
        signing_in = self.responder.services.sign_in.by_passkey(posted.form, posted.fields, posted.back)
        return await self._signed_in(request, posted, signing_in)

    @app.route("/auth/account/signed-up", methods=["GET"])
    async def go_on_from_sign_up(self, request: Request) -> bytes:
        """Ask for the password before the page that makes a passkey, also in a browser that is signed in.

        The end of a sign-up leads here. A browser shows that page to the next person, too, who must not get in by it;
        and the account that is open here may be another player's, who must not get the passkey.
        """
        require_top_level_navigation(request)
        await self.responder.services.sign_in.count_request(request.head.address)
        back = AccountReturn(NEW_PASSKEY, self.responder.pages.now_ms())
        return self.responder.sign_in_page(request, 200, title=AGAIN_TITLE, lead=AGAIN_LEAD, back=back)

    @app.route("/auth/account/recovery", methods=["POST"])
    async def sign_in_to_account_with_recovery_code(self, request: Request) -> bytes:
        posted = await self._posted(request)
        if self.responder.choice.labels:
            raise RouteNotFound
        typed = posted.fields.get("recovery_code", "")
        signing_in = self.responder.services.sign_in.by_recovery_code(posted.form, typed, posted.back)
        return await self._signed_in(request, posted, signing_in, name=posted.form.name, recovering=True)

    async def _posted(self, request: Request) -> PostedSignIn:
        """Count the request, and return the form of a sign-in; raise RateLimited or CsrfError."""
        await self.responder.services.sign_in.count_request(request.head.address)
        browsers = self.responder.guard.browsers
        cookie = browsers.cookie(request)
        fields = self.responder.guard.form(request, cookie)
        typed = {"name": fields.get("name", ""), "password": fields.get("password", "")}
        address, request_id = request.head.address, request.request_id
        form = SignInForm("", browsers.index(cookie or ""), address, **typed, request_id=request_id)
        return PostedSignIn(form, fields, self.responder.sealed_return(fields, cookie or ""))

    async def _signed_in(
        self,
        request: Request,
        posted: PostedSignIn,
        signing_in: Coroutine[Deferred[Any], Any, RedirectToResult],
        *,
        name: str = "",
        recovering: bool = False,
    ) -> bytes:
        """Sign in, or return the sign-in page again, with what was typed but for secrets."""
        try:
            return self.responder.pages.redirect(request, await self.responder.run(signing_in))
        except SignInRejected as e:
            if e.retry_after:
                request.setHeader("Retry-After", str(e.retry_after))
            feedback = FormFeedback(e.error, e.retry_after, name=name, recovering=recovering)
            return self.responder.sign_in_page_for(request, posted.back, e.error.status, feedback)

    @app.route("/auth/account/codes", methods=["GET"])
    async def show_recovery_codes(self, request: Request) -> bytes:
        """Ask before codes are made, and for a new sign-in here already."""
        require_top_level_navigation(request)
        visit = await self.responder.authenticate(request)
        self.responder.require_recent(visit)
        stock = await self.responder.services.page.recovery.get().stock(visit.caller)
        if stock is None:
            raise RouteNotFound
        shown = views.recovery_page(self.responder.visit_of(request, visit), stock)
        return self.responder.pages.page(request, 200, shown)

    @app.route("/auth/account/passkeys/new", methods=["GET"])
    async def show_new_passkey(self, request: Request) -> bytes:
        """Ask for a new sign-in here already: a passkey that is refused later would stay on the device."""
        require_top_level_navigation(request)
        visit = await self.responder.authenticate(request)
        self.responder.require_recent(visit)
        return await self.responder.new_passkey_page(request, visit)

    @app.route("/auth/account/passkeys/<string:passkey_id>", methods=["GET"])
    async def show_passkey(self, request: Request, passkey_id: str) -> bytes:
        require_top_level_navigation(request)
        visit = await self.responder.authenticate(request)
        return await self.responder.passkey_page(request, visit, passkey_id)

    @app.route("/auth/account/devices/<string:session_id>", methods=["GET"])
    async def show_device(self, request: Request, session_id: str) -> bytes:
        require_top_level_navigation(request)
        visit = await self.responder.authenticate(request)
        return await self.responder.device_page(request, visit, session_id)

    @app.route("/auth/account/saves/<text:slot>", methods=["GET"])
    async def show_account_save(self, request: Request, slot: str) -> bytes:
        require_top_level_navigation(request)
        name = check_slot(slot)
        query = read_query(request)
        before = _before(query.get(BEFORE))
        visit = await self.responder.authenticate(request)
        saves = self.responder.services.saves
        listed, sides = await saves.versions(visit.token, name, before), await saves.sides(visit.token, name)
        shown = views.slot_page(self.responder.visit_of(request, visit), listed, sides)
        return await self.responder.pages.page_in_turns(request, 200, shown)

    @app.route("/auth/account/saves/<text:slot>/versions/<string:number>", methods=["GET"])
    async def download_version(self, request: Request, slot: str, number: str) -> bytes | None:
        require_own_site(request)
        name, version = check_slot(slot), version_number(number)
        if not version:
            raise RouteNotFound
        visit = await self.responder.authenticate(request)
        read = ReadRequest(name, UNCONDITIONAL, with_bytes=True, version=version)
        result = await self.responder.services.saves.read(visit.token, read)
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
        visit = await self.responder.authenticate(request)
        self.responder.require_recent(visit)
        read = ReadRequest(name, UNCONDITIONAL, with_bytes=False, version=version)
        found = await self.responder.services.saves.read(visit.token, read)
        if found.version.kind is not VersionKind.CONFLICT:
            raise save_errors.VersionProtected("Only another copy can be deleted by itself.")
        shown = views.dismiss_page(self.responder.visit_of(request, visit), found.version)
        return self.responder.pages.page(request, 200, shown)

    @app.route("/auth/account/saves/<text:slot>/delete", methods=["GET"])
    async def ask_before_deletion(self, request: Request, slot: str) -> bytes:
        require_top_level_navigation(request)
        name, saves = check_slot(slot), self.responder.services.saves
        visit = await self.responder.authenticate(request)
        until_ms = saves.deleted_until_ms()
        if until_ms is None:
            self.responder.require_recent(visit)
        found = await saves.read(visit.token, ReadRequest(name, UNCONDITIONAL, with_bytes=False))
        shown = views.delete_save_page(self.responder.visit_of(request, visit), found.version, until_ms)
        return self.responder.pages.page(request, 200, shown)

    @app.route("/auth/account/saves/<text:slot>/keep", methods=["GET"])
    async def ask_before_keeping(self, request: Request, slot: str) -> bytes:
        """Ask before the conflict copies are deleted because the current version is the one to go on with."""
        require_top_level_navigation(request)
        name = check_slot(slot)
        visit = await self.responder.authenticate(request)
        self.responder.require_recent(visit)
        sides = views.sides_of(await self.responder.services.saves.sides(visit.token, name))
        if not sides.copies or sides.head is None or sides.head.kind == VersionKind.DELETE:
            raise save_errors.VersionGone("This save has no copies to choose from. Look at its versions again.")
        shown = views.keep_page(self.responder.visit_of(request, visit), sides.head, sides)
        return self.responder.pages.page(request, 200, shown)

    @app.route("/auth/account/export", methods=["GET"])
    async def download_saves(self, request: Request) -> bytes | None:
        require_own_site(request)
        visit = await self.responder.authenticate(request)
        self.responder.require_recent(visit)
        own_data = await self.responder.services.own_data.read(visit.caller)
        return await self.responder.services.exports.send_whole(request, visit.token, own_data)


def _before(text: str | None) -> int:
    """Return the version number below which the list of versions begins; raise BadRequest."""
    try:
        return page_before(text)
    except save_errors.SaveError:
        raise BadRequest(f"{BEFORE} is not the number of a version. Open the page without it.") from None
