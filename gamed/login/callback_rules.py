"""What a browser brings back from a provider, and whether it may be believed: the checks of PROTOCOL 3.3, pure.

`parse` is check 1, `judge` are the checks 2 to 8 in their order. `judge` runs inside the transaction that also writes
its verdict down, so its last check is the compare-and-set.
"""

from collections.abc import Iterator
from enum import Enum
from hmac import compare_digest
from urllib.parse import unquote_to_bytes

from msgspec import Struct

from gamed.crypto import Index, Secret
from gamed.login.attempt import AttemptStatus, AuthorizationAttempt
from gamed.login.errors import CallbackMalformed, LoginError
from gamed.login.transaction import LoginStage, LoginTransaction
from gamed.structs import redacts

QUERY_BYTES = 4096
PARAMETERS = ("state", "code", "error", "iss")
_NOT_IN_AN_ERROR = frozenset('"\\')


@redacts("error", "iss")
class CallbackParameters(Struct, frozen=True):
    """A redirect as the provider wrote it (RFC 6749 4.1.2, RFC 9207 2); exactly one of `code` and `error` is there."""

    provider: str
    """As the path says."""
    state: Secret
    """Empty when there was none: nothing is found under that."""
    code: Secret | None
    error: str | None
    iss: str | None


class CallbackContext(Struct, frozen=True):
    """What the judgement needs besides callback and rows."""

    browser: Index | None
    """Of the cookie; None without one."""
    enabled: bool
    """Whether the path's provider is one of this server's."""
    issuer: str | None
    """What `iss` must be; None: the provider has no issuer, and `iss` is not looked at."""
    now_ms: int


class CallbackCheck(Enum):
    """What a callback comes to, by the first check that fails; `exchange` when none does."""

    PROVIDER_UNKNOWN = 2
    STATE_UNKNOWN = 3
    OTHER_BROWSER = 4
    OTHER_PROVIDER = 5
    OTHER_ISSUER = 6
    OVER = 7
    SPENT = 8
    EXCHANGE = 9


INVALIDATES_ATTEMPT = frozenset({CallbackCheck.OTHER_PROVIDER, CallbackCheck.OTHER_ISSUER})
"""A security event each: the attempt cannot be used any more."""


class CallbackRejected(LoginError):
    """By which check; the login can still be finished by whoever may. OVER: only this attempt was burned before."""

    def __init__(self, ruling: CallbackCheck) -> None:
        self.ruling = ruling
        super().__init__(ruling.name.lower())


class CallbackDecision(Struct, frozen=True):
    """`attempt` as it was found; `login` as it is now, claimed by this browser if the ruling is `exchange`."""

    ruling: CallbackCheck
    attempt: AuthorizationAttempt | None = None
    login: LoginTransaction | None = None


def parse(provider: str, raw_query: bytes) -> CallbackParameters:
    """Return the callback that the query holds (check 1); raise CallbackMalformed, which has no effect.

    An empty value counts as absent (RFC 6749 3.1). `state` and `iss` are compared as they are by checks 3 and 6.
    """
    if len(raw_query) > QUERY_BYTES:
        raise CallbackMalformed
    found: dict[str, str] = {}
    for name, value in _pairs(raw_query):
        if name in PARAMETERS and name in found:
            raise CallbackMalformed
        found[name] = value
    state, code, error, iss = (found.get(name) or None for name in PARAMETERS)
    if (code is None) == (error is None):
        raise CallbackMalformed
    if not _printable(code or error or "") or not _NOT_IN_AN_ERROR.isdisjoint(error or ""):
        raise CallbackMalformed
    secret = None if code is None else Secret(code.encode())
    return CallbackParameters(provider, Secret((state or "").encode()), secret, error, iss)


def decide_callback(
    attempt: AuthorizationAttempt | None,
    login: LoginTransaction | None,
    callback: CallbackParameters,
    known: CallbackContext,
) -> CallbackDecision:
    """Checks 2 to 8; the rows are those of `callback.state`. First failure wins."""
    if not known.enabled:
        return CallbackDecision(CallbackCheck.PROVIDER_UNKNOWN)
    if attempt is None or login is None:
        return CallbackDecision(CallbackCheck.STATE_UNKNOWN)
    if known.browser is None or not compare_digest(attempt.browser_index, known.browser):
        return CallbackDecision(CallbackCheck.OTHER_BROWSER)
    if attempt.provider != callback.provider:
        return CallbackDecision(CallbackCheck.OTHER_PROVIDER, attempt, login)
    if known.issuer is not None and not _names_issuer(attempt, callback.iss, known.issuer):
        return CallbackDecision(CallbackCheck.OTHER_ISSUER, attempt, login)
    current = login.at(known.now_ms)
    if current.final or attempt.status is AttemptStatus.BURNED:
        return CallbackDecision(CallbackCheck.OVER, attempt, current)
    if attempt.status is AttemptStatus.USED or current.stage is not LoginStage.AUTHORIZING:
        return CallbackDecision(CallbackCheck.SPENT, attempt, current)
    return CallbackDecision(CallbackCheck.EXCHANGE, attempt, current.claimed(known.browser, known.now_ms))


def _names_issuer(attempt: AuthorizationAttempt, iss: str | None, issuer: str) -> bool:
    """RFC 9207 2.4: byte for byte if it is there, and there if the provider's metadata promised it."""
    if iss is None:
        return not attempt.iss_promised
    return iss.encode() == issuer.encode()


def _printable(text: str) -> bool:
    """Return whether all characters are %x20-7E, as in every `code` and `error` (RFC 6749 Appendix A.7, A.11)."""
    return text.isascii() and text.isprintable()


def _pairs(raw: bytes) -> Iterator[tuple[str, str]]:
    for part in filter(None, raw.split(b"&")):
        name, _, value = part.partition(b"=")
        yield _text(name), _text(value)


def _text(raw: bytes) -> str:
    try:
        return unquote_to_bytes(raw.replace(b"+", b" ")).decode()
    except UnicodeDecodeError:
        raise CallbackMalformed from None
