"""The first proven collect: player, account, session and sealed credentials in one transaction (PROTOCOL 3.5)."""

from sqlite3 import Connection

from msgspec.structs import replace

from gamed.crypto import Keys, Purpose, SealBroken
from gamed.login import delivery, identified
from gamed.login.identified import ExistingAccount, Identified, NewAccount, ProviderIdentity
from gamed.login.logins import Claim, Delivery, Move
from gamed.login.outcome import Outcome
from gamed.login.proof import ReturnProof
from gamed.login.result import Result
from gamed.login.transaction import Intent, LoginTransaction, Stage
from gamed.storage.auth import admissions, logins, players, sessions


def deliver(connection: Connection, keys: Keys, claim: Claim) -> Delivery | None:
    """Everything or nothing; a login that is not `ready` (any more) is left to speak for itself."""
    before = logins.find(connection, claim.key)
    if before is None:
        return None
    answer = _answer(connection, keys, claim, before)
    logins.save(connection, answer.move)
    return answer


def _answer(connection: Connection, keys: Keys, claim: Claim, before: LoginTransaction) -> Delivery:
    login = before.at(claim.now_ms)
    if login.stage is not Stage.READY:
        return Delivery(Move(before, login))
    try:
        raw_proof, raw = _opened(keys, login)
    except SealBroken as e:  # never to be opened again: whoever waits for it waits in vain
        return Delivery(Move(before, login.refused(Outcome.LOGIN_INTERRUPTED, claim.now_ms)), broken=e.words)
    if not delivery.proven(login, ReturnProof.from_bytes(raw_proof), claim.presented):
        wrong = claim.presented is not None
        return Delivery(Move(before, delivery.mistaken(login, claim.presented, claim.now_ms)), wrong)
    proved = identified.from_bytes(raw)
    admitted = _admitted(connection, keys, claim, login, proved)
    player_id = admissions.whose(connection, keys, proved)
    if isinstance(admitted, Outcome):
        waits = player_id if admitted is Outcome.PLAYER_PENDING else None
        refused = replace(login.refused(admitted, claim.now_ms), pending_id=waits)
        return Delivery(Move(before, refused), player_id=player_id)
    if admitted is None:
        return Delivery(Move(before, login.linked(claim.now_ms)), player_id=player_id)
    return Delivery(Move(before, _signed_in(connection, keys, claim, login, admitted)), player_id=player_id)


def _opened(keys: Keys, login: LoginTransaction) -> tuple[bytes, bytes]:
    """Proof and identity."""
    raw_proof = keys.sealer.unseal(Purpose.PROOF, login.login_id, login.sealed_proof or b"")
    return raw_proof, keys.sealer.unseal(Purpose.IDENTIFIED, login.login_id, login.sealed_identity or b"")


def _admitted(
    connection: Connection, keys: Keys, claim: Claim, login: LoginTransaction, proved: Identified
) -> Result | Outcome | None:
    """Who signs in, or why nobody does; None for a link, which signs nobody in."""
    match login.intent, proved:
        case _, ExistingAccount() as account:
            return admissions.known_account(connection, account, login, claim)
        case _, NewAccount() as account:
            return admissions.new_account(connection, keys, account, claim)
        case Intent.LINK, ProviderIdentity() as proved:
            return admissions.linked(connection, proved, login, claim)
        case Intent.ADOPT, ProviderIdentity() as proved:
            return admissions.adopted(connection, proved, login, claim)
        case _, ProviderIdentity() as proved:
            return admissions.identity(connection, proved, login, claim)


def _signed_in(
    connection: Connection, keys: Keys, claim: Claim, login: LoginTransaction, result: Result
) -> LoginTransaction:
    session_id = claim.fresh.session_id
    sessions.open_session(
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
    players.signed_in(connection, result.player_id, claim.now_ms)
    sealed = keys.sealer.seal(Purpose.RESULT, login.login_id, result.to_bytes())
    return login.delivered(session_id, sealed, claim.now_ms)
