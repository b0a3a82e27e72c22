"""The acts of the owner's page in auth.db: each is one transaction that checks, writes and records the event.

The functions that decide and write are those of the commands. A transaction begins with require_owner(), so an act
never follows `gamed owner reset`, `gamed owner page off` or the end of its session. All are submitted without keys:
each is alone, so of two tabs one wins, and the other reads what is there by then.
"""

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from msgspec import Struct
from twisted.internet.defer import Deferred

from gamed.account import link_tables
from gamed.account import store as player_store
from gamed.account.link_model import NewLink
from gamed.crypto import Keys
from gamed.database.connection import Connection, is_storable
from gamed.database.queues import ReadQueue, WriteQueue
from gamed.database.security_events import add_command
from gamed.owner.model import (
    BY,
    MOST_INVITES,
    DeviceGone,
    InviteGone,
    NoAccount,
    NotConfirmed,
    NotTheOwner,
    OwnerProtected,
    PersonGone,
    TextUnusable,
    TooManyInvites,
)
from gamed.players import owner_tables, tables
from gamed.players.errors import PlayerUnknown
from gamed.players.model import CodeCheck, NamedPlayer, State
from gamed.sessions import tables as session_tables
from gamed.sessions.browser_rules import is_browser_session
from gamed.sessions.browser_tables import end_own_browser, player_of_browser
from gamed.sessions.credentials import AuthenticatedSession
from gamed.sessions.errors import TokenInvalid
from gamed.structs import Component, redacts

T = TypeVar("T")


@redacts("code")
class Act(Struct, frozen=True):
    """An act: who acts and when, the command that does the same on the host, and the player whom it is about.

    `code` is the confirmation code that was typed, None where the sign-in itself is enough.
    """

    caller: AuthenticatedSession
    command: str
    now_ms: int
    player_id: str = ""
    code: str | None = None

    @property
    def by(self) -> str:
        """Return who acted, as an event has it."""
        return f"{BY}{self.caller.player_id}"


class ActStore(Component, frozen=True, kw_only=True):
    """The transactions.

    Each method may raise DatabaseError, NotTheOwner, TokenInvalid, OwnerProtected or PersonGone.
    """

    reads: ReadQueue
    writes: WriteQueue
    keys: Keys

    def change(self, act: Act, before: State, after: State | None) -> Deferred[str]:
        """Change a player's state, as `players approve`, `reject`, `block` and `unblock`; raise PlayerChanged."""

        def work(connection: Connection) -> str:
            return tables.moderate(connection, act.player_id, before, after)

        return self._about(act, work)

    def set_note(self, act: Act, note: str) -> Deferred[None]:
        if not is_storable(note):
            raise TextUnusable
        return self._about(act, partial(tables.set_note, sealer=self.keys.sealer, player_id=act.player_id, note=note))

    def sign_out(self, act: Act) -> Deferred[int]:
        """End all sessions of a player, those of browsers too; return how many there were."""
        return self._about(act, partial(session_tables.revoke_all, player_id=act.player_id, now_ms=act.now_ms))

    def end_device(self, act: Act, session_id: str) -> Deferred[None]:
        """End one session of a player; raise DeviceGone."""

        def work(connection: Connection) -> None:
            if not is_storable(session_id):
                raise DeviceGone
            if is_browser_session(session_id):
                ended: bool | None = end_own_browser(connection, act.player_id, session_id)
            else:
                ended = session_tables.revoke_own(connection, act.player_id, session_id, act.now_ms)
            if not ended:
                raise DeviceGone

        return self._about(act, work)

    def add_reset_link(self, act: Act, link: NewLink) -> Deferred[NamedPlayer | CodeCheck]:
        """Store a reset link, which ends the earlier ones; raise NoAccount. With a CodeCheck nothing was changed."""

        def work(connection: Connection) -> NamedPlayer:
            named = tables.find_named(connection, self.keys, act.player_id)
            if named.name is None or named.player.state == "blocked":
                raise NoAccount
            link_tables.insert_reset_link(connection, self.keys.indexer, act.player_id, link)
            return named

        return self._confirmed(act, work, act.player_id)

    def mark_erased(self, act: Act) -> Deferred[bool | CodeCheck]:
        """Mark a player, whom the caller then erases. With a CodeCheck nothing was changed."""
        return self._confirmed(
            act, partial(player_store.mark_removed, player_id=act.player_id, now_ms=act.now_ms), act.player_id
        )

    def begin_merge(self, act: Act, heir_id: str) -> Deferred[CodeCheck | None]:
        """Move a player's sign-in methods to the heir, and mark the player, whose saves the caller then moves.

        Raise MergeRefused or PersonGone. With a CodeCheck nothing was changed.
        """

        def work(connection: Connection) -> None:
            heir = self._target(connection, heir_id, act.command)
            player_store.require_mergeable(act.player_id, heir.player)
            player_store.merge_players(connection, self.keys, act.player_id, heir_id, act.now_ms)

        return self._confirmed(act, work, heir_id)

    def add_invite(self, act: Act, invite_id: str, link: NewLink, name: str | None) -> Deferred[None]:
        """Store an invite; raise TooManyInvites."""

        def work(connection: Connection) -> None:
            if link_tables.count_open_invites(connection, act.now_ms) >= MOST_INVITES:
                raise TooManyInvites
            link_tables.insert_invite(connection, self.keys, invite_id, link, name)

        return self._act(act, work)

    def end_invite(self, act: Act, invite_id: str) -> Deferred[None]:
        """Revoke an invite; raise InviteGone."""

        def work(connection: Connection) -> None:
            if not is_storable(invite_id) or not link_tables.end_invite(connection, invite_id, act.now_ms):
                raise InviteGone

        return self._act(act, work)

    def record(self, act: Act) -> Deferred[None]:
        """Record an act on what is not in auth.db: saves, game files, backups."""
        return self._act(act, lambda connection: None)

    def check(self, act: Act) -> Deferred[None]:
        """Raise NotTheOwner or TokenInvalid unless the caller may act; before work that is not in auth.db."""
        return self.reads.submit(partial(require_owner, act=act))

    def check_target(self, act: Act) -> Deferred[None]:
        """Raise what an act on a player would, if it is not in auth.db; a player whom auth.db does not know is none."""

        def work(connection: Connection) -> None:
            require_owner(connection, act)
            if not is_storable(act.player_id):
                raise PersonGone
            player = tables.find_player(connection, act.player_id)
            if player is not None and player.state == "erasing":
                raise PersonGone
            if player is not None and player.owner:
                raise OwnerProtected(act.command)

        return self.reads.submit(work)

    def _act(self, act: Act, work: Callable[[Connection], T]) -> Deferred[T]:
        def transaction(connection: Connection) -> T:
            require_owner(connection, act)
            done = work(connection)
            record_act(connection, act, act.player_id or None)
            return done

        return self.writes.submit(transaction)

    def _about(self, act: Act, work: Callable[[Connection], T]) -> Deferred[T]:
        """Act on a player who is not the owner."""

        def transaction(connection: Connection) -> T:
            require_owner(connection, act)
            self._target(connection, act.player_id, act.command)
            # First: `players reject` deletes the row, and merging names another player.
            record_act(connection, act, act.player_id)
            return work(connection)

        return self.writes.submit(transaction)

    def _confirmed(self, act: Act, work: Callable[[Connection], T], about: str) -> Deferred[T | CodeCheck]:
        """Act on a player if the typed code is right, and record the act about a player who stays.

        Return what is wrong with the code, if anything: a value, because the attempt is counted.
        """

        def transaction(connection: Connection) -> T | CodeCheck:
            require_owner(connection, act)
            self._target(connection, act.player_id, act.command)
            if not is_storable(about):
                raise PersonGone
            if act.code is not None:
                check = owner_tables.use_code(connection, self.keys.indexer, act.code, act.now_ms)
                if check is not CodeCheck.RIGHT:
                    return check
            record_act(connection, act, about)
            return work(connection)

        return self.writes.submit(transaction)

    def _target(self, connection: Connection, player_id: str, command: str) -> NamedPlayer:
        """Return a player on whom the page may act; raise PersonGone or OwnerProtected."""
        try:
            if not is_storable(player_id) or not player_id.startswith("ply_"):
                raise PersonGone
            named = tables.find_named(connection, self.keys, player_id)
        except PlayerUnknown:
            raise PersonGone from None
        # find_named() also finds by name: a name may look like the id of a player who is gone.
        if named.player.player_id != player_id or named.player.state == "erasing":
            raise PersonGone
        if named.player.owner:
            raise OwnerProtected(command)
        return named


def require_owner(connection: Connection, act: Act) -> None:
    """Raise NotTheOwner unless the page is on and the caller is the owner now, TokenInvalid if the session has ended.

    The form was accepted a moment before, or longer: a transaction may wait for another process.
    """
    caller = act.caller
    player = tables.find_player(connection, caller.player_id)
    may_act = player is not None and player.owner and player.state == "active"
    if not may_act or owner_tables.read_switch(connection) is None:
        raise NotTheOwner
    if player_of_browser(connection, caller.session_id, act.now_ms) != caller.player_id:
        raise TokenInvalid


def record_act(connection: Connection, act: Act, player_id: str | None) -> None:
    add_command(connection, act.command, player_id, act.by, act.now_ms)


def confirmed(result: T | CodeCheck) -> T:
    """Return the result of an act; raise NotConfirmed if its code was not right."""
    if isinstance(result, CodeCheck):
        raise NotConfirmed(result)
    return result
