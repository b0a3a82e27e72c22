"""The messages of the code flow are the authorization URL, four requests to a provider, and their responses.

The registered errors of a response and of a callback become ProviderFailures (RFC 6749 4.1.2.1, 5.2; OpenID Connect
Core 3.1.2.6; docs/internals/threats.md: Providers). Only the token request carries the client secret and the code
(SPEC 1, 5).
"""

from base64 import b64encode
from collections.abc import Callable, Mapping
from hashlib import sha256
from re import ASCII, compile
from urllib.parse import parse_qsl, quote, quote_plus, urlencode, urlsplit, urlunsplit

from msgspec import Struct, field

from gamed.crypto import Random, Secret, base64url
from gamed.providers.base import (
    AuthorizationRequest,
    ProviderDenied,
    ProviderError,
    ProviderFailure,
    ProviderMisconfigured,
    ProviderUnavailable,
)
from gamed.structs import redacts

MAX_DEPTH = 16
"""The maximum nesting of a provider's JSON."""
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
    "unverified_user_email": (ProviderDenied, "the player must first verify the account's mail address there"),
    "server_error": (ProviderUnavailable, "it could not answer"),
    "temporarily_unavailable": (ProviderUnavailable, "it could not answer"),
}
"""The errors of a token endpoint whose names may be logged; those that RFC 6749 lacks are common, or GitHub's."""


@redacts("members")
class ProviderResponse(Struct, frozen=True):
    """A complete response that is neither a redirect nor a temporary failure."""

    setting: str
    """The setting that named the URL, as the owner knows it: `token_endpoint`."""
    status: int
    members: Mapping[str, object]
    """Empty if the content is not a JSON object and the status is not 200."""
    offset_ms: int | None = None
    """The provider's clock minus ours, by its Date field; None without one."""


@redacts("_id_token")
class TokenResponse(Struct, frozen=True):
    """The tokens that a code was exchanged for; they are never stored."""

    access: Secret
    _id_token: object
    """Not validated: only OpenID Connect uses it."""

    def id_token(self) -> Secret:
        """Return the ID token; raise ProviderError if it is missing or not ASCII text."""
        if self._id_token is None:
            raise ProviderError("token_endpoint: id_token is missing")
        if not isinstance(self._id_token, str) or not self._id_token.isascii():
            raise ProviderError("token_endpoint: id_token is not text")
        return Secret(self._id_token.encode())


def validate_tokens(response: ProviderResponse, client_refusals: Mapping[int, str] = {}) -> TokenResponse:
    """Return the tokens of a token endpoint's response; raise ProviderFailure.

    `client_refusals` are those of the preset (see gamed.config.model.Preset).
    """
    members = _granted_members(response, client_refusals)
    token_type = members.get("token_type")
    if not isinstance(token_type, str) or token_type.lower() != "bearer":
        raise ProviderError(f"{response.setting}: token_type is not Bearer")
    access = members.get("access_token")
    if not isinstance(access, str) or not _TOKEN.fullmatch(access):
        raise ProviderError(f"{response.setting}: access_token is not 1 to 8192 visible ASCII characters")
    return TokenResponse(Secret(access.encode()), members.get("id_token"))


def validate_document(response: ProviderResponse) -> Mapping[str, object]:
    """Return the members of any other response; raise ProviderError unless it is 200 without an `error`."""
    if response.status != 200:
        raise ProviderError(f"{response.setting}: answered {response.status}")
    if response.members.get("error") is not None:
        raise ProviderError(f"{response.setting}: answered with an error instead of what was asked for")
    return response.members


def _granted_members(response: ProviderResponse, client_refusals: Mapping[int, str]) -> Mapping[str, object]:
    """Return the members of a success; a response with `error` is a failure with status 200, too: GitHub sends that."""
    error = response.members.get("error")
    if response.status == 200 and error is None:
        return response.members
    if isinstance(error, str) and error in MEANINGS:
        failure, meaning = _meaning(error, response.members.get("error_description"))
        raise failure(f"{response.setting}: {response.status} {error}: {meaning}")
    refusal = client_refusals.get(response.status)
    if response.status == 401 or refusal == "" or (refusal and response.members.get("message") == refusal):
        raise ProviderMisconfigured(f"{response.setting}: answered {response.status}: {CREDENTIALS}")
    if response.status == 200:
        raise ProviderError(f"{response.setting}: answered with an unregistered error")
    raise ProviderError(f"{response.setting}: answered {response.status}")


def _meaning(error: str, description: object) -> tuple[type[ProviderFailure], str]:
    """Return what an error means; some providers mention only in the description that it is the redirect URI."""
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
"""The errors of a callback that may be logged by name: anyone can write any other text into a URL."""


DECLINED = frozenset({"access_denied", "user_cancelled_authorize"})
"""The errors of a callback after the player declined: of RFC 6749 4.1.2.1, and of Apple."""


def callback_failure(error: str) -> ProviderFailure:
    """Return the failure for the `error` of a callback; the cause names only a registered error."""
    if error in DECLINED:
        return ProviderDenied(f"callback: {error}: the player declined, or the provider rejected the account")
    if error in ("temporarily_unavailable", "server_error"):
        return ProviderUnavailable(f"callback: {error}: the provider could not continue")
    if error in MISCONFIGURED:
        return ProviderMisconfigured(f"callback: {error}: {MISCONFIGURED[error]}")
    return ProviderMisconfigured(f"callback: an unregistered error: {REQUEST}")


VERIFIER_BYTES = 64
"""86 characters of base64url, inside the 43 to 128 of RFC 7636 4.1."""
NONCE_BYTES = 32


def generate_verifier(random: Random) -> Secret:
    """Generate a PKCE verifier of 86 characters."""
    return Secret(base64url(random(VERIFIER_BYTES)).encode())


def challenge_of(verifier: Secret) -> str:
    """Return the code challenge of a verifier by S256, 43 characters (RFC 7636 4.2)."""
    return base64url(sha256(verifier.reveal()).digest())


def generate_nonce(random: Random) -> str:
    """Generate 43 characters that bind an ID token to its attempt."""
    return base64url(random(NONCE_BYTES))


def authorization_url(
    endpoint: str,
    client_id: str,
    scopes: tuple[str, ...],
    request: AuthorizationRequest,
    others: Mapping[str, str],
) -> str:
    """Return `endpoint` with the request's parameters and `others` added; they replace equal names in its own query."""
    parameters = {
        **others,  # first, so that none replaces a parameter of the protocol
        "response_type": "code",
        "client_id": client_id,
        "redirect_uri": request.redirect_uri,
        "scope": " ".join(scopes),
        "state": request.state,
        "code_challenge": request.challenge,
        "code_challenge_method": "S256",
        "nonce": request.nonce,
    }
    ours = {name: value for name, value in parameters.items() if value}
    parts = urlsplit(endpoint)
    kept = [(name, value) for name, value in parse_qsl(parts.query, keep_blank_values=True) if name not in ours]
    # %20 for a blank: in a query + is a blank only by convention, which not all providers follow.
    return urlunsplit(parts._replace(query=urlencode([*kept, *ours.items()], quote_via=quote), fragment=""))


def token_form(code: Secret, verifier: Secret, redirect_uri: str) -> dict[str, bytes]:
    """Return the form that redeems a code, without the client's credentials (RFC 6749 4.1.3, RFC 7636 4.5)."""
    return {
        "grant_type": b"authorization_code",
        "code": code.reveal(),
        "redirect_uri": redirect_uri.encode(),
        "code_verifier": verifier.reveal(),
    }


def basic_authorization(client_id: str, secret: Secret) -> Secret:
    """Return the Authorization field of RFC 6749 2.3.1; both halves are form-encoded, so they may contain a colon."""
    pair = f"{quote_plus(client_id)}:{quote_plus(secret.reveal())}"
    return Secret(b"Basic " + b64encode(pair.encode()))


@redacts("headers", "body")
@redacts("url")
class ProviderRequest(Struct, frozen=True):
    """A request to a provider; secrets are in its fields and body, never in the URL.

    Only the URL of a webhook is a secret itself.
    """

    setting: str
    """The setting that named the URL."""
    method: str
    url: str
    headers: Mapping[str, Secret] = field(default_factory=dict)
    body: Secret | None = None
    repeatable: bool = True
    """False if it carries a code: then it is not sent again once a byte of it was sent."""
    reads_content: bool = True
    """False if only the status of the response counts."""
    parse: Callable[[bytes], Mapping[str, object]] | None = None
    """The parser of the content, which raises ValueError; None for JSON."""
    login_id: str | None = None
    """The login whose code or access token the request carries; None for a public document."""


@redacts("secret")
class ClientCredentials(Struct, frozen=True):
    """The credentials of this server at one provider."""

    client_id: str
    secret: Secret


def document_request(setting: str, url: str) -> ProviderRequest:
    """Return the request of a public document."""
    return ProviderRequest(setting, "GET", url)


def account_request(url: str, access: Secret, login_id: str) -> ProviderRequest:
    """Return the request of an access token's account (RFC 6750 2.1)."""
    headers = {"Authorization": Secret(b"Bearer " + access.reveal())}
    return ProviderRequest("userinfo_endpoint", "GET", url, headers, login_id=login_id)


def token_request(
    url: str, client: ClientCredentials, form: Mapping[str, bytes], login_id: str, basic_auth: bool = True
) -> ProviderRequest:
    """Return the token request, the only one with the client secret and the code."""
    fields, headers = dict(form), {"Content-Type": Secret(b"application/x-www-form-urlencoded")}
    if basic_auth:
        headers["Authorization"] = basic_authorization(client.client_id, client.secret)
    else:
        fields |= {"client_id": client.client_id.encode(), "client_secret": client.secret.reveal()}
    return ProviderRequest(
        "token_endpoint", "POST", url, headers, Secret(urlencode(fields).encode()), repeatable=False, login_id=login_id
    )
