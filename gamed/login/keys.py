"""The ids and the token of a login, and under what they are found (PROTOCOL 3.1).

The return proof: what shows that the browser and the game belong together (PROTOCOL 3.4).

What a browser has proved about who it is; sealed from `ready` until the first collect (PROTOCOL 3).

The short code by which an owner finds the newcomer who waits (PROTOCOL 3.5 `player_pending`).

A newcomer whom the owner has to approve: the short code that both of them see (PROTOCOL 3.5 `player_pending`).
"""

from collections.abc import Iterator
from enum import Enum
from typing import Literal

import msgspec
from msgspec import Struct

from gamed.crypto import Index, Indexer, Keys, Purpose, Random, Secret
from gamed.login.transaction import LoginTransaction
from gamed.structs import redacts
from gamed.tokens import ID_BYTES, MalformedToken, TokenType, base64url, parse_token, public_id

LOCAL = "local"
"""What stands for a provider in local mode."""
_TOKEN_BYTES = 16


class LoginLookup(Struct, frozen=True):
    """One of the three ways to a login's row."""

    column: Literal["login_id", "secret_index", "token_index"]
    value: str | Index

    @classmethod
    def id(cls, login_id: str) -> "LoginLookup":
        return cls("login_id", login_id)

    @classmethod
    def secret(cls, index: Index) -> "LoginLookup":
        return cls("secret_index", index)

    @classmethod
    def token(cls, indexer: Indexer, token: str) -> "LoginLookup":
        return cls("token_index", token_index(indexer, token))


def new_login_id(random: Random) -> str:
    return public_id("lgn", random(ID_BYTES))


def login_token(indexer: Indexer, login_id: str) -> str:
    """The token of `login_url`: whoever has the key can tell it from the id, so that it need not be kept."""
    return base64url(indexer.index(Purpose.LOGIN_TOKEN, b"of", login_id.encode())[:_TOKEN_BYTES])


def token_index(indexer: Indexer, token: str) -> Index:
    return indexer.index(Purpose.LOGIN_TOKEN, token.encode())


def secret_index(indexer: Indexer, secret: Secret) -> Index:
    return indexer.index(Purpose.DEVICE_SECRET, secret.reveal())


def index_of_device(indexer: Indexer, text: str | None) -> Index | None:
    """Where the login of a presented device secret is found; None when it cannot be one."""
    try:
        return None if text is None else secret_index(indexer, parse_token(TokenType.DEVICE_SECRET, text))
    except MalformedToken:
        return None


ALPHABET = "BCDFGHJKLMNPQRSTVWXZ"
"""No vowels: no words; no letters or digits that are taken for each other."""
CODE_LETTERS = 6
TICKET_BYTES = 32
MAX_WRONG_CODES = 5
_FAIR = 256 - 256 % len(ALPHABET)


class ProofKind(Enum):
    TICKET = "ticket"
    FINISH_CODE = "finish_code"


class PresentedProof(Struct, frozen=True):
    """What a game sends along with a collect."""

    kind: ProofKind
    value: Secret

    @classmethod
    def ticket(cls, text: str) -> "PresentedProof":
        return cls(ProofKind.TICKET, Secret(text.encode()))

    @classmethod
    def finish_code(cls, text: str) -> "PresentedProof":
        """Case, dashes and spaces do not matter: people type what they see."""
        letters = "".join(c for c in text.upper() if c not in " -\u2010\u2011\u2012\u2013\u2014\u2212")
        return cls(ProofKind.FINISH_CODE, Secret(letters.encode()))


@redacts("ticket", "finish_code")
class ReturnProof(Struct, frozen=True):
    """Both halves of one login: the ticket travels through the loopback port, the code through a person."""

    ticket: Secret
    finish_code: Secret

    @classmethod
    def mint(cls, random: Random) -> "ReturnProof":
        return cls(Secret(base64url(random(TICKET_BYTES)).encode()), Secret(_letters(random).encode()))

    @classmethod
    def from_bytes(cls, raw: bytes) -> "ReturnProof":
        return cls(Secret(raw[CODE_LETTERS:]), Secret(raw[:CODE_LETTERS]))

    def to_bytes(self) -> bytes:
        """For sealing: the six letters, then the ticket."""
        return self.finish_code.reveal() + self.ticket.reveal()

    def shown(self) -> str:
        """The finish code for a page, as `BKT-RVW`."""
        code = self.finish_code.reveal().decode()
        return f"{code[:3]}-{code[3:]}"

    def proven_by(self, presented: PresentedProof) -> bool:
        expected = self.ticket if presented.kind is ProofKind.TICKET else self.finish_code
        return expected.matches(presented.value)


def _letters(random: Random) -> str:
    """Each letter equally likely: bytes that would favour some are drawn again."""
    drawn = _bytes(random)
    return "".join(ALPHABET[next(drawn) % len(ALPHABET)] for _ in range(CODE_LETTERS))


def _bytes(random: Random) -> Iterator[int]:
    while True:
        yield from (byte for byte in random(CODE_LETTERS) if byte < _FAIR)


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
    """The index of what gave it; see gamed.providers.discovery."""
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


def seal_identity(keys: Keys, random: Random, login_id: str, identified: Identified) -> tuple[bytes, bytes]:
    """Sealed for this login: who it is, and a fresh proof for the browser to carry to the game."""
    identity = keys.sealer.seal(Purpose.IDENTIFIED, login_id, to_bytes(identified))
    return identity, keys.sealer.seal(Purpose.PROOF, login_id, ReturnProof.mint(random).to_bytes())


_BASE = len(ALPHABET)


def approval_code(indexer: Indexer, player_id: str) -> str:
    """`BKT-RVW`: always the same for one player, and it opens nothing."""
    number = int.from_bytes(indexer.index(Purpose.APPROVAL, player_id.encode()), "big")
    letters = "".join(ALPHABET[number // _BASE**place % _BASE] for place in range(CODE_LETTERS))
    return f"{letters[:3]}-{letters[3:]}"


def same_code(code: str, typed: str) -> bool:
    """Case, dashes and spaces do not matter: people type what they are told."""
    return code.replace("-", "") == "".join(letter for letter in typed.upper() if letter not in " -\u2010\u2011\u2013")


def login_approval_code(indexer: Indexer, login: LoginTransaction) -> str | None:
    """None unless the login ended with a newcomer who waits."""
    return None if login.pending_id is None else approval_code(indexer, login.pending_id)
