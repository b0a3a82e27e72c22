"""The changes of a player to the account: each form has an address of its own, and is answered by a redirect back."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from msgspec.structs import replace

from gamed.account import sentences, views
from gamed.account.browser import BrowserVisit
from gamed.account.guard import browser_name
from gamed.account.responder import AccountResponder, error_page, problem_page
from gamed.account.service import Unlinked
from gamed.account.views import DELETE_WORD, HOME, AccountForms
from gamed.database.errors import DatabaseError
from gamed.http.app import make_html_app
from gamed.http.bodies import DEFAULT_BODY_POLICIES
from gamed.http.conditional import UNCONDITIONAL
from gamed.http.errors import RouteNotFound
from gamed.http.request import Request
from gamed.login.local import FormError, SignInForm, SignInRejected
from gamed.login.problems import LOGIN_ERRORS
from gamed.login.responder import see_other
from gamed.login.sentences import REFUSED
from gamed.login.transaction import ClientInfo, ClientInfoTooLong
from gamed.login.views import too_many
from gamed.pages.model import Text
from gamed.passkeys.errors import CodesReplaced, PasskeyRefused, Refusal
from gamed.players.errors import AdoptionRefused, DisplayNameInvalid
from gamed.players.names import parse_display_name
from gamed.players.problems import PLAYER_ERRORS
from gamed.rate_limit import RateLimited
from gamed.saves.commands import ReadRequest
from gamed.saves.errors import VersionConflict, VersionGone
from gamed.saves.model import version_number
from gamed.saves.problems import SAVE_ERRORS
from gamed.saves.validation import check_slot, deleting_condition, writing_condition
from gamed.sessions.browser_rules import is_browser_session
from gamed.sessions.problems import SESSION_ERRORS
from gamed.structs import Component

if TYPE_CHECKING:
    from gamed.passkeys.recovery_rules import RecoveryCodes
    from gamed.passkeys.service import Removed

PASSKEY_REFUSALS: Final[Mapping[Refusal, Text]] = {
    Refusal.KNOWN: sentences.PASSKEY_KNOWN,
    Refusal.TOO_MANY: sentences.PASSKEYS_FULL,
}
"""The reasons that a player can do something about; all others have one sentence."""
MOST_COPIES: Final = 100
"""The highest value of `conflict_copies` in game.json."""


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
        session_id, services = action.fields.get("session_id", ""), self.responder.services
        if is_browser_session(session_id):
            await self.responder.run(services.sign_in.end_browser(action.visit, session_id))
            return self.responder.done(action.request, "browser-out")
        await self.responder.run(services.sessions.end(action.visit.caller, session_id))
        return self.responder.done(action.request, "signed-out")

    async def _rename_device(self, action: PostedAction) -> bytes:
        responder, visit = self.responder, action.visit
        session_id, typed = action.fields.get("session_id", ""), action.fields.get("device_name", "")
        name = _device_name(typed)
        if name is None:
            error = sentences.DEVICE_NAME_UNUSABLE
            return await responder.device_page(action.request, visit, session_id, 400, typed=typed, error=error)
        await responder.run(responder.services.account.rename_device(visit.caller, session_id, name))
        return responder.done(action.request, "device-named")

    async def _add_passkey(self, action: PostedAction) -> bytes:
        responder, typed = self.responder, action.fields.get("passkey_name", "")
        responder.require_recent(action.visit)
        # The device has the passkey already, and would keep one that is refused because of its name.
        name = _device_name(typed) or browser_name(action.request).title
        try:
            await responder.run(responder.services.page.passkeys.get().add(action.visit.caller, action.fields, name))
        except PasskeyRefused as e:
            error = PASSKEY_REFUSALS.get(e.refusal, sentences.PASSKEY_REFUSED)
            return await responder.new_passkey_page(action.request, action.visit, 400, typed=typed, error=error)
        made = None
        # The passkey is stored: an error of the codes, which the player can make later, must not hide that.
        with suppress(RateLimited, DatabaseError):
            made = await responder.run(responder.services.page.make_codes(action.visit))
        if made is None:
            return responder.done(action.request, "passkey-added")
        return self._shown_codes(action, made, sentences.NOTICES["passkey-added"])

    async def _make_codes(self, action: PostedAction) -> bytes:
        self.responder.require_recent(action.visit)
        replaces = action.fields.get("replaces", "")
        try:
            made = await self.responder.run(self.responder.services.page.make_codes(action.visit, replaces))
        except CodesReplaced:  # a reload of the page that shows the new ones, which stay as they were printed
            return see_other(action.request, self.responder.url("/codes"))
        if made is None:
            raise RouteNotFound
        return self._shown_codes(action, made)

    def _shown_codes(self, action: PostedAction, made: "RecoveryCodes", done: Text | None = None) -> bytes:
        """Return the page with new codes: the answer to the form, so that no address shows them again."""
        shown = views.codes_page(replace(self.responder.visit_of(action.request, action.visit), done=done), made)
        return self.responder.pages.page(action.request, 200, shown, at="")

    async def _rename_passkey(self, action: PostedAction) -> bytes:
        responder, visit = self.responder, action.visit
        passkey_id, typed = action.fields.get("passkey_id", ""), action.fields.get("passkey_name", "")
        name = _device_name(typed)
        if name is None:
            error = sentences.DEVICE_NAME_UNUSABLE
            return await responder.passkey_page(action.request, visit, passkey_id, 400, typed=typed, error=error)
        await responder.run(responder.services.page.passkeys.get().rename(visit.caller, passkey_id, name))
        return responder.done(action.request, "passkey-named")

    async def _remove_passkey(self, action: PostedAction) -> bytes:
        self.responder.require_recent(action.visit)
        removing = self.responder.services.page.passkeys.get().remove(
            action.visit.caller, action.fields.get("passkey_id", "")
        )
        removed: Removed = await self.responder.run(removing)
        if not removed.own_ended:
            return self.responder.done(action.request, "passkey-removed")
        self.responder.guard.delete_cookie(action.request)
        return self.responder.pages.page(action.request, 200, views.passkey_removed_page(), at="")

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

    async def _bring_back(self, action: PostedAction) -> bytes:
        """Restore the last version of a deleted save, from the list of saves."""
        slot, number = _version(action)
        saves = self.responder.services.saves
        await self.responder.run(saves.restore(action.visit.token, slot, number, _condition(action)))
        return self.responder.done(action.request, "restored")

    async def _delete_save(self, action: PostedAction) -> bytes:
        slot, saves = check_slot(action.fields.get("slot", "")), self.responder.services.saves
        if saves.deleted_until_ms() is None:
            self.responder.require_recent(action.visit)
        condition = deleting_condition({"if-match": action.fields.get("etag", "")}.get)
        await self.responder.run(saves.delete(action.visit.token, slot, condition))
        return self.responder.done(action.request, "save-deleted")

    async def _keep_current(self, action: PostedAction) -> bytes:
        """Dismiss the conflict copies that the page showed, if it showed the current version, too."""
        self.responder.require_recent(action.visit)
        slot = check_slot(action.fields.get("slot", ""))
        saves, token = self.responder.services.saves, action.visit.token
        found = await saves.read(token, ReadRequest(slot, UNCONDITIONAL, with_bytes=False))
        if found.version.etag != action.fields.get("etag"):
            raise VersionConflict("Another version is current. Look at it, then choose.", {})
        for number in action.fields.get("copies", "").split()[:MOST_COPIES]:
            with suppress(VersionGone):  # the form was sent before
                await self.responder.run(saves.dismiss(token, slot, version_number(number)))
        return self.responder.done(action.request, "kept", slot)

    async def _dismiss(self, action: PostedAction) -> bytes:
        self.responder.require_recent(action.visit)
        slot, number = _version(action)
        await self.responder.run(self.responder.services.saves.dismiss(action.visit.token, slot, number))
        return self.responder.done(action.request, "dismissed", slot)

    async def _link(self, action: PostedAction) -> bytes:
        self.responder.require_recent(action.visit)
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

    async def _adopt(self, action: PostedAction) -> bytes:
        """Bring an old local account into this one; only a server that has left local mode has such accounts."""
        if not self.responder.choice.labels:
            raise RouteNotFound
        self.responder.require_recent(action.visit)
        request, name = action.request, action.fields.get("old_account", "")
        browser, password = self.responder.guard.browsers.index(""), action.fields.get("old_password", "")
        form = SignInForm("", browser, request.head.address, name, password, request.request_id)
        try:
            await self.responder.run(self.responder.services.page.adopt(action.visit, form))
        except AdoptionRefused as e:
            return await self._refused(action, "old_account", sentences.ADOPT_REFUSED[e.reason], {"old_account": name})
        except SignInRejected as e:
            return await self._rejected(action, "old_account", e, REFUSED, {"old_account": name})
        return self.responder.done(request, "adopted")

    async def _name(self, action: PostedAction) -> bytes:
        typed = action.fields.get("name", "")
        try:
            name = parse_display_name(typed) if typed.strip(" ") else await self._account_name(action)
        except DisplayNameInvalid:
            return await self._refused(action, "name", sentences.NAME_UNUSABLE, {"name": typed})
        await self.responder.run(self.responder.services.account.rename(action.visit.caller, name))
        return self.responder.done(action.request, "named")

    async def _account_name(self, action: PostedAction) -> str | None:
        """Return the name that games show of a player who leaves the field empty; None if providers sign in here."""
        return None if self.responder.choice.labels else await self.responder.services.page.account_name(action.visit)

    async def _password(self, action: PostedAction) -> bytes:
        if self.responder.choice.labels:
            raise RouteNotFound
        self.responder.require_own_proof(action.visit)
        request, old, new = action.request, action.fields.get("old", ""), action.fields.get("new", "")
        form = SignInForm(
            "", self.responder.guard.browsers.index(""), request.head.address, "", old, request.request_id
        )
        try:
            page, name = self.responder.services.page, browser_name(request)
            token = await self.responder.run(page.change_password(action.visit, form, new, name))
        except SignInRejected as e:
            return await self._rejected(action, "old", e, sentences.PASSWORD_REFUSED)
        self.responder.guard.set_cookie(request, token)
        kept = await page.ways.kept(action.visit.caller.player_id)
        notices = {(True, True): "password-both", (True, False): "password-passkeys", (False, True): "password-codes"}
        return self.responder.done(action.request, notices.get((kept.passkeys, kept.codes), "password"))

    async def _delete(self, action: PostedAction) -> bytes:
        self.responder.require_recent(action.visit)
        if action.fields.get("word", "").strip().lower() != DELETE_WORD:
            return await self._refused(action, "word", sentences.NOT_TYPED, {"word": action.fields.get("word", "")})
        await self.responder.run(self.responder.services.account.erase(action.visit.caller))
        self.responder.guard.delete_cookie(action.request)
        return self.responder.pages.page(action.request, 200, views.deleted_page(), at="")

    async def _rejected(
        self,
        action: PostedAction,
        field: str,
        error: SignInRejected,
        reasons: Mapping[FormError, Text],
        typed: Mapping[str, str] | None = None,
    ) -> bytes:
        """Return the account with the reason why a name or password was not accepted."""
        if error.retry_after:
            action.request.setHeader("Retry-After", str(error.retry_after))
        sentence = too_many(error.retry_after) if error.error is FormError.LIMIT else reasons[error.error]
        return await self._refused(action, field, sentence, typed, status=error.error.status)

    async def _refused(
        self,
        action: PostedAction,
        field: str,
        sentence: Text,
        typed: Mapping[str, str] | None = None,
        *,
        status: int = 400,
    ) -> bytes:
        """Return the account with the reason at the field of its form, and with what was typed."""
        forms = AccountForms(typed or {}, field, sentence)
        return await self.responder.account_page(action.request, action.visit, status, forms)


def _device_name(typed: str) -> str | None:
    """Return a name by the rule of those that devices report; None if it cannot be one."""
    try:
        return ClientInfo.of({"device_name": typed}).device_name
    except ClientInfoTooLong:
        return None


def _version(action: PostedAction) -> tuple[str, int]:
    return check_slot(action.fields.get("slot", "")), version_number(action.fields.get("version", ""))


def _condition(action: PostedAction) -> Any:
    """Return the condition that the slot is as the page showed it: a tag, or none for a deleted save."""
    etag = action.fields.get("etag", "")
    return writing_condition(({"if-match": etag} if etag else {"if-none-match": "*"}).get)


_ACTIONS: Mapping[str, Callable[[ActionRoutes, PostedAction], Awaitable[bytes]]] = {
    "sign-out": ActionRoutes._sign_out,
    "sign-out-device": ActionRoutes._sign_out_device,
    "rename-device": ActionRoutes._rename_device,
    "sign-out-others": ActionRoutes._sign_out_others,
    "add-passkey": ActionRoutes._add_passkey,
    "make-codes": ActionRoutes._make_codes,
    "rename-passkey": ActionRoutes._rename_passkey,
    "remove-passkey": ActionRoutes._remove_passkey,
    "restore": ActionRoutes._restore,
    "keep": ActionRoutes._keep,
    "keep-current": ActionRoutes._keep_current,
    "bring-back": ActionRoutes._bring_back,
    "delete-save": ActionRoutes._delete_save,
    "dismiss": ActionRoutes._dismiss,
    "link": ActionRoutes._link,
    "unlink": ActionRoutes._unlink,
    "adopt": ActionRoutes._adopt,
    "name": ActionRoutes._name,
    "password": ActionRoutes._password,
    "delete": ActionRoutes._delete,
}
