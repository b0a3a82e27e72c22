"""What a device says about itself: its own words, cleaned, believed by nobody (PROTOCOL 3.1).

One handoff as a table of stages and events (PROTOCOL 3); pure, so that every arrow can be tried.
"""

from collections.abc import Mapping
from enum import Enum
from hmac import compare_digest
from typing import Self
from unicodedata import category, normalize

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from gamed.crypto import Index
from gamed.login.errors import InvalidTransition, LoginExpired
from gamed.outcomes import LoginFailure
from gamed.players.names import COMPOSED_OF

MAX_CHARACTERS = 64
_BIDIRECTIONAL = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_UNSEEN = frozenset({"Cc", "Cs", "Zl", "Zp"})
"""Controls, lone surrogates, line and paragraph separators."""


class ClientInfoTooLong(ValueError):
    """A word keeps more than 64 characters when cleaned."""

    def __init__(self, word: str) -> None:
        self.word = word
        super().__init__(f"at most {MAX_CHARACTERS} characters")


class ClientInfo(msgspec.Struct, frozen=True, omit_defaults=True):
    """The four words; absent ones are None."""

    name: str | None = None
    version: str | None = None
    platform: str | None = None
    device_name: str | None = None

    @classmethod
    def of(cls, words: Mapping[str, str | None]) -> "ClientInfo":
        """Cleaned; WordsTooLong names the first word that does not fit."""
        return cls(**{word: _fitting(word, words.get(word)) for word in cls.__struct_fields__})

    @classmethod
    def from_json(cls, text: str) -> "ClientInfo":
        return msgspec.json.decode(text, type=cls)

    def to_json(self) -> str:
        return msgspec.json.encode(self).decode()


def _fitting(word: str, text: str | None) -> str | None:
    """Return the text in NFC, without control and bidirectional characters and without space around it.

    Return None if nothing is left; raise WordsTooLong if more than MAX_CHARACTERS are. The length is checked before the
    text is composed, which takes time with the square of it.
    """
    if not text:
        return None
    if not text.isascii() or not text.isprintable():
        text = "".join(c for c in text if category(c) not in _UNSEEN and c not in _BIDIRECTIONAL)
    text = text.strip()
    composed = normalize("NFC", text) if len(text) <= COMPOSED_OF * MAX_CHARACTERS else text
    if len(composed) > MAX_CHARACTERS:
        raise ClientInfoTooLong(word)
    return composed or None


EXCHANGE_GRACE_MS = 15_000
"""An exchange begun in time may end this much late."""
EXCHANGE_MS = 60_000
"""What has not ended by then never will: a provider is asked for 10 s, its answer written down or not at all."""
DELIVERED_MS = 10 * 60_000
"""How long a repeated collect gives the same credentials."""


class LoginStage(Enum):
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


class LoginEvent(Enum):
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


class LoginIntent(Enum):
    LOGIN = "login"
    LINK = "link"
    ADOPT = "adopt"


class ProofMethod(Enum):
    """How the game will have to show that it belongs to the browser."""

    NONE = "none"
    LOOPBACK_OR_CODE = "loopback_or_code"
    CODE = "code"


MEANING = {
    LoginEvent.OPEN: "a browser begins an attempt",
    LoginEvent.CALLBACK: "an attempt comes back first",
    LoginEvent.IDENTIFIED: "it is known who signs in",
    LoginEvent.REFUSED: "the sign-in cannot go on",
    LoginEvent.COLLECT: "the game collects with a valid proof",
    LoginEvent.EXHAUST: "the fifth wrong finish code",
    LoginEvent.ACKNOWLEDGE: "a credential is used",
    LoginEvent.LAPSE: "ten minutes after the first collect",
    LoginEvent.DECLINE: '"This was not me"',
    LoginEvent.CANCEL: "the game gives up",
    LoginEvent.EXPIRE: "the time is over",
    LoginEvent.INTERRUPT: "the service restarts, or the exchange comes to nothing",
}

NEXT = {
    (LoginStage.PENDING, LoginEvent.OPEN): LoginStage.AUTHORIZING,
    (LoginStage.PENDING, LoginEvent.DECLINE): LoginStage.DENIED,
    (LoginStage.PENDING, LoginEvent.CANCEL): LoginStage.CANCELLED,
    (LoginStage.PENDING, LoginEvent.EXPIRE): LoginStage.EXPIRED,
    (LoginStage.AUTHORIZING, LoginEvent.OPEN): LoginStage.AUTHORIZING,
    (LoginStage.AUTHORIZING, LoginEvent.CALLBACK): LoginStage.EXCHANGING,
    (LoginStage.AUTHORIZING, LoginEvent.DECLINE): LoginStage.DENIED,
    (LoginStage.AUTHORIZING, LoginEvent.CANCEL): LoginStage.CANCELLED,
    (LoginStage.AUTHORIZING, LoginEvent.EXPIRE): LoginStage.EXPIRED,
    (LoginStage.EXCHANGING, LoginEvent.IDENTIFIED): LoginStage.READY,
    (LoginStage.EXCHANGING, LoginEvent.REFUSED): LoginStage.FAILED,
    (LoginStage.EXCHANGING, LoginEvent.INTERRUPT): LoginStage.FAILED,
    (LoginStage.EXCHANGING, LoginEvent.CANCEL): LoginStage.CANCELLED,
    (LoginStage.EXCHANGING, LoginEvent.EXPIRE): LoginStage.EXPIRED,
    (LoginStage.READY, LoginEvent.COLLECT): LoginStage.DELIVERED,
    (LoginStage.READY, LoginEvent.REFUSED): LoginStage.FAILED,
    (LoginStage.READY, LoginEvent.EXHAUST): LoginStage.FAILED,
    (LoginStage.READY, LoginEvent.DECLINE): LoginStage.DENIED,
    (LoginStage.READY, LoginEvent.CANCEL): LoginStage.CANCELLED,
    (LoginStage.READY, LoginEvent.EXPIRE): LoginStage.EXPIRED,
    (LoginStage.DELIVERED, LoginEvent.ACKNOWLEDGE): LoginStage.COLLECTED,
    (LoginStage.DELIVERED, LoginEvent.LAPSE): LoginStage.COLLECTED,
    (LoginStage.DELIVERED, LoginEvent.CANCEL): LoginStage.CANCELLED,
}

FINAL = frozenset(
    {LoginStage.DENIED, LoginStage.FAILED, LoginStage.CANCELLED, LoginStage.EXPIRED, LoginStage.COLLECTED}
)
UNDECIDED = frozenset({LoginStage.PENDING, LoginStage.AUTHORIZING})
"""No browser has won yet."""

OUTCOME = {
    LoginEvent.DECLINE: LoginFailure.LOGIN_DENIED,
    LoginEvent.CANCEL: LoginFailure.LOGIN_CANCELLED,
    LoginEvent.EXPIRE: LoginFailure.LOGIN_EXPIRED,
    LoginEvent.EXHAUST: LoginFailure.PROOF_ATTEMPTS_EXCEEDED,
    LoginEvent.INTERRUPT: LoginFailure.LOGIN_INTERRUPTED,
}
"""What these events leave behind; `refused` brings its own."""


class LoginTransaction(Struct, frozen=True):
    """The server's record of one handoff (SPEC 2.3); sealed and indexed values only, nothing in clear."""

    login_id: str
    secret_index: Index
    token_index: Index
    intent: LoginIntent
    provider: str
    client: ClientInfo
    return_proof: ProofMethod
    loopback_port: int | None
    address_index: Index
    created_ms: int
    expires_ms: int
    stage_ms: int
    """When this stage was entered."""
    stage: LoginStage = LoginStage.PENDING
    outcome: LoginFailure | None = None
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
        return (
            self.stage is LoginStage.READY
            and self.return_proof is ProofMethod.LOOPBACK_OR_CODE
            and not self.returned_to_game
        )

    @property
    def final(self) -> bool:
        return self.stage in FINAL

    @property
    def deadline_ms(self) -> int:
        """When the clock ends this stage: `expire` (or `interrupt`) before the first collect, `lapse` after it."""
        if self.stage is LoginStage.DELIVERED:
            return self.stage_ms + DELIVERED_MS
        if self.stage is LoginStage.EXCHANGING:
            return min(self.stage_ms + EXCHANGE_MS, self.expires_ms + EXCHANGE_GRACE_MS)
        late = self.stage is LoginStage.READY and self.stage_ms >= self.expires_ms
        return self.expires_ms + (EXCHANGE_GRACE_MS if late else 0)

    def at(self, now_ms: int) -> Self:
        """The same login as the clock sees it: a deadline that has passed is an arrow taken, swept or not."""
        if self.final or now_ms < self.deadline_ms:
            return self
        return self._follow(self._end, self.deadline_ms)

    @property
    def _end(self) -> LoginEvent:
        """What the clock makes of this stage."""
        if self.stage is LoginStage.DELIVERED:
            return LoginEvent.LAPSE
        in_time = self.deadline_ms < self.expires_ms + EXCHANGE_GRACE_MS
        return LoginEvent.INTERRUPT if self.stage is LoginStage.EXCHANGING and in_time else LoginEvent.EXPIRE

    def after(self, event: LoginEvent, now_ms: int) -> Self:
        """Takes the arrow; OutOfOrder (or LoginExpired, when only the clock forbids it) changes nothing."""
        current = self.at(now_ms)
        if (current.stage, event) in NEXT:
            return current._follow(event, now_ms)
        if current.stage is LoginStage.EXPIRED:
            raise LoginExpired("This sign-in took too long. Start again from the game.")
        raise InvalidTransition(f"{event.value} while {current.stage.value}")

    def opened(self, now_ms: int) -> Self:
        """Some browser is there; once one has won that is no news."""
        current = self.at(now_ms)
        return current.after(LoginEvent.OPEN, now_ms) if current.stage in UNDECIDED else current

    def refused(self, outcome: LoginFailure, now_ms: int) -> Self:
        return replace(self.after(LoginEvent.REFUSED, now_ms), outcome=outcome)

    def claimed(self, browser: Index, now_ms: int) -> Self:
        """From now on the login belongs to this browser."""
        return replace(self.after(LoginEvent.CALLBACK, now_ms), browser_index=browser)

    def identified(self, identity: bytes, proof: bytes, now_ms: int) -> Self:
        """`identity` and `proof` come sealed."""
        return replace(self.after(LoginEvent.IDENTIFIED, now_ms), sealed_identity=identity, sealed_proof=proof)

    def delivered(self, session_id: str, result: bytes, now_ms: int) -> Self:
        """`result` comes sealed; who signed in and the proof have served."""
        delivered = self.after(LoginEvent.COLLECT, now_ms)
        return replace(delivered, session_id=session_id, sealed_result=result, sealed_identity=None, sealed_proof=None)

    def linked(self, now_ms: int) -> Self:
        """As delivered(), where the game wanted nothing but a link: it made no session and hands out nothing."""
        return replace(self.after(LoginEvent.COLLECT, now_ms), sealed_identity=None, sealed_proof=None)

    def lost(self, now_ms: int) -> Self:
        """Delivered, but nobody can open what was: the session ends, and the game is told to sign in again."""
        return replace(self.after(LoginEvent.CANCEL, now_ms), outcome=LoginFailure.LOGIN_INTERRUPTED)

    def sent_back(self) -> Self:
        """The browser goes to the loopback port now, if it should."""
        return replace(self, returned_to_game=True) if self.returnable else self

    def _follow(self, event: LoginEvent, now_ms: int) -> Self:
        stage = NEXT[self.stage, event]
        if stage is self.stage:
            return self
        moved = replace(self, stage=stage, stage_ms=now_ms)
        if stage not in FINAL:
            return moved
        erased = replace(moved, client=ClientInfo(), sealed_identity=None, sealed_proof=None, sealed_result=None)
        return replace(erased, outcome=OUTCOME.get(event))
