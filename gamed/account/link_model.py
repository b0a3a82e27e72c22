"""The values of links that are valid once: an invite admits one new player, a reset link sets one password."""

from msgspec import Struct

from gamed.crypto import ID_BYTES, Index, Indexer, Purpose, Random, base64url, public_id
from gamed.structs import redacts

TOKEN_BYTES = 16
TOKEN_CHARACTERS = 22


@redacts("token")
class NewLink(Struct, frozen=True):
    """A link that the owner hands out: the token is shown once; instants in epoch milliseconds."""

    token: str
    created_ms: int
    expires_ms: int

    @classmethod
    def generate(cls, random: Random, now_ms: int, seconds: int) -> "NewLink":
        """Return a link with a token of 128 random bits."""
        return cls(base64url(random(TOKEN_BYTES)), now_ms, now_ms + 1000 * seconds)


class Link(Struct, frozen=True):
    """The columns that both tables have."""

    expires_ms: int
    ended_ms: int | None

    def is_open(self, now_ms: int) -> bool:
        return self.ended_ms is None and now_ms < self.expires_ms


class Invite(Link, frozen=True):
    """An invite; `name` is the one that the owner suggests."""

    invite_id: str
    name: str | None
    created_ms: int


class ResetLink(Link, frozen=True):
    """A reset link, with the player and the state of the player."""

    player_id: str
    state: str


def new_invite_id(random: Random) -> str:
    return public_id("inv", random(ID_BYTES))


def link_index(indexer: Indexer, purpose: Purpose, token: str) -> Index | None:
    """Return the index of a token from a URL; None if it does not have the form of one."""
    well_formed = len(token) == TOKEN_CHARACTERS and token.isascii()
    return indexer.index(purpose, token.encode()) if well_formed else None
