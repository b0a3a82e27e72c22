"""An attempt begins, and its callback is judged: each with its login in one transaction (PROTOCOL 3.2, 3.3).

A login is let in, or not, in one transaction: how fast, how many from one address, how many in all (PROTOCOL 3.9).

What it raises leaves no trace: buckets, ended logins and its own row are one unit.

Handoffs, attempts, accounts and limits over the lanes: each call one unit of auth.db, mere reads apart.
"""

from collections.abc import Collection, Container, Mapping, Sequence
from sqlite3 import Connection

from msgspec.structs import replace

from gamed.crypto import Index, Keys
from gamed.database import rate_limits
from gamed.database.queues import ReadQueue, WriteQueue
from gamed.login import collect_store, tables
from gamed.login.attempt import AttemptStatus, AuthorizationAttempt
from gamed.login.callback_rules import INVALIDATES_ATTEMPT, CallbackCheck, CallbackDecision
from gamed.login.errors import TooManyLogins
from gamed.login.interfaces import CollectCommand, CollectOutcome, Rule, Transition, TransitionFunction
from gamed.login.keys import LoginLookup
from gamed.login.policy import LoginQuota
from gamed.login.transaction import ClientInfo, LoginEvent, LoginStage, LoginTransaction
from gamed.players import tables as player_tables
from gamed.players.tables import LocalAccount
from gamed.rate_limit import RateLimit, RateLimited
from gamed.sessions import tables as session_tables
from gamed.structs import Component


def begin_attempt(
    connection: Connection, attempt: AuthorizationAttempt, key: LoginLookup, step: TransitionFunction
) -> Transition | None:
    """The step, and the attempt if it leaves the login `authorizing`."""
    move = tables.advance_login(connection, key, step)
    if move is not None and move.after.stage is LoginStage.AUTHORIZING:
        tables.insert_attempt(connection, attempt)
    return move


def consume_attempt(connection: Connection, state: Index, rule: Rule) -> CallbackDecision:
    """Read, judge, write: the compare-and-set of check 8 is that nothing lies between."""
    attempt = tables.find_attempt(connection, state)
    login = None if attempt is None else tables.find_login(connection, LoginLookup.id(attempt.login_id))
    verdict = rule(attempt, login)
    if attempt is None or login is None or verdict.login is None:
        return verdict
    if verdict.ruling in INVALIDATES_ATTEMPT:
        tables.close_attempt(connection, attempt, AttemptStatus.BURNED)
    if verdict.ruling is CallbackCheck.EXCHANGE:
        tables.close_attempt(connection, attempt, AttemptStatus.USED)
        tables.erase_attempt_secrets(connection, attempt.login_id)
        tables.save_login(connection, Transition(login, verdict.login))
    return verdict


ENDED_ROWS = 5_000
"""So many logins that have ended are remembered for their hour; then the oldest are forgotten before it is over."""
ROOM_ROWS = 200
"""So many make room at once; more than one only after the limit was lowered."""
RETRY_MS = 60_000
"""A crowded address need not wait for the clock: most sign-ins end before their time."""
WORDS_BYTES = 192
"""What a device says of itself at some length; four words of 64 characters can be five times that."""
LIVE = "stage IN ('pending', 'authorizing', 'exchanging', 'ready')"
ENDED = "stage IN ('collected', 'denied', 'failed', 'cancelled', 'expired')"


def start_login(connection: Connection, login: LoginTransaction, crowd: LoginQuota) -> Sequence[Index]:
    """RateLimited or Crowded; else the secret indexes of the logins that ended meanwhile."""
    rate_limits.acquire(connection, crowd.buckets, login.created_ms)
    if crowd.live_per_address:
        _check_quota(connection, "address_index", login.address_index, crowd.live_per_address, login)
        if login.wide_index is not None:
            _check_quota(connection, "wide_index", login.wide_index, crowd.live_per_wide, login)
    ended = _evict_pending(connection, crowd.live, login) if crowd.live else ()
    tables.insert_login(connection, _without_client_info(connection, crowd.live, login))
    _delete_login(connection)
    return ended


def _check_quota(connection: Connection, column: str, index: Index, places: int, login: LoginTransaction) -> None:
    """A login that would outlive this one was begun under another clock and does not count."""
    query = f"""
        SELECT count(*), min(expires_ms) FROM login
        WHERE {column} = :index AND expires_ms > :now_ms AND expires_ms <= :expires_ms AND {LIVE}
    """
    values = {"index": index, "now_ms": login.created_ms, "expires_ms": login.expires_ms}
    count, first_ms = connection.execute(query, values).fetchone()
    if count >= places:
        raise RateLimited(min(first_ms - login.created_ms, RETRY_MS))


def _evict_pending(connection: Connection, live: int, login: LoginTransaction) -> Sequence[Index]:
    """First what the clock has ended, then the oldest logins whose browser never came."""
    if _count_logins(connection, LIVE) < live:
        return ()
    swept = tables.delete_expired_logins(connection, login.created_ms)
    excess = _count_logins(connection, LIVE) - live + 1
    if excess <= 0:
        return swept
    gone = _unattended(connection, min(excess, ROOM_ROWS), login)
    if not gone:
        raise TooManyLogins
    for each in gone:
        tables.save_login(connection, Transition(each, each.after(LoginEvent.EXPIRE, login.created_ms)))
    return (*swept, *(each.secret_index for each in gone))


def _unattended(connection: Connection, rows: int, login: LoginTransaction) -> list[LoginTransaction]:
    """Pending ones: those of a clock that was set back since, then the oldest."""
    values = {"expires_ms": login.expires_ms, "rows": rows}
    foreign = tables.select_logins(connection, "stage = 'pending' AND expires_ms > :expires_ms LIMIT :rows", values)
    if foreign:
        return foreign
    return tables.select_logins(connection, "stage = 'pending' ORDER BY expires_ms LIMIT :rows", values)


def _without_client_info(connection: Connection, live: int, login: LoginTransaction) -> LoginTransaction:
    """Where many wait, long words of a device are left out: they would be most of the file."""
    if not live or len(login.client.to_json().encode()) <= WORDS_BYTES or _count_logins(connection, LIVE) < live // 8:
        return login
    return replace(login, client=ClientInfo())


def _delete_login(connection: Connection) -> None:
    excess = _count_logins(connection, ENDED) - ENDED_ROWS
    if excess > 0:
        query = f"""
            DELETE FROM login WHERE login_id IN (
                SELECT login_id FROM login WHERE {ENDED} ORDER BY stage_ms LIMIT :rows)
        """
        connection.execute(query, {"rows": min(excess, ROOM_ROWS)})


def _count_logins(connection: Connection, stages: str) -> int:
    """From the table that triggers keep: counting rows would take longer the more there are."""
    [(count,)] = connection.execute(f"SELECT coalesce(sum(logins), 0) FROM login_count WHERE {stages}").fetchall()
    return int(count)


class StoredLogins(Component, frozen=True):
    """gamed.login.interfaces.LoginStore; failures are StoreError, and what a step raises."""

    _reads: ReadQueue
    _writes: WriteQueue
    _keys: Keys
    _used: Container[str] = frozenset()
    """Sessions whose first use is not committed yet."""

    async def add(self, login: LoginTransaction, crowd: LoginQuota) -> Sequence[Index]:
        return await self._writes.submit(lambda connection: start_login(connection, login, crowd))

    async def find(self, key: LoginLookup) -> LoginTransaction | None:
        login = await self._reads.submit(lambda connection: tables.find_login(connection, key))
        if login is not None and login.stage is LoginStage.DELIVERED and login.session_id in self._used:
            return login.after(LoginEvent.ACKNOWLEDGE, login.stage_ms)
        return login

    async def advance(self, key: LoginLookup, step: TransitionFunction) -> Transition | None:
        return await self._writes.submit(lambda connection: tables.advance_login(connection, key, step))

    async def deliver(self, claim: CollectCommand) -> CollectOutcome | None:
        return await self._writes.submit(lambda connection: collect_store.collect_login(connection, self._keys, claim))

    async def sweep(self, now_ms: int) -> tuple[Index, ...]:
        return await self._writes.submit(lambda connection: tables.delete_expired_logins(connection, now_ms))

    async def interrupt(self, now_ms: int, started_ms: int | None) -> None:
        def unit(connection: Connection) -> None:
            tables.interrupt_logins(connection, now_ms, started_ms)

        if started_ms is not None:
            return await self._writes.submit(unit)
        reads_paused = self._reads.pause()
        try:
            await reads_paused
            await self._writes.submit(unit)
        finally:
            self._reads.resume()


class StoredAttempts(Component, frozen=True):
    """gamed.login.interfaces.AttemptStore."""

    _writes: WriteQueue

    async def begin(
        self, attempt: AuthorizationAttempt, key: LoginLookup, step: TransitionFunction
    ) -> Transition | None:
        return await self._writes.submit(lambda connection: begin_attempt(connection, attempt, key, step))

    async def spend(self, state: Index, rule: Rule) -> CallbackDecision:
        return await self._writes.submit(lambda connection: consume_attempt(connection, state, rule))


class StoredIdentities(Component, frozen=True):
    _reads: ReadQueue

    async def left_behind(self, realms: Collection[Index]) -> int:
        """How many identities are of none of these realms (gamed.providers.discovery)."""
        return await self._reads.submit(lambda connection: player_tables.orphaned_identities(connection, realms))


class StoredAccounts(Component, frozen=True):
    """Accounts of gamed.login.local, Adoptables of starting, Askers of departing."""

    _reads: ReadQueue
    _keys: Keys

    async def find(self, index: Index) -> LocalAccount | None:
        return await self._reads.submit(lambda connection: player_tables.find_account(connection, index))

    async def unlinked(self) -> bool:
        return await self._reads.submit(player_tables.any_unlinked)

    async def asker(self, session_id: str, now_ms: int) -> str | None:
        """The name of the player's local account, or else the player's id."""

        def unit(connection: Connection) -> str | None:
            player_id = session_tables.living_player(connection, session_id, now_ms)
            if player_id is None:
                return None
            return player_tables.find_named(connection, self._keys, player_id).name or player_id

        return await self._reads.submit(unit)


class StoredLimits(Component, frozen=True):
    """gamed.login.local.Limits; RateLimited when any bucket is full."""

    _writes: WriteQueue

    async def take(self, buckets: Mapping[Index, RateLimit], now_ms: int) -> None:
        await self._writes.submit(lambda connection: rate_limits.acquire(connection, buckets, now_ms))

    async def sweep(self, now_ms: int) -> None:
        """Forget what no longer limits anybody."""
        while (
            await self._writes.submit(lambda connection: rate_limits.delete_idle(connection, now_ms))
            >= rate_limits.CLEANUP_ROWS
        ):
            pass
