"""Recovery codes: their form, and how a typed one is found again.

A code has 20 letters, 86 random bits. auth.db has only its index, under the player's id: so a code is none of another
player, and a copy of the database without the key tells nothing about it.
"""

from collections.abc import Sequence
from typing import Final, Self

from msgspec import Struct

from gamed.crypto import Index, Indexer, Purpose, Random
from gamed.letter_codes import in_groups, random_letters, typed_letters
from gamed.passkeys.limits import CODES
from gamed.structs import redacts

LETTERS: Final = 20
GROUP: Final = 5
TYPED_CHARACTERS: Final = 100
"""A longer text is no code, whatever stands between its letters."""


@redacts("codes")
class RecoveryCodes(Struct, frozen=True):
    """New codes as the page shows them once, and the name that is typed with one."""

    codes: Sequence[str]
    account: str = ""

    @classmethod
    def generate(cls, random: Random) -> Self:
        return cls([in_groups(random_letters(random, LETTERS), GROUP) for _ in range(CODES)])


class CodeStock(Struct, frozen=True):
    """The codes that a player has left; `version` names them: another one follows when they are replaced."""

    left: int
    version: str


def code_index(indexer: Indexer, player_id: str, typed: str) -> Index:
    """Return the index of a code as a person types it: case, spaces and dashes do not count.

    A text that cannot be a code has an index, too, so that it takes the same time.
    """
    letters = typed_letters(typed) if len(typed) <= TYPED_CHARACTERS else ""
    return indexer.index(Purpose.RECOVERY_CODE, player_id.encode(), letters.encode("utf-8", "replace"))
