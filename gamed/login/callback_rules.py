"""The checks of a provider's callback are pure functions (docs/internals/rules.md: Callbacks).

`parse` is check 1, `decide_callback` are the checks 2 to 8 in their order. `decide_callback` runs inside the
transaction that also writes its decision, so its last check is a compare-and-set.
"""

from collections.abc import Iterator
from enum import Enum
from hmac import compare_digest
from urllib.parse import unquote_to_bytes, urlencode

from msgspec import Struct

from gamed.crypto import Index, Secret
from gamed.login.attempt import AttemptStatus, AuthorizationAttempt
from gamed.login.errors import CallbackMalformed, LoginError
from gamed.login.transaction import LoginStage, LoginTransaction
from gamed.structs import redacts

QUERY_BYTES = 4096
PARAMETERS = ("state", "code", "error", "iss")
ASSERTION_ERRORS = {"cancel": "access_denied", "error": "server_error"}
"""The errors of OAuth 2.0 that mean the same as a mode (OpenID Authentication 2.0 5.2.3, 10.2.2)."""
_NOT_IN_ERROR = frozenset('"\\')


@redacts("state", "error", "iss")
class CallbackParameters(Struct, frozen=True):
    """A redirect as the provider wrote it (RFC 6749 4.1.2, RFC 9207 2), with exactly one of `code` and `error`."""

    provider: str
    """The provider that the path names."""
    state: str
    """Empty if absent; no attempt is found under an empty state."""
    code: Secret | None
    """The code, or the assertion that is in its place."""
    error: str | None
    iss: str | None


class CallbackContext(Struct, frozen=True):
    """The facts beside parameters and rows on which the decision depends."""

    browser: Index | None
    """The index of the browser's cookie."""
    enabled: bool
    """The path's provider is configured."""
    issuer: str | None
    """The required `iss`; None for a provider without an issuer, where `iss` is ignored."""
    now_ms: int
    instance_id: str = ""
    """The process that redeems the code if all checks pass."""


class CallbackCheck(Enum):
    """The first check that fails; `EXCHANGE` if none does."""

    PROVIDER_UNKNOWN = 2
    STATE_UNKNOWN = 3
    OTHER_BROWSER = 4
    OTHER_PROVIDER = 5
    OTHER_ISSUER = 6
    ENDED = 7
    ALREADY_USED = 8
    EXCHANGE = 9


INVALIDATES_ATTEMPT = frozenset({CallbackCheck.OTHER_PROVIDER, CallbackCheck.OTHER_ISSUER})
"""A security event each: the attempt cannot be used any more."""


class CallbackRejected(LoginError):
    """A callback that failed `check`; its login can still be finished, unless it has ended."""

    def __init__(self, check: CallbackCheck) -> None:
        self.check = check
        super().__init__(check.name.lower())


class CallbackDecision(Struct, frozen=True):
    """The attempt as it was found, and the login at this instant, bound to this browser if `check` is `EXCHANGE`."""

    check: CallbackCheck
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
    given = code or error or ""
    printable = given.isascii() and given.isprintable()  # %x20-7E (RFC 6749 Appendix A.7, A.11)
    if not printable or not _NOT_IN_ERROR.isdisjoint(error or ""):
        raise CallbackMalformed
    secret = None if code is None else Secret(code.encode())
    return CallbackParameters(provider, state or "", secret, error, iss)


def parse_assertion(provider: str, raw_query: bytes) -> CallbackParameters:
    """Return the callback of an OpenID 2.0 provider, with the whole assertion as its code; raise CallbackMalformed.

    Its fields are written again, so that the provider's class reads exactly what is read here.
    """
    if len(raw_query) > QUERY_BYTES:
        raise CallbackMalformed
    found: dict[str, str] = {}
    for name, value in _pairs(raw_query):
        if name != "state" and not name.startswith("openid."):
            continue
        if name in found:
            raise CallbackMalformed
        found[name] = value
    state, mode = found.get("state", ""), found.get("openid.mode", "")
    if mode in ASSERTION_ERRORS:
        return CallbackParameters(provider, state, None, ASSERTION_ERRORS[mode], None)
    if mode != "id_res":
        raise CallbackMalformed
    return CallbackParameters(provider, state, Secret(urlencode(found).encode()), None, None)


def decide_callback(
    attempt: AuthorizationAttempt | None,
    login: LoginTransaction | None,
    callback: CallbackParameters,
    context: CallbackContext,
) -> CallbackDecision:
    """Return the first failure of the checks 2 to 8; the rows are those of `callback.state`."""
    if not context.enabled:
        return CallbackDecision(CallbackCheck.PROVIDER_UNKNOWN)
    if attempt is None or login is None:
        return CallbackDecision(CallbackCheck.STATE_UNKNOWN)
    if context.browser is None or not compare_digest(attempt.browser_index, context.browser):
        return CallbackDecision(CallbackCheck.OTHER_BROWSER)
    if attempt.provider != callback.provider:
        return CallbackDecision(CallbackCheck.OTHER_PROVIDER, attempt, login)
    if context.issuer is not None:
        # RFC 9207 2.4: `iss` is compared byte for byte; it may be absent if the provider's metadata did not promise it
        named = not attempt.iss_promised if callback.iss is None else callback.iss.encode() == context.issuer.encode()
        if not named:
            return CallbackDecision(CallbackCheck.OTHER_ISSUER, attempt, login)
    current = login.at_time(context.now_ms)
    if current.final or attempt.status is AttemptStatus.INVALIDATED:
        return CallbackDecision(CallbackCheck.ENDED, attempt, current)
    if attempt.status is AttemptStatus.USED or current.stage is not LoginStage.AUTHORIZING:
        return CallbackDecision(CallbackCheck.ALREADY_USED, attempt, current)
    bound = current.bound_to(context.browser, context.now_ms, context.instance_id)
    return CallbackDecision(CallbackCheck.EXCHANGE, attempt, bound)


def _pairs(raw: bytes) -> Iterator[tuple[str, str]]:
    for part in filter(None, raw.split(b"&")):
        name, _, value = part.partition(b"=")
        yield _text(name), _text(value)


def _text(raw: bytes) -> str:
    try:
        return unquote_to_bytes(raw.replace(b"+", b" ")).decode()
    except UnicodeDecodeError:
        raise CallbackMalformed from None
