"""The member `providers` configures presets and any other OAuth 2.0 or OpenID Connect provider (SPEC 2.1, 5)."""

from collections.abc import Callable
from re import ASCII, compile
from urllib.parse import urlsplit

from gamed.config.errors import InvalidValue
from gamed.config.json_reader import ObjectReader
from gamed.config.model import Preset, Provider, ProviderProtocol, Reauthentication, SubjectForm
from gamed.config.secrets import SecretSources, client_secret, signing_key, variable_name
from gamed.config.validators import choice, field_name, parse_public_url, plain_text, printable_text, scope
from gamed.crypto import Secret

ENDPOINTS = ("authorization_endpoint", "token_endpoint", "userinfo_endpoint")
OAUTH2_NEEDS = (*ENDPOINTS, "subject_field")
OAUTH2_ONLY = (*OAUTH2_NEEDS, "identity_namespace")
LISTED = ", ".join(ENDPOINTS) + " and subject_field"
SIGNED_ONLY = ("team_id", "key_id")
OPENID2_MEMBERS = ("label", "authorization_endpoint")
MEMBERS = (
    "client_id",
    "client_secret_env",
    "label",
    "scopes",
    "issuer",
    "reauthentication",
    *OAUTH2_ONLY,
    *SIGNED_ONLY,
)
NEVER_HERE = (
    "the {what} itself is never written to this file: put it into an environment variable and name that in {member}"
)
HINTS = {"client_secret": NEVER_HERE.format(what="secret", member="client_secret_env")}
_PATHS = "login session sessions identities config player account errors providers invite reset owner"
RESERVED = frozenset(_PATHS.split()) | {"local", "passkey"}
"""Names of other paths below /auth/, and the values of `provider` for passwords and passkeys."""
LOCAL = ("localhost", "127.0.0.1", "::1")
_NAME = compile(r"[a-z][a-z0-9-]{0,31}", ASCII)
_URL = compile(r"[!-~]{1,2048}", ASCII)
_SHORT_ID = compile(r"[A-Z0-9]{10}", ASCII)


DISCORD = Preset(
    ProviderProtocol.OAUTH2,
    "Discord",
    ("identify",),
    # By `prompt` the player sees at the provider which account signs in: browsers are shared, too.
    authorization_parameters={"prompt": "consent"},
    endpoints={
        "authorization_endpoint": "https://discord.com/oauth2/authorize",
        "token_endpoint": "https://discord.com/api/v10/oauth2/token",
        "userinfo_endpoint": "https://discord.com/api/v10/users/@me",
    },
    subject_field="id",
    subject_form=SubjectForm.DIGITS,  # 64 bits, sent as text; a number would have passed through a double
    user_agent="DiscordBot ({public_url}, {version})",  # it rejects requests with another form
)
GOOGLE = Preset(
    ProviderProtocol.OIDC,
    "Google",
    ("openid",),
    "https://accounts.google.com",
    fixed_scopes=True,
    authorization_parameters={"prompt": "select_account"},
    other_issuers=("accounts.google.com",),
    algorithms=("RS256",),
)
GITHUB = Preset(
    ProviderProtocol.OAUTH2,
    "GitHub",
    # Without a scope GitHub shows what is public, and the account's number is. Its documentation has no other `prompt`
    # than select_account (GitHub: Authorizing OAuth apps), so that it cannot be asked again.
    fixed_scopes=True,
    authorization_parameters={"prompt": "select_account"},
    endpoints={
        "authorization_endpoint": "https://github.com/login/oauth/authorize",
        "token_endpoint": "https://github.com/login/oauth/access_token",
        "userinfo_endpoint": "https://api.github.com/user",
    },
    subject_field="id",  # `login` can be renamed, and another person may have the old name afterwards
    subject_form=SubjectForm.NUMBER,
    secret_in_form=True,
)
TWITCH = Preset(
    ProviderProtocol.OIDC,
    "Twitch",
    ("openid",),
    "https://id.twitch.tv/oauth2",
    fixed_scopes=True,
    # By `force_verify` the player sees at the provider which account signs in; Twitch documents neither `prompt` nor
    # `max_age`, and its metadata have no auth_time (Twitch: Getting OIDC tokens), so that it cannot be asked again.
    authorization_parameters={"force_verify": "true"},
    algorithms=("RS256",),
    client_refusals={403: "", 400: "invalid client"},  # a wrong secret, and an unknown client
)
MICROSOFT = Preset(
    ProviderProtocol.OIDC,
    "Microsoft",
    ("openid",),
    "https://login.microsoftonline.com/consumers/v2.0",  # personal accounts, those of Xbox and Minecraft
    fixed_scopes=True,
    authorization_parameters={"prompt": "select_account"},
    tenants={
        "consumers": "9188040d-6c67-4c5b-b112-36a304b66dad",
        "common": "{tenantid}",
        "organizations": "{tenantid}",
    },
    algorithms=("RS256",),
    # `prompt=login` asks for the password (Microsoft: OpenID Connect on the identity platform). auth_time is not among
    # the claims of its ID tokens; an owner would have to add it in the console.
    reauthentication=Reauthentication.PROMPT,
)
APPLE = Preset(
    ProviderProtocol.OIDC,
    "Apple",
    # With `name` or `email` Apple answers by a POST of its own page, without the cookie of the browser's attempt. It
    # documents neither `prompt` nor `max_age` (Apple: Request an authorization), so that it cannot be asked again.
    ("openid",),
    "https://appleid.apple.com",
    # Apple documents these three, and no discovery document: the one that is there named another issuer in June 2025.
    metadata={
        "issuer": "https://appleid.apple.com",
        "authorization_endpoint": "https://appleid.apple.com/auth/authorize",
        "token_endpoint": "https://appleid.apple.com/auth/token",
        "jwks_uri": "https://appleid.apple.com/auth/keys",
        "token_endpoint_auth_methods_supported": ["client_secret_post"],
    },
    fixed_scopes=True,
    authorization_parameters={"response_mode": "query"},
    algorithms=("RS256",),
    signs_secret=True,
    needs_domain=True,
)
STEAM = Preset(
    ProviderProtocol.OPENID2,
    "Steam",
    fixed_scopes=True,
    # OpenID 2.0 itself has no way to ask again; Steam has not announced the extension that adds one.
    endpoints={"authorization_endpoint": "https://steamcommunity.com/openid/login"},
    claimed_ids="id/",
)
OPENID = Preset(ProviderProtocol.OIDC, scopes=("openid",), reauthentication=Reauthentication.AUTH_TIME)
"""The settings of a provider that is known by its issuer alone."""
PRESETS = {
    "discord": DISCORD,
    "google": GOOGLE,
    "github": GITHUB,
    "twitch": TWITCH,
    "microsoft": MICROSOFT,
    "apple": APPLE,
    "steam": STEAM,
}


def parse_providers(
    section: ObjectReader, sources: SecretSources | None, public_url: str | None
) -> dict[str, Provider]:
    """Return the complete providers in the order of the file; without `sources` their secrets are empty."""
    found = {}
    for name in section.members:
        if not _NAME.fullmatch(name) or name in RESERVED:
            reserved = " and none of " + ", ".join(sorted(RESERVED)) if name in RESERVED else ""
            section.problem(name, f"expected a name of small letters, digits and hyphens{reserved}")
        elif (provider := _provider(name, section.section(name), sources)) is not None:
            found[name] = provider
            _check_domain(section, provider, public_url)
    return found


def accepted_issuers(issuer: str) -> frozenset[str]:
    """Return the values that `iss` of an ID token may have: a preset's, whatever name the file gives to its issuer."""
    return frozenset({issuer}).union(*(each.other_issuers for each in PRESETS.values() if each.issuer == issuer))


def secret_names(section: ObjectReader) -> list[str]:
    """Return the well-formed names of the variables that contain client secrets."""
    named = (section.section(name).value("client_secret_env", variable_name, None) for name in section.members)
    return [name for name in named if name is not None]


def _provider(name: str, section: ObjectReader, sources: SecretSources | None) -> Provider | None:
    section.reject_unknown(MEMBERS, HINTS)
    preset = _preset(name, section)
    if preset is not None and preset.protocol is ProviderProtocol.OPENID2:
        return _openid2_provider(name, section, preset)
    client_id = section.required("client_id", printable_text(256))
    convert = signing_key if preset is not None and preset.signs_secret else client_secret
    secret = _secret(section, sources, convert)
    if preset is None:
        return None
    signed = {member: _signed(section, member, preset) for member in SIGNED_ONLY}
    issuer = section.value("issuer", _issuer, preset.issuer)
    if preset.tenants and issuer is not None and not _names_tenants(issuer):
        section.problem("issuer", f'expected an issuer such as "{preset.issuer}", or with another tenant in it')
    own = {endpoint: section.value(endpoint, _endpoint, None) for endpoint in ENDPOINTS}
    provider = Provider(
        name=name,
        preset=preset,
        client_id=client_id or "",
        client_secret=secret or Secret(b""),
        label=section.value("label", plain_text(32), preset.label) or name,
        scopes=_scopes(section, preset),
        issuer=issuer,
        **{endpoint: url or preset.endpoints.get(endpoint) for endpoint, url in own.items()},
        subject_field=_subject_field(section, preset),
        identity_namespace=section.value("identity_namespace", printable_text(255), None),
        **signed,
        reauthentication=_reauthentication(section, preset, issuer),
    )
    return provider if client_id and (secret or sources is None) else None


def _openid2_provider(name: str, section: ObjectReader, preset: Preset) -> Provider:
    """Return a provider without a registration; only its label and, for an emulation, its endpoint can be set.

    The endpoint is a part of each identity: with another one all players would be new ones.
    """
    for member in (member for member in MEMBERS if member in section and member not in OPENID2_MEMBERS):
        section.problem(member, "not for OpenID 2.0, where nothing is registered; leave it out")
    endpoint = section.value("authorization_endpoint", _endpoint, preset.endpoints["authorization_endpoint"])
    if endpoint not in (None, *preset.endpoints.values()) and urlsplit(endpoint).hostname not in LOCAL:
        section.problem("authorization_endpoint", f"only for a test of {preset.label} on this machine; leave it out")
    return Provider(
        name=name,
        preset=preset,
        client_id="",
        client_secret=Secret(b""),
        label=section.value("label", plain_text(32), preset.label) or name,
        scopes=(),
        authorization_endpoint=endpoint,
    )


def _preset(name: str, section: ObjectReader) -> Preset | None:
    """Return the preset that applies, and add a problem for each contradicting or missing member."""
    own = [member for member in OAUTH2_ONLY if member in section]
    preset = PRESETS.get(name)
    if preset is None and "issuer" not in section:
        preset = Preset(ProviderProtocol.OAUTH2)
        if not own:
            section.problem((), f"needs issuer (OpenID Connect), or {LISTED} (OAuth 2.0)")
            return None
        for member in (member for member in OAUTH2_NEEDS if member not in section):
            section.problem(member, f"missing; an OAuth 2.0 provider needs {LISTED}")
    preset = preset or OPENID
    if preset.protocol is ProviderProtocol.OIDC:
        for member in own:
            section.problem(member, "not for OpenID Connect, where the issuer defines it; leave it out")
    elif preset.protocol is ProviderProtocol.OAUTH2:
        for member in (member for member in ("issuer", "reauthentication") if member in section):
            section.problem(member, "not for OAuth 2.0; leave it out")
        # Else one server's codes, and the client secret of another, would go to an endpoint of the preset's.
        if preset.endpoints and any(endpoint in section for endpoint in ENDPOINTS):
            for member in (endpoint for endpoint in ENDPOINTS if endpoint not in section):
                section.problem(member, f"missing; set all of {', '.join(ENDPOINTS)}, or none")
    return preset


def _scopes(section: ObjectReader, preset: Preset) -> tuple[str, ...]:
    scopes = section.items("scopes", scope, preset.scopes)
    if preset.fixed_scopes and scopes != preset.scopes:
        only = f'only "{" ".join(preset.scopes)}"' if preset.scopes else "no scope"
        section.problem("scopes", f"{only} is ever asked of this provider")
    elif preset.protocol is ProviderProtocol.OIDC and "openid" not in scopes:
        section.problem("scopes", 'must hold "openid"')
    return scopes


def _subject_field(section: ObjectReader, preset: Preset) -> str | None:
    """Return the member that identifies an account; a preset's has a form that no other member has."""
    found = section.value("subject_field", field_name, preset.subject_field)
    if preset.subject_field is not None and found not in (None, preset.subject_field):
        section.problem("subject_field", f'only "{preset.subject_field}" identifies an account here; leave it out')
    return found


def _reauthentication(section: ObjectReader, preset: Preset, issuer: str | None) -> Reauthentication | None:
    """Return how the provider asks again; a preset that ignores the request must not count as one that does."""
    found = section.value("reauthentication", choice(Reauthentication), None)
    known = preset.issuer is not None and issuer == preset.issuer  # another issuer may ask, whatever its entry's name
    if known and preset.reauthentication is Reauthentication.NONE and found not in (None, Reauthentication.NONE):
        section.problem("reauthentication", f"{preset.label} cannot be made to ask again; leave it out")
    return found


def _signed(section: ObjectReader, member: str, preset: Preset) -> str | None:
    """Return a member that only a preset needs that signs its client secrets."""
    if preset.signs_secret:
        return section.required(member, _short_id)
    if member in section:
        section.problem(member, "only for a provider whose client secret is signed with a key; leave it out")
    return None


def _short_id(value: object) -> str:
    if not isinstance(value, str) or not _SHORT_ID.fullmatch(value):
        raise InvalidValue('expected 10 capital letters and digits, such as "DEF123GHIJ"')
    return value


def _check_domain(section: ObjectReader, provider: Provider, public_url: str | None) -> None:
    """Add a problem if this provider's own console cannot have the redirect URI; an emulation takes any."""
    preset = provider.preset
    if not preset.needs_domain or provider.issuer != preset.issuer or public_url is None:
        return
    parts = urlsplit(public_url)
    if parts.scheme != "https" or not _is_domain(parts.hostname or ""):
        section.problem(provider.name, f"{preset.label} takes only a public_url with https and a domain name")


def _is_domain(host: str) -> bool:
    return "." in host and ":" not in host and not host.rpartition(".")[2].isdigit()


def _secret(section: ObjectReader, sources: SecretSources | None, convert: Callable[[bytes], Secret]) -> Secret | None:
    name = section.required("client_secret_env", variable_name)
    if name is None or sources is None:
        return None
    return section.value("client_secret_env", lambda _: sources.read(name, convert)[0], None)


def _endpoint(value: object) -> str:
    """Check that a value is an https URL, or an http URL on loopback, and return it unchanged."""
    try:
        if not isinstance(value, str) or not _URL.fullmatch(value) or "\\" in value or "#" in value:
            raise ValueError
        parts = urlsplit(value)
    except ValueError:
        raise InvalidValue('expected a URL such as "https://provider.example/oauth2/token"') from None
    parse_public_url(f"{parts.scheme}://{parts.netloc}")
    return value


def _names_tenants(issuer: str) -> bool:
    """Return whether an issuer ends with the tenants that may sign in, and the version: `/consumers/v2.0`."""
    *_, tenants, version = ("", *urlsplit(issuer).path.split("/"))
    return bool(tenants) and version == "v2.0"


def _issuer(value: object) -> str:
    """Check that a value is an https URL without query and fragment (OpenID Connect Discovery 3)."""
    wrong = ["expected an issuer without a query"] if isinstance(value, str) and "?" in value else []
    try:
        url = _endpoint(value)
    except InvalidValue as e:
        raise InvalidValue(*wrong, *e.messages) from None
    if wrong:
        raise InvalidValue(*wrong)
    return url
