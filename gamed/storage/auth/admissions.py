"""Who is given what at the first proven collect, by what the browser proved (PROTOCOL 3.5, 3.8).

Each function writes what lasts, or returns the outcome that says why not.
"""

from sqlite3 import Connection

from gamed.crypto import Index, Keys
from gamed.login import delivery
from gamed.login.identified import ExistingAccount, Identified, NewAccount, ProviderIdentity
from gamed.login.logins import Claim
from gamed.login.outcome import Outcome
from gamed.login.result import Result
from gamed.login.transaction import LoginTransaction
from gamed.players.names import name_index
from gamed.storage.auth import accounts, identities, players, sessions

MADE = (None, Outcome.PLAYER_PENDING)
"""A newcomer who waits for the owner is somebody already."""


def known_account(
    connection: Connection, account: ExistingAccount, login: LoginTransaction, claim: Claim
) -> Result | Outcome:
    admitted = _with_password(connection, account.player_id, login, claim)
    if isinstance(admitted, Result):
        accounts.account_used(connection, account.player_id, claim.now_ms)
    return admitted


def new_account(connection: Connection, keys: Keys, account: NewAccount, claim: Claim) -> Result | Outcome:
    taken = accounts.find(connection, name_index(keys.indexer, account.name)) is not None
    refusal = delivery.refusal_of_newcomer(taken, claim.registration)
    if refusal in MADE:
        player_id = _create(connection, claim, refusal)
        accounts.create_account(
            connection,
            keys,
            player_id=player_id,
            name=account.name,
            password=account.password_hash,
            now_ms=claim.now_ms,
        )
    return refusal or _newcomer(claim)


def identity(
    connection: Connection, proved: ProviderIdentity, login: LoginTransaction, claim: Claim
) -> Result | Outcome:
    """The player whose it is, or else a new one; two first sign-ins of one identity make one player."""
    index = Index(proved.index)
    player_id = identities.owner(connection, index)
    if player_id is None:
        refusal = delivery.refusal_of_newcomer(False, claim.registration)
        if refusal in MADE:
            _link(connection, proved, login, _create(connection, claim, refusal), claim)
        return refusal or _newcomer(claim)
    admitted = _known(connection, player_id, claim)
    if isinstance(admitted, Result):
        identities.used(connection, index, claim.now_ms)
    return admitted


def adopted(
    connection: Connection, proved: ProviderIdentity, login: LoginTransaction, claim: Claim
) -> Result | Outcome:
    """The player whose name and password were typed gets this identity, and is signed in."""
    admitted = _with_password(connection, proved.player_id or "", login, claim)
    if isinstance(admitted, Outcome):
        return admitted
    refusal = _link(connection, proved, login, admitted.player_id, claim)
    if refusal is None:
        accounts.account_used(connection, admitted.player_id, claim.now_ms)
    return refusal or admitted


def linked(connection: Connection, proved: ProviderIdentity, login: LoginTransaction, claim: Claim) -> Outcome | None:
    """The player who asked gets this identity, if the session that asked still lives; None: done."""
    player_id = sessions.living_player(connection, login.requesting_session_id or "", claim.now_ms)
    if player_id is None:
        return Outcome.SESSION_REVOKED
    admitted = _known(connection, player_id, claim)
    return admitted if isinstance(admitted, Outcome) else _link(connection, proved, login, player_id, claim)


def whose(connection: Connection, keys: Keys, proved: Identified) -> str | None:
    """The player whom what was proved belongs to by now."""
    match proved:
        case ExistingAccount(player_id):
            return player_id
        case NewAccount(name):
            account = accounts.find(connection, name_index(keys.indexer, name))
            return None if account is None else account.player_id
        case ProviderIdentity(index):
            return identities.owner(connection, Index(index))


def _link(
    connection: Connection, proved: ProviderIdentity, login: LoginTransaction, player_id: str, claim: Claim
) -> Outcome | None:
    index = Index(proved.index)
    taken = identities.owner(connection, index) is not None
    refusal = delivery.refusal_of_link(taken, identities.has_one(connection, player_id, login.provider))
    if refusal is None:
        identities.insert(
            connection,
            index=index,
            realm=Index(proved.realm),
            player_id=player_id,
            provider=login.provider,
            now_ms=claim.now_ms,
        )
    return refusal


def _with_password(connection: Connection, player_id: str, login: LoginTransaction, claim: Claim) -> Result | Outcome:
    """Whose password was typed for this login, unless it is not theirs any more."""
    if accounts.password_changed(connection, player_id, login.created_ms, claim.now_ms):
        return Outcome.SESSION_REVOKED
    return _known(connection, player_id, claim)


def _known(connection: Connection, player_id: str, claim: Claim) -> Result | Outcome:
    player = players.find_player(connection, player_id)
    refusal = delivery.refusal_of_player(None if player is None else player.state)
    return refusal or Result(claim.fresh.pair, player_id, created=False, owner=player is not None and player.owner)


def _create(connection: Connection, claim: Claim, refusal: Outcome | None) -> str:
    state: players.State = "active" if refusal is None else "pending"
    players.create_player(connection, claim.fresh.player_id, claim.now_ms, state)
    return claim.fresh.player_id


def _newcomer(claim: Claim) -> Result:
    return Result(claim.fresh.pair, claim.fresh.player_id, created=True, owner=False)
