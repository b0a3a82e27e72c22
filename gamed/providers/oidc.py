"""An OpenID Connect provider is found by its issuer; its signed ID token identifies a player (OIDC Core 1.0 3.1)."""

from collections.abc import Callable, Mapping
from functools import partial
from json import dumps

from cryptography.exceptions import UnsupportedAlgorithm
from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import ECKey
from msgspec.structs import replace
from twisted.internet.interfaces import IReactorTime
from twisted.web.iweb import IAgent

from gamed import __version__
from gamed.config.model import Provider, ProviderProtocol, Reauthentication
from gamed.config.providers import accepted_issuers
from gamed.crypto import Secret
from gamed.providers.base import (
    AuthorizationRequest,
    AuthorizationUrl,
    ExternalIdentity,
    IdentityProvider,
    ProviderMisconfigured,
)
from gamed.providers.circuit_breaker import CircuitBreaker
from gamed.providers.client import ProviderHttpClient
from gamed.providers.discovery import (
    Metadata,
    identity_namespace,
    identity_of,
    known_metadata,
    metadata_url,
    tenant_of,
    validate_metadata,
)
from gamed.providers.document_cache import DocumentCache
from gamed.providers.id_token import (
    SKEW_SECONDS,
    ExpectedClaims,
    KeyUnknown,
    SignatureWrong,
    SigningKey,
    UnverifiedToken,
    find_key,
    parse_token,
    read_claims,
    validate_claims,
    validate_keys,
    validate_tenant,
)
from gamed.providers.messages import (
    ClientCredentials,
    authorization_url,
    document_request,
    token_form,
    token_request,
    validate_document,
    validate_tokens,
)
from gamed.providers.oauth2 import OAuth2Provider
from gamed.timestamps import Now

ASKING: Mapping[Reauthentication, Mapping[str, str]] = {
    Reauthentication.AUTH_TIME: {"max_age": "0"},
    Reauthentication.PROMPT: {"prompt": "login"},
    Reauthentication.NONE: {},
}
"""The parameters that let a provider ask a player who is signed in there (OpenID Connect Core 3.1.2.1)."""


class OidcProvider:
    """A provider whose metadata and keys are fetched when first needed, so that the service starts without it."""

    uses_nonce = True
    uses_assertion = False

    def __init__(
        self,
        settings: Provider,
        client: ProviderHttpClient,
        breaker: CircuitBreaker,
        clock: IReactorTime,
        now_ms: Now,
    ) -> None:
        self.name = settings.name
        self.label = settings.label
        self._issuer = settings.issuer or ""
        self._credentials = ClientCredentials(settings.client_id, settings.client_secret)
        self._signing = (settings.team_id, settings.key_id) if settings.preset.signs_secret else None
        self._scopes = settings.scopes
        self._preset = settings.preset
        self._settings = settings
        self._reauthentication = settings.reauthentication
        self._client = client
        self._breaker = breaker
        self._now_ms = now_ms
        self._metadata = DocumentCache(settings.name, "discovery", clock, self._fetch_metadata)
        self._keys = DocumentCache(settings.name, "jwks_uri", clock, self._fetch_keys)

    def issuer_for(self, iss: str | None) -> str | None:
        """Return the issuer; with tenants `iss` itself if it is that of one of them, else the template of all."""
        if not self._preset.tenants:
            return self._issuer
        template = identity_namespace(self._settings).namespace
        return template if tenant_of(iss, template) is None else iss

    def require_available(self) -> None:
        self._breaker.require_closed()

    async def authorization_url(self, request: AuthorizationRequest) -> AuthorizationUrl:
        metadata = await self._metadata.get(self._client.deadline())
        endpoint, client_id = metadata.authorization_endpoint, self._credentials.client_id
        more = self._preset.authorization_parameters
        if request.ask_again:
            more = {**more, **ASKING[self._reauthentication_at(metadata)]}
        url = authorization_url(endpoint, client_id, self._scopes, request, more)
        return AuthorizationUrl(url, metadata.iss_promised)

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
        metadata = await self._metadata.get(until)  # before the code is spent: a failure here could be tried again
        form = token_form(code, verifier, redirect_uri)
        credentials = self._request_credentials()
        request = token_request(metadata.token_endpoint, credentials, form, login_id, metadata.basic_auth)
        response = await self._client.call(request, until)
        id_token = validate_tokens(response, self._preset.client_refusals).id_token()
        claims, key = await self._claims(parse_token(id_token, metadata.algorithms), until)
        proves = asked_ms is not None and self._reauthentication_at(metadata) is Reauthentication.AUTH_TIME
        issuers, of_tenant = accepted_issuers(self._issuer), ""
        if self._preset.tenants:
            template = identity_namespace(self._settings).namespace
            of_tenant = validate_tenant(claims, metadata.issuer, metadata.cloud, key, template) + "/"
            issuers = frozenset({str(claims["iss"])})
        expected = ExpectedClaims(issuers, self._credentials.client_id, nonce, asked_ms if proves else None)
        subject = of_tenant + validate_claims(claims, expected, self._now_ms(), response.offset_ms)
        return replace(identity_of(self._settings, subject), asked_again=proves)

    def _request_credentials(self) -> ClientCredentials:
        """Return the credentials of one token request, with a client secret of an hour if a key signs it."""
        if self._signing is None:
            return self._credentials
        return sign_credentials(self._credentials, *self._signing, self._issuer, self._now_ms())

    def _reauthentication_at(self, metadata: Metadata) -> Reauthentication:
        """Return how this provider asks again: by the owner's setting, else by the preset and the metadata."""
        if self._reauthentication is not None:
            return self._reauthentication
        listed = self._preset.reauthentication
        return Reauthentication.PROMPT if listed is Reauthentication.AUTH_TIME and not metadata.auth_time else listed

    async def _claims(self, token: UnverifiedToken, until: float) -> tuple[Mapping[str, object], SigningKey]:
        """Verify the token with the cached keys, or with newer ones: providers change keys without notice.

        Return the claims, and the key that signed them.
        """
        keys = await self._keys.get(until)
        try:
            return read_claims(token, keys), find_key(keys, token.algorithm, token.kid)
        except (KeyUnknown, SignatureWrong):
            newer = await self._keys.refresh(until)
            if newer is None:
                raise
            return read_claims(token, newer), find_key(newer, token.algorithm, token.kid)

    async def _fetch_metadata(self) -> Metadata:
        if (known := known_metadata(self._settings)) is not None:
            return known
        request = document_request("discovery", metadata_url(self._issuer))
        response = await self._client.call(request, self._client.deadline())
        if response.status == 404:
            raise ProviderMisconfigured("discovery: answered 404; check issuer in authentication.json")
        document, preset = validate_document(response), self._preset
        return validate_metadata(document, self._issuer, preset.algorithms, tenants=preset.tenants)

    async def _fetch_keys(self) -> tuple[SigningKey, ...]:
        until = self._client.deadline()
        request = document_request("jwks_uri", (await self._metadata.get(until)).jwks_uri)
        return validate_keys(validate_document(await self._client.call(request, until)))


SIGNED_SECONDS = 3600
"""The time until a signed client secret expires, which Apple limits to six months; a machine may be as far behind."""


def sign_credentials(
    key: ClientCredentials, team_id: str | None, key_id: str | None, audience: str, now_ms: int
) -> ClientCredentials:
    """Return credentials whose secret is a JWT that the private key signs (Apple: Creating a client secret).

    Raise ProviderMisconfigured for a key that cannot sign by ES256.
    """
    now = now_ms // 1000
    # Dated back, as a machine that is a little ahead would else issue its secrets in the provider's future.
    claims = {
        "iss": team_id,
        "iat": now - SKEW_SECONDS,
        "exp": now + SIGNED_SECONDS,
        "aud": audience,
        "sub": key.client_id,
    }
    header = {"alg": "ES256", "kid": key_id}
    try:
        private = ECKey.import_key(key.secret.reveal())
        signed = jws.serialize_compact(header, dumps(claims).encode(), private, ["ES256"])
    except (JoseError, ValueError, TypeError, UnsupportedAlgorithm):  # their texts may show parts of the key
        raise ProviderMisconfigured(
            "the key that client_secret_env names cannot sign; set it to the whole content of the .p8 file"
        ) from None
    return ClientCredentials(key.client_id, Secret(signed.encode()))


def build_providers(
    providers: Mapping[str, Provider],
    public_url: str,
    agent: IAgent,
    clock: IReactorTime,
    now_ms: Now,
    *,
    report: Callable[[str, str, float], None] | None = None,
) -> dict[str, IdentityProvider]:
    """Build the providers in the order of the file, without sending a request.

    `report` is called after each call with the provider's name, the outcome and the seconds (gamed.providers.client).
    """

    def build(settings: Provider) -> IdentityProvider:
        breaker = CircuitBreaker(clock.seconds)
        reported = None if report is None else partial(report, settings.name)
        agent_name = settings.preset.user_agent.format(public_url=public_url, version=__version__)
        client = ProviderHttpClient(agent, clock, now_ms, agent_name, breaker, reported)
        if settings.protocol is ProviderProtocol.OIDC:
            return OidcProvider(settings, client, breaker, clock, now_ms)
        if settings.protocol is ProviderProtocol.OPENID2:
            from gamed.providers.openid2 import OpenId2Provider  # late: few servers have such a provider

            return OpenId2Provider(settings, client, breaker, now_ms)
        return OAuth2Provider(settings, client, breaker)

    return {name: build(provider) for name, provider in providers.items()}
