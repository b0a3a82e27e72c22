"""What a provider answered, and which registered errors mean what (RFC 6749 5.1, 5.2).

The `error` of a provider's redirect, as a failure (RFC 6749 4.1.2.1, OpenID Connect Core 3.1.2.6, PROTOCOL 3.3).

The first half of the code flow: where a browser is sent, and what the code is redeemed with (RFC 6749 4.1, 7636).

What is sent to a provider: the four requests there are, and which of them carries which secret (SPEC 1, 5).
"""

from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha256
from re import ASCII, compile
from urllib.parse import parse_qsl, quote, quote_plus, urlencode, urlsplit, urlunsplit

from msgspec import Struct, field

from gamed.crypto import Random, Secret
from gamed.providers.base import (
    AuthorizationRequest,
    ProviderDenied,
    ProviderError,
    ProviderFailure,
    ProviderMisconfigured,
    ProviderUnavailable,
)
from gamed.structs import redacts
from gamed.tokens import base64url

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


@redacts("members")
class ProviderResponse(Struct, frozen=True):
    """One whole answer that is neither a redirect nor a call for patience."""

    what: str
    """Which setting named the address, as the owner knows it: `token_endpoint`."""
    status: int
    members: Mapping[str, object]
    """Empty if an answer other than 200 was no JSON object."""
    offset_ms: int | None = None
    """The provider's clock minus ours by its Date field; None without one."""


@redacts("_id_token")
class TokenResponse(Struct, frozen=True):
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


def validate_tokens(answer: ProviderResponse) -> TokenResponse:
    """The tokens of a token endpoint's answer, or ProviderFailure."""
    members = _granted(answer)
    token_type = members.get("token_type")
    if not isinstance(token_type, str) or token_type.lower() != "bearer":
        raise ProviderError(f"{answer.what}: token_type is not Bearer")
    access = members.get("access_token")
    if not isinstance(access, str) or not _TOKEN.fullmatch(access):
        raise ProviderError(f"{answer.what}: no access_token of 1 to 8192 visible ASCII characters")
    return TokenResponse(Secret(access.encode()), members.get("id_token"))


def validate_document(answer: ProviderResponse) -> Mapping[str, object]:
    """The members of any other answer of 200 that is no error in disguise, or ProviderFailure."""
    if answer.status != 200:
        raise ProviderError(f"{answer.what}: answered {answer.status}")
    if answer.members.get("error") is not None:
        raise ProviderError(f"{answer.what}: answered with an error instead of what was asked for")
    return answer.members


def _granted(answer: ProviderResponse) -> Mapping[str, object]:
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


MISCONFIGURED: Mapping[str, str] = {
    "invalid_request": REQUEST,
    "unauthorized_client": REQUEST,
    "invalid_client": REQUEST,
    "unsupported_response_type": "this application may not use the authorization code flow; see its settings there",
    "invalid_scope": "check scopes, and what this application may ask for at the provider's console",
    "redirect_uri_mismatch": REDIRECT,
    "interaction_required": REQUEST,
    "login_required": REQUEST,
    "account_selection_required": REQUEST,
    "consent_required": REQUEST,
    "request_not_supported": REQUEST,
    "request_uri_not_supported": REQUEST,
    "registration_not_supported": REQUEST,
}
"""Only these names may stand in a log: anyone can write any word into an address."""


def callback_failure(error: str) -> ProviderFailure:
    """What it means that no code came; the cause names the error only if it is a registered one."""
    if error == "access_denied":
        return ProviderDenied("callback: access_denied: the player did not agree, or the provider refused the account")
    if error in ("temporarily_unavailable", "server_error"):
        return ProviderUnavailable(f"callback: {error}: the provider could not go on")
    if error in MISCONFIGURED:
        return ProviderMisconfigured(f"callback: {error}: {MISCONFIGURED[error]}")
    return ProviderMisconfigured(f"callback: an unregistered error: {REQUEST}")


VERIFIER_BYTES = 64
"""86 characters of base64url, inside the 43 to 128 of RFC 7636 4.1."""
NONCE_BYTES = 32
PROMPTS = {"discord": "consent", "google": "select_account"}
"""By preset: the player sees at the provider which account is about to sign in."""


def make_verifier(random: Random) -> Secret:
    """A PKCE verifier of 86 characters."""
    return Secret(base64url(random(VERIFIER_BYTES)).encode())


def challenge_of(verifier: Secret) -> str:
    """S256, the only method used: 43 characters (RFC 7636 4.2)."""
    return base64url(sha256(verifier.reveal()).digest())


def make_nonce(random: Random) -> str:
    """43 characters that bind an ID token to its attempt."""
    return base64url(random(NONCE_BYTES))


def authorization_url(
    endpoint: str, client_id: str, scopes: tuple[str, ...], journey: AuthorizationRequest, prompt: str | None = None
) -> str:
    """`endpoint` with its own query kept; no parameter stands twice, and ours are the ones that count."""
    asked = {
        "response_type": "code",
        "client_id": client_id,
        "redirect_uri": journey.redirect_uri,
        "scope": " ".join(scopes),
        "state": journey.state,
        "code_challenge": journey.challenge,
        "code_challenge_method": "S256",
        "nonce": journey.nonce,
        "prompt": prompt,
    }
    ours = {name: value for name, value in asked.items() if value}
    parts = urlsplit(endpoint)
    kept = [(name, value) for name, value in parse_qsl(parts.query, keep_blank_values=True) if name not in ours]
    return urlunsplit(parts._replace(query=urlencode([*kept, *ours.items()], quote_via=quote), fragment=""))


def token_form(code: Secret, verifier: Secret, redirect_uri: str) -> dict[str, bytes]:
    """What redeems a code; who asks is said elsewhere (RFC 6749 4.1.3, RFC 7636 4.5)."""
    return {
        "grant_type": b"authorization_code",
        "code": code.reveal(),
        "redirect_uri": redirect_uri.encode(),
        "code_verifier": verifier.reveal(),
    }


def form_body(fields: Mapping[str, bytes]) -> bytes:
    """`application/x-www-form-urlencoded`."""
    return urlencode(fields).encode()


def basic(client_id: str, secret: Secret) -> Secret:
    """The Authorization field of RFC 6749 2.3.1: both halves form-encoded first, so a colon or % in them is no harm."""
    pair = f"{quote_plus(client_id)}:{quote_plus(secret.reveal())}"
    return Secret(b"Basic " + b64encode(pair.encode()))


@redacts("headers", "body")
class ProviderRequest(Struct, frozen=True):
    """One request; secrets are in fields and body, never in the URL."""

    what: str
    """The setting that named the address."""
    method: str
    url: str
    headers: Mapping[str, Secret] = field(default_factory=dict)
    body: Secret | None = None
    repeatable: bool = True
    """False: it carries a code, and once a byte of it was sent it is not sent again."""
    login_id: str | None = None
    """The login whose code or access token the request carries; None for a public document."""


@redacts("secret")
class ClientCredentials(Struct, frozen=True):
    """Who this server is at one provider."""

    client_id: str
    secret: Secret


def document_call(what: str, url: str) -> ProviderRequest:
    """A public document."""
    return ProviderRequest(what, "GET", url)


def account_call(url: str, access: Secret, login_id: str) -> ProviderRequest:
    """The account that an access token is for (RFC 6750 2.1)."""
    headers = {"Authorization": Secret(b"Bearer " + access.reveal())}
    return ProviderRequest("userinfo_endpoint", "GET", url, headers, login_id=login_id)


def token_call(
    url: str, client: ClientCredentials, form: Mapping[str, bytes], login_id: str, basic_auth: bool = True
) -> ProviderRequest:
    """The only request that has the client secret, and the only one that has the code."""
    fields, headers = dict(form), {"Content-Type": Secret(b"application/x-www-form-urlencoded")}
    if basic_auth:
        headers["Authorization"] = basic(client.client_id, client.secret)
    else:
        fields |= {"client_id": client.client_id.encode(), "client_secret": client.secret.reveal()}
    return ProviderRequest(
        "token_endpoint", "POST", url, headers, Secret(form_body(fields)), repeatable=False, login_id=login_id
    )
