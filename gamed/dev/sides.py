"""The two providers that are played, and who is registered there."""

from re import ASCII, Pattern, compile

from msgspec import Struct

from gamed.crypto import Secret


class Side(Struct, frozen=True):
    """What one of the two providers asks of a client."""

    name: str
    scope: str
    """The only one it is ever asked for here."""
    prompts: frozenset[str]
    agent: Pattern[str] | None
    """What the User-Agent of the service must look like; None: anything that is not empty."""
    openid: bool
    """Whether it speaks OpenID Connect: wants a nonce, names itself in the callback (RFC 9207), signs an ID token."""


DISCORD = Side(
    "Discord",
    "identify",
    frozenset({"consent", "none"}),
    compile(r"DiscordBot \(https?://[^ ,]+, [^ )]+\).*", ASCII),
    openid=False,
)
GOOGLE = Side("Google", "openid", frozenset({"none", "consent", "select_account"}), None, openid=True)


class Client(Struct, frozen=True):
    """An application as it is registered at one side's console."""

    side: Side
    client_id: str
    client_secret: Secret
    redirect_uris: frozenset[str]
    """Compared byte for byte."""
