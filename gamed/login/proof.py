"""The return proof: what shows that the browser and the game belong together (PROTOCOL 3.4)."""

from collections.abc import Iterator
from enum import Enum

from msgspec import Struct

from gamed.crypto import Random, Secret
from gamed.structs import hides
from gamed.tokens import base64url

ALPHABET = "BCDFGHJKLMNPQRSTVWXZ"
"""No vowels: no words; no letters or digits that are taken for each other."""
CODE_LETTERS = 6
TICKET_BYTES = 32
MAX_WRONG_CODES = 5
_FAIR = 256 - 256 % len(ALPHABET)


class ProofKind(Enum):
    TICKET = "ticket"
    FINISH_CODE = "finish_code"


class Presented(Struct, frozen=True):
    """What a game sends along with a collect."""

    kind: ProofKind
    value: Secret

    @classmethod
    def ticket(cls, text: str) -> "Presented":
        return cls(ProofKind.TICKET, Secret(text.encode()))

    @classmethod
    def finish_code(cls, text: str) -> "Presented":
        """Case, dashes and spaces do not matter: people type what they see."""
        letters = "".join(c for c in text.upper() if c not in " -\u2010\u2011\u2012\u2013\u2014\u2212")
        return cls(ProofKind.FINISH_CODE, Secret(letters.encode()))


@hides("ticket", "finish_code")
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

    def proven_by(self, presented: Presented) -> bool:
        expected = self.ticket if presented.kind is ProofKind.TICKET else self.finish_code
        return expected.matches(presented.value)


def _letters(random: Random) -> str:
    """Each letter equally likely: bytes that would favour some are drawn again."""
    drawn = _bytes(random)
    return "".join(ALPHABET[next(drawn) % len(ALPHABET)] for _ in range(CODE_LETTERS))


def _bytes(random: Random) -> Iterator[int]:
    while True:
        yield from (byte for byte in random(CODE_LETTERS) if byte < _FAIR)
