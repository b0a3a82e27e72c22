"""The refresh table of PROTOCOL 3.7 as a pure rule: what a refresh credential gets, and why.

Each rotation is one more generation of the session. A credential belongs to the generation it was made for, so
"current", "immediate predecessor" and "older" are the newest generation, the one before it, and all before that.
"""

from enum import Enum

from msgspec import Struct
from msgspec.structs import replace

from gamed.sessions.credentials import CredentialPair
from gamed.sessions.errors import SessionError

SHARED_STORE_MS = 30_000
"""How long after its first hand-out a successor that is in use already is given to the predecessor once more:
two processes of one player that share one stored credential may both have sent it."""


class RotationDecision(Enum):
    """What the credential gets."""

    ROTATE = "a new generation"
    REPEAT = "the newest generation once more"
    REUSED = "the session ends: somebody else holds a copy"
    EXPIRED = "nothing: its time is over"
    REVOKED = "nothing: the session ended before"


class RotationState(Struct, frozen=True):
    """A session's newest generation; instants in epoch milliseconds."""

    generation: int
    rotated_ms: int
    """When this generation was first handed out; repeating it does not move this."""
    used: bool
    """One of its credentials was presented: an access token anywhere, or the refresh credential."""
    revoked: bool
    ends_ms: int | None
    """The session's greatest age, if it has one."""

    def rotated(self, now_ms: int) -> "RotationState":
        """The next generation, handed out now and not used yet."""
        return replace(self, generation=self.generation + 1, rotated_ms=now_ms, used=False)

    def marked(self, generation: int) -> "RotationState":
        """After a credential of `generation` was presented."""
        return replace(self, used=self.used or generation == self.generation)


def decide(line: RotationState, generation: int, expires_ms: int, now_ms: int) -> RotationDecision:
    """The answer for a credential of `generation` that expires at `expires_ms`."""
    if line.revoked:
        return RotationDecision.REVOKED
    if now_ms >= expires_ms or (line.ends_ms is not None and now_ms >= line.ends_ms):
        return RotationDecision.EXPIRED
    if generation == line.generation:
        return RotationDecision.ROTATE
    if generation == line.generation - 1 and (not line.used or now_ms - line.rotated_ms <= SHARED_STORE_MS):
        return RotationDecision.REPEAT
    return RotationDecision.REUSED


class Refreshed(Struct, frozen=True):
    """What a refresh hands out, whether it was made now or before."""

    session_id: str
    pair: CredentialPair


class RefreshRejected(Struct, frozen=True):
    """Why a credential got nothing; a return value, because what was written along with it must stay."""

    error: type[SessionError]
    ended: str | None = None
    """The player whose session ended over it."""
    session_id: str | None = None
    """That session."""

    def __eq__(self, other: object) -> bool:
        """Compare all but the session."""
        return isinstance(other, RefreshRejected) and (self.error, self.ended) == (other.error, other.ended)

    def __hash__(self) -> int:
        return hash((self.error, self.ended))
