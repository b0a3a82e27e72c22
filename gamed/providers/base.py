"""A provider gives an authorization URL for a browser, and identifies the player who returns.

The subject of an identity is a stable, non-empty member of the provider's account (SPEC 2.2).

See docs/internals/threats.md: Providers.
"""

from collections.abc import Awaitable
from typing import ClassVar, Protocol

from msgspec import Struct

from gamed.crypto import Index, Indexer, Purpose, Secret
from gamed.outcomes import LoginFailure
from gamed.structs import redacts


class ProviderFailure(Exception):
    """A sign-in that a provider did not complete.

    `outcome` is for player and client. `str` is the cause for the owner's log, with what to correct. It contains
    numbers, names of settings and registered error codes, never a secret, code, token, subject or the provider's text.
    """

    outcome: ClassVar[LoginFailure] = LoginFailure.PROVIDER_ERROR


class ProviderError(ProviderFailure):
    """A response of the provider that cannot be used."""


class ProviderUnavailable(ProviderFailure):
    """A provider that does not answer, or to which requests are skipped for a while; `retry_after` in seconds."""

    outcome = LoginFailure.PROVIDER_UNAVAILABLE

    def __init__(self, cause: str, retry_after: int | None = None) -> None:
        super().__init__(cause)
        self.retry_after = retry_after


class ProviderMisconfigured(ProviderFailure):
    """A configuration in `authentication.json` that does not fit the registration at the provider."""

    outcome = LoginFailure.PROVIDER_MISCONFIGURED


class ProviderDenied(ProviderFailure):
    """A sign-in that the player declined, or that the provider denied to this player."""

    outcome = LoginFailure.PROVIDER_DENIED


class ServerClockSkew(ProviderFailure):
    """A token that is valid by the provider's clock, but not by this machine's."""

    outcome = LoginFailure.SERVER_CLOCK_SKEW


@redacts("namespace")
class IdentityNamespace(Struct, frozen=True):
    """The part of an identity that is the same for all accounts of a provider, whatever its name in the file."""

    kind: str
    """`oidc`, `oauth2` or `openid2`."""
    namespace: str
    """The validated issuer, the namespace of an OAuth 2.0 provider, or what all claimed ids of an OpenID 2.0 provider
    begin with; the subject is unique in it.
    """

    def namespace_index(self, indexer: Indexer) -> Index:
        """Return the index that all identities of this namespace have in auth.db."""
        return indexer.index(Purpose.IDENTITY, self.kind.encode(), self.namespace.encode())


@redacts("subject")
class ExternalIdentity(IdentityNamespace, frozen=True):
    """An account at a provider, independent of the provider's name in authentication.json."""

    subject: str
    of_all: str | None = None
    """The namespace of all tenants of a provider, by which auth.db knows that the provider is configured."""
    asked_again: bool = False
    """The provider has proved that it asked the player to sign in, and did not answer for an open session there."""

    def index(self, indexer: Indexer) -> Index:
        """Return the index under which auth.db stores this identity (SPEC 2.2)."""
        return indexer.index(Purpose.IDENTITY, self.kind.encode(), self.namespace.encode(), self.subject.encode())

    def namespace_index(self, indexer: Indexer) -> Index:
        """Return the index of the namespace, with tenants of that of all."""
        return indexer.index(Purpose.IDENTITY, self.kind.encode(), (self.of_all or self.namespace).encode())


@redacts("state", "challenge", "nonce")
class AuthorizationRequest(Struct, frozen=True):
    """The parameters of one authorization request."""

    state: str
    challenge: str
    """The code challenge of the PKCE verifier, by S256 (RFC 7636 4.2)."""
    nonce: str | None
    """None for a provider whose `uses_nonce` is False."""
    redirect_uri: str
    ask_again: bool = False
    """The provider should ask the player to sign in, even one who is signed in there."""


@redacts("url")
class AuthorizationUrl(Struct, frozen=True):
    """The URL to which the browser is redirected."""

    url: str
    iss_promised: bool
    """True if the provider announces that its callback always has `iss` (RFC 9207 3)."""


class IdentityProvider(Protocol):
    """An enabled provider of any protocol."""

    @property
    def name(self) -> str:
        """Return the name in `/auth/config` and in the callback's path."""

    @property
    def label(self) -> str:
        """Return the name to show to a person."""

    @property
    def uses_nonce(self) -> bool:
        """Return whether an authorization request needs a nonce."""

    @property
    def uses_assertion(self) -> bool:
        """Return whether the callback has a signed assertion in the place of a code (OpenID 2.0)."""

    def issuer_for(self, iss: str | None) -> str | None:
        """Return the issuer that this `iss` of a callback must equal byte for byte, or None for OAuth 2.0.

        Where each tenant has an issuer, that of any tenant is right; the ID token says which one signed in.
        """

    def require_available(self) -> None:
        """Raise ProviderUnavailable while the circuit breaker is open."""

    def authorization_url(self, request: AuthorizationRequest) -> Awaitable[AuthorizationUrl]:
        """Return the authorization URL, for which metadata may be fetched; raise ProviderFailure."""

    def identify(
        self,
        code: Secret,
        verifier: Secret,
        nonce: str | None,
        redirect_uri: str,
        login_id: str,
        *,
        asked_ms: int | None = None,
    ) -> Awaitable[ExternalIdentity]:
        """Exchange the code or assertion of the login `login_id` and return the account; raise ProviderFailure.

        The code is sent once, and the call ends within 10 s. `asked_ms` is when the browser was redirected, if the
        provider should have asked again.
        """
