"""Authorization requests are validated more strictly than by the real providers (RFC 6749 4.1, RFC 7636).

The codes and tokens that were issued are held in memory, and redeemed once (RFC 6749 4.1.3, RFC 7636 4.6).
"""

from base64 import b64decode
from binascii import Error
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from hashlib import sha256
from re import ASCII, compile
from typing import Any
from urllib.parse import parse_qsl, unquote_plus, urlencode

from msgspec import Struct

from gamed.crypto import Random, Secret, base64url
from gamed.dev.clients import Answer, Client, EmulatedProvider, SamplePerson
from gamed.structs import redacts
from gamed.timestamps import Now

KNOWN = {"response_type", "client_id", "redirect_uri", "scope", "state", "code_challenge", "code_challenge_method"}
_CHALLENGE = compile(r"[A-Za-z0-9_-]{43}", ASCII)
_VISIBLE = compile(r"[ -~]{1,512}", ASCII)


class UntrustedClient(Exception):
    """A request without a registered redirect URI, so that no redirect may follow. `str` is for the page."""


@redacts("state", "challenge", "nonce")
class AuthorizeParameters(Struct, frozen=True):
    """The parameters of a valid authorization request."""

    client: Client
    redirect_uri: str
    state: str
    challenge: str
    nonce: str | None


class AuthorizationError(Struct, frozen=True):
    """An invalid request, which is answered by a redirect with an error (RFC 6749 4.1.2.1)."""

    parameters: AuthorizeParameters
    error: str
    description: str


def validate_request(
    provider: EmulatedProvider, query: str, clients: Iterable[Client]
) -> AuthorizeParameters | AuthorizationError:
    """Validate the query of an authorization request; raise UntrustedClient."""
    sent = _parameters(query)
    client = next(_clients(provider, clients, sent.get("client_id")), None)
    if client is None:
        raise UntrustedClient("Unknown client_id. Is this the client ID of the application?")
    redirect_uri = sent.get("redirect_uri", "")
    if redirect_uri not in client.redirect_uris:
        raise UntrustedClient("This redirect_uri is not registered. Each character counts.")
    parameters = AuthorizeParameters(
        client, redirect_uri, sent.get("state", ""), sent.get("code_challenge", ""), sent.get("nonce")
    )
    found = next(_mistakes(provider, sent), None)
    return parameters if found is None else AuthorizationError(parameters, *found)


def _clients(provider: EmulatedProvider, clients: Iterable[Client], client_id: str | None) -> Iterator[Client]:
    return (each for each in clients if each.provider is provider and each.client_id == client_id)


def _parameters(query: str) -> dict[str, str]:
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=True, errors="strict")
    except ValueError:
        raise UntrustedClient("The query is malformed.") from None
    if len({name for name, _ in pairs}) != len(pairs):
        raise UntrustedClient("A parameter is there twice.")
    return dict(pairs)


def _mistakes(provider: EmulatedProvider, sent: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield error and description of each mistake."""
    known = KNOWN | {"prompt", *provider.parameters} | ({"nonce"} if provider.openid else set())
    for name in sorted(set(sent) - known):
        yield "invalid_request", f"unknown parameter {name}"
    if sent.get("response_type") != "code":
        yield "unsupported_response_type", "response_type must be code"
    if sent.get("scope", "") != provider.scope:
        yield "invalid_scope", f"scope must be exactly {provider.scope}" if provider.scope else "no scope is asked for"
    if not _VISIBLE.fullmatch(sent.get("state", "")):
        yield "invalid_request", "state is missing"
    if sent.get("code_challenge_method") != "S256" or not _CHALLENGE.fullmatch(sent.get("code_challenge", "")):
        yield "invalid_request", "code_challenge must be of S256"
    if provider.openid and not _VISIBLE.fullmatch(sent.get("nonce", "")):
        yield "invalid_request", "nonce is missing"
    for name, value in provider.parameters.items():
        if sent.get(name) != value:
            yield "invalid_request", f"{name} must be {value}"
    if "prompt" in sent and sent["prompt"] not in provider.prompts:
        yield "invalid_request", "prompt is unknown"


def callback_url(parameters: AuthorizeParameters, members: Mapping[str, str]) -> str:
    """Return the callback with these members and the state."""
    state = {"state": parameters.state} if parameters.state else {}
    return f"{parameters.redirect_uri}?{urlencode({**members, **state})}"


CODE_MS = 60_000
TOKEN_SECONDS = 3600
KEPT = 1000
_VERIFIER = compile(r"[A-Za-z0-9._~-]{43,128}", ASCII)


class ResponseMode(Enum):
    """The behaviour of the token endpoint, which the person chooses on the page."""

    AT_ONCE = "at once"
    SLOW = "slow"
    FAIL = "fail"


class Grant(Struct):
    """An issued code, with its person and the request that it is bound to."""

    parameters: AuthorizeParameters
    person: SamplePerson
    mode: ResponseMode
    expires_ms: int
    used: bool = False


class GrantError(Exception):
    """An error response of the token endpoint (RFC 6749 5.2)."""

    def __init__(self, status: int, error: str, description: str) -> None:
        super().__init__(f"{error}: {description}")
        self.status = status
        self.members: Mapping[str, object] = {"error": error, "error_description": description}


class ClientRefused(GrantError):
    """An unknown client or a wrong secret, which each provider refuses in its own words."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer[0], "invalid_client", "")
        self.members = answer[1]


class Grants:
    """The issued codes and access tokens, at most KEPT of each; the oldest are dropped."""

    def __init__(self, now_ms: Now, random: Random) -> None:
        self._now_ms = now_ms
        self._random = random
        self._grants: dict[str, Grant] = {}
        self._tokens: dict[str, tuple[SamplePerson, int]] = {}

    def issue(self, parameters: AuthorizeParameters, person: SamplePerson, mode: ResponseMode) -> str:
        """Issue a code for one exchange within a minute."""
        code = ("4/0" if parameters.client.provider.openid else "") + base64url(self._random(24))
        self._grants[code] = Grant(parameters, person, mode, self._now_ms() + CODE_MS)
        drop_oldest(self._grants)
        return code

    def redeem(self, presented: Client, form: Mapping[str, str]) -> Grant:
        """Return the grant of a code and mark the code as used, even if another parameter is wrong."""
        if form.get("grant_type") != "authorization_code":
            raise GrantError(400, "unsupported_grant_type", "grant_type must be authorization_code")
        grant = self._grants.get(form.get("code", ""))
        if grant is None:
            raise GrantError(400, "invalid_grant", "unknown code")
        used, grant.used, verifier = grant.used, True, form.get("code_verifier", "")
        fits = _VERIFIER.fullmatch(verifier) and challenge_of(verifier) == grant.parameters.challenge
        mistakes = {
            "the code was used before": used,
            "the code has expired": self._now_ms() >= grant.expires_ms,
            "the code is another client's": grant.parameters.client is not presented,
            "another redirect_uri": grant.parameters.redirect_uri != form.get("redirect_uri"),
            "the code_verifier does not fit": not fits,
        }
        for description in filter(mistakes.get, mistakes):
            raise GrantError(400, "invalid_grant", description)
        return grant

    def token(self, person: SamplePerson) -> str:
        """Issue an access token for this person's account."""
        token = base64url(self._random(32))
        self._tokens[token] = person, self._now_ms() + TOKEN_SECONDS * 1000
        drop_oldest(self._tokens)
        return token

    def owner(self, token: str) -> SamplePerson | None:
        """Return the person of a valid access token, or None."""
        person, expires_ms = self._tokens.get(token, (None, 0))
        return person if self._now_ms() < expires_ms else None


def authenticate(
    provider: EmulatedProvider,
    clients: Iterable[Client],
    authorization: str | None,
    form: Mapping[str, str],
    signed: Callable[[Client, Secret], bool],
) -> Client:
    """Authenticate a token request by HTTP Basic or form, never both (RFC 6749 2.3.1); raise GrantError.

    `signed` verifies a client secret that is a JWT.
    """
    if provider.form_only and authorization is not None:
        raise GrantError(400, "invalid_request", "the client secret belongs into the form")
    client_id, secret = _client_credentials(authorization, form)
    own = [*_clients(provider, clients, client_id)]
    if not own:
        raise ClientRefused(provider.unknown_client)
    for client in own:
        if signed(client, secret) if provider.signed_secret else client.client_secret.matches(secret):
            return client
    raise ClientRefused(provider.wrong_secret)


def _client_credentials(authorization: str | None, form: Mapping[str, str]) -> tuple[str, Secret]:
    if authorization is None:
        return form.get("client_id", ""), Secret(form.get("client_secret", "").encode())
    if "client_secret" in form:
        raise GrantError(400, "invalid_request", "the client secret was sent in two ways")
    scheme, _, encoded = authorization.partition(" ")
    try:
        text = b64decode(encoded, validate=True).decode()
    except (Error, UnicodeDecodeError):
        text = ""
    if scheme.lower() != "basic" or ":" not in text:
        raise GrantError(401, "invalid_client", "expected HTTP Basic")
    client_id, secret = (unquote_plus(part) for part in text.split(":", 1))
    if form.get("client_id", client_id) != client_id:
        raise GrantError(400, "invalid_request", "two client_ids")
    return client_id, Secret(secret.encode())


def challenge_of(verifier: str) -> str:
    """Return the code challenge by S256 (RFC 7636 4.2)."""
    return base64url(sha256(verifier.encode()).digest())


def drop_oldest(kept: dict[str, Any]) -> None:
    while len(kept) > KEPT:
        kept.pop(next(iter(kept)))
