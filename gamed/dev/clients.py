"""The two providers that are played, and who is registered there.

The sample players: who one can be at the development provider.
"""

from re import ASCII, Pattern, compile

from msgspec import Struct

from gamed.crypto import Secret


class EmulatedProvider(Struct, frozen=True):
    """What one of the two providers asks of a client."""

    name: str
    scope: str
    """The only one it is ever asked for here."""
    prompts: frozenset[str]
    agent: Pattern[str] | None
    """What the User-Agent of the service must look like; None: anything that is not empty."""
    openid: bool
    """Whether it speaks OpenID Connect: wants a nonce, names itself in the callback (RFC 9207), signs an ID token."""


DISCORD = EmulatedProvider(
    "Discord",
    "identify",
    frozenset({"consent", "none"}),
    compile(r"DiscordBot \(https?://[^ ,]+, [^ )]+\).*", ASCII),
    openid=False,
)
GOOGLE = EmulatedProvider("Google", "openid", frozenset({"none", "consent", "select_account"}), None, openid=True)


class Client(Struct, frozen=True):
    """An application as it is registered at one side's console."""

    side: EmulatedProvider
    client_id: str
    client_secret: Secret
    redirect_uris: frozenset[str]
    """Compared byte for byte."""


class SamplePerson(Struct, frozen=True):
    """Somebody with an account at both providers; the same at every start."""

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
