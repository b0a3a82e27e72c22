"""A name and a password of this server, tried from a form: right or not, and not too often (PROTOCOL 3.2, 3.9)."""

from collections.abc import Mapping
from enum import Enum
from typing import Protocol

from msgspec import Struct

from gamed.audit import UNHEARD, Audit, Event
from gamed.crypto import Index, Indexer, Purpose, Secret
from gamed.instants import Now
from gamed.limits import Rate, RateLimited, prefix
from gamed.login.crowd import per_address
from gamed.login.identified import NewAccount
from gamed.players.errors import NameMalformed, PasswordMalformed, PasswordsBusy
from gamed.players.identities import LOCAL
from gamed.players.names import fold_typed, name_index, parse_name, parse_password
from gamed.structs import Part

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
    async def take(self, buckets: Mapping[Index, Rate], now_ms: int) -> None:
        """Counts against all of them, or RateLimited and against none."""


class Refusal(Enum):
    """Why the form comes back."""

    WRONG = "wrong"
    """No such name, or another password: nobody is told which."""
    NAME_MALFORMED = "name_malformed"
    PASSWORD_MALFORMED = "password_malformed"
    NAME_TAKEN = "name_taken"
    CLOSED = "closed"
    LIMIT = "limit"
    BUSY = "busy"


class TurnedAway(Exception):
    """What was typed does not do."""

    def __init__(self, refusal: Refusal, retry_after: int = 0) -> None:
        super().__init__(refusal.value)
        self.refusal = refusal
        self.retry_after = retry_after


class Form(Struct, frozen=True):
    """What was typed, from which address, into which browser's form of which login; `request_id` is for the log."""

    token: str
    browser: Index
    address: str
    name: str = ""
    password: str = ""
    request_id: str = ""

    def __repr__(self) -> str:
        return "Form(...)"


class AccountCheck(Part, frozen=True):
    _accounts: Accounts
    _passwords: Passwords
    _limits: Limits
    _indexer: Indexer
    _now_ms: Now
    _passwords_per_minute: int = 5
    _audit: Audit = UNHEARD

    async def known(self, form: Form) -> str:
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
            raise TurnedAway(Refusal.BUSY, e.retry_after) from None
        if account is None or not right:
            self._audit.note(Event.SIGN_IN_REFUSED, provider=LOCAL, outcome="wrong_password", request=form.request_id)
            raise TurnedAway(Refusal.WRONG)
        return account.player_id

    async def new(self, form: Form) -> NewAccount:
        """An account that could be made; TurnedAway."""
        try:
            name = parse_name(form.name)
            password = parse_password(form.password)
        except NameMalformed:
            raise TurnedAway(Refusal.NAME_MALFORMED) from None
        except PasswordMalformed:
            raise TurnedAway(Refusal.PASSWORD_MALFORMED) from None
        await self._limit(form)
        if await self._accounts.find(name_index(self._indexer, name)) is not None:
            raise TurnedAway(Refusal.NAME_TAKEN)
        try:
            return NewAccount(name, await self._passwords.hash(password))
        except PasswordsBusy as e:
            raise TurnedAway(Refusal.BUSY, e.retry_after) from None

    async def _limit(self, form: Form) -> None:
        """Per account and address, and per address; never per account alone, which would lock its owner out."""
        rate = Rate.per_minute(self._passwords_per_minute)
        if not rate.interval_ms:
            return
        account = fold_typed(form.name).encode()
        buckets = {self._indexer.index(Purpose.LIMIT, b"password", prefix(form.address).encode(), account): rate}
        buckets |= per_address(self._indexer, b"password", form.address, rate.times(PER_ADDRESS_FACTOR))
        try:
            await self._limits.take(buckets, self._now_ms())
        except RateLimited as e:
            outcome = "too_many_passwords"
            self._audit.note(Event.SIGN_IN_REFUSED, provider=LOCAL, outcome=outcome, request=form.request_id)
            raise TurnedAway(Refusal.LIMIT, e.retry_after) from None
