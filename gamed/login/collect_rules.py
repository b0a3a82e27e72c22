"""The rules of a collect decide whether a proof is right, and why a player gets no session.

See docs/protocol.md: Collect, Accounts.
"""

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from gamed.config.model import Registration
from gamed.login.keys import MAX_WRONG_CODES, LoginLookup, PresentedProof, ProofKind, ReturnProof
from gamed.login.transaction import LoginEvent, LoginTransaction, ProofMethod, Transition
from gamed.outcomes import LoginFailure
from gamed.rate_limit import UNLIMITED, RateLimit
from gamed.sessions import credentials
from gamed.sessions.credentials import PASSKEY, RECOVERY_CODE, CredentialPair


class NewSession(Struct, frozen=True):
    """The ids and credentials that a first collect would use; drawn before, because a transaction may run twice."""

    player_id: str
    session_id: str
    pair: CredentialPair


class CollectCommand(Struct, frozen=True):
    """A collect as the store executes it."""

    key: LoginLookup
    presented: PresentedProof | None
    new_session: NewSession
    registration: Registration
    now_ms: int
    newcomers: RateLimit = UNLIMITED
    """How many players who wait for approval the network of the login may add."""


class CollectOutcome(Struct, frozen=True):
    """The transition that a collect made, and whether the proof was wrong."""

    transition: Transition
    wrong: bool = False
    player_id: str | None = None
    """The player who signed in, linked, or waits for approval."""
    undecryptable: Mapping[str, str] | None = None
    """The value that could not be decrypted, for the audit log; the login has ended because of it."""
    invite_id: str | None = None
    """The invite that was used, and made the player."""
    ended: Sequence[str] = ()
    """The sessions of the player that ended because they were too many."""
    passkey_id: str = ""
    """The passkey that signed in, if one did."""
    codes_left: int | None = None
    """How many recovery codes the player has left after one of them signed in; None for any other sign-in."""
    by_code: bool = False
    """A recovery code was typed, and this collect has refused the sign-in."""

    @property
    def way(self) -> str:
        """Return the way to sign in, as the log and the session name it."""
        if self.codes_left is not None:
            return RECOVERY_CODE
        return PASSKEY if self.passkey_id else self.transition.after.provider


class CollectResult(Struct, frozen=True):
    """The credentials and their player; stored sealed, so that a repeated collect returns them again."""

    pair: CredentialPair
    player_id: str
    created: bool
    """This collect created the player."""
    owner: bool
    name: str | None = None
    """The display name."""

    def to_bytes(self) -> bytes:
        """Return the bytes to seal."""
        pair = credentials.to_bytes(self.pair)
        return msgspec.json.encode((self.player_id, self.created, self.owner, self.name, pair))

    @classmethod
    def from_bytes(cls, raw: bytes) -> "CollectResult":
        player_id, created, owner, name, pair = _DECODER.decode(raw)
        return cls(credentials.from_bytes(pair), player_id, created, owner, name)


_DECODER = msgspec.json.Decoder(tuple[str, bool, bool, str | None, bytes])


def proof_matches(login: LoginTransaction, proof: ReturnProof, presented: PresentedProof | None) -> bool:
    """Return whether the proof is right; with `return_proof` off the game sends none."""
    if presented is None:
        return login.return_proof is ProofMethod.NONE
    return proof.matches(presented)


def count_wrong_proof(login: LoginTransaction, presented: PresentedProof | None, now_ms: int) -> LoginTransaction:
    """Return the login after a wrong proof: tickets do not count, the fifth wrong code ends it."""
    if presented is None or presented.kind is ProofKind.TICKET:
        return login
    counted = replace(login, wrong_codes=login.wrong_codes + 1)
    return counted if counted.wrong_codes < MAX_WRONG_CODES else counted.apply(LoginEvent.EXHAUST, now_ms)


def player_error(state: str | None) -> LoginFailure | None:
    """Return why a player of this state gets no session; None as a state: deleted since the browser signed in."""
    match state:
        case "active":
            return None
        case "pending":
            return LoginFailure.PLAYER_PENDING
        case "blocked":
            return LoginFailure.PLAYER_BLOCKED
        case _:
            return LoginFailure.LOGIN_INTERRUPTED


def link_error(taken: bool, has_one: bool) -> LoginFailure | None:
    """Return why an identity cannot be linked to a player; players are never merged by it (docs/protocol.md: Accounts).

    `taken`: the identity belongs to a player. `has_one`: the player has an identity of this provider.
    """
    if has_one:
        return LoginFailure.PROVIDER_ALREADY_LINKED
    return LoginFailure.IDENTITY_IN_USE if taken else None


def new_player_error(taken: bool, registration: Registration) -> LoginFailure | None:
    """Return why a new player gets no session; with PLAYER_PENDING the player is created and waits for approval."""
    if registration is Registration.CLOSED:
        return LoginFailure.REGISTRATION_CLOSED
    if taken:
        return LoginFailure.IDENTITY_IN_USE
    return LoginFailure.PLAYER_PENDING if registration is Registration.APPROVAL else None
