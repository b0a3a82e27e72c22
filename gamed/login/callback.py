"""The callback of a provider is checked, and its code redeemed once (docs/internals/rules.md: Callbacks)."""

from collections.abc import Callable

from msgspec import Struct

from gamed.audit import SecurityEvent
from gamed.crypto import DecryptionFailed, Index, Purpose
from gamed.database.errors import DatabaseBusy
from gamed.login import keys
from gamed.login.attempt import AuthorizationAttempt
from gamed.login.browser import BrowserLoginService, RedirectToResult, wake_login
from gamed.login.callback_rules import (
    INVALIDATES_ATTEMPT,
    CallbackCheck,
    CallbackContext,
    CallbackDecision,
    CallbackParameters,
    CallbackRejected,
    decide_callback,
    parse,
    parse_assertion,
)
from gamed.login.errors import CallbacksLimited, LoginEnded
from gamed.login.keys import LoginLookup, ProviderIdentity
from gamed.login.policy import LoginContext, ProviderAccess
from gamed.login.store import LoginStore
from gamed.login.transaction import LoginStage, LoginTransaction
from gamed.long_poll import LongPollRegistry
from gamed.outcomes import LoginFailure
from gamed.providers.base import ExternalIdentity, ProviderFailure
from gamed.providers.messages import callback_failure
from gamed.rate_limit import RateLimited
from gamed.structs import Component, redacts

WRITE_TRIES = 3
"""A code can be redeemed only once, so the result is written again if the database is busy."""


@redacts("query")
class CallbackRequest(Struct, frozen=True):
    """A request to the callback; `browser` is the index of its cookie."""

    provider: str
    query: bytes
    browser: Index | None
    address: str
    request_id: str


class AlreadyConsumed(Struct, frozen=True):
    """A second callback of the same login; `own` if the login belongs to this browser, which may see the result."""

    login_id: str
    own: bool


class CallbackService(Component, frozen=True, kw_only=True):
    """The service that completes a sign-in at a provider."""

    context: LoginContext
    browsers: BrowserLoginService
    store: LoginStore
    access: ProviderAccess
    waiters: LongPollRegistry

    async def complete(self, request: CallbackRequest) -> RedirectToResult | AlreadyConsumed:
        """Check the callback, and redeem its code if it is the first of its login; do not cancel this.

        Raise CallbacksLimited or CallbackMalformed, which have no effect, CallbackRejected, or LoginEnded.
        """
        context, per_minute = self.context, self.context.policy.limits.callbacks_per_minute
        try:
            await self.store.count_request(b"callback", request.address, per_minute, context.now_ms())
        except RateLimited as e:
            raise CallbacksLimited(1000 * e.retry_after) from None
        provider = self.access.providers.get(request.provider)
        read = parse_assertion if provider is not None and provider.uses_assertion else parse
        callback = read(request.provider, request.query)
        decision = await self._decide(callback, request.browser)
        check, attempt, login = decision.check, decision.attempt, decision.login
        if check in INVALIDATES_ATTEMPT:
            values = {"provider": callback.provider, "check": check.name.lower(), "request": request.request_id}
            context.audit.record(SecurityEvent.CALLBACK_REJECTED, **values)
        if attempt is None or login is None or check in INVALIDATES_ATTEMPT:
            raise CallbackRejected(check)
        if check is CallbackCheck.ENDED:
            raise LoginEnded(login.outcome, login.client.locale) if login.final else CallbackRejected(check)
        if check is CallbackCheck.ALREADY_USED:
            own = login.belongs_to(request.browser)
            if own and login.stage is LoginStage.EXCHANGING:  # the result page is to show more than "in progress"
                await self.browsers.wait_for_exchange(login)
            return AlreadyConsumed(login.login_id, own)
        wake_login(self.waiters, login)
        await self._exchange(callback, attempt, login, request.request_id)
        return RedirectToResult(login.login_id)

    async def _decide(self, callback: CallbackParameters, browser: Index | None) -> CallbackDecision:
        provider = self.access.providers.get(callback.provider)
        issuer = None if provider is None else provider.issuer_for(callback.iss)
        now_ms, instance_id = self.context.now_ms(), self.context.instance_id
        context = CallbackContext(browser, provider is not None, issuer, now_ms, instance_id)
        return await self.store.consume_attempt(
            self.context.keys.indexer.index(Purpose.STATE, callback.state.encode()),
            lambda attempt, login: decide_callback(attempt, login, callback, context),
        )

    async def _exchange(
        self, callback: CallbackParameters, attempt: AuthorizationAttempt, login: LoginTransaction, request_id: str
    ) -> None:
        """Write the identity that the provider returns for the code, or the failure."""
        try:
            identity = await self._redeem(callback, attempt, login)
        except (ProviderFailure, DecryptionFailed) as e:
            outcome = e.outcome if isinstance(e, ProviderFailure) else LoginFailure.LOGIN_INTERRUPTED
            self.access.sign_in_failed(callback.provider, outcome, str(e), request_id)
            await self._fail(login, outcome)
        except Exception:  # an unexpected error must not keep the game waiting
            await self._fail(login, LoginFailure.LOGIN_INTERRUPTED)
            raise
        else:
            await self._identify(login, identity, attempt.player_id)

    async def _redeem(
        self, callback: CallbackParameters, attempt: AuthorizationAttempt, login: LoginTransaction
    ) -> ExternalIdentity:
        if callback.code is None:
            raise callback_failure(callback.error or "")
        provider = self.access.providers[callback.provider]
        verifier, nonce = attempt.unseal(self.context.keys)
        uri = self.access.redirect_uri(provider.name)
        asked_ms = attempt.created_ms if login.asks_again else None
        return await provider.identify(callback.code, verifier, nonce, uri, attempt.login_id, asked_ms=asked_ms)

    async def _identify(self, login: LoginTransaction, identity: ExternalIdentity, player_id: str | None) -> None:
        """Write the identity; to which player it belongs is read after the game has sent its proof."""
        now_ms, indexer = self.context.now_ms(), self.context.keys.indexer
        index, realm = identity.index(indexer), identity.namespace_index(indexer)
        proved = ProviderIdentity(index, realm, player_id, asked_again=identity.asked_again)
        sealed, proof = keys.seal_identity(self.context.keys, self.context.random, login.login_id, proved)
        await self._write(login, lambda current: current.identified(sealed, proof, now_ms), now_ms)

    async def _fail(self, login: LoginTransaction, outcome: LoginFailure) -> None:
        now_ms = self.context.now_ms()
        await self._write(login, lambda current: current.failed(outcome, now_ms), now_ms)

    async def _write(
        self, login: LoginTransaction, result: Callable[[LoginTransaction], LoginTransaction], now_ms: int
    ) -> None:
        """Write the result of the exchange, unless the login has ended meanwhile."""

        def step(login: LoginTransaction) -> LoginTransaction:
            current = login.at_time(now_ms)
            return result(current) if current.stage is LoginStage.EXCHANGING else current

        # Only a busy queue is worth a second try; a full or damaged disk would refuse the next one as well.
        for left in reversed(range(WRITE_TRIES)):
            try:
                await self.browsers.advance(LoginLookup("login_id", login.login_id), step)
                return
            except DatabaseBusy:
                if not left:
                    raise
