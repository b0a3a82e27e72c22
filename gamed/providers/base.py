"""What a provider is to the rest of the house: a place to send a browser, and who came back (PROTOCOL 3.2, 3.3).

Which member of an account is the player: stable, never empty, never an error in disguise (SPEC 2.2).
"""

from collections.abc import Awaitable, Mapping
from re import ASCII, compile
from typing import ClassVar, Protocol

from msgspec import Struct

from gamed.crypto import Index, Indexer, Purpose, Secret
from gamed.outcomes import LoginFailure
from gamed.structs import redacts


class ProviderFailure(Exception):
    """No identity, and why.

    `outcome` is for player and client. `str` is the cause for the owner's log: what to fix, in our own words. It holds
    numbers, names of settings and registered error codes, never a secret, code, token, subject or the provider's text.
    """

    outcome: ClassVar[LoginFailure] = LoginFailure.PROVIDER_ERROR


class ProviderError(ProviderFailure):
    """The provider answered something that cannot be used."""


class ProviderUnavailable(ProviderFailure):
    """The provider does not answer, says that it cannot, or is left alone for a while; `retry_after` in seconds."""

    outcome = LoginFailure.PROVIDER_UNAVAILABLE

    def __init__(self, cause: str, retry_after: int | None = None) -> None:
        super().__init__(cause)
        self.retry_after = retry_after


class ProviderMisconfigured(ProviderFailure):
    """What the owner registered at the provider and what `authentication.json` says do not fit."""

    outcome = LoginFailure.PROVIDER_MISCONFIGURED


class ProviderDenied(ProviderFailure):
    """The provider refused this player, not this server."""

    outcome = LoginFailure.PROVIDER_DENIED


class ServerClockSkew(ProviderFailure):
    """A token that is in time by the provider's clock, but not by this machine's."""

    outcome = LoginFailure.SERVER_CLOCK_SKEW


@redacts("subject")
class ExternalIdentity(Struct, frozen=True):
    """One account at one provider, whatever the provider is called in the file."""

    kind: str
    """`oidc` or `oauth2`."""
    namespace: str
    """Who gave the subject: the validated issuer, or the namespace of an OAuth 2.0 provider."""
    subject: str

    def index(self, indexer: Indexer) -> Index:
        """What this identity is found by (SPEC 2.2)."""
        return indexer.index(Purpose.IDENTITY, *(part.encode() for part in (self.kind, self.namespace, self.subject)))


@redacts("state", "challenge", "nonce")
class AuthorizationRequest(Struct, frozen=True):
    """What one attempt carries to the provider."""

    state: str
    challenge: str
    """Of the PKCE verifier, by S256 (RFC 7636 4.2)."""
    nonce: str | None
    """None where the provider `uses_nonce` is False."""
    redirect_uri: str


@redacts("url")
class AuthorizationUrl(Struct, frozen=True):
    """Where to send the browser."""

    url: str
    iss_promised: bool
    """Whether the provider says that its callback always has `iss` (RFC 9207 3)."""


class IdentityProvider(Protocol):
    """One enabled provider, by any protocol."""

    @property
    def name(self) -> str:
        """As in `/auth/config` and the callback's path."""

    @property
    def label(self) -> str:
        """For people."""

    @property
    def uses_nonce(self) -> bool:
        """Whether a journey needs a nonce."""

    @property
    def issuer(self) -> str | None:
        """What a callback's `iss` must equal byte for byte; None: this provider has no issuer."""

    def require_available(self) -> None:
        """ProviderUnavailable while it is not worth sending a player there."""

    def authorization_url(self, journey: AuthorizationRequest) -> Awaitable[AuthorizationUrl]:
        """Where this attempt goes; may ask the provider for its metadata. Raises ProviderFailure."""

    def identify(
        self, code: Secret, verifier: Secret, nonce: str | None, redirect_uri: str, login_id: str
    ) -> Awaitable[ExternalIdentity]:
        """Return the account that gave this code to the login `login_id`; raise ProviderFailure.

        Send the code once, and end within 10 s.
        """


MAX_LENGTH = 255
MAX_NUMBER = 2**64
_SNOWFLAKE = compile(r"[0-9]{1,20}", ASCII)
_OPENID = compile(r"[!-~](?:[ -~]{0,253}[!-~])?", ASCII)


def parse_discord_id(value: object) -> str:
    """Discord's `id`: 1 to 20 digits, as text."""
    if not isinstance(value, str) or not _SNOWFLAKE.fullmatch(value):
        raise ProviderError("userinfo_endpoint: id is not text of 1 to 20 digits")
    return value


def openid_subject(value: object) -> str:
    """`sub` of an ID token: 1 to 255 ASCII characters, none of them a control character (OIDC Core 2)."""
    if not isinstance(value, str) or not _OPENID.fullmatch(value):
        raise ProviderError("ID token: sub is not 1 to 255 ASCII characters")
    return value


def account_subject(account: Mapping[str, object], name: str) -> str:
    """The member `name` of any other provider's account.

    Text of 1 to 255 visible characters, taken as it is; or a whole number from 1, which is the same subject as its
    decimal text, so that a provider that changes from numbers to text changes nobody's identity.
    """
    value = account.get(name)
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value < MAX_NUMBER:
        return str(value)
    if isinstance(value, str) and 0 < len(value) <= MAX_LENGTH and value.isprintable() and value == value.strip():
        return value
    raise ProviderError("userinfo_endpoint: the member that subject_field names is no text or number that can be used")
