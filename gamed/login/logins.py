"""What the handoff asks of its store: find, move along an arrow, deliver, sweep; each one unit of auth.db."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from gamed.config.model import Registration
from gamed.crypto import Index
from gamed.login.crowd import Crowd
from gamed.login.entry import Key
from gamed.login.proof import Presented
from gamed.login.transaction import LoginTransaction
from gamed.sessions.credentials import Pair

Step = Callable[[LoginTransaction], LoginTransaction]
"""Runs inside the transaction, perhaps more than once: pure. What it raises changes nothing."""


class Move(Struct, frozen=True):
    """A login before and after a step that may have left it as it was."""

    before: LoginTransaction
    after: LoginTransaction

    @property
    def is_news(self) -> bool:
        """Whether a waiting game would be told something else now."""
        return self.before.stage is not self.after.stage


class Fresh(Struct, frozen=True):
    """What a first collect would make; drawn beforehand, because a unit may run twice."""

    player_id: str
    session_id: str
    pair: Pair


class Claim(Struct, frozen=True):
    """A game that comes for its credentials."""

    key: Key
    presented: Presented | None
    fresh: Fresh
    registration: Registration
    now_ms: int


class Delivery(Struct, frozen=True):
    """What became of a claim: the login now, and whether the proof shown was wrong."""

    move: Move
    wrong: bool = False
    player_id: str | None = None
    """Whose sign-in or link it was, also of a newcomer who has to wait; None: nobody's."""
    broken: Mapping[str, str] | None = None
    """What could not be opened, as the owner is told: the login has ended by it."""


class Logins(Protocol):
    async def add(self, login: LoginTransaction, crowd: Crowd) -> Sequence[Index]:
        """One more, if there is a place for it; RateLimited and Crowded change nothing.

        The secret indexes of the logins that the clock, or this one in need of room, has ended.
        """

    async def find(self, key: Key) -> LoginTransaction | None:
        """As it was written, whatever the clock says since."""

    async def advance(self, key: Key, step: Step) -> Move | None:
        """Read, decide, write; None: no such login. A delivered login that is cancelled loses its session."""

    async def deliver(self, claim: Claim) -> Delivery | None:
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
