"""The game waits for the result of its login; the first collect with a valid proof delivers it.

See docs/protocol.md: Collect.
"""

from contextlib import suppress
from typing import Self

from msgspec import Struct, field
from msgspec.structs import replace

from gamed.audit import SecurityEvent
from gamed.crypto import DecryptionFailed, Index, Purpose
from gamed.login.collect_rules import CollectCommand, CollectOutcome, CollectResult, NewSession
from gamed.login.errors import DeviceSecretInvalid, InvalidProof, LoginCollected
from gamed.login.keys import MAX_WRONG_CODES, LoginLookup, PresentedProof, ProofKind, ReturnProof
from gamed.login.policy import LoginContext
from gamed.login.store import LoginStore
from gamed.login.transaction import LoginIntent, LoginStage, LoginTransaction, ProofMethod
from gamed.long_poll import LongPollRegistry, WakeReason
from gamed.outcomes import LoginFailure
from gamed.players.names import new_player_id
from gamed.rate_limit import RateLimit, RateLimited
from gamed.sessions.credentials import generate_pair, new_session_id
from gamed.sessions.service import RevocationListener
from gamed.structs import Component
from gamed.timestamps import seconds_until

PENDING_STAGES = {
    LoginStage.PENDING: "waiting_for_browser",
    LoginStage.AUTHORIZING: "at_provider",
    LoginStage.EXCHANGING: "exchanging",
    LoginStage.READY: "proof_required",
}
"""The names of the stages before the first collect, as a game receives them."""
FIRST_STAGE = PENDING_STAGES[LoginStage.PENDING]
SHORT_WAIT_SECONDS = 5
"""A collect without proof that waits less than this counts against POLLING_LIMIT."""
POLLING_LIMIT = RateLimit(interval_ms=1000, burst=5)
"""One a second, as `min_interval` asks for; up to five may come at once."""


class CollectRequest(Struct, frozen=True):
    """A game's collect; `seen` is the last stage it received, `request_id` is for the log."""

    secret: Index
    wait_seconds: int = 0
    seen: str = FIRST_STAGE
    presented: PresentedProof | None = None
    request_id: str = ""

    def may_deliver(self, login: LoginTransaction) -> bool:
        """Return whether this may be the first proven collect; a proof before `ready` is ignored."""
        proof = self.presented is not None or login.return_proof is ProofMethod.NONE
        return login.stage is LoginStage.READY and proof


class Pending(Struct, frozen=True):
    """A login that cannot be collected yet."""

    stage: str
    expires_seconds: int

    @classmethod
    def of(cls, login: LoginTransaction, now_ms: int) -> Self:
        return cls(PENDING_STAGES[login.stage], seconds_until(login.expires_ms, now_ms))


class Complete(Struct, frozen=True):
    """A login that delivered credentials."""

    login: LoginTransaction
    result: CollectResult


class Linked(Struct, frozen=True):
    """A login that linked this provider's account to the player who asked; it delivers no credentials."""

    provider: str


class Failed(Struct, frozen=True):
    """A login that ended without credentials."""

    outcome: LoginFailure
    approval_code: str | None = None
    """The code that a new player reports to the owner."""


Collected = Pending | Complete | Linked | Failed


class CollectService(Component, frozen=True, kw_only=True):
    """The service for a game's collects."""

    context: LoginContext
    store: LoginStore
    waiters: LongPollRegistry
    revoked: RevocationListener
    arrivals: dict[Index, int] = field(default_factory=dict)
    """The GCRA arrival times of games that poll in short intervals, in the order of their last collect."""
    refused: dict[Index, int] = field(default_factory=dict)
    """When a game may send its proof again whose network has added too many players; the oldest refusal first."""

    async def wait(self, request: CollectRequest) -> Collected | None:
        """Return the response once the stage has changed or the wait is over; None if collect() has to give it.

        Raise DeviceSecretInvalid, LoginCollected, RateLimited, or InvalidProof for a wrong ticket. This changes nothing
        and may be cancelled.
        """
        now = self.context.now_ms
        wait_ms = request.wait_seconds * 1000
        ends_ms = now() + wait_ms
        # Open before the first read, so that a change between that read and the wait is not missed.
        with self.waiters.open(request.secret) as waiter:
            login = await self._find(request)
            self._limit_polling(request)
            while True:
                now_ms, waiter.known = now(), login.stage
                if request.may_deliver(login):
                    self._check_refused(request.secret, now_ms)
                    self._check_ticket(login, request.presented)
                    return None
                left_ms = min(ends_ms - now_ms, login.deadline_ms - now_ms, wait_ms)
                if PENDING_STAGES.get(login.stage) != request.seen or left_ms <= 0:
                    return await self._response(login, now_ms)
                expires_ms = login.expires_ms
                del login  # very many games may wait, and need nothing else of it
                reason = await waiter.wait(left_ms / 1000)
                if reason in (WakeReason.SUPERSEDED, WakeReason.SHUTTING_DOWN):
                    return Pending(request.seen, seconds_until(expires_ms, now()))
                if reason is WakeReason.TIMEOUT:  # by the monotonic clock, which the wall clock may contradict
                    wait_ms = 0
                # A proof that was sent before `ready` is ignored: no browser had shown a code then.
                login, request = await self._find(request), replace(request, presented=None)

    async def collect(self, request: CollectRequest) -> Collected:
        """Deliver the credentials for a valid proof, or return what another collect made of the login.

        Do not cancel this: the result may be written before it is known here. Raise InvalidProof, TooManyLogins and
        what wait() raises.
        """
        context, policy = self.context, self.context.policy
        now_ms = context.now_ms()
        # Made before the transaction, which a failed batch runs a second time: a retry must not draw other credentials.
        pair = generate_pair(context.random, now_ms, policy.session, now_ms)
        new_session = NewSession(new_player_id(context.random), new_session_id(context.random), pair)
        key = LoginLookup("secret_index", request.secret)
        command = CollectCommand(key, request.presented, new_session, policy.registration, now_ms, policy.newcomers)
        try:
            outcome = await self.store.collect(command)
        except RateLimited as e:  # the login stays `ready`, so that each further try would be such a transaction, too
            self.refused.pop(request.secret, None)
            self.refused[request.secret] = now_ms + e.retry_after * 1000
            raise
        if outcome is None:
            raise DeviceSecretInvalid
        login = outcome.transition.after
        if outcome.transition.stage_changed:
            self.waiters.wake(login.secret_index)
            self._record(outcome, request.request_id)
        if outcome.wrong:
            raise InvalidProof(max(0, MAX_WRONG_CODES - login.wrong_codes))
        return await self._response(login, now_ms)

    def _record(self, outcome: CollectOutcome, request_id: str) -> None:
        """Write the end of the login to the audit log."""
        login, player, audit = outcome.transition.after, outcome.player_id or "", self.context.audit
        if outcome.undecryptable is not None:
            audit.record(SecurityEvent.DECRYPTION_FAILED, **outcome.undecryptable)
        if login.outcome is not None:
            values = {"player": player, "provider": login.provider, "outcome": login.outcome.value}
            audit.record(SecurityEvent.SIGN_IN_REFUSED, **values, request=request_id)
            return
        if login.intent is not LoginIntent.LOGIN:
            audit.record(SecurityEvent.IDENTITY_LINKED, player=player, provider=login.provider)
        response = self._stored_response(login, login.stage_ms)
        if isinstance(response, Complete):
            created, session = "yes" if response.result.created else "no", login.session_id or ""
            values = {"player": player, "session": session, "provider": outcome.way, "created": created}
            audit.record(SecurityEvent.SIGN_IN, **values)
            if outcome.codes_left is not None:
                used = {"player": player, "session": session, "left": str(outcome.codes_left)}
                audit.record(SecurityEvent.RECOVERY_CODE_USED, **used)
        for session_id in outcome.ended:
            audit.record(SecurityEvent.SESSION_LIMIT_REACHED, player=player, session=session_id)
            self.revoked(player)

    async def _find(self, request: CollectRequest) -> LoginTransaction:
        login = await self.store.find(LoginLookup("secret_index", request.secret))
        if login is None:
            raise DeviceSecretInvalid
        return login.at_time(self.context.now_ms())

    async def _response(self, login: LoginTransaction, now_ms: int) -> Collected:
        """Return the response; if the credentials cannot be decrypted, end the session and report the login failed."""
        try:
            return self._stored_response(login, now_ms)
        except DecryptionFailed as e:
            self.context.audit.record(SecurityEvent.DECRYPTION_FAILED, **e.details)

        def step(login: LoginTransaction) -> LoginTransaction:
            current = login.at_time(now_ms)
            return current.result_lost(now_ms) if current.stage is LoginStage.DELIVERED else current

        transition = await self.store.cancel(LoginLookup("secret_index", login.secret_index), step)
        if transition is None:
            raise DeviceSecretInvalid
        return self._stored_response(transition.after, now_ms)

    def _stored_response(self, login: LoginTransaction, now_ms: int) -> Collected:
        if login.stage in PENDING_STAGES:
            return Pending.of(login, now_ms)
        if login.stage is LoginStage.COLLECTED:
            raise LoginCollected
        if login.outcome is not None:
            return Failed(login.outcome, login.approval_code)
        if login.intent is LoginIntent.LINK:
            return Linked(login.provider)
        sealed = login.sealed_result or b""
        raw = self.context.keys.sealer.unseal(Purpose.RESULT, login.login_id, sealed)
        return Complete(login, CollectResult.from_bytes(raw))

    def _check_refused(self, secret: Index, now_ms: int) -> None:
        """Raise RateLimited until a game that was refused may try again; forget the refusals that are over."""
        longest_ms = self.context.policy.newcomers.full_ms  # later is an instant of before the clock was set back
        while self.refused and not 0 < next(iter(self.refused.values())) - now_ms <= longest_ms:
            del self.refused[next(iter(self.refused))]
        left_ms = self.refused.get(secret, now_ms) - now_ms
        if 0 < left_ms <= longest_ms:
            raise RateLimited(left_ms)

    def _check_ticket(self, login: LoginTransaction, presented: PresentedProof | None) -> None:
        """Raise InvalidProof for a wrong ticket.

        No limit counts tickets, which nobody can guess, and the transaction of a collect keeps out all other writers:
        it gets the right one only, and compares once more.
        """
        if presented is None or presented.kind is not ProofKind.TICKET:
            return
        sealed = login.sealed_proof or b""
        with suppress(DecryptionFailed):  # the transaction ends such a login
            proof = ReturnProof.from_bytes(self.context.keys.sealer.unseal(Purpose.PROOF, login.login_id, sealed))
            if not proof.matches(presented):
                raise InvalidProof(MAX_WRONG_CODES - login.wrong_codes)

    def _limit_polling(self, request: CollectRequest) -> None:
        """Count short polls of existing logins in memory, and delete the idle ones; raise RateLimited."""
        if request.presented is not None or request.wait_seconds >= SHORT_WAIT_SECONDS:
            return
        now_ms, arrivals = self.context.now_ms(), self.arrivals
        arrival_ms = POLLING_LIMIT.acquire(arrivals.get(request.secret), now_ms)
        arrivals.pop(request.secret, None)  # the order is that of the last collect
        while arrivals and POLLING_LIMIT.is_idle(next(iter(arrivals.values())), now_ms):
            del arrivals[next(iter(arrivals))]
        arrivals[request.secret] = arrival_ms
