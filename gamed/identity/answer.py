"""What a provider answered, and which registered errors mean what (RFC 6749 5.1, 5.2)."""

from collections.abc import Mapping
from re import ASCII, compile

from msgspec import Struct

from gamed.crypto import Secret
from gamed.identity.provider import (
    ProviderDenied,
    ProviderError,
    ProviderFailure,
    ProviderMisconfigured,
    ProviderUnavailable,
)
from gamed.structs import hides

MAX_DEPTH = 16
"""Of the JSON of providers: metadata and profiles nest, if only a little."""
_TOKEN = compile(r"[!-~]{1,8192}", ASCII)
CREDENTIALS = "check client_id and the variable that client_secret_env names against the provider's console"
REDIRECT = "register exactly the redirect URI that is printed at start"
REQUEST = "check client_id, scopes and the redirect URI against the provider's console"
STALE = "the code was refused: used before, too old, or meant for another redirect URI or client"

MEANINGS: Mapping[str, tuple[type[ProviderFailure], str]] = {
    "invalid_client": (ProviderMisconfigured, CREDENTIALS),
    "incorrect_client_credentials": (ProviderMisconfigured, CREDENTIALS),
    "unauthorized_client": (ProviderMisconfigured, CREDENTIALS),
    "redirect_uri_mismatch": (ProviderMisconfigured, REDIRECT),
    "invalid_redirect_uri": (ProviderMisconfigured, REDIRECT),
    "invalid_request": (ProviderMisconfigured, REQUEST),
    "invalid_scope": (ProviderMisconfigured, REQUEST),
    "unsupported_grant_type": (ProviderMisconfigured, REQUEST),
    "invalid_grant": (ProviderError, STALE),
    "bad_verification_code": (ProviderError, STALE),
    "invalid_token": (ProviderError, "the access token was refused"),
    "insufficient_scope": (ProviderMisconfigured, REQUEST),
    "access_denied": (ProviderDenied, "the provider refused this account"),
    "server_error": (ProviderUnavailable, "it could not answer"),
    "temporarily_unavailable": (ProviderUnavailable, "it could not answer"),
}
"""The errors whose names may stand in a log; two of them are an old habit of one large provider."""


@hides("members")
class Answer(Struct, frozen=True):
    """One whole answer that is neither a redirect nor a call for patience."""

    what: str
    """Which setting named the address, as the owner knows it: `token_endpoint`."""
    status: int
    members: Mapping[str, object]
    """Empty if an answer other than 200 was no JSON object."""
    offset_ms: int | None = None
    """The provider's clock minus ours by its Date field; None without one."""


@hides("_id_token")
class Tokens(Struct, frozen=True):
    """What a code was redeemed for; lives in memory only."""

    access: Secret
    _id_token: object
    """As it came: who wants none does not look at it."""

    def id_token(self) -> Secret:
        """ASCII, or ProviderError."""
        if self._id_token is None:
            raise ProviderError("token_endpoint: no id_token")
        if not isinstance(self._id_token, str) or not self._id_token.isascii():
            raise ProviderError("token_endpoint: id_token is not text")
        return Secret(self._id_token.encode())


def judge_tokens(answer: Answer) -> Tokens:
    """The tokens of a token endpoint's answer, or ProviderFailure."""
    members = _granted(answer)
    token_type = members.get("token_type")
    if not isinstance(token_type, str) or token_type.lower() != "bearer":
        raise ProviderError(f"{answer.what}: token_type is not Bearer")
    access = members.get("access_token")
    if not isinstance(access, str) or not _TOKEN.fullmatch(access):
        raise ProviderError(f"{answer.what}: no access_token of 1 to 8192 visible ASCII characters")
    return Tokens(Secret(access.encode()), members.get("id_token"))


def judge_document(answer: Answer) -> Mapping[str, object]:
    """The members of any other answer of 200 that is no error in disguise, or ProviderFailure."""
    if answer.status != 200:
        raise ProviderError(f"{answer.what}: answered {answer.status}")
    if answer.members.get("error") is not None:
        raise ProviderError(f"{answer.what}: answered with an error instead of what was asked for")
    return answer.members


def _granted(answer: Answer) -> Mapping[str, object]:
    """An error is an error with status 200, too: nothing beside it is believed."""
    error = answer.members.get("error")
    if answer.status == 200 and error is None:
        return answer.members
    if isinstance(error, str) and error in MEANINGS:
        failure, meaning = _meant(error, answer.members.get("error_description"))
        raise failure(f"{answer.what}: {answer.status} {error}: {meaning}")
    if answer.status == 401:
        raise ProviderMisconfigured(f"{answer.what}: answered 401: {CREDENTIALS}")
    if answer.status == 200:
        raise ProviderError(f"{answer.what}: answered with an unregistered error")
    raise ProviderError(f"{answer.what}: answered {answer.status}")


def _meant(error: str, description: object) -> tuple[type[ProviderFailure], str]:
    """Some providers say only in the description that the redirect URI, and nothing else, is what they refuse."""
    if error in ("invalid_grant", "invalid_request") and isinstance(description, str):
        text = description.lower()
        if "redirect" in text and not any(word in text for word in ("code", "expired", "grant")):
            return ProviderMisconfigured, REDIRECT
    return MEANINGS[error]
