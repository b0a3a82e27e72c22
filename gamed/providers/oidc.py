"""A provider that speaks OpenID Connect: found by its issuer, believed by its signed ID token (OIDC Core 1.0 3.1)."""

from collections.abc import Mapping

from twisted.internet.interfaces import IReactorTime

from gamed.config.model import Provider
from gamed.crypto import Secret
from gamed.providers.base import AuthorizationRequest, AuthorizationUrl, ExternalIdentity, ProviderMisconfigured
from gamed.providers.circuit_breaker import CircuitBreaker
from gamed.providers.client import ProviderHttpClient
from gamed.providers.discovery import (
    ALGORITHMS,
    PRESET_ALGORITHMS,
    Metadata,
    accepted_issuers,
    metadata_url,
    validate_metadata,
)
from gamed.providers.document_cache import DocumentCache
from gamed.providers.id_token import (
    ExpectedClaims,
    KeyUnknown,
    SignatureWrong,
    SigningKey,
    UnverifiedToken,
    parse_token,
    read_claims,
    validate_claims,
    validate_keys,
)
from gamed.providers.messages import (
    PROMPTS,
    ClientCredentials,
    authorization_url,
    document_call,
    token_call,
    token_form,
    validate_document,
    validate_tokens,
)
from gamed.timestamps import Now


class OidcProvider:
    """Metadata and keys are fetched when first needed: the service starts while its provider is down."""

    uses_nonce = True

    def __init__(
        self,
        settings: Provider,
        endpoint: ProviderHttpClient,
        breaker: CircuitBreaker,
        clock: IReactorTime,
        now_ms: Now,
    ) -> None:
        self.name = settings.name
        self.label = settings.label
        self._issuer = settings.issuer or ""
        self._client = ClientCredentials(settings.client_id, settings.client_secret)
        self._scopes = settings.scopes
        self._accepted = PRESET_ALGORITHMS if settings.name == "google" else ALGORITHMS
        self._endpoint = endpoint
        self._breaker = breaker
        self._now_ms = now_ms
        self._metadata = DocumentCache(settings.name, "discovery", clock, self._fetch_metadata)
        self._keys = DocumentCache(settings.name, "jwks_uri", clock, self._fetch_keys)

    @property
    def issuer(self) -> str:
        return self._issuer

    def require_available(self) -> None:
        self._breaker.require_closed()

    async def authorization_url(self, journey: AuthorizationRequest) -> AuthorizationUrl:
        metadata = await self._metadata.get(self._endpoint.deadline())
        prompt = PROMPTS.get(self.name)
        url = authorization_url(metadata.authorization_endpoint, self._client.client_id, self._scopes, journey, prompt)
        return AuthorizationUrl(url, metadata.iss_promised)

    async def identify(
        self, code: Secret, verifier: Secret, nonce: str | None, redirect_uri: str, login_id: str
    ) -> ExternalIdentity:
        until = self._endpoint.deadline()
        metadata = await self._metadata.get(until)
        form = token_form(code, verifier, redirect_uri)
        call = token_call(metadata.token_endpoint, self._client, form, login_id, metadata.basic)
        answer = await self._endpoint.call(call, until)
        id_token = validate_tokens(answer).id_token()
        claims = await self._claims(parse_token(id_token, metadata.algorithms), until)
        expected = ExpectedClaims(accepted_issuers(self._issuer), self._client.client_id, nonce)
        return ExternalIdentity(
            "oidc", self._issuer, validate_claims(claims, expected, self._now_ms(), answer.offset_ms)
        )

    async def _claims(self, envelope: UnverifiedToken, until: float) -> Mapping[str, object]:
        """By the keys in hand, or by newer ones if those do not fit: providers change keys without notice."""
        keys = await self._keys.get(until)
        try:
            return read_claims(envelope, keys)
        except (KeyUnknown, SignatureWrong):
            newer = await self._keys.renewed(until)
            if newer is None:
                raise
            return read_claims(envelope, newer)

    async def _fetch_metadata(self) -> Metadata:
        call = document_call("discovery", metadata_url(self._issuer))
        answer = await self._endpoint.call(call, self._endpoint.deadline())
        if answer.status == 404:
            raise ProviderMisconfigured("discovery: answered 404; check issuer in authentication.json")
        return validate_metadata(validate_document(answer), self._issuer, self._accepted)

    async def _fetch_keys(self) -> tuple[SigningKey, ...]:
        until = self._endpoint.deadline()
        call = document_call("jwks_uri", (await self._metadata.get(until)).jwks_uri)
        return validate_keys(validate_document(await self._endpoint.call(call, until)))
