"""Signing in with a name and a password of this server, or making such an account (SPEC 1.3 `local`, PROTOCOL 3.2)."""

from collections.abc import Awaitable, Callable

from msgspec import Struct

from gamed.config.model import Registration
from gamed.crypto import Keys, Random
from gamed.instants import Now
from gamed.login import identified
from gamed.login.account_check import AccountCheck, Form, Refusal, TurnedAway
from gamed.login.browser import BrowserSide, SeeDone, require_winner
from gamed.login.entry import Key
from gamed.login.identified import ExistingAccount, Identified
from gamed.login.logins import Step
from gamed.login.transaction import UNDECIDED, Event, LoginTransaction
from gamed.structs import Part

UNTOUCHED = frozenset({Refusal.LIMIT, Refusal.BUSY})
"""These are not even worth a word to the game."""


class Refused(Struct, frozen=True):
    """Nothing was changed, but that the game is told that somebody is at the form."""

    login: LoginTransaction
    refusal: Refusal
    retry_after: int = 0


class LocalSignIn(Part, frozen=True):
    _browsers: BrowserSide
    _check: AccountCheck
    _keys: Keys
    _random: Random
    _now_ms: Now
    _registration: Registration

    async def sign_in(self, form: Form) -> SeeDone | Refused:
        """With an account that exists. LinkUnknown, LoginOver or OtherBrowser when nobody is asked any more."""
        return await self._answer(form, self._known)

    async def create(self, form: Form) -> SeeDone | Refused:
        """With a new account, which is made when the game collects and not before."""
        return await self._answer(form, self._new)

    async def _answer(self, form: Form, identify: "Identify") -> SeeDone | Refused:
        standing = await self._browsers.look(form.token, form.browser)
        if isinstance(standing, SeeDone):
            return standing
        try:
            step = self._winning(standing.login, form, await identify(form))
        except TurnedAway as e:
            if e.refusal in UNTOUCHED:
                return Refused(standing.login, e.refusal, e.retry_after)
            now_ms = self._now_ms()
            login = await self._browsers.advance(self._key(form), lambda current: current.opened(now_ms))
            if login.stage in UNDECIDED:
                return Refused(login, e.refusal)
        else:
            login = await self._browsers.advance(self._key(form), step)
        require_winner(login, form.browser)
        return SeeDone(login.login_id)

    async def _known(self, form: Form) -> Identified:
        return ExistingAccount(await self._check.known(form))

    async def _new(self, form: Form) -> Identified:
        if self._registration is Registration.CLOSED:
            raise TurnedAway(Refusal.CLOSED)
        return await self._check.new(form)

    def _key(self, form: Form) -> Key:
        return Key.token(self._keys.indexer, form.token)

    def _winning(self, login: LoginTransaction, form: Form, who: Identified) -> Step:
        """Nothing has to be exchanged, so three arrows are one step."""
        now_ms = self._now_ms()
        identity, proof = identified.seal(self._keys, self._random, login.login_id, who)

        def step(login: LoginTransaction) -> LoginTransaction:
            current = login.at(now_ms)
            if current.stage not in UNDECIDED:
                return current
            return current.after(Event.OPEN, now_ms).claimed(form.browser, now_ms).identified(identity, proof, now_ms)

        return step


Identify = Callable[[Form], Awaitable[Identified]]
