"""A provider that speaks OAuth 2.0 and tells who came by an account behind an access token (RFC 6749, PROTOCOL 3.3)."""

from gamed.config.model import Provider
from gamed.crypto import Secret
from gamed.providers.base import (
    AuthorizationRequest,
    AuthorizationUrl,
    ExternalIdentity,
    account_subject,
    parse_discord_id,
)
from gamed.providers.circuit_breaker import CircuitBreaker
from gamed.providers.client import ProviderHttpClient
from gamed.providers.discovery import IdentityNamespace
from gamed.providers.messages import (
    PROMPTS,
    ClientCredentials,
    account_call,
    authorization_url,
    token_call,
    token_form,
    validate_document,
    validate_tokens,
)


class OAuth2Provider:
    """Code for token, token for account; an id_token that comes along is not looked at."""

    uses_nonce = False
    issuer = None

    def __init__(self, settings: Provider, endpoint: ProviderHttpClient, breaker: CircuitBreaker) -> None:
        self.name = settings.name
        self.label = settings.label
        self._client = ClientCredentials(settings.client_id, settings.client_secret)
        self._scopes = settings.scopes
        self._authorization_endpoint = settings.authorization_endpoint or ""
        self._token_endpoint = settings.token_endpoint or ""
        self._userinfo_endpoint = settings.userinfo_endpoint or ""
        self._subject_field = settings.subject_field or ""
        self._realm = IdentityNamespace.of(settings)
        self._endpoint = endpoint
        self._breaker = breaker

    def require_available(self) -> None:
        self._breaker.require_closed()

    async def authorization_url(self, journey: AuthorizationRequest) -> AuthorizationUrl:
        prompt = PROMPTS.get(self.name)
        url = authorization_url(self._authorization_endpoint, self._client.client_id, self._scopes, journey, prompt)
        return AuthorizationUrl(url, iss_promised=False)

    async def identify(
        self, code: Secret, verifier: Secret, nonce: str | None, redirect_uri: str, login_id: str
    ) -> ExternalIdentity:
        until = self._endpoint.deadline()
        form = token_form(code, verifier, redirect_uri)
        answer = await self._endpoint.call(token_call(self._token_endpoint, self._client, form, login_id), until)
        tokens = validate_tokens(answer)
        call = account_call(self._userinfo_endpoint, tokens.access, login_id)
        account = validate_document(await self._endpoint.call(call, until))
        if self.name == "discord":
            subject = parse_discord_id(account.get(self._subject_field))
        else:
            subject = account_subject(account, self._subject_field)
        return ExternalIdentity(self._realm.kind, self._realm.namespace, subject)
