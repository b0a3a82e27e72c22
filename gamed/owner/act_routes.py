"""The routes of the forms of the owner's page: each act has an address of its own, and is answered by a redirect back.

A link that is shown once is the answer itself: it is neither in an address nor kept anywhere.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from gamed.account.browser import BrowserVisit
from gamed.account.link_model import NewLink
from gamed.account.views import INVITE, RESET
from gamed.http.app import make_html_app
from gamed.http.bodies import BodyPolicy, SmallBodyPolicy
from gamed.http.errors import RouteNotFound
from gamed.http.request import Request
from gamed.login.problems import LOGIN_ERRORS
from gamed.owner import site_sentences as sentences
from gamed.owner import site_views
from gamed.owner.backups import InThread, OwnerBackups
from gamed.owner.files import OwnerFiles
from gamed.owner.model import HOME, NotConfirmed, TextUnusable
from gamed.owner.responder import NOT_THE_OWNER, OwnerResponder, error_page, person_path, problem_page
from gamed.owner.service import OwnerService
from gamed.owner.site_routes import AFTER, id_after
from gamed.owner.site_views import ShownInvite, qr_path
from gamed.players.errors import AccountReauthenticationRequired
from gamed.players.problems import PLAYER_ERRORS
from gamed.saves.model import version_number
from gamed.saves.problems import SAVE_ERRORS
from gamed.saves.validation import check_slot
from gamed.sessions.credentials import AuthenticatedSession
from gamed.sessions.errors import SessionError
from gamed.sessions.problems import SESSION_ERRORS
from gamed.structs import Component, redacts

FORM_BYTES: Final = 32 * 1024
"""A note of 2000 characters that UTF-8 writes in four bytes has 24,000 bytes in a form, besides the other fields."""
_BODY_POLICIES: Mapping[str, BodyPolicy] = MappingProxyType(
    {"act_as_owner": SmallBodyPolicy("application/x-www-form-urlencoded", FORM_BYTES)}
)


@redacts("fields")
class OwnerAct(Struct, frozen=True):
    """A form of the owner's browser."""

    request: Request
    visit: BrowserVisit
    name: str
    fields: Mapping[str, str]

    @property
    def caller(self) -> AuthenticatedSession:
        return self.visit.caller

    @property
    def player(self) -> str:
        return self.fields.get("player", "")[:100]

    @property
    def slot(self) -> str:
        """Return the slot; raise InvalidSlot."""
        return check_slot(self.fields.get("slot", ""))

    @property
    def back(self) -> str:
        """Return the path of the page that has the form."""
        return _PLACES.get(self.name) or (person_path(self.player) if self.player else HOME)


class OwnerActRoutes(Component, frozen=True, kw_only=True):
    """The route of all forms of the page, and that of the search."""

    app = make_html_app(
        problem_page, NOT_THE_OWNER, LOGIN_ERRORS, PLAYER_ERRORS, SESSION_ERRORS, SAVE_ERRORS, failure_page=error_page
    )
    prefixes = (f"{HOME}/do/", f"{HOME}/find")
    body_policies = _BODY_POLICIES

    responder: OwnerResponder
    service: OwnerService
    files: OwnerFiles
    backups: OwnerBackups
    in_thread: InThread

    @app.route("/auth/owner/do/<string:action>", methods=["POST"])
    async def act_as_owner(self, request: Request, action: str) -> bytes:
        work = _ACTS.get(action)
        visit = await self.responder.enter(request)
        if work is None:
            raise RouteNotFound
        fields = self._fields(request)
        act = OwnerAct(request, visit, action, fields)
        try:
            # Shielded: an act that has begun is not cancelled by a browser that leaves.
            answer: bytes = await self.responder.account.run(_run(work(self, act)))
        except AccountReauthenticationRequired as e:
            return self.responder.sign_in_again(request, e, self._question(act))
        except SessionError:
            raise
        except Exception as e:
            shown = self.responder.failure(request, e, act.back)
            if shown is None:
                raise
            return shown
        return answer

    @app.route("/auth/owner/find", methods=["POST"])
    async def find_player(self, request: Request) -> bytes:
        """Search by POST: what somebody looks for stays out of addresses, and so of a proxy's log."""
        visit = await self.responder.enter(request)
        fields, reads = self._fields(request), self.responder.reads
        wanted, merging = fields.get("wanted", ""), fields.get("merging", "")
        found = await reads.find(wanted, id_after(fields.get(AFTER) or None))
        named = await reads.named(merging[:100]) if merging else None
        own = await self.responder.own(request, visit)
        shown = site_views.people_page(own, found, wanted=wanted[:64], merging=named)
        return await self.responder.page(request, shown, at="")

    def _fields(self, request: Request) -> Mapping[str, str]:
        guard = self.responder.account.guard
        return guard.form(request, guard.cookie(request))

    def _question(self, act: OwnerAct) -> str:
        """Return the page that asks before this act, to which a new sign-in leads."""
        if act.name == "erase":
            return f"{person_path(act.player)}/erase"
        heir = person_path(act.fields.get("heir", "")[:100]).rpartition("/")[2]
        return f"{person_path(act.player)}/merge/{heir}" if act.name == "merge" else act.back

    async def _change(self, act: OwnerAct) -> bytes:
        state = await self.service.change(act.caller, act.name, act.player, act.fields.get("state", ""))
        notice = "o-waits" if act.name == "unblock" and state == "pending" else f"o-{act.name}"
        waiting = act.name in ("approve", "reject")
        return self.responder.done(act.request, notice, HOME if waiting else act.back)

    async def _note(self, act: OwnerAct) -> bytes:
        await self.service.set_note(act.caller, act.player, act.fields.get("note", ""))
        return self.responder.done(act.request, "o-note", act.back)

    async def _sign_out(self, act: OwnerAct) -> bytes:
        await self.service.sign_out(act.caller, act.player)
        return self.responder.done(act.request, "o-out", act.back)

    async def _end_device(self, act: OwnerAct) -> bytes:
        await self.service.end_device(act.caller, act.player, act.fields.get("session", ""))
        return self.responder.done(act.request, "o-device", act.back)

    async def _reset_link(self, act: OwnerAct) -> bytes:
        """Show a link that sets a password: who has it is that player, so the sign-in must be a recent one."""
        self.responder.account.require_recent(act.visit)
        link, name = await self.service.add_reset_link(act.caller, act.player, self._code(act))
        return await self._link(act, link, f"{RESET}/{link.token}", name, reset=True)

    async def _erase(self, act: OwnerAct) -> bytes:
        self.responder.account.require_recent(act.visit)
        try:
            await self.service.erase(act.caller, act.player, self._code(act))
        except NotConfirmed as e:
            return await self._ask_again(act, e)
        return self.responder.done(act.request, "o-erase", f"{HOME}/people")

    async def _merge(self, act: OwnerAct) -> bytes:
        self.responder.account.require_recent(act.visit)
        heir = act.fields.get("heir", "")[:100]
        try:
            await self.service.merge(act.caller, act.player, heir, self._code(act))
        except NotConfirmed as e:
            return await self._ask_again(act, e, heir)
        return self.responder.done(act.request, "o-merge", person_path(heir))

    def _code(self, act: OwnerAct) -> str | None:
        """Return the typed code; None if the sign-in itself proves who is at the browser."""
        return None if act.caller.verified else act.fields.get("code", "")

    async def _ask_again(self, act: OwnerAct, error: NotConfirmed, heir: str = "") -> bytes:
        reads = self.responder.reads
        named = await reads.named(act.player)
        of_heir = await reads.named(heir) if heir else None
        own = await self.responder.own(act.request, act.visit)
        shown = site_views.ask_page(own, named, of_heir, sentences.CODES[error.check])
        return await self.responder.page(act.request, shown, 403, at="")

    async def _invite(self, act: OwnerAct) -> bytes:
        name = act.fields.get("name", "")
        try:
            link = await self.service.add_invite(act.caller, name, act.fields.get("days", ""))
        except TextUnusable:
            found = await self.responder.reads.invites(None)
            typed = {"name": name[:64], "days": act.fields.get("days", "")[:3]}
            own = await self.responder.own(act.request, act.visit)
            shown = site_views.invites_page(own, found, typed=typed, error=sentences.INVITE_UNUSABLE)
            return await self.responder.page(act.request, shown, 400, at="")
        return await self._link(act, link, f"{INVITE}/{link.token}", name.strip())

    async def _link(self, act: OwnerAct, link: NewLink, path: str, name: str, *, reset: bool = False) -> bytes:
        url = f"{self.responder.account.pages.base_url()}{path}"
        # 5 ms, all that a request may take of the reactor's thread
        path, size = await self.in_thread(partial(qr_path, url))
        shown = ShownInvite(url, path, size, link.expires_ms, name or None)
        own = await self.responder.own(act.request, act.visit)
        return await self.responder.page(act.request, site_views.link_page(own, shown, reset=reset), at="")

    async def _revoke_invite(self, act: OwnerAct) -> bytes:
        await self.service.end_invite(act.caller, act.fields.get("invite", "")[:100])
        return self.responder.done(act.request, "o-revoke", act.back)

    async def _restore(self, act: OwnerAct) -> bytes:
        number = version_number(act.fields.get("version", ""))
        await self.service.restore(act.caller, act.player, act.slot, number)
        return self.responder.done(act.request, "o-restore", f"{self._saves_path(act)}/{act.slot}")

    async def _undelete(self, act: OwnerAct) -> bytes:
        await self.service.undelete(act.caller, act.player, act.slot)
        return self.responder.done(act.request, "o-undelete", self._saves_path(act))

    def _saves_path(self, act: OwnerAct) -> str:
        return person_path(act.player).replace("/people", "/saves")

    async def _point(self, act: OwnerAct) -> bytes:
        channel, release, before = (act.fields.get(name, "")[:100] for name in ("channel", "release", "before"))
        await self.service.record(
            act.caller, "assets set-channel", lambda: self.files.point(channel, release, before), always=False
        )
        return self.responder.done(act.request, "o-point", act.back)

    async def _roll_back(self, act: OwnerAct) -> bytes:
        channel, before = (act.fields.get(name, "")[:100] for name in ("channel", "release"))
        await self.service.record(act.caller, "assets rollback", lambda: self.files.roll_back(channel, before))
        return self.responder.done(act.request, "o-rollback", act.back)

    async def _backup(self, act: OwnerAct) -> bytes:
        await self.backups.begin(act.caller)
        return self.responder.done(act.request, "o-backup", act.back)


async def _run(work: Awaitable[bytes]) -> bytes:
    return await work


_PLACES: Mapping[str, str] = {
    "invite": f"{HOME}/invites",
    "revoke-invite": f"{HOME}/invites",
    "point": f"{HOME}/files",
    "rollback": f"{HOME}/files",
    "backup": f"{HOME}/backups",
}
"""The pages of forms that are about no player."""
_ACTS: Mapping[str, Callable[[OwnerActRoutes, OwnerAct], Awaitable[bytes]]] = {
    "approve": OwnerActRoutes._change,
    "reject": OwnerActRoutes._change,
    "block": OwnerActRoutes._change,
    "unblock": OwnerActRoutes._change,
    "note": OwnerActRoutes._note,
    "sign-out": OwnerActRoutes._sign_out,
    "end-device": OwnerActRoutes._end_device,
    "reset-link": OwnerActRoutes._reset_link,
    "merge": OwnerActRoutes._merge,
    "erase": OwnerActRoutes._erase,
    "invite": OwnerActRoutes._invite,
    "revoke-invite": OwnerActRoutes._revoke_invite,
    "restore": OwnerActRoutes._restore,
    "undelete": OwnerActRoutes._undelete,
    "point": OwnerActRoutes._point,
    "rollback": OwnerActRoutes._roll_back,
    "backup": OwnerActRoutes._backup,
}
