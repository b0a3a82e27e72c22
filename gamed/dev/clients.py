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
SIDES = {"github": GITHUB, "twitch": TWITCH}
"""The providers whose endpoints are below `/NAME/` of the development provider's address."""
EMULATED = {"discord": DISCORD, "google": GOOGLE, **SIDES}


class Client(Struct, frozen=True):
    """An application as registered at one of the providers."""

    provider: EmulatedProvider
    client_id: str
    client_secret: Secret
    redirect_uris: frozenset[str]
    """Compared byte for byte."""


class SamplePerson(Struct, frozen=True):
    """A person with an account at every provider, the same at every start."""

    key: str
    name: str
    discord_id: str
    """A snowflake: digits."""
    google_sub: str
    """21 digits."""
    github_id: int
    twitch_id: int

    @property
    def subjects(self) -> Mapping[str, str]:
        """Return the subjects of this person's accounts by the names of EMULATED."""
        return {
            "discord": self.discord_id,
            "google": self.google_sub,
            "github": str(self.github_id),
            "twitch": str(self.twitch_id),
        }


PEOPLE = (
    SamplePerson("anna", "Anna", "80351110224678912", "110169484474386276334", 583231, 44322889),
    SamplePerson("bo", "Bo", "175928847299117063", "104872013365918274650", 9919, 713936733),
    SamplePerson("chidi", "Chidi", "1024512345678901234", "117263540918273645091", 178205117, 12826),
    SamplePerson("dilek", "Dilek", "999999999999999999", "100000000000000000007", 7, 7),
)
BY_KEY = {person.key: person for person in PEOPLE}
