"""The first proven collect writes player, account, session and credentials in one transaction.

Each `admit` function writes what a sign-in changes for its player, or returns the outcome that says why it may not.

Nothing lasting is written before: a browser that signed in and a game that never collects leave no player, no account
and no session. So all that may have changed since the browser signed in is read here once more: the player's state,
their password, to whom an identity belongs.

See docs/protocol.md: Collect, Accounts.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from gamed.crypto import DecryptionFailed, Index, Keys, Purpose
from gamed.database import rate_limits
from gamed.database.connection import Connection
from gamed.login import collect_rules, tables
from gamed.login.collect_rules import CollectCommand, CollectOutcome, CollectResult
from gamed.login.errors import TooManyLogins
from gamed.login.keys import (
    ExistingAccount,
    Identified,
    NewAccount,
    PasskeyAccount,
    ProviderIdentity,
    RecoveryAccount,
    ReturnProof,
    approval_codes,
    decode_identity,
)
from gamed.login.transaction import LoginIntent, LoginStage, LoginTransaction, Transition
from gamed.outcomes import LoginFailure
from gamed.passkeys import ways_tables
from gamed.players import tables as player_tables
from gamed.players.names import name_index
from gamed.rate_limit import WIDE_FACTOR
from gamed.sessions import tables as session_tables
from gamed.sessions.credentials import PASSKEY, RECOVERY_CODE


def collect_login(connection: Connection, keys: Keys, command: CollectCommand) -> CollectOutcome | None:
    """Execute a collect; a login that is not `ready` is returned as it is, and None for an unknown one."""
    before = tables.find_login(connection, command.key)
    if before is None:
        return None
    # One transaction, so that of two games with the same proof one gets a session, and the other reads `delivered`.
    outcome = _collect(connection, keys, command, before)
    tables.save_login(connection, outcome.transition)
    return outcome


def _collect(connection: Connection, keys: Keys, command: CollectCommand, before: LoginTransaction) -> CollectOutcome:
    login = before.at_time(command.now_ms)
    if login.stage is not LoginStage.READY:
        return CollectOutcome(Transition(before, login))
    try:
        raw_proof = keys.sealer.unseal(Purpose.PROOF, login.login_id, login.sealed_proof or b"")
        raw_identity = keys.sealer.unseal(Purpose.IDENTIFIED, login.login_id, login.sealed_identity or b"")
    except DecryptionFailed as e:  # it can never be decrypted, so the game need not wait
        after = login.failed(LoginFailure.LOGIN_INTERRUPTED, command.now_ms)
        return CollectOutcome(Transition(before, after), undecryptable=e.details)
    # Counted in the transaction that compares: two requests at once must not share one of the five tries.
    if not collect_rules.proof_matches(login, ReturnProof.from_bytes(raw_proof), command.presented):
        after = collect_rules.count_wrong_proof(login, command.presented, command.now_ms)
        return CollectOutcome(Transition(before, after), wrong=command.presented is not None)
    proved = decode_identity(raw_identity)
    admitted = admit(connection, keys, command, login, proved)
    player_id = player_of(connection, keys, proved)  # not before admit(), which may have created the player
    ended: Sequence[str] = ()
    if isinstance(admitted, LoginFailure):
        after = refused(connection, login, admitted, player_id, command.now_ms)
    elif admitted is None:
        after = login.linked(command.now_ms)
    else:
        after, ended = _open_session(connection, keys, command, login, admitted, proved=proved)
    passkey_id, left = passkey_of(proved), codes_left(connection, proved, admitted)
    return CollectOutcome(
        Transition(before, after), player_id=player_id, ended=ended, passkey_id=passkey_id, codes_left=left
    )


def refused(
    connection: Connection, login: LoginTransaction, failure: LoginFailure, player_id: str | None, now_ms: int
) -> LoginTransaction:
    """Return the login after its player was refused, with the code of one who waits for approval."""
    waiting = failure is LoginFailure.PLAYER_PENDING and player_tables.find_player(connection, player_id or "")
    return replace(login.failed(failure, now_ms), approval_code=waiting.approval_code if waiting else None)


def admit(
    connection: Connection, keys: Keys, command: CollectCommand, login: LoginTransaction, proved: Identified
) -> CollectResult | LoginFailure | None:
    """Return the credentials of the player, or the outcome without them; None for a link, which delivers none."""
    match login.intent, proved:  # the order of the cases counts: a link or an adoption is no sign-in of its own
        case _, ExistingAccount() as account:
            return admit_account(connection, account, login, command)
        case _, PasskeyAccount() as account:
            return admit_passkey(connection, account, command)
        case _, RecoveryAccount() as account:
            return admit_recovery(connection, account, command)
        case _, NewAccount() as account:
            return admit_new_account(connection, keys, account, login, command)
        case _, ProviderIdentity() as proved if login.links:
            return admit_linked(connection, proved, login, command)
        case LoginIntent.ADOPT, ProviderIdentity() as proved:
            return admit_adopted(connection, proved, login, command)
        case _, ProviderIdentity() as proved:
            return admit_identity(connection, keys, proved, login, command)


def _open_session(
    connection: Connection,
    keys: Keys,
    command: CollectCommand,
    login: LoginTransaction,
    result: CollectResult,
    *,
    proved: Identified,
) -> tuple[LoginTransaction, Sequence[str]]:
    """Return the login with its credentials, and the sessions that ended because they were too many."""
    session_id = command.new_session.session_id
    ended = session_tables.open_session(
        connection,
        keys,
        session_id=session_id,
        player_id=result.player_id,
        provider=way_of(proved, login),
        passkey_id=passkey_of(proved) or None,
        client=login.client.device.to_json(),
        login_id=login.login_id,
        pair=result.pair,
        now_ms=command.now_ms,
    )
    player_tables.record_sign_in(connection, result.player_id, command.now_ms)
    # Sealed into the login, a session's credentials can be delivered again until their first use: the answer to this
    # collect may be lost. The name is part of it, so that each delivery is the same.
    result = replace(result, name=player_tables.display_name_of(connection, keys.sealer, result.player_id))
    sealed = keys.sealer.seal(Purpose.RESULT, login.login_id, result.to_bytes())
    return login.delivered(session_id, sealed, command.now_ms), ended


def passkey_of(proved: Identified) -> str:
    """Return the passkey that signed in, "" without one."""
    return proved.passkey_id if isinstance(proved, PasskeyAccount) else ""


def way_of(proved: Identified, login: LoginTransaction) -> str:
    """Return the way to sign in, as the session names it."""
    match proved:
        case PasskeyAccount():
            return PASSKEY
        case RecoveryAccount():
            return RECOVERY_CODE
        case _:
            return login.provider


def codes_left(connection: Connection, proved: Identified, admitted: CollectResult | LoginFailure | None) -> int | None:
    """Return how many recovery codes are left of a player whom one of them has just signed in, else None."""
    if not isinstance(proved, RecoveryAccount) or not isinstance(admitted, CollectResult):
        return None
    return ways_tables.count_codes(connection, proved.player_id)


def player_of(connection: Connection, keys: Keys, proved: Identified) -> str | None:
    """Return the player to whom the identity belongs at present."""
    match proved:
        case (
            ExistingAccount(player_id=player_id)
            | PasskeyAccount(player_id=player_id)
            | RecoveryAccount(player_id=player_id)
        ):
            return player_id
        case NewAccount(name):
            account = player_tables.find_account(connection, name_index(keys.indexer, name))
            return None if account is None else account.player_id
        case ProviderIdentity(index):
            return player_tables.identity_owner(connection, Index(index))


def admit_account(
    connection: Connection, account: ExistingAccount, login: LoginTransaction, command: CollectCommand
) -> CollectResult | LoginFailure:
    """Admit the player who typed their password."""
    admitted = _admit_by_password(connection, account.player_id, login, command, account.password_tag)
    if isinstance(admitted, CollectResult):
        player_tables.record_account_use(connection, account.player_id, command.now_ms)
    return admitted


def admit_passkey(
    connection: Connection, account: PasskeyAccount, command: CollectCommand
) -> CollectResult | LoginFailure:
    """Admit the player whose passkey signed in, unless it was removed since."""
    if not ways_tables.belongs_to(connection, account.passkey_id, account.player_id):
        return LoginFailure.SESSION_REVOKED
    return _admit_player(connection, account.player_id, command)


def admit_recovery(
    connection: Connection, account: RecoveryAccount, command: CollectCommand
) -> CollectResult | LoginFailure:
    """Admit the player who typed a recovery code, and use it up, unless it was used or made void since.

    A player who may not sign in keeps the code.
    """
    admitted = _admit_player(connection, account.player_id, command)
    if isinstance(admitted, LoginFailure):
        return admitted
    used = ways_tables.use_code(connection, Index(account.code_index), account.player_id)
    return admitted if used else LoginFailure.SESSION_REVOKED


def admit_new_account(
    connection: Connection, keys: Keys, account: NewAccount, login: LoginTransaction, command: CollectCommand
) -> CollectResult | LoginFailure:
    """Create a local account with its player."""
    taken = player_tables.find_account(connection, name_index(keys.indexer, account.name)) is not None
    error = collect_rules.new_player_error(taken, command.registration)
    if error is None or error is LoginFailure.PLAYER_PENDING:
        player_tables.create_account(
            connection,
            keys,
            player_id=_create_player(
                connection, keys, login, command, waits=error is not None, name=account.display_name
            ),
            name=account.name,
            password=account.password_hash,
            now_ms=command.now_ms,
        )
    return error or _new_player(command)


def admit_identity(
    connection: Connection, keys: Keys, proved: ProviderIdentity, login: LoginTransaction, command: CollectCommand
) -> CollectResult | LoginFailure:
    """Admit the player of an identity, or create one; two first sign-ins of one identity create one player."""
    index = Index(proved.index)
    player_id = player_tables.identity_owner(connection, index)
    if player_id is None:
        error = collect_rules.new_player_error(False, command.registration)
        if error is None or error is LoginFailure.PLAYER_PENDING:
            player_id = _create_player(
                connection, keys, login, command, waits=error is not None, name=proved.display_name
            )
            _link(connection, proved, login, player_id, command)
        return error or _new_player(command)
    admitted = _admit_player(connection, player_id, command)
    if isinstance(admitted, CollectResult):
        player_tables.record_identity_use(connection, index, command.now_ms)
    return admitted


def admit_adopted(
    connection: Connection, proved: ProviderIdentity, login: LoginTransaction, command: CollectCommand
) -> CollectResult | LoginFailure:
    """Link the identity to the player whose name and password were typed, and admit that player.

    As on the page of the account, a player who has another way to sign in is refused: a password from the time before
    may be known to somebody, and must not be enough to add an account.
    """
    admitted = _admit_by_password(connection, proved.player_id or "", login, command)
    if isinstance(admitted, LoginFailure):
        return admitted
    if ways_tables.has_other_way(connection, admitted.player_id):
        return LoginFailure.PROVIDER_ALREADY_LINKED
    error = _link(connection, proved, login, admitted.player_id, command)
    if error is None:
        player_tables.record_account_use(connection, admitted.player_id, command.now_ms)
    return error or admitted


def admit_linked(
    connection: Connection, proved: ProviderIdentity, login: LoginTransaction, command: CollectCommand
) -> LoginFailure | None:
    """Link the identity to the player whose session requested it; return None once it is linked."""
    player_id = session_tables.living_player(connection, login.requesting_session_id or "", command.now_ms)
    if player_id is None:
        return LoginFailure.SESSION_REVOKED
    admitted = _admit_player(connection, player_id, command)
    return admitted if isinstance(admitted, LoginFailure) else _link(connection, proved, login, player_id, command)


def _link(
    connection: Connection, proved: ProviderIdentity, login: LoginTransaction, player_id: str, command: CollectCommand
) -> LoginFailure | None:
    index = Index(proved.index)
    # Read again: another login may have linked the identity since the browser came back from the provider.
    taken = player_tables.identity_owner(connection, index) is not None
    error = collect_rules.link_error(taken, player_tables.has_identity(connection, player_id, login.provider))
    if error is None:
        player_tables.insert_identity(
            connection,
            index=index,
            namespace=Index(proved.realm),
            player_id=player_id,
            provider=login.provider,
            now_ms=command.now_ms,
        )
    return error


def _admit_by_password(
    connection: Connection,
    player_id: str,
    login: LoginTransaction,
    command: CollectCommand,
    password_tag: bytes = b"",
) -> CollectResult | LoginFailure:
    """Admit the player, unless their password has changed since the login began."""
    # An attacker may know the old password: that is why players change it.
    if player_tables.password_changed(connection, player_id, login.created_ms, command.now_ms, password_tag):
        return LoginFailure.SESSION_REVOKED
    return _admit_player(connection, player_id, command)


def _admit_player(connection: Connection, player_id: str, command: CollectCommand) -> CollectResult | LoginFailure:
    player = player_tables.find_player(connection, player_id)
    error = collect_rules.player_error(None if player is None else player.state)
    owner = player is not None and player.owner
    return error or CollectResult(command.new_session.pair, player_id, created=False, owner=owner)


def _create_player(
    connection: Connection,
    keys: Keys,
    login: LoginTransaction,
    command: CollectCommand,
    *,
    waits: bool,
    name: str | None,
) -> str:
    """Create the player with this display name.

    A player who waits for approval counts against the network of the login, and gets a code that no other has. Raise
    RateLimited or TooManyLogins.
    """
    player_id = command.new_session.player_id
    if not waits:
        player_tables.create_player(connection, player_id, command.now_ms)
    else:
        if command.newcomers.interval_ms:
            networks = {login.address_index: command.newcomers}
            if login.wide_index is not None:
                networks[login.wide_index] = command.newcomers.times(WIDE_FACTOR)
            buckets = {keys.indexer.index(Purpose.LIMIT, b"newcomer", index): rate for index, rate in networks.items()}
            rate_limits.acquire(connection, buckets, command.now_ms)
        code = player_tables.first_free_code(connection, approval_codes(keys.indexer, player_id))
        if code is None:  # raised, so that nothing is committed: the login stays `ready`, and the game may try again
            raise TooManyLogins
        player_tables.create_player(connection, player_id, command.now_ms, "pending", code)
    if name is not None:
        player_tables.set_display_name(connection, keys.sealer, player_id, name)
    return player_id


def _new_player(command: CollectCommand) -> CollectResult:
    return CollectResult(command.new_session.pair, command.new_session.player_id, created=True, owner=False)
