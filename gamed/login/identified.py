"""What a browser has proved about who it is; sealed from `ready` until the first collect (PROTOCOL 3)."""

import msgspec

from gamed.crypto import Keys, Purpose, Random
from gamed.login.proof import ReturnProof


class ExistingAccount(msgspec.Struct, frozen=True, tag="existing"):
    """Someone this server knows."""

    player_id: str


class NewAccount(msgspec.Struct, frozen=True, tag="new"):
    """A local account that the first collect will make: nothing lasting is written before it."""

    name: str
    password_hash: str
    """argon2id, PHC string."""

    def __repr__(self) -> str:
        return "NewAccount(...)"


class ProviderIdentity(msgspec.Struct, frozen=True, tag="provider"):
    """An account at a provider. Whose it is here, and whether anyone's, is looked up when the game collects."""

    index: bytes
    """What the identity is found by."""
    realm: bytes
    """The index of what gave it; see gamed.identity.realm."""
    player_id: str | None = None
    """Whose name and password were typed before, for an account that is to be adopted."""

    def __repr__(self) -> str:
        return "ProviderIdentity(...)"


Identified = ExistingAccount | NewAccount | ProviderIdentity
_DECODER: msgspec.json.Decoder[Identified] = msgspec.json.Decoder(Identified)


def to_bytes(identified: Identified) -> bytes:
    return msgspec.json.encode(identified)


def from_bytes(raw: bytes) -> Identified:
    return _DECODER.decode(raw)


def seal(keys: Keys, random: Random, login_id: str, identified: Identified) -> tuple[bytes, bytes]:
    """Sealed for this login: who it is, and a fresh proof for the browser to carry to the game."""
    identity = keys.sealer.seal(Purpose.IDENTIFIED, login_id, to_bytes(identified))
    return identity, keys.sealer.seal(Purpose.PROOF, login_id, ReturnProof.mint(random).to_bytes())
