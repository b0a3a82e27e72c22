"""A login moves through a table of stages and events; pure functions make each transition testable.

See docs/internals/login-states.md.
"""

from collections.abc import Callable, Mapping
from enum import Enum
from hmac import compare_digest
from typing import Self
from unicodedata import normalize

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from gamed.crypto import Index
from gamed.login.errors import InvalidTransition, LoginExpired
from gamed.outcomes import LoginFailure
from gamed.players.names import COMPOSED_OF
from gamed.visible_text import visible, without_stray_joiners

EXCHANGE_GRACE_MS = 15_000
"""An exchange that began before the login expired may end this much later."""
EXCHANGE_MS = 60_000
"""An exchange never takes longer: a provider call is limited to 10 s, and its result is then written or lost."""
DELIVERED_MS = 10 * 60_000
"""For this long a repeated collect returns the same credentials."""
RETENTION_MS = 60 * 60_000
"""For this long after its end the game can read the outcome of a login."""


class LoginStage(Enum):
    """The stage of a login; the values are those of the database and of docs/internals/login-states.md."""

    PENDING = "pending"
    AUTHORIZING = "authorizing"
    EXCHANGING = "exchanging"
    READY = "ready"
    DELIVERED = "delivered"
    COLLECTED = "collected"
    DENIED = "denied"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"


class LoginEvent(Enum):
    """An event that moves a login from one stage to another."""

    OPEN = "open"
    CALLBACK = "callback"
    IDENTIFIED = "identified"
    REFUSED = "refused"
    COLLECT = "collect"
    EXHAUST = "exhaust"
    ACKNOWLEDGE = "acknowledge"
    LAPSE = "lapse"
    DECLINE = "decline"
    CANCEL = "cancel"
    EXPIRE = "expire"
    INTERRUPT = "interrupt"


class LoginIntent(Enum):
    """The purpose of a login: sign in, link a provider to a player, or move a local account to a provider.

    A login for the player's own page has no game: it signs in the browser, or links a provider for a signed-in one.
    """

    LOGIN = "login"
    LINK = "link"
    ADOPT = "adopt"
    ACCOUNT = "account"


class ProofMethod(Enum):
    """The way in which the game has to prove that it belongs to the browser (docs/protocol.md: Collect)."""

    NONE = "none"
    LOOPBACK_OR_CODE = "loopback_or_code"
    APP_OR_CODE = "app_or_code"
    CODE = "code"


MEANING = {
    LoginEvent.OPEN: "a browser begins an attempt",
    LoginEvent.CALLBACK: "the first callback of an attempt arrives",
    LoginEvent.IDENTIFIED: "the provider or the password has identified the player",
    LoginEvent.REFUSED: "the sign-in cannot continue",
    LoginEvent.COLLECT: "the game collects with a valid proof",
    LoginEvent.EXHAUST: "the game sends the fifth wrong finish code",
    LoginEvent.ACKNOWLEDGE: "the game uses a credential",
    LoginEvent.LAPSE: "ten minutes have passed since the first collect",
    LoginEvent.DECLINE: 'the player presses "This was not me"',
    LoginEvent.CANCEL: "the game cancels",
    LoginEvent.EXPIRE: "the login expires",
    LoginEvent.INTERRUPT: "the service restarts, or the exchange has no result",
}

NEXT = {
    (LoginStage.PENDING, LoginEvent.OPEN): LoginStage.AUTHORIZING,
    (LoginStage.PENDING, LoginEvent.DECLINE): LoginStage.DENIED,
    (LoginStage.PENDING, LoginEvent.CANCEL): LoginStage.CANCELLED,
    (LoginStage.PENDING, LoginEvent.EXPIRE): LoginStage.EXPIRED,
    (LoginStage.AUTHORIZING, LoginEvent.OPEN): LoginStage.AUTHORIZING,
    (LoginStage.AUTHORIZING, LoginEvent.CALLBACK): LoginStage.EXCHANGING,
    (LoginStage.AUTHORIZING, LoginEvent.DECLINE): LoginStage.DENIED,
    (LoginStage.AUTHORIZING, LoginEvent.CANCEL): LoginStage.CANCELLED,
    (LoginStage.AUTHORIZING, LoginEvent.EXPIRE): LoginStage.EXPIRED,
    (LoginStage.EXCHANGING, LoginEvent.IDENTIFIED): LoginStage.READY,
    (LoginStage.EXCHANGING, LoginEvent.REFUSED): LoginStage.FAILED,
    (LoginStage.EXCHANGING, LoginEvent.INTERRUPT): LoginStage.FAILED,
    (LoginStage.EXCHANGING, LoginEvent.CANCEL): LoginStage.CANCELLED,
    (LoginStage.EXCHANGING, LoginEvent.EXPIRE): LoginStage.EXPIRED,
    (LoginStage.READY, LoginEvent.COLLECT): LoginStage.DELIVERED,
    (LoginStage.READY, LoginEvent.REFUSED): LoginStage.FAILED,
    (LoginStage.READY, LoginEvent.EXHAUST): LoginStage.FAILED,
    (LoginStage.READY, LoginEvent.DECLINE): LoginStage.DENIED,
    (LoginStage.READY, LoginEvent.CANCEL): LoginStage.CANCELLED,
    (LoginStage.READY, LoginEvent.EXPIRE): LoginStage.EXPIRED,
    (LoginStage.DELIVERED, LoginEvent.ACKNOWLEDGE): LoginStage.COLLECTED,
    (LoginStage.DELIVERED, LoginEvent.LAPSE): LoginStage.COLLECTED,
    (LoginStage.DELIVERED, LoginEvent.CANCEL): LoginStage.CANCELLED,
}

FINAL = frozenset(
    {LoginStage.DENIED, LoginStage.FAILED, LoginStage.CANCELLED, LoginStage.EXPIRED, LoginStage.COLLECTED}
)
UNDECIDED = frozenset({LoginStage.PENDING, LoginStage.AUTHORIZING})
"""The stages in which the login does not belong to a browser yet."""

OUTCOME = {
    LoginEvent.DECLINE: LoginFailure.LOGIN_DENIED,
    LoginEvent.CANCEL: LoginFailure.LOGIN_CANCELLED,
    LoginEvent.EXPIRE: LoginFailure.LOGIN_EXPIRED,
    LoginEvent.EXHAUST: LoginFailure.PROOF_ATTEMPTS_EXCEEDED,
    LoginEvent.INTERRUPT: LoginFailure.LOGIN_INTERRUPTED,
}
"""The outcome that an event leaves; `refused` brings its own."""

MAX_CHARACTERS = 64


class ClientInfoTooLong(ValueError):
    """A member of the client's description that has more than 64 characters after cleaning."""

    def __init__(self, member: str) -> None:
        self.member = member
        super().__init__(f"at most {MAX_CHARACTERS} characters")


PLATFORMS = {"windows": "Windows", "linux": "Linux", "macos": "macOS", "android": "Android", "ios": "iOS"}


class ClientInfo(Struct, frozen=True, omit_defaults=True):
    """A device's untrusted description of itself, cleaned (docs/protocol.md: Start); absent members are None."""

    name: str | None = None
    version: str | None = None
    platform: str | None = None
    device_name: str | None = None
    locale: str | None = None
    """The language of the game (BCP 47), in which pages for this login are shown."""
    confirms: bool = False
    """The player signs in again to confirm something, for which a recovery code is not enough."""

    @classmethod
    def of(cls, members: Mapping[str, str | None], *, confirms: bool = False) -> "ClientInfo":
        """Clean the members; raise ClientInfoTooLong, which names the first one that is too long."""
        return cls(**{name: _cleaned(name, members.get(name)) for name in _TEXTS}, confirms=confirms)

    @property
    def platform_name(self) -> str | None:
        """Return the platform as people know it."""
        return PLATFORMS.get(self.platform or "", self.platform)

    @property
    def device(self) -> "ClientInfo":
        """Return what a session keeps: the device's words about itself."""
        return replace(self, locale=None, confirms=False)

    def to_json(self) -> str:
        return msgspec.json.encode(self).decode()


_TEXTS = ("name", "version", "platform", "device_name", "locale")


def _cleaned(member: str, text: str | None) -> str | None:
    """Return the text in NFC, without invisible characters and without space around it.

    Return None if nothing is left; raise ClientInfoTooLong if more than MAX_CHARACTERS are. The length is checked
    before the text is composed, because composing takes time with the square of the length.
    """
    if not text:
        return None
    if not text.isascii() or not text.isprintable():
        text = visible(text)
    text = text.strip()
    composed = text
    if len(text) <= COMPOSED_OF * MAX_CHARACTERS:
        composed = normalize("NFC", without_stray_joiners(normalize("NFC", text)).strip())
    if len(composed) > MAX_CHARACTERS:
        raise ClientInfoTooLong(member)
    return composed or None


class LoginTransaction(Struct, frozen=True):
    """The server's record of one login (SPEC 2.3); it holds indexes and sealed values, never a secret in clear."""

    login_id: str
    secret_index: Index
    token_index: Index
    intent: LoginIntent
    provider: str
    client: ClientInfo
    return_proof: ProofMethod
    loopback_port: int | None
    address_index: Index
    created_ms: int
    expires_ms: int
    stage_ms: int
    """The instant at which the login entered this stage."""
    stage: LoginStage = LoginStage.PENDING
    outcome: LoginFailure | None = None
    requesting_session_id: str | None = None
    invite_id: str | None = None
    browser_index: Index | None = None
    """The browser to which the login belongs since its callback."""
    instance_id: str = ""
    """The process of this server that redeems the provider's code; only that one can end the exchange."""
    returned_to_game: bool = False
    """That browser was redirected to the loopback port or the app once."""
    sealed_identity: bytes | None = None
    sealed_proof: bytes | None = None
    wrong_codes: int = 0
    session_id: str | None = None
    approval_code: str | None = None
    """The code of the player whom the owner has to approve first, if that is the outcome."""
    sealed_result: bytes | None = None
    """The result of the login, sealed: the credentials of a game, or the place of a browser in the account."""
    return_uri: str | None = None
    """The address of the app to which the browser returns; a login with one has no port."""
    wide_index: Index | None = None
    """The /48 of the client, which has a limit of its own; `address_index` is the network that counts as one client."""

    def __repr__(self) -> str:
        """Return a text without indexes and sealed values."""
        return f"LoginTransaction({self.login_id!r}, {self.provider!r}, {self.stage}, {self.outcome})"

    def belongs_to(self, browser: Index | None) -> bool:
        """Return whether the login belongs to this browser, whose callback came first."""
        owner = self.browser_index
        return owner is not None and browser is not None and compare_digest(owner, browser)

    @property
    def returnable(self) -> bool:
        """Return whether the login's browser is still to be redirected to the loopback port or the app."""
        by_browser = self.return_proof in (ProofMethod.LOOPBACK_OR_CODE, ProofMethod.APP_OR_CODE)
        return self.stage is LoginStage.READY and by_browser and not self.returned_to_game

    @property
    def links(self) -> bool:
        """Return whether the login links a provider to the player of the requesting session."""
        asked = self.intent is LoginIntent.ACCOUNT and self.requesting_session_id is not None
        return asked or self.intent is LoginIntent.LINK

    @property
    def asks_again(self) -> bool:
        """Return whether the provider should ask a player who is signed in there.

        A sign-in for the account's page allows what cannot be undone for ten minutes, so an open session at the
        provider is not enough for it; with an invite, too, a person may sign in who is a player already. A link needs
        such a sign-in before.
        """
        return self.requesting_session_id is None and self.intent is LoginIntent.ACCOUNT

    @property
    def final(self) -> bool:
        return self.stage in FINAL

    @property
    def deadline_ms(self) -> int:
        """Return when this stage times out: by `expire` or `interrupt` before the first collect, by `lapse` after."""
        if self.stage is LoginStage.DELIVERED:
            return self.stage_ms + DELIVERED_MS
        if self.stage is LoginStage.EXCHANGING:
            return min(self.stage_ms + EXCHANGE_MS, self.expires_ms + EXCHANGE_GRACE_MS)
        late = self.stage is LoginStage.READY and self.stage_ms >= self.expires_ms
        return self.expires_ms + (EXCHANGE_GRACE_MS if late else 0)

    @property
    def expires_or_purge_at_ms(self) -> int:
        """Return when this stage times out or, for a final stage, when the row is deleted."""
        return self.stage_ms + RETENTION_MS if self.stage in FINAL else self.deadline_ms

    def at_time(self, now_ms: int) -> Self:
        """Return the login as it is at this instant; a deadline that has passed counts before any cleanup ran."""
        if self.final or now_ms < self.deadline_ms:
            return self
        return self._enter(self._timeout_event, self.deadline_ms)

    def apply(self, event: LoginEvent, now_ms: int) -> Self:
        """Return the login after an event; raise InvalidTransition, or LoginExpired if only the deadline forbids it."""
        current = self.at_time(now_ms)
        if (current.stage, event) in NEXT:
            return current._enter(event, now_ms)
        if current.stage is LoginStage.EXPIRED:
            raise LoginExpired("This sign-in took too long. Start again from the game.")
        raise InvalidTransition(f"{event.value} while {current.stage.value}")

    def opened(self, now_ms: int) -> Self:
        """Return the login after a browser began an attempt; unchanged once it belongs to a browser."""
        current = self.at_time(now_ms)
        return current.apply(LoginEvent.OPEN, now_ms) if current.stage in UNDECIDED else current

    def bound_to(self, browser: Index, now_ms: int, instance_id: str = "") -> Self:
        """Return the login after the first callback: it belongs to this browser from now on."""
        return replace(self.apply(LoginEvent.CALLBACK, now_ms), browser_index=browser, instance_id=instance_id)

    def failed(self, outcome: LoginFailure, now_ms: int) -> Self:
        """Return the login after the sign-in was refused with this outcome."""
        return replace(self.apply(LoginEvent.REFUSED, now_ms), outcome=outcome)

    def identified(self, sealed_identity: bytes, sealed_proof: bytes, now_ms: int) -> Self:
        """Return the login once it is known who signs in."""
        moved = self.apply(LoginEvent.IDENTIFIED, now_ms)
        return replace(moved, sealed_identity=sealed_identity, sealed_proof=sealed_proof)

    def delivered(self, session_id: str, sealed_result: bytes, now_ms: int) -> Self:
        """Return the login after the first proven collect; identity and proof are deleted."""
        moved = replace(self.apply(LoginEvent.COLLECT, now_ms), sealed_identity=None, sealed_proof=None)
        return replace(moved, session_id=session_id, sealed_result=sealed_result)

    def linked(self, now_ms: int) -> Self:
        """Return the login as delivered() does, for a link: it has no session and no result."""
        return replace(self.apply(LoginEvent.COLLECT, now_ms), sealed_identity=None, sealed_proof=None)

    def result_lost(self, now_ms: int) -> Self:
        """Return the login cancelled, because its result cannot be decrypted: the game has to sign in again."""
        return replace(self.apply(LoginEvent.CANCEL, now_ms), outcome=LoginFailure.LOGIN_INTERRUPTED)

    def redirected(self) -> Self:
        """Return the login after its browser was redirected to the game; unchanged unless `returnable`."""
        return replace(self, returned_to_game=True) if self.returnable else self

    @property
    def _timeout_event(self) -> LoginEvent:
        if self.stage is LoginStage.DELIVERED:
            return LoginEvent.LAPSE
        in_time = self.deadline_ms < self.expires_ms + EXCHANGE_GRACE_MS
        return LoginEvent.INTERRUPT if self.stage is LoginStage.EXCHANGING and in_time else LoginEvent.EXPIRE

    def _enter(self, event: LoginEvent, now_ms: int) -> Self:
        """Return the login in the stage that follows; a final stage erases sealed values and texts of the client."""
        stage = NEXT[self.stage, event]
        if stage is self.stage:
            return self
        moved = replace(self, stage=stage, stage_ms=now_ms)
        if stage not in FINAL:
            return moved
        client = ClientInfo(locale=self.client.locale)  # the browser still shows how it ended
        erased = replace(moved, client=client, return_uri=None, sealed_identity=None, sealed_proof=None)
        # a sign-in for the account that failed is tried again from the same place
        tried_again = self.intent is LoginIntent.ACCOUNT and stage is not LoginStage.COLLECTED
        result = self.sealed_result if tried_again else None
        return replace(erased, sealed_result=result, outcome=OUTCOME.get(event))


class Transition(Struct, frozen=True):
    """A login before and after a step, which may have left it unchanged."""

    before: LoginTransaction
    after: LoginTransaction

    @property
    def stage_changed(self) -> bool:
        """Return whether a waiting game has to be notified."""
        return self.before.stage is not self.after.stage


TransitionFunction = Callable[[LoginTransaction], LoginTransaction]
"""A pure function that runs inside the transaction, perhaps more than once. An exception changes nothing."""
