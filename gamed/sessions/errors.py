"""A session's credential can fail in the ways of the protocol; `problems.py` maps each error to its status.

See docs/protocol.md: Errors.
"""


class SessionError(Exception):
    """A credential that does not give access to the requested operation."""


class TokenMissing(SessionError):
    """A request without any credential."""


class TokenInvalid(SessionError):
    """A text that is not an access token of this server, or one whose row was deleted long ago."""


class TokenExpired(SessionError):
    """An access token that was valid and has expired."""


class SessionRevoked(SessionError):
    """A credential of a session that has ended: by a logout, a revocation, or the erasure of its player."""


class PlayerBlocked(SessionError):
    """A credential of a player who may not use this server at present."""


class RefreshInvalid(SessionError):
    """A refresh credential that is malformed, was never issued, or whose row was deleted long ago."""


class RefreshExpired(SessionError):
    """A refresh credential that has expired, or whose session reached its maximum age."""


class RefreshReused(SessionError):
    """A refresh credential that was exchanged before: a second client holds a copy, so the session was ended."""


class SessionNotFound(SessionError):
    """A session that this player does not have; the error is the same for another player's session."""
