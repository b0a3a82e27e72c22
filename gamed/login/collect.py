"""Who may have credentials at the first proven collect, and who not; pure (PROTOCOL 3.4 and 3.5).

What the first proven collect made, kept sealed so that a lost answer can be given again (PROTOCOL 3.5).

The game comes for the result: a long poll, and at most one first proven collect (PROTOCOL 3.5).
"""

from typing import Self

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from gamed.audit import NULL_AUDIT_LOG, AuditLog, SecurityEvent
from gamed.config.model import Registration
from gamed.crypto import DecryptionFailed, Index, Keys, Purpose, Random
from gamed.login.errors import DeviceSecretInvalid, InvalidProof, LoginCollected
from gamed.login.interfaces import CollectCommand, CollectOutcome, LoginStore, NewSession
from gamed.login.keys import MAX_WRONG_CODES, LoginLookup, PresentedProof, ProofKind, ReturnProof, login_approval_code
from gamed.login.policy import LoginPolicy
from gamed.login.transaction import LoginEvent, LoginIntent, LoginStage, LoginTransaction, ProofMethod
from gamed.long_poll import LongPollRegistry, WakeReason
from gamed.outcomes import LoginFailure
from gamed.players.names import new_player_id
from gamed.rate_limit import RateLimit
from gamed.sessions import credentials
from gamed.sessions.credentials import CredentialPair, generate_pair, new_session_id
from gamed.structs import Component
from gamed.timestamps import Now, seconds_until


def proof_matches(login: LoginTransaction, proof: ReturnProof, presented: PresentedProof | None) -> bool:
    """Whether what the game shows opens this login; with `return_proof` off, showing nothing does."""
    if presented is None:
        return login.return_proof is ProofMethod.NONE
    return proof.proven_by(presented)


def count_wrong_proof(login: LoginTransaction, presented: PresentedProof | None, now_ms: int) -> LoginTransaction:
    """The login after a wrong proof: tickets never count, the fifth wrong code ends it."""
    if presented is None or presented.kind is ProofKind.TICKET:
        return login
    counted = replace(login, wrong_codes=login.wrong_codes + 1)
    return counted if counted.wrong_codes < MAX_WRONG_CODES else counted.after(LoginEvent.EXHAUST, now_ms)


def attempts_left(login: LoginTransaction) -> int:
    return max(0, MAX_WRONG_CODES - login.wrong_codes)


def player_error(state: str | None) -> LoginFailure | None:
    """Why a known player gets no session. None as a state: erased since the browser named them."""
    match state:
        case "active":
            return None
        case "pending":
            return LoginFailure.PLAYER_PENDING
        case "blocked":
            return LoginFailure.PLAYER_BLOCKED
        case _:
            return LoginFailure.LOGIN_INTERRUPTED


def link_error(taken: bool, has_one: bool) -> LoginFailure | None:
    """Why an account at a provider does not become another way in for a player; nobody is ever merged (PROTOCOL 3.8).

    `has_one`: the player has an account of this provider, be it the same one or another.
    """
    if has_one:
        return LoginFailure.PROVIDER_ALREADY_LINKED
    return LoginFailure.IDENTITY_IN_USE if taken else None


def newcomer_error(taken: bool, registration: Registration) -> LoginFailure | None:
    """Why a new account gets no session; on PLAYER_PENDING it is made all the same, and waits for the owner."""
    if registration is Registration.CLOSED:
        return LoginFailure.REGISTRATION_CLOSED
    if taken:
        return LoginFailure.IDENTITY_IN_USE
    return LoginFailure.PLAYER_PENDING if registration is Registration.APPROVAL else None


class CollectResult(Struct, frozen=True):
    """The credentials and whom they are for; session and provider stand in the login itself."""

    pair: CredentialPair
    player_id: str
    created: bool
    """Whether this collect made the player."""
    owner: bool

    def to_bytes(self) -> bytes:
        """Only ever to be sealed."""
        return msgspec.json.encode((self.player_id, self.created, self.owner, credentials.to_bytes(self.pair)))

    @classmethod
    def from_bytes(cls, raw: bytes) -> "CollectResult":
        player_id, created, owner, pair = _DECODER.decode(raw)
        return cls(credentials.from_bytes(pair), player_id, created, owner)


_DECODER = msgspec.json.Decoder(tuple[str, bool, bool, bytes])


WORDS = {
    LoginStage.PENDING: "waiting_for_browser",
    LoginStage.AUTHORIZING: "at_provider",
    LoginStage.EXCHANGING: "exchanging",
    LoginStage.READY: "proof_required",
}
"""What a game is told of the stages before the first collect."""
FIRST_WORD = WORDS[LoginStage.PENDING]
HASTY_SECONDS = 5
"""A collect without proof that waits less than this is counted."""
HASTE = RateLimit(interval_ms=1000, burst=5)


class CollectRequest(Struct, frozen=True):
    """What a game asks; `seen` is the last stage it was told, `request_id` is for the log."""

    secret: Index
    wait_seconds: int = 0
    seen: str = FIRST_WORD
    presented: PresentedProof | None = None
    request_id: str = ""

    def opens(self, login: LoginTransaction) -> bool:
        """Whether this may be the first proven collect; a proof before `ready` is ignored."""
        proof = self.presented is not None or login.return_proof is ProofMethod.NONE
        return login.stage is LoginStage.READY and proof


class Pending(Struct, frozen=True):
    stage: str
    expires_seconds: int

    @classmethod
    def of(cls, login: LoginTransaction, now_ms: int) -> Self:
        return cls(WORDS[login.stage], seconds_until(login.expires_ms, now_ms))


class Complete(Struct, frozen=True):
    login: LoginTransaction
    result: CollectResult


class Linked(Struct, frozen=True):
    """All that was wanted: this provider's account signs in as the asking player from now on."""

    provider: str


class Failed(Struct, frozen=True):
    outcome: LoginFailure
    approval_code: str | None = None
    """What the newcomer tells the owner."""

    def __eq__(self, other: object) -> bool:
        """Compare the outcomes; the approval code does not count."""
        return isinstance(other, Failed) and self.outcome is other.outcome

    def __hash__(self) -> int:
        return hash(self.outcome)


Collected = Pending | Complete | Linked | Failed


class CollectService(Component, frozen=True):
    _logins: LoginStore
    _waits: LongPollRegistry
    _keys: Keys
    _random: Random
    _now_ms: Now
    _terms: LoginPolicy
    _audit: AuditLog = NULL_AUDIT_LOG
    _haste: dict[Index, int] = field(default_factory=dict)
    """Arrival times of GCRA for hasty games."""

    async def watch(self, collect: CollectRequest) -> Collected | None:
        """The answer, as soon as there is one or the wait is over; None when deliver() has to give it.

        DeviceSecretInvalid, LoginCollected, RateLimited. May be cancelled at any time: it changes nothing.
        """
        wait_ms = collect.wait_seconds * 1000
        ends_ms = self._now_ms() + wait_ms
        with self._waits.open(collect.secret) as slot:
            login = await self._find(collect)
            self._pace(collect)
            while True:
                now_ms = self._now_ms()
                if collect.opens(login):
                    return None
                left_ms = min(ends_ms - now_ms, login.deadline_ms - now_ms, wait_ms)
                if login.stage not in WORDS or WORDS[login.stage] != collect.seen or left_ms <= 0:
                    return await self._told(login, now_ms)
                expires_ms = login.expires_ms
                del login  # very many may wait, and need nothing else of it
                woken = await slot.wait(left_ms / 1000)
                if woken in (WakeReason.SUPERSEDED, WakeReason.SHUTTING_DOWN):
                    return Pending(collect.seen, seconds_until(expires_ms, self._now_ms()))
                if woken is WakeReason.TIMEOUT:  # by a clock that nobody sets: one last look
                    wait_ms = 0
                login, collect = await self._find(collect), replace(collect, presented=None)

    async def deliver(self, collect: CollectRequest) -> Collected:
        """The first proven collect, or what another one made of the login; InvalidProof and what watch() raises.

        Once begun it must be let finish: its writes may be on disk before its answer is known.
        """
        now_ms = self._now_ms()
        pair = generate_pair(self._random, now_ms, self._terms.session, now_ms)
        fresh = NewSession(new_player_id(self._random), new_session_id(self._random), pair)
        key, registration = LoginLookup.secret(collect.secret), self._terms.registration
        delivery = await self._logins.deliver(CollectCommand(key, collect.presented, fresh, registration, now_ms))
        if delivery is None:
            raise DeviceSecretInvalid
        login = delivery.move.after
        if delivery.move.is_news:
            self._waits.wake(login.secret_index)
            self._note(delivery, collect.request_id)
        if delivery.wrong:
            raise InvalidProof(attempts_left(login))
        return await self._told(login, now_ms)

    def _note(self, delivery: CollectOutcome, request_id: str) -> None:
        """How the login ended, for the owner's log."""
        login, player = delivery.move.after, delivery.player_id or ""
        if delivery.broken is not None:
            self._audit.record(SecurityEvent.DECRYPTION_FAILED, **delivery.broken)
        if login.outcome is not None:
            words = {"player": player, "provider": login.provider, "outcome": login.outcome.value}
            self._audit.record(SecurityEvent.SIGN_IN_REFUSED, **words, request=request_id)
            return
        if login.intent is not LoginIntent.LOGIN:
            self._audit.record(SecurityEvent.IDENTITY_LINKED, player=player, provider=login.provider)
        answer = self._answer(login, login.stage_ms)
        if isinstance(answer, Complete):
            created = "yes" if answer.result.created else "no"
            session = login.session_id or ""
            self._audit.record(
                SecurityEvent.SIGN_IN, player=player, session=session, provider=login.provider, created=created
            )

    async def _find(self, collect: CollectRequest) -> LoginTransaction:
        login = await self._logins.find(LoginLookup.secret(collect.secret))
        if login is None:
            raise DeviceSecretInvalid
        return login.at(self._now_ms())

    async def _told(self, login: LoginTransaction, now_ms: int) -> Collected:
        """As _answer(). Credentials that cannot be opened are nobody's: they end, and the game learns of it."""
        try:
            return self._answer(login, now_ms)
        except DecryptionFailed as e:
            self._audit.record(SecurityEvent.DECRYPTION_FAILED, **e.details)

        def step(login: LoginTransaction) -> LoginTransaction:
            current = login.at(now_ms)
            return current.lost(now_ms) if current.stage is LoginStage.DELIVERED else current

        move = await self._logins.advance(LoginLookup.secret(login.secret_index), step)
        if move is None:
            raise DeviceSecretInvalid
        return self._answer(move.after, now_ms)

    def _answer(self, login: LoginTransaction, now_ms: int) -> Collected:
        if login.stage in WORDS:
            return Pending.of(login, now_ms)
        if login.stage is LoginStage.COLLECTED:
            raise LoginCollected
        if login.outcome is not None:
            return Failed(login.outcome, login_approval_code(self._keys.indexer, login))
        if login.intent is LoginIntent.LINK:
            return Linked(login.provider)
        sealed = login.sealed_result or b""
        return Complete(
            login, CollectResult.from_bytes(self._keys.sealer.unseal(Purpose.RESULT, login.login_id, sealed))
        )

    def _pace(self, collect: CollectRequest) -> None:
        """Counts in memory, for logins that exist; forgets those whose haste is over."""
        if collect.presented is not None or collect.wait_seconds >= HASTY_SECONDS:
            return
        now_ms = self._now_ms()
        arrival_ms = HASTE.acquire(self._haste.get(collect.secret), now_ms)
        self._haste.pop(collect.secret, None)  # the order is that of the last collect
        while self._haste and HASTE.is_idle(next(iter(self._haste.values())), now_ms):
            del self._haste[next(iter(self._haste))]
        self._haste[collect.secret] = arrival_ms
