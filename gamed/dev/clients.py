"""The development provider emulates the presets, with their registered clients and their sample accounts."""

from collections.abc import Mapping
from re import ASCII, Pattern, compile

from msgspec import Struct

from gamed.crypto import Secret


class EmulatedProvider(Struct, frozen=True):
    """One of the providers, with its requirements for a client."""

    name: str
    scope: str
    """The only scope that it accepts; "" if it accepts none."""
    prompts: frozenset[str]
    agent: Pattern[str] | None
    """The pattern that the User-Agent of the service must match; None: any that is not empty."""
    openid: bool
    """True for OpenID Connect: it needs a nonce, and signs an ID token."""
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


DISCORD = EmulatedProvider(
    "Discord",
    "identify",
    frozenset({"consent", "none"}),
    compile(r"DiscordBot \(https?://[^ ,]+, [^ )]+\).*", ASCII),
    openid=False,
)
GOOGLE = EmulatedProvider(
    "Google", "openid", frozenset({"none", "consent", "select_account"}), None, openid=True, iss=True
)
GITHUB = EmulatedProvider("GitHub", "", frozenset({"select_account"}), None, openid=False, form_only=True)
TWITCH = EmulatedProvider(
    "Twitch", "openid", frozenset(), None, openid=True, parameters={"force_verify": "true"}, form_only=True
)
MICROSOFT = EmulatedProvider(
    "Microsoft", "openid", frozenset({"select_account", "login"}), None, openid=True, form_only=True, tenants=True
)
APPLE = EmulatedProvider(
    "Apple",
    "openid",
    frozenset(),
    None,
    openid=True,
    parameters={"response_mode": "query"},
    form_only=True,
    signed_secret=True,
)
SIDES = {"github": GITHUB, "twitch": TWITCH, "microsoft": MICROSOFT, "apple": APPLE}
"""The providers whose endpoints are below `/NAME/` of the development provider's address."""
EMULATED = {"discord": DISCORD, "google": GOOGLE, **SIDES}
"""The providers at which a client is registered."""
STEAM = EmulatedProvider("Steam", "", frozenset(), None, openid=False)


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

    @property
    def discord_id(self) -> str:
        return self.subjects["discord"]

    @property
    def google_sub(self) -> str:
        return self.subjects["google"]


PEOPLE = (
    SamplePerson(
        "anna",
        "Anna",
        {
            "discord": "80351110224678912",
            "google": "110169484474386276334",
            "github": "583231",
            "twitch": "44322889",
            "microsoft": f"{PERSONAL}/AAAAAAAAAAAAAAAAAAAAAIkzqFVrSaSaFHy782bbtaQ",
            "apple": "000792.d71059495fa24644b94e4a644e2e3b4a.0638",
            "steam": "76561197960287930",
        },
    ),
    SamplePerson(
        "bo",
        "Bo",
        {
            "discord": "175928847299117063",
            "google": "104872013365918274650",
            "github": "9919",
            "twitch": "713936733",
            "microsoft": f"{PERSONAL}/AAAAAAAAAAAAAAAAAAAAABmxvsVrSa7aFHy782bbt0b",
            "apple": "001184.0b6a3f2c9d8e4f17a5b6c7d8e9f0a1b2.1204",
            "steam": "76561198006409530",
        },
    ),
    SamplePerson(
        "chidi",
        "Chidi",
        {
            "discord": "1024512345678901234",
            "google": "117263540918273645091",
            "github": "178205117",
            "twitch": "12826",
            "microsoft": f"{WORK}/HKZpfaHyWadeOouYlitjrI-KfTm222X5rrV3xDqfKQ",
            "apple": "000003.5c4b3a2918070f6e5d4c3b2a19080716.2359",
            "steam": "76561197968052866",
        },
    ),
    SamplePerson(
        "dilek",
        "Dilek",
        {
            "discord": "999999999999999999",
            "google": "100000000000000000007",
            "github": "7",
            "twitch": "7",
            "microsoft": f"{WORK}/l3_roISQU222bULS9yi2k0XpqpOiMz5H3ZACo1GeXA",
            "apple": "001999.ffffffffffffffffffffffffffffffff.0000",
            "steam": "76561199999999999",
        },
    ),
)
BY_KEY = {person.key: person for person in PEOPLE}
