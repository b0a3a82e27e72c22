"""What a session may say instead of yes (PROTOCOL 3.7 and 4).

The web knows the status of each, and what to tell a person.
"""


class SessionError(Exception):
    """A credential that does not open what was asked."""


class TokenMissing(SessionError):
    """The request carried no credential at all."""


class TokenInvalid(SessionError):
    """Not an access token of this server, or one it has long forgotten."""


class TokenExpired(SessionError):
    """The access token was good and its time is over."""


class SessionRevoked(SessionError):
    """The session was ended: signed out, revoked, or its player is being erased."""


class PlayerBlocked(SessionError):
    """The player may not use this server at present."""


class RefreshInvalid(SessionError):
    """Malformed, never issued, or long forgotten."""


class RefreshExpired(SessionError):
    """The refresh credential's own time is over, or its session reached its greatest age."""


class RefreshReused(SessionError):
    """A credential that was already exchanged came back: somebody holds a copy, so the session ended."""


class SessionNotFound(SessionError):
    """No such session of this player; another player's looks the same."""
