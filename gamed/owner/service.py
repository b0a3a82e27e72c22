"""The acts of the owner's page: what each does beside its transaction in auth.db.

Every act is an event with `by=owner:ply_...`, under the name of the command that does the same on the host.
"""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from gamed.account.link_model import NewLink, new_invite_id
from gamed.account.service import Removal, RemovalService
from gamed.audit import AuditLog, SecurityEvent
from gamed.crypto import Random
from gamed.database.errors import DatabaseError
from gamed.owner.acts import Act, ActStore, confirmed
from gamed.owner.model import NOTE_CHARACTERS, NotTheOwner, TextUnusable
from gamed.players.errors import DisplayNameInvalid, PlayerChanged
from gamed.players.model import State
from gamed.players.names import parse_display_name
from gamed.saves.model import Version
from gamed.saves.owner_page_store import OperatorSaves
from gamed.sessions.credentials import AuthenticatedSession
from gamed.sessions.errors import SessionError
from gamed.sessions.service import RevocationListener
from gamed.structs import Component
from gamed.timestamps import Now

T = TypeVar("T")
CHANGES: dict[str, tuple[str, State | None]] = {
    "approve": ("players approve", "active"),
    "reject": ("players reject", None),
    "block": ("players block", "blocked"),
    "unblock": ("players unblock", "active"),
}
"""By the name of an act that changes a player's state: the command, and the state afterwards, None for none."""
MOST_DAYS = 90
RESET_SECONDS = 24 * 3600


class OwnerService(Component, frozen=True, kw_only=True):
    """The acts; each may raise what ActStore's methods do, and must not be cancelled."""

    store: ActStore
    saves: OperatorSaves
    removals: RemovalService
    revoked: RevocationListener
    audit: AuditLog
    now_ms: Now
    random: Random

    async def change(self, caller: AuthenticatedSession, name: str, player_id: str, before: str) -> str:
        """Approve, reject, block or unblock a player whom the page showed in the state `before`.

        Return the new state; raise PlayerChanged.
        """
        command, after = CHANGES[name]
        states: dict[str, State] = {"pending": "pending", "active": "active", "blocked": "blocked"}
        wanted = states.get(before)
        if wanted is None or (name in ("approve", "reject") and wanted != "pending"):
            raise PlayerChanged(before[:16])
        if (name == "unblock") != (wanted == "blocked"):
            raise PlayerChanged(wanted)
        state = await self.store.change(self._act(caller, command, player_id), wanted, after)
        self.revoked(player_id)
        return state

    async def set_note(self, caller: AuthenticatedSession, player_id: str, note: str) -> None:
        """Store a note, "" for none; raise TextUnusable."""
        text = note.replace("\r\n", "\n").strip()
        if len(text) > NOTE_CHARACTERS:
            raise TextUnusable
        await self.store.set_note(self._act(caller, "players note", player_id), text)

    async def sign_out(self, caller: AuthenticatedSession, player_id: str) -> None:
        await self.store.sign_out(self._act(caller, "sessions revoke", player_id))
        self.revoked(player_id)

    async def end_device(self, caller: AuthenticatedSession, player_id: str, session_id: str) -> None:
        """End one session of a player; raise DeviceGone."""
        await self.store.end_device(self._act(caller, "sessions revoke", player_id), session_id)
        self.revoked(player_id)

    async def add_reset_link(
        self, caller: AuthenticatedSession, player_id: str, code: str | None
    ) -> tuple[NewLink, str]:
        """Make a reset link; return it with the name of the account. Raise NoAccount or NotConfirmed."""
        link = NewLink.generate(self.random, self.now_ms(), RESET_SECONDS)
        act = self._act(caller, "players reset-link", player_id, code)
        named = confirmed(await self.store.add_reset_link(act, link))
        return link, named.name or ""

    async def erase(self, caller: AuthenticatedSession, player_id: str, code: str | None) -> None:
        """Erase a player with all saves; raise NotConfirmed, which changes nothing.

        Once marked, the player is erased in any case, if necessary after a restart.
        """
        act = self._act(caller, "players erase", player_id, code)
        await self.store.check(act)
        await self.removals.saves.check_writable()
        confirmed(await self.store.mark_erased(act))
        self.audit.record(SecurityEvent.ERASE_STARTED, player=player_id)
        await self._finish(Removal(player_id))

    async def merge(self, caller: AuthenticatedSession, player_id: str, heir_id: str, code: str | None) -> None:
        """Give all that a player has to another, and delete the player; raise NotConfirmed or MergeRefused."""
        act = self._act(caller, "players merge", player_id, code)
        await self.store.check(act)
        await self.removals.saves.check_writable()
        confirmed(await self.store.begin_merge(act, heir_id))
        await self._finish(Removal(player_id, heir_id))

    async def _finish(self, removal: Removal) -> None:
        try:
            await self.removals.finish_marked(removal)
        finally:  # after an error, too, the sessions of the one have ended, and the other may have new saves
            self.revoked(removal.player_id)
            if removal.heir_id is not None:
                self.revoked(removal.heir_id)

    async def add_invite(self, caller: AuthenticatedSession, name: str, days: str) -> NewLink:
        """Make an invite; raise TextUnusable for a name or a number of days that cannot be, or TooManyInvites."""
        if not (days.isascii() and days.isdigit() and len(days) <= 3 and 1 <= int(days) <= MOST_DAYS):
            raise TextUnusable("days")
        try:
            suggested = parse_display_name(name) if name.strip(" ") else None
        except DisplayNameInvalid:
            raise TextUnusable("name") from None
        link = NewLink.generate(self.random, self.now_ms(), int(days) * 24 * 3600)
        invite_id = new_invite_id(self.random)
        await self.store.add_invite(self._act(caller, "players invite"), invite_id, link, suggested)
        return link

    async def end_invite(self, caller: AuthenticatedSession, invite_id: str) -> None:
        """Revoke an invite; raise InviteGone."""
        await self.store.end_invite(self._act(caller, "players revoke-invite"), invite_id)

    async def restore(self, caller: AuthenticatedSession, player_id: str, slot: str, number: int) -> Version:
        """Make an old version of a player's save current, as `saves restore`; raise SaveError."""
        act = self._act(caller, "saves restore", player_id)
        await self.store.check_target(act)
        return await self._restore(act, slot, number)

    async def undelete(self, caller: AuthenticatedSession, player_id: str, slot: str) -> Version:
        """Bring a deleted save of a player back, as `saves undelete`; raise SaveError."""
        act = self._act(caller, "saves undelete", player_id)
        await self.store.check_target(act)
        return await self._restore(act, slot, await self.saves.find_deleted(player_id, slot))

    async def record(
        self, caller: AuthenticatedSession, command: str, work: Callable[[], Awaitable[T]], *, always: bool = True
    ) -> T:
        """Do work that is not in auth.db, and record it; the caller's right is checked before.

        Without `always` nothing is recorded for a result that is false.
        """
        act = self._act(caller, command)
        await self.store.check(act)
        done = await work()
        if always or done:
            await self._record(act)
        return done

    async def _record(self, act: Act) -> None:
        """Record an act that has happened; where auth.db does not take it, the log of the server alone has it."""
        try:
            await self.store.record(act)
        except (NotTheOwner, SessionError, DatabaseError):  # an error would tell the owner that nothing was changed
            self.audit.record(SecurityEvent.COMMAND, command=act.command, player=act.player_id, by=act.by)

    async def _restore(self, act: Act, slot: str, number: int) -> Version:
        """Check the bytes, then make the version current, then record it: no transaction writes both databases.

        The bytes of a large save take seconds, so the right to act is checked again after them.
        """
        await self.saves.check_restorable(act.player_id, slot, number)
        await self.store.check_target(act)
        current = await self.saves.restore(act.player_id, slot, number, act.now_ms)
        self.revoked(act.player_id)
        await self._record(act)
        return current

    def _act(self, caller: AuthenticatedSession, command: str, player_id: str = "", code: str | None = None) -> Act:
        return Act(caller, command, self.now_ms(), player_id, code)
