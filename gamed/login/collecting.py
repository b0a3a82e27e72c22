"""The game comes for the result: a long poll, and at most one first proven collect (PROTOCOL 3.5)."""

from typing import Self

from msgspec import Struct, field
from msgspec.structs import replace

from gamed.audit import UNHEARD, Audit, Event
from gamed.crypto import Index, Keys, Purpose, Random, SealBroken
from gamed.instants import Now, seconds_until
from gamed.limits import Rate
from gamed.login.delivery import attempts_left
from gamed.login.entry import Key
from gamed.login.errors import DeviceSecretInvalid, InvalidProof, LoginCollected
from gamed.login.logins import Claim, Delivery, Fresh, Logins
from gamed.login.newcomer import code_of
from gamed.login.outcome import Outcome
from gamed.login.proof import Presented
from gamed.login.result import Result
from gamed.login.terms import LoginTerms
from gamed.login.transaction import Intent, LoginTransaction, Proof, Stage
from gamed.players.names import new_player_id
from gamed.sessions.credentials import mint, new_session_id
from gamed.structs import Part
from gamed.waits import Waits, Woken

WORDS = {
    Stage.PENDING: "waiting_for_browser",
    Stage.AUTHORIZING: "at_provider",
    Stage.EXCHANGING: "exchanging",
    Stage.READY: "proof_required",
}
"""What a game is told of the stages before the first collect."""
FIRST_WORD = WORDS[Stage.PENDING]
HASTY_SECONDS = 5
"""A collect without proof that waits less than this is counted."""
HASTE = Rate(interval_ms=1000, burst=5)


class Collect(Struct, frozen=True):
    """What a game asks; `seen` is the last stage it was told, `request_id` is for the log."""

    secret: Index
    wait_seconds: int = 0
    seen: str = FIRST_WORD
    presented: Presented | None = None
    request_id: str = ""

    def opens(self, login: LoginTransaction) -> bool:
        """Whether this may be the first proven collect; a proof before `ready` is ignored."""
        proof = self.presented is not None or login.return_proof is Proof.NONE
        return login.stage is Stage.READY and proof


class Pending(Struct, frozen=True):
    stage: str
    expires_seconds: int

    @classmethod
    def of(cls, login: LoginTransaction, now_ms: int) -> Self:
        return cls(WORDS[login.stage], seconds_until(login.expires_ms, now_ms))


class Complete(Struct, frozen=True):
    login: LoginTransaction
    result: Result


class Linked(Struct, frozen=True):
    """All that was wanted: this provider's account signs in as the asking player from now on."""

    provider: str


class Failed(Struct, frozen=True):
    outcome: Outcome
    approval_code: str | None = None
    """What the newcomer tells the owner."""

    def __eq__(self, other: object) -> bool:
        """Compare the outcomes; the approval code does not count."""
        return isinstance(other, Failed) and self.outcome is other.outcome

    def __hash__(self) -> int:
        return hash(self.outcome)


Collected = Pending | Complete | Linked | Failed


class Collecting(Part, frozen=True):
    _logins: Logins
    _waits: Waits
    _keys: Keys
    _random: Random
    _now_ms: Now
    _terms: LoginTerms
    _audit: Audit = UNHEARD
    _haste: dict[Index, int] = field(default_factory=dict)
    """Arrival times of GCRA for hasty games."""

    async def watch(self, collect: Collect) -> Collected | None:
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
                if woken in (Woken.SUPERSEDED, Woken.CLOSING):
                    return Pending(collect.seen, seconds_until(expires_ms, self._now_ms()))
                if woken is Woken.TIME:  # by a clock that nobody sets: one last look
                    wait_ms = 0
                login, collect = await self._find(collect), replace(collect, presented=None)

    async def deliver(self, collect: Collect) -> Collected:
        """The first proven collect, or what another one made of the login; InvalidProof and what watch() raises.

        Once begun it must be let finish: its writes may be on disk before its answer is known.
        """
        now_ms = self._now_ms()
        pair = mint(self._random, now_ms, self._terms.session, now_ms)
        fresh = Fresh(new_player_id(self._random), new_session_id(self._random), pair)
        key, registration = Key.secret(collect.secret), self._terms.registration
        delivery = await self._logins.deliver(Claim(key, collect.presented, fresh, registration, now_ms))
        if delivery is None:
            raise DeviceSecretInvalid
        login = delivery.move.after
        if delivery.move.is_news:
            self._waits.wake(login.secret_index)
            self._note(delivery, collect.request_id)
        if delivery.wrong:
            raise InvalidProof(attempts_left(login))
        return await self._told(login, now_ms)

    def _note(self, delivery: Delivery, request_id: str) -> None:
        """How the login ended, for the owner's log."""
        login, player = delivery.move.after, delivery.player_id or ""
        if delivery.broken is not None:
            self._audit.note(Event.DECRYPTION_FAILED, **delivery.broken)
        if login.outcome is not None:
            words = {"player": player, "provider": login.provider, "outcome": login.outcome.value}
            self._audit.note(Event.SIGN_IN_REFUSED, **words, request=request_id)
            return
        if login.intent is not Intent.LOGIN:
            self._audit.note(Event.IDENTITY_LINKED, player=player, provider=login.provider)
        answer = self._answer(login, login.stage_ms)
        if isinstance(answer, Complete):
            created = "yes" if answer.result.created else "no"
            session = login.session_id or ""
            self._audit.note(Event.SIGN_IN, player=player, session=session, provider=login.provider, created=created)

    async def _find(self, collect: Collect) -> LoginTransaction:
        login = await self._logins.find(Key.secret(collect.secret))
        if login is None:
            raise DeviceSecretInvalid
        return login.at(self._now_ms())

    async def _told(self, login: LoginTransaction, now_ms: int) -> Collected:
        """As _answer(). Credentials that cannot be opened are nobody's: they end, and the game learns of it."""
        try:
            return self._answer(login, now_ms)
        except SealBroken as e:
            self._audit.note(Event.DECRYPTION_FAILED, **e.words)

        def step(login: LoginTransaction) -> LoginTransaction:
            current = login.at(now_ms)
            return current.lost(now_ms) if current.stage is Stage.DELIVERED else current

        move = await self._logins.advance(Key.secret(login.secret_index), step)
        if move is None:
            raise DeviceSecretInvalid
        return self._answer(move.after, now_ms)

    def _answer(self, login: LoginTransaction, now_ms: int) -> Collected:
        if login.stage in WORDS:
            return Pending.of(login, now_ms)
        if login.stage is Stage.COLLECTED:
            raise LoginCollected
        if login.outcome is not None:
            return Failed(login.outcome, code_of(self._keys.indexer, login))
        if login.intent is Intent.LINK:
            return Linked(login.provider)
        sealed = login.sealed_result or b""
        return Complete(login, Result.from_bytes(self._keys.sealer.unseal(Purpose.RESULT, login.login_id, sealed)))

    def _pace(self, collect: Collect) -> None:
        """Counts in memory, for logins that exist; forgets those whose haste is over."""
        if collect.presented is not None or collect.wait_seconds >= HASTY_SECONDS:
            return
        now_ms = self._now_ms()
        arrival_ms = HASTE.after(self._haste.get(collect.secret), now_ms)
        self._haste.pop(collect.secret, None)  # the order is that of the last collect
        while self._haste and HASTE.is_over(next(iter(self._haste.values())), now_ms):
            del self._haste[next(iter(self._haste))]
        self._haste[collect.secret] = arrival_ms
