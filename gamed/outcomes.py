"""A login that ends without credentials ends with one of these outcomes, the closed list of the protocol.

See docs/protocol.md: Errors.
"""

from enum import Enum


class LoginFailure(Enum):
    """The problem code of a final stage."""

    LOGIN_DENIED = "login_denied"
    PROVIDER_DENIED = "provider_denied"
    PROVIDER_UNAVAILABLE = "provider_unavailable"
    PROVIDER_ERROR = "provider_error"
    PROVIDER_MISCONFIGURED = "provider_misconfigured"
    SERVER_CLOCK_SKEW = "server_clock_skew"
    LOGIN_EXPIRED = "login_expired"
    LOGIN_CANCELLED = "login_cancelled"
    LOGIN_INTERRUPTED = "login_interrupted"
    PROOF_ATTEMPTS_EXCEEDED = "proof_attempts_exceeded"
    IDENTITY_IN_USE = "identity_in_use"
    PROVIDER_ALREADY_LINKED = "provider_already_linked"
    PLAYER_BLOCKED = "player_blocked"
    PLAYER_PENDING = "player_pending"
    REGISTRATION_CLOSED = "registration_closed"
    SESSION_REVOKED = "session_revoked"
