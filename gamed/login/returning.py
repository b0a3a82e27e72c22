"""A browser comes back from a provider: judged, and its code redeemed once (PROTOCOL 3.3)."""

from collections.abc import Callable, Mapping

from msgspec import Struct

from gamed.crypto import Index, Keys, Random, SealBroken
from gamed.identity.callback_error import callback_failure
from gamed.identity.provider import Identity, IdentityProvider, ProviderFailure
from gamed.identity.realm import Realm
from gamed.instants import Now
from gamed.login import identified
from gamed.login.attempt import Attempt, redirect_uri, state_index
from gamed.login.attempts import Attempts, Journal
from gamed.login.browser import BrowserSide, SeeDone
from gamed.login.callback import (
    BURNING,
    Callback,
    CallbackRefused,
    Circumstances,
    Ruling,
    Verdict,
    judge,
    parse,
)
from gamed.login.entrance import Entrance
from gamed.login.entry import Key
from gamed.login.errors import LoginOver
from gamed.login.identified import ProviderIdentity
from gamed.login.logins import Move, Step
from gamed.login.outcome import Outcome
from gamed.login.transaction import LoginTransaction, Stage
from gamed.store import StoreBusy
from gamed.structs import Part, hides

WRITE_TRIES = 3
"""What a provider answered cannot be asked again: a busy store is not the end of it."""


@hides("query")
class Arrival(Struct, frozen=True):
    """A request to the callback; `browser` is the index of its cookie."""

    provider: str
    query: bytes
    browser: Index | None
    address: str
    request_id: str


class Spent(Struct, frozen=True):
    """This callback was not the first; `mine`: this browser has won, and may look at what became of it."""

    login_id: str
    mine: bool


class Returning(Part, frozen=True):
    _browsers: BrowserSide
    _attempts: Attempts
    _providers: Mapping[str, IdentityProvider]
    _journal: Journal
    _keys: Keys
    _random: Random
    _now_ms: Now
    _base: Callable[[], str]
    _entrance: Entrance

    async def complete(self, arrival: Arrival) -> SeeDone | Spent:
        """Judge, and if this callback wins, see the exchange through: once begun it must be let finish.

        CallbacksLimited and CallbackMalformed (no effect), CallbackRefused (none, or the attempt is burned), LoginOver.
        """
        await self._entrance.returned(arrival.address)
        callback = parse(arrival.provider, arrival.query)
        verdict = await self._judged(callback, arrival)
        if verdict.ruling in BURNING:
            self._journal.callback_rejected(callback.provider, verdict.ruling.name.lower(), arrival.request_id)
        if verdict.attempt is None or verdict.login is None or verdict.ruling in BURNING:
            raise CallbackRefused(verdict.ruling)
        if verdict.ruling is Ruling.OVER:
            raise LoginOver(verdict.login.outcome) if verdict.login.final else CallbackRefused(verdict.ruling)
        if verdict.ruling is Ruling.SPENT:
            return await self._late(verdict.login, arrival.browser)
        await self._exchange(callback, verdict.attempt, verdict.login, arrival.request_id)
        return SeeDone(verdict.login.login_id)

    async def _judged(self, callback: Callback, arrival: Arrival) -> Verdict:
        provider = self._providers.get(callback.provider)
        known = Circumstances(
            arrival.browser, provider is not None, None if provider is None else provider.issuer, self._now_ms()
        )
        state = state_index(self._keys.indexer, callback.state)
        verdict = await self._attempts.spend(state, lambda attempt, login: judge(attempt, login, callback, known))
        if verdict.ruling is Ruling.EXCHANGE and verdict.login is not None:
            self._browsers.tell(verdict.login)
        return verdict

    async def _late(self, login: LoginTransaction, browser: Index | None) -> Spent:
        """The first callback of this browser gets its time to end, so that there is something to look at."""
        mine = login.won_by(browser)
        if mine and login.stage is Stage.EXCHANGING:
            await self._browsers.exchanged(login)
        return Spent(login.login_id, mine)

    async def _exchange(self, callback: Callback, attempt: Attempt, login: LoginTransaction, request_id: str) -> None:
        try:
            identity = await self._redeemed(callback, attempt)
        except (ProviderFailure, SealBroken) as e:
            outcome = e.outcome if isinstance(e, ProviderFailure) else Outcome.LOGIN_INTERRUPTED
            self._journal.sign_in_failed(callback.provider, outcome, str(e), request_id)
            await self._write(login, self._refusing(outcome))
        except Exception:  # a defect of ours must not keep the game waiting
            await self._write(login, self._refusing(Outcome.LOGIN_INTERRUPTED))
            raise
        else:
            await self._write(login, self._arriving(login, identity, attempt))

    async def _redeemed(self, callback: Callback, attempt: Attempt) -> Identity:
        provider = self._providers[callback.provider]
        if callback.code is None:
            raise callback_failure(callback.error or "")
        verifier, nonce = attempt.verifier(self._keys), attempt.nonce(self._keys)
        where = redirect_uri(self._base(), provider.name)
        return await provider.identify(callback.code, verifier, nonce, where, attempt.login_id)

    async def _write(self, login: LoginTransaction, step: Step) -> Move:
        for _ in range(WRITE_TRIES - 1):
            try:
                return await self._browsers.move(Key.id(login.login_id), step)
            except StoreBusy:
                pass
        return await self._browsers.move(Key.id(login.login_id), step)

    def _refusing(self, outcome: Outcome) -> Step:
        now_ms = self._now_ms()

        def step(login: LoginTransaction) -> LoginTransaction:
            current = login.at(now_ms)
            return current.refused(outcome, now_ms) if current.stage is Stage.EXCHANGING else current

        return step

    def _arriving(self, login: LoginTransaction, identity: Identity, attempt: Attempt) -> Step:
        """Whose identity it is, is nobody's business before the game has shown its proof."""
        now_ms, indexer = self._now_ms(), self._keys.indexer
        who = ProviderIdentity(identity.index(indexer), Realm.where(identity).index(indexer), attempt.player_id)
        sealed, proof = identified.seal(self._keys, self._random, login.login_id, who)

        def step(login: LoginTransaction) -> LoginTransaction:
            current = login.at(now_ms)
            return current.identified(sealed, proof, now_ms) if current.stage is Stage.EXCHANGING else current

        return step
