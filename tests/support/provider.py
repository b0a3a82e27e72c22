"""The development provider runs in memory for tests, with a clock that the test sets.

provider = development_provider(clock)
http = StubTreq(provider.app.resource())             # https://provider.example is there
callback = provider.sign_in(authorization_url, "anna")
[exchange] = provider.requests("/token")
"""

from itertools import count

from twisted.internet.task import Clock

from gamed.crypto import Secret
from gamed.dev.clients import DISCORD, EMULATED, GOOGLE, SIDES, Client
from gamed.dev.documents import new_key, new_signing_key
from gamed.dev.provider import DevelopmentProvider, RecordedRequest

BASE = "https://provider.example"
GAME = "https://game.example"
START_MS = 1_800_000_000_000
DISCORD_SECRET, GOOGLE_SECRET = "discord-secret/+%&=:", "GOCSPX-google_secret"
DISCORD_CLIENT = Client(DISCORD, "1024", Secret(DISCORD_SECRET.encode()), frozenset({f"{GAME}/auth/discord/callback"}))
GOOGLE_CLIENT = Client(
    GOOGLE, "1024.apps.example", Secret(GOOGLE_SECRET.encode()), frozenset({f"{GAME}/auth/google/callback"})
)
SIDE_SECRET = "side-secret"
SIGNING_KEY = new_signing_key()
RSA_KEY = new_key("development-1")
"""One for all tests of the process: to generate it takes 50 ms."""
SIDE_CLIENTS = tuple(
    Client(
        EMULATED[name],
        f"{name}-1024",
        Secret(SIGNING_KEY if EMULATED[name].signed_secret else SIDE_SECRET.encode()),
        frozenset({f"{GAME}/auth/{name}/callback"}),
    )
    for name in SIDES
)


class WatchedProvider(DevelopmentProvider):
    """With a question that tests ask."""

    def requests(self, path: str) -> list[RecordedRequest]:
        """Return the requests to this path, in order."""
        return [sent for sent in self.sent if sent.path == path]


def development_provider(clock: Clock | None = None, kind: type[WatchedProvider] = WatchedProvider) -> WatchedProvider:
    """`kind`: one that answers otherwise."""
    clock = clock or Clock()
    numbers = count(1)
    return kind(
        BASE,
        (DISCORD_CLIENT, GOOGLE_CLIENT, *SIDE_CLIENTS),
        clock,
        lambda: START_MS + int(clock.seconds() * 1000),
        lambda size: next(numbers).to_bytes(size, "big"),
        key=RSA_KEY,
    )
