"""Who is given what at the first proven collect, by what the browser proved (PROTOCOL 3.5, 3.8).

Each function writes what lasts, or returns the outcome that says why not.

The first proven collect: player, account, session and sealed credentials in one transaction (PROTOCOL 3.5).
"""

from sqlite3 import Connection

from msgspec.structs import replace

from gamed.crypto import DecryptionFailed, Index, Keys, Purpose
from gamed.login import collect, tables
from gamed.login import keys as login_keys
from gamed.login.collect import CollectResult
from gamed.login.interfaces import CollectCommand, CollectOutcome, Transition
from gamed.login.keys import ExistingAccount, Identified, NewAccount, ProviderIdentity, ReturnProof
from gamed.login.transaction import LoginIntent, LoginStage, LoginTransaction
from gamed.outcomes import LoginFailure
from gamed.players import tables as player_tables
from gamed.players.names import name_index
from gamed.sessions import tables as session_tables

CREATED = (None, LoginFailure.PLAYER_PENDING)
"""A newcomer who waits for the owner is somebody already."""


def admit_account(
    connection: Connection, account: ExistingAccount, login: LoginTransaction, claim: CollectCommand
) -> CollectResult | LoginFailure:
    admitted = _with_password(connection, account.player_id, login, claim)
    if isinstance(admitted, CollectResult):
        player_tables.record_account_use(connection, account.player_id, claim.now_ms)
    return admitted


def admit_new_account(
    connection: Connection, keys: Keys, account: NewAccount, claim: CollectCommand
) -> CollectResult | LoginFailure:
    taken = player_tables.find_account(connection, name_index(keys.indexer, account.name)) is not None
    refusal = collect.newcomer_error(taken, claim.registration)
    if refusal in CREATED:
        player_id = _create(connection, claim, refusal)
        player_tables.create_account(
            connection,
            keys,
            player_id=player_id,
            name=account.name,
            password=account.password_hash,
            now_ms=claim.now_ms,
        )
    return refusal or _newcomer(claim)


def admit_identity(
    connection: Connection, proved: ProviderIdentity, login: LoginTransaction, claim: CollectCommand
) -> CollectResult | LoginFailure:
    """The player whose it is, or else a new one; two first sign-ins of one identity make one player."""
    index = Index(proved.index)
    player_id = player_tables.identity_owner(connection, index)
    if player_id is None:
        refusal = collect.newcomer_error(False, claim.registration)
        if refusal in CREATED:
            _link(connection, proved, login, _create(connection, claim, refusal), claim)
        return refusal or _newcomer(claim)
    admitted = _known(connection, player_id, claim)
    if isinstance(admitted, CollectResult):
        player_tables.record_identity_use(connection, index, claim.now_ms)
    return admitted


def admit_adopted(
    connection: Connection, proved: ProviderIdentity, login: LoginTransaction, claim: CollectCommand
) -> CollectResult | LoginFailure:
    """The player whose name and password were typed gets this identity, and is signed in."""
    admitted = _with_password(connection, proved.player_id or "", login, claim)
    if isinstance(admitted, LoginFailure):
        return admitted
    refusal = _link(connection, proved, login, admitted.player_id, claim)
    if refusal is None:
        player_tables.record_account_use(connection, admitted.player_id, claim.now_ms)
    return refusal or admitted


def admit_linked(
    connection: Connection, proved: ProviderIdentity, login: LoginTransaction, claim: CollectCommand
) -> LoginFailure | None:
    """The player who asked gets this identity, if the session that asked still lives; None: done."""
    player_id = session_tables.living_player(connection, login.requesting_session_id or "", claim.now_ms)
    if player_id is None:
        return LoginFailure.SESSION_REVOKED
    admitted = _known(connection, player_id, claim)
    return admitted if isinstance(admitted, LoginFailure) else _link(connection, proved, login, player_id, claim)


def whose(connection: Connection, keys: Keys, proved: Identified) -> str | None:
    """The player whom what was proved belongs to by now."""
    match proved:
        case ExistingAccount(player_id):
            return player_id
        case NewAccount(name):
            account = player_tables.find_account(connection, name_index(keys.indexer, name))
            return None if account is None else account.player_id
        case ProviderIdentity(index):
            return player_tables.identity_owner(connection, Index(index))


def _link(
    connection: Connection, proved: ProviderIdentity, login: LoginTransaction, player_id: str, claim: CollectCommand
) -> LoginFailure | None:
    index = Index(proved.index)
    taken = player_tables.identity_owner(connection, index) is not None
    refusal = collect.link_error(taken, player_tables.has_identity(connection, player_id, login.provider))
    if refusal is None:
        player_tables.insert_identity(
            connection,
            index=index,
            namespace=Index(proved.realm),
            player_id=player_id,
            provider=login.provider,
            now_ms=claim.now_ms,
        )
    return refusal


def _with_password(
    connection: Connection, player_id: str, login: LoginTransaction, claim: CollectCommand
) -> CollectResult | LoginFailure:
    """Whose password was typed for this login, unless it is not theirs any more."""
    if player_tables.password_changed(connection, player_id, login.created_ms, claim.now_ms):
        return LoginFailure.SESSION_REVOKED
    return _known(connection, player_id, claim)


def _known(connection: Connection, player_id: str, claim: CollectCommand) -> CollectResult | LoginFailure:
    player = player_tables.find_player(connection, player_id)
    refusal = collect.player_error(None if player is None else player.state)
    return refusal or CollectResult(
        claim.fresh.pair, player_id, created=False, owner=player is not None and player.owner
    )


def _create(connection: Connection, claim: CollectCommand, refusal: LoginFailure | None) -> str:
    state: player_tables.State = "active" if refusal is None else "pending"
    player_tables.create_player(connection, claim.fresh.player_id, claim.now_ms, state)
    return claim.fresh.player_id


def _newcomer(claim: CollectCommand) -> CollectResult:
    return CollectResult(claim.fresh.pair, claim.fresh.player_id, created=True, owner=False)


def collect_login(connection: Connection, keys: Keys, claim: CollectCommand) -> CollectOutcome | None:
    """Everything or nothing; a login that is not `ready` (any more) is left to speak for itself."""
    before = tables.find_login(connection, claim.key)
    if before is None:
        return None
    answer = _outcome(connection, keys, claim, before)
    tables.save_login(connection, answer.move)
    return answer


def _outcome(connection: Connection, keys: Keys, claim: CollectCommand, before: LoginTransaction) -> CollectOutcome:
    login = before.at(claim.now_ms)
    if login.stage is not LoginStage.READY:
        return CollectOutcome(Transition(before, login))
    try:
        raw_proof, raw = _unsealed(keys, login)
    except DecryptionFailed as e:  # never to be opened again: whoever waits for it waits in vain
        return CollectOutcome(
            Transition(before, login.refused(LoginFailure.LOGIN_INTERRUPTED, claim.now_ms)), broken=e.details
        )
    if not collect.proof_matches(login, ReturnProof.from_bytes(raw_proof), claim.presented):
        wrong = claim.presented is not None
        return CollectOutcome(
            Transition(before, collect.count_wrong_proof(login, claim.presented, claim.now_ms)), wrong
        )
    proved = login_keys.from_bytes(raw)
    admitted = _admitted(connection, keys, claim, login, proved)
    player_id = whose(connection, keys, proved)
    if isinstance(admitted, LoginFailure):
        waits = player_id if admitted is LoginFailure.PLAYER_PENDING else None
        refused = replace(login.refused(admitted, claim.now_ms), pending_id=waits)
        return CollectOutcome(Transition(before, refused), player_id=player_id)
    if admitted is None:
        return CollectOutcome(Transition(before, login.linked(claim.now_ms)), player_id=player_id)
    return CollectOutcome(Transition(before, _signed_in(connection, keys, claim, login, admitted)), player_id=player_id)


def _unsealed(keys: Keys, login: LoginTransaction) -> tuple[bytes, bytes]:
    """Proof and identity."""
    raw_proof = keys.sealer.unseal(Purpose.PROOF, login.login_id, login.sealed_proof or b"")
    return raw_proof, keys.sealer.unseal(Purpose.IDENTIFIED, login.login_id, login.sealed_identity or b"")


def _admitted(
    connection: Connection, keys: Keys, claim: CollectCommand, login: LoginTransaction, proved: Identified
) -> CollectResult | LoginFailure | None:
    """Who signs in, or why nobody does; None for a link, which signs nobody in."""
    match login.intent, proved:
        case _, ExistingAccount() as account:
            return admit_account(connection, account, login, claim)
        case _, NewAccount() as account:
            return admit_new_account(connection, keys, account, claim)
        case LoginIntent.LINK, ProviderIdentity() as proved:
            return admit_linked(connection, proved, login, claim)
        case LoginIntent.ADOPT, ProviderIdentity() as proved:
            return admit_adopted(connection, proved, login, claim)
        case _, ProviderIdentity() as proved:
            return admit_identity(connection, proved, login, claim)


def _signed_in(
    connection: Connection, keys: Keys, claim: CollectCommand, login: LoginTransaction, result: CollectResult
) -> LoginTransaction:
    session_id = claim.fresh.session_id
    session_tables.open_session(
        connection,
        keys,
        session_id=session_id,
        player_id=result.player_id,
        provider=login.provider,
        client=login.client.to_json(),
        login_id=login.login_id,
        pair=result.pair,
        now_ms=claim.now_ms,
    )
    player_tables.record_sign_in(connection, result.player_id, claim.now_ms)
    sealed = keys.sealer.seal(Purpose.RESULT, login.login_id, result.to_bytes())
    return login.delivered(session_id, sealed, claim.now_ms)
