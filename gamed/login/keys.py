"""The ids, tokens, proofs and codes of a login are made, checked and encoded here.

See docs/protocol.md: Start, Collect.
"""

from collections.abc import Iterator
from enum import Enum
from typing import Literal

import msgspec
from msgspec import Struct

from gamed.crypto import (
    ID_BYTES,
    Index,
    Indexer,
    Keys,
    MalformedToken,
    Purpose,
    Random,
    Secret,
    TokenType,
    base64url,
    parse_token,
    public_id,
)
from gamed.letter_codes import in_groups, random_letters, typed_letters
from gamed.structs import redacts

LOCAL = "local"
"""The provider name of logins in local mode."""
_TOKEN_BYTES = 16


class LoginLookup(Struct, frozen=True):
    """A column that identifies a login, and its value."""

    column: Literal["login_id", "secret_index", "token_index"]
    value: str | Index

    @classmethod
    def token(cls, indexer: Indexer, token: str) -> "LoginLookup":
        return cls("token_index", token_index(indexer, token))


def new_login_id(random: Random) -> str:
    return public_id("lgn", random(ID_BYTES))


def login_token(indexer: Indexer, login_id: str) -> str:
    """Return the token of `login_url`; it is derived from the id, so that the database need not hold it."""
    return base64url(indexer.index(Purpose.LOGIN_TOKEN, b"of", login_id.encode())[:_TOKEN_BYTES])


def token_index(indexer: Indexer, token: str) -> Index:
    return indexer.index(Purpose.LOGIN_TOKEN, token.encode())


def secret_index(indexer: Indexer, secret: Secret) -> Index:
    return indexer.index(Purpose.DEVICE_SECRET, secret.reveal())


def presented_secret_index(indexer: Indexer, text: str | None) -> Index | None:
    """Return the index of a device secret that a client sent, or None if the text is malformed."""
    try:
        return None if text is None else secret_index(indexer, parse_token(TokenType.DEVICE_SECRET, text))
    except MalformedToken:
        return None


CODE_LETTERS = 6
TICKET_BYTES = 32
MAX_WRONG_CODES = 5


class ProofKind(Enum):
    """The kind of proof that a game sends."""

    TICKET = "ticket"
    FINISH_CODE = "finish_code"


class PresentedProof(Struct, frozen=True):
    """The proof that a game sends with a collect."""

    kind: ProofKind
    value: Secret

    @classmethod
    def ticket(cls, text: str) -> "PresentedProof":
        return cls(ProofKind.TICKET, Secret(text.encode()))

    @classmethod
    def finish_code(cls, text: str) -> "PresentedProof":
        """Return the proof of a typed code, without regard to case, dashes and spaces."""
        return cls(ProofKind.FINISH_CODE, Secret(typed_letters(text).encode()))


@redacts("ticket", "finish_code")
class ReturnProof(Struct, frozen=True):
    """The two proofs of one login: the loopback redirect carries the ticket, the player types the finish code."""

    ticket: Secret
    finish_code: Secret

    @classmethod
    def generate(cls, random: Random) -> "ReturnProof":
        """Return new proofs; each letter of the code is equally likely."""
        ticket = Secret(base64url(random(TICKET_BYTES)).encode())
        return cls(ticket, Secret(random_letters(random, CODE_LETTERS).encode()))

    @classmethod
    def from_bytes(cls, raw: bytes) -> "ReturnProof":
        return cls(Secret(raw[CODE_LETTERS:]), Secret(raw[:CODE_LETTERS]))

    def to_bytes(self) -> bytes:
        """Return the six letters and the ticket, to be sealed."""
        return self.finish_code.reveal() + self.ticket.reveal()

    def formatted_code(self) -> str:
        """Return the finish code as a page shows it: `BKT-RVW`."""
        return in_groups(self.finish_code.reveal().decode(), 3)

    def matches(self, presented: PresentedProof) -> bool:
        expected = self.ticket if presented.kind is ProofKind.TICKET else self.finish_code
        return expected.matches(presented.value)


@redacts("password_tag")
class ExistingAccount(msgspec.Struct, frozen=True, tag="existing"):
    """A player of this server who typed their password."""

    player_id: str
    password_tag: bytes = b""
    """Which password it was (gamed.players.tables); empty if a process before these tags has sealed this."""


class PasskeyAccount(msgspec.Struct, frozen=True, tag="passkey"):
    """A player of this server whose passkey has signed the challenge.

    It has a tag of its own, so that a process before passkeys cannot read it during an upgrade: it would open a session
    that does not end with the passkey. Another process ends that login.
    """

    player_id: str
    passkey_id: str


class RecoveryAccount(msgspec.Struct, frozen=True, tag="recovery"):
    """A player of this server who typed a recovery code; the first collect uses it up.

    Its tag is its own for the reason of PasskeyAccount's: a process before recovery codes would not use the code up.
    """

    player_id: str
    code_index: bytes

    def __repr__(self) -> str:
        return "RecoveryAccount(...)"


class NewAccount(msgspec.Struct, frozen=True, tag="new"):
    """A local account that the first collect creates; nothing lasting is written before it."""

    name: str
    password_hash: str
    """argon2id, PHC string."""
    display_name: str | None = None

    def __repr__(self) -> str:
        return "NewAccount(...)"


class ProviderIdentity(msgspec.Struct, frozen=True, tag="provider"):
    """An account at a provider; the first collect reads to which player it belongs."""

    index: bytes
    """The index of the identity."""
    realm: bytes
    """The index of its namespace (gamed.providers.discovery)."""
    player_id: str | None = None
    """The player whose name and password were typed before, when a local account is adopted."""
    display_name: str | None = None
    """The display name for a new player."""
    asked_again: bool = False
    """The provider has proved that it asked the player to sign in."""

    def __repr__(self) -> str:
        return "ProviderIdentity(...)"


Identified = ExistingAccount | PasskeyAccount | RecoveryAccount | NewAccount | ProviderIdentity
_DECODER: msgspec.json.Decoder[Identified] = msgspec.json.Decoder(Identified)


def decode_identity(raw: bytes) -> Identified:
    return _DECODER.decode(raw)


def seal_identity(keys: Keys, random: Random, login_id: str, identified: Identified) -> tuple[bytes, bytes]:
    """Return the identity and new proofs, both sealed for this login until its first collect."""
    identity = keys.sealer.seal(Purpose.IDENTIFIED, login_id, msgspec.json.encode(identified))
    return identity, keys.sealer.seal(Purpose.PROOF, login_id, ReturnProof.generate(random).to_bytes())


APPROVAL_DIGITS = 6
APPROVAL_TRIES = 64
"""Five digits are free to choose: while half of these 100,000 codes are taken, 64 tries fail once in 2^64."""


def approval_codes(indexer: Indexer, player_id: str) -> Iterator[str]:
    """Yield the codes `482917` that a new player may get; the first one that no other player has is theirs.

    The last digit is a check digit (ISO/IEC 7812-1), so one wrong digit never gives the code of another player.
    """
    for number in range(APPROVAL_TRIES):
        index = indexer.index(Purpose.APPROVAL, player_id.encode(), number.to_bytes(1, "big"))
        digits = f"{int.from_bytes(index[:8], 'big') % 10 ** (APPROVAL_DIGITS - 1):0{APPROVAL_DIGITS - 1}}"
        yield f"{digits}{_check_digit(digits)}"


def _check_digit(digits: str) -> int:
    """Return the digit with which the sum is a multiple of ten; every second digit from the right counts twice."""
    doubled = (2 * int(digit) if place % 2 == 0 else int(digit) for place, digit in enumerate(reversed(digits)))
    return -sum(value // 10 + value % 10 for value in doubled) % 10


def typed_approval_code(typed: str) -> str | None:
    """Return the approval code that the owner typed, without dashes and spaces; None if it is another text."""
    digits = "".join(character for character in typed if character not in " -\u2010\u2011\u2013")
    return digits if len(digits) == APPROVAL_DIGITS and digits.isascii() and digits.isdigit() else None
