"""A browser comes back from a provider: judged, and its code redeemed once (PROTOCOL 3.3)."""

from collections.abc import Callable, Mapping

from msgspec import Struct

from gamed.crypto import DecryptionFailed, Index, Keys, Random
from gamed.database.errors import DatabaseBusy
from gamed.login import keys
from gamed.login.attempt import AuthorizationAttempt, redirect_uri, state_index
from gamed.login.authorize import VisitRateLimit
from gamed.login.browser import BrowserLoginService, RedirectToResult
from gamed.login.callback_rules import (
    INVALIDATES_ATTEMPT,
    CallbackCheck,
    CallbackContext,
    CallbackDecision,
    CallbackParameters,
    CallbackRejected,
    decide_callback,
    parse,
)
from gamed.login.errors import LoginEnded
from gamed.login.interfaces import AttemptStore, SignInFailureLog, Transition, TransitionFunction
from gamed.login.keys import LoginLookup, ProviderIdentity
from gamed.login.transaction import LoginStage, LoginTransaction
from gamed.outcomes import LoginFailure
from gamed.providers.base import ExternalIdentity, IdentityProvider, ProviderFailure
from gamed.providers.discovery import IdentityNamespace
from gamed.providers.messages import callback_failure
from gamed.structs import Component, redacts
from gamed.timestamps import Now

WRITE_TRIES = 3
"""What a provider answered cannot be asked again: a busy store is not the end of it."""


@redacts("query")
class CallbackRequest(Struct, frozen=True):
    """A request to the callback; `browser` is the index of its cookie."""

    provider: str
    query: bytes
    browser: Index | None
    address: str
    request_id: str


class AlreadyConsumed(Struct, frozen=True):
    """This callback was not the first; `mine`: this browser has won, and may look at what became of it."""

    login_id: str
    mine: bool


class CallbackService(Component, frozen=True):
    _browsers: BrowserLoginService
    _attempts: AttemptStore
    _providers: Mapping[str, IdentityProvider]
    _journal: SignInFailureLog
    _keys: Keys
    _random: Random
    _now_ms: Now
    _base: Callable[[], str]
    _entrance: VisitRateLimit

    async def complete(self, arrival: CallbackRequest) -> RedirectToResult | AlreadyConsumed:
        """Judge, and if this callback wins, see the exchange through: once begun it must be let finish.

        CallbacksLimited and CallbackMalformed (no effect), CallbackRefused (none, or the attempt is burned), LoginOver.
        """
        await self._entrance.returned(arrival.address)
        callback = parse(arrival.provider, arrival.query)
        verdict = await self._judged(callback, arrival)
        if verdict.ruling in INVALIDATES_ATTEMPT:
            self._journal.callback_rejected(callback.provider, verdict.ruling.name.lower(), arrival.request_id)
        if verdict.attempt is None or verdict.login is None or verdict.ruling in INVALIDATES_ATTEMPT:
            raise CallbackRejected(verdict.ruling)
        if verdict.ruling is CallbackCheck.OVER:
            raise LoginEnded(verdict.login.outcome) if verdict.login.final else CallbackRejected(verdict.ruling)
        if verdict.ruling is CallbackCheck.SPENT:
            return await self._late(verdict.login, arrival.browser)
        await self._exchange(callback, verdict.attempt, verdict.login, arrival.request_id)
        return RedirectToResult(verdict.login.login_id)

    async def _judged(self, callback: CallbackParameters, arrival: CallbackRequest) -> CallbackDecision:
        provider = self._providers.get(callback.provider)
        known = CallbackContext(
            arrival.browser, provider is not None, None if provider is None else provider.issuer, self._now_ms()
        )
        state = state_index(self._keys.indexer, callback.state)
        verdict = await self._attempts.spend(
            state, lambda attempt, login: decide_callback(attempt, login, callback, known)
        )
        if verdict.ruling is CallbackCheck.EXCHANGE and verdict.login is not None:
            self._browsers.tell(verdict.login)
        return verdict

    async def _late(self, login: LoginTransaction, browser: Index | None) -> AlreadyConsumed:
        """The first callback of this browser gets its time to end, so that there is something to look at."""
        mine = login.won_by(browser)
        if mine and login.stage is LoginStage.EXCHANGING:
            await self._browsers.exchanged(login)
        return AlreadyConsumed(login.login_id, mine)

    async def _exchange(
        self, callback: CallbackParameters, attempt: AuthorizationAttempt, login: LoginTransaction, request_id: str
    ) -> None:
        try:
            identity = await self._redeemed(callback, attempt)
        except (ProviderFailure, DecryptionFailed) as e:
            outcome = e.outcome if isinstance(e, ProviderFailure) else LoginFailure.LOGIN_INTERRUPTED
            self._journal.sign_in_failed(callback.provider, outcome, str(e), request_id)
            await self._write(login, self._refusing(outcome))
        except Exception:  # a defect of ours must not keep the game waiting
            await self._write(login, self._refusing(LoginFailure.LOGIN_INTERRUPTED))
            raise
        else:
            await self._write(login, self._arriving(login, identity, attempt))

    async def _redeemed(self, callback: CallbackParameters, attempt: AuthorizationAttempt) -> ExternalIdentity:
        provider = self._providers[callback.provider]
        if callback.code is None:
            raise callback_failure(callback.error or "")
        verifier, nonce = attempt.verifier(self._keys), attempt.nonce(self._keys)
        where = redirect_uri(self._base(), provider.name)
        return await provider.identify(callback.code, verifier, nonce, where, attempt.login_id)

    async def _write(self, login: LoginTransaction, step: TransitionFunction) -> Transition:
        for _ in range(WRITE_TRIES - 1):
            try:
                return await self._browsers.move(LoginLookup.id(login.login_id), step)
            except DatabaseBusy:
                pass
        return await self._browsers.move(LoginLookup.id(login.login_id), step)

    def _refusing(self, outcome: LoginFailure) -> TransitionFunction:
        now_ms = self._now_ms()

        def step(login: LoginTransaction) -> LoginTransaction:
            current = login.at(now_ms)
            return current.refused(outcome, now_ms) if current.stage is LoginStage.EXCHANGING else current

        return step

    def _arriving(
        self, login: LoginTransaction, identity: ExternalIdentity, attempt: AuthorizationAttempt
    ) -> TransitionFunction:
        """Whose identity it is, is nobody's business before the game has shown its proof."""
        now_ms, indexer = self._now_ms(), self._keys.indexer
        who = ProviderIdentity(
            identity.index(indexer), IdentityNamespace.where(identity).index(indexer), attempt.player_id
        )
        sealed, proof = keys.seal_identity(self._keys, self._random, login.login_id, who)

        def step(login: LoginTransaction) -> LoginTransaction:
            current = login.at(now_ms)
            return current.identified(sealed, proof, now_ms) if current.stage is LoginStage.EXCHANGING else current

        return step
