"""The metadata of an OpenID provider, believed only as far as it fits the file's issuer (OIDC Discovery 1.0 3, 4).

Where a provider's subjects are unique, told from the owner's file alone (SPEC 2.2: identity indexes).
"""

from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from re import ASCII, compile
from urllib.parse import SplitResult, urlsplit

from msgspec import Struct

from gamed.config.model import Provider, ProviderProtocol
from gamed.crypto import Index, Indexer, Purpose
from gamed.providers.base import ExternalIdentity, ProviderError, ProviderMisconfigured
from gamed.structs import redacts

GOOGLE = "https://accounts.google.com"
GOOGLE_SHORT = "accounts.google.com"
"""What Google's ID tokens may also say; its callback and its metadata never do."""
ALGORITHMS = ("RS256", "ES256")
PRESET_ALGORITHMS = ("RS256",)
LOOPBACK = {"localhost", "127.0.0.1", "::1"}
_URL = compile(r"[!-~]{1,2048}", ASCII)


class Metadata(Struct, frozen=True):
    """What is used of the document."""

    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    algorithms: frozenset[str]
    """Of ID tokens: what the provider offers and we accept."""
    basic: bool
    """client_secret_basic; otherwise client_secret_post."""
    iss_promised: bool


def metadata_url(issuer: str) -> str:
    """Where an issuer keeps its document (OIDC Discovery 1.0 4.1)."""
    return issuer.removesuffix("/") + "/.well-known/openid-configuration"


def accepted_issuers(issuer: str) -> frozenset[str]:
    """What `iss` of an ID token may be; Google's two spellings are one issuer."""
    return frozenset({issuer, GOOGLE_SHORT} if issuer == GOOGLE else {issuer})


def validate_metadata(document: Mapping[str, object], issuer: str, accepted: tuple[str, ...]) -> Metadata:
    """The metadata, or ProviderFailure; `accepted` are the algorithms taken from this provider."""
    if document.get("issuer") != issuer:
        raise ProviderMisconfigured(
            "discovery: the document is of another issuer; compare issuer in authentication.json to the letter, "
            "also a slash at its end"
        )
    _offers(document, "code_challenge_methods_supported", ("S256",), "PKCE with S256")
    _offers(document, "response_types_supported", ("code",), "the authorization code flow")
    signed = _offers(document, "id_token_signing_alg_values_supported", accepted, " or ".join(accepted))
    return Metadata(
        authorization_endpoint=_endpoint(document, "authorization_endpoint", issuer),
        token_endpoint=_endpoint(document, "token_endpoint", issuer),
        jwks_uri=_endpoint(document, "jwks_uri", issuer),
        algorithms=frozenset(signed or accepted[:1]),
        basic=_basic(document),
        iss_promised=document.get("authorization_response_iss_parameter_supported") is True,
    )


def is_loopback(url: str) -> bool:
    """Whether a URL leads to this machine."""
    return urlsplit(url).hostname in LOOPBACK


def origin(url: str) -> str:
    """Scheme, host in small letters, port unless it is the scheme's own (RFC 6454 6.1)."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    port = "" if parts.port in (None, {"https": 443, "http": 80}[parts.scheme]) else f":{parts.port}"
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}{port}"


def _basic(document: Mapping[str, object]) -> bool:
    """HTTP Basic unless only the form is offered; whoever lists neither is asked by the default of RFC 6749 2.3.1."""
    methods = _words(document, "token_endpoint_auth_methods_supported") or ()
    return "client_secret_basic" in methods or "client_secret_post" not in methods


def _offers(document: Mapping[str, object], name: str, wanted: tuple[str, ...], words: str) -> tuple[str, ...]:
    """Which of `wanted` a list holds; () if the provider does not say. A list with none of them ends it."""
    listed = _words(document, name)
    if listed is None:
        return ()
    found = tuple(item for item in wanted if item in listed)
    if not found:
        raise ProviderMisconfigured(f"discovery: this provider does not offer {words} ({name})")
    return found


def _words(document: Mapping[str, object], name: str) -> list[str] | None:
    listed = document.get(name)
    if listed is not None and not (isinstance(listed, list) and all(isinstance(item, str) for item in listed)):
        raise ProviderError(f"discovery: {name} is not a list of words")
    return listed


def _endpoint(document: Mapping[str, object], name: str, issuer: str) -> str:
    """https; http and this machine only for an issuer that is itself there."""
    url = document.get(name)
    parts = _split(url)
    if not isinstance(url, str) or parts is None:
        raise ProviderError(f"discovery: {name} is no usable address")
    home = is_loopback(issuer)
    if not home and _leads_here(parts.hostname or ""):
        raise ProviderError(f"discovery: {name} leads to this machine")
    plain = home and parts.hostname in LOOPBACK and issuer.startswith("http:")
    if parts.scheme != "https" and not (plain and parts.scheme == "http"):
        raise ProviderError(f"discovery: {name} is not https")
    return url


def _leads_here(host: str) -> bool:
    """By any of the names and numbers that loopback has."""
    try:
        ip = ip_address(host)
    except ValueError:
        return host.rstrip(".").rpartition(".")[2] == "localhost"
    return ip.is_loopback or ip.is_unspecified or getattr(ip, "ipv4_mapped", None) is not None


def _split(url: object) -> SplitResult | None:
    """The parts of a URL with a host and without user, fragment, backslash and white space."""
    if not isinstance(url, str) or not _URL.fullmatch(url) or "\\" in url or "#" in url:
        return None
    try:
        parts = urlsplit(url)
        usable = parts.hostname and parts.port != 0 and "@" not in parts.netloc
    except ValueError:
        return None
    return parts if usable else None


@redacts("namespace")
class IdentityNamespace(Struct, frozen=True):
    """An issuer, or the namespace of an OAuth 2.0 provider; the name in the file is no part of it."""

    kind: str
    namespace: str

    @classmethod
    def of(cls, settings: Provider) -> "IdentityNamespace":
        if settings.protocol is ProviderProtocol.OIDC:
            return cls("oidc", settings.issuer or "")
        return cls("oauth2", settings.identity_namespace or origin(settings.userinfo_endpoint or ""))

    @classmethod
    def where(cls, identity: ExternalIdentity) -> "IdentityNamespace":
        return cls(identity.kind, identity.namespace)

    def index(self, indexer: Indexer) -> Index:
        """What all identities of this realm have in common in `auth.db`."""
        return indexer.index(Purpose.IDENTITY, self.kind.encode(), self.namespace.encode())


def namespace_indexes(indexer: Indexer, providers: Iterable[Provider]) -> frozenset[Index]:
    """Of every provider that is configured."""
    return frozenset(IdentityNamespace.of(settings).index(indexer) for settings in providers)
