"""The services of a login depend on these interfaces: its store, the providers, and the operator's log."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
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
from gamed.providers.base import IdentityProvider
from gamed.rate_limit import RateLimit
from gamed.sessions.credentials import CredentialPair
from gamed.structs import Component

TransitionFunction = Callable[[LoginTransaction], LoginTransaction]
"""A pure function that runs inside the transaction, perhaps more than once. An exception changes nothing."""
CallbackRule = Callable[[AuthorizationAttempt | None, LoginTransaction | None], CallbackDecision]
"""A pure function that runs inside the transaction, perhaps more than once."""


class Transition(Struct, frozen=True):
    """A login before and after a step, which may have left it unchanged."""

    before: LoginTransaction
    after: LoginTransaction

    @property
    def stage_changed(self) -> bool:
        """Return whether a waiting game has to be notified."""
        return self.before.stage is not self.after.stage


class NewSession(Struct, frozen=True):
    """The ids and credentials that a first collect would use; drawn before, because a transaction may run twice."""

    player_id: str
    session_id: str
    pair: CredentialPair


class CollectCommand(Struct, frozen=True):
    """A collect as the store executes it."""

    key: LoginLookup
    presented: PresentedProof | None
    new_session: NewSession
    registration: Registration
    now_ms: int


class CollectOutcome(Struct, frozen=True):
    """The transition that a collect made, and whether the proof was wrong."""

    transition: Transition
    wrong: bool = False
    player_id: str | None = None
    """The player who signed in, linked, or waits for approval."""
    undecryptable: Mapping[str, str] | None = None
    """The value that could not be decrypted, for the audit log; the login has ended because of it."""


class Account(Protocol):
    """A local account."""

    @property
    def player_id(self) -> str: ...

    @property
    def password(self) -> str: ...


class LoginStore(Protocol):
    """The data that logins read and write in auth.db; each method is one transaction and may raise DatabaseError."""

    def add(self, login: LoginTransaction, quota: LoginQuota) -> Awaitable[Sequence[Index]]:
        """Add a login; raise RateLimited or TooManyLogins, which change nothing.

        Return the secret indexes of the logins that have expired or were evicted.
        """

    def find(self, key: LoginLookup) -> Awaitable[LoginTransaction | None]:
        """Return the login as it was written; its deadline may have passed since."""

    def advance(self, key: LoginLookup, step: TransitionFunction) -> Awaitable[Transition | None]:
        """Read, decide, write; return None if the login is unknown. Cancelling a delivered login ends its session."""

    def collect(self, command: CollectCommand) -> Awaitable[CollectOutcome | None]:
        """Write player, account, session, credentials and the stage `delivered`, or nothing; None: unknown login."""

    def begin_attempt(
        self, attempt: AuthorizationAttempt, key: LoginLookup, step: TransitionFunction
    ) -> Awaitable[Transition | None]:
        """Advance the login, and add the attempt if it is `authorizing` then; return None if it is unknown."""

    def consume_attempt(self, state: Index, rule: CallbackRule) -> Awaitable[CallbackDecision]:
        """Find the attempt by its state, decide, and write the decision: used, invalidated, or nothing."""

    def expire(self, now_ms: int) -> Awaitable[tuple[Index, ...]]:
        """End some logins whose deadline has passed, and delete some that ended an hour ago.

        Return the secret indexes of the logins that changed; empty if none is left.
        """

    def interrupt(self, now_ms: int, started_ms: int | None) -> Awaitable[None]:
        """End the exchanges of an earlier process after a restart.

        `started_ms`: exchanges that began later belong to this process and continue. None: end every exchange; all
        reads wait until that is committed or has failed.
        """

    def find_account(self, index: Index) -> Awaitable[Account | None]:
        """Return the local account with this name index."""

    def any_unlinked_account(self) -> Awaitable[bool]:
        """Return whether a player has a local account and no identity at a provider."""

    def session_owner_name(self, session_id: str, now_ms: int) -> Awaitable[str | None]:
        """Return the local account's name or else the id of the session's player; None if the session has ended."""

    def orphaned_identities(self, realms: Collection[Index]) -> Awaitable[int]:
        """Return how many identities belong to none of these namespaces (gamed.providers.discovery)."""

    def acquire(self, buckets: Mapping[Index, RateLimit], now_ms: int) -> Awaitable[None]:
        """Count a request against all buckets; raise RateLimited, which counts against none."""

    def delete_idle_buckets(self, now_ms: int) -> Awaitable[None]:
        """Delete the buckets that limit no client any more."""


class ProviderAccess(Component, frozen=True):
    """The configured providers by name, the server's base URL, and the log of sign-ins that fail at a provider."""

    providers: Mapping[str, IdentityProvider]
    """Empty in local mode."""
    base_url: Callable[[], str]
    """Without `public_url` it is known when the port is bound."""
    sign_in_failed: Callable[[str, LoginFailure, str, str], object]
    """Logs provider, outcome, cause and request id for the operator, without a value from a browser or a provider."""

    def redirect_uri(self, name: str) -> str:
        """Return the redirect URI that has to be registered at the provider (SPEC 4.2)."""
        return f"{self.base_url()}/auth/{name}/callback"
