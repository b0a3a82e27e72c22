"""What the first proven collect made, kept sealed so that a lost answer can be given again (PROTOCOL 3.5)."""

import msgspec
from msgspec import Struct

from gamed.sessions import credentials
from gamed.sessions.credentials import Pair


class Result(Struct, frozen=True):
    """The credentials and whom they are for; session and provider stand in the login itself."""

    pair: Pair
    player_id: str
    created: bool
    """Whether this collect made the player."""
    owner: bool

    def to_bytes(self) -> bytes:
        """Only ever to be sealed."""
        return msgspec.json.encode((self.player_id, self.created, self.owner, credentials.to_bytes(self.pair)))

    @classmethod
    def from_bytes(cls, raw: bytes) -> "Result":
        player_id, created, owner, pair = _DECODER.decode(raw)
        return cls(credentials.from_bytes(pair), player_id, created, owner)


_DECODER = msgspec.json.Decoder(tuple[str, bool, bool, bytes])
