"""Who may have credentials at the first proven collect, and who not; pure (PROTOCOL 3.4 and 3.5)."""

from msgspec.structs import replace

from gamed.config.model import Registration
from gamed.login.outcome import Outcome
from gamed.login.proof import MAX_WRONG_CODES, Presented, ProofKind, ReturnProof
from gamed.login.transaction import Event, LoginTransaction, Proof


def proven(login: LoginTransaction, proof: ReturnProof, presented: Presented | None) -> bool:
    """Whether what the game shows opens this login; with `return_proof` off, showing nothing does."""
    if presented is None:
        return login.return_proof is Proof.NONE
    return proof.proven_by(presented)


def mistaken(login: LoginTransaction, presented: Presented | None, now_ms: int) -> LoginTransaction:
    """The login after a wrong proof: tickets never count, the fifth wrong code ends it."""
    if presented is None or presented.kind is ProofKind.TICKET:
        return login
    counted = replace(login, wrong_codes=login.wrong_codes + 1)
    return counted if counted.wrong_codes < MAX_WRONG_CODES else counted.after(Event.EXHAUST, now_ms)


def attempts_left(login: LoginTransaction) -> int:
    return max(0, MAX_WRONG_CODES - login.wrong_codes)


def refusal_of_player(state: str | None) -> Outcome | None:
    """Why a known player gets no session. None as a state: erased since the browser named them."""
    match state:
        case "active":
            return None
        case "pending":
            return Outcome.PLAYER_PENDING
        case "blocked":
            return Outcome.PLAYER_BLOCKED
        case _:
            return Outcome.LOGIN_INTERRUPTED


def refusal_of_link(taken: bool, has_one: bool) -> Outcome | None:
    """Why an account at a provider does not become another way in for a player; nobody is ever merged (PROTOCOL 3.8).

    `has_one`: the player has an account of this provider, be it the same one or another.
    """
    if has_one:
        return Outcome.PROVIDER_ALREADY_LINKED
    return Outcome.IDENTITY_IN_USE if taken else None


def refusal_of_newcomer(taken: bool, registration: Registration) -> Outcome | None:
    """Why a new account gets no session; on PLAYER_PENDING it is made all the same, and waits for the owner."""
    if registration is Registration.CLOSED:
        return Outcome.REGISTRATION_CLOSED
    if taken:
        return Outcome.IDENTITY_IN_USE
    return Outcome.PLAYER_PENDING if registration is Registration.APPROVAL else None
