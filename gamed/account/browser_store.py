"""The store of the player's own page runs each operation as one transaction of auth.db.

A sign-in ends as a game's first collect does: the same rules admit the player. Instead of a game's credentials it opens
a browser session, of which auth.db has only an index of the cookie.
"""

from collections.abc import Sequence
from functools import partial

from msgspec import Struct
from msgspec.structs import replace
from twisted.internet.defer import Deferred

from gamed.account.link_model import Invite
from gamed.account.link_tables import find_invite_by_id
from gamed.account.links_store import admit_by_invite
from gamed.account.store import replace_password
from gamed.audit import RecordedEvent, SecurityEvent
from gamed.config.model import Registration
from gamed.crypto import DecryptionFailed, Index, Keys, Purpose, Secret
from gamed.database.connection import Connection
from gamed.database.queues import ReadQueue, WriteQueue
from gamed.database.security_events import list_activity
from gamed.login import collect_store
from gamed.login import tables as login_tables
from gamed.login.collect_rules import CollectCommand, CollectOutcome
from gamed.login.keys import Identified, ProviderIdentity, RecoveryAccount, decode_identity
from gamed.login.transaction import LoginEvent, LoginIntent, LoginStage, LoginTransaction, Transition
from gamed.outcomes import LoginFailure
from gamed.passkeys import ways_tables
from gamed.players import tables
from gamed.players.names import LOCAL
from gamed.players.owner_tables import is_trusted_way, read_switch
from gamed.sessions import browser_tables
from gamed.sessions import tables as session_tables
from gamed.sessions.browser_rules import BrowserInfo, NewBrowserSession
from gamed.sessions.credentials import AuthenticatedSession
from gamed.structs import Component, redacts


@redacts("browser", "ended")
class FinishCommand(Struct, frozen=True):
    """The end of a sign-in for the page, in the browser that began it.

    `ended` is the token that this browser had before, if any: its session ends.
    """

    collect: CollectCommand
    browser: Index
    new_browser: NewBrowserSession
    ended: Secret | None


@redacts("token", "password", "password_tag")
class PasswordCommand(Struct, frozen=True):
    """A new password of a signed-in player; `password` is argon2id as a PHC string.

    `checked_ms` is when the check of the old password began, whose tag is `password_tag`.
    """

    token: Secret
    password: str
    new_browser: NewBrowserSession
    checked_ms: int
    now_ms: int
    password_tag: bytes


class BrowserState(Struct, frozen=True):
    """The session of a browser, and whether its last use should be written."""

    caller: AuthenticatedSession
    needs_touch: bool


class PlayerNames(Struct, frozen=True):
    """The name of a player's local account, and the one that games show, None without one; when the player began."""

    account: str | None
    display: str | None
    created_ms: int = 0


_EVENTS = frozenset(event.value for event in SecurityEvent)


class AccountPageStore(Component, frozen=True, kw_only=True):
    """The data of the page in auth.db; each method may raise DatabaseError, those with a token SessionError."""

    reads: ReadQueue
    writes: WriteQueue
    keys: Keys

    def authenticate(self, token: Secret, now_ms: int) -> Deferred[BrowserState]:
        def transaction(connection: Connection) -> BrowserState:
            indexer = self.keys.indexer
            caller = browser_tables.authenticate_browser(connection, indexer, token, now_ms)
            return BrowserState(caller, browser_tables.needs_touch(connection, indexer, token, now_ms))

        return self.reads.submit(transaction)

    def touch(self, token: Secret, player_id: str, now_ms: int) -> Deferred[None]:
        """Record a request of this player's browser."""
        touch = partial(browser_tables.touch_browser, indexer=self.keys.indexer, token=token, now_ms=now_ms)
        return self.writes.submit(touch, keys=(player_id,))

    def finish(self, command: FinishCommand) -> Deferred[CollectOutcome | None]:
        """End a sign-in, and open a browser session unless it only links; return None for an unknown login."""
        return self.writes.submit(partial(finish_sign_in, keys=self.keys, command=command))

    def sign_out(self, token: Secret, player_id: str) -> Deferred[str | None]:
        """End a browser session of this player; return the player, or None if it has ended before."""
        end = partial(browser_tables.end_browser, indexer=self.keys.indexer, token=token)
        return self.writes.submit(end, keys=(player_id,))

    def browsers(self, player_id: str, now_ms: int) -> Deferred[list[BrowserInfo]]:
        """Return the player's browser sessions that have not expired."""
        return self.reads.submit(partial(browser_tables.list_browsers, player_id=player_id, now_ms=now_ms))

    def end_browser(self, player_id: str, session_id: str) -> Deferred[bool]:
        """End a browser session of this player; return False if there is none with this id."""
        end = partial(browser_tables.end_own_browser, player_id=player_id, session_id=session_id)
        return self.writes.submit(end, keys=(player_id,))

    async def names(self, player_id: str) -> PlayerNames:
        named = await self.reads.submit(partial(tables.find_named, keys=self.keys, name_or_id=player_id))
        return PlayerNames(named.name, named.display_name, named.player.created_ms)

    async def owner_page_is_on(self) -> bool:
        return await self.reads.submit(read_switch) is not None

    def any_unlinked(self) -> Deferred[bool]:
        """Return whether some local account is the only way of its player to sign in."""
        return self.reads.submit(tables.any_unlinked)

    async def activity(self, player_id: str, rows: int) -> list[RecordedEvent]:
        """Return the player's latest security events."""
        found = await self.reads.submit(partial(list_activity, player_id=player_id, rows=rows))
        # A later version that shares the database, or was here before, has names that this one does not know.
        known = [each for each in found if each.key.event in _EVENTS]
        return [RecordedEvent(SecurityEvent(each.key.event), each.values, each.last_ms, each.times) for each in known]

    def change_password(self, command: PasswordCommand, player_id: str) -> Deferred[str | None]:
        """Set this player's password, end all sessions, and open a new one for this browser; return the player.

        Return None, and change nothing, if the password was changed since the old one was checked.
        """
        change = partial(change_password, keys=self.keys, command=command)
        return self.writes.submit(change, keys=(player_id, session_tables.LOGINS))


def finish_sign_in(connection: Connection, keys: Keys, command: FinishCommand) -> CollectOutcome | None:
    """Read, decide, write; a login that is not `ready`, or of another browser, is returned as it is."""
    before = login_tables.find_login(connection, command.collect.key)
    if before is None or before.intent is not LoginIntent.ACCOUNT:
        return None
    outcome = _finish(connection, keys, command, before.at_time(command.collect.now_ms))
    outcome = replace(outcome, transition=Transition(before, outcome.transition.after))
    login_tables.save_login(connection, outcome.transition)
    return outcome


def _finish(connection: Connection, keys: Keys, command: FinishCommand, login: LoginTransaction) -> CollectOutcome:
    now_ms = command.collect.now_ms
    if login.stage is not LoginStage.READY or not login.belongs_to(command.browser):
        return CollectOutcome(Transition(login, login))
    try:
        raw = keys.sealer.unseal(Purpose.IDENTIFIED, login.login_id, login.sealed_identity or b"")
    except DecryptionFailed as e:
        failed = login.failed(LoginFailure.LOGIN_INTERRUPTED, now_ms)
        return CollectOutcome(Transition(login, failed), undecryptable=e.details)
    proved = decode_identity(raw)
    invite = _invite(connection, keys, login, proved, now_ms)
    collect = command.collect if invite is None else replace(command.collect, registration=Registration.OPEN)
    admitted = collect_store.admit(connection, keys, collect, login, proved)
    player_id = collect_store.player_of(connection, keys, proved)
    if isinstance(admitted, LoginFailure):
        failed = collect_store.refused(connection, login, admitted, player_id, now_ms)
        by_code = isinstance(proved, RecoveryAccount)
        return CollectOutcome(Transition(login, failed), player_id=player_id, by_code=by_code)
    ended: Sequence[str] = ()
    if admitted is not None:
        if invite is not None:
            admit_by_invite(connection, keys, invite, admitted.player_id, now_ms)
        if command.ended is not None:
            browser_tables.end_browser(connection, keys.indexer, command.ended)
        passkey_id = collect_store.passkey_of(proved)
        ended = browser_tables.open_browser(
            connection,
            keys.indexer,
            command.new_browser,
            player_id=admitted.player_id,
            provider=collect_store.way_of(proved, login),
            now_ms=now_ms,
            verified=_is_verified(connection, proved, login, admitted.player_id),
            passkey_id=passkey_id or None,
        )
        tables.record_sign_in(connection, admitted.player_id, now_ms)
    done = login.linked(now_ms).apply(LoginEvent.ACKNOWLEDGE, now_ms)
    used = None if invite is None else invite.invite_id
    passkey_id, left = collect_store.passkey_of(proved), collect_store.codes_left(connection, proved, admitted)
    transition = Transition(login, done)
    return CollectOutcome(
        transition, player_id=player_id, invite_id=used, ended=ended, passkey_id=passkey_id, codes_left=left
    )


def _is_verified(connection: Connection, proved: Identified, login: LoginTransaction, player_id: str) -> bool:
    """Return whether the sign-in proves who is there.

    A passkey made since the owner's page was opened does not, and no recovery code does: it may lie on paper.
    """
    if isinstance(proved, RecoveryAccount):
        return False
    passkey_id = collect_store.passkey_of(proved)
    if passkey_id:
        switch, made_ms = read_switch(connection), ways_tables.created_ms(connection, passkey_id, player_id)
        return switch is None or (made_ms is not None and made_ms <= switch.on_ms)
    asked_again = proved.asked_again if isinstance(proved, ProviderIdentity) else True
    return asked_again and is_trusted_way(connection, player_id, login.provider)


def _invite(
    connection: Connection, keys: Keys, login: LoginTransaction, proved: Identified, now_ms: int
) -> Invite | None:
    """Return the open invite of the login, or None; a person who is a player already does not use it."""
    if login.invite_id is None or collect_store.player_of(connection, keys, proved) is not None:
        return None
    invite = find_invite_by_id(connection, keys, login.invite_id)
    return invite if invite is not None and invite.is_open(now_ms) else None


def change_password(connection: Connection, keys: Keys, command: PasswordCommand) -> str | None:
    """Set a password as `players password` does; AccountPageStore.change_password() describes the rest."""
    now_ms = command.now_ms
    caller = browser_tables.authenticate_browser(connection, keys.indexer, command.token, now_ms)
    player_id = caller.player_id
    if tables.password_changed(connection, player_id, command.checked_ms, now_ms, command.password_tag):
        return None
    replace_password(connection, player_id, command.password, now_ms)
    player = {"player_id": player_id, "provider": LOCAL}
    # The old password proves no more than a sign-in with it would.
    verified = is_trusted_way(connection, player_id, LOCAL)
    browser_tables.open_browser(
        connection, keys.indexer, command.new_browser, **player, now_ms=now_ms, verified=verified
    )
    return player_id
