"""The development provider emulates the presets, with their registered clients and their sample accounts."""

from collections.abc import Mapping
from re import ASCII, Pattern, compile

from msgspec import Struct

from gamed.crypto import Secret

Answer = tuple[int, Mapping[str, object]]
"""The status and the JSON of a response."""
REFUSAL = "unknown client or wrong client secret"
NOT_THE_CLIENT: Answer = (401, {"error": "invalid_client", "error_description": REFUSAL})


class EmulatedProvider(Struct, frozen=True):
    """One of the providers, with its requirements for a client."""

    name: str
    scope: str = "openid"
    """The only scope that it accepts; "" if it accepts none."""
    prompts: tuple[str, ...] = ()
    agent: Pattern[str] | None = None
    """The pattern that the User-Agent of the service must match; None: any that is not empty."""
    iss: bool = False
    """True if it adds `iss` to the callback (RFC 9207)."""
    parameters: Mapping[str, str] = {}
    """Further parameters that an authorization request must have, with their values."""
    tenants: bool = False
    """True if each tenant has an issuer of its own."""
    signed_secret: bool = False
    """True if the client secret is a JWT that the client's private key signs."""
    form_only: bool = False
    """True if it takes the client secret in the form only."""
    denial: str = "access_denied"
    """The `error` of a callback after the person said no."""
    unknown_client: Answer = NOT_THE_CLIENT
    wrong_secret: Answer = NOT_THE_CLIENT
    tokens: Mapping[str, object] = {}
    """The members of its token response beside `access_token` and `id_token`."""
    document: Mapping[str, object] = {}
    """The members of its discovery document beside its addresses and those that all have."""

    @property
    def side(self) -> str:
        return self.name.lower()

    @property
    def openid(self) -> bool:
        """Return True for OpenID Connect: it needs a nonce, and signs an ID token."""
        return self.scope == "openid"


DISCORD = EmulatedProvider(
    "Discord",
    scope="identify",
    prompts=("consent", "none"),
    agent=compile(r"DiscordBot \(https?://[^ ,]+, [^ )]+\).*", ASCII),
    tokens={"token_type": "Bearer", "expires_in": 604800, "refresh_token": "unused", "scope": "identify"},
)
GOOGLE = EmulatedProvider(
    "Google",
    prompts=("none", "consent", "select_account"),
    iss=True,
    tokens={"expires_in": 3599, "scope": "openid", "token_type": "Bearer"},
    document={
        "response_modes_supported": ["query"],
        "token_endpoint_auth_methods_supported": ["client_secret_post", "client_secret_basic"],
        "claims_supported": ["aud", "exp", "iat", "iss", "sub"],
        "code_challenge_methods_supported": ["S256"],
        "grant_types_supported": ["authorization_code"],
        "authorization_response_iss_parameter_supported": True,
    },
)
REFUSED = "The client_id and/or client_secret passed are incorrect."
REFUSED_BY_GITHUB: Answer = (200, {"error": "incorrect_client_credentials", "error_description": REFUSED})
GITHUB = EmulatedProvider(
    "GitHub",
    scope="",
    prompts=("select_account",),
    form_only=True,
    unknown_client=REFUSED_BY_GITHUB,
    wrong_secret=REFUSED_BY_GITHUB,
    tokens={"scope": "", "token_type": "bearer"},
)
TWITCH = EmulatedProvider(
    "Twitch",
    parameters={"force_verify": "true"},
    form_only=True,
    unknown_client=(400, {"status": 400, "message": "invalid client"}),
    wrong_secret=(403, {"status": 403, "message": "invalid client secret"}),
    tokens={"expires_in": 14124, "refresh_token": "unused", "scope": ["openid"], "token_type": "bearer"},
    document={
        "token_endpoint_auth_methods_supported": ["client_secret_post"],
        "claims_supported": ["aud", "azp", "exp", "iat", "iss", "sub"],
    },
)
MICROSOFT = EmulatedProvider(
    "Microsoft",
    prompts=("select_account", "login"),
    tenants=True,
    tokens={"token_type": "Bearer", "scope": "openid profile email", "expires_in": 3600, "ext_expires_in": 3600},
    document={
        "token_endpoint_auth_methods_supported": ["client_secret_post", "private_key_jwt", "client_secret_basic"],
        "cloud_instance_name": "microsoftonline.com",
    },
)
APPLE = EmulatedProvider(
    "Apple",
    parameters={"response_mode": "query"},
    form_only=True,
    signed_secret=True,
    denial="user_cancelled_authorize",
    tokens={"token_type": "Bearer", "expires_in": 3600, "refresh_token": "unused"},
    document={"token_endpoint_auth_methods_supported": ["client_secret_post"]},
)
SIDES = {"github": GITHUB, "twitch": TWITCH, "microsoft": MICROSOFT, "apple": APPLE}
"""The providers whose endpoints are below `/NAME/` of the development provider's address."""
EMULATED = {"discord": DISCORD, "google": GOOGLE, **SIDES}
"""The providers at which a client is registered."""
STEAM = EmulatedProvider("Steam", scope="")


class Client(Struct, frozen=True):
    """An application as registered at one of the providers."""

    provider: EmulatedProvider
    client_id: str
    client_secret: Secret
    """The private key in PEM, where the client signs its secrets."""
    redirect_uris: frozenset[str]
    """Compared byte for byte."""


PERSONAL = "9188040d-6c67-4c5b-b112-36a304b66dad"
WORK = "8eaef023-2b34-4da1-9baa-8bc8c9d6a490"
"""Microsoft's tenant of personal accounts, and one of an organization."""


TEAM_ID, KEY_ID = "DEF123GHIJ", "ABC123DEFG"
"""Apple's names of the developer and of the key."""


class SamplePerson(Struct, frozen=True):
    """A person with an account at every provider, the same at every start."""

    key: str
    name: str
    subjects: Mapping[str, str]
    """The subjects of this person's accounts by the names of EMULATED: digits, with Microsoft's tenant and `sub`."""


KEYS = ("anna", "bo", "chidi", "dilek")
SUBJECTS: Mapping[str, tuple[str, str, str, str]] = {
    "discord": ("80351110224678912", "175928847299117063", "1024512345678901234", "999999999999999999"),
    "google": ("110169484474386276334", "104872013365918274650", "117263540918273645091", "100000000000000000007"),
    "github": ("583231", "9919", "178205117", "7"),
    "twitch": ("44322889", "713936733", "12826", "7"),
    "microsoft": (
        f"{PERSONAL}/AAAAAAAAAAAAAAAAAAAAAIkzqFVrSaSaFHy782bbtaQ",
        f"{PERSONAL}/AAAAAAAAAAAAAAAAAAAAABmxvsVrSa7aFHy782bbt0b",
        f"{WORK}/HKZpfaHyWadeOouYlitjrI-KfTm222X5rrV3xDqfKQ",
        f"{WORK}/l3_roISQU222bULS9yi2k0XpqpOiMz5H3ZACo1GeXA",
    ),
    "apple": (
        "000792.d71059495fa24644b94e4a644e2e3b4a.0638",
        "001184.0b6a3f2c9d8e4f17a5b6c7d8e9f0a1b2.1204",
        "000003.5c4b3a2918070f6e5d4c3b2a19080716.2359",
        "001999.ffffffffffffffffffffffffffffffff.0000",
    ),
    "steam": ("76561197960287930", "76561198006409530", "76561197968052866", "76561199999999999"),
}
"""The subjects of the sample people at each provider, in the order of KEYS."""
PEOPLE = tuple(
    SamplePerson(key, key.title(), {name: subjects[number] for name, subjects in SUBJECTS.items()})
    for number, key in enumerate(KEYS)
)
BY_KEY = {person.key: person for person in PEOPLE}
