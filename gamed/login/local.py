"""A player signs in with the name and password of a local account, or creates one.

See SPEC 1/5; docs/protocol.md: Signing in; docs/owners/configuration.md: Limits.
"""

from collections.abc import Callable, Coroutine
from enum import Enum
from typing import Any

from msgspec import Struct

from gamed.audit import SecurityEvent
from gamed.config.model import Registration
from gamed.crypto import Index, Purpose, Secret
from gamed.login import keys
from gamed.login.browser import BrowserLoginService, RedirectToResult, require_own
from gamed.login.keys import ExistingAccount, Identified, LoginLookup, NewAccount
from gamed.login.policy import LoginContext, per_address
from gamed.login.store import LoginStore
from gamed.login.transaction import UNDECIDED, LoginEvent, LoginTransaction, TransitionFunction
from gamed.players.errors import DisplayNameInvalid, NameMalformed, PasswordMalformed, PasswordsBusy
from gamed.players.names import LOCAL, fold_typed, name_index, parse_display_name, parse_name, parse_password
from gamed.players.passwords import AsyncPasswordHasher
from gamed.rate_limit import RateLimit, RateLimited, client_network
from gamed.structs import Component

PER_ADDRESS_FACTOR = 4
"""An address may try this many times as many passwords as one account from that address."""


class FormError(Enum):
    """The reason why a form is shown again."""

    WRONG = "wrong"
    """An unknown name or a wrong password; the page does not say which."""
    NAME_MALFORMED = "name_malformed"
    PASSWORD_MALFORMED = "password_malformed"
    NAME_TAKEN = "name_taken"
    DISPLAY_NAME = "display_name"
    PASSKEY = "passkey"
    """A response of an authenticator that was not accepted; the page does not say why."""
    RECOVERY = "recovery"
    """An unknown name or a wrong recovery code; the page does not say which."""
    NO_PROOF = "no_proof"
    """A recovery code where the player confirms something: it proves nothing."""
    CLOSED = "closed"
    LIMIT = "limit"
    BUSY = "busy"

    @property
    def status(self) -> int:
        """The HTTP status of a form that is shown again."""
        return {FormError.LIMIT: 429, FormError.BUSY: 503}.get(self, 200)


NOT_TRIED = frozenset({FormError.LIMIT, FormError.BUSY})
"""Errors of forms that were not evaluated: the login does not become `authorizing` by them."""


class SignInRejected(Exception):
    """A name or password that was not accepted."""

    def __init__(self, error: FormError, retry_after: int = 0) -> None:
        super().__init__(error.value)
        self.error = error
        self.retry_after = retry_after


class SignInForm(Struct, frozen=True):
    """The form of a login as one browser sent it from one address; `request_id` is for the log."""

    token: str
    browser: Index
    address: str
    name: str = ""
    password: str = ""
    request_id: str = ""
    display_name: str | None = None
    """For a new account: the name that games show, None for none."""
    session_id: str = ""
    """The browser session that tries its player's password, if one does: its tries count, whatever its addresses."""

    def __repr__(self) -> str:
        return "SignInForm(...)"


class FormRejected(Struct, frozen=True):
    """A form that is shown again with an error; the login is at most `authorizing` by it."""

    login: LoginTransaction
    error: FormError
    retry_after: int = 0


class PasswordAuthenticator(Component, frozen=True, kw_only=True):
    """The check of a typed name and password, with its rate limits."""

    context: LoginContext
    store: LoginStore
    hasher: AsyncPasswordHasher

    async def authenticate(self, form: SignInForm) -> ExistingAccount:
        """Return the account's player and the tag of the password; raise SignInRejected."""
        await self.limit(form)
        try:
            index = name_index(self.context.keys.indexer, parse_name(form.name))
            password = parse_password(form.password)
        except (NameMalformed, PasswordMalformed):
            index, password = None, Secret(b"")  # hashed as well: a malformed name must not be answered faster
        account = None if index is None else await self.store.find_account(index)
        try:
            right = await self.hasher.verify(None if account is None else account.password, password)
        except PasswordsBusy as e:
            raise SignInRejected(FormError.BUSY, e.retry_after) from None
        if account is None or not right:
            # With the player of a known name, who reads it in the account. The answer waits for no row: events are
            # written seconds later, so that its time tells nothing. All unknown names share a row of each hour, since
            # a row for each would let a guesser of names push out the events of players; only the owner sees rows.
            self._record_refused("wrong_password", form, "" if account is None else account.player_id)
            raise SignInRejected(FormError.WRONG)
        return ExistingAccount(account.player_id, account.password_tag)

    async def new_account(self, form: SignInForm, *, invited: bool = False) -> NewAccount:
        """Return the account that may be created, with an invite also while registration is closed.

        Raise SignInRejected.
        """
        if self.context.policy.registration is Registration.CLOSED and not invited:
            raise SignInRejected(FormError.CLOSED)
        try:
            name = parse_name(form.name)
            password = parse_password(form.password)
            shown = None if form.display_name is None else parse_display_name(form.display_name)
        except NameMalformed:
            raise SignInRejected(FormError.NAME_MALFORMED) from None
        except PasswordMalformed:
            raise SignInRejected(FormError.PASSWORD_MALFORMED) from None
        except DisplayNameInvalid:
            raise SignInRejected(FormError.DISPLAY_NAME) from None
        # Counted only now: a typing error costs no try. But before the look-up, which tells whether a name exists.
        await self.limit(form)
        if await self.store.find_account(name_index(self.context.keys.indexer, name)) is not None:
            raise SignInRejected(FormError.NAME_TAKEN)
        return NewAccount(name, await self._hash(password), shown)

    async def hash_new(self, password: str) -> str:
        """Return the hash of a password that a player has chosen; raise SignInRejected."""
        try:
            parsed = parse_password(password)
        except PasswordMalformed:
            raise SignInRejected(FormError.PASSWORD_MALFORMED) from None
        return await self._hash(parsed)

    async def _hash(self, password: Secret) -> str:
        try:
            return await self.hasher.hash(password)
        except PasswordsBusy as e:
            raise SignInRejected(FormError.BUSY, e.retry_after) from None

    async def limit(self, form: SignInForm) -> None:
        """Count per account and address, per address, and per session; raise SignInRejected.

        Never per account alone, which would lock its player out.
        """
        rate = RateLimit.per_minute(self.context.policy.limits.passwords_per_minute)
        if not rate.interval_ms:
            return
        indexer, account = self.context.keys.indexer, fold_typed(form.name).encode()
        buckets = {indexer.index(Purpose.LIMIT, b"password", client_network(form.address).encode(), account): rate}
        if form.session_id:
            buckets[indexer.index(Purpose.LIMIT, b"password", b"session", form.session_id.encode())] = rate
        buckets |= per_address(indexer, b"password", form.address, rate.times(PER_ADDRESS_FACTOR))
        try:
            await self.store.acquire(buckets, self.context.now_ms())
        except RateLimited as e:
            self._record_refused("too_many_passwords", form)
            raise SignInRejected(FormError.LIMIT, e.retry_after) from None

    def _record_refused(self, outcome: str, form: SignInForm, player_id: str = "") -> None:
        values = {"provider": LOCAL, "outcome": outcome, "request": form.request_id}
        if player_id:
            values["player"] = player_id
        self.context.audit.record(SecurityEvent.SIGN_IN_REFUSED, **values)


Identify = Callable[[LoginTransaction], Coroutine[Any, Any, Identified]]


class LocalLoginService(Component, frozen=True, kw_only=True):
    """The service behind the sign-in page in local mode."""

    context: LoginContext
    browsers: BrowserLoginService
    passwords: PasswordAuthenticator

    async def sign_in(self, form: SignInForm, *, create: bool = False) -> RedirectToResult | FormRejected:
        """Sign in with an existing account, or with a new one that is created when the game collects.

        Raise UnknownLoginLink, LoginEnded or WrongBrowser if the login is not open to this browser.
        """
        return await self.sign_in_by(form, lambda login: self._by_password(form, create))

    async def sign_in_by(self, form: SignInForm, identify: Identify) -> RedirectToResult | FormRejected:
        """Sign in with what `identify` returns for this login; it may raise SignInRejected.

        Raise what sign_in() raises.
        """
        page = await self.browsers.get(form.token, form.browser)
        if isinstance(page, RedirectToResult):
            return page
        key = LoginLookup.token(self.context.keys.indexer, form.token)
        try:
            account = await identify(page.login)
        except SignInRejected as e:
            if e.error in NOT_TRIED:
                return FormRejected(page.login, e.error, e.retry_after)
            now_ms = self.context.now_ms()
            login = (await self.browsers.advance(key, lambda current: current.opened(now_ms))).after
            if login.stage in UNDECIDED:
                return FormRejected(login, e.error)
        else:
            login = (await self.browsers.advance(key, self._signed_in(page.login, form.browser, account))).after
        require_own(login, form.browser)
        return RedirectToResult(login.login_id)

    async def _by_password(self, form: SignInForm, create: bool) -> Identified:
        if create:
            return await self.passwords.new_account(form)
        return await self.passwords.authenticate(form)

    def _signed_in(self, login: LoginTransaction, browser: Index, account: Identified) -> TransitionFunction:
        """Return the step from undecided to `ready`: three events at once, because there is no exchange."""
        now_ms = self.context.now_ms()
        identity, proof = keys.seal_identity(self.context.keys, self.context.random, login.login_id, account)

        def step(login: LoginTransaction) -> LoginTransaction:
            current = login.at_time(now_ms)
            if current.stage not in UNDECIDED:
                return current
            opened = current.apply(LoginEvent.OPEN, now_ms)
            return opened.bound_to(browser, now_ms).identified(identity, proof, now_ms)

        return step
