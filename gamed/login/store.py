"""The store of logins runs each operation as one transaction of auth.db.

See docs/protocol.md: Signing in; docs/owners/configuration.md: Limits.
"""

from collections.abc import Awaitable, Callable, Collection, Container, Mapping, Sequence
from typing import TypeVar

from msgspec.structs import replace
from twisted.internet.defer import Deferred

from gamed.crypto import Index, Keys
from gamed.database import rate_limits
from gamed.database.connection import Connection, Transaction, is_storable
from gamed.database.queues import ReadQueue, WriteQueue
from gamed.login import collect_store, tables
from gamed.login.attempt import AttemptStatus, AuthorizationAttempt
from gamed.login.callback_rules import INVALIDATES_ATTEMPT, CallbackCheck, CallbackDecision
from gamed.login.collect_rules import CollectCommand, CollectOutcome
from gamed.login.errors import TooManyLogins
from gamed.login.keys import LOCAL, LoginLookup
from gamed.login.policy import LoginQuota, per_address
from gamed.login.transaction import ClientInfo, LoginEvent, LoginStage, LoginTransaction, Transition, TransitionFunction
from gamed.long_poll import Waiter
from gamed.passkeys import ways_tables
from gamed.players import tables as player_tables
from gamed.players.model import NamedPlayer
from gamed.players.tables import LocalAccount
from gamed.rate_limit import RateLimit, RateLimited
from gamed.sessions import tables as session_tables
from gamed.structs import Component
from gamed.timestamps import CLOCKS_MS

T = TypeVar("T")
CallbackRule = Callable[[AuthorizationAttempt | None, LoginTransaction | None], CallbackDecision]
"""A pure function that runs inside the transaction, perhaps more than once."""
FindEnded = Callable[[Collection[str]], Awaitable[Collection[str]]]
"""A function that returns which of some processes have ended; this process has not."""


class LoginStore(Component, frozen=True, kw_only=True):
    """The data that logins read and write in auth.db.

    Each method is one transaction and may raise DatabaseError; an exception leaves no trace of its transaction.
    """

    reads: ReadQueue
    writes: WriteQueue
    keys: Keys
    first_used: Container[str] = frozenset()
    """Sessions whose first use is not committed yet."""

    def _change(self, transaction: Transaction[T]) -> Deferred[T]:
        """Run a transaction that writes logins and attempts only."""
        return self.writes.submit(transaction, keys=(session_tables.LOGINS,))

    def add(self, login: LoginTransaction, quota: LoginQuota) -> Deferred[Sequence[Index]]:
        """Add a login; raise RateLimited or TooManyLogins, which change nothing.

        Return the secret indexes of the logins that have expired or were evicted.
        """
        return self.writes.submit(
            lambda connection: start_login(connection, login, quota), keys=(session_tables.LOGINS, rate_limits.LIMITS)
        )

    async def find(self, key: LoginLookup) -> LoginTransaction | None:
        """Return the login as it was written; its deadline may have passed since."""
        # Here, because each id from outside is looked up here before any transaction gets it.
        if isinstance(key.value, str) and not is_storable(key.value):
            return None
        return self._used(await self.reads.submit(lambda connection: tables.find_login(connection, key)))

    async def find_result(self, login_id: str) -> tuple[LoginTransaction | None, int | None]:
        """Return the login as find() does, and how many recovery codes are left if one of them opened its session."""
        if not is_storable(login_id):
            return None, None

        def read(connection: Connection) -> tuple[LoginTransaction | None, int | None]:
            login = tables.find_login(connection, LoginLookup("login_id", login_id))
            if login is None or login.provider != LOCAL or login.session_id is None:
                return login, None
            return login, ways_tables.codes_left_after(connection, login.session_id)

        login, left = await self.reads.submit(read)
        return self._used(login), left

    def _used(self, login: LoginTransaction | None) -> LoginTransaction | None:
        # A read while the disk was full used the credentials, which is only in memory: they are not delivered again.
        if login is not None and login.stage is LoginStage.DELIVERED and login.session_id in self.first_used:
            return login.apply(LoginEvent.ACKNOWLEDGE, login.stage_ms)
        return login

    def advance(self, key: LoginLookup, step: TransitionFunction) -> Deferred[Transition | None]:
        """Read, decide, write; return None if the login is unknown. The step does not cancel a login."""
        return self._change(lambda connection: tables.advance_login(connection, key, step))

    def cancel(self, key: LoginLookup, step: TransitionFunction) -> Deferred[Transition | None]:
        """Do what advance() does with a step that may cancel; cancelling a delivered login ends its session."""
        return self.writes.submit(lambda connection: tables.advance_login(connection, key, step))

    def collect(self, command: CollectCommand) -> Deferred[CollectOutcome | None]:
        """Write player, account, session, credentials and the stage `delivered`, or nothing; None: unknown login."""
        return self.writes.submit(lambda connection: collect_store.collect_login(connection, self.keys, command))

    def begin_attempt(
        self, attempt: AuthorizationAttempt, key: LoginLookup, step: TransitionFunction
    ) -> Deferred[Transition | None]:
        """Advance the login, and add the attempt if it is `authorizing` then; return None if it is unknown."""
        return self._change(lambda connection: begin_attempt(connection, attempt, key, step))

    def consume_attempt(self, state: Index, rule: CallbackRule) -> Deferred[CallbackDecision]:
        """Find the attempt by its state, decide, and write the decision: used, invalidated, or nothing."""
        return self._change(lambda connection: consume_attempt(connection, state, rule))

    def expire(self, now_ms: int) -> Deferred[tuple[Index, ...]]:
        """End some logins whose deadline has passed, and delete some that ended an hour ago.

        Return the secret indexes of the logins that changed; empty if none is left.
        """
        return self._change(lambda connection: tables.expire_logins(connection, now_ms))

    async def interrupt(self, ended: FindEnded, now_ms: int) -> Sequence[LoginTransaction]:
        """End the exchanges of processes that have ended; return their logins."""
        processes = await ended(await self.reads.submit(tables.exchanging_instances))
        return await self._interrupt(processes, now_ms) if processes else ()

    async def interrupt_first(self, ended: FindEnded, now_ms: int) -> None:
        """Do what interrupt() does, before the first request: all reads wait until that is committed or has failed."""
        reads_paused = self.reads.pause()
        try:
            await reads_paused
            processes = await ended(await self._change(tables.exchanging_instances))
            if processes:
                await self._interrupt(processes, now_ms)
        finally:
            self.reads.resume()

    def _interrupt(self, processes: Collection[str], now_ms: int) -> Deferred[Sequence[LoginTransaction]]:
        return self._change(lambda connection: tables.interrupt_logins(connection, processes, now_ms))

    def find_account(self, index: Index) -> Deferred[LocalAccount | None]:
        return self.reads.submit(lambda connection: player_tables.find_account(connection, index))

    def any_unlinked_account(self) -> Deferred[bool]:
        """Return whether a player has a local account and no identity at a provider."""
        return self.reads.submit(player_tables.any_unlinked)

    def session_owner_name(self, session_id: str, now_ms: int) -> Deferred[str | None]:
        """Return display name and account name (or id) of the session's player; None if the session has ended."""

        def transaction(connection: Connection) -> str | None:
            player_id = session_tables.living_player(connection, session_id, now_ms)
            if player_id is None:
                return None
            named = player_tables.find_named(connection, self.keys, player_id)
            known = named.name or player_id  # a display name alone proves nothing: each player chooses it
            return known if named.display_name is None else f"\u2068{named.display_name}\u2069 ({known})"

        return self.reads.submit(transaction)

    def has_player(self, identity: Index) -> Deferred[bool]:
        return self.reads.submit(lambda connection: player_tables.identity_owner(connection, identity) is not None)

    def created_player(self, login_id: str) -> Deferred[NamedPlayer | None]:
        """Return the player whom a collected login made, as long as its session lasts."""

        def transaction(connection: Connection) -> NamedPlayer | None:
            player_id = tables.find_created_player(connection, login_id)
            return None if player_id is None else player_tables.find_named(connection, self.keys, player_id)

        return self.reads.submit(transaction)

    def name_created_player(self, login_id: str, name: str) -> Deferred[bool]:
        """Store the display name of the player whom a login made; return False if there is none, or one has a name."""

        def transaction(connection: Connection) -> bool:
            player_id, sealer = tables.find_created_player(connection, login_id), self.keys.sealer
            if player_id is None or player_tables.display_name_of(connection, sealer, player_id) is not None:
                return False
            return player_tables.set_display_name(connection, sealer, player_id, name)

        return self.writes.submit(transaction)

    def orphaned_identities(self, realms: Collection[Index]) -> Deferred[int]:
        """Return how many identities belong to none of these namespaces (gamed.providers.base)."""
        return self.reads.submit(lambda connection: player_tables.orphaned_identities(connection, realms))

    def acquire(self, buckets: Mapping[Index, RateLimit], now_ms: int) -> Deferred[None]:
        """Count a request against all buckets; raise RateLimited, which counts against none."""
        return self.writes.submit(
            lambda connection: rate_limits.acquire(connection, buckets, now_ms), keys=(rate_limits.LIMITS,)
        )

    async def count_request(self, purpose: bytes, address: str, per_minute: int, now_ms: int) -> None:
        """Count a request of a client's networks; raise RateLimited. A rate of 0 is no limit."""
        buckets = per_address(self.keys.indexer, purpose, address, RateLimit.per_minute(per_minute))
        if buckets:
            await self.acquire(buckets, now_ms)

    async def delete_idle_buckets(self, now_ms: int) -> None:
        """Delete the buckets that limit no client any more."""
        rows = rate_limits.CLEANUP_ROWS
        while rows >= rate_limits.CLEANUP_ROWS:
            rows = await self.writes.submit(
                lambda connection: rate_limits.delete_idle(connection, now_ms), keys=(rate_limits.LIMITS,)
            )


_CALLBACK = b"callback "


def callback_key(secret: Index) -> bytes:
    """Return the key under which a second callback waits for the first one of the login with this secret index."""
    return _CALLBACK + secret


def advanced_logins(connection: Connection, waiters: Sequence[Waiter]) -> list[Waiter]:
    """Return the waiters whose login has another stage than they know."""
    secrets = {waiter: Index(waiter.key.removeprefix(_CALLBACK)) for waiter in waiters}
    stages = tables.find_stages(connection, list(secrets.values()))
    return [waiter for waiter, secret in secrets.items() if stages.get(secret) is not waiter.known]


def begin_attempt(
    connection: Connection, attempt: AuthorizationAttempt, key: LoginLookup, step: TransitionFunction
) -> Transition | None:
    """Advance the login, and add the attempt if the login is `authorizing` then."""
    transition = tables.advance_login(connection, key, step)
    if transition is not None and transition.after.stage is LoginStage.AUTHORIZING:
        tables.insert_attempt(connection, attempt)
    return transition


def consume_attempt(connection: Connection, state: Index, rule: CallbackRule) -> CallbackDecision:
    """Read, decide, write; the transaction makes check 8 of docs/internals/rules.md a compare-and-set."""
    attempt = tables.find_attempt(connection, state)
    login = None if attempt is None else tables.find_login(connection, LoginLookup("login_id", attempt.login_id))
    decision = rule(attempt, login)
    if attempt is None or login is None or decision.login is None:
        return decision
    if decision.check in INVALIDATES_ATTEMPT:
        tables.close_attempt(connection, attempt, AttemptStatus.INVALIDATED)
    if decision.check is CallbackCheck.EXCHANGE:
        tables.close_attempt(connection, attempt, AttemptStatus.USED)
        tables.erase_attempt_secrets(connection, attempt.login_id)
        tables.save_login(connection, Transition(login, decision.login))
    return decision


MAX_ENDED_LOGINS = 5_000
"""With more ended logins than these the oldest are deleted before their hour is over."""
EVICTED_ROWS = 200
"""The most logins that one start evicts; more than one only after the limit was lowered."""
RETRY_MS = 60_000
"""The longest wait that a client is asked for, because most sign-ins end before they expire."""
CLIENT_INFO_BYTES = 192
"""A long client description; four members of 64 characters can be five times that."""
LIVE = "stage IN ('pending', 'authorizing', 'exchanging', 'ready')"
ENDED = "stage IN ('collected', 'denied', 'failed', 'cancelled', 'expired')"


def start_login(connection: Connection, login: LoginTransaction, quota: LoginQuota) -> Sequence[Index]:
    """Add a login within its limits; raise RateLimited or TooManyLogins.

    Return the secret indexes of the logins that expired or were evicted.
    """
    rate_limits.acquire(connection, quota.buckets, login.created_ms)
    if quota.live_per_address:
        _check_quota(connection, "address_index", login.address_index, quota.live_per_address, login)
        if login.wide_index is not None:
            _check_quota(connection, "wide_index", login.wide_index, quota.live_per_wide, login)
    ended = _evict_pending(connection, quota.live, login) if quota.live else ()
    tables.insert_login(connection, _without_client_info(connection, quota.live, login))
    excess = _count_logins(connection, ENDED) - MAX_ENDED_LOGINS
    if excess > 0:
        query = f"""
            DELETE FROM login WHERE login_id IN (
                SELECT login_id FROM login WHERE {ENDED} ORDER BY stage_ms LIMIT :rows)
        """
        connection.execute(query, {"rows": min(excess, EVICTED_ROWS)})
    return ended


def _check_quota(connection: Connection, column: str, index: Index, limit: int, login: LoginTransaction) -> None:
    """Raise RateLimited at the limit of live logins.

    A login that would outlive this one by more than CLOCKS_MS began before the clock was set back and does not count.
    """
    query = f"""
        SELECT count(*), min(expires_ms) FROM login
        WHERE {column} = :index AND expires_ms > :now_ms AND expires_ms <= :expires_ms AND {LIVE}
    """
    values = {"index": index, "now_ms": login.created_ms, "expires_ms": login.expires_ms + CLOCKS_MS}
    count, first_ms = connection.execute(query, values).fetchone()
    if count >= limit:
        raise RateLimited(min(first_ms - login.created_ms, RETRY_MS))


def _evict_pending(connection: Connection, live: int, login: LoginTransaction) -> Sequence[Index]:
    """Expire what is due, then the oldest pending logins, until one more fits; raise TooManyLogins."""
    if _count_logins(connection, LIVE) < live:
        return ()
    expired = tables.expire_logins(connection, login.created_ms)
    excess = _count_logins(connection, LIVE) - live + 1
    if excess <= 0:
        return expired
    values = {"expires_ms": login.expires_ms + CLOCKS_MS, "rows": min(excess, EVICTED_ROWS)}
    # those that began before the clock was set back come first
    evicted = tables.select_logins(connection, "stage = 'pending' AND expires_ms > :expires_ms LIMIT :rows", values)
    if not evicted:
        evicted = tables.select_logins(connection, "stage = 'pending' ORDER BY expires_ms LIMIT :rows", values)
    if not evicted:
        raise TooManyLogins
    for each in evicted:
        tables.save_login(connection, Transition(each, each.apply(LoginEvent.EXPIRE, login.created_ms)))
    return (*expired, *(each.secret_index for each in evicted))


def _without_client_info(connection: Connection, live: int, login: LoginTransaction) -> LoginTransaction:
    """Return the login without a long client description when many logins are live: it would fill the file."""
    short = len(login.client.to_json().encode()) <= CLIENT_INFO_BYTES
    if not live or short or _count_logins(connection, LIVE) < live // 8:
        return login
    return replace(login, client=ClientInfo(confirms=login.client.confirms))


def _count_logins(connection: Connection, stages: str) -> int:
    """Count logins by a table that triggers maintain, because counting rows takes longer the more there are."""
    [(count,)] = connection.execute(f"SELECT coalesce(sum(logins), 0) FROM login_count WHERE {stages}").fetchall()
    return int(count)
