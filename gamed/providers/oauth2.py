"""An OAuth 2.0 provider identifies a player by the account of an access token.

See RFC 6749; docs/internals/threats.md: Providers.
"""

from collections.abc import Callable, Mapping
from re import ASCII, compile

from gamed.config.model import Provider, SubjectForm
from gamed.crypto import Secret
from gamed.providers.base import AuthorizationRequest, AuthorizationUrl, ExternalIdentity, ProviderError
from gamed.providers.circuit_breaker import CircuitBreaker
from gamed.providers.client import ProviderHttpClient
from gamed.providers.discovery import identity_namespace
from gamed.providers.messages import (
    ClientCredentials,
    account_request,
    authorization_url,
    token_form,
    token_request,
    validate_document,
    validate_tokens,
)


class OAuth2Provider:
    """A provider whose code is exchanged for a token, and the token for an account; an id_token is ignored."""

    uses_nonce = False
    uses_assertion = False

    def __init__(self, settings: Provider, client: ProviderHttpClient, breaker: CircuitBreaker) -> None:
        self.name = settings.name
        self.label = settings.label
        self._credentials = ClientCredentials(settings.client_id, settings.client_secret)
        self._scopes = settings.scopes
        self._authorization_endpoint = settings.authorization_endpoint or ""
        self._token_endpoint = settings.token_endpoint or ""
        self._userinfo_endpoint = settings.userinfo_endpoint or ""
        self._subject_field = settings.subject_field or ""
        self._preset = settings.preset
        self._namespace = identity_namespace(settings)
        self._client = client
        self._breaker = breaker

    def issuer_for(self, iss: str | None) -> None:
        return None

    def require_available(self) -> None:
        self._breaker.require_closed()

    async def authorization_url(self, request: AuthorizationRequest) -> AuthorizationUrl:
        endpoint, client_id = self._authorization_endpoint, self._credentials.client_id
        url = authorization_url(endpoint, client_id, self._scopes, request, self._preset.authorization_parameters)
        return AuthorizationUrl(url, iss_promised=False)

    async def identify(
        self,
        code: Secret,
        verifier: Secret,
        nonce: str | None,
        redirect_uri: str,
        login_id: str,
        *,
        asked_ms: int | None = None,
    ) -> ExternalIdentity:
        until = self._client.deadline()
        form = token_form(code, verifier, redirect_uri)
        basic_auth = not self._preset.secret_in_form
        request = token_request(self._token_endpoint, self._credentials, form, login_id, basic_auth)
        tokens = validate_tokens(await self._client.call(request, until))
        request = account_request(self._userinfo_endpoint, tokens.access, login_id)
        account = validate_document(await self._client.call(request, until))
        subject = PARSERS[self._preset.subject_form](account.get(self._subject_field))
        return ExternalIdentity(self._namespace.kind, self._namespace.namespace, subject)


MAX_LENGTH = 255  # as of `sub` (OpenID Connect Core 2)
MAX_NUMBER = 2**64  # as many digits as parse_digits() takes
_DIGITS = compile(r"[0-9]{1,20}", ASCII)


def parse_digits(value: object) -> str:
    """Check that a subject is text of 1 to 20 digits; raise ProviderError."""
    if not isinstance(value, str) or not _DIGITS.fullmatch(value):
        raise ProviderError("userinfo_endpoint: id is not text of 1 to 20 digits")
    return value


def parse_number(value: object) -> str:
    """Check that a subject is an integer from 1, and return its decimal text; raise ProviderError."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value < MAX_NUMBER:
        raise ProviderError("userinfo_endpoint: the member that subject_field names is not a whole number from 1")
    return str(value)


def parse_text_or_number(value: object) -> str:
    """Check that a subject is text of 1 to 255 printable characters, or an integer from 1; raise ProviderError.

    An integer is the same subject as its decimal text, so that identities survive a provider's change from numbers to
    text.
    """
    if isinstance(value, int):
        return parse_number(value)
    if isinstance(value, str) and 0 < len(value) <= MAX_LENGTH and value.isprintable() and value == value.strip():
        return value
    raise ProviderError("userinfo_endpoint: the member that subject_field names is not a usable text or number")


PARSERS: Mapping[SubjectForm, Callable[[object], str]] = {
    SubjectForm.DIGITS: parse_digits,
    SubjectForm.NUMBER: parse_number,
    SubjectForm.TEXT_OR_NUMBER: parse_text_or_number,
}
