"""What the handoff asks of its store: find, move along an arrow, deliver, sweep; each one unit of auth.db.

What the trips to providers ask of their store; each one unit of auth.db.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from gamed.config.model import Registration
from gamed.crypto import Index
from gamed.login.attempt import AuthorizationAttempt
from gamed.login.callback_rules import CallbackDecision
from gamed.login.keys import LoginLookup, PresentedProof
from gamed.login.policy import LoginQuota
from gamed.login.transaction import LoginTransaction
from gamed.outcomes import LoginFailure
from gamed.sessions.credentials import CredentialPair

TransitionFunction = Callable[[LoginTransaction], LoginTransaction]
"""Runs inside the transaction, perhaps more than once: pure. What it raises changes nothing."""


class Transition(Struct, frozen=True):
    """A login before and after a step that may have left it as it was."""

    before: LoginTransaction
    after: LoginTransaction

    @property
    def is_news(self) -> bool:
        """Whether a waiting game would be told something else now."""
        return self.before.stage is not self.after.stage


class NewSession(Struct, frozen=True):
    """What a first collect would make; drawn beforehand, because a unit may run twice."""

    player_id: str
    session_id: str
    pair: CredentialPair


class CollectCommand(Struct, frozen=True):
    """A game that comes for its credentials."""

    key: LoginLookup
    presented: PresentedProof | None
    fresh: NewSession
    registration: Registration
    now_ms: int


class CollectOutcome(Struct, frozen=True):
    """What became of a claim: the login now, and whether the proof shown was wrong."""

    move: Transition
    wrong: bool = False
    player_id: str | None = None
    """Whose sign-in or link it was, also of a newcomer who has to wait; None: nobody's."""
    broken: Mapping[str, str] | None = None
    """What could not be opened, as the owner is told: the login has ended by it."""


class LoginStore(Protocol):
    async def add(self, login: LoginTransaction, crowd: LoginQuota) -> Sequence[Index]:
        """One more, if there is a place for it; RateLimited and Crowded change nothing.

        The secret indexes of the logins that the clock, or this one in need of room, has ended.
        """

    async def find(self, key: LoginLookup) -> LoginTransaction | None:
        """As it was written, whatever the clock says since."""

    async def advance(self, key: LoginLookup, step: TransitionFunction) -> Transition | None:
        """Read, decide, write; None: no such login. A delivered login that is cancelled loses its session."""

    async def deliver(self, claim: CollectCommand) -> CollectOutcome | None:
        """The first proven collect: player, account, session, credentials and `delivered`, or nothing of it."""

    async def sweep(self, now_ms: int) -> tuple[Index, ...]:
        """Write down what the clock has ended and forget what ended an hour ago, some of each.

        The secret indexes of the logins that moved; a full batch means that there may be more.
        """

    async def interrupt(self, now_ms: int, started_ms: int | None) -> None:
        """After a restart, end the exchanges of the process before.

        `started_ms`: exchanges begun since then belong to this process and go on. None: end every exchange; nothing
        is read before that is committed or has failed.
        """


Rule = Callable[[AuthorizationAttempt | None, LoginTransaction | None], CallbackDecision]
"""Runs inside the transaction, perhaps more than once: pure."""


class AttemptStore(Protocol):
    async def begin(
        self, attempt: AuthorizationAttempt, key: LoginLookup, step: TransitionFunction
    ) -> Transition | None:
        """The step, and the attempt with it if the login is `authorizing` then; None: no such login."""

    async def spend(self, state: Index, rule: Rule) -> CallbackDecision:
        """Find by state, judge, write the verdict down: used and the login claimed, burned, or nothing."""


class SignInFailureLog(Protocol):
    """The owner's log: stable names, no value that a player, a browser or a provider sent."""

    def sign_in_failed(self, provider: str, outcome: LoginFailure, cause: str, request_id: str) -> None: ...

    def callback_rejected(self, provider: str, check: str, request_id: str) -> None: ...
