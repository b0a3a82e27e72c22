"""An invite makes a player, and a reset link sets a password, each in one transaction of auth.db.

The invite of a person who signs in at a provider is used by gamed.account.browser_store, which ends that sign-in.
"""

from functools import partial

from msgspec import Struct
from twisted.internet.defer import Deferred

from gamed.account import link_tables
from gamed.account.link_model import Invite
from gamed.account.store import replace_password
from gamed.crypto import Keys, Secret
from gamed.database.connection import Connection
from gamed.database.queues import ReadQueue, WriteQueue
from gamed.players import tables
from gamed.players.errors import LinkEnded, LinkUnknown, PlayerMayNotSignIn
from gamed.players.model import NamedPlayer
from gamed.players.names import LOCAL
from gamed.sessions import browser_tables
from gamed.sessions.browser_rules import NewBrowserSession
from gamed.sessions.errors import SessionError
from gamed.structs import Component, redacts


@redacts("token", "password", "ended")
class InvitedAccount(Struct, frozen=True):
    """A local account that an invite makes; `password` is argon2id as a PHC string.

    `ended` is the token that this browser had before, if any: its session ends.
    """

    token: str
    player_id: str
    name: str
    password: str
    browser: NewBrowserSession
    ended: Secret | None = None


@redacts("token", "password")
class PasswordReset(Struct, frozen=True):
    """A new password for the account of a reset link; `password` is argon2id as a PHC string."""

    token: str
    password: str


class LinkStore(Component, frozen=True, kw_only=True):
    """The links in auth.db; each call is one transaction, and raises LinkUnknown or LinkEnded for a link in vain."""

    reads: ReadQueue
    writes: WriteQueue
    keys: Keys

    def open_invite(self, token: str, now_ms: int) -> Deferred[Invite]:
        """Return the invite of a token, without using it."""
        return self.reads.submit(partial(open_invite, keys=self.keys, token=token, now_ms=now_ms))

    def is_own_invite(self, token: str, browser: Secret, now_ms: int) -> Deferred[bool]:
        """Return whether the invite made the player of this browser's session."""
        own = partial(is_own_invite, keys=self.keys, token=token, browser=browser, now_ms=now_ms)
        return self.reads.submit(own)

    def create_account(self, account: InvitedAccount, now_ms: int) -> Deferred[Invite]:
        """Use the invite, create the active player with the account, and sign the browser in; raise NameTaken."""
        return self.writes.submit(partial(create_invited_account, keys=self.keys, account=account, now_ms=now_ms))

    def open_reset_link(self, token: str, now_ms: int) -> Deferred[NamedPlayer]:
        """Return the player of a token, who has a local account, without using it; raise PlayerMayNotSignIn."""
        return self.reads.submit(partial(account_of_reset_link, keys=self.keys, token=token, now_ms=now_ms))

    def reset_password(self, reset: PasswordReset, now_ms: int) -> Deferred[str]:
        """Use the link, set the password, and end all sessions; return the player. Raise PlayerMayNotSignIn."""
        return self.writes.submit(partial(reset_password, keys=self.keys, reset=reset, now_ms=now_ms))


def open_invite(connection: Connection, keys: Keys, token: str, now_ms: int) -> Invite:
    invite = link_tables.find_invite(connection, keys, token)
    if invite is None:
        raise LinkUnknown
    if not invite.is_open(now_ms):
        raise LinkEnded
    return invite


def is_own_invite(connection: Connection, keys: Keys, token: str, browser: Secret, now_ms: int) -> bool:
    invite = link_tables.find_invite(connection, keys, token)
    try:
        caller = browser_tables.authenticate_browser(connection, keys.indexer, browser, now_ms)
    except SessionError:
        return False
    player = tables.find_player(connection, caller.player_id)
    # No row names the player of an invite; but one transaction ends the invite and creates the player, at one instant.
    return invite is not None and player is not None and invite.ended_ms == player.created_ms


def create_invited_account(connection: Connection, keys: Keys, account: InvitedAccount, now_ms: int) -> Invite:
    invite, player_id = open_invite(connection, keys, account.token, now_ms), account.player_id
    tables.add_local_player(
        connection, keys, player_id=player_id, name=account.name, password=account.password, now_ms=now_ms
    )
    admit_by_invite(connection, keys, invite, player_id, now_ms)
    if account.ended is not None:
        browser_tables.end_browser(connection, keys.indexer, account.ended)
    browser_tables.open_browser(
        connection, keys.indexer, account.browser, player_id=player_id, provider=LOCAL, now_ms=now_ms, verified=True
    )
    tables.record_sign_in(connection, player_id, now_ms)
    return invite


def admit_by_invite(connection: Connection, keys: Keys, invite: Invite, player_id: str, now_ms: int) -> None:
    """Use an invite for a player who was just created, and who gets the name that the owner suggests."""
    if not link_tables.end_invite(connection, invite.invite_id, now_ms):
        raise LinkEnded
    if invite.name is not None:
        tables.set_display_name(connection, keys.sealer, player_id, invite.name)


def account_of_reset_link(connection: Connection, keys: Keys, token: str, now_ms: int) -> NamedPlayer:
    link = link_tables.find_reset_link(connection, keys.indexer, token)
    if link is None:
        raise LinkUnknown
    if link.state in ("blocked", "erasing"):
        raise PlayerMayNotSignIn
    named = tables.find_named(connection, keys, link.player_id)
    if named.name is None or not link.is_open(now_ms):  # the account may have been unlinked meanwhile
        raise LinkEnded
    return named


def reset_password(connection: Connection, keys: Keys, reset: PasswordReset, now_ms: int) -> str:
    player_id = account_of_reset_link(connection, keys, reset.token, now_ms).player.player_id
    replace_password(connection, player_id, reset.password, now_ms)
    return player_id
