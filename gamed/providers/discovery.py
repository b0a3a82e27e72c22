"""The metadata of an OpenID provider is validated against the configured issuer (OIDC Discovery 1.0 3, 4).

The namespace of a provider's subjects follows from the configuration alone (SPEC 2.2: identity indexes).
"""

from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from re import ASCII, compile
from urllib.parse import SplitResult, urljoin, urlsplit

from msgspec import Struct

from gamed.config.model import Provider, ProviderProtocol
from gamed.crypto import Index, Indexer
from gamed.providers.base import ExternalIdentity, IdentityNamespace, ProviderError, ProviderMisconfigured

LOOPBACK = {"localhost", "127.0.0.1", "::1"}
_URL = compile(r"[!-~]{1,2048}", ASCII)
_GUID = compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", ASCII)


class Metadata(Struct, frozen=True):
    """The validated members of a discovery document that are used."""

    issuer: str
    """The configured issuer, or with tenants that of one tenant or the template of all."""
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    algorithms: frozenset[str]
    """The algorithms of ID tokens that the provider offers and this server accepts."""
    basic_auth: bool
    """True for client_secret_basic, False for client_secret_post."""
    iss_promised: bool
    auth_time: bool
    """ID tokens have `auth_time` if `max_age` is sent."""
    cloud: str | None = None
    """Microsoft's `cloud_instance_name`: a key of another of its clouds is for no token of this one."""


def metadata_url(issuer: str) -> str:
    """Return the URL of an issuer's discovery document (OIDC Discovery 1.0 4.1)."""
    return issuer.removesuffix("/") + "/.well-known/openid-configuration"


def validate_metadata(
    document: Mapping[str, object], issuer: str, accepted: tuple[str, ...], *, tenants: Mapping[str, str] = {}
) -> Metadata:
    """Return the metadata or raise ProviderFailure; `accepted` are the algorithms that this server accepts.

    `tenants` are those of the preset (see gamed.config.model.Preset).
    """
    found = document.get("issuer")
    if not isinstance(found, str) or not (_is_of_tenants(found, issuer, tenants) if tenants else found == issuer):
        raise ProviderMisconfigured(
            "discovery: the document is of another issuer; compare issuer in authentication.json exactly, "
            "including a slash at its end"
        )
    # A list that is missing refuses nothing: Microsoft's document has no code_challenge_methods_supported, though its
    # endpoints know PKCE. A list that is there counts.
    _offers(document, "code_challenge_methods_supported", ("S256",), "PKCE with S256")
    _offers(document, "response_types_supported", ("code",), "the authorization code flow")
    signed = _offers(document, "id_token_signing_alg_values_supported", accepted, " or ".join(accepted))
    return Metadata(
        issuer=found,
        authorization_endpoint=_endpoint(document, "authorization_endpoint", issuer),
        token_endpoint=_endpoint(document, "token_endpoint", issuer),
        jwks_uri=_endpoint(document, "jwks_uri", issuer),
        algorithms=frozenset(signed or accepted[:1]),
        basic_auth=_uses_basic(document),
        iss_promised=document.get("authorization_response_iss_parameter_supported") is True,
        auth_time="auth_time" in (_string_list(document, "claims_supported") or ()),
        cloud=text_of(document, "cloud_instance_name"),
    )


def known_metadata(settings: Provider) -> Metadata | None:
    """Return the metadata that the preset has for its own issuer; None where they are fetched."""
    preset = settings.preset
    if not preset.metadata or settings.issuer != preset.issuer:
        return None
    return validate_metadata(preset.metadata, preset.issuer or "", preset.algorithms)


_PLACEHOLDER = "{tenantid}"


def tenant_template(issuer: str) -> str:
    """Return the template of the tenants' issuers, from an issuer such as `https://host/consumers/v2.0`.

    It is `https://host/{tenantid}/v2.0`, where each tenant's issuer has its GUID (Microsoft: Access tokens, Validate
    the issuer).
    """
    head, _, version = issuer.rpartition("/")
    return f"{head.rpartition('/')[0]}/{_PLACEHOLDER}/{version}"


def tenant_of(issuer: object, template: str) -> str | None:
    """Return the GUID of the tenant whose issuer this is, or None for anything else."""
    before, _, after = template.partition(_PLACEHOLDER)
    if not isinstance(issuer, str) or not (issuer.startswith(before) and issuer.endswith(after)):
        return None
    tenant = issuer[len(before) : len(issuer) - len(after)]
    return tenant if _GUID.fullmatch(tenant) else None


def _is_of_tenants(found: str, issuer: str, tenants: Mapping[str, str]) -> bool:
    """Return whether a document's issuer is that of the configured tenants, which a domain does not name exactly.

    A document of other tenants would let in people whom the owner's file keeps out.
    """
    template, configured = tenant_template(issuer), issuer.split("/")[-2].lower()
    expected = tenants.get(configured, configured)
    if expected == _PLACEHOLDER or _GUID.fullmatch(expected):
        return found == template.replace(_PLACEHOLDER, expected)
    return tenant_of(found, template) is not None


def is_loopback(url: str) -> bool:
    """Return whether the host of a URL is a name or address of this machine."""
    return urlsplit(url).hostname in LOOPBACK


def origin(url: str) -> str:
    """Return the origin of a URL: scheme, host in lower case, and a port that is not the default (RFC 6454 6.1)."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    port = "" if parts.port in (None, {"https": 443, "http": 80}[parts.scheme]) else f":{parts.port}"
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}{port}"


def _uses_basic(document: Mapping[str, object]) -> bool:
    """Return whether to authenticate by HTTP Basic, the default of RFC 6749 2.3.1, unless only the form is offered."""
    methods = _string_list(document, "token_endpoint_auth_methods_supported") or ()
    return "client_secret_basic" in methods or "client_secret_post" not in methods


def _offers(document: Mapping[str, object], name: str, wanted: tuple[str, ...], description: str) -> tuple[str, ...]:
    """Return which of `wanted` a list contains, () if the list is missing; raise ProviderMisconfigured for none."""
    listed = _string_list(document, name)
    if listed is None:
        return ()
    found = tuple(item for item in wanted if item in listed)
    if not found:
        raise ProviderMisconfigured(f"discovery: this provider does not offer {description} ({name})")
    return found


def text_of(document: Mapping[str, object], name: str) -> str | None:
    """Return a member that is text, else None."""
    value = document.get(name)
    return value if isinstance(value, str) else None


def _string_list(document: Mapping[str, object], name: str) -> list[str] | None:
    listed = document.get(name)
    if listed is not None and not (isinstance(listed, list) and all(isinstance(item, str) for item in listed)):
        raise ProviderError(f"discovery: {name} is not a list of strings")
    return listed


def _endpoint(document: Mapping[str, object], name: str, issuer: str) -> str:
    """Return an https URL; allow http and loopback only for an issuer that is itself on loopback."""
    url = document.get(name)
    parts = _split(url)
    if not isinstance(url, str) or parts is None:
        raise ProviderError(f"discovery: {name} is not a usable URL")
    # A document of the internet must not make this server send its client secret to a port of its own machine.
    local = is_loopback(issuer)
    if not local and _names_loopback(parts.hostname or ""):
        raise ProviderError(f"discovery: {name} leads to this machine")
    plain = local and parts.hostname in LOOPBACK and issuer.startswith("http:")
    if parts.scheme != "https" and not (plain and parts.scheme == "http"):
        raise ProviderError(f"discovery: {name} is not https")
    return url


def _names_loopback(host: str) -> bool:
    try:
        ip = ip_address(host)
    except ValueError:
        return host.rstrip(".").rpartition(".")[2] == "localhost"
    # An IPv4 address inside IPv6 has no reason but to get past such a check, whatever it is.
    return ip.is_loopback or ip.is_unspecified or getattr(ip, "ipv4_mapped", None) is not None


def _split(url: object) -> SplitResult | None:
    """Split a URL that has a host, and neither user, fragment, backslash nor white space; return None for others."""
    if not isinstance(url, str) or not _URL.fullmatch(url) or "\\" in url or "#" in url:
        return None
    try:
        parts = urlsplit(url)
        usable = parts.hostname and parts.port != 0 and "@" not in parts.netloc
    except ValueError:
        return None
    return parts if usable else None


def identity_namespace(settings: Provider) -> IdentityNamespace:
    """Return the namespace of a provider's identities; with tenants that of all, as each has one of its own."""
    if settings.protocol is ProviderProtocol.OPENID2:
        return IdentityNamespace("openid2", urljoin(settings.authorization_endpoint or "", settings.preset.claimed_ids))
    if settings.preset.tenants:
        return IdentityNamespace("oidc", tenant_template(settings.issuer or ""))
    if settings.protocol is ProviderProtocol.OIDC:
        return IdentityNamespace("oidc", settings.issuer or "")
    return IdentityNamespace("oauth2", settings.identity_namespace or origin(settings.userinfo_endpoint or ""))


def identity_of(settings: Provider, subject: str) -> ExternalIdentity:
    """Return the identity of an account; with tenants the subject is `TENANT/NUMBER`.

    A tenant's issuer is the namespace (SPEC 2.2), so that an account is the same player whichever tenants the
    configuration lets in, and was the same when this issuer was configured without the preset.
    """
    realm = identity_namespace(settings)
    if not settings.preset.tenants:
        return ExternalIdentity(realm.kind, realm.namespace, subject)
    tenant, _, number = subject.partition("/")
    issuer = realm.namespace.replace(_PLACEHOLDER, tenant)
    return ExternalIdentity(realm.kind, issuer, number, of_all=realm.namespace)


def namespace_indexes(indexer: Indexer, providers: Iterable[Provider]) -> frozenset[Index]:
    """Return the indexes of the namespaces in which a configured provider has identities."""
    found = set()
    for settings in providers:
        found.add(identity_namespace(settings).namespace_index(indexer))
        if settings.preset.tenants:  # accounts from before the preset, where the issuer is that of one tenant
            found.add(IdentityNamespace("oidc", settings.issuer or "").namespace_index(indexer))
    return frozenset(found)
