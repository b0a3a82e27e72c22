"""One handoff as a table of stages and events (PROTOCOL 3); pure, so that every arrow can be tried."""

from enum import Enum
from hmac import compare_digest
from typing import Self

from msgspec import Struct
from msgspec.structs import replace

from gamed.crypto import Index
from gamed.login.client import Client
from gamed.login.errors import LoginExpired, OutOfOrder
from gamed.login.outcome import Outcome

EXCHANGE_GRACE_MS = 15_000
"""An exchange begun in time may end this much late."""
EXCHANGE_MS = 60_000
"""What has not ended by then never will: a provider is asked for 10 s, its answer written down or not at all."""
DELIVERED_MS = 10 * 60_000
"""How long a repeated collect gives the same credentials."""


class Stage(Enum):
    PENDING = "pending"
    AUTHORIZING = "authorizing"
    EXCHANGING = "exchanging"
    READY = "ready"
    DELIVERED = "delivered"
    COLLECTED = "collected"
    DENIED = "denied"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"


class Event(Enum):
    OPEN = "open"
    CALLBACK = "callback"
    IDENTIFIED = "identified"
    REFUSED = "refused"
    COLLECT = "collect"
    EXHAUST = "exhaust"
    ACKNOWLEDGE = "acknowledge"
    LAPSE = "lapse"
    DECLINE = "decline"
    CANCEL = "cancel"
    EXPIRE = "expire"
    INTERRUPT = "interrupt"


class Intent(Enum):
    LOGIN = "login"
    LINK = "link"
    ADOPT = "adopt"


class Proof(Enum):
    """How the game will have to show that it belongs to the browser."""

    NONE = "none"
    LOOPBACK_OR_CODE = "loopback_or_code"
    CODE = "code"


MEANING = {
    Event.OPEN: "a browser begins an attempt",
    Event.CALLBACK: "an attempt comes back first",
    Event.IDENTIFIED: "it is known who signs in",
    Event.REFUSED: "the sign-in cannot go on",
    Event.COLLECT: "the game collects with a valid proof",
    Event.EXHAUST: "the fifth wrong finish code",
    Event.ACKNOWLEDGE: "a credential is used",
    Event.LAPSE: "ten minutes after the first collect",
    Event.DECLINE: '"This was not me"',
    Event.CANCEL: "the game gives up",
    Event.EXPIRE: "the time is over",
    Event.INTERRUPT: "the service restarts, or the exchange comes to nothing",
}

NEXT = {
    (Stage.PENDING, Event.OPEN): Stage.AUTHORIZING,
    (Stage.PENDING, Event.DECLINE): Stage.DENIED,
    (Stage.PENDING, Event.CANCEL): Stage.CANCELLED,
    (Stage.PENDING, Event.EXPIRE): Stage.EXPIRED,
    (Stage.AUTHORIZING, Event.OPEN): Stage.AUTHORIZING,
    (Stage.AUTHORIZING, Event.CALLBACK): Stage.EXCHANGING,
    (Stage.AUTHORIZING, Event.DECLINE): Stage.DENIED,
    (Stage.AUTHORIZING, Event.CANCEL): Stage.CANCELLED,
    (Stage.AUTHORIZING, Event.EXPIRE): Stage.EXPIRED,
    (Stage.EXCHANGING, Event.IDENTIFIED): Stage.READY,
    (Stage.EXCHANGING, Event.REFUSED): Stage.FAILED,
    (Stage.EXCHANGING, Event.INTERRUPT): Stage.FAILED,
    (Stage.EXCHANGING, Event.CANCEL): Stage.CANCELLED,
    (Stage.EXCHANGING, Event.EXPIRE): Stage.EXPIRED,
    (Stage.READY, Event.COLLECT): Stage.DELIVERED,
    (Stage.READY, Event.REFUSED): Stage.FAILED,
    (Stage.READY, Event.EXHAUST): Stage.FAILED,
    (Stage.READY, Event.DECLINE): Stage.DENIED,
    (Stage.READY, Event.CANCEL): Stage.CANCELLED,
    (Stage.READY, Event.EXPIRE): Stage.EXPIRED,
    (Stage.DELIVERED, Event.ACKNOWLEDGE): Stage.COLLECTED,
    (Stage.DELIVERED, Event.LAPSE): Stage.COLLECTED,
    (Stage.DELIVERED, Event.CANCEL): Stage.CANCELLED,
}

FINAL = frozenset({Stage.DENIED, Stage.FAILED, Stage.CANCELLED, Stage.EXPIRED, Stage.COLLECTED})
UNDECIDED = frozenset({Stage.PENDING, Stage.AUTHORIZING})
"""No browser has won yet."""

OUTCOME = {
    Event.DECLINE: Outcome.LOGIN_DENIED,
    Event.CANCEL: Outcome.LOGIN_CANCELLED,
    Event.EXPIRE: Outcome.LOGIN_EXPIRED,
    Event.EXHAUST: Outcome.PROOF_ATTEMPTS_EXCEEDED,
    Event.INTERRUPT: Outcome.LOGIN_INTERRUPTED,
}
"""What these events leave behind; `refused` brings its own."""


class LoginTransaction(Struct, frozen=True):
    """The server's record of one handoff (SPEC 2.3); sealed and indexed values only, nothing in clear."""

    login_id: str
    secret_index: Index
    token_index: Index
    intent: Intent
    provider: str
    client: Client
    return_proof: Proof
    loopback_port: int | None
    address_index: Index
    created_ms: int
    expires_ms: int
    stage_ms: int
    """When this stage was entered."""
    stage: Stage = Stage.PENDING
    outcome: Outcome | None = None
    requesting_session_id: str | None = None
    browser_index: Index | None = None
    """The browser whose attempt won."""
    returned_to_game: bool = False
    """That browser was sent to the loopback port once."""
    sealed_identity: bytes | None = None
    sealed_proof: bytes | None = None
    wrong_codes: int = 0
    session_id: str | None = None
    pending_id: str | None = None
    """The player whom the owner has to approve first, when that is the outcome."""
    sealed_result: bytes | None = None
    wide_index: Index | None = None
    """Of the starter's /48, which has a limit of its own; `address_index` is of what counts as one client."""

    def __repr__(self) -> str:
        """No index and nothing sealed."""
        return f"LoginTransaction({self.login_id!r}, {self.provider!r}, {self.stage}, {self.outcome})"

    def won_by(self, browser: Index | None) -> bool:
        """Whether this is the browser whose attempt won."""
        winner = self.browser_index
        return winner is not None and browser is not None and compare_digest(winner, browser)

    @property
    def returnable(self) -> bool:
        """Whether the winning browser should still be sent to the loopback port."""
        return self.stage is Stage.READY and self.return_proof is Proof.LOOPBACK_OR_CODE and not self.returned_to_game

    @property
    def final(self) -> bool:
        return self.stage in FINAL

    @property
    def deadline_ms(self) -> int:
        """When the clock ends this stage: `expire` (or `interrupt`) before the first collect, `lapse` after it."""
        if self.stage is Stage.DELIVERED:
            return self.stage_ms + DELIVERED_MS
        if self.stage is Stage.EXCHANGING:
            return min(self.stage_ms + EXCHANGE_MS, self.expires_ms + EXCHANGE_GRACE_MS)
        late = self.stage is Stage.READY and self.stage_ms >= self.expires_ms
        return self.expires_ms + (EXCHANGE_GRACE_MS if late else 0)

    def at(self, now_ms: int) -> Self:
        """The same login as the clock sees it: a deadline that has passed is an arrow taken, swept or not."""
        if self.final or now_ms < self.deadline_ms:
            return self
        return self._follow(self._end, self.deadline_ms)

    @property
    def _end(self) -> Event:
        """What the clock makes of this stage."""
        if self.stage is Stage.DELIVERED:
            return Event.LAPSE
        in_time = self.deadline_ms < self.expires_ms + EXCHANGE_GRACE_MS
        return Event.INTERRUPT if self.stage is Stage.EXCHANGING and in_time else Event.EXPIRE

    def after(self, event: Event, now_ms: int) -> Self:
        """Takes the arrow; OutOfOrder (or LoginExpired, when only the clock forbids it) changes nothing."""
        current = self.at(now_ms)
        if (current.stage, event) in NEXT:
            return current._follow(event, now_ms)
        if current.stage is Stage.EXPIRED:
            raise LoginExpired("This sign-in took too long. Start again from the game.")
        raise OutOfOrder(f"{event.value} while {current.stage.value}")

    def opened(self, now_ms: int) -> Self:
        """Some browser is there; once one has won that is no news."""
        current = self.at(now_ms)
        return current.after(Event.OPEN, now_ms) if current.stage in UNDECIDED else current

    def refused(self, outcome: Outcome, now_ms: int) -> Self:
        return replace(self.after(Event.REFUSED, now_ms), outcome=outcome)

    def claimed(self, browser: Index, now_ms: int) -> Self:
        """From now on the login belongs to this browser."""
        return replace(self.after(Event.CALLBACK, now_ms), browser_index=browser)

    def identified(self, identity: bytes, proof: bytes, now_ms: int) -> Self:
        """`identity` and `proof` come sealed."""
        return replace(self.after(Event.IDENTIFIED, now_ms), sealed_identity=identity, sealed_proof=proof)

    def delivered(self, session_id: str, result: bytes, now_ms: int) -> Self:
        """`result` comes sealed; who signed in and the proof have served."""
        delivered = self.after(Event.COLLECT, now_ms)
        return replace(delivered, session_id=session_id, sealed_result=result, sealed_identity=None, sealed_proof=None)

    def linked(self, now_ms: int) -> Self:
        """As delivered(), where the game wanted nothing but a link: it made no session and hands out nothing."""
        return replace(self.after(Event.COLLECT, now_ms), sealed_identity=None, sealed_proof=None)

    def lost(self, now_ms: int) -> Self:
        """Delivered, but nobody can open what was: the session ends, and the game is told to sign in again."""
        return replace(self.after(Event.CANCEL, now_ms), outcome=Outcome.LOGIN_INTERRUPTED)

    def sent_back(self) -> Self:
        """The browser goes to the loopback port now, if it should."""
        return replace(self, returned_to_game=True) if self.returnable else self

    def _follow(self, event: Event, now_ms: int) -> Self:
        stage = NEXT[self.stage, event]
        if stage is self.stage:
            return self
        moved = replace(self, stage=stage, stage_ms=now_ms)
        if stage not in FINAL:
            return moved
        erased = replace(moved, client=Client(), sealed_identity=None, sealed_proof=None, sealed_result=None)
        return replace(erased, outcome=OUTCOME.get(event))
