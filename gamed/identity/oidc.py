"""A provider that speaks OpenID Connect: found by its issuer, believed by its signed ID token (OIDC Core 1.0 3.1)."""

from collections.abc import Mapping

from twisted.internet.interfaces import IReactorTime

from gamed.config.model import Provider
from gamed.crypto import Secret
from gamed.identity.answer import judge_document, judge_tokens
from gamed.identity.authorization import PROMPTS, authorization_url, token_form
from gamed.identity.breaker import Breaker
from gamed.identity.cached import Cached
from gamed.identity.call import Client, document_call, token_call
from gamed.identity.discovery import (
    ALGORITHMS,
    PRESET_ALGORITHMS,
    Metadata,
    accepted_issuers,
    judge_metadata,
    metadata_url,
)
from gamed.identity.endpoint import Endpoint
from gamed.identity.id_token import Envelope, Expected, SignatureWrong, judge_claims, open_envelope, read_claims
from gamed.identity.provider import Destination, Identity, Journey, ProviderMisconfigured
from gamed.identity.signing_keys import KeyUnknown, SigningKey, judge_keys
from gamed.instants import Now


class OidcProvider:
    """Metadata and keys are fetched when first needed: the service starts while its provider is down."""

    uses_nonce = True

    def __init__(
        self, settings: Provider, endpoint: Endpoint, breaker: Breaker, clock: IReactorTime, now_ms: Now
    ) -> None:
        self.name = settings.name
        self.label = settings.label
        self._issuer = settings.issuer or ""
        self._client = Client(settings.client_id, settings.client_secret)
        self._scopes = settings.scopes
        self._accepted = PRESET_ALGORITHMS if settings.name == "google" else ALGORITHMS
        self._endpoint = endpoint
        self._breaker = breaker
        self._now_ms = now_ms
        self._metadata = Cached(settings.name, "discovery", clock, self._fetch_metadata)
        self._keys = Cached(settings.name, "jwks_uri", clock, self._fetch_keys)

    @property
    def issuer(self) -> str:
        return self._issuer

    def require_available(self) -> None:
        self._breaker.require_closed()

    async def authorization_url(self, journey: Journey) -> Destination:
        metadata = await self._metadata.get(self._endpoint.deadline())
        prompt = PROMPTS.get(self.name)
        url = authorization_url(metadata.authorization_endpoint, self._client.client_id, self._scopes, journey, prompt)
        return Destination(url, metadata.iss_promised)

    async def identify(
        self, code: Secret, verifier: Secret, nonce: str | None, redirect_uri: str, login_id: str
    ) -> Identity:
        until = self._endpoint.deadline()
        metadata = await self._metadata.get(until)
        form = token_form(code, verifier, redirect_uri)
        call = token_call(metadata.token_endpoint, self._client, form, login_id, metadata.basic)
        answer = await self._endpoint.call(call, until)
        id_token = judge_tokens(answer).id_token()
        claims = await self._claims(open_envelope(id_token, metadata.algorithms), until)
        expected = Expected(accepted_issuers(self._issuer), self._client.client_id, nonce)
        return Identity("oidc", self._issuer, judge_claims(claims, expected, self._now_ms(), answer.offset_ms))

    async def _claims(self, envelope: Envelope, until: float) -> Mapping[str, object]:
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
        return judge_metadata(judge_document(answer), self._issuer, self._accepted)

    async def _fetch_keys(self) -> tuple[SigningKey, ...]:
        until = self._endpoint.deadline()
        call = document_call("jwks_uri", (await self._metadata.get(until)).jwks_uri)
        return judge_keys(judge_document(await self._endpoint.call(call, until)))
