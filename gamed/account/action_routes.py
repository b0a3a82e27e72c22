"""What a player changes on the account: each form has an address of its own, and is answered by a redirect back."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from msgspec import Struct

from gamed.account import sentences, views
from gamed.account.browser import BrowserVisit
from gamed.account.responder import AccountResponder, error_page, problem_page
from gamed.account.service import Unlinked
from gamed.account.views import DELETE_WORD, HOME
from gamed.http.app import make_html_app
from gamed.http.bodies import DEFAULT_BODY_POLICIES
from gamed.http.errors import RouteNotFound
from gamed.http.request import Request
from gamed.login.browser_routes import see_other
from gamed.login.local import FormError, SignInForm, SignInRejected
from gamed.login.problems import LOGIN_ERRORS
from gamed.login.views import too_many
from gamed.players.names import parse_display_name
from gamed.players.problems import PLAYER_ERRORS
from gamed.saves.model import version_number
from gamed.saves.problems import SAVE_ERRORS
from gamed.saves.validation import check_slot, writing_condition
from gamed.sessions.problems import SESSION_ERRORS
from gamed.structs import Component


class PostedAction(Struct, frozen=True):
    """A form of a signed-in browser."""

    request: Request
    visit: BrowserVisit
    fields: Mapping[str, str]


class ActionRoutes(Component, frozen=True, kw_only=True):
    """The route of all forms of a signed-in browser."""

    app = make_html_app(problem_page, LOGIN_ERRORS, PLAYER_ERRORS, SESSION_ERRORS, SAVE_ERRORS, failure_page=error_page)
    prefixes = (f"{HOME}/do/",)
    body_policies = DEFAULT_BODY_POLICIES
    responder: AccountResponder

    @app.route("/auth/account/do/<string:action>", methods=["POST"])
    async def change_account(self, request: Request, action: str) -> bytes:
        work = _ACTIONS.get(action)
        if work is None:
            raise RouteNotFound
        visit = await self.responder.authenticate(request)
        fields = self.responder.guard.form(request, self.responder.guard.cookie(request))
        return await work(self, PostedAction(request, visit, fields))

    async def _sign_out(self, action: PostedAction) -> bytes:
        await self.responder.run(self.responder.services.sign_in.sign_out(action.visit))
        self.responder.guard.delete_cookie(action.request)
        return see_other(action.request, self.responder.url(""))

    async def _sign_out_device(self, action: PostedAction) -> bytes:
        session_id = action.fields.get("session_id", "")
        await self.responder.run(self.responder.services.sessions.end(action.visit.caller, session_id))
        return self.responder.done(action.request, "signed-out")

    async def _sign_out_others(self, action: PostedAction) -> bytes:
        await self.responder.run(self.responder.services.sessions.end_others(action.visit.caller))
        return self.responder.done(action.request, "others-out")

    async def _restore(self, action: PostedAction) -> bytes:
        slot, number = _version(action)
        saves = self.responder.services.saves
        await self.responder.run(saves.restore(action.visit.token, slot, number, _condition(action)))
        return self.responder.done(action.request, "restored", slot)

    async def _keep(self, action: PostedAction) -> bytes:
        """Restore a conflict copy, then dismiss it."""
        slot, number = _version(action)
        saves, token = self.responder.services.saves, action.visit.token
        await self.responder.run(saves.restore(token, slot, number, _condition(action)))
        await self.responder.run(saves.dismiss(token, slot, number))
        return self.responder.done(action.request, "restored", slot)

    async def _dismiss(self, action: PostedAction) -> bytes:
        self.responder.require_recent(action.visit)
        slot, number = _version(action)
        await self.responder.run(self.responder.services.saves.dismiss(action.visit.token, slot, number))
        return self.responder.done(action.request, "dismissed", slot)

    async def _link(self, action: PostedAction) -> bytes:
        browsers, request = self.responder.guard.browsers, action.request
        cookie = browsers.cookie_or_new(request)
        browsers.set_cookie(request, cookie)
        form = SignInForm("", browsers.index(cookie), request.head.address, request_id=request.request_id)
        provider = action.fields.get("provider", "")
        linking = self.responder.services.sign_in.at_provider(form, provider, action.visit.caller)
        return self.responder.pages.redirect(request, await self.responder.run(linking))

    async def _unlink(self, action: PostedAction) -> bytes:
        self.responder.require_recent(action.visit)
        unlinking = self.responder.services.account.unlink(action.visit.caller, action.fields.get("provider", ""))
        unlinked: Unlinked = await self.responder.run(unlinking)
        if not unlinked.own_ended:
            return self.responder.done(action.request, "unlinked")
        self.responder.guard.delete_cookie(action.request)
        return self.responder.pages.page(action.request, 200, views.unlinked_page(), at="")

    async def _name(self, action: PostedAction) -> bytes:
        typed = action.fields.get("name", "")
        name = parse_display_name(typed) if typed.strip(" ") else None
        await self.responder.run(self.responder.services.account.rename(action.visit.caller, name))
        return self.responder.done(action.request, "named")

    async def _password(self, action: PostedAction) -> bytes:
        if self.responder.choice.labels:
            raise RouteNotFound
        request, old, new = action.request, action.fields.get("old", ""), action.fields.get("new", "")
        form = SignInForm(
            "", self.responder.guard.browsers.index(""), request.head.address, "", old, request.request_id
        )
        try:
            token = await self.responder.run(self.responder.services.page.change_password(action.visit, form, new))
        except SignInRejected as e:
            if e.retry_after:
                request.setHeader("Retry-After", str(e.retry_after))
            error = too_many(e.retry_after) if e.error is FormError.LIMIT else sentences.PASSWORD_REFUSED[e.error]
            return await self.responder.account_page(request, action.visit, e.error.status, error=error)
        self.responder.guard.set_cookie(request, token)
        return self.responder.done(action.request, "password")

    async def _delete(self, action: PostedAction) -> bytes:
        self.responder.require_recent(action.visit)
        if action.fields.get("word", "").strip().lower() != DELETE_WORD:
            return self.responder.pages.page(action.request, 400, views.failure_page(sentences.NOT_TYPED))
        await self.responder.run(self.responder.services.account.erase(action.visit.caller))
        self.responder.guard.delete_cookie(action.request)
        return self.responder.pages.page(action.request, 200, views.deleted_page(), at="")


def _version(action: PostedAction) -> tuple[str, int]:
    return check_slot(action.fields.get("slot", "")), version_number(action.fields.get("version", ""))


def _condition(action: PostedAction) -> Any:
    """Return the condition that the slot is as the page showed it: a tag, or none for a deleted save."""
    etag = action.fields.get("etag", "")
    return writing_condition(({"if-match": etag} if etag else {"if-none-match": "*"}).get)


_ACTIONS: Mapping[str, Callable[[ActionRoutes, PostedAction], Awaitable[bytes]]] = {
    "sign-out": ActionRoutes._sign_out,
    "sign-out-device": ActionRoutes._sign_out_device,
    "sign-out-others": ActionRoutes._sign_out_others,
    "restore": ActionRoutes._restore,
    "keep": ActionRoutes._keep,
    "dismiss": ActionRoutes._dismiss,
    "link": ActionRoutes._link,
    "unlink": ActionRoutes._unlink,
    "name": ActionRoutes._name,
    "password": ActionRoutes._password,
    "delete": ActionRoutes._delete,
}
