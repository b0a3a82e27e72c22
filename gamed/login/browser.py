"""Who is to be told when a login has moved: its game, and callbacks that wait for another one's exchange.

What a browser may do with a handoff before it is decided: open it, decline it (PROTOCOL 3.2).

What the browser that signed in sees afterwards: its way back to the game, or how it ended (PROTOCOL 3.4).

A handoff apart from what moves it forward: given up, ended by the clock, cut short by a restart (PROTOCOL 3).
"""

from msgspec import Struct

from gamed.audit import NULL_AUDIT_LOG, AuditLog, SecurityEvent
from gamed.crypto import DecryptionFailed, Index, Indexer, Keys, Purpose
from gamed.login.errors import DeviceSecretInvalid, LoginCollected, LoginEnded, UnknownLoginLink, WrongBrowser
from gamed.login.interfaces import LoginStore, Transition, TransitionFunction
from gamed.login.keys import LoginLookup, ReturnProof, login_approval_code, login_token
from gamed.login.transaction import (
    EXCHANGE_GRACE_MS,
    FINAL,
    UNDECIDED,
    LoginEvent,
    LoginIntent,
    LoginStage,
    LoginTransaction,
    ProofMethod,
)
from gamed.long_poll import LongPollRegistry, WakeReason
from gamed.outcomes import LoginFailure
from gamed.structs import Component, redacts
from gamed.timestamps import Now


def callback_key(login: LoginTransaction) -> bytes:
    """Under this a second callback waits."""
    return b"callback " + login.login_id.encode()


def wake_waiters(waits: LongPollRegistry, login: LoginTransaction) -> None:
    waits.wake(login.secret_index)
    waits.wake(callback_key(login))


class SignInPrompt(Struct, frozen=True):
    """The login is undecided: ask this browser who signs in."""

    login: LoginTransaction
    asker: str | None = None
    """For a link: what the player who wants it is called."""


class RedirectToResult(Struct, frozen=True):
    """This browser has won: its outcome is on the page of this login."""

    login_id: str


class BrowserLoginService(Component, frozen=True):
    """`browser` is the index of its cookie; None for a browser without."""

    _logins: LoginStore
    _waits: LongPollRegistry
    _indexer: Indexer
    _now_ms: Now
    _audit: AuditLog = NULL_AUDIT_LOG

    async def look(self, token: str, browser: Index | None) -> SignInPrompt | RedirectToResult:
        """Where this browser stands; LinkUnknown, LoginOver or OtherBrowser when nothing is asked of it."""
        return _standing(await self.find(LoginLookup.token(self._indexer, token)), browser)

    async def enter(self, token: str, browser: Index | None) -> SignInPrompt | RedirectToResult:
        """The link was opened. Opened again while `ready`, it leads to the finish code, not to the game's port."""
        key = LoginLookup.token(self._indexer, token)
        login = await self.find(key)
        standing = _standing(login, browser)
        if login.returnable:
            await self.send_back(key)
        return standing

    async def decline(self, token: str, browser: Index, request_id: str = "") -> RedirectToResult | None:
        """ "This was not me": from any browser while undecided, from the winning one until the game collects.

        None once the login is declined, also when it was before.
        """
        now_ms = self._now_ms()

        def step(login: LoginTransaction) -> LoginTransaction:
            current = login.at(now_ms)
            if current.stage in UNDECIDED or (current.stage is LoginStage.READY and current.won_by(browser)):
                return current.after(LoginEvent.DECLINE, now_ms)
            return current

        move = await self.move(LoginLookup.token(self._indexer, token), step)
        after = move.after
        if after.stage is LoginStage.DENIED:
            if move.is_news:
                words = {"provider": after.provider, "outcome": LoginFailure.LOGIN_DENIED.value, "request": request_id}
                self._audit.record(SecurityEvent.SIGN_IN_REFUSED, **words)
            return None
        require_winner(after, browser)
        return RedirectToResult(after.login_id)

    async def refuse(self, token: str, browser: Index, outcome: LoginFailure) -> RedirectToResult:
        """Nobody can sign in by this login now, so its game need not wait: this browser brings it the news."""
        now_ms = self._now_ms()

        def step(login: LoginTransaction) -> LoginTransaction:
            current = login.at(now_ms)
            if current.stage not in UNDECIDED:
                return current
            return current.after(LoginEvent.OPEN, now_ms).claimed(browser, now_ms).refused(outcome, now_ms)

        after = await self.advance(LoginLookup.token(self._indexer, token), step)
        if not after.won_by(browser):
            require_winner(after, browser)
        return RedirectToResult(after.login_id)

    async def interrupt(self, key: LoginLookup, broken: DecryptionFailed) -> LoginTransaction:
        """What a `ready` login keeps cannot be opened: nobody can sign in by it, so its game need not wait."""
        now_ms = self._now_ms()
        self._audit.record(SecurityEvent.DECRYPTION_FAILED, **broken.details)

        def step(login: LoginTransaction) -> LoginTransaction:
            current = login.at(now_ms)
            return (
                current.refused(LoginFailure.LOGIN_INTERRUPTED, now_ms)
                if current.stage is LoginStage.READY
                else current
            )

        return await self.advance(key, step)

    async def advance(self, key: LoginLookup, step: TransitionFunction) -> LoginTransaction:
        """One step, and whoever waits for this login is told."""
        return (await self.move(key, step)).after

    async def move(self, key: LoginLookup, step: TransitionFunction) -> Transition:
        """As advance(), with what it was before."""
        return self.told(await self._logins.advance(key, step))

    def told(self, move: Transition | None) -> Transition:
        """Whoever waits for a login that has moved is told; LinkUnknown when there is none."""
        if move is None:
            raise UnknownLoginLink
        if move.is_news:
            self.tell(move.after)
        return move

    def tell(self, login: LoginTransaction) -> None:
        wake_waiters(self._waits, login)

    async def exchanged(self, login: LoginTransaction) -> None:
        """Waits for the end of an exchange, for as long as one may take and no longer."""
        ends_ms = self._now_ms() + EXCHANGE_GRACE_MS
        with self._waits.open(callback_key(login)) as slot:
            while (await self.find(LoginLookup.id(login.login_id))).stage is LoginStage.EXCHANGING:
                left_ms = min(ends_ms - self._now_ms(), EXCHANGE_GRACE_MS)
                if left_ms <= 0 or await slot.wait(left_ms / 1000) is not WakeReason.CHANGED:
                    return

    async def send_back(self, key: LoginLookup) -> Transition:
        """The way through the loopback port is taken once: a browser that comes back is shown the code."""
        now_ms = self._now_ms()
        return await self.move(key, lambda login: login.at(now_ms).sent_back())

    async def find(self, key: LoginLookup) -> LoginTransaction:
        login = await self._logins.find(key)
        if login is None:
            raise UnknownLoginLink
        return login.at(self._now_ms())


def require_winner(login: LoginTransaction, browser: Index | None) -> None:
    """From `exchanging` on a login has one browser, and in the end none."""
    if login.stage in FINAL:
        raise LoginEnded(login.outcome)
    if not login.won_by(browser):
        raise WrongBrowser


def _standing(login: LoginTransaction, browser: Index | None) -> SignInPrompt | RedirectToResult:
    if login.stage in UNDECIDED:
        return SignInPrompt(login)
    require_winner(login, browser)
    return RedirectToResult(login.login_id)


class InProgress(Struct, frozen=True):
    """The provider is being asked."""


@redacts("ticket")
class ReturnToGame(Struct, frozen=True):
    """Send the browser on to the game, once."""

    login: LoginTransaction
    ticket: str


@redacts("code", "token")
class ShowFinishCode(Struct, frozen=True):
    """A person carries the proof to the game. `token` addresses the form "This was not me"."""

    login: LoginTransaction
    code: str
    token: str


class Finished(Struct, frozen=True):
    """Nothing is left to do here; `signed_in` once the game has collected, `linked` if that was all it wanted.

    Unless `final`, the game may still give the sign-in up.
    """

    signed_in: bool
    linked: bool = False
    final: bool = False


class Ended(Struct, frozen=True):
    """It ended without credentials."""

    outcome: LoginFailure
    approval_code: str | None = None
    """What a newcomer tells the owner."""


Done = InProgress | ReturnToGame | ShowFinishCode | Finished | Ended


class ResultService(Component, frozen=True):
    """`browser` is the index of its cookie; None for a browser without."""

    _browsers: BrowserLoginService
    _keys: Keys

    async def done(self, login_id: str, browser: Index | None) -> Done:
        """What became of it, for the winning browser only: OtherBrowser for any other, whatever the stage."""
        key = LoginLookup.id(login_id)
        login = await self._browsers.find(key)
        if not login.won_by(browser):
            raise WrongBrowser
        try:
            return await self._shown(key, login)
        except DecryptionFailed as e:
            return self._seen(await self._browsers.interrupt(key, e))

    async def _shown(self, key: LoginLookup, login: LoginTransaction) -> Done:
        if login.returnable:
            move = await self._browsers.send_back(key)
            login = move.after
            if move.before.returnable and login.returned_to_game:
                return ReturnToGame(login, self._proof(login).ticket.reveal().decode())
        return self._seen(login)

    def _seen(self, login: LoginTransaction) -> Done:
        match login.stage:
            case LoginStage.READY if login.return_proof is not ProofMethod.NONE:
                return ShowFinishCode(
                    login, self._proof(login).shown(), login_token(self._keys.indexer, login.login_id)
                )
            case LoginStage.READY:
                return Finished(signed_in=False)
            case LoginStage.DELIVERED | LoginStage.COLLECTED:
                return Finished(signed_in=True, linked=login.intent is LoginIntent.LINK, final=login.final)
            case _:
                return InProgress() if login.outcome is None else self._over(login, login.outcome)

    def _over(self, login: LoginTransaction, outcome: LoginFailure) -> Ended:
        return Ended(outcome, login_approval_code(self._keys.indexer, login))

    def _proof(self, login: LoginTransaction) -> ReturnProof:
        sealed = login.sealed_proof or b""
        return ReturnProof.from_bytes(self._keys.sealer.unseal(Purpose.PROOF, login.login_id, sealed))


class LoginLifecycle(Component, frozen=True):
    _logins: LoginStore
    _waits: LongPollRegistry
    _now_ms: Now

    async def cancel(self, secret: Index) -> None:
        """The game gives up, in any stage but `collected`, as often as it likes: no credential works afterwards."""
        now_ms = self._now_ms()

        def step(login: LoginTransaction) -> LoginTransaction:
            current = login.at(now_ms)
            return current if current.final else current.after(LoginEvent.CANCEL, now_ms)

        move = await self._logins.advance(LoginLookup.secret(secret), step)
        if move is None:
            raise DeviceSecretInvalid
        if move.is_news:
            wake_waiters(self._waits, move.after)
        if move.after.stage is LoginStage.COLLECTED:
            raise LoginCollected

    async def sweep(self) -> None:
        """Write down what the clock has ended, tell who waits, forget what is long over."""
        while moved := await self._logins.sweep(self._now_ms()):
            for secret in moved:
                self._waits.wake(secret)

    async def recover(self, started_ms: int | None = None) -> None:
        """Interrupt what was being exchanged when the service ended; StoreError, then call it again.

        `started_ms`: when this process started, for a later call; None before the first request.
        """
        await self._logins.interrupt(self._now_ms(), started_ms)
