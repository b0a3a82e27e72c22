"""The development provider emulates two providers, with their registered clients and their sample accounts."""

from re import ASCII, Pattern, compile

from msgspec import Struct

from gamed.crypto import Secret


class EmulatedProvider(Struct, frozen=True):
    """One of the two providers, with its requirements for a client."""

    name: str
    scope: str
    """The only scope that it accepts."""
    prompts: frozenset[str]
    agent: Pattern[str] | None
    """The pattern that the User-Agent of the service must match; None: any that is not empty."""
    openid: bool
    """True for OpenID Connect: it needs a nonce, adds `iss` to the callback (RFC 9207), and signs an ID token."""


DISCORD = EmulatedProvider(
    "Discord",
    "identify",
    frozenset({"consent", "none"}),
    compile(r"DiscordBot \(https?://[^ ,]+, [^ )]+\).*", ASCII),
    openid=False,
)
GOOGLE = EmulatedProvider("Google", "openid", frozenset({"none", "consent", "select_account"}), None, openid=True)


class Client(Struct, frozen=True):
    """An application as registered at one of the providers."""

    provider: EmulatedProvider
    client_id: str
    client_secret: Secret
    redirect_uris: frozenset[str]
    """Compared byte for byte."""


class SamplePerson(Struct, frozen=True):
    """A person with an account at both providers, the same at every start."""

    key: str
    name: str
    discord_id: str
    """A snowflake: digits."""
    google_sub: str
    """21 digits."""


PEOPLE = (
    SamplePerson("anna", "Anna", "80351110224678912", "110169484474386276334"),
    SamplePerson("bo", "Bo", "175928847299117063", "104872013365918274650"),
    SamplePerson("chidi", "Chidi", "1024512345678901234", "117263540918273645091"),
    SamplePerson("dilek", "Dilek", "999999999999999999", "100000000000000000007"),
)
BY_KEY = {person.key: person for person in PEOPLE}
