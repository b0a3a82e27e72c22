"""What the trips to providers ask of their store; each one unit of auth.db."""

from collections.abc import Callable
from typing import Protocol

from gamed.crypto import Index
from gamed.login.attempt import Attempt
from gamed.login.callback import Verdict
from gamed.login.entry import Key
from gamed.login.logins import Move, Step
from gamed.login.outcome import Outcome
from gamed.login.transaction import LoginTransaction

Rule = Callable[[Attempt | None, LoginTransaction | None], Verdict]
"""Runs inside the transaction, perhaps more than once: pure."""


class Attempts(Protocol):
    async def begin(self, attempt: Attempt, key: Key, step: Step) -> Move | None:
        """The step, and the attempt with it if the login is `authorizing` then; None: no such login."""

    async def spend(self, state: Index, rule: Rule) -> Verdict:
        """Find by state, judge, write the verdict down: used and the login claimed, burned, or nothing."""


class Journal(Protocol):
    """The owner's log: stable names, no value that a player, a browser or a provider sent."""

    def sign_in_failed(self, provider: str, outcome: Outcome, cause: str, request_id: str) -> None: ...

    def callback_rejected(self, provider: str, check: str, request_id: str) -> None: ...
