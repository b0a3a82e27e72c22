"""The refresh table of docs/internals/rules.md is one pure function: it decides what a refresh credential gets.

Each rotation starts one more generation of the session. A credential belongs to the generation that it was generated
for, so the table's "current", "immediate predecessor" and "older" are the newest generation, the one before it, and
all generations before that one.
"""

from enum import Enum

from msgspec import Struct
from msgspec.structs import replace

from gamed.sessions.credentials import CredentialPair
from gamed.sessions.errors import SessionError

SHARED_STORE_MS = 30_000
"""How long after a successor's first delivery its predecessor still gets it, although the successor is in use:
two processes of one player that share one stored credential may both have sent the predecessor.

A client refreshes up to 30 seconds before the access token expires, so both do it within that time. A thief who has a
copy gets no more by it than before: two holders of one session, until one of them refreshes again.
"""


class RotationDecision(Enum):
    """The server's decision about a refresh credential."""

    ROTATE = "start a new generation"
    REPEAT = "return the newest generation once more"
    REUSED = "end the session: a second client holds a copy"
    EXPIRED = "reject: the credential or the session has expired"
    REVOKED = "reject: the session has ended"


class RotationState(Struct, frozen=True):
    """The newest generation of a session; instants in epoch milliseconds."""

    generation: int
    rotated_ms: int
    """When this generation was first delivered; a repeated delivery does not change it."""
    used: bool
    """True once a client has sent one of its credentials: the access token anywhere, or the refresh credential."""
    revoked: bool
    ends_ms: int | None
    """When the session reaches its maximum age; None without one."""

    def rotated(self, now_ms: int) -> "RotationState":
        """Return the next generation, delivered now and not used yet."""
        return replace(self, generation=self.generation + 1, rotated_ms=now_ms, used=False)


def decide(state: RotationState, generation: int, expires_ms: int, now_ms: int) -> RotationDecision:
    """Decide what a credential of `generation` that expires at `expires_ms` gets.

    The order matters: an ended session stays ended. An expired credential gives its holder nothing, so it does not end
    the session of a player whose device was restored from an old backup.
    """
    if state.revoked:
        return RotationDecision.REVOKED
    if now_ms >= expires_ms or (state.ends_ms is not None and now_ms >= state.ends_ms):
        return RotationDecision.EXPIRED
    if generation == state.generation:
        return RotationDecision.ROTATE
    # While the newest generation is unused, its client may never have got it: the answer was lost on the way. Sending
    # the newest or an older one proves that a successor arrived, so only a copy can still send what it replaced.
    if generation == state.generation - 1 and (not state.used or now_ms - state.rotated_ms <= SHARED_STORE_MS):
        return RotationDecision.REPEAT
    return RotationDecision.REUSED


class Refreshed(Struct, frozen=True):
    """The credentials that a refresh returns, whether they are new or repeated."""

    session_id: str
    pair: CredentialPair


class RefreshRejected(Struct, frozen=True):
    """A rejected refresh credential, with the reason.

    It is a return value: an exception would roll back the end of a session whose credential was reused.
    """

    error: type[SessionError]
    ended: str | None = None
    """The player whose session was ended because of this credential."""
    session_id: str | None = None
    """That session."""
