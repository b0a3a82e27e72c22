"""A name and a password of this server, tried from a form: right or not, and not too often (PROTOCOL 3.2, 3.9).

Signing in with a name and a password of this server, or making such an account (SPEC 1.3 `local`, PROTOCOL 3.2).
"""

from collections.abc import Awaitable, Callable, Mapping
from enum import Enum
from typing import Protocol

from msgspec import Struct

from gamed.audit import NULL_AUDIT_LOG, AuditLog, SecurityEvent
from gamed.config.model import Registration
from gamed.crypto import Index, Indexer, Keys, Purpose, Random, Secret
from gamed.login import keys
from gamed.login.browser import BrowserLoginService, RedirectToResult, require_winner
from gamed.login.interfaces import TransitionFunction
from gamed.login.keys import ExistingAccount, Identified, LoginLookup, NewAccount
from gamed.login.policy import per_address
from gamed.login.transaction import UNDECIDED, LoginEvent, LoginTransaction
from gamed.players.errors import NameMalformed, PasswordMalformed, PasswordsBusy
from gamed.players.names import LOCAL, fold_typed, name_index, parse_name, parse_password
from gamed.rate_limit import RateLimit, RateLimited, client_network
from gamed.structs import Component
from gamed.timestamps import Now

PER_ADDRESS_FACTOR = 4
"""An address may try this many times what one account from that address may."""


class Account(Protocol):
    @property
    def player_id(self) -> str: ...

    @property
    def password(self) -> str: ...


class Accounts(Protocol):
    async def find(self, index: Index) -> Account | None: ...


class Passwords(Protocol):
    """PasswordsBusy when too many wait."""

    async def hash(self, password: Secret) -> str: ...

    async def verify(self, encoded: str | None, password: Secret) -> bool:
        """False for None, after as much work."""


class Limits(Protocol):
    async def take(self, buckets: Mapping[Index, RateLimit], now_ms: int) -> None:
        """Counts against all of them, or RateLimited and against none."""


class FormError(Enum):
    """Why the form comes back."""

    WRONG = "wrong"
    """No such name, or another password: nobody is told which."""
    NAME_MALFORMED = "name_malformed"
    PASSWORD_MALFORMED = "password_malformed"
    NAME_TAKEN = "name_taken"
    CLOSED = "closed"
    LIMIT = "limit"
    BUSY = "busy"


class SignInRejected(Exception):
    """What was typed does not do."""

    def __init__(self, refusal: FormError, retry_after: int = 0) -> None:
        super().__init__(refusal.value)
        self.refusal = refusal
        self.retry_after = retry_after


class SignInForm(Struct, frozen=True):
    """What was typed, from which address, into which browser's form of which login; `request_id` is for the log."""

    token: str
    browser: Index
    address: str
    name: str = ""
    password: str = ""
    request_id: str = ""

    def __repr__(self) -> str:
        return "Form(...)"


class PasswordAuthenticator(Component, frozen=True):
    _accounts: Accounts
    _passwords: Passwords
    _limits: Limits
    _indexer: Indexer
    _now_ms: Now
    _passwords_per_minute: int = 5
    _audit: AuditLog = NULL_AUDIT_LOG

    async def known(self, form: SignInForm) -> str:
        """Whose account it is; TurnedAway."""
        await self._limit(form)
        try:
            index = name_index(self._indexer, parse_name(form.name))
            password = parse_password(form.password)
        except (NameMalformed, PasswordMalformed):
            index, password = None, Secret(b"")
        account = None if index is None else await self._accounts.find(index)
        try:
            right = await self._passwords.verify(None if account is None else account.password, password)
        except PasswordsBusy as e:
            raise SignInRejected(FormError.BUSY, e.retry_after) from None
        if account is None or not right:
            self._audit.record(
                SecurityEvent.SIGN_IN_REFUSED, provider=LOCAL, outcome="wrong_password", request=form.request_id
            )
            raise SignInRejected(FormError.WRONG)
        return account.player_id

    async def new(self, form: SignInForm) -> NewAccount:
        """An account that could be made; TurnedAway."""
        try:
            name = parse_name(form.name)
            password = parse_password(form.password)
        except NameMalformed:
            raise SignInRejected(FormError.NAME_MALFORMED) from None
        except PasswordMalformed:
            raise SignInRejected(FormError.PASSWORD_MALFORMED) from None
        await self._limit(form)
        if await self._accounts.find(name_index(self._indexer, name)) is not None:
            raise SignInRejected(FormError.NAME_TAKEN)
        try:
            return NewAccount(name, await self._passwords.hash(password))
        except PasswordsBusy as e:
            raise SignInRejected(FormError.BUSY, e.retry_after) from None

    async def _limit(self, form: SignInForm) -> None:
        """Per account and address, and per address; never per account alone, which would lock its owner out."""
        rate = RateLimit.per_minute(self._passwords_per_minute)
        if not rate.interval_ms:
            return
        account = fold_typed(form.name).encode()
        buckets = {
            self._indexer.index(Purpose.LIMIT, b"password", client_network(form.address).encode(), account): rate
        }
        buckets |= per_address(self._indexer, b"password", form.address, rate.times(PER_ADDRESS_FACTOR))
        try:
            await self._limits.take(buckets, self._now_ms())
        except RateLimited as e:
            outcome = "too_many_passwords"
            self._audit.record(SecurityEvent.SIGN_IN_REFUSED, provider=LOCAL, outcome=outcome, request=form.request_id)
            raise SignInRejected(FormError.LIMIT, e.retry_after) from None


UNTOUCHED = frozenset({FormError.LIMIT, FormError.BUSY})
"""These are not even worth a word to the game."""


class FormRejected(Struct, frozen=True):
    """Nothing was changed, but that the game is told that somebody is at the form."""

    login: LoginTransaction
    refusal: FormError
    retry_after: int = 0


class LocalLoginService(Component, frozen=True):
    _browsers: BrowserLoginService
    _check: PasswordAuthenticator
    _keys: Keys
    _random: Random
    _now_ms: Now
    _registration: Registration

    async def sign_in(self, form: SignInForm) -> RedirectToResult | FormRejected:
        """With an account that exists. LinkUnknown, LoginOver or OtherBrowser when nobody is asked any more."""
        return await self._answer(form, self._known)

    async def create(self, form: SignInForm) -> RedirectToResult | FormRejected:
        """With a new account, which is made when the game collects and not before."""
        return await self._answer(form, self._new)

    async def _answer(self, form: SignInForm, identify: "Identify") -> RedirectToResult | FormRejected:
        standing = await self._browsers.look(form.token, form.browser)
        if isinstance(standing, RedirectToResult):
            return standing
        try:
            step = self._winning(standing.login, form, await identify(form))
        except SignInRejected as e:
            if e.refusal in UNTOUCHED:
                return FormRejected(standing.login, e.refusal, e.retry_after)
            now_ms = self._now_ms()
            login = await self._browsers.advance(self._key(form), lambda current: current.opened(now_ms))
            if login.stage in UNDECIDED:
                return FormRejected(login, e.refusal)
        else:
            login = await self._browsers.advance(self._key(form), step)
        require_winner(login, form.browser)
        return RedirectToResult(login.login_id)

    async def _known(self, form: SignInForm) -> Identified:
        return ExistingAccount(await self._check.known(form))

    async def _new(self, form: SignInForm) -> Identified:
        if self._registration is Registration.CLOSED:
            raise SignInRejected(FormError.CLOSED)
        return await self._check.new(form)

    def _key(self, form: SignInForm) -> LoginLookup:
        return LoginLookup.token(self._keys.indexer, form.token)

    def _winning(self, login: LoginTransaction, form: SignInForm, who: Identified) -> TransitionFunction:
        """Nothing has to be exchanged, so three arrows are one step."""
        now_ms = self._now_ms()
        identity, proof = keys.seal_identity(self._keys, self._random, login.login_id, who)

        def step(login: LoginTransaction) -> LoginTransaction:
            current = login.at(now_ms)
            if current.stage not in UNDECIDED:
                return current
            return (
                current.after(LoginEvent.OPEN, now_ms).claimed(form.browser, now_ms).identified(identity, proof, now_ms)
            )

        return step


Identify = Callable[[SignInForm], Awaitable[Identified]]
