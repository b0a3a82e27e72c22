"""A browser opens, declines and finishes a login; a login that does not finish is cancelled or expires.

See docs/internals/login-states.md.
"""

from msgspec import Struct
from msgspec.structs import replace

from gamed.audit import SecurityEvent
from gamed.crypto import DecryptionFailed, Index, Purpose
from gamed.login.errors import (
    DeviceSecretInvalid,
    LoginCollected,
    LoginEnded,
    UnknownLoginLink,
    WrongBrowser,
)
from gamed.login.keys import LoginLookup, ReturnProof, login_token
from gamed.login.policy import LoginContext
from gamed.login.store import FindEnded, LoginStore, callback_key
from gamed.login.transaction import (
    EXCHANGE_GRACE_MS,
    FINAL,
    UNDECIDED,
    LoginEvent,
    LoginIntent,
    LoginStage,
    LoginTransaction,
    ProofMethod,
    Transition,
    TransitionFunction,
)
from gamed.long_poll import LongPollRegistry, WakeReason
from gamed.outcomes import LoginFailure
from gamed.structs import Component, redacts
from gamed.timestamps import Now


class SignInPrompt(Struct, frozen=True):
    """The page on which this browser decides a login that is still undecided."""

    login: LoginTransaction
    requester: str | None = None
    """The name of the player who asked for a link."""


class RedirectToResult(Struct, frozen=True):
    """A redirect to the result page of a login that belongs to this browser."""

    login_id: str


class Declined(Struct, frozen=True):
    """A login that a browser has declined, and the language of its game."""

    locale: str | None


class BrowserLoginService(Component, frozen=True, kw_only=True):
    """The service for the link of a login; `browser` is the index of the browser's cookie, None without a cookie."""

    context: LoginContext
    store: LoginStore
    waiters: LongPollRegistry

    async def get(self, token: str, browser: Index | None) -> SignInPrompt | RedirectToResult:
        """Return what this browser may do; raise UnknownLoginLink, LoginEnded or WrongBrowser."""
        return _next_page(await self.find(LoginLookup.token(self.context.keys.indexer, token)), browser)

    async def open(self, token: str, browser: Index | None) -> SignInPrompt | RedirectToResult:
        """Open the link, as get() does; opened again while `ready`, it leads to the finish code, not to the game."""
        key = LoginLookup.token(self.context.keys.indexer, token)
        login = await self.find(key)
        page = _next_page(login, browser)
        if login.returnable:
            await self.mark_redirected(key)
        return page

    async def decline(self, token: str, browser: Index, request_id: str = "") -> RedirectToResult | Declined:
        """Decline the login ("This was not me"); return Declined once it is declined, also if it was before.

        Any browser may decline an undecided login, and only the login's own browser one that the game can collect.
        """
        now_ms = self.context.now_ms()

        def step(login: LoginTransaction) -> LoginTransaction:
            current = login.at_time(now_ms)
            if current.stage in UNDECIDED or (current.stage is LoginStage.READY and current.belongs_to(browser)):
                return current.apply(LoginEvent.DECLINE, now_ms)
            return current

        transition = await self.advance(LoginLookup.token(self.context.keys.indexer, token), step)
        after = transition.after
        if after.stage is not LoginStage.DENIED:
            require_own(after, browser)
            return RedirectToResult(after.login_id)
        if transition.stage_changed:
            values = {"provider": after.provider, "outcome": LoginFailure.LOGIN_DENIED.value, "request": request_id}
            self.context.audit.record(SecurityEvent.SIGN_IN_REFUSED, **values)
        return Declined(after.client.locale)

    async def fail(self, key: LoginLookup, browser: Index, outcome: LoginFailure) -> RedirectToResult:
        """End an undecided login that cannot succeed, so that the game need not wait; this browser sees the outcome."""
        now_ms = self.context.now_ms()

        def step(login: LoginTransaction) -> LoginTransaction:
            current = login.at_time(now_ms)
            if current.stage not in UNDECIDED:
                return current
            return current.apply(LoginEvent.OPEN, now_ms).bound_to(browser, now_ms).failed(outcome, now_ms)

        after = (await self.advance(key, step)).after
        if not after.belongs_to(browser):
            require_own(after, browser)
        return RedirectToResult(after.login_id)

    async def interrupt(self, key: LoginLookup, error: DecryptionFailed) -> LoginTransaction:
        """End a `ready` login whose sealed values cannot be decrypted."""
        now_ms = self.context.now_ms()
        self.context.audit.record(SecurityEvent.DECRYPTION_FAILED, **error.details)

        def step(login: LoginTransaction) -> LoginTransaction:
            current = login.at_time(now_ms)
            ready = current.stage is LoginStage.READY
            return current.failed(LoginFailure.LOGIN_INTERRUPTED, now_ms) if ready else current

        return (await self.advance(key, step)).after

    async def mark_redirected(self, key: LoginLookup) -> Transition:
        """Record the redirect to the game; it happens once, and a browser that comes back sees the code."""
        now_ms = self.context.now_ms()
        return await self.advance(key, lambda login: login.at_time(now_ms).redirected())

    async def advance(self, key: LoginLookup, step: TransitionFunction) -> Transition:
        """Write one step and wake the waiters of the login; raise UnknownLoginLink."""
        return self.notify(await self.store.advance(key, step))

    def notify(self, transition: Transition | None) -> Transition:
        """Wake the waiters of a login whose stage has changed; raise UnknownLoginLink if there is no login."""
        if transition is None:
            raise UnknownLoginLink
        if transition.stage_changed:
            wake_login(self.waiters, transition.after)
        return transition

    async def wait_for_exchange(self, login: LoginTransaction) -> None:
        """Wait until the exchange has ended, at most EXCHANGE_GRACE_MS."""
        ends_ms = self.context.now_ms() + EXCHANGE_GRACE_MS
        with self.waiters.open(callback_key(login.secret_index)) as waiter:
            while (await self.find(LoginLookup("login_id", login.login_id))).stage is LoginStage.EXCHANGING:
                waiter.known = LoginStage.EXCHANGING
                # Never more than the grace: the clock may be set back meanwhile.
                left_ms = min(ends_ms - self.context.now_ms(), EXCHANGE_GRACE_MS)
                if left_ms <= 0 or await waiter.wait(left_ms / 1000) is not WakeReason.CHANGED:
                    return

    async def find(self, key: LoginLookup) -> LoginTransaction:
        """Return the login at this instant; raise UnknownLoginLink."""
        login = await self.store.find(key)
        if login is None:
            raise UnknownLoginLink
        return login.at_time(self.context.now_ms())


def require_own(login: LoginTransaction, browser: Index | None) -> None:
    """Raise LoginEnded for a final login, and WrongBrowser unless the login belongs to this browser."""
    if login.stage in FINAL:
        raise LoginEnded(login.outcome, login.client.locale)
    if not login.belongs_to(browser):
        raise WrongBrowser


def _next_page(login: LoginTransaction, browser: Index | None) -> SignInPrompt | RedirectToResult:
    if login.stage in UNDECIDED:
        return SignInPrompt(login)
    require_own(login, browser)
    return RedirectToResult(login.login_id)


def wake_login(waiters: LongPollRegistry, login: LoginTransaction) -> None:
    """Wake the game, and callbacks that wait for the exchange of another one."""
    for key in (login.secret_index, callback_key(login.secret_index)):
        waiters.wake(key)


class InProgress(Struct, frozen=True):
    """A result that is not known yet: the provider has not answered."""


@redacts("ticket")
class ReturnToGame(Struct, frozen=True):
    """A redirect to the loopback port of the game or to its app, made once."""

    login: LoginTransaction
    ticket: str


@redacts("code", "token")
class ShowFinishCode(Struct, frozen=True):
    """The finish code, which the player types into the game; `token` addresses the form "This was not me"."""

    login: LoginTransaction
    code: str
    token: str


class Finished(Struct, frozen=True):
    """A sign-in with nothing left to do: `signed_in` once the game has collected, `linked` if it only linked.

    Unless `final`, the game may still cancel it.
    """

    signed_in: bool
    linked: bool = False
    final: bool = False
    provider: str = ""
    player: str | None = None
    """The player's names, if an account of `provider` was linked or has adopted the player."""
    codes_left: int | None = None
    """The recovery codes that the player has left, if one of them signed in."""

    @property
    def plain(self) -> bool:
        """Return whether a game got its sign-in, and the page has nothing else to say."""
        return self.signed_in and not self.linked and self.player is None and self.codes_left is None


class Ended(Struct, frozen=True):
    """A login that ended without credentials."""

    outcome: LoginFailure
    approval_code: str | None = None
    """The code that a new player reports to the owner."""
    linking: bool = False
    """It was to link a provider on the account's page."""


class OnAccountPage(Struct, frozen=True):
    """A login for the player's own page, which shows the result itself."""

    login_id: str


LoginResult = OnAccountPage | InProgress | ReturnToGame | ShowFinishCode | Finished | Ended


class ResultPage(Struct, frozen=True):
    """The data of the result page, and the language of the game."""

    result: LoginResult
    locale: str | None


class ResultService(Component, frozen=True, kw_only=True):
    """The service for the result page of a login (docs/protocol.md: Collect)."""

    context: LoginContext
    store: LoginStore
    browsers: BrowserLoginService

    async def get(self, login_id: str, browser: Index | None) -> ResultPage:
        """Return the result; raise WrongBrowser for any browser but the login's own, in every stage."""
        found, left = await self.store.find_result(login_id)
        if found is None:
            raise UnknownLoginLink
        login = found.at_time(self.context.now_ms())
        if not login.belongs_to(browser):
            raise WrongBrowser
        return ResultPage(await self._current(login, left), login.client.locale)

    async def _current(self, login: LoginTransaction, codes_left: int | None) -> LoginResult:
        key = LoginLookup("login_id", login.login_id)
        if login.intent is LoginIntent.ACCOUNT:
            return OnAccountPage(login.login_id)
        try:
            if login.returnable:
                transition = await self.browsers.mark_redirected(key)
                login = transition.after
                if transition.before.returnable and login.returned_to_game:
                    return ReturnToGame(login, self._proof(login).ticket.reveal().decode())
            return await self._result(login, codes_left)
        except DecryptionFailed as e:
            return await self._result(await self.browsers.interrupt(key, e), codes_left)

    async def _result(self, login: LoginTransaction, codes_left: int | None) -> LoginResult:
        match login.stage:
            case LoginStage.READY if login.return_proof is not ProofMethod.NONE:
                code = self._proof(login).formatted_code()
                return ShowFinishCode(login, code, login_token(self.context.keys.indexer, login.login_id))
            case LoginStage.READY:
                return Finished(signed_in=False)
            case LoginStage.DELIVERED | LoginStage.COLLECTED:
                linked = login.intent is LoginIntent.LINK
                finished = Finished(signed_in=True, linked=linked, final=login.final, codes_left=codes_left)
                player = await self._named_player(login)
                return finished if player is None else replace(finished, provider=login.provider, player=player)
            case _ if login.outcome is None:
                return InProgress()
            case _:
                return Ended(login.outcome, login.approval_code)

    async def _named_player(self, login: LoginTransaction) -> str | None:
        """Return the names of the player whose ways to sign in have changed, while that session is valid."""
        named = {LoginIntent.LINK: login.requesting_session_id, LoginIntent.ADOPT: login.session_id}
        session_id = named.get(login.intent)
        return session_id and await self.store.session_owner_name(session_id, self.context.now_ms())

    def _proof(self, login: LoginTransaction) -> ReturnProof:
        sealed = login.sealed_proof or b""
        return ReturnProof.from_bytes(self.context.keys.sealer.unseal(Purpose.PROOF, login.login_id, sealed))


class LoginLifecycle(Component, frozen=True, kw_only=True):
    """The ends of a login that no browser causes: cancelled by the game, expired, interrupted by a restart."""

    store: LoginStore
    waiters: LongPollRegistry
    now_ms: Now
    ended: FindEnded

    async def cancel(self, secret: Index) -> None:
        """Cancel the login of this device secret, in any stage but `collected`; its credentials work no longer.

        Cancelling twice changes nothing. Raise DeviceSecretInvalid or LoginCollected.
        """
        now_ms, key = self.now_ms(), LoginLookup("secret_index", secret)

        def step(login: LoginTransaction) -> LoginTransaction:
            current = login.at_time(now_ms)
            return current if current.final else current.apply(LoginEvent.CANCEL, now_ms)

        # No limit counts this request, and its transaction has no keys: only one that may change a login gets there.
        login = await self.store.find(key)
        if login is not None and not login.final:
            transition = await self.store.cancel(key, step)
            login = None if transition is None else transition.after
            if transition is not None and transition.stage_changed:
                wake_login(self.waiters, transition.after)
        if login is None:
            raise DeviceSecretInvalid
        if login.stage is LoginStage.COLLECTED:
            raise LoginCollected

    async def expire(self) -> None:
        """End the logins whose deadline has passed, wake their games, and delete what ended an hour ago."""
        while changed := await self.store.expire(self.now_ms()):
            for secret in changed:
                self.waiters.wake(secret)

    async def recover(self, *, first: bool = False) -> None:
        """Interrupt the exchanges of processes that have ended, and wake their games; after a DatabaseError call again.

        `first`: no request was served yet, and none learns of the old stage.
        """
        if first:
            await self.store.interrupt_first(self.ended, self.now_ms())
            return
        for login in await self.store.interrupt(self.ended, self.now_ms()):
            wake_login(self.waiters, login)
