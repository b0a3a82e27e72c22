"""Handoffs, attempts, accounts and limits over the lanes: each call one unit of auth.db, mere reads apart."""

from collections.abc import Collection, Container, Mapping, Sequence
from sqlite3 import Connection

from gamed.crypto import Index, Keys
from gamed.limits import Rate
from gamed.login.attempt import Attempt
from gamed.login.attempts import Rule
from gamed.login.callback import Verdict
from gamed.login.crowd import Crowd
from gamed.login.entry import Key
from gamed.login.logins import Claim, Delivery, Move, Step
from gamed.login.transaction import Event, LoginTransaction, Stage
from gamed.storage.auth import accounts, callbacks, deliveries, identities, limits, logins, sessions, starts
from gamed.storage.auth.accounts import LocalAccount
from gamed.storage.lanes import ReadLane, WriteLane
from gamed.structs import Part


class StoredLogins(Part, frozen=True):
    """gamed.login.logins.Logins; failures are StoreError, and what a step raises."""

    _reads: ReadLane
    _writes: WriteLane
    _keys: Keys
    _used: Container[str] = frozenset()
    """Sessions whose first use is not committed yet."""

    async def add(self, login: LoginTransaction, crowd: Crowd) -> Sequence[Index]:
        return await self._writes.submit(lambda connection: starts.start(connection, login, crowd))

    async def find(self, key: Key) -> LoginTransaction | None:
        login = await self._reads.submit(lambda connection: logins.find(connection, key))
        if login is not None and login.stage is Stage.DELIVERED and login.session_id in self._used:
            return login.after(Event.ACKNOWLEDGE, login.stage_ms)
        return login

    async def advance(self, key: Key, step: Step) -> Move | None:
        return await self._writes.submit(lambda connection: logins.advance(connection, key, step))

    async def deliver(self, claim: Claim) -> Delivery | None:
        return await self._writes.submit(lambda connection: deliveries.deliver(connection, self._keys, claim))

    async def sweep(self, now_ms: int) -> tuple[Index, ...]:
        return await self._writes.submit(lambda connection: logins.sweep(connection, now_ms))

    async def interrupt(self, now_ms: int, started_ms: int | None) -> None:
        def unit(connection: Connection) -> None:
            logins.interrupt(connection, now_ms, started_ms)

        if started_ms is not None:
            return await self._writes.submit(unit)
        reads_paused = self._reads.pause()
        try:
            await reads_paused
            await self._writes.submit(unit)
        finally:
            self._reads.resume()


class StoredAttempts(Part, frozen=True):
    """gamed.login.attempts.Attempts."""

    _writes: WriteLane

    async def begin(self, attempt: Attempt, key: Key, step: Step) -> Move | None:
        return await self._writes.submit(lambda connection: callbacks.begin(connection, attempt, key, step))

    async def spend(self, state: Index, rule: Rule) -> Verdict:
        return await self._writes.submit(lambda connection: callbacks.spend(connection, state, rule))


class StoredIdentities(Part, frozen=True):
    _reads: ReadLane

    async def left_behind(self, realms: Collection[Index]) -> int:
        """How many identities are of none of these realms (gamed.identity.realm)."""
        return await self._reads.submit(lambda connection: identities.left_behind(connection, realms))


class StoredAccounts(Part, frozen=True):
    """Accounts of gamed.login.account_check, Adoptables of starting, Askers of departing."""

    _reads: ReadLane
    _keys: Keys

    async def find(self, index: Index) -> LocalAccount | None:
        return await self._reads.submit(lambda connection: accounts.find(connection, index))

    async def unlinked(self) -> bool:
        return await self._reads.submit(accounts.any_unlinked)

    async def asker(self, session_id: str, now_ms: int) -> str | None:
        """The name of the player's local account, or else the player's id."""

        def unit(connection: Connection) -> str | None:
            player_id = sessions.living_player(connection, session_id, now_ms)
            if player_id is None:
                return None
            return accounts.find_named(connection, self._keys, player_id).name or player_id

        return await self._reads.submit(unit)


class StoredLimits(Part, frozen=True):
    """gamed.login.account_check.Limits; RateLimited when any bucket is full."""

    _writes: WriteLane

    async def take(self, buckets: Mapping[Index, Rate], now_ms: int) -> None:
        await self._writes.submit(lambda connection: limits.take(connection, buckets, now_ms))

    async def sweep(self, now_ms: int) -> None:
        """Forget what no longer limits anybody."""
        while await self._writes.submit(lambda connection: limits.sweep(connection, now_ms)) >= limits.SWEEP_ROWS:
            pass
