"""The settings of a valid `authentication.json` (SPEC 2.1; docs/owners/configuration.md: Limits)."""

from collections.abc import Mapping
from enum import StrEnum
from ipaddress import IPv4Network, IPv6Network

from msgspec import Struct, field

from gamed.crypto import Secret
from gamed.structs import redacts

Network = IPv4Network | IPv6Network
LOOPBACK: tuple[Network, ...] = (IPv4Network("127.0.0.0/8"), IPv6Network("::1/128"))


class Mode(StrEnum):
    """The way in which players sign in: at OAuth providers, or with local accounts."""

    OAUTH = "oauth"
    LOCAL = "local"


class ReturnProofSetting(StrEnum):
    """The setting that requires a collect to prove that browser and client belong together.

    See docs/protocol.md: Collect.
    """

    REQUIRED = "required"
    OFF = "off"


class Registration(StrEnum):
    """The setting that decides how a new player is admitted."""

    OPEN = "open"
    APPROVAL = "approval"
    CLOSED = "closed"


class ProviderProtocol(StrEnum):
    """The protocol of a provider."""

    OAUTH2 = "oauth2"
    OIDC = "oidc"
    OPENID2 = "openid2"
    """OpenID Authentication 2.0: without a registration, a client id and a secret."""


class SubjectForm(StrEnum):
    """The form of the member of an OAuth 2.0 provider's account that identifies a player."""

    TEXT_OR_NUMBER = "text or number"
    """1 to 255 printable characters, or an integer from 1."""
    DIGITS = "digits"
    """Text of 1 to 20 digits."""
    NUMBER = "number"
    """An integer from 1; it is the same subject as its decimal text."""


class Reauthentication(StrEnum):
    """How a provider can be made to ask a player who is signed in there (OpenID Connect Core 3.1.2.1)."""

    AUTH_TIME = "auth_time"
    """By `max_age=0`; the ID token proves it by `auth_time`."""
    PROMPT = "prompt"
    """By `prompt=login`; nothing proves it, and the person at the browser can leave it out of the URL."""
    NONE = "none"


class Preset(Struct, frozen=True):
    """The settings of a known provider, or of all others of its protocol; the defaults are those of the others."""

    protocol: ProviderProtocol
    label: str | None = None
    scopes: tuple[str, ...] = ()
    issuer: str | None = None
    endpoints: Mapping[str, str] = {}
    metadata: Mapping[str, object] = {}
    """The discovery document of `issuer`, where the provider documents its endpoints instead of that document."""
    subject_field: str | None = None
    fixed_scopes: bool = False
    """True if the file may not change `scopes`."""
    authorization_parameters: Mapping[str, str] = {}
    """Parameters of the authorization URL beside those of the protocol."""
    other_issuers: tuple[str, ...] = ()
    """Further values of `iss` in ID tokens; the callback and the metadata always have `issuer`."""
    tenants: Mapping[str, str] = {}
    """The GUIDs by the names that `issuer` may have in their place, `{tenantid}` for a name of several tenants.

    Empty unless each tenant has an issuer of its own, with its GUID where `issuer` has the tenants that may sign in.
    """
    algorithms: tuple[str, ...] = ("RS256", "ES256")
    """Accepted for ID tokens; the first one if the metadata lists none."""
    subject_form: SubjectForm = SubjectForm.TEXT_OR_NUMBER
    claimed_ids: str = ""
    """OpenID 2.0: what all claimed ids begin with, as a reference relative to the endpoint (RFC 3986 5)."""
    signs_secret: bool = False
    """True if `client_secret_env` names a private key, which signs a client secret for each token request (ES256)."""
    client_refusals: Mapping[int, str] = {}
    """The token endpoint's statuses that refuse the client without an `error`, with their `message`, "" for any."""
    needs_domain: bool = False
    """True if its console takes only redirect URIs with https and a host name."""
    secret_in_form: bool = False
    """True if the token endpoint of OAuth 2.0 documents the client secret in the form only, not HTTP Basic."""
    reauthentication: Reauthentication = Reauthentication.NONE
    """AUTH_TIME is PROMPT at a provider whose metadata does not list the claim."""
    user_agent: str = "gamed/{version}"
    """A format of `public_url` and `version`."""


@redacts("client_secret")
class Provider(Struct, frozen=True):
    """An enabled provider with its preset applied; OpenID Connect sets `issuer`, OAuth 2.0 the endpoints.

    OpenID 2.0 sets `authorization_endpoint` alone; client id and secret are empty.
    """

    name: str
    preset: Preset
    """Only the fields that have no counterpart below apply as they are: the file may change the others."""
    client_id: str
    client_secret: Secret
    label: str
    scopes: tuple[str, ...]
    issuer: str | None = None
    authorization_endpoint: str | None = None
    token_endpoint: str | None = None
    userinfo_endpoint: str | None = None
    subject_field: str | None = None
    identity_namespace: str | None = None
    team_id: str | None = None
    key_id: str | None = None
    """Whose key signs the client secrets, and its name; only a preset that signs them has both."""
    reauthentication: Reauthentication | None = None
    """The owner's setting, which counts more than the preset and the provider's metadata."""

    @property
    def asks_again(self) -> bool:
        """Return whether the provider can be made to ask a player who is signed in there."""
        return (self.reauthentication or self.preset.reauthentication) is not Reauthentication.NONE

    @property
    def protocol(self) -> ProviderProtocol:
        return self.preset.protocol


class SessionLifetimes(Struct, frozen=True):
    """The lifetimes of credentials and logins in whole seconds."""

    access_seconds: int = 15 * 60
    refresh_seconds: int = 720 * 3600
    device_transaction_seconds: int = 10 * 60
    max_lifetime_seconds: int | None = None
    ticket_seconds: int = 60


class LoginSettings(Struct, frozen=True):
    """The members of `login`."""

    return_proof: ReturnProofSetting = ReturnProofSetting.REQUIRED
    registration: Registration = Registration.OPEN
    app_links: tuple[str, ...] = ()
    """The apps to which a sign-in may return: `com.example.game:` or `https://app.example.org`."""


class AuthLimits(Struct, frozen=True):
    """The members of `limits`; 0 disables a limit (docs/owners/configuration.md: Limits)."""

    starts_per_minute: int = 30
    live_logins_per_address: int = 40
    live_logins: int = 20000
    entries_per_minute: int = 60
    callbacks_per_minute: int = 60
    refreshes_per_minute: int = 60
    passwords_per_minute: int = 5
    connections: int = 20000
    tickets_per_minute: int = 30
    newcomers_per_day: int = 240


class Mark(Struct, frozen=True):
    """A picture that the pages show beside the server's name."""

    content_type: str
    content: bytes


class Look(Struct, frozen=True):
    """The owner's colour `#rrggbb` for buttons, their picture, and their words on the page of the server's address."""

    accent: str | None = None
    mark: Mark | None = None
    welcome: str | None = None
    contact: str | None = None
    """An https or mailto URL."""
    language: str | None = None
    """The language of pages for browsers that accept none of those there are."""


class NotifyFormat(StrEnum):
    """The form in which the receiver of messages to the owner expects them."""

    DISCORD = "discord"
    NTFY = "ntfy"
    SLACK = "slack"
    JSON = "json"


@redacts("url")
class Notify(Struct, frozen=True):
    """The webhook that gets messages for the owner; everyone who has its URL can write there."""

    url: Secret
    format: NotifyFormat
    names: bool = False
    """Whether messages have the names of players."""


@redacts("secret")
class TicketAudience(Struct, frozen=True):
    """Another server for which players get tickets, with the claims that the owner allows it."""

    name: bool = False
    """Whether a ticket has the display name."""
    owner: bool = False
    """Whether a ticket says if the player is this server's owner."""
    secret: Secret | None = None
    """With it the other server asks whether a ticket is valid; None if it verifies signatures itself."""


class Checkpoints(StrEnum):
    """The program that moves SQLite's write-ahead log into the database: gamed, or a tool that copies the log first."""

    OWN = "own"
    EXTERNAL = "external"


@redacts("password")
class PostgresqlAddress(Struct, frozen=True):
    """The address of a database on a PostgreSQL server."""

    conninfo: Mapping[str, str]
    """Keywords of libpq without a password; `host` and `port` are lists of the same length, separated by commas."""
    password: Secret | None = None
    """None if the server lets the user in by certificate or by the user of a unix socket."""

    @property
    def url(self) -> str:
        """Return the address for messages, as `postgresql://db.example.org/gamed`."""
        hosts, ports = (self.conninfo[name].split(",") for name in ("host", "port"))
        if any(host.startswith("/") for host in hosts):
            return f"postgresql:///{self.conninfo['dbname']}?host={','.join(hosts)}&port={','.join(ports)}"
        named = (f"[{host}]" if ":" in host else host for host in hosts)
        shown = (host if port == "5432" else f"{host}:{port}" for host, port in zip(named, ports, strict=True))
        return f"postgresql://{','.join(shown)}/{self.conninfo['dbname']}"


@redacts("master_key")
class Config(Struct, frozen=True):
    """The settings of the whole file; `master_key` is None only in local mode without `master_key_env`."""

    mode: Mode = Mode.LOCAL
    public_url: str | None = None
    """The canonical form: scheme, host, port unless it is the scheme's default; no slash at the end."""
    master_key: Secret | None = None
    master_key_origin: str = ""
    """The variable, the file or the credential that contained the key, for messages."""
    store: PostgresqlAddress | None = None
    """The database of players and saves; None for SQLite in the data folder."""
    checkpoints: Checkpoints = Checkpoints.OWN
    providers: Mapping[str, Provider] = field(default_factory=dict)
    """The providers in the order of the file; none in local mode."""
    session: SessionLifetimes = SessionLifetimes()
    login: LoginSettings = LoginSettings()
    limits: AuthLimits = AuthLimits()
    server_name: str | None = None
    look: Look | None = None
    trusted_proxies: tuple[Network, ...] = LOOPBACK
    """Peers whose X-Forwarded-For is trusted; unix sockets are always trusted."""
    cors_origins: tuple[str, ...] = ()
    notify: Notify | None = None
    ticket_audiences: Mapping[str, TicketAudience] = field(default_factory=dict)
    """The other servers for which players may get tickets, by their exact names; none: tickets are off."""
    backup_seconds: int | None = None
    """After how long a backup is too old; None if other tools make the backups."""
