"""What the owner's configuration means for a handoff (SPEC 2.1, PROTOCOL 3.1)."""

from msgspec import Struct

from gamed.config.model import Limits, Mode, Registration, ReturnProof
from gamed.sessions.credentials import SessionPolicy

NO_LIMITS = Limits(0, 0, 0, 0, 0, 0, 0)


class LoginTerms(Struct, frozen=True):
    mode: Mode
    session: SessionPolicy
    providers: tuple[str, ...] = ()
    """The names of `GET /auth/config`."""
    ttl_seconds: int = 600
    """From the start to the first collect: `session.device_transaction_ttl`."""
    return_proof: ReturnProof = ReturnProof.REQUIRED
    registration: Registration = Registration.OPEN
    limits: Limits = NO_LIMITS
